//! The filter: the probability of a burst, computed recursively at each update.
//!
//! A source is quiet, with its rate λ(t), or in a burst, with λ(t) + β. This is the superposition of a
//! cyclic and a short-lived process of Bright, Gal, Raschid (§4.3), as a hidden Markov chain. The derivation
//! below is our own; the paper leaves better tests open (§8.2.1). Holds the state of one source. May not
//! know probes or the origin of rates.
//!
//! *Time* is measured in mean gaps: hours times the mean rate of the source. β is one of three multiples of
//! that rate ([`LEVELS`]). A burst begins κ times per mean gap, at a level drawn evenly. It has [`LENGTH`]
//! updates beyond λ(t) on average, so one of level β ends μ = β/LENGTH times per mean gap.
//!
//! *Recursion.* Relative to the likelihood of a quiet source, an update at t multiplies the weight of a
//! level by (λ(t) + β)/λ(t), and a gap d without updates by e^(−βd). With the transitions, a gap solves
//! q' = −κq + Σ μⱼbⱼ, bⱼ' = κwⱼq − (μⱼ + βⱼ)bⱼ. The coefficients do not depend on λ(t). So the solution is
//! exact, by the eigenvectors of one matrix, and a gap may be split anywhere.
//!
//! *False alarms.* Let R = Σbⱼ/q, the odds of a burst. For a quiet source the factors of updates and gaps
//! cancel on average. The remaining drift of R is κ + κR − (1 + R)Σμⱼbⱼ/q ≤ κ, as every μⱼ ≥ κ. So R(t) − κt
//! is a supermartingale, as for the Shiryaev–Roberts procedure. If the alarm threshold is R ≥ A, the mean
//! time to a false alarm is at least A/κ mean gaps: at most κ/A false alarms per update, for every rate.
//! This assumes the true rate and dated updates (without dates, the times within a gap are an
//! approximation). R overshoots A by a factor that does not depend on the source, because all steady sources
//! are identical in mean gaps. [`OVERSHOOT`] is that factor, from simulation. So κ = ε·A·OVERSHOOT yields ε
//! false alarms per update: a smaller ε implies a smaller prior probability of bursts. A part of that is
//! used, `CAUTION`, because no model of a real source is exact.

/// β of a burst, as multiples of the mean rate: with the rate itself, four, ten and thirty times the mean
/// rate.
pub const LEVELS: [f64; 3] = [3.0, 9.0, 29.0];
/// Mean number of updates of a burst beyond the rate.
pub const LENGTH: f64 = 20.0;
/// A: the odds that raise an alarm, P(burst) = 0.9.
pub const ALARM: f64 = 9.0;
/// Ratio of the bound κ/A to the actual false alarms. Measured over 1.5 million updates: 3.0 at κ/A = 0.003,
/// 2.8 at 0.005, 2.6 at 0.01, 2.5 at 0.05.
pub const OVERSHOOT: f64 = 2.5;
/// The share of ε that is used. Recorded sources deviate from every model of their rate; with 0.05 of ε they
/// raise 0.9 to 1.0 ε alarms, with 0.2 of ε 1.5 ε, real bursts included.
const CAUTION: f64 = 0.05;
/// Largest κ/A for which [`OVERSHOOT`] applies. Beyond it bursts are not rare, the factor shrinks, and the
/// bound itself is used.
const RARE: f64 = 0.01;
/// A burst ends when its probability is at most this.
pub const OVER: f64 = 0.25;
/// Upper bound of κ: no μ may be less.
const MOST_ONSET: f64 = LEVELS[0] / LENGTH;

const STATES: usize = LEVELS.len() + 1;
const SHARE: f64 = 1.0 / LEVELS.len() as f64;

/// The state distribution: the probabilities of quiet and of a burst at each level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Belief([f64; STATES]);

impl Default for Belief {
    fn default() -> Self {
        Self([1.0, 0.0, 0.0, 0.0])
    }
}

