//! Profiles: that intervals are predicted where updates are likely, that the fewest probes serve them, alone
//! and under a limit for all sources, and that this takes fewer probes than looking evenly or by age.

mod contest;
mod deadlines;
mod prediction;
