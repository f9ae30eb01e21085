//! An account of what was asked of us and when, kept by itself: whoever reads it learns whether a probe
//! was polite without asking those who sent it. All instants are real time, whatever the clock showed.

use std::collections::{BTreeMap, HashMap};

use tidewatch_core::engine::action::Attempt;
use tidewatch_core::engine::event::{Failure, ProbeAnswer};
use tidewatch_core::engine::memory::SourceMemory;
use tidewatch_core::engine::note::Note;
use tidewatch_core::engine::params::{BurstTerms, Response};
use tidewatch_core::engine::params::{HostGroup, Terms};
use tidewatch_core::engine::reason::Reason;
use tidewatch_core::model::burst::BurstChange;
use tidewatch_core::observe::FeedHints;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

const DAY: Span = Span::from_days(1);

/// What there was, by name: to see that lives are not dull.
pub type Tally = BTreeMap<&'static str, usize>;

/// What one source asked for, and what was sent to it.
#[derive(Debug)]
struct Account {
    terms: Terms,
    /// When its probes ended.
    ends: Vec<Timestamp>,
    /// A probe is under way, and whether it chases a burst.
    under_way: Option<bool>,
    fresh_until: Option<Timestamp>,
    retry_until: Option<Timestamp>,
    /// At least until then.
    backoff_until: Option<Timestamp>,
    hints: FeedHints,
    gone: bool,
    asked_by_hand: bool,
    failures: u32,
    updates: u64,
    /// The host that answered last in its place.
    leads_to: Option<HostGroup>,
    /// What is due was due before its terms changed.
    excused: bool,
    /// What `auto` follows, where that can be known.
    follows: Option<Policy>,
    /// Whether a burst is on, where that can be known.
    burst: Option<bool>,
    quiet: Option<bool>,
}

/// The accounts of all sources.
#[derive(Debug)]
pub struct Ledger {
    accounts: HashMap<SourceId, Account>,
    pauses: HashMap<String, Timestamp>,
    burst: BurstTerms,
    /// Our own network is down.
    outage: bool,
    pub tally: Tally,
}

impl Ledger {
    pub fn new(burst: BurstTerms) -> Self {
        Self { accounts: HashMap::new(), pauses: HashMap::new(), burst, outage: false, tally: Tally::new() }
    }

    pub fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    pub fn open(&mut self, id: SourceId, terms: &Terms, updates: u64) {
        let account = Account {
            terms: terms.clone(),
            ends: Vec::new(),
            under_way: None,
            fresh_until: None,
            retry_until: None,
            backoff_until: None,
            hints: FeedHints::default(),
            gone: false,
            asked_by_hand: false,
            failures: 0,
            updates,
            leads_to: None,
            excused: false,
            follows: Some(Policy::Adaptive),
            burst: Some(false),
            quiet: Some(false),
        };
        self.accounts.insert(id, account);
    }

    fn of(&mut self, id: SourceId) -> &mut Account {
        self.accounts.get_mut(&id).unwrap()
    }

    /// Someone asked for a probe, and was promised one.
    pub fn asked(&mut self, id: SourceId) {
        self.of(id).asked_by_hand = true;
    }

    /// A probe is ordered. What its redirects lead to is known to rest or not at this moment only.
    pub fn ordered(&mut self, id: SourceId, now: Timestamp) {
        if let Some(host) = &self.accounts[&id].leads_to {
            let paused = self.pauses.get(&*host.key);
            assert!(paused.is_none_or(|&until| until <= now), "{} rests until {paused:?}", host.key);
        }
    }

