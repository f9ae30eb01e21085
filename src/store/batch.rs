//! Collects queued writes, so that all writes of a kind take one statement.
//!
//! Collected writes are written in a fixed order, which is theirs only if no two of them concern the same
//! source. So a second write to a source first writes what was collected. Must not know what the rows mean.

use std::collections::HashSet;

use sqlx::SqliteConnection;

use tidewatch_core::engine::action::{AdoptedPlan, Attempt, DueChange};
use tidewatch_core::source_id::SourceId;

use super::record::{EventRecord, ProbeRecord};
use super::{attempts, clock_set, ended, events, plans, rules};

/// Writes that are not written yet.
#[derive(Debug, Default)]
pub(super) struct WriteBatch<'w> {
    /// The rows of some sources do not include all corrections of the clock.
    behind: bool,
    sources: HashSet<SourceId>,
    started: Vec<&'w Attempt>,
    cancelled: Vec<SourceId>,
    ended: Vec<&'w ProbeRecord>,
    due: Vec<&'w DueChange>,
    plans: Vec<&'w AdoptedPlan>,
    /// In the order of the queue.
    events: Vec<&'w EventRecord>,
}

impl<'w> WriteBatch<'w> {
    /// Whether the rows of some sources do not include all corrections of the clock.
    pub(super) fn behind(&mut self, behind: bool) {
        self.behind = behind;
    }

    /// Probes about to be sent.
    pub(super) async fn start(
        &mut self,
        connection: &mut SqliteConnection,
        attempts: &'w [Attempt],
    ) -> Result<(), sqlx::Error> {
        for attempt in attempts {
            self.make_room(connection, attempt.source).await?;
            self.started.push(attempt);
        }
        Ok(())
    }

    /// A started probe that was not sent.
    pub(super) async fn cancel(
        &mut self,
        connection: &mut SqliteConnection,
        source: SourceId,
    ) -> Result<(), sqlx::Error> {
        self.make_room(connection, source).await?;
        self.cancelled.push(source);
        Ok(())
    }

    /// A finished probe.
    pub(super) async fn end(
        &mut self,
        connection: &mut SqliteConnection,
        record: &'w ProbeRecord,
    ) -> Result<(), sqlx::Error> {
        self.make_room(connection, record.attempt.source).await?;
        self.events.extend(&record.events);
        self.ended.push(record);
        Ok(())
    }

    /// Changed due times.
    pub(super) async fn due(
        &mut self,
        connection: &mut SqliteConnection,
        changes: &'w [DueChange],
    ) -> Result<(), sqlx::Error> {
        for change in changes {
            self.make_room(connection, change.source).await?;
            self.due.push(change);
        }
        Ok(())
    }

    /// Adopted plans.
    pub(super) async fn plan(
        &mut self,
        connection: &mut SqliteConnection,
        plans: &'w [AdoptedPlan],
    ) -> Result<(), sqlx::Error> {
        for plan in plans {
            self.make_room(connection, plan.due.source).await?;
            self.plans.push(plan);
        }
        Ok(())
    }

    /// An event.
    pub(super) fn event(&mut self, event: &'w EventRecord) {
        self.events.push(event);
    }

    async fn make_room(
        &mut self,
        connection: &mut SqliteConnection,
        source: SourceId,
    ) -> Result<(), sqlx::Error> {
        if !self.sources.insert(source) {
            self.write(connection).await?;
            self.sources.insert(source);
        }
        Ok(())
    }

    /// Writes what was collected.
    pub(super) async fn write(&mut self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        let behind = self.behind;
        let Self { sources, started, cancelled, ended, due, plans, events, .. } =
            std::mem::replace(self, Self { behind, ..Self::default() });
        if behind {
            clock_set::correct(connection, &sources.iter().map(|source| source.0).collect::<Vec<_>>())
                .await?;
        }
        let over = cancelled.into_iter().chain(ended.iter().map(|record| record.attempt.source));
        attempts::delete(connection, over).await?;
        attempts::insert(connection, &started).await?;
        ended::insert(connection, &ended).await?;
        rules::due(connection, &due).await?;
        plans::plans(connection, &plans).await?;
        events::insert(connection, &events).await
    }
}
