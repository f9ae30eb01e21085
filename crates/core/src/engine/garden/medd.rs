//! MEDD (Gao et al., Algorithm 1): earliest due day first for recurring tasks, with a forecast for every
//! day.
//!
//! Due tasks are served first: the longest overdue, then the cheapest, then the longest window. The rest of
//! the day's capacity serves tasks early, but only as much as the coming days will lack, and where (days
//! until due)/w·c is least.
//!
//! The paper sums the shortage over the next w_max days as a whole (`printed` in the lab). That misses due
//! days that coincide. Example: 1,000 tasks, all served on day 0, at half the capacity, were late 222 days
//! in total within 1,500 days; plain earliest due day first was never late. Here the *overload* is the
//! largest shortage over any number of coming days. It is spent only on tasks that are due by the end of
//! those days. Details:
//!
//! - The next [`SEEN`] due days of each task are counted. More of them changed nothing.
//! - Costs may not fill a day exactly. Up to the largest cost minus the common divisor of all costs stays
//!   unused. The forecast subtracts this amount, or [`KEPT`] of the capacity beyond Ω if that is more. If
//!   all costs are equal and divide the capacity, nothing is subtracted.
//! - Enough is served to *cover* the overload. The paper stops earlier and leaves a remainder that is late.
//!
//! Tasks are ordered by due day, and by waste: a kinetic tournament over due days, and c/w within a day.
//! The cost of coming days is in a tree (`overload_forecast`). A day costs O(log n) for each task that is served or
//! becomes late. Tasks, windows and capacity may change at any time.

use serde::{Deserialize, Serialize};
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};

use super::kinetic_minimum::KineticMinimum;
use super::overload_forecast::{DayCosts, Overload};
use super::{Task, UNIT, Work};

/// How many due days of a task are forecast.
pub const SEEN: i64 = 4;

/// The share of the capacity beyond Ω that the forecast leaves out.
pub const KEPT: f64 = 0.3;

/// At most this many tasks that may not be served early are skipped per day.
const PASSED_OVER: usize = 64;

/// MEDD.
///
/// ```
/// use tidewatch_core::engine::garden::{Task, UNIT, medd::Medd};
///
/// // Two tasks with a window of a week and capacity for one per day: one of them is a day early.
/// let mut medd = Medd::of(&[Task::new(1.0, 7); 2], UNIT);
/// let days: Vec<usize> = (1..=14).map(|_| medd.day().len()).collect();
/// assert_eq!(days, [0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 1]);
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Medd {
    states: Vec<Option<TaskState>>,
    capacity: Work,
    today: i64,
    /// The order in which due tasks are served: by due day, then cost, then window.
    queue: BTreeSet<(i64, Work, Reverse<u32>, usize)>,
    /// By due day, then by least waste.
    thrift: BTreeSet<(i64, Slope, usize)>,
    /// The least wasteful task of each coming due day.
    least: KineticMinimum,
    demand: DayCosts,
    /// The cost of tasks that were due before today's cell of the ring.
    late: Work,
    /// Ω in 10⁻¹² units per day. An integer, so that removals cancel insertions exactly.
    omega: u128,
    /// The number of tasks per cost.
    costs: BTreeMap<Work, usize>,
    /// A common divisor of all costs since the set was last empty.
    grain: Work,
    longest: i64,
    /// The capacity per day that the forecast assumes.
    counted: Work,
}

/// A task and its due day.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct TaskState {
    task: Task,
    due: i64,
    /// The day on which its coming due days were counted.
    counted_on: i64,
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

/// c/w in 10⁻¹² units.
fn share(task: &Task) -> u128 {
    u128::from(task.cost) * u128::from(UNIT) / u128::from(task.window)
}

fn divisor(one: Work, other: Work) -> Work {
    if other == 0 { one } else { divisor(other, one % other) }
}

