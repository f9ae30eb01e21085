//! Earliest due day first, for plants that are never done: MEDD (Gao et al., Algorithm 1) with an eye on every day.
//!
//! What is due is watered, the latest first, of equally late ones the cheapest, then the one with the longest
//! window. Of what is left of the day's capacity only so much is spent on plants that are not yet due as will be
//! missing, and where it wastes least, (days until due)/w·c.
//!
//! The paper looks for what is missing over the next w_max days all together (`printed` in the lab). That is
//! blind to due days that meet: 1,000 plants that were all watered on day 0, at half the capacity, were late 222 days
//! in all within 1,500, where earliest due day first was never late. Here the *overload* is the most that any number
//! of coming days lacks, and it is spent on plants that are due by the end of those days: watering others would not
//! help. Three details:
//!
//! - The next [`SEEN`] waterings of each plant are counted, each on its due day. More of them changed nothing.
//! - Costs do not fill a day to the brim: up to the dearest plant's cost, less the common divisor of all costs, is
//!   left over. So much is not counted on, nor is [`KEPT`] of what Ω leaves over; where every cost divides the
//!   capacity there is no doubt and nothing is kept.
//! - Enough is watered to *cover* the overload; the paper stops before, and leaves a rest that is late.
//!
//! Plants stay in order: by due day, by wasteness (a kinetic tournament over due days; on the same day the one with
//! the least c/w wastes least), and the cost of coming days in a tree (`demand`). A day costs
//! O(log n) for each plant that is watered or becomes late. Plants come and go, and windows and capacity change, as
//! sources do.

use serde::{Deserialize, Serialize};
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};

use super::demand::{DayCosts, Overload};
use super::kinetic::KineticMinimum;
use super::{Task, UNIT, Work};

/// Waterings of a plant that are foreseen.
pub const SEEN: i64 = 4;

/// The share of the capacity that Ω leaves over which is not counted on.
pub const KEPT: f64 = 0.3;

/// So many that may not be watered early are passed over in a day.
const PASSED_OVER: usize = 64;

/// MEDD.
///
/// ```
/// use tidewatch_core::engine::garden::{Plant, UNIT, medd::Medd};
///
/// // Two that may wait for a week, and a gardener who can do one a day: one of them is a day early.
/// let mut medd = Medd::of(&[Plant::new(1.0, 7); 2], UNIT);
/// let days: Vec<usize> = (1..=14).map(|_| medd.day().len()).collect();
/// assert_eq!(days, [0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 1]);
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Medd {
    beds: Vec<Option<TaskState>>,
    capacity: Work,
    today: i64,
    /// In the order in which those that are due are watered: by due day, then cost, then window.
    queue: BTreeSet<(i64, Work, Reverse<u32>, usize)>,
    /// By due day, then by how little it wastes.
    thrift: BTreeSet<(i64, Slope, usize)>,
    /// Of each due day to come, the one that wastes least.
    least: KineticMinimum,
    demand: DayCosts,
    /// What is due since before today's place in the ring.
    late: Work,
    /// Ω, in millionths of millionths a day, exactly.
    omega: u128,
    /// How many have which cost.
    costs: BTreeMap<Work, usize>,
    /// A common divisor of all costs there ever were.
    grain: Work,
    longest: i64,
    /// What a day is counted on for.
    counted: Work,
}

/// A plant where it grows.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct TaskState {
    plant: Task,
    due: i64,
    /// When its coming waterings were noted.
    sown: i64,
}

/// c/w.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Slope(Task);

impl Ord for Slope {
    fn cmp(&self, other: &Self) -> Ordering {
        let times = |cost: Work, window: u32| u128::from(cost) * u128::from(window);
        let (one, two) = (self.0, other.0);
        times(one.cost, two.window)
            .cmp(&times(two.cost, one.window))
            .then(one.window.cmp(&two.window))
            .then(one.cost.cmp(&two.cost))
    }
}

