//! An independent record of all limits of each source. It checks that a probe is polite without use of the
//! engine. All instants are real time, not clock time.

use std::collections::{BTreeMap, HashMap};

use tidewatch_core::engine::action::Attempt;
use tidewatch_core::engine::event::{Failure, ProbeAnswer};
use tidewatch_core::engine::note::Note;
use tidewatch_core::engine::params::BurstTerms;
use tidewatch_core::engine::params::{HostGroup, Terms};
use tidewatch_core::engine::reason::Reason;
use tidewatch_core::engine::source_memory::SourceMemory;
use tidewatch_core::model::burst::BurstChange;
use tidewatch_core::observe::FeedHints;
use tidewatch_core::planning::next_probe::fallback;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

const DAY: Span = Span::from_days(1);

/// Counts of events by name, to check that runs are varied.
pub type Tally = BTreeMap<&'static str, usize>;

/// The limits of one source, and its probes.
#[derive(Debug)]
struct SourceRecord {
    terms: Terms,
    /// The end times of its probes.
    ends: Vec<Timestamp>,
    /// Those of them that the budget does not count.
    uncharged: Vec<Timestamp>,
    /// A probe is under way, and whether it is a burst probe.
    under_way: Option<bool>,
    fresh_until: Option<Timestamp>,
    retry_until: Option<Timestamp>,
    /// At least until then.
    backoff_until: Option<Timestamp>,
    hints: FeedHints,
    gone: bool,
    requested_manually: bool,
    failures: u32,
    updates: u64,
    /// The host that answered last in its place.
    leads_to: Option<HostGroup>,
    /// The due probe was due before its terms changed.
    excused: bool,
    /// The policy that `auto` follows, if known.
    follows: Option<Policy>,
    /// Whether a burst is on, if known.
    burst: Option<bool>,
    quiet: Option<bool>,
}

/// The records of all sources.
#[derive(Debug)]
pub struct PolitenessChecker {
    records: HashMap<SourceId, SourceRecord>,
    pauses: HashMap<String, Timestamp>,
    burst: BurstTerms,
    /// Our own network is down.
    outage: bool,
    pub tally: Tally,
}

impl PolitenessChecker {
    pub fn new(burst: BurstTerms) -> Self {
        Self { records: HashMap::new(), pauses: HashMap::new(), burst, outage: false, tally: Tally::new() }
    }

    pub fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    pub fn open(&mut self, id: SourceId, terms: &Terms, updates: u64) {
        let record = SourceRecord {
            terms: terms.clone(),
            ends: Vec::new(),
            uncharged: Vec::new(),
            under_way: None,
            fresh_until: None,
            retry_until: None,
            backoff_until: None,
            hints: FeedHints::default(),
            gone: false,
            requested_manually: false,
            failures: 0,
            updates,
            leads_to: None,
            excused: false,
            follows: Some(fallback(terms.policy)),
            burst: Some(false),
            quiet: Some(false),
        };
        self.records.insert(id, record);
    }

    fn of(&mut self, id: SourceId) -> &mut SourceRecord {
        self.records.get_mut(&id).unwrap()
    }

    /// A manual probe was requested and accepted.
    pub fn requested(&mut self, id: SourceId) {
        self.of(id).requested_manually = true;
    }

    /// A slot is assigned. A pause of the redirect target is checked at this moment only.
    pub fn assigned(&mut self, id: SourceId, now: Timestamp) {
        if let Some(host) = &self.records[&id].leads_to {
            let paused = self.pauses.get(&*host.key);
            assert!(paused.is_none_or(|&until| until <= now), "{} is paused until {paused:?}", host.key);
        }
    }

