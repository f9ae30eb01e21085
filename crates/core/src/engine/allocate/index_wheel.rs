//! Finds the sources with the largest claims without a scan of all of them.
//!
//! A claim grows with the source's age τ: as Whittle's index π·τ·(τ+1), or as π·τ for the greedy rule that
//! Mahmoody et al. show to be bad in §4.1. (They do not use the index; it is the price at which probing now
//! and later are worth the same.) The *level* is the claim at which sources are currently chosen. The time
//! at which a claim reaches the level is known in advance. Sources are filed on a wheel by that time; the
//! next few are in a pool, where exact claims decide. So the cost of a probe does not depend on the number
//! of sources, and the times on the wheel may be approximate. Knows ages and rates; must not know what a
//! source is.

use serde::{Deserialize, Serialize};

use super::candidate::OpenSource;
use super::timer_wheel::Wheel;

/// How a claim grows with age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Claim {
    /// π·τ·(τ+1).
    Index,
    /// π·τ.
    Gain,
}

impl Claim {
    /// The claim of a source with √π = `root` at this age.
    pub fn at(self, root: f64, age: f64) -> f64 {
        match self {
            Self::Index => root * root * age * (age + 1.0),
            Self::Gain => root * root * age,
        }
    }

    /// The source's share of the demand. At level L all sources together need demand/√L (index) or demand/L
    /// (otherwise) probes per step.
    fn demand(self, root: f64) -> f64 {
        match self {
            Self::Index => root,
            Self::Gain => root * root,
        }
    }

    /// The level at which `per_step` probes meet that demand.
    fn level_of(self, demand: f64, per_step: f64) -> f64 {
        let ratio = demand / per_step;
        if self == Self::Index { ratio * ratio } else { ratio }
    }

    /// The age at which the claim reaches this level.
    fn age_of(self, root: f64, level: f64) -> f64 {
        let rate = (root * root).max(f64::MIN_POSITIVE);
        match self {
            Self::Index => (0.25 + level / rate).sqrt() - 0.5,
            Self::Gain => level / rate,
        }
    }
}

/// Time is counted in quarters of a step from the engine's start: 2³² of them are centuries.
const PER_STEP: f64 = 4.0;

fn ticks(steps: f64) -> u32 {
    (steps * PER_STEP) as u32
}

fn steps(ticks: u32) -> f64 {
    f64::from(ticks) / PER_STEP
}

/// The pool is filled up to this multiple of the probes to choose, plus [`SPARE`] …
const AT_LEAST: usize = 3;
/// … and when it exceeds this multiple, …
const AT_MOST: usize = 8;
/// … it is cut back to this multiple.
const CUT_TO: usize = 5;
/// Added to the number of probes to choose, so that the pool is not too small when that number is 1.
const SPARE: usize = 2;

/// A source cut from the pool returns when its claim exceeds the pool's least by this factor; with an equal
/// claim it would be cut again.
const A_LITTLE_MORE: f64 = 1.05;

/// Longest smoothing horizon of a rising level, in probes: a slower rise would file many sources too early.
const SOON: usize = 10_000;

/// Smoothing factor of the supply: about the last hundred steps.
const SMOOTHED: f64 = 0.01;
/// Refiling all sources may cost at most this many of them per probe.
const FILED_PER_PROBE: usize = 4;

/// Sources by the time at which they should be chosen.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct IndexWheel {
    claim: Claim,
    places: Vec<WheelPlace>,
    /// Sources by the time at which the claim reaches the level. Earlier ones are in the pool.
    wheel: Wheel,
    pool: Vec<Candidate>,
    /// The least claim chosen, smoothed.
    level: f64,
    /// Sum of all sources' demands. Below: probes chosen per step, smoothed.
    demand: f64,
    supply: f64,
    /// The level from demand and supply when all sources were last filed. Below: probes chosen since.
    filed_at: f64,
    since: usize,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct WheelPlace {
    root: f32,
    last: u32,
    /// Its time on the wheel, or one of the two marks below.
    filed: u32,
}

/// In the pool.
const POOLED: u32 = u32::MAX - 1;
/// Closed.
const CLOSED: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Candidate {
    claim: f64,
    place: u32,
}

impl IndexWheel {
    /// No source is open.
    pub fn new(claim: Claim) -> Self {
        Self {
            claim,
            places: Vec::new(),
            wheel: Wheel::default(),
            pool: Vec::new(),
            level: 0.0,
            demand: 0.0,
            supply: 0.0,
            filed_at: 0.0,
            since: 0,
        }
    }

    /// Opens a source.
    pub fn open(&mut self, place: u32, source: OpenSource) {
        let at = place as usize;
        if self.places.len() <= at {
            self.places.resize(at + 1, WheelPlace { root: 0.0, last: 0, filed: CLOSED });
        }
        self.demand += self.claim.demand(f64::from(source.root));
        self.demand -= self.claim.demand(f64::from(self.places[at].root));
        self.places[at] = WheelPlace { root: source.root, last: ticks(source.last), filed: CLOSED };
        self.file(place, self.level, 0.0);
    }

    /// Closes a source. Its entry on the wheel or in the pool is dropped when it is reached.
    pub fn close(&mut self, place: u32) {
        if let Some(place) = self.places.get_mut(place as usize) {
            self.demand -= self.claim.demand(f64::from(place.root));
            (place.root, place.filed) = (0.0, CLOSED);
        }
    }