impl PartialOrd for Slope {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// c/w in millionths of millionths.
fn share(plant: &Task) -> u128 {
    u128::from(plant.cost) * u128::from(UNIT) / u128::from(plant.window)
}

fn divisor(one: Work, other: Work) -> Work {
    if other == 0 { one } else { divisor(other, one % other) }
}

impl Medd {
    /// An empty garden on that day.
    pub fn new(capacity: Work, today: i64) -> Self {
        let demand = DayCosts::new(1);
        let mut medd = Self {
            beds: Vec::new(),
            capacity,
            today,
            queue: BTreeSet::new(),
            thrift: BTreeSet::new(),
            least: KineticMinimum::new(demand.span() as usize),
            demand,
            late: 0,
            omega: 0,
            costs: BTreeMap::new(),
            grain: 0,
            longest: 0,
            counted: 0,
        };
        medd.count_on(true);
        medd
    }

    /// These plants, all watered on day 0.
    pub fn of(plants: &[Task], capacity: Work) -> Self {
        let mut medd = Self::new(capacity, 1);
        for (index, &plant) in plants.iter().enumerate() {
            medd.plant(index, plant, i64::from(plant.window));
        }
        medd.settle();
        medd
    }

    /// A plant grows at this place, or another than before, and is due on that day.
    pub fn plant(&mut self, place: usize, plant: Task, due: i64) {
        if let Some(bed) = self.beds.get(place).copied().flatten().filter(|bed| bed.plant == plant) {
            self.lift(place, bed);
            self.sow(place, plant, due);
            return;
        }
        self.pull(place);
        if self.beds.len() <= place {
            self.beds.resize(place + 1, None);
        }
        self.omega += share(&plant);
        *self.costs.entry(plant.cost).or_default() += 1;
        self.grain = divisor(plant.cost, self.grain);
        self.longest = self.longest.max(i64::from(plant.window));
        if SEEN * self.longest >= self.demand.days() {
            self.lay_out();
        }
        self.count_on(false);
        self.sow(place, plant, due);
    }

    /// Nothing grows at this place any more.
    pub fn uproot(&mut self, place: usize) {
        self.pull(place);
        self.count_on(false);
    }

    fn pull(&mut self, place: usize) {
        let Some(bed) = self.beds.get(place).copied().flatten() else { return };
        self.lift(place, bed);
        self.omega -= share(&bed.plant);
        if let Some(count) = self.costs.get_mut(&bed.plant.cost) {
            *count -= 1;
            if *count == 0 {
                self.costs.remove(&bed.plant.cost);
            }
        }
        if self.costs.is_empty() {
            self.grain = 0;
        }
    }

    /// Counts exactly on what a day has, after many plants came or went.
    pub fn settle(&mut self) {
        self.count_on(true);
    }

    /// The capacity is another from now on.
    pub fn set_capacity(&mut self, capacity: Work) {
        self.capacity = capacity;
        self.count_on(true);
    }

    /// Ω, in units a day.
    pub fn omega(&self) -> f64 {
        self.omega as f64 / (UNIT as f64 * UNIT as f64)
    }

    /// It is that day. Days do not run backwards.
    pub fn turn_to(&mut self, day: i64) {
        if day <= self.today {
            return;
        }
        let (before, now) = (self.demand.bucket(self.today), self.demand.bucket(day));
        if now.saturating_sub(before) >= self.demand.span() {
            self.today = day;
            self.lay_out();
            return;
        }
        for bucket in before..now {
            // What is left there was not watered, or is what a late one would have needed.
            self.demand.clear(bucket);
        }
        let yesterday = self.today;
        self.today = day;
        let (from, to) = (self.demand.first_day(before), self.demand.first_day(now));
        let fallen = self.queue.range((from, 0, Reverse(u32::MAX), 0)..(to, 0, Reverse(u32::MAX), 0));
        self.late += fallen.map(|&(_, cost, ..)| cost).sum::<Work>();
        // Who is due by now is not watered early.
        let from = (yesterday + 1, 0, Reverse(u32::MAX), 0);
        let to = (day, Work::MAX, Reverse(0), usize::MAX);
        let fallen: BTreeSet<i64> = self.queue.range(from..=to).map(|&(due, ..)| due).collect();
        fallen.into_iter().for_each(|due| self.show(due));
    }

