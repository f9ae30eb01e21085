//! Probes in progress, and what the store knows that a request needs.
//!
//! A row of `flights` is committed before its probe is sent, so that budgets count the probe even if the
//! daemon is killed meanwhile.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use tidewatch_core::engine::action::Attempt;
use tidewatch_core::model::silence::LearnedUntil;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::json_rows::{from_hex, read_text, text_of};
use super::record::{StoredColumns, UnreadDocument};

type Result<T = ()> = std::result::Result<T, sqlx::Error>;

/// What a request needs, and what decides whether its answer has anything new.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestInputs {
    /// The URL that gave the validators.
    pub validators_url: Option<String>,
    /// `ETag`, byte for byte.
    pub etag: Option<Vec<u8>>,
    /// `Last-Modified`, byte for byte.
    pub last_modified: Option<Vec<u8>>,
    /// The hash of the last body that was read.
    pub body_hash: Option<u64>,
    /// The last answer at this address.
    pub last_answer: Option<Timestamp>,
    /// The latest known update.
    pub newest: Option<Timestamp>,
    /// How far the model has learned, and until when it need not learn from an answer without updates.
    pub learned: Option<LearnedUntil>,
    /// The hash of the settings of the model with which that is true.
    pub review_settings: Option<u64>,
    /// The items that were read of the last document, if that has more.
    pub cut_at: Option<usize>,
    /// The document that gave the validators, if our own limits refused it.
    pub unread: Option<UnreadDocument>,
    /// The address and the rules by which the text of a page was read; `None`: not known.
    pub page_read_as: Option<u64>,
    /// Whether items of the source were deleted: one that is not known may be old.
    pub items_forgotten: bool,
    /// The corrections of the clock that these times include.
    pub corrected: Span,
    /// What need not be written again.
    pub stored: StoredColumns,
}

impl RequestInputs {
    /// Moves the times after the clock was set.
    pub fn shift(&mut self, by: Span) {
        self.corrected = self.corrected + by;
        self.last_answer = self.last_answer.map(|at| at + by);
        self.learned = self.learned.map(|learned| moved(learned, by));
    }
}

/// What the model has learned, by a clock that was set. It is reviewed: hours are others.
pub fn moved(learned: LearnedUntil, by: Span) -> LearnedUntil {
    match by == Span::ZERO {
        true => learned,
        false => LearnedUntil { at: learned.at + by, ..learned }.reviewed_next(),
    }
}

/// Stores probes that are about to be sent.
pub(super) async fn insert(connection: &mut SqliteConnection, attempts: &[&Attempt]) -> Result {
    if attempts.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = attempts
        .iter()
        .map(|attempt| {
            let forecast = attempt.forecast.as_ref();
            (
                attempt.source.0,
                attempt.due.as_millis(),
                attempt.started.as_millis(),
                attempt.policy.name(),
                attempt.reason.name(),
                forecast.map(|forecast| forecast.updates),
                forecast.map(|forecast| forecast.dispersion),
                forecast.and_then(|forecast| forecast.overflow),
            )
        })
        .collect();
    sqlx::query(
        "INSERT OR REPLACE INTO flights (source_id, due_at, started_at, policy, reason, expected, dispersion,
                                         overflow)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
                value ->> 7
         FROM jsonb_each(?)",
    )
    .bind(text_of(&rows)?)
    .execute(connection)
    .await?;
    Ok(())
}

/// Deletes probes that have ended or were not sent.
pub(super) async fn delete(
    connection: &mut SqliteConnection,
    sources: impl Iterator<Item = SourceId>,
) -> Result {
    let ids: Vec<i64> = sources.map(|source| source.0).collect();
    if !ids.is_empty() {
        sqlx::query("DELETE FROM flights WHERE source_id IN (SELECT value FROM jsonb_each(?))")
            .bind(text_of(&ids)?)
            .execute(connection)
            .await?;
    }
    Ok(())
}

