//! What a source is likely to do next, by several accounts of its last updates.
//!
//! A weekly rate tells hours apart. Real sources have habits that it cannot hold: a job that runs at
//! four minutes past the hour, a blog that was busy this week, an update that is seldom alone. Here
//! each such habit is an *account*: a rate λ_k(t) that follows from the [`diary`] before t alone, at the
//! source's own level. What is believed is their mixture,
//!
//! λ(t) = Σ_k θ_k λ_k(t), θ_k ≥ 0, Σ θ_k = 1,
//!
//! of which the self-exciting rate λ = (1 − ρ)λ_cyclic + ρ Σ β⁻¹e^(−(t − t_i)/β) is the case of two
//! accounts, the rhythm and one *echo*. The likelihood is concave in θ, so the best weights are found by
//! expectation maximisation from any start, and since each account sees only what was before, weights
//! that fit the past are weights that foretold it: an account too fine for its evidence foretold badly,
//! and weighs next to nothing. Echoes must pay besides: they are kept only if the updates held back from
//! the fit were foretold better with them. And since a rate alone takes updates to be independent, the
//! mixture is held back after an update by as much as the source is `regular`.
//!
//! Knows one source's diary and rhythm. Must not know when it is probed, nor of bursts.

pub mod diary;
pub mod foretell;
pub mod mixture;
pub mod named;
mod predictors;
mod regular;
pub mod weigh;

#[cfg(test)]
mod tests;
