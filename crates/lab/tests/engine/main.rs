//! The engine, driven by simulations.

mod adaptive_policies;
mod allocators;
mod crash_suspects;
mod fleet;
mod fleet_bursts;
mod fleet_deadlines;
mod fleet_network;
mod fleet_plans;
mod fleet_prices;
mod fleet_rules;
mod fleet_slots;
mod fleet_total;
mod forecasts;
mod learned_feeds;
mod random_runs;
mod simulated_rules;
