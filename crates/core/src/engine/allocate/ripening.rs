//! The sources whose turn it most is, without looking at all of them.
//!
//! A source's claim grows with its age: by Whittle's index π·τ·(τ+1) (Mahmoody et al. leave it
//! out; it is the price at which probing now and later are worth the same), or by π·τ for the greedy
//! rule that their §4.1 shows to be bad. At any time some level of claim is what a probe costs. When a source's claim will reach that level is known beforehand:
//! sources wait on a wheel by that time, the few that come next stand in a pool, and among those
//! the claims themselves decide. So a probe costs the same however many wait, and the times on
//! the wheel need only be about right. Knows ages and rates; must not know what a source is.

use serde::{Deserialize, Serialize};

use super::turn::Turn;
use super::wheel::Wheel;

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

    /// What a source adds to the demand for probes: at level L, demand/√L (by the index) or
    /// demand/L (otherwise) probes a step are wanted.
    fn demand(self, root: f64) -> f64 {
        match self {
            Self::Index => root,
            Self::Gain => root * root,
        }
    }

    /// The level at which that demand is met by so many probes a step.
    fn level_of(self, demand: f64, per_step: f64) -> f64 {
        let ratio = demand / per_step;
        if self == Self::Index { ratio * ratio } else { ratio }
    }

    /// The age at which the claim is this large.
    fn age_of(self, root: f64, level: f64) -> f64 {
        let rate = (root * root).max(f64::MIN_POSITIVE);
        match self {
            Self::Index => (0.25 + level / rate).sqrt() - 0.5,
            Self::Gain => level / rate,
        }
    }
}

/// Time is counted in quarters of a step, from when the engine began: 2³² of them are centuries.
const PER_STEP: f64 = 4.0;

fn ticks(steps: f64) -> u32 {
    (steps * PER_STEP) as u32
}

fn steps(ticks: u32) -> f64 {
    f64::from(ticks) / PER_STEP
}

/// The pool is filled up to so many times as many as are chosen, and a few …
const AT_LEAST: usize = 3;
/// … and when it holds more than so many times as many, …
const AT_MOST: usize = 8;
/// … it is cut back to so many times as many.
const CUT_TO: usize = 5;
/// The few: where one is chosen, three times as many would be little to choose from.
const SPARE: usize = 2;

/// Who is cut would be cut again and again if it came back with a claim no larger than theirs who stayed.
const A_LITTLE_MORE: f64 = 1.05;

/// The level rises within so many probes: of those filed too early many would have to be filed anew.
const SOON: usize = 10_000;

/// The supply of probes is what it was over some hundred steps.
const SMOOTHED: f64 = 0.01;
/// Filing everybody anew may cost every probe so many places.
const FILED_PER_PROBE: usize = 4;

/// Sources by when their turn comes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct IndexWheel {
    claim: Claim,
    places: Vec<WheelPlace>,
    /// By when the claim reaches the level. What comes no later than where it stands is in the pool.
    wheel: Wheel,
    pool: Vec<Candidate>,
    /// What a probe costs: the least claim that was chosen, of late.
    level: f64,
    /// What all known places want together, and how many a step are chosen of late.
    demand: f64,
    supply: f64,
    /// The level that followed from that when all were filed, and how many were chosen since.
    filed_at: f64,
    since: usize,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct WheelPlace {
    root: f32,
    last: u32,
    /// Where it waits: its time on the wheel, or one of the two marks.
    filed: u32,
}

/// It stands in the pool.
const POOLED: u32 = u32::MAX - 1;
/// It does not wait.
const CLOSED: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Candidate {
    claim: f64,
    place: u32,
}

impl IndexWheel {
    /// Nobody waits.
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

    /// A source waits from now on.
    pub fn open(&mut self, place: u32, turn: Turn) {
        let at = place as usize;
        if self.places.len() <= at {
            self.places.resize(at + 1, WheelPlace { root: 0.0, last: 0, filed: CLOSED });
        }
        self.demand += self.claim.demand(f64::from(turn.root));
        self.demand -= self.claim.demand(f64::from(self.places[at].root));
        self.places[at] = WheelPlace { root: turn.root, last: ticks(turn.last), filed: CLOSED };
        self.file(place, self.level, 0.0);
    }

    /// A source waits no longer. What is left of it is found out when its turn comes.
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
        // Never so often that it would cost a probe more than a handful of places.
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
                // One that was closed and opened again may stand here twice.
                if entry.filed == POOLED {
                    entry.filed = CLOSED;
                    least = least.min(claim);
                    chosen.push(place);
                }
            }
        }
        let count = most + chosen.len() - enough;
        if count > 0 {
            // It follows what is chosen over about as long as a turn of everybody takes. Were it to fall
            // quicker, then after a start of all together, whose claims are small, those who had their
            // turn would come back before the others had one.
            let all = self.places.len();
            let over = if least > self.level { all.min(SOON) } else { all };
            self.level += (least - self.level) * (count as f64 / over as f64).min(1.0);
        }
        self.since += count;
    }

    /// Puts a source where its claim will have come to this level, but not before `earliest`.
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

    /// Files everybody anew by another level: whenever demand or supply has doubled or halved.
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

    /// Fills the pool with those that come next and with those whose time has come. Says whether
    /// anyone stands in it.
    fn fill(&mut self, now: f64, most: usize) -> bool {
        let (now, room) = (ticks(now), most + SPARE);
        while self.pool.len() < AT_LEAST * room
            || self.wheel.stands_before(now) && self.pool.len() < AT_MOST * room
        {
            let Self { wheel, pool, places, .. } = self;
            let turned = wheel.turn(|at, place| {
                let entry = &mut places[place as usize];
                if entry.filed == at {
                    entry.filed = POOLED;
                    pool.push(Candidate { claim: 0.0, place });
                }
            });
            if !turned {
                break;
            }
        }
        !self.pool.is_empty()
    }

    /// Brings the claims in the pool up to date, and drops who waits no longer.
    fn weigh(&mut self, now: f64) {
        let (claim, places) = (self.claim, &self.places);
        self.pool.retain_mut(|candidate| {
            let entry = places[candidate.place as usize];
            candidate.claim = claim.at(f64::from(entry.root), (now - steps(entry.last)).max(0.0));
            entry.filed == POOLED
        });
    }

    /// Keeps the best in the pool. The others come back when their claims will be a little larger than those,
    /// at most as many a step as are chosen: so a crowd with equal claims is let in one after the other.
    fn cut(&mut self, now: f64, keep: usize, most: usize) {
        self.pool.select_nth_unstable_by(keep - 1, by_claim);
        let kept = self.pool[keep - 1].claim;
        self.level = self.level.max(kept);
        self.wheel.turn_back(ticks(now));
        let mut rest = self.pool.split_off(keep);
        rest.sort_unstable_by(by_claim);
        for (rank, Candidate { place, .. }) in rest.into_iter().enumerate() {
            // Before everybody has had a turn the level is far above all claims.
            self.file(place, self.level.min(A_LITTLE_MORE * kept), now + 1.0 + (rank / most) as f64);
        }
    }
}

/// The larger claim first; of equal ones the earlier place.
fn by_claim(one: &Candidate, other: &Candidate) -> std::cmp::Ordering {
    other.claim.total_cmp(&one.claim).then(one.place.cmp(&other.place))
}
