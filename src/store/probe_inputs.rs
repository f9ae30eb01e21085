//! What a changed document is compared with, and the model that learns from it.
//!
//! Probes that need it at the same time are answered together.

use std::collections::HashMap;

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use tidewatch_core::model::silence::LearnedUntil;
use tidewatch_core::observe::{Fingerprints, StoredView};
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::StoreError;
use super::attempts::{learned, moved};
use super::json_rows::text_of;
use super::known_items;
use super::known_rate::KnownRate;
use super::read_queue::ReadQueue;
use super::reader::Reader;

/// The stored inputs of a probe, which are not kept in memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProbeInputs {
    /// The items or the page of the last document.
    pub seen: StoredView,
    /// Evidence for the rate; see `model::history`.
    pub history: Option<Vec<u8>>,
    /// State of the burst detector.
    pub watch: Option<Vec<u8>>,
    /// Evidence since the last burst began; used if that becomes the rhythm.
    pub post_burst: Option<Vec<u8>>,
    /// Times of the last updates.
    pub update_times: Option<Vec<u8>>,
    /// Weights of the predictors, see `model::habits`.
    pub habits: Option<Vec<u8>>,
    /// State of the test for changes of rhythm.
    pub rhythm_test: Option<Vec<u8>>,
    /// How far the model has learned.
    pub learned: Option<LearnedUntil>,
    /// When the rate was fitted.
    pub fitted_at: Option<Timestamp>,
    /// The fitted rate.
    pub rate: Option<KnownRate>,
    /// Time of the latest known update.
    pub newest: Option<Timestamp>,
    /// The corrections of the clock that these times include.
    pub corrected: Span,
    /// The corrections of the clock that the times of the model include.
    pub model_corrected: Span,
}

impl ProbeInputs {
    /// The same by a clock with these corrections.
    pub fn by_clock(mut self, corrected: Span) -> Self {
        let by = corrected - std::mem::replace(&mut self.corrected, corrected);
        self.seen.last_success = self.seen.last_success.map(|at| at + by);
        self.learned = self.learned.map(|learned| moved(learned, by));
        self
    }
}

/// Reads what probes need of the store. Clones share their queues.
#[derive(Debug, Clone)]
pub struct InputsQueue {
    inputs: ReadQueue<SourceId, Option<ProbeInputs>>,
    items: ReadQueue<(SourceId, Vec<u64>), Fingerprints>,
}

impl InputsQueue {
    /// Completes when a task that reads has ended, which only a panic causes while there is a clone.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + 'static {
        let (inputs, items) = (self.inputs.clone(), self.items.clone());
        async move {
            tokio::select! {
                () = inputs.ended() => {}
                () = items.ended() => {}
            }
        }
    }

    /// Starts the tasks that read. They end with the last clone.
    pub fn start(reader: Reader) -> Self {
        let of_items = reader.clone();
        let inputs = ReadQueue::start(move |ids: Vec<SourceId>| {
            let reader = reader.clone();
            async move {
                let mut found = reader.probe_inputs_of(&ids).await?;
                Ok(ids.iter().map(|id| found.remove(id)).collect())
            }
        });
        let items = ReadQueue::start(move |wanted: Vec<(SourceId, Vec<u64>)>| {
            let reader = of_items.clone();
            async move { reader.known_items(&wanted).await }
        });
        Self { inputs, items }
    }

    /// The inputs of a probe of this source, or the reason why they cannot be read.
    pub async fn get(&self, id: SourceId) -> Result<ProbeInputs, String> {
        self.inputs.get(id).await?.ok_or_else(|| "the source is not in the store".to_owned())
    }

    /// Those of these items that the source had, or the reason why they cannot be read.
    pub async fn known_items(&self, id: SourceId, keys: Vec<u64>) -> Result<Fingerprints, String> {
        self.items.get((id, keys)).await
    }
}

impl Reader {
    /// Reads the inputs of a probe.
    pub async fn probe_inputs(&self, id: SourceId) -> Result<ProbeInputs, StoreError> {
        let read = self.probe_inputs_of(&[id]).await?.remove(&id);
        read.ok_or(StoreError::Sql(sqlx::Error::RowNotFound))
    }

    /// Reads the inputs of probes of these sources; unknown sources are left out.
    async fn probe_inputs_of(
        &self,
        ids: &[SourceId],
    ) -> Result<HashMap<SourceId, ProbeInputs>, StoreError> {
        let mut connection = self.pool().acquire().await?;
        let numbers = text_of(&ids.iter().map(|id| id.0).collect::<Vec<_>>())?;
        let rows = sqlx::query(
            "SELECT id, last_look_at, pages.fingerprint, moved, bytes, watch, aside, newest_at, diary, habits,
                    rhythm_test, learned_until, review_at, fitted_at, last_items, sources.clock_ms, histories.clock_ms
             FROM sources LEFT JOIN histories ON histories.source_id = id
             LEFT JOIN pages ON pages.source_id = id
             LEFT JOIN fits ON fits.source_id = id
             WHERE id IN (SELECT value FROM json_each(?))",
        )
        .bind(&numbers)
        .fetch_all(&mut *connection)
        .await?;
        let mut items: HashMap<SourceId, Fingerprints> = HashMap::new();
        let mut without = Vec::new();
        for row in &rows {
            let id = row.get(0);
            match row.get::<Option<&[u8]>, _>(14) {
                Some(column) => _ = items.insert(SourceId(id), known_items::unpacked(column)),
                None => without.push(id),
            }
        }
        items.extend(known_items::in_last(&mut connection, &without).await?);
        drop(connection);
        // Read last: a rate may be newer than `fitted_at` then, but never older.
        let mut rates = self.rates(ids).await?;
        let inputs = rows.iter().map(|row| {
            let id = SourceId(row.get(0));
            (id, inputs(row, items.remove(&id).unwrap_or_default(), rates.remove(&id)))
        });
        Ok(inputs.collect())
    }
}

fn inputs(row: &SqliteRow, items: Fingerprints, rate: Option<KnownRate>) -> ProbeInputs {
    let time = |column| row.get::<Option<i64>, _>(column).map(Timestamp::from_millis);
    ProbeInputs {
        seen: StoredView {
            last_success: time(1),
            items,
            page: row.get::<Option<i64>, _>(2).map(|fingerprint| fingerprint as u64),
            moved: row.get(3),
        },
        history: row.get(4),
        watch: row.get(5),
        post_burst: row.get(6),
        newest: time(7),
        update_times: row.get(8),
        habits: row.get(9),
        rhythm_test: row.get(10),
        learned: learned(row, 11),
        fitted_at: time(13),
        rate,
        corrected: Span::from_millis(row.get(15)),
        model_corrected: Span::from_millis(row.get::<Option<i64>, _>(16).unwrap_or(row.get(15))),
    }
}
