//! The columns of a source's state. Each column is named once, here.
//!
//! Defines which columns are times, which are cleared when the URL changes, and which a probe seldom changes. The
//! statements are built from that. The latter columns are written only if their hash is another one than what is
//! stored, or if the estimate of the rate has moved, because most of a row is the same after most probes.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hasher};
use std::sync::LazyLock;

use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use sqlx::{AssertSqlSafe, SqliteConnection};

use tidewatch_core::engine::reason::{Reason, SourceState};
use tidewatch_core::engine::source_memory::{BurstState, Due, MoveProof, ProbeCost, SourceMemory};
use tidewatch_core::model::change_point_rate::ChangePointRate;
use tidewatch_core::observe::FeedHints;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::time::{Span, Timestamp};

use super::clock::TOTAL;
use super::json_rows::text_of;
use super::record::{ProbeRecord, StoredColumns};

type Result = std::result::Result<(), sqlx::Error>;

/// The kind of a column.
#[derive(PartialEq)]
enum ColumnKind {
    /// A time, which moves when the clock is set.
    Instant,
    /// A publisher's date, which moves only if the clock was plainly wrong.
    Published,
    Value,
}

/// The effect of a changed URL on a column.
enum AtMove {
    Kept,
    Null,
    Zero,
}

/// How often a probe changes a column.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Changes {
    Often,
    /// At each probe, but without an update so little that it need not be written.
    Little,
    Seldom,
}

/// Columns of one statement.
type ColumnSet = &'static [Changes];

const OFTEN: ColumnSet = &[Changes::Often];
const SELDOM: ColumnSet = &[Changes::Little, Changes::Seldom];
/// What the stored hash is made from.
const HASHED: ColumnSet = &[Changes::Seldom];

/// The estimate is written if its rate is further than this from the stored one, as a share of it. The time since then
/// is not lost: it is added when the estimate is read.
const MOVED: f64 = 0.03;

struct Column {
    name: &'static str,
    kind: ColumnKind,
    at_move: AtMove,
    changes: Changes,
}

macro_rules! columns {
    ($($name:ident: $type:ty, $kind:ident, $at_move:ident, $changes:ident;)*) => {
        /// The columns of one source, in order.
        #[derive(Debug, Clone, PartialEq, serde::Deserialize)]
        pub(super) struct SourceRow {
            $($name: $type,)*
        }

        const COLUMNS: &[Column] = &[
            $(Column {
                name: stringify!($name),
                kind: ColumnKind::$kind,
                at_move: AtMove::$at_move,
                changes: Changes::$changes,
            },)*
        ];

        impl Serialize for RowPart<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                let mut row = serializer.serialize_seq(None)?;
                row.serialize_element(&self.id)?;
                row.serialize_element(&self.hash)?;
                $(if self.part.contains(&Changes::$changes) {
                    row.serialize_element(&self.row.$name)?;
                })*
                row.end()
            }
        }
    };
}

impl RowPart<'_> {
    fn hashed(&self) -> std::result::Result<i64, sqlx::Error> {
        let mut hasher = DefaultHasher::new();
        hasher.write(text_of(std::slice::from_ref(self))?.as_bytes());
        Ok(hasher.finish() as i64)
    }
}

/// Whether a rate differs from the stored one by more than [`MOVED`].
fn has_moved(stored: Option<f64>, rate: Option<f64>) -> bool {
    match (stored, rate) {
        (Some(stored), Some(rate)) => (rate - stored).abs() > MOVED * stored,
        (stored, rate) => stored.is_some() != rate.is_some(),
    }
}

type Text = Cow<'static, str>;

/// Some columns of a source after a probe. Serialised as a row of [`WRITE_OFTEN`] or [`WRITE_SELDOM`]: the source's
/// number, the hash of the columns that seldom change, then the columns in order.
struct RowPart<'r> {
    id: i64,
    hash: i64,
    row: &'r SourceRow,
    part: ColumnSet,
}