/// What the requests of these sources need.
pub(super) async fn request_inputs(
    connection: &mut SqliteConnection,
    ids: &[i64],
) -> Result<Vec<(SourceId, RequestInputs)>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    // One text: single rows would be handed over one by one.
    let text: String = sqlx::query_scalar(
        "SELECT json_group_array(json_array(
             id, validators_url, iif(typeof(etag) = 'blob', NULL, etag), iif(typeof(etag) = 'blob', hex(etag), NULL),
             iif(typeof(last_modified) = 'blob', NULL, last_modified),
             iif(typeof(last_modified) = 'blob', hex(last_modified), NULL),
             body_hash, iif(moved, NULL, last_look_at), newest_at, learned_until, review_at, review_settings,
             state_hash, found_per_hour,
             EXISTS (SELECT 1 FROM bursts WHERE source_id = sources.id AND ended_at IS NULL), known_items, cut_at,
             items_forgotten IS NOT NULL, unread, unread_within, page_read_as, clock_ms))
         FROM sources WHERE id IN (SELECT value FROM jsonb_each(?))",
    )
    .bind(text_of(ids)?)
    .fetch_one(connection)
    .await?;
    let rows: Vec<InputsRow> = read_text(&text)?;
    Ok(rows.into_iter().map(|row| (SourceId(row.id), row.inputs())).collect())
}

/// The columns of [`request_inputs`], in order. Header values are text, or hexadecimal if they are no text.
#[derive(serde::Deserialize)]
struct InputsRow {
    id: i64,
    validators_url: Option<String>,
    etag: Option<String>,
    etag_hex: Option<String>,
    last_modified: Option<String>,
    last_modified_hex: Option<String>,
    body_hash: Option<i64>,
    last_answer: Option<i64>,
    newest: Option<i64>,
    learned_until: Option<i64>,
    review_at: Option<i64>,
    review_settings: Option<i64>,
    state_hash: Option<i64>,
    found_per_hour: Option<f64>,
    in_burst: u8,
    known_items: Option<i64>,
    cut_at: Option<usize>,
    items_forgotten: u8,
    unread: Option<String>,
    unread_within: Option<String>,
    page_read_as: Option<i64>,
    clock_ms: i64,
}

impl InputsRow {
    fn inputs(self) -> RequestInputs {
        let bytes = |text: Option<String>, hex: Option<String>| {
            text.map(String::into_bytes).or_else(|| hex.as_deref().and_then(from_hex))
        };
        let review_at = self.review_at.map_or(Timestamp::MIN, Timestamp::from_millis);
        RequestInputs {
            validators_url: self.validators_url,
            etag: bytes(self.etag, self.etag_hex),
            last_modified: bytes(self.last_modified, self.last_modified_hex),
            body_hash: self.body_hash.map(|hash| hash as u64),
            last_answer: self.last_answer.map(Timestamp::from_millis),
            newest: self.newest.map(Timestamp::from_millis),
            learned: self
                .learned_until
                .map(|at| LearnedUntil { at: Timestamp::from_millis(at), review_at }),
            review_settings: self.review_settings.map(|hash| hash as u64),
            stored: StoredColumns {
                hash: self.state_hash,
                found_per_hour: self.found_per_hour,
                in_burst: self.in_burst != 0,
                known_items: self.known_items,
            },
            cut_at: self.cut_at,
            items_forgotten: self.items_forgotten != 0,
            page_read_as: self.page_read_as.map(|hash| hash as u64),
            unread: self
                .unread
                .zip(self.unread_within)
                .map(|(error, within)| UnreadDocument { error, within }),
            corrected: Span::from_millis(self.clock_ms),
        }
    }
}

/// Reads `learned_until` and, in the next column, `review_at`.
pub(super) fn learned(row: &SqliteRow, column: usize) -> Option<LearnedUntil> {
    let time = |column| row.get::<Option<i64>, _>(column).map(Timestamp::from_millis);
    let review_at = time(column + 1).unwrap_or(Timestamp::MIN);
    time(column).map(|at| LearnedUntil { at, review_at })
}