    /// Who is due, in the order in which they are to be watered.
    pub fn due_now(&self) -> impl Iterator<Item = usize> + '_ {
        self.queue.iter().take_while(|key| key.0 <= self.today).map(|key| key.3)
    }

    /// What the coming days lack.
    pub fn overload(&self) -> Option<Overload> {
        self.demand.overload(self.today, self.late)
    }

    /// On which day something is next to be watered before it is due, if nothing comes, goes or is watered after
    /// today; `None` if nothing will be missing before the next is due.
    pub fn next_early(&self) -> Option<i64> {
        let &(next, ..) = self.queue.range((self.today + 1, 0, Reverse(u32::MAX), 0)..).next()?;
        let (today, last) = (self.demand.bucket(self.today), self.demand.bucket(next - 1));
        // What is not watered today is late then.
        let late = if today < last { u64::try_from(self.demand.due(today)).unwrap_or(0) } else { 0 };
        let overload = self.demand.overload(next - 1, self.late + late)?;
        // Nothing is due until then: every day before, a day's capacity less is missing.
        let days = overload.work.div_ceil(self.counted.max(1));
        Some(next.saturating_sub_unsigned(days).max(self.today + 1))
    }

    /// A plant is watered today.
    pub fn water(&mut self, place: usize) {
        if let Some(bed) = self.beds.get(place).copied().flatten() {
            self.lift(place, bed);
            self.sow(place, bed.plant, self.today + i64::from(bed.plant.window));
        }
    }

    /// Who is to be watered before it is due, with what is left of the day: as many as cover what will be missing,
    /// the least wasteful first. `may` says who can be.
    pub fn early(&mut self, left: Work, mut may: impl FnMut(usize) -> bool) -> Vec<usize> {
        let Some(overload) = self.overload().filter(|_| left > 0) else { return Vec::new() };
        let (mut left, mut missing, mut passed) = (left, overload.work, 0);
        let (mut chosen, mut looked_at) = (Vec::new(), Vec::new());
        while missing > 0
            && passed < PASSED_OVER
            && let Some((place, bed)) = self.thriftiest(overload.by)
        {
            let cost = bed.plant.cost;
            let may = may(place);
            if may && cost > left {
                break;
            }
            if may {
                (left, missing) = (left - cost, missing.saturating_sub(cost));
                chosen.push(place);
            } else {
                passed += 1;
            }
            self.thrift.remove(&(bed.due, Slope(bed.plant), place));
            self.show(bed.due);
            looked_at.push((place, bed));
        }
        for (place, bed) in looked_at {
            self.thrift.insert((bed.due, Slope(bed.plant), place));
            self.show(bed.due);
        }
        chosen
    }

    /// What is watered today, by its place, and the day is over.
    pub fn day(&mut self) -> Vec<usize> {
        let (mut left, mut watered) = (self.capacity, Vec::new());
        for &(due, cost, _, place) in &self.queue {
            if due > self.today || cost > left {
                break;
            }
            left -= cost;
            watered.push(place);
        }
        watered.iter().for_each(|&place| self.water(place));
        for place in self.early(left, |_| true) {
            self.water(place);
            watered.push(place);
        }
        self.turn_to(self.today + 1);
        watered
    }

    /// Who wastes least of those that are due after today and by then.
    fn thriftiest(&mut self, by: i64) -> Option<(usize, TaskState)> {
        let from = self.demand.bucket(self.today + 1);
        let to = self.demand.bucket(by).min(from + self.demand.span() - 1);
        let (first, last) = (self.demand.place(from), self.demand.place(to));
        let leaf = match first <= last {
            true => self.least.least_of(self.today, first..last + 1),
            false => {
                let ends = [first..self.demand.span() as usize, 0..last + 1];
                let two = ends.map(|places| self.least.least_of(self.today, places));
                two.into_iter().flatten().min_by(|&one, &other| self.least.compare(one, other))
            }
        }?;
        let place = self.cheapest(self.least.due(leaf)?)?;
        Some((place, self.beds[place]?))
    }

