//! The known items of feeds, with which a changed document is compared.
//!
//! A source may have had far more items than its document holds. Those of the last document are kept together, in one
//! column; older ones are read by key.

use std::collections::{HashMap, HashSet};

use sqlx::SqliteConnection;

use tidewatch_core::observe::{Fingerprints, Present};
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::Timestamp;

use super::StoreError;
use super::json_rows::{read_text, text_of};
use super::reader::Reader;

/// The items of the last documents of sources for which the column is empty.
const IN_LAST: &str = "SELECT json_group_array(json_array(source_id, key_hash, fingerprint)) FROM items
     WHERE source_id IN (SELECT value FROM jsonb_each(?)) AND left_at IS NULL";

/// The items with these keys.
const WITH_KEYS: &str = "SELECT json_group_array(json_array(wanted.value ->> 0, key_hash, fingerprint))
     FROM jsonb_each(?) AS wanted
     CROSS JOIN items ON source_id = wanted.value ->> 1 AND key_hash = wanted.value ->> 2";

/// The keys of items that were reported as new.
const REPORTED: &str = "SELECT key FROM updates
     WHERE source_id = ? AND kind = 'new' AND key IN (SELECT value FROM json_each(?))";

/// A source keeps this many times the items that are read of a document. So those of the last document, and those that
/// a few documents before it had, are never forgotten.
const KEPT_DOCUMENTS: i64 = 4;

/// Keys per statement.
const TOGETHER: usize = 10_000;

/// The items of a document as one column: key hash and fingerprint of each.
pub(super) fn packed(present: &[Present]) -> Vec<u8> {
    present.iter().flat_map(|item| [item.key_hash, item.fingerprint]).flat_map(u64::to_le_bytes).collect()
}

/// The items of [`packed`].
pub(super) fn unpacked(column: &[u8]) -> Fingerprints {
    let (numbers, _) = column.as_chunks::<8>();
    let mut numbers = numbers.iter().copied().map(u64::from_le_bytes);
    let mut items = Fingerprints::with_capacity(column.len() / 16);
    while let (Some(key), Some(fingerprint)) = (numbers.next(), numbers.next()) {
        items.insert(key, fingerprint);
    }
    items
}

/// The stored numbers of items of these sources.
pub(super) async fn counted(
    connection: &mut SqliteConnection,
    sources: &[i64],
) -> Result<HashMap<i64, i64>, sqlx::Error> {
    if sources.is_empty() {
        return Ok(HashMap::new());
    }
    let text: String = sqlx::query_scalar(
        "SELECT json_group_array(json_array(id, coalesce(known_items, 0))) FROM sources
         WHERE id IN (SELECT value FROM jsonb_each(?))",
    )
    .bind(text_of(sources)?)
    .fetch_one(connection)
    .await?;
    Ok(read_text::<Vec<(i64, i64)>>(&text)?.into_iter().collect())
}

/// Whether a source with about this many items may have too many.
pub(super) fn may_be_too_many(known: i64, max_items: usize) -> bool {
    known > most(max_items)
}

fn most(max_items: usize) -> i64 {
    i64::try_from(max_items).unwrap_or(i64::MAX).saturating_mul(KEPT_DOCUMENTS)
}

/// Counts the items of a source. If there are too many, deletes those that left its documents first, and more of them
/// than it must, so that it is done seldom.
pub(super) async fn bound(
    connection: &mut SqliteConnection,
    source: i64,
    max_items: usize,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    let known = count(connection, source).await?;
    let excess = known - most(max_items);
    if excess <= 0 {
        return Ok(());
    }
    sqlx::query(
        "DELETE FROM items WHERE source_id = ?1 AND key_hash IN (
             SELECT key_hash FROM items WHERE source_id = ?1 AND left_at IS NOT NULL ORDER BY +left_at LIMIT ?2)",
    )
    .bind(source)
    .bind(excess.saturating_add(i64::try_from(max_items).unwrap_or(i64::MAX)))
    .execute(&mut *connection)
    .await?;
    sqlx::query("UPDATE sources SET items_forgotten = ? WHERE id = ?")
        .bind(now.as_millis())
        .bind(source)
        .execute(&mut *connection)
        .await?;
    count(connection, source).await?;
    Ok(())
}