impl Medd {
    /// No tasks, on that day.
    pub fn new(capacity: Work, today: i64) -> Self {
        let demand = DayCosts::new(1);
        let mut medd = Self {
            states: Vec::new(),
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

    /// These tasks, all served on day 0.
    pub fn of(tasks: &[Task], capacity: Work) -> Self {
        let mut medd = Self::new(capacity, 1);
        for (index, &task) in tasks.iter().enumerate() {
            medd.task(index, task, i64::from(task.window));
        }
        medd.settle();
        medd
    }

    /// Inserts or replaces the task at this index, due on that day.
    pub fn task(&mut self, place: usize, task: Task, due: i64) {
        if let Some(state) = self.states.get(place).copied().flatten().filter(|state| state.task == task) {
            self.remove_entry(place, state);
            self.insert(place, task, due);
            return;
        }
        self.take_out(place);
        if self.states.len() <= place {
            self.states.resize(place + 1, None);
        }
        self.omega += share(&task);
        *self.costs.entry(task.cost).or_default() += 1;
        self.grain = divisor(task.cost, self.grain);
        self.longest = self.longest.max(i64::from(task.window));
        if SEEN * self.longest >= self.demand.days() {
            self.lay_out();
        }
        self.count_on(false);
        self.insert(place, task, due);
    }

    /// Removes the task at this index.
    pub fn remove(&mut self, place: usize) {
        self.take_out(place);
        self.count_on(false);
    }

    fn take_out(&mut self, place: usize) {
        let Some(state) = self.states.get(place).copied().flatten() else { return };
        self.remove_entry(place, state);
        self.omega -= share(&state.task);
        if let Some(count) = self.costs.get_mut(&state.task.cost) {
            *count -= 1;
            if *count == 0 {
                self.costs.remove(&state.task.cost);
            }
        }
        if self.costs.is_empty() {
            self.grain = 0;
        }
    }

    /// Recomputes the assumed capacity exactly, after many insertions or removals.
    pub fn settle(&mut self) {
        self.count_on(true);
    }

    /// Changes the capacity.
    pub fn set_capacity(&mut self, capacity: Work) {
        self.capacity = capacity;
        self.count_on(true);
    }

    /// Ω, in units per day.
    pub fn omega(&self) -> f64 {
        self.omega as f64 / (UNIT as f64 * UNIT as f64)
    }

    /// Advances to that day. Earlier days are ignored.
    pub fn advance_to(&mut self, day: i64) {
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
            // The remaining cost is of unserved tasks, or of later due days of late tasks.
            self.demand.clear(bucket);
        }
        let yesterday = self.today;
        self.today = day;
        let (from, to) = (self.demand.first_day(before), self.demand.first_day(now));
        let fallen = self.queue.range((from, 0, Reverse(u32::MAX), 0)..(to, 0, Reverse(u32::MAX), 0));
        self.late += fallen.map(|&(_, cost, ..)| cost).sum::<Work>();
        // Tasks due by now are no longer candidates for early service.
        let from = (yesterday + 1, 0, Reverse(u32::MAX), 0);
        let to = (day, Work::MAX, Reverse(0), usize::MAX);
        let fallen: BTreeSet<i64> = self.queue.range(from..=to).map(|&(due, ..)| due).collect();
        fallen.into_iter().for_each(|due| self.show(due));
    }

    /// Due tasks, in the order in which they are to be served.
    pub fn due_now(&self) -> impl Iterator<Item = usize> + '_ {
        self.queue.iter().take_while(|key| key.0 <= self.today).map(|key| key.3)
    }

    /// The shortage of the coming days.
    pub fn overload(&self) -> Option<Overload> {
        self.demand.overload(self.today, self.late)
    }

    /// The day on which a task should next be served early, if no task is inserted, removed or served after
    /// today; `None` if there is no shortage before the next due day.
    pub fn next_early(&self) -> Option<i64> {
        let &(next, ..) = self.queue.range((self.today + 1, 0, Reverse(u32::MAX), 0)..).next()?;
        let (today, last) = (self.demand.bucket(self.today), self.demand.bucket(next - 1));
        // Tasks not served today are late then.
        let late = if today < last { u64::try_from(self.demand.due(today)).unwrap_or(0) } else { 0 };
        let overload = self.demand.overload(next - 1, self.late + late)?;
        // No task is due until then: each earlier day reduces the shortage by a day's capacity.
        let days = overload.work.div_ceil(self.counted.max(1));
        Some(next.saturating_sub_unsigned(days).max(self.today + 1))
    }

    /// The task at this index is served today.
    pub fn mark_served(&mut self, place: usize) {
        if let Some(state) = self.states.get(place).copied().flatten() {
            self.remove_entry(place, state);
            self.insert(place, state.task, self.today + i64::from(state.task.window));
        }
    }