    /// A probe is sent: is that polite? Skipped hours go by the clock, all else by real time.
    pub fn sent(&mut self, order: &Attempt, now: Timestamp, clock: Timestamp) {
        let reserve = reserve(&self.accounts[&order.source].terms, &self.burst);
        let paused = self.pauses.get(&*self.accounts[&order.source].terms.host.key).copied();
        let account = self.of(order.source);
        let budget = account.terms.budget;
        assert_eq!(account.under_way, None, "two at a time");
        let recent = |since: &[Timestamp]| since.iter().filter(|&&end| now - end < budget.per).count();
        let spent = recent(&account.ends);
        assert!(spent < budget.probes as usize, "{spent} within T, and now another: {budget:?}");
        if let Some(&last) = account.ends.last() {
            for (what, apart) in [
                ("spacing", Some(budget.min_spacing)),
                ("ttl", account.hints.ttl),
                ("update period", account.hints.update_period),
            ] {
                let apart = apart.unwrap_or(Span::ZERO);
                assert!(now - last >= apart, "{what} of {apart} broken: {last} {now} {order:?}");
            }
        }
        for (what, until) in [
            ("max-age", account.fresh_until),
            ("retry-after", account.retry_until),
            ("backoff", account.backoff_until),
            ("host pause", paused),
        ] {
            assert!(
                until.is_none_or(|until| until <= now),
                "{what} until {until:?} broken: {now} {order:?}"
            );
        }
        let FeedHints { skip_hours, skip_days, .. } = account.hints;
        let hour = clock.as_millis().div_euclid(3_600_000);
        // Hour 0 was in the night to a Thursday.
        let (of_day, of_week) = (hour.rem_euclid(24), (hour.div_euclid(24) + 3).rem_euclid(7));
        assert!(skip_hours >> of_day & 1 == 0 && skip_days >> of_week & 1 == 0, "skipped: {clock}");
        assert!(!account.gone || account.asked_by_hand, "gone for good: {order:?}");

        let chases = account.terms.policy == Policy::Auto
            && order.policy == Policy::Ttl
            && order.reason != Reason::Manual;
        // Where items may have been lost a probe comes sooner than the reserve would have it.
        if chases && !account.excused && order.reason != Reason::Gap {
            assert!(reserve > 0, "a chase without a reserve: {order:?}");
        }
        (account.asked_by_hand, account.excused, account.under_way) = (false, false, Some(chases));
        let what = match (chases, order.reason) {
            (true, _) => "chases",
            (_, Reason::Manual) => "probes by hand",
            (_, Reason::Plan) => "planned probes",
            (_, Reason::Gap) => "hurried probes",
            (_, Reason::MaxGap) => "looks by deadline",
            (_, Reason::Constraint(_)) => "deferred probes",
            _ => "other probes",
        };
        self.count(what);
    }

