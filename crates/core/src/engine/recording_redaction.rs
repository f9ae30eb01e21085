//! Replaces texts by numbers, so that a recording contains no address and no user-written text.
//!
//! Equal texts get equal numbers; the engine only compares texts.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::planning::active::ActiveHours;
use crate::planning::build::PlanOrder;
use crate::planning::rule::RuleTerms;

use super::action::{Action, DueChange, Persist, ProbeResult};
use super::event::{Configuration, CrawlDelay, EngineEvent, MovedTo, Pardon, ProbeReport};
use super::note::Note;
use super::params::{HostGroup, Terms};
use super::rule_counts::{RuleEffects, RuleRegistry, RuleSet};
use super::source::Source;
use super::source_memory::SourceMemory;
use super::state::Engine;

/// The number of each text.
#[derive(Debug, Clone, Default)]
pub(super) struct Redaction {
    numbers: BTreeMap<Arc<str>, Arc<str>>,
}

impl Redaction {
    fn number(&mut self, text: &str) -> Arc<str> {
        if let Some(number) = self.numbers.get(text) {
            return Arc::clone(number);
        }
        let number: Arc<str> = format!("#{}", self.numbers.len()).into();
        self.numbers.insert(text.into(), Arc::clone(&number));
        number
    }

    fn shared(&mut self, text: &mut Arc<str>) {
        *text = self.number(text);
    }

    fn owned(&mut self, text: &mut String) {
        *text = self.number(text).to_string();
    }

    fn host(&mut self, host: &mut HostGroup) {
        self.shared(&mut host.key);
    }

    fn terms(&mut self, terms: &mut Terms) {
        self.host(&mut terms.host);
    }

    fn rule(&mut self, rule: &mut Arc<RuleTerms>) {
        let name = self.number(&rule.name);
        *rule = Arc::new(RuleTerms { name, active: ActiveHours::default(), ..(**rule).clone() });
    }

    fn memory(&mut self, memory: &mut SourceMemory) {
        if let Some(moving) = &mut memory.moving {
            self.owned(&mut moving.target);
        }
        if let Some(url) = &mut memory.adopted_url {
            *url = Box::from(&*self.number(url));
        }
        memory.rule.iter_mut().for_each(|rule| self.shared(rule));
    }

    fn rules(&mut self, rules: &mut RuleSet) {
        rules.terms.iter_mut().for_each(|rule| self.rule(rule));
    }

    fn note(&mut self, note: &mut Note) {
        match note {
            Note::MoveAdopted { to } => self.owned(to),
            Note::HostPaused { host, .. } => self.owned(host),
            Note::RuleUnmet { rule, .. } | Note::RuleMissed { rule, .. } => self.shared(rule),
            _ => {}
        }
    }

    fn follows(&mut self, follows: &mut RuleEffects) {
        follows.notices.iter_mut().for_each(|notice| self.shared(&mut notice.rule));
        follows.states.iter_mut().for_each(|state| self.shared(&mut state.rule));
    }

    fn due(&mut self, due: &mut DueChange) {
        due.rule.iter_mut().for_each(|rule| self.shared(rule));
    }

    fn source(&mut self, source: &mut Source) {
        self.memory(&mut source.memory);
        let next = source.pending_intervals.as_mut().and_then(|pending| pending.next.as_mut());
        next.into_iter().for_each(|next| self.shared(&mut next.name));
    }

    fn registry(&mut self, registry: &mut RuleRegistry) {
        registry.rename(|rule| self.rule(rule));
    }

    /// Replaces the texts of an engine.
    pub fn engine(&mut self, engine: &mut Engine) {
        engine.hosts.rename(|key| self.number(key));
        self.registry(&mut engine.rule_registry);
        engine.sources.values_mut().for_each(|source| self.source(source));
        engine.deadlines.notes_mut().for_each(|note| self.note(note));
    }

    fn report(&mut self, report: &mut ProbeReport) {
        report.answered_by.iter_mut().for_each(|host| self.host(host));
        for CrawlDelay { host, origin, .. } in &mut report.crawl_delays {
            self.host(host);
            self.owned(origin);
        }
        let Ok(answered) = &mut report.result else { return };
        if let Some(MovedTo { url, host }) = &mut answered.moved_to {
            self.owned(url);
            self.host(host);
        }
        let matches = answered.rules.iter_mut().flat_map(|rules| &mut rules.matches);
        matches.for_each(|matched| self.shared(&mut matched.rule));
    }

    fn pardon(&mut self, whom: &mut Pardon) {
        match whom {
            Pardon::Host(key) => self.shared(key),
            Pardon::Source(_) => {}
        }
    }

    fn configuration(&mut self, new: &mut Configuration) {
        for known in &mut new.added {
            self.terms(&mut known.terms);
            self.memory(&mut known.memory);
            known.answered_by.iter_mut().for_each(|host| self.host(host));
        }
        new.changed.iter_mut().for_each(|change| self.terms(&mut change.terms));
        new.rules.iter_mut().for_each(|rules| self.rules(rules));
    }

    /// Replaces the texts of an event.
    pub fn event(&mut self, event: &mut EngineEvent) {
        match event {
            EngineEvent::ProbeEnded(report) => self.report(report),
            EngineEvent::Configured(new) => self.configuration(new),
            EngineEvent::ProbeRedirected { to, .. } => self.host(to),
            EngineEvent::Pardoned { whom, .. } => self.pardon(whom),
            EngineEvent::Tick
            | EngineEvent::Committed(_)
            | EngineEvent::PlansReady(_)
            | EngineEvent::RatesFitted(_)
            | EngineEvent::ProbeRequested { .. }
            | EngineEvent::ClockSet { .. }
            | EngineEvent::Died(_)
            | EngineEvent::Stopping => {}
        }
    }

    fn order(&mut self, order: &mut PlanOrder) {
        let wants = order.predictions.iter_mut().flat_map(|wants| &mut wants.of);
        wants.for_each(|(_, rule)| self.rule(rule));
    }

    fn result(&mut self, result: &mut ProbeResult) {
        self.memory(&mut result.memory);
        result.host.iter_mut().for_each(|asks| self.host(&mut asks.host));
        result.notes.iter_mut().for_each(|note| self.note(note));
        self.follows(&mut result.rule_effects);
    }

    fn persist(&mut self, persist: &mut Persist) {
        match persist {
            Persist::Ended(result) => self.result(result),
            Persist::Due(due) => due.iter_mut().for_each(|due| self.due(due)),
            Persist::Plans(plans) => plans.iter_mut().for_each(|plan| self.due(&mut plan.due)),
            Persist::Backoff(change) => self.due(&mut change.due),
            Persist::Note { note, .. } => self.note(note),
            Persist::Pardoned(result) => self.pardon(&mut result.whom),
            Persist::SuspicionOver(_)
            | Persist::Started(_)
            | Persist::Cancelled(_)
            | Persist::FirstDue(_)
            | Persist::Load(_)
            | Persist::Price(_)
            | Persist::ClockSet { .. } => {}
        }
    }

    /// Replaces the texts of an action.
    pub fn action(&mut self, action: &mut Action) {
        match action {
            Action::Persist(persist) => self.persist(persist),
            Action::BuildPlan(order) => self.order(order),
            Action::Log { note, .. } => self.note(note),
            Action::AdoptAddress { url, .. } => self.owned(url),
            Action::Send(_)
            | Action::Deliver
            | Action::Redirect { .. }
            | Action::Forget(_)
            | Action::Answer { .. }
            | Action::WakeAt(_) => {}
        }
    }
}
