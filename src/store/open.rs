//! Opens the file: creates and migrates it, and rejects files of other programs with a clear error.

use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Row, SqliteConnection};

use super::error::{NOTADB, is_no_room, is_read_only, primary_code};
use super::migrations::MIGRATIONS;
use super::{StoreError, files};

/// SQLite's application id of a store, shown by `file`: "tide".
const APPLICATION_ID: i64 = 0x7469_6465;

/// Longest wait of a statement for the lock of another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The write-ahead log is copied into the file when it has this many pages (32 MB). The rows of a source change with
/// each of its probes, so that most pages of a longer log are written again before they are copied.
const CHECKPOINT_PAGES: &str = "8000";

/// The write-ahead log is cut to this after a checkpoint. A long reader can make it much longer for a while.
const LOG_KEPT_BYTES: &str = "67108864";

/// Memory for pages of the connection that writes, in kB: the pages that some batches of probes change. Each probe
/// changes pages of its own if there are many sources.
fn writer_cache_kb(sources: usize) -> usize {
    (3_000 + sources / 20).min(24_000)
}

/// Opens the store for writing, creating and migrating it as needed.
pub async fn for_writing(path: &Path) -> Result<SqliteConnection, StoreError> {
    let is_new = !path.exists();
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        // Each commit is on the disk before it is acknowledged, so a power cut loses no start of a probe that was sent.
        // It costs a few hundredths of a millisecond of processor time for each batch.
        .synchronous(SqliteSynchronous::Full)
        .pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
        .pragma("journal_size_limit", LOG_KEPT_BYTES)
        // Of new files: deleted pages can be given back.
        .auto_vacuum(SqliteAutoVacuum::Incremental)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT);
    let mut connection =
        with_statement_log(options).connect().await.map_err(|error| explain(path, error))?;
    check_identity(path, &mut connection).await?;
    // A store that root makes, such as by `probe`, belongs to the owner of its folder.
    if is_new {
        files::give_to_owner_of_folder(&files::real_path(path));
    }
    MIGRATIONS.run(&mut connection).await.map_err(|error| match error {
        sqlx::migrate::MigrateError::Execute(error)
        | sqlx::migrate::MigrateError::ExecuteMigration(error, _) => explain(path, error),
        error => StoreError::Sql(error.into()),
    })?;
    let identify = sqlx::query("PRAGMA application_id = 1953064037").execute(&mut connection).await;
    identify.map_err(|error| explain(path, error))?;
    Ok(connection)
}

/// Opens a store of this version for writing, such as beside a running daemon. Never creates or migrates one.
pub async fn existing_for_writing(path: &Path) -> Result<SqliteConnection, StoreError> {
    check_readable(path).await?;
    let options = SqliteConnectOptions::new().filename(path).foreign_keys(true).busy_timeout(BUSY_TIMEOUT);
    with_statement_log(options).connect().await.map_err(|error| explain(path, error))
}

/// Prepares a connection for writing probes of this number of sources. Not before: migrations and new source lists may
/// change more than should be in memory.
pub async fn prepare_for_probes(
    connection: &mut SqliteConnection,
    sources: usize,
) -> Result<(), StoreError> {
    let kb = writer_cache_kb(sources);
    // A changed page is written once, at the end of its transaction. Statements that change many rows keep the old
    // pages until they end: in memory, not in files.
    let pragmas =
        format!("PRAGMA cache_size = -{kb}; PRAGMA cache_spill = OFF; PRAGMA temp_store = MEMORY");
    sqlx::raw_sql(AssertSqlSafe(pragmas)).execute(connection).await?;
    Ok(())
}

/// Options to open an existing store for reading only.
pub fn for_reading(path: &Path) -> SqliteConnectOptions {
    with_statement_log(
        SqliteConnectOptions::new().filename(path).read_only(true).busy_timeout(BUSY_TIMEOUT),
    )
}

/// Logs statements only with `sqlx::query=trace` in the filter of the log. At `debug` they would hide
/// everything else.
fn with_statement_log(options: SqliteConnectOptions) -> SqliteConnectOptions {
    if tracing::enabled!(target: "sqlx::query", tracing::Level::TRACE) {
        return options;
    }
    options.disable_statement_logging()
}

/// Checks that a file is a store of this version.
pub async fn check_readable(path: &Path) -> Result<(), StoreError> {
    let (found, known) = (check_any_version(path).await?, known_version());
    match found.filter(|&found| found < known) {
        Some(found) => Err(StoreError::Older { path: path.to_owned(), found, known }),
        None => Ok(()),
    }
}

/// Checks that a file is a store of this version or an earlier one. Returns its version; an empty file has none.
pub(super) async fn check_any_version(path: &Path) -> Result<Option<i64>, StoreError> {
    if !path.exists() {
        return Err(StoreError::Missing(path.to_owned()));
    }
    let mut connection = for_reading(path).connect().await.map_err(|error| explain(path, error))?;
    let found = check_identity(path, &mut connection).await?;
    connection.close().await?;
    Ok(found)
}

fn known_version() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0)
}

/// The version of a store; an empty file has none.
pub(super) async fn check_identity(
    path: &Path,
    connection: &mut SqliteConnection,
) -> Result<Option<i64>, StoreError> {
    let tables: Vec<String> = sqlx::query_scalar("SELECT name FROM sqlite_schema WHERE type = 'table'")
        .fetch_all(&mut *connection)
        .await
        .map_err(|error| explain(path, error))?;
    let id: i64 = sqlx::query("PRAGMA application_id").fetch_one(&mut *connection).await?.get(0);
    // Only that one table: the first start ended before its first migration, as on a full disk.
    if tables.iter().all(|name| name == "_sqlx_migrations") {
        return Ok(None);
    }
    let ours = id == APPLICATION_ID || (id == 0 && tables.iter().any(|name| name == "flights"));
    if !ours || !tables.iter().any(|name| name == "_sqlx_migrations") {
        return Err(StoreError::Foreign(path.to_owned()));
    }
    let found: i64 = sqlx::query_scalar("SELECT coalesce(max(version), 0) FROM _sqlx_migrations")
        .fetch_one(&mut *connection)
        .await?;
    let known = known_version();
    if found > known {
        return Err(StoreError::Newer { path: path.to_owned(), found, known });
    }
    Ok(Some(found))
}

fn explain(path: &Path, error: sqlx::Error) -> StoreError {
    if primary_code(&error) == Some(NOTADB) {
        return StoreError::NotADatabase(path.to_owned());
    }
    if is_read_only(&error) {
        if let Some(error) = files::of_another_user(path) {
            return error;
        }
        return StoreError::ReadOnly { path: path.to_owned(), reason: error.to_string() };
    }
    if is_no_room(&error) {
        return StoreError::Disk { path: path.to_owned(), reason: error.to_string() };
    }
    StoreError::Sql(error)
}
