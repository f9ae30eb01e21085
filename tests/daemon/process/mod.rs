//! The built program as a process: what it tells systemd, how it takes signals, what survives
//! being killed, and what its commands print beside a running daemon.

mod commands;
mod daemon;
mod hostile;
mod killed;
mod phases;
mod plans;
mod profiles;
mod signals;
mod store;
