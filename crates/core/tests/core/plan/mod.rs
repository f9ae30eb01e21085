//! Planning: intervals are satisfied with the fewest probes, and plans of a running source keep its budget.

mod execution;
mod rolling;