    /// The tasks to serve early with the rest of the day's capacity: enough to cover the shortage, the
    /// least wasteful first. `may` returns whether a task can be served.
    pub fn early(&mut self, left: Work, mut may: impl FnMut(usize) -> bool) -> Vec<usize> {
        let Some(overload) = self.overload().filter(|_| left > 0) else { return Vec::new() };
        let (mut left, mut missing, mut passed) = (left, overload.work, 0);
        let (mut chosen, mut removed) = (Vec::new(), Vec::new());
        while missing > 0
            && passed < PASSED_OVER
            && let Some((place, state)) = self.cheapest_per_day(overload.by)
        {
            let cost = state.task.cost;
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
            self.thrift.remove(&(state.due, Slope(state.task), place));
            self.show(state.due);
            removed.push((place, state));
        }
        for (place, state) in removed {
            self.thrift.insert((state.due, Slope(state.task), place));
            self.show(state.due);
        }
        chosen
    }

    /// Serves today's tasks, advances to the next day and returns the served indices.
    pub fn day(&mut self) -> Vec<usize> {
        let (mut left, mut chosen) = (self.capacity, Vec::new());
        for &(due, cost, _, place) in &self.queue {
            if due > self.today || cost > left {
                break;
            }
            left -= cost;
            chosen.push(place);
        }
        chosen.iter().for_each(|&place| self.mark_served(place));
        for place in self.early(left, |_| true) {
            self.mark_served(place);
            chosen.push(place);
        }
        self.advance_to(self.today + 1);
        chosen
    }

    /// The least wasteful task that is due after today and by the given day.
    fn cheapest_per_day(&mut self, by: i64) -> Option<(usize, TaskState)> {
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
        Some((place, self.states[place]?))
    }

    /// The least wasteful task of one cell of the ring, due after today.
    fn cheapest(&self, due: i64) -> Option<usize> {
        let bucket = self.demand.bucket(due);
        let none = Slope(Task { cost: 0, window: 0 });
        let from = self.demand.first_day(bucket).max(self.today + 1);
        let to = self.demand.first_day(bucket + 1);
        self.thrift.range((from, none, 0)..(to.max(from), none, 0)).next().map(|&(.., place)| place)
    }

    /// Updates the tournament at a due day.
    fn show(&mut self, due: i64) {
        let bucket = self.demand.bucket(due);
        let place = self.demand.place(bucket);
        let now = self.demand.bucket(self.today);
        let ahead = (now..now + self.demand.span()).contains(&bucket);
        match self.cheapest(due).filter(|_| ahead).and_then(|cheapest| self.states[cheapest]) {
            Some(state) => self.least.put(place, &state.task, state.due),
            // The position may belong to another day.
            None if self.least.due(place).is_some_and(|due| self.demand.bucket(due) == bucket) => {
                self.least.take(place);
            }
            None => {}
        }
    }

    fn insert(&mut self, place: usize, task: Task, due: i64) {
        let state = TaskState { task, due, counted_on: self.today };
        self.states[place] = Some(state);
        self.queue.insert((due, task.cost, Reverse(task.window), place));
        self.thrift.insert((due, Slope(task), place));
        self.note(state, true);
        self.show(due);
    }

    fn remove_entry(&mut self, place: usize, state: TaskState) {
        let TaskState { task, due, .. } = state;
        self.queue.remove(&(due, task.cost, Reverse(task.window), place));
        self.thrift.remove(&(due, Slope(task), place));
        self.states[place] = None;
        self.note(state, false);
        self.show(due);
    }

    /// Adds the cost of a task's coming due days, or subtracts it.
    fn note(&mut self, state: TaskState, counts: bool) {
        let TaskState { task: Task { cost, window }, due, counted_on } = state;
        let now = self.demand.bucket(self.today);
        let seen_until = self.demand.bucket(counted_on) + self.demand.span();
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

    /// Makes the ring large enough, and counts all tasks again.
    fn lay_out(&mut self) {
        let longest = self.longest.max(1).unsigned_abs().next_power_of_two();
        self.demand = DayCosts::new(SEEN * i64::try_from(longest).unwrap_or(i64::MAX / SEEN));
        self.least = KineticMinimum::new(self.demand.span() as usize);
        self.late = 0;
        self.count_on(true);
        let mut dues = BTreeSet::new();
        for place in 0..self.states.len() {
            if let Some(state) = &mut self.states[place] {
                state.counted_on = self.today;
                let state = *state;
                dues.insert(state.due);
                self.note(state, true);
            }
        }
        dues.into_iter().for_each(|due| self.show(due));
    }

    /// Computes the capacity that the forecast assumes. A small change is skipped, because applying it is
    /// expensive.
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
