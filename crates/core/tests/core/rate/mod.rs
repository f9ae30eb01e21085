//! Rates: that the integral is one, that evidence is kept, and that what is fitted comes near the
//! truth it was drawn from, within bounds that statistics gives and each test states.

mod censored;
mod fitting;
mod group;
mod history;
mod integral;
mod recovery;
mod truth;