    /// A probe was sent, or might have been, and nobody heard of it again.
    pub fn cut_off(&mut self, id: SourceId, end: Timestamp) {
        let account = self.of(id);
        if account.under_way.take().is_some() {
            account.ends.push(end);
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
    ) {
        for note in notes {
            match note {
                Note::OutageBegan => self.outage = true,
                Note::OutageEnded => self.outage = false,
                _ => {}
            }
        }
        let outage = self.outage;
        self.cut_off(id, end);
        let account = self.of(id);
        if let Some(host) = answered_by {
            account.leads_to = Some(host.clone()).filter(|host| *host != account.terms.host);
        }
        match result {
            Ok(answer) => account.take_answer(answer, end),
            Err(failure) => {
                let rest = account.take_failure(*failure, end, outage);
                let asking = answered_by.unwrap_or(&account.terms.host).clone();
                if let Some(until) = rest.filter(|_| asking.public) {
                    let pause = self.pauses.entry(asking.key.to_string()).or_insert(until);
                    *pause = (*pause).max(until);
                    self.count("host pauses");
                }
                self.count("failures");
            }
        }
    }

    /// What was said of a source. Bursts, silences and switches each follow from the one before.
    pub fn noted(&mut self, id: SourceId, note: &Note) {
        let account = self.of(id);
        let alternates = |was: &mut Option<bool>, is: bool| {
            assert_ne!(*was, Some(is), "twice: {note:?}");
            *was = Some(is);
        };
        let what = match note {
            Note::Burst(BurstChange::Began(_)) => {
                alternates(&mut account.burst, true);
                "bursts begun"
            }
            Note::Burst(BurstChange::Ended(_)) => {
                alternates(&mut account.burst, false);
                "bursts ended"
            }
            Note::Burst(BurstChange::Passed(_)) => {
                assert_ne!(account.burst, Some(true), "within another: {note:?}");
                "bursts passed"
            }
            Note::WentQuiet { .. } => {
                alternates(&mut account.quiet, true);
                "went quiet"
            }
            Note::SpokeAgain => {
                alternates(&mut account.quiet, false);
                "spoke again"
            }
            Note::PolicySwitched { from, to, .. } => {
                assert_eq!(account.terms.policy, Policy::Auto, "{note:?}");
                assert!(account.follows.is_none_or(|follows| follows == *from), "{note:?}");
                assert_ne!(from, to);
                account.follows = Some(*to);
                "switches"
            }
            Note::RhythmChanged => "rhythms changed",
            Note::OutageBegan => "outages",
            _ => return,
        };
        self.count(what);
    }

    /// What is remembered must be what was said. `watched` where the look had a rate to be held
    /// against and was at the document that was looked at before.
    pub fn remembered(&mut self, id: SourceId, memory: &SourceMemory, watched: bool) {
        let account = self.of(id);
        let on = memory.burst.burst_since.is_some();
        if !watched {
            // What was on is neither over nor goes on: nobody can tell.
            account.burst = Some(false);
        }
        assert_eq!(account.burst.unwrap_or(on), on, "{memory:?}");
        account.burst = Some(on);
        if account.terms.policy == Policy::Auto {
            assert_eq!(account.follows.unwrap_or(memory.burst.follows), memory.burst.follows);
        }
    }

    /// What a user grants it is another from now on.
    pub fn regranted(&mut self, id: SourceId, terms: &Terms) {
        let account = self.of(id);
        if account.terms.policy != terms.policy {
            account.follows = Some(Policy::Adaptive);
        }
        account.terms = terms.clone();
        account.grant_anew();
    }

    /// It was off the list and is back: who it was in between, nobody says.
    pub fn returned(&mut self, id: SourceId, terms: &Terms, memory: &SourceMemory) {
        let changed = self.of(id).terms.policy != terms.policy;
        self.regranted(id, terms);
        let account = self.of(id);
        if changed {
            account.follows = Some(memory.burst.follows);
        }
        // Whoever puts it back wants it probed; and what its redirects lead to is not remembered.
        (account.gone, account.leads_to) = (false, None);
    }

    /// It is elsewhere: what the old address asked for says nothing of the new one. What was spent is.
    pub fn moved(&mut self, id: SourceId) {
        let account = self.of(id);
        (account.fresh_until, account.retry_until, account.backoff_until) = (None, None, None);
        (account.hints, account.gone, account.failures) = (FeedHints::default(), false, 0);
        account.leads_to = None;
        (account.burst, account.quiet) = (None, None);
        account.grant_anew();
    }

    /// The life of a source that moved begins anew.
    pub fn reborn(&mut self, id: SourceId) {
        self.of(id).follows = Some(Policy::Adaptive);
    }

    /// What is done about bursts is something else from now on.
    pub fn set_burst(&mut self, burst: BurstTerms) {
        self.burst = burst;
        self.accounts.values_mut().for_each(Account::grant_anew);
    }

    /// Whoever was down is up again; what is not stored is not known any more.
    pub fn restarted(&mut self) {
        self.outage = false;
        for account in self.accounts.values_mut() {
            (account.leads_to, account.asked_by_hand) = (None, false);
        }
    }
}

/// How many probes per T bursts may cost.
fn reserve(terms: &Terms, burst: &BurstTerms) -> usize {
    match burst.response {
        Response::Ttl => (f64::from(terms.budget.probes) * burst.reserve).floor() as usize,
        Response::Replan => 0,
    }
}

impl Account {
    fn grant_anew(&mut self) {
        self.excused = true;
    }

    fn take_answer(&mut self, answer: &ProbeAnswer, end: Timestamp) {
        self.fresh_until = answer.fresh_for.map(|span| end + span);
        (self.retry_until, self.backoff_until, self.failures, self.gone) = (None, None, 0, false);
        self.updates += u64::from(answer.updates + answer.history);
        self.hints = answer.hints.unwrap_or(self.hints);
    }

    /// Says for how long it asked for rest, if it did.
    fn take_failure(&mut self, failure: Failure, end: Timestamp, outage: bool) -> Option<Timestamp> {
        if failure == Failure::Interrupted || (failure == Failure::Unreachable && outage) {
            return None;
        }
        self.failures += 1;
        match failure {
            Failure::Gone => self.gone = true,
            Failure::Forbidden => self.backoff_until = Some(end + DAY),
            Failure::Throttled { retry_after: Some(rest) } => {
                self.retry_until = Some(end + rest);
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

    /// The gap, twice that, four times that, until it is a day.
    fn least_backoff(&self) -> Span {
        let budget = self.terms.budget;
        let even = Span::from_millis(budget.per.as_millis() / i64::from(budget.probes));
        let cautious = self.updates < 10 && !self.terms.own_budget;
        let gap = even.max(budget.min_spacing).max(if cautious { Span::from_hours(1) } else { Span::ZERO });
        (1..self.failures).fold(gap, |pause, _| (pause + pause).min(DAY.max(gap)))
    }
}
