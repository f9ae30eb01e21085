//! What a changed document is compared with, and the model that learns from it.
//!
//! Probes that need it at the same time are answered together, with a few statements for all of them.

use std::collections::HashMap;

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};
use tokio::sync::{mpsc, oneshot};

use tidewatch_core::model::silence::LearnedUntil;
use tidewatch_core::observe::{SeenItem, StoredView};
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::Timestamp;

use super::StoreError;
use super::attempts::learned;
use super::json_rows::{read_text, text_of};
use super::known_rate::KnownRate;
use super::reader::Reader;

/// The stored inputs of a probe, which are not kept in memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProbeInputs {
    /// The items or the page of earlier probes.
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
}

/// Sources per query.
const TOGETHER: usize = 64;

type InputsRequest = (SourceId, oneshot::Sender<Result<ProbeInputs, String>>);

/// Reads the inputs of probes. Clones share one queue.
#[derive(Debug, Clone)]
pub struct InputsQueue(mpsc::UnboundedSender<InputsRequest>);

impl InputsQueue {
    /// Starts the task that reads. It ends with the last clone.
    pub fn start(reader: Reader) -> Self {
        let (requests, mut queue) = mpsc::unbounded_channel::<InputsRequest>();
        tokio::spawn(async move {
            let mut batch = Vec::with_capacity(TOGETHER);
            while queue.recv_many(&mut batch, TOGETHER).await > 0 {
                let ids: Vec<SourceId> = batch.iter().map(|(id, _)| *id).collect();
                let mut read = reader.probe_inputs_of(&ids).await.map_err(|error| error.to_string());
                for (id, reply) in batch.drain(..) {
                    let found = read.as_mut().map(|inputs| inputs.remove(&id));
                    let missing = || "the source is not in the store".to_owned();
                    let _ = reply
                        .send(found.map_err(|error| error.clone()).and_then(|it| it.ok_or_else(missing)));
                }
            }
        });
        Self(requests)
    }

    /// The inputs of a probe of this source, or the reason why they cannot be read.
    pub async fn get(&self, id: SourceId) -> Result<ProbeInputs, String> {
        let (reply, answer) = oneshot::channel();
        // Fails only if the task ended.
        let _ = self.0.send((id, reply));
        answer.await.unwrap_or_else(|_| Err(StoreError::Stopped.to_string()))
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
                    rhythm_test, learned_until, review_at, fitted_at
             FROM sources LEFT JOIN histories ON histories.source_id = id
             LEFT JOIN pages ON pages.source_id = id
             LEFT JOIN fits ON fits.source_id = id
             WHERE id IN (SELECT value FROM json_each(?))",
        )
        .bind(&numbers)
        .fetch_all(&mut *connection)
        .await?;
        let mut items = items(&mut connection, &numbers).await?;
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

fn inputs(row: &SqliteRow, items: HashMap<u64, SeenItem>, rate: Option<KnownRate>) -> ProbeInputs {
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
    }
}

/// The known items of these sources, by the hashes of their keys.
async fn items(
    connection: &mut SqliteConnection,
    numbers: &str,
) -> Result<HashMap<SourceId, HashMap<u64, SeenItem>>, StoreError> {
    let text: String = sqlx::query_scalar(
        "SELECT json_group_array(json_array(source_id, key_hash, fingerprint, left_at IS NULL)) FROM items
         WHERE source_id IN (SELECT value FROM json_each(?))",
    )
    .bind(numbers)
    .fetch_one(connection)
    .await?;
    let mut items: HashMap<SourceId, HashMap<u64, SeenItem>> = HashMap::new();
    for (source, key, fingerprint, in_last) in read_text::<Vec<(i64, i64, i64, u8)>>(&text)? {
        let item = SeenItem { fingerprint: fingerprint as u64, in_last: in_last != 0 };
        items.entry(SourceId(source)).or_default().insert(key as u64, item);
    }
    Ok(items)
}