    /// Who wastes least of those that are due at the same place in the ring, after today.
    fn cheapest(&self, due: i64) -> Option<usize> {
        let bucket = self.demand.bucket(due);
        let none = Slope(Task { cost: 0, window: 0 });
        let from = self.demand.first_day(bucket).max(self.today + 1);
        let to = self.demand.first_day(bucket + 1);
        self.thrift.range((from, none, 0)..(to.max(from), none, 0)).next().map(|&(.., place)| place)
    }

    /// Brings the tournament up to date at a due day.
    fn show(&mut self, due: i64) {
        let bucket = self.demand.bucket(due);
        let place = self.demand.place(bucket);
        let now = self.demand.bucket(self.today);
        let ahead = (now..now + self.demand.span()).contains(&bucket);
        match self.cheapest(due).filter(|_| ahead).and_then(|cheapest| self.beds[cheapest]) {
            Some(bed) => self.least.put(place, &bed.plant, bed.due),
            // Another day may have the place.
            None if self.least.due(place).is_some_and(|due| self.demand.bucket(due) == bucket) => {
                self.least.take(place);
            }
            None => {}
        }
    }

    fn sow(&mut self, place: usize, plant: Task, due: i64) {
        let bed = TaskState { plant, due, sown: self.today };
        self.beds[place] = Some(bed);
        self.queue.insert((due, plant.cost, Reverse(plant.window), place));
        self.thrift.insert((due, Slope(plant), place));
        self.note(bed, true);
        self.show(due);
    }

    fn lift(&mut self, place: usize, bed: TaskState) {
        let TaskState { plant, due, .. } = bed;
        self.queue.remove(&(due, plant.cost, Reverse(plant.window), place));
        self.thrift.remove(&(due, Slope(plant), place));
        self.beds[place] = None;
        self.note(bed, false);
        self.show(due);
    }

    /// Counts what a plant will cost on the coming days, or no longer.
    fn note(&mut self, bed: TaskState, counts: bool) {
        let TaskState { plant: Task { cost, window }, due, sown } = bed;
        let now = self.demand.bucket(self.today);
        let seen_until = self.demand.bucket(sown) + self.demand.span();
        if self.demand.bucket(due) < now {
            self.late = if counts { self.late + cost } else { self.late - cost };
        }
        for nth in 0..SEEN {
            let bucket = self.demand.bucket(due + nth * i64::from(window));
            match now <= bucket && bucket < seen_until {
                true if counts => self.demand.add(bucket, cost),
                true => self.demand.less(bucket, cost),
                false => {}
            }
        }
    }

    /// Makes the ring large enough, and notes everything anew.
    fn lay_out(&mut self) {
        let longest = self.longest.max(1).unsigned_abs().next_power_of_two();
        self.demand = DayCosts::new(SEEN * i64::try_from(longest).unwrap_or(i64::MAX / SEEN));
        self.least = KineticMinimum::new(self.demand.span() as usize);
        self.late = 0;
        self.count_on(true);
        let mut dues = BTreeSet::new();
        for place in 0..self.beds.len() {
            if let Some(bed) = &mut self.beds[place] {
                bed.sown = self.today;
                let bed = *bed;
                dues.insert(bed.due);
                self.note(bed, true);
            }
        }
        dues.into_iter().for_each(|due| self.show(due));
    }

    /// What a day is counted on for. A little off is as good, and to change it is work.
    fn count_on(&mut self, exactly: bool) {
        let dearest = self.costs.last_key_value().map_or(0, |(&cost, _)| cost);
        let grain = self.grain.max(1);
        let waste = dearest.saturating_sub(grain) + self.capacity % grain;
        let over = self.capacity as f64 / UNIT as f64 - self.omega();
        let kept = (KEPT * over.max(0.0) * UNIT as f64) as Work;
        let slack = if waste == 0 { 0 } else { waste.max(kept) };
        let counted = self.capacity - slack.min(self.capacity / 2);
        if exactly || counted.abs_diff(self.counted) > self.capacity / 64 {
            self.counted = counted;
            self.demand.set_capacity(counted);
        }
    }
}