    /// Checks that a sent probe is polite. Skipped hours are in clock time, all else in real time.
    pub fn sent(&mut self, order: &Attempt, now: Timestamp, clock: Timestamp) {
        let reserve = reserve(&self.records[&order.source].terms, &self.burst);
        let paused = self.pauses.get(&*self.records[&order.source].terms.host.key).copied();
        let record = self.of(order.source);
        let budget = record.terms.budget;
        assert_eq!(record.under_way, None, "two probes at the same time");
        let recent = |since: &[Timestamp]| since.iter().filter(|&&end| now - end < budget.per).count();
        let spent = recent(&record.ends).saturating_sub(recent(&record.uncharged));
        assert!(spent < budget.probes as usize, "{spent} within T before this one: {budget:?}");
        if let Some(&last) = record.ends.last() {
            for (what, apart) in [
                ("spacing", Some(budget.min_spacing)),
                ("ttl", record.hints.ttl),
                ("update period", record.hints.update_period),
            ] {
                let apart = apart.unwrap_or(Span::ZERO);
                assert!(now - last >= apart, "{what} of {apart} broken: {last} {now} {order:?}");
            }
        }
        for (what, until) in [
            ("max-age", record.fresh_until),
            ("retry-after", record.retry_until),
            ("backoff", record.backoff_until),
            ("host pause", paused),
        ] {
            assert!(
                until.is_none_or(|until| until <= now),
                "{what} until {until:?} broken: {now} {order:?}"
            );
        }
        let FeedHints { skip_hours, skip_days, .. } = record.hints;
        let hour = clock.as_millis().div_euclid(3_600_000);
        // Hour 0 was on a Thursday.
        let (of_day, of_week) = (hour.rem_euclid(24), (hour.div_euclid(24) + 3).rem_euclid(7));
        assert!(skip_hours >> of_day & 1 == 0 && skip_days >> of_week & 1 == 0, "skipped: {clock}");
        assert!(!record.gone || record.requested_manually, "gone for good: {order:?}");

        let burst_probe = record.terms.policy == Policy::Auto
            && order.policy == Policy::Ttl
            && order.reason != Reason::Manual;
        // If items may have been lost, a probe is sooner than the reserve allows.
        if burst_probe && !record.excused && order.reason != Reason::Gap {
            assert!(reserve > 0, "a burst probe without a reserve: {order:?}");
        }
        (record.requested_manually, record.excused, record.under_way) = (false, false, Some(burst_probe));
        let what = match (burst_probe, order.reason) {
            (true, _) => "burst probes",
            (_, Reason::Manual) => "manual probes",
            (_, Reason::Plan) => "planned probes",
            (_, Reason::Gap) => "hurried probes",
            (_, Reason::MaxGap) => "probes by deadline",
            (_, Reason::Constraint(_)) => "deferred probes",
            _ => "other probes",
        };
        self.count(what);
    }

    /// A probe was sent, or might have been, and its result is unknown.
    pub fn cut_off(&mut self, id: SourceId, end: Timestamp) {
        let record = self.of(id);
        if record.under_way.take().is_some() {
            record.ends.push(end);
        }
    }

    /// A probe ended.
    pub fn ended(
        &mut self,
        id: SourceId,
        end: Timestamp,
        answered_by: Option<&HostGroup>,
        result: &Result<ProbeAnswer, Failure>,
        notes: &[Note],
        uncharged: bool,
    ) {
        for note in notes {
            match note {
                Note::OutageBegan { .. } => self.outage = true,
                Note::OutageEnded { .. } => self.outage = false,
                _ => {}
            }
        }
        let outage = self.outage;
        // Only in an outage of our own, and only if no request was sent.
        let before_request = result.as_ref().is_err_and(|failure| failure.is_before_request());
        let may_be = outage && before_request && answered_by.is_none();
        assert_eq!(uncharged, may_be, "{result:?}");
        self.cut_off(id, end);
        let record = self.of(id);
        if uncharged {
            record.uncharged.push(end);
        }
        if let Some(host) = answered_by {
            record.leads_to = Some(host.clone()).filter(|host| *host != record.terms.host);
        }
        match result {
            Ok(answer) => record.take_answer(answer, end),
            Err(failure) => {
                let paused_until = record.take_failure(*failure, end, outage);
                let throttling = answered_by.unwrap_or(&record.terms.host).clone();
                if let Some(until) = paused_until.filter(|_| throttling.public) {
                    let pause = self.pauses.entry(throttling.key.to_string()).or_insert(until);
                    *pause = (*pause).max(until);
                    self.count("host pauses");
                }
                self.count("failures");
            }
        }
    }

    /// A note of a source. Bursts, silences and switches must be consistent with the notes before.
    pub fn noted(&mut self, id: SourceId, note: &Note) {
        let record = self.of(id);
        let alternates = |was: &mut Option<bool>, is: bool| {
            assert_ne!(*was, Some(is), "twice: {note:?}");
            *was = Some(is);
        };
        let what = match note {
            Note::Burst(BurstChange::Began(_)) => {
                alternates(&mut record.burst, true);
                "bursts begun"
            }
            Note::Burst(BurstChange::Ended(_)) => {
                alternates(&mut record.burst, false);
                "bursts ended"
            }
            Note::Burst(BurstChange::Passed(_)) => {
                assert_ne!(record.burst, Some(true), "within another: {note:?}");
                "bursts passed"
            }
            Note::WentQuiet { .. } => {
                alternates(&mut record.quiet, true);
                "went quiet"
            }
            Note::SpokeAgain => {
                alternates(&mut record.quiet, false);
                "spoke again"
            }
            Note::PolicySwitched { from, to, .. } => {
                match record.terms.policy {
                    Policy::Auto => {}
                    Policy::IndHistTtl => assert!(matches!(to, Policy::IndHist | Policy::Ttl), "{note:?}"),
                    Policy::IndHistAggHist => {
                        assert!(
                            matches!(to, Policy::IndHist | Policy::AggHist | Policy::Uniform),
                            "{note:?}"
                        );
                    }
                    policy => panic!("{policy:?}: {note:?}"),
                }
                assert!(record.follows.is_none_or(|follows| follows == *from), "{note:?}");
                assert_ne!(from, to);
                record.follows = Some(*to);
                "switches"
            }
            Note::RhythmChanged => "rhythms changed",
            Note::RhythmRelearned(_) => "rhythms relearned",
            Note::OutageBegan { .. } => "outages",
            _ => return,
        };
        self.count(what);
    }

