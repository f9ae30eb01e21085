//! The filter: the probability that a burst is on, carried from update to update.
//!
//! A source is quiet, with the rate λ(t) of its rhythm, or in a burst, with λ(t) + β: the paper's
//! superposition of a cyclic process and a short-lived one (Bright, Gal, Raschid, §4.3), made a
//! hidden Markov chain. What follows is our own derivation; the paper leaves better tests open (§8.2.1).
//!
//! *Time* is counted in mean gaps: hours times the source's mean rate. β is one of three multiples
//! of that rate ([`LEVELS`]). A burst begins κ times a mean gap, at a level drawn evenly, and brings
//! [`LENGTH`] updates beyond the rhythm on average: one of level β ends μ = β/LENGTH times a mean gap.
//!
//! *Recursion.* Relative to the likelihood of a quiet source, an update at t multiplies the weight
//! of a level by (λ(t) + β)/λ(t), and a gap d without updates by e^(−βd). With the switching, a gap
//! solves q' = −κq + Σ μⱼbⱼ, bⱼ' = κwⱼq − (μⱼ + βⱼ)bⱼ, whose coefficients do not depend on λ(t): so
//! it is solved exactly, by the eigenvectors of one matrix, and a gap may be cut anywhere.
//!
//! *False alarms.* Let R = Σbⱼ/q, the odds of a burst. For a quiet source the updates' factors and
//! the gaps' cancel on average, and what is left of R's drift is κ + κR − (1 + R)Σμⱼbⱼ/q ≤ κ, as
//! every μⱼ ≥ κ. So R(t) − κt is a supermartingale, as for the Shiryaev–Roberts procedure, and if an
//! alarm is raised when R ≥ A, the mean time to a false one is at least A/κ mean gaps: at most κ/A
//! false alarms per update, for every rhythm, if it is the true one and updates are dated (without
//! dates, what happens within a look is only approximated). R overshoots A when it
//! crosses, by a factor that does not depend on the source, since with time in mean gaps all steady
//! sources are the same one. [`OVERSHOOT`] is that factor, from simulation. So ε false alarms per
//! update are had with κ = ε·A·OVERSHOOT: the fewer are allowed, the rarer bursts are thought to be.
//!
//! Knows one source's belief. Must not know of looks or where rates come from.

/// β of a burst, as multiples of the mean rate: four, ten and thirty times the rate in all.
pub const LEVELS: [f64; 3] = [3.0, 9.0, 29.0];
/// Updates that a burst brings beyond the rhythm, on average.
pub const LENGTH: f64 = 20.0;
/// A: the odds at which an alarm is raised, P(burst) = 0.9.
pub const ALARM: f64 = 9.0;
/// By what factor there are fewer false alarms than the bound κ/A says. Measured over 1.5 million
/// updates: 3.0 at κ/A = 0.003, 2.8 at 0.005, 2.6 at 0.01, 2.5 at 0.05.
pub const OVERSHOOT: f64 = 2.5;
/// κ/A up to which that is relied on; beyond it, where bursts are no longer rare, the factor shrinks
/// and the bound itself is kept.
const RARE: f64 = 0.01;
/// A burst is over when it is on with at most this probability.
pub const OVER: f64 = 0.1;
/// κ at most: no μ may be less.
const MOST_ONSET: f64 = LEVELS[0] / LENGTH;

const STATES: usize = LEVELS.len() + 1;
const SHARE: f64 = 1.0 / LEVELS.len() as f64;

/// What is believed of the state: the probabilities of quiet and of a burst at each level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Belief([f64; STATES]);

impl Default for Belief {
    fn default() -> Self {
        Self([1.0, 0.0, 0.0, 0.0])
    }
}

impl Belief {
    /// From the probabilities of quiet and the levels, if they are ones.
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

    /// Whether a burst that was on is over.
    pub fn is_calm(&self) -> bool {
        self.probability() <= OVER
    }

