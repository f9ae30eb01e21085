//! Profiles: intervals are predicted where updates are likely. The fewest probes meet them, alone and under a
//! limit for all sources. This takes fewer probes than even spacing or spacing by age.

mod contest;
mod deadlines;
mod prediction;