/// Counts the items of a source, and stores their number.
async fn count(connection: &mut SqliteConnection, source: i64) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "UPDATE sources SET known_items = (SELECT count(*) FROM items WHERE source_id = ?1) WHERE id = ?1
         RETURNING known_items",
    )
    .bind(source)
    .fetch_one(connection)
    .await
}

/// The items of the last documents of these sources, from their rows.
pub(super) async fn in_last(
    connection: &mut SqliteConnection,
    sources: &[i64],
) -> Result<HashMap<SourceId, Fingerprints>, StoreError> {
    let mut items: HashMap<SourceId, Fingerprints> = HashMap::new();
    if sources.is_empty() {
        return Ok(items);
    }
    let text: String = sqlx::query_scalar(IN_LAST).bind(text_of(sources)?).fetch_one(connection).await?;
    for (source, key, fingerprint) in read_text::<Vec<(i64, i64, i64)>>(&text)? {
        items.entry(SourceId(source)).or_default().insert(key as u64, fingerprint as u64);
    }
    Ok(items)
}

impl Reader {
    /// For each source, those of these items that it had, now or before.
    pub async fn known_items(
        &self,
        wanted: &[(SourceId, Vec<u64>)],
    ) -> Result<Vec<Fingerprints>, StoreError> {
        let keys_of = |(place, (source, keys)): (usize, &(SourceId, Vec<u64>))| {
            let source = source.0;
            keys.iter().map(|&key| (place, source, key as i64)).collect::<Vec<_>>()
        };
        let keys: Vec<_> = wanted.iter().enumerate().flat_map(keys_of).collect();
        let mut known = vec![Fingerprints::new(); wanted.len()];
        let mut connection = self.pool().acquire().await?;
        for keys in keys.chunks(TOGETHER) {
            let text: String =
                sqlx::query_scalar(WITH_KEYS).bind(text_of(keys)?).fetch_one(&mut *connection).await?;
            for (place, key, fingerprint) in read_text::<Vec<(usize, i64, i64)>>(&text)? {
                known[place].insert(key as u64, fingerprint as u64);
            }
        }
        Ok(known)
    }

    /// Those of these keys whose items were reported as new.
    pub async fn reported_items(&self, id: SourceId, keys: &[&str]) -> Result<HashSet<String>, StoreError> {
        if keys.is_empty() {
            return Ok(HashSet::new());
        }
        let keys = text_of(keys)?;
        let found: Vec<String> =
            sqlx::query_scalar(REPORTED).bind(id.0).bind(keys).fetch_all(self.pool()).await?;
        Ok(found.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use sqlx::AssertSqlSafe;

    use super::super::open;
    use super::*;

    #[test]
    fn packed_items_come_back() {
        let item = |key_hash, fingerprint| Present { key_hash, fingerprint, ..Present::default() };
        let present = [item(1, u64::MAX), item(u64::MAX - 1, 0)];
        let expected = Fingerprints::from([(1, u64::MAX), (u64::MAX - 1, 0)]);
        assert_eq!(unpacked(&packed(&present)), expected);
        assert!(unpacked(&[]).is_empty());
    }

    #[tokio::test]
    async fn older_items_are_read_by_key() {
        let folder = tempfile::TempDir::new().unwrap();
        let mut connection = open::for_writing(&folder.path().join("t.db")).await.unwrap();
        let plan = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {WITH_KEYS}"));
        let steps: Vec<(i64, i64, i64, String)> =
            sqlx::query_as(plan).bind("[]").fetch_all(&mut connection).await.unwrap();
        let steps: Vec<_> =
            steps.iter().map(|step| &*step.3).filter(|step| step.contains("items")).collect();
        assert_eq!(steps, ["SEARCH items USING PRIMARY KEY (source_id=? AND key_hash=?)"]);
    }
}