    /// Updates at one time, when the rhythm has this many mean rates.
    pub fn update(&mut self, count: u32, rhythm: f64) {
        // Logarithms, so that many updates do not overflow.
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

/// The chain for so many false alarms per update.
#[derive(Debug, Clone)]
pub struct Chain {
    onset: f64,
    alarm: f64,
    watched: [Mode; STATES],
}

impl Chain {
    /// At 0 false alarms there are none at all.
    pub fn new(false_alarms: f64) -> Self {
        let allowed = (OVERSHOOT * false_alarms).min(RARE).max(false_alarms);
        let onset = (allowed * ALARM).min(MOST_ONSET);
        let alarm = if allowed > 0.0 { onset / allowed } else { f64::INFINITY };
        // A source that never bursts has no modes to tell apart.
        let onset = onset.max(1e-12);
        Self { onset, alarm, watched: modes(onset, true) }
    }

    /// Whether an alarm is due.
    pub fn is_alarming(&self, belief: &Belief) -> bool {
        belief.probability() >= self.alarm * belief.0[0]
    }

    /// Whether nothing points to a burst: P(burst) is about what it is in a long gap.
    pub fn is_resting(&self, belief: &Belief) -> bool {
        let long_gap = self.watched[0].right;
        let odds: f64 = long_gap[1..].iter().sum::<f64>() / long_gap[0];
        belief.probability() <= 2.0 * odds * belief.0[0]
    }

    /// So many mean gaps pass without an update.
    pub fn pass(&self, belief: &mut Belief, gaps: f64) {
        evolve(belief, &self.watched, gaps);
    }

    /// So many mean gaps pass of which nothing is known.
    pub fn pass_unseen(&self, belief: &mut Belief, gaps: f64) {
        // Seldom asked for, so not kept.
        if gaps > 0.0 {
            evolve(belief, &modes(self.onset, false), gaps);
        }
    }

    /// One or more updates, nobody knows when or how many, in so many mean gaps, in which `expected`
    /// were expected: P(N ≥ 1) is 1 − e^(−Λ−βd) against 1 − e^(−Λ). Whether the state changed
    /// meanwhile is taken half before and half after.
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
    // The slowest mode comes first; relative to it, nothing vanishes in a long gap.
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

/// How fast a level's weight falls in a gap: it ends, and if someone watches, it fails to update.
fn fall(level: f64, watched: bool) -> f64 {
    level / LENGTH + if watched { level } else { 0.0 }
}

/// The matrix is an arrow: a row, a column and a diagonal. So its eigenvalues are the roots of
/// s + κ − Σ κwⱼμⱼ/(s + fallⱼ), which rises between its poles: one above the first, and one just
/// below each, which is found by its distance from that pole to keep its digits.
fn modes(onset: f64, watched: bool) -> [Mode; STATES] {
    let falls = LEVELS.map(|level| fall(level, watched));
    std::array::from_fn(|index| {
        let pole = if index == 0 { 0.0 } else { falls[index - 1] };
        let mut high = if index == 0 { 1.0 } else { 0.0 };
        let mut low = falls.get(index).map_or(-1.0 - onset, |next| pole - next);
        let distances = |offset: f64| falls.map(|fall| fall - pole + offset);
        for _ in 0..100 {
            let offset = f64::midpoint(low, high);
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

    /// The gap's equations in small steps, as written above.
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
    fn what_is_unseen_ends_in_the_chains_own_balance() {
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
    fn an_update_counts_by_its_likelihood() {
        let mut belief = Belief([0.5, 0.25, 0.25, 0.0]);
        // At half the mean rate: factors 7 and 19.
        belief.update(1, 0.5);
        assert!((belief.0[1] / belief.0[0] - 3.5).abs() < 1e-12);
        assert!((belief.0[2] / belief.0[0] - 9.5).abs() < 1e-12);
        belief.update(100_000, 0.05);
        assert!(belief.probability() > 0.99 && belief.0.iter().all(|state| state.is_finite()));
    }

    #[test]
    fn the_fewer_false_alarms_the_more_updates_it_takes() {
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
        assert!(counts.is_sorted() && counts[0] <= 3 && counts[5] <= 20, "{counts:?}");
    }
}
