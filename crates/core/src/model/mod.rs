//! What we believe of one source: how often it is updated at each time of the week, and how much
//! that matters to the user.
//!
//! Evidence is collected in a [`history`], from which [`fit`] makes a [`cyclic`] rate λ(t); thin
//! evidence borrows from a group's [`aggregate`]; [`censored`] handles sources that only tell
//! *whether* they changed; [`residuals`] say how well a rate fits, [`burst`] when a source breaks
//! its rhythm, and [`drift`] by how much it publishes more or less than its rate has it. [`beliefs`] are all
//! that one source's probes have taught, and [`learn`] is how an observation becomes evidence. Pure: must not
//! know how probes are sent, planned or stored, nor what time it is.

pub mod aggregate;
pub mod beliefs;
pub mod burst;
pub mod censored;
pub mod cyclic;
pub mod drift;
pub mod estimate;
pub mod fit;
pub mod habits;
pub mod history;
pub mod importance;
pub mod learn;
pub mod obsolescence;
pub mod poisson;
pub mod pulse;
pub mod residuals;
pub mod steps;
pub mod week;
