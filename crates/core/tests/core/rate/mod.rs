//! Rates: the integral is exact, evidence is kept, and fits are near the true rates, within statistical
//! bounds that each test states.

mod censored;
mod fitting;
mod group;
mod history;
mod integral;
mod recovery;
mod relearning;
mod shows;
mod silence;
mod truth;