impl Belief {
    /// From the probabilities of quiet and the levels; `None` if they are invalid.
    pub fn new(states: [f64; STATES]) -> Option<Self> {
        let sum: f64 = states.iter().sum();
        let good = states.iter().all(|state| (0.0..=1.0).contains(state)) && (sum - 1.0).abs() < 1e-6;
        good.then_some(Self(states))
    }

    /// The probabilities of quiet and the levels.
    pub fn states(&self) -> [f64; STATES] {
        self.0
    }

    /// P(burst).
    pub fn probability(&self) -> f64 {
        self.0[1..].iter().sum()
    }

    /// E[β | burst], in mean rates.
    pub fn excess(&self) -> f64 {
        let burst = self.probability();
        if burst <= 0.0 {
            return 0.0;
        }
        self.0[1..].iter().zip(LEVELS).map(|(state, level)| state * level).sum::<f64>() / burst
    }

    /// Whether the probability is low enough to end a burst.
    pub fn is_calm(&self) -> bool {
        self.probability() <= OVER
    }

    /// Applies `count` updates at one time, where the rate is `rhythm` times the mean rate.
    pub fn update(&mut self, count: u32, rhythm: f64) {
        // Logarithms prevent an overflow.
        let factors = [0.0].into_iter().chain(LEVELS.map(|level| (level / rhythm).ln_1p()));
        let mut logs = [0.0; STATES];
        for ((log, state), factor) in logs.iter_mut().zip(self.0).zip(factors) {
            *log = state.ln() + f64::from(count) * factor;
        }
        let most = logs.into_iter().fold(f64::NEG_INFINITY, f64::max);
        self.0 = logs.map(|log| (log - most).exp());
        self.normalise();
    }

    fn normalise(&mut self) {
        for state in &mut self.0 {
            *state = state.max(0.0);
        }
        let sum: f64 = self.0.iter().sum();
        for state in &mut self.0 {
            *state /= sum;
        }
    }
}

/// The Markov chain for a given number of false alarms per update.
#[derive(Debug, Clone)]
pub struct Chain {
    onset: f64,
    alarm: f64,
    watched: [Mode; STATES],
}

impl Chain {
    /// With 0 false alarms allowed, the alarm threshold is infinite.
    pub fn new(false_alarms: f64) -> Self {
        let false_alarms = CAUTION * false_alarms;
        let allowed = (OVERSHOOT * false_alarms).min(RARE).max(false_alarms);
        let onset = (allowed * ALARM).min(MOST_ONSET);
        let alarm = if allowed > 0.0 { onset / allowed } else { f64::INFINITY };
        // At κ = 0 the eigenvalues coincide with the poles, and the eigenvectors are undefined.
        let onset = onset.max(1e-12);
        Self { onset, alarm, watched: modes(onset, true) }
    }

    /// Whether the odds exceed the alarm threshold.
    pub fn is_alarming(&self, belief: &Belief) -> bool {
        belief.probability() >= self.alarm * belief.0[0]
    }

    /// Whether P(burst) is at most about twice its value in a long gap.
    pub fn is_low(&self, belief: &Belief) -> bool {
        let long_gap = self.watched[0].right;
        let odds: f64 = long_gap[1..].iter().sum::<f64>() / long_gap[0];
        belief.probability() <= 2.0 * odds * belief.0[0]
    }

    /// Applies `gaps` mean gaps without an update.
    pub fn pass(&self, belief: &mut Belief, gaps: f64) {
        evolve(belief, &self.watched, gaps);
    }

    /// Applies `gaps` mean gaps without observations.
    pub fn pass_unseen(&self, belief: &mut Belief, gaps: f64) {
        // Rarely called, so the modes are not stored.
        if gaps > 0.0 {
            evolve(belief, &modes(self.onset, false), gaps);
        }
    }

