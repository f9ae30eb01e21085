//! The built program as a process: its messages to systemd, its signals, its state after a kill, and the
//! output of its commands beside a running daemon.

mod clock_set_while_stopped;
mod commands;
mod crashes;
mod daemon;
mod deliveries;
mod descriptors;
mod forecasts;
mod hostile;
mod hostile_fleet;
mod killed;
mod killed_at_full_rate;
mod list_mistakes;
mod logs;
mod phases;
mod plans;
mod profiles;
mod restored;
mod secret_addresses;
mod signals;
mod store;