    /// The stored state must match the notes. `watched`: the probe had a rate to compare with, and the
    /// document was the same as before.
    pub fn remembered(&mut self, id: SourceId, memory: &SourceMemory, watched: bool) {
        let record = self.of(id);
        let on = memory.burst.burst_since.is_some();
        if !watched {
            // It is unknown whether the burst is over.
            record.burst = Some(false);
        }
        assert_eq!(record.burst.unwrap_or(on), on, "{memory:?}");
        record.burst = Some(on);
        if record.terms.policy.switches() {
            assert_eq!(record.follows.unwrap_or(memory.burst.follows), memory.burst.follows);
        }
    }

    /// Its terms are changed.
    pub fn terms_changed(&mut self, id: SourceId, terms: &Terms) {
        let record = self.of(id);
        if record.terms.policy != terms.policy {
            record.follows = Some(fallback(terms.policy));
        }
        record.terms = terms.clone();
        record.excuse_next();
    }

    /// It was removed and is added again. Changes in between are unknown.
    pub fn returned(&mut self, id: SourceId, terms: &Terms, memory: &SourceMemory) {
        let changed = self.of(id).terms.policy != terms.policy;
        self.terms_changed(id, terms);
        let record = self.of(id);
        if memory.last_probe.is_none() {
            // As a new source, also if it followed a plan already.
            record.follows = Some(fallback(terms.policy));
        } else if changed {
            record.follows = Some(memory.burst.follows);
        }
        // It is to be probed again, and its redirect target is not stored.
        (record.gone, record.leads_to) = (false, None);
    }

    /// It has a new address. The limits of the old address do not apply; the spent budget does.
    pub fn moved(&mut self, id: SourceId) {
        let record = self.of(id);
        (record.fresh_until, record.retry_until, record.backoff_until) = (None, None, None);
        (record.hints, record.gone, record.failures) = (FeedHints::default(), false, 0);
        record.leads_to = None;
        (record.burst, record.quiet) = (None, None);
        record.excuse_next();
    }

    /// A source that moved starts with the policy for sources without evidence.
    pub fn reset_policy(&mut self, id: SourceId) {
        let record = self.of(id);
        record.follows = Some(fallback(record.terms.policy));
    }

    /// The burst settings are changed.
    pub fn set_burst(&mut self, burst: BurstTerms) {
        self.burst = burst;
        self.records.values_mut().for_each(SourceRecord::excuse_next);
    }

    /// The engine is restarted. State that is not stored is lost.
    pub fn restarted(&mut self) {
        self.outage = false;
        for record in self.records.values_mut() {
            (record.leads_to, record.requested_manually) = (None, false);
        }
    }
}

/// The maximum number of burst probes per T.
fn reserve(terms: &Terms, burst: &BurstTerms) -> usize {
    (f64::from(terms.budget.probes) * burst.reserve).floor() as usize
}

impl SourceRecord {
    fn excuse_next(&mut self) {
        self.excused = true;
    }

    fn take_answer(&mut self, answer: &ProbeAnswer, end: Timestamp) {
        self.fresh_until = answer.fresh_for.map(|span| end + span);
        (self.retry_until, self.backoff_until, self.failures, self.gone) = (None, None, 0, false);
        self.updates += u64::from(answer.updates + answer.history);
        self.hints = answer.hints.unwrap_or(self.hints);
    }

    /// Returns the end of its pause, if it sent one.
    fn take_failure(&mut self, failure: Failure, end: Timestamp, outage: bool) -> Option<Timestamp> {
        if failure == Failure::Interrupted || (failure == Failure::Unreachable && outage) {
            return None;
        }
        self.failures += 1;
        match failure {
            Failure::Gone => self.gone = true,
            Failure::Forbidden => self.backoff_until = Some(end + DAY),
            Failure::Throttled { retry_after: Some(pause) } => {
                self.retry_until = Some(end + pause);
                return self.retry_until;
            }
            Failure::Throttled { retry_after: None } => {
                self.backoff_until = Some(end + self.least_backoff().max(Span::from_mins(15)));
                return self.backoff_until;
            }
            _ => self.backoff_until = Some(end + self.least_backoff()),
        }
        None
    }

    /// The interval, doubled with each failure up to a day.
    fn least_backoff(&self) -> Span {
        let budget = self.terms.budget;
        let even = Span::from_millis(budget.per.as_millis() / i64::from(budget.probes));
        let gap = even.max(budget.min_spacing);
        (1..self.failures).fold(gap, |pause, _| (pause + pause).min(DAY.max(gap)))
    }
}