    /// Applies one or more updates at unknown times in `gaps` mean gaps, where `expected` were expected.
    /// P(N ≥ 1) is 1 − e^(−Λ−βd) in a burst and 1 − e^(−Λ) otherwise. Half of the state transitions are
    /// applied before and half after.
    pub fn change(&self, belief: &mut Belief, gaps: f64, expected: f64) {
        self.pass_unseen(belief, gaps / 2.0);
        let quiet = -f64::exp_m1(-expected);
        for (state, level) in belief.0[1..].iter_mut().zip(LEVELS) {
            *state *= -f64::exp_m1(-expected - level * gaps) / quiet;
        }
        belief.normalise();
        self.pass_unseen(belief, gaps / 2.0);
    }

    /// κ: bursts per mean gap.
    pub fn onset(&self) -> f64 {
        self.onset
    }
}

fn evolve(belief: &mut Belief, modes: &[Mode; STATES], gaps: f64) {
    if gaps <= 0.0 {
        return;
    }
    let before = std::mem::replace(&mut belief.0, [0.0; STATES]);
    // The slowest mode is first. Growth is relative to it, so a long gap does not underflow.
    let slowest = modes[0].growth;
    for mode in modes {
        let part: f64 = mode.left.iter().zip(before).map(|(left, state)| left * state).sum();
        let part = part * ((mode.growth - slowest) * gaps).exp();
        for (state, right) in belief.0.iter_mut().zip(mode.right) {
            *state += part * right;
        }
    }
    belief.normalise();
}

/// An eigenvalue of the gap's matrix with its eigenvectors, scaled so that left · right = 1.
#[derive(Debug, Clone, Copy)]
struct Mode {
    growth: f64,
    left: [f64; STATES],
    right: [f64; STATES],
}

/// The decay rate of a level's weight in a gap: the burst ends, and while observed, its updates are missing.
fn fall(level: f64, watched: bool) -> f64 {
    level / LENGTH + if watched { level } else { 0.0 }
}