columns! {
    state: Text, Value, Kept, Seldom;
    next_probe_at: Option<i64>, Instant, Kept, Often;
    next_probe_reason: Option<Text>, Value, Kept, Often;
    next_probe_policy: Option<Text>, Value, Kept, Often;
    next_probe_rule: Option<Text>, Value, Kept, Often;
    last_probe_at: Option<i64>, Instant, Kept, Often;
    last_look_at: Option<i64>, Instant, Kept, Often;
    last_update_at: Option<i64>, Instant, Kept, Seldom;
    look_by_at: Option<i64>, Instant, Kept, Often;
    known_updates: i64, Value, Kept, Seldom;
    follows: Option<Text>, Value, Kept, Often;
    mean_bytes: Option<f32>, Value, Null, Often;
    mean_ms: Option<f32>, Value, Null, Often;
    error_streak: u32, Value, Zero, Seldom;
    last_error: Option<Text>, Value, Null, Seldom;
    fresh_until: Option<i64>, Instant, Null, Seldom;
    retry_until: Option<i64>, Instant, Null, Seldom;
    backoff_until: Option<i64>, Instant, Null, Seldom;
    ttl_ms: Option<i64>, Value, Null, Seldom;
    skip_hours: u32, Value, Zero, Seldom;
    skip_days: u8, Value, Zero, Seldom;
    update_period_ms: Option<i64>, Value, Null, Seldom;
    moving_to: Option<Text>, Value, Null, Seldom;
    moving_times: Option<u32>, Value, Null, Seldom;
    moving_since: Option<i64>, Instant, Null, Seldom;
    adopted_url: Option<Text>, Value, Null, Seldom;
    holds: Option<u32>, Value, Null, Seldom;
    newest_at: Option<i64>, Published, Null, Seldom;
    burst_since: Option<i64>, Instant, Null, Seldom;
    in_bursts: u32, Value, Zero, Seldom;
    quiet_since: Option<i64>, Instant, Null, Seldom;
    reserve_whole_at: Option<i64>, Instant, Null, Seldom;
    estimate: Option<Text>, Value, Null, Little;
    estimate_until: Option<i64>, Instant, Null, Little;
    found_per_hour: Option<f64>, Value, Null, Little;
    early_probes: u8, Value, Zero, Seldom;
    root_rate: Option<f32>, Value, Null, Seldom;
}

fn list(of: impl FnMut(&Column) -> Option<String>) -> String {
    COLUMNS.iter().filter_map(of).collect::<Vec<_>>().join(", ")
}

/// The column names.
pub(super) static NAMES: LazyLock<String> = LazyLock::new(|| list(|column| Some(column.name.to_owned())));

/// The columns as read. `last_look_at` counts only for the current URL.
pub(super) static AS_READ: LazyLock<String> = LazyLock::new(|| {
    list(|column| {
        Some(match column.name {
            "last_look_at" => "iif(moved, NULL, last_look_at) AS last_look_at".to_owned(),
            name => name.to_owned(),
        })
    })
});

static WRITE_OFTEN: LazyLock<String> = LazyLock::new(|| write_statement(OFTEN));

static WRITE_SELDOM: LazyLock<String> = LazyLock::new(|| write_statement(SELDOM));

fn write_statement(part: ColumnSet) -> String {
    let mut place = 1;
    let set = list(|Column { name, changes, .. }| {
        if !part.contains(changes) {
            return None;
        }
        place += 1;
        let value = format!("new.value ->> {place}");
        Some(match *name {
            "state" => format!("state = CASE state WHEN 'removed' THEN state ELSE {value} END"),
            // A failed probe keeps the last value.
            "last_look_at" => {
                format!("last_look_at = coalesce({value}, last_look_at), moved = moved AND {value} IS NULL")
            }
            name => format!("{name} = {value}"),
        })
    });
    let hash = if part == SELDOM { ", state_hash = new.value ->> 1" } else { "" };
    // The transaction ends with an error in any case: no old pages are kept for the statement alone.
    format!(
        "UPDATE OR ROLLBACK sources SET {set}{hash} FROM jsonb_each(?) AS new WHERE sources.id = new.value ->> 0"
    )
}

static CORRECT: LazyLock<String> = LazyLock::new(|| {
    let set = list(|Column { name, kind, .. }| match kind {
        ColumnKind::Value => None,
        ColumnKind::Instant => Some(format!("{name} = {name} + behind")),
        // As the engine does.
        ColumnKind::Published => Some(format!(
            "{name} = iif({name} > at OR (behind > ?2 AND {name} + behind <= at), min({name} + behind, at), {name})"
        )),
    });
    format!(
        "UPDATE sources SET {set}, learned_until = learned_until + behind, review_at = NULL, state_hash = NULL,
             clock_ms = clock_ms + behind
         FROM (SELECT id AS one, {TOTAL} - clock_ms AS behind,
                      (SELECT at FROM clock_corrections ORDER BY id DESC LIMIT 1) AS at
               FROM sources WHERE id IN (SELECT value FROM json_each(?1)))
         WHERE sources.id = one AND behind <> 0"
    )
});

