//! Predicts the next updates of a source from its last ones, by a mix of predictors.
//!
//! A weekly rate resolves hours only. It misses a job at four minutes past the hour, a blog that was busy
//! this week, or updates that trigger others. Here each such pattern is a *predictor*: a rate λ_k(t)
//! computed from the updates before t ([`update_times`]), at the source's own level. May not know probe
//! times or bursts.
//!
//! The predicted rate is the mixture
//!
//! λ(t) = Σ_k θ_k λ_k(t), θ_k ≥ 0, Σ θ_k = 1.
//!
//! The self-exciting rate λ = (1 − ρ)λ_cyclic + ρ Σ β⁻¹e^(−(t − t_i)/β) is the case of two predictors, the
//! weekly rate and one *self-exciting* predictor. The likelihood is concave in θ, so expectation
//! maximisation finds the best weights from any start. Each predictor uses only earlier updates, so its
//! weight is how well it did so far. A predictor too fine for its evidence has a weight near zero.
//! Self-exciting predictors are kept only if they improve the prediction of updates held back from the fit.
//! A rate alone assumes independent updates; the `regular` module corrects the mixture for the time since
//! the last update.

pub mod mixture;
pub mod named;
pub mod predict;
mod predictors;
mod regular;
pub mod update_times;
pub mod weights;

#[cfg(test)]
mod tests;
