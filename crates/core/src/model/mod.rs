//! The model of one source: its update rate over the week, and the importance of its updates.
//!
//! A [`history`] collects evidence; [`fit`] turns it into a [`cyclic`] rate λ(t). An [`aggregate`] of the
//! group supplements thin evidence. [`censored`] handles sources that only show *whether* they changed.
//! [`residuals`] measure the fit, [`burst`] detects deviations from the rate, [`rhythm_change`] a new rate, and
//! [`drift`] corrects its level. A [`source_model`] holds the state of one source, and [`learn`] turns an
//! observation into evidence. Most probes find no update and are part of a [`silence`]. A [`probe_log`] is learned again when settings changed. Pure: may not know how
//! probes are sent, planned or stored, nor the current time.

pub mod aggregate;
pub mod burst;
pub mod censored;
pub mod change_point_rate;
pub mod count_check;
pub mod cusum;
pub mod cyclic;
pub mod daily_profile;
pub mod drift;
pub mod evidence_totals;
pub mod fit;
pub mod fitted_rate;
pub mod habits;
pub mod history;
pub mod hourly_profile;
pub mod importance;
pub mod learn;
pub mod negative_binomial;
pub mod obsolescence;
pub mod poisson;
pub mod post_burst;
pub mod probe_forecast;
pub mod probe_log;
pub mod residuals;
pub mod rhythm_change;
pub mod silence;
pub mod source_model;
pub mod steps;
pub mod week;