static FORGET_ADDRESS: LazyLock<String> = LazyLock::new(|| {
    let set = list(|Column { name, at_move, .. }| match at_move {
        AtMove::Kept => None,
        AtMove::Null => Some(format!("{name} = NULL")),
        AtMove::Zero => Some(format!("{name} = 0")),
    });
    format!(
        "UPDATE sources SET etag = NULL, last_modified = NULL, validators_url = NULL, body_hash = NULL, review_at = NULL,
             cut_at = NULL, unread = NULL, unread_within = NULL,
             state_hash = NULL, moved = 1, {set}
         FROM jsonb_each(?) AS new WHERE sources.id = new.value ->> 0 AND new.value ->> 5"
    )
});

/// Stores the states of sources after their probes.
pub(super) async fn write(connection: &mut SqliteConnection, records: &[&ProbeRecord]) -> Result {
    let mut rows = Vec::with_capacity(records.len());
    for record in records {
        let (id, mut row) = (record.attempt.source.0, SourceRow::after(record));
        let hash = RowPart { id, hash: 0, row: &row, part: HASHED }.hashed()?;
        let StoredColumns { hash: stored, found_per_hour, .. } = record.stored;
        let changed = stored != Some(hash) || has_moved(found_per_hour, row.found_per_hour);
        if changed {
            row.estimate = row.found_per_hour.map(|_| record.memory.estimate.to_text().into());
        }
        rows.push((id, changed.then_some(hash), row));
    }
    let often = rows.iter().map(|(id, _, row)| RowPart { id: *id, hash: 0, row, part: OFTEN }).collect();
    let seldom = rows
        .iter()
        .filter_map(|(id, changed, row)| Some(RowPart { id: *id, hash: (*changed)?, row, part: SELDOM }))
        .collect();
    for (statement, mut rows) in [(&WRITE_OFTEN, often), (&WRITE_SELDOM, seldom)] as [(_, Vec<_>); 2] {
        if !rows.is_empty() {
            // In the order of the table: neighbours share pages.
            rows.sort_unstable_by_key(|row| row.id);
            let statement = sqlx::query(AssertSqlSafe(statement.as_str()));
            statement.bind(text_of(&rows)?).execute(&mut *connection).await?;
        }
    }
    Ok(())
}

/// Moves the times of these sources by the corrections of the clock that they do not include.
pub(super) async fn correct(connection: &mut SqliteConnection, ids: &str, wrong_clock: Span) -> Result {
    sqlx::query(AssertSqlSafe(CORRECT.as_str()))
        .bind(ids)
        .bind(wrong_clock.as_millis())
        .execute(connection)
        .await?;
    Ok(())
}

/// Clears the validators, hints and errors of sources whose URL changed. Takes the rows that
/// [`super::sync`] builds.
pub(super) async fn forget_address(connection: &mut SqliteConnection, rows: &str) -> Result {
    sqlx::query(AssertSqlSafe(FORGET_ADDRESS.as_str())).bind(rows.to_owned()).execute(connection).await?;
    Ok(())
}

fn instant(millis: Option<i64>) -> Option<Timestamp> {
    millis.map(Timestamp::from_millis)
}

fn millis(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::as_millis)
}

fn text(text: &str) -> Text {
    text.to_owned().into()
}

