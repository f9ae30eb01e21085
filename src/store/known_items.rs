//! The known items of feeds, with which a changed document is compared.
//!
//! A source may have had far more items than its document holds. So only those of the last document are read
//! in whole; older ones are read by key.

use std::collections::HashMap;

use sqlx::SqliteConnection;

use tidewatch_core::observe::Fingerprints;
use tidewatch_core::source_id::SourceId;

use super::StoreError;
use super::json_rows::{read_text, text_of};
use super::reader::Reader;

/// The items of the last documents of sources. The index is named, because statistics of the table must not
/// lead SQLite to read all items of a source.
const IN_LAST: &str = "SELECT json_group_array(json_array(source_id, key_hash, fingerprint))
     FROM items INDEXED BY items_present
     WHERE source_id IN (SELECT value FROM json_each(?)) AND left_at IS NULL";

/// The items with these keys.
const WITH_KEYS: &str = "SELECT json_group_array(json_array(wanted.value ->> 0, key_hash, fingerprint))
     FROM jsonb_each(?) AS wanted
     CROSS JOIN items ON source_id = wanted.value ->> 1 AND key_hash = wanted.value ->> 2";

/// Keys per statement.
const TOGETHER: usize = 10_000;

/// The items of the last documents of these sources, whose numbers are a JSON list.
pub(super) async fn in_last(
    connection: &mut SqliteConnection,
    numbers: &str,
) -> Result<HashMap<SourceId, Fingerprints>, StoreError> {
    let text: String = sqlx::query_scalar(IN_LAST).bind(numbers).fetch_one(connection).await?;
    let mut items: HashMap<SourceId, Fingerprints> = HashMap::new();
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
}

#[cfg(test)]
mod tests {
    use sqlx::AssertSqlSafe;

    use super::super::open;
    use super::*;

    /// How SQLite reads the table of items for a query.
    async fn plan(connection: &mut SqliteConnection, query: &str) -> String {
        let query = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {query}"));
        let steps: Vec<(i64, i64, i64, String)> =
            sqlx::query_as(query).bind("[]").fetch_all(connection).await.unwrap();
        let mut steps = steps.into_iter().map(|step| step.3).filter(|step| step.contains("items"));
        let step = steps.next().unwrap();
        assert_eq!(steps.next(), None);
        step
    }

    #[tokio::test]
    async fn no_query_reads_items_that_it_does_not_return() {
        let folder = tempfile::TempDir::new().unwrap();
        let mut connection = open::for_writing(&folder.path().join("t.db")).await.unwrap();
        let last = plan(&mut connection, IN_LAST).await;
        assert_eq!(last, "SEARCH items USING COVERING INDEX items_present (source_id=? AND left_at=?)");
        let older = plan(&mut connection, WITH_KEYS).await;
        assert_eq!(older, "SEARCH items USING PRIMARY KEY (source_id=? AND key_hash=?)");
    }
}