    /// Takes out the largest claims, at most `most`.
    pub fn choose(&mut self, now: f64, most: usize, chosen: &mut Vec<u32>) {
        let enough = chosen.len() + most;
        self.supply += (most as f64 - self.supply) * if self.supply == 0.0 { 1.0 } else { SMOOTHED };
        let level = self.claim.level_of(self.demand, self.supply);
        let astray = level > 2.0 * self.filed_at || level < 0.5 * self.filed_at;
        // At a bounded amortised cost per probe.
        if astray && (self.filed_at == 0.0 || FILED_PER_PROBE * self.since >= self.places.len()) {
            self.file_all(level);
        }
        let mut least = f64::INFINITY;
        while chosen.len() < enough && self.fill(now, most) {
            self.weigh(now);
            if self.pool.len() > AT_MOST * (most + SPARE) {
                self.cut(now, CUT_TO * (most + SPARE), most);
            }
            let wanted = enough - chosen.len();
            if self.pool.len() > wanted {
                self.pool.select_nth_unstable_by(wanted - 1, by_claim);
            }
            for Candidate { claim, place } in self.pool.drain(..wanted.min(self.pool.len())) {
                let entry = &mut self.places[place as usize];
                // A source that was closed and opened again may be in the pool twice.
                if entry.filed == POOLED {
                    entry.filed = CLOSED;
                    least = least.min(claim);
                    chosen.push(place);
                }
            }
        }
        let count = most + chosen.len() - enough;
        if count > 0 {
            // The level follows the chosen claims over about one round of all sources. If it fell faster
            // after a common start, when all claims are small, some sources would be chosen twice before
            // others were chosen once.
            let all = self.places.len();
            let over = if least > self.level { all.min(SOON) } else { all };
            self.level += (least - self.level) * (count as f64 / over as f64).min(1.0);
        }
        self.since += count;
    }

    /// Files a source at the time when its claim reaches this level, but not before `earliest`.
    fn file(&mut self, place: u32, level: f64, earliest: f64) {
        let entry = &mut self.places[place as usize];
        let age = self.claim.age_of(f64::from(entry.root), level);
        let at = ticks((steps(entry.last) + age).max(earliest)).min(POOLED - 1);
        if self.wheel.put(at, place) {
            entry.filed = at;
        } else {
            entry.filed = POOLED;
            self.pool.push(Candidate { claim: 0.0, place });
        }
    }

    /// Files all sources again by another level, after demand or supply has doubled or halved.
    fn file_all(&mut self, level: f64) {
        (self.level, self.filed_at, self.since) = (level, level, 0);
        self.demand = self.places.iter().map(|place| self.claim.demand(f64::from(place.root))).sum();
        self.wheel = Wheel::default();
        self.pool.clear();
        for place in 0..self.places.len() as u32 {
            if std::mem::replace(&mut self.places[place as usize].filed, CLOSED) != CLOSED {
                self.file(place, self.level, 0.0);
            }
        }
    }

    /// Fills the pool with sources that are next or due. Returns whether it holds any.
    fn fill(&mut self, now: f64, most: usize) -> bool {
        let (now, room) = (ticks(now), most + SPARE);
        while self.pool.len() < AT_LEAST * room
            || self.wheel.is_before(now) && self.pool.len() < AT_MOST * room
        {
            let Self { wheel, pool, places, .. } = self;
            let advanced = wheel.advance(|at, place| {
                let entry = &mut places[place as usize];
                if entry.filed == at {
                    entry.filed = POOLED;
                    pool.push(Candidate { claim: 0.0, place });
                }
            });
            if !advanced {
                break;
            }
        }
        !self.pool.is_empty()
    }

    /// Updates the claims in the pool, and drops closed sources.
    fn weigh(&mut self, now: f64) {
        let (claim, places) = (self.claim, &self.places);
        self.pool.retain_mut(|candidate| {
            let entry = places[candidate.place as usize];
            candidate.claim = claim.at(f64::from(entry.root), (now - steps(entry.last)).max(0.0));
            entry.filed == POOLED
        });
    }

    /// Keeps the largest claims in the pool. The others return when their claims are slightly larger, at
    /// most as many per step as are chosen; thus equal claims return one after the other.
    fn cut(&mut self, now: f64, keep: usize, most: usize) {
        self.pool.select_nth_unstable_by(keep - 1, by_claim);
        let kept = self.pool[keep - 1].claim;
        self.level = self.level.max(kept);
        self.wheel.rewind(ticks(now));
        let mut rest = self.pool.split_off(keep);
        rest.sort_unstable_by(by_claim);
        for (rank, Candidate { place, .. }) in rest.into_iter().enumerate() {
            // Until every source was chosen once, the level is far above all claims.
            self.file(place, self.level.min(A_LITTLE_MORE * kept), now + 1.0 + (rank / most) as f64);
        }
    }
}

/// The larger claim first; of equal ones the lower index.
fn by_claim(one: &Candidate, other: &Candidate) -> std::cmp::Ordering {
    other.claim.total_cmp(&one.claim).then(one.place.cmp(&other.place))
}