/// The matrix is an arrow matrix: a row, a column and a diagonal. So its eigenvalues are the roots of
/// s + κ − Σ κwⱼμⱼ/(s + fallⱼ), which increases between its poles: one root above the first pole, and
/// one just below each. The search variable is the distance from that pole, which preserves precision.
fn modes(onset: f64, watched: bool) -> [Mode; STATES] {
    let falls = LEVELS.map(|level| fall(level, watched));
    std::array::from_fn(|index| {
        let pole = if index == 0 { 0.0 } else { falls[index - 1] };
        let mut high = if index == 0 { 1.0 } else { 0.0 };
        let mut low = falls.get(index).map_or(-1.0 - onset, |next| pole - next);
        let distances = |offset: f64| falls.map(|fall| fall - pole + offset);
        for _ in 0..100 {
            let offset = f64::midpoint(low, high);
            if offset == low || offset == high {
                break;
            }
            let pulls = distances(offset).into_iter().zip(LEVELS);
            let pull: f64 = pulls.map(|(distance, level)| onset * SHARE * level / LENGTH / distance).sum();
            if offset - pole + onset < pull { low = offset } else { high = offset }
        }
        let offset = f64::midpoint(low, high);
        let (mut left, mut right) = ([1.0; STATES], [1.0; STATES]);
        for (level, distance) in distances(offset).into_iter().enumerate() {
            left[level + 1] = LEVELS[level] / LENGTH / distance;
            right[level + 1] = onset * SHARE / distance;
        }
        let product: f64 = left.iter().zip(right).map(|(left, right)| left * right).sum();
        Mode { growth: offset - pole, left: left.map(|part| part / product), right }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The equations of a gap, integrated in small steps.
    fn stepped(onset: f64, mut state: [f64; STATES], gaps: f64, watched: bool) -> [f64; STATES] {
        let slopes = |state: [f64; STATES]| {
            let mut slope = [-onset * state[0], 0.0, 0.0, 0.0];
            for (level, beta) in LEVELS.into_iter().enumerate() {
                let burst = state[level + 1];
                slope[0] += beta / LENGTH * burst;
                slope[level + 1] = onset * SHARE * state[0] - fall(beta, watched) * burst;
            }
            slope
        };
        let steps = 20_000;
        let step = gaps / f64::from(steps);
        for _ in 0..steps {
            let first = slopes(state);
            let half: [f64; STATES] = std::array::from_fn(|i| state[i] + first[i] * step / 2.0);
            let middle = slopes(half);
            state = std::array::from_fn(|i| state[i] + middle[i] * step);
        }
        let sum: f64 = state.iter().sum();
        state.map(|part| part / sum)
    }

    #[test]
    fn gaps_solve_the_equations() {
        let start = [0.3, 0.4, 0.2, 0.1];
        for (gaps, false_alarms) in [(0.01, 0.001), (0.3, 0.001), (2.0, 0.001), (0.3, 1e-7), (0.3, 0.5)] {
            let chain = Chain::new(false_alarms);
            for watched in [true, false] {
                let mut belief = Belief(start);
                if watched {
                    chain.pass(&mut belief, gaps);
                } else {
                    chain.pass_unseen(&mut belief, gaps);
                }
                let near = stepped(chain.onset(), start, gaps, watched);
                for (exact, near) in belief.0.into_iter().zip(near) {
                    assert!((exact - near).abs() < 1e-6, "{gaps} {false_alarms} {watched}: {exact} {near}");
                }
            }
        }
    }

    #[test]
    fn a_gap_may_be_divided_anywhere() {
        let chain = Chain::new(0.001);
        for (gaps, share) in [(0.01, 0.5), (3.0, 0.1), (40.0, 0.01)] {
            let (mut whole, mut divided) = (Belief([0.3, 0.4, 0.2, 0.1]), Belief([0.3, 0.4, 0.2, 0.1]));
            chain.pass(&mut whole, gaps);
            chain.pass(&mut divided, gaps * share);
            chain.pass(&mut divided, gaps * (1.0 - share));
            for (a, b) in whole.0.into_iter().zip(divided.0) {
                assert!((a - b).abs() < 1e-14, "{gaps} {share}: {a} {b}");
            }
        }
    }

    #[test]
    fn unobserved_time_converges_to_the_stationary_distribution() {
        let chain = Chain::new(0.001);
        let mut belief = Belief([0.0, 0.0, 1.0, 0.0]);
        chain.pass_unseen(&mut belief, 1e4);
        // bⱼ/q = κwⱼ/μⱼ
        for (level, beta) in LEVELS.into_iter().enumerate() {
            let ratio = belief.0[level + 1] / belief.0[0];
            assert!((ratio - chain.onset() * SHARE * LENGTH / beta).abs() < 1e-12, "{ratio}");
        }
        assert!(belief.is_calm());
    }

    #[test]
    fn an_update_multiplies_by_the_likelihood_ratio() {
        let mut belief = Belief([0.5, 0.25, 0.25, 0.0]);
        // At half the mean rate: factors 7 and 19.
        belief.update(1, 0.5);
        assert!((belief.0[1] / belief.0[0] - 3.5).abs() < 1e-12);
        assert!((belief.0[2] / belief.0[0] - 9.5).abs() < 1e-12);
        belief.update(100_000, 0.05);
        assert!(belief.probability() > 0.99 && belief.0.iter().all(|state| state.is_finite()));
    }

    #[test]
    fn fewer_false_alarms_require_more_updates() {
        let needed = |false_alarms| {
            let (chain, mut belief) = (Chain::new(false_alarms), Belief::default());
            (1..200).find(|_| {
                chain.pass(&mut belief, 0.05);
                belief.update(1, 1.0);
                chain.is_alarming(&belief)
            })
        };
        assert_eq!(needed(0.0), None);
        let counts = [0.1, 0.01, 0.001, 1e-4, 1e-6, 1e-9].map(|allowed| needed(allowed).unwrap());
        assert!(counts.is_sorted() && counts[0] <= 4 && counts[5] <= 20, "{counts:?}");
    }
}