impl SourceRow {
    /// The columns after a probe, except the estimate's text.
    fn after(record: &ProbeRecord) -> Self {
        let memory = &record.memory;
        // The start counts: an update published during the answer was not in it and belongs to the next
        // probe.
        let succeeded_at = record.error.is_none().then_some(record.attempt.started);
        let cost = Some(memory.cost).filter(ProbeCost::is_known);
        let moving = memory.moving.as_deref();
        Self {
            state: memory.state.name().into(),
            next_probe_at: millis(memory.due.at()),
            next_probe_reason: Some(memory.reason.name().into()),
            next_probe_policy: Some(memory.burst.asked_by.name().into()),
            next_probe_rule: memory.rule.as_deref().map(text),
            last_probe_at: millis(memory.last_probe),
            last_look_at: millis(succeeded_at),
            last_update_at: millis(memory.last_update),
            look_by_at: millis(record.deadline),
            known_updates: i64::try_from(memory.known_updates).unwrap_or(i64::MAX),
            follows: Some(memory.burst.follows.name().into()),
            mean_bytes: cost.map(|cost| cost.bytes),
            mean_ms: cost.map(|cost| cost.millis),
            error_streak: memory.error_streak,
            last_error: record.error.as_deref().map(text),
            fresh_until: millis(memory.fresh_until),
            retry_until: millis(memory.retry_until),
            backoff_until: millis(memory.backoff_until),
            ttl_ms: memory.hints.ttl.map(Span::as_millis),
            skip_hours: memory.hints.skip_hours,
            skip_days: memory.hints.skip_days,
            update_period_ms: memory.hints.update_period.map(Span::as_millis),
            moving_to: moving.map(|proof| text(&proof.target)),
            moving_times: moving.map(|proof| proof.times),
            moving_since: moving.map(|proof| proof.since.as_millis()),
            adopted_url: memory.adopted_url.as_deref().map(text),
            holds: memory.holds,
            newest_at: millis(memory.burst.newest),
            burst_since: millis(memory.burst.burst_since),
            in_bursts: memory.burst.in_bursts,
            quiet_since: millis(memory.burst.quiet_since),
            reserve_whole_at: millis(memory.burst.reserve_whole_at),
            estimate: None,
            estimate_until: millis(memory.last_success),
            found_per_hour: memory.estimate.known_rate(),
            early_probes: memory.early_probes,
            root_rate: Some(memory.root_rate).filter(|&root| root > 0.0),
        }
    }

    /// The engine's state from the columns.
    pub(super) fn memory(self) -> SourceMemory {
        let state = SourceState::from_name(&self.state).unwrap_or_default();
        let due = match (instant(self.next_probe_at), state) {
            (Some(at), _) => Due::At(at),
            (None, SourceState::Resting) => Due::Stopped,
            (None, _) => Due::Unscheduled,
        };
        let moving = self.moving_to.map(|target| {
            Box::new(MoveProof {
                target: target.into_owned(),
                times: self.moving_times.unwrap_or(0),
                since: instant(self.moving_since).unwrap_or(Timestamp::MAX),
            })
        });
        let policy = |name: Option<Text>| name.as_deref().and_then(Policy::from_name);
        let mut estimate =
            self.estimate.as_deref().and_then(ChangePointRate::from_text).unwrap_or_default();
        if let (Some(counted), Some(last)) = (instant(self.estimate_until), instant(self.last_look_at)) {
            estimate.learn_silence((last - counted).as_secs_f64() / 3600.0);
        }
        SourceMemory {
            state,
            due,
            reason: self.next_probe_reason.as_deref().and_then(Reason::from_name).unwrap_or_default(),
            rule: self.next_probe_rule.map(|rule| rule.as_ref().into()),
            last_probe: instant(self.last_probe_at),
            last_success: instant(self.last_look_at),
            last_update: instant(self.last_update_at),
            known_updates: self.known_updates.max(0).unsigned_abs(),
            cost: ProbeCost { bytes: self.mean_bytes.unwrap_or(0.0), millis: self.mean_ms.unwrap_or(0.0) },
            error_streak: self.error_streak,
            fresh_until: instant(self.fresh_until),
            retry_until: instant(self.retry_until),
            backoff_until: instant(self.backoff_until),
            hints: FeedHints {
                ttl: self.ttl_ms.map(Span::from_millis),
                skip_hours: self.skip_hours,
                skip_days: self.skip_days,
                update_period: self.update_period_ms.map(Span::from_millis),
            },
            moving,
            adopted_url: self.adopted_url.map(|url| url.into_owned().into_boxed_str()),
            holds: self.holds,
            early_probes: self.early_probes,
            root_rate: self.root_rate.unwrap_or(0.0),
            estimate,
            burst: BurstState {
                asked_by: policy(self.next_probe_policy).unwrap_or(Policy::Uniform),
                follows: policy(self.follows).unwrap_or(Policy::Adaptive),
                newest: instant(self.newest_at),
                burst_since: instant(self.burst_since),
                in_bursts: self.in_bursts,
                quiet_since: instant(self.quiet_since),
                reserve_whole_at: instant(self.reserve_whole_at),
            },
        }
    }
}
