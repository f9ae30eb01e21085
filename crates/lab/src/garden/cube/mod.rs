//! A garden's measures as a cube: one SQLite file, separate from the store, written once and then sliced.
//!
//! `cells` has the measures by capacity, policy, group, class of windows and day; a day and bed without any
//! has no row. `runs` and `beds` have the numbers of days and plants. A file is written under a temporary
//! name and renamed when it is complete, so an incomplete file never counts as a cube. It replaces only a
//! cube, never another file. Must not know how a garden is simulated, nor how a slice is shown.

pub mod slice;

use std::path::{Path, PathBuf};

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Row, SqliteConnection};

/// The application id of the file: "gard".
const APPLICATION_ID: i64 = 0x6761_7264;

/// The reason why there is no cube.
#[derive(Debug, thiserror::Error)]
pub enum CubeError {
    /// The file is not a cube.
    #[error("{}: is no garden's cube and is left alone; move it away or name another file", .0.display())]
    NotACube(PathBuf),
    /// The file does not exist.
    #[error("{}: there is no such cube", .0.display())]
    Missing(PathBuf),
    /// A slice of a value that is not in the cube.
    #[error("{dim} `{value}` is not in the cube; there {}", listed(.there))]
    NotThere {
        /// The dimension.
        dim: &'static str,
        /// The requested value.
        value: String,
        /// The existing values.
        there: Vec<String>,
    },
    /// An error from SQLite.
    #[error("the cube: {0}")]
    Sql(#[from] sqlx::Error),
    /// An error from the file system.
    #[error("{}: {why}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        why: std::io::Error,
    },
}

fn listed(there: &[String]) -> String {
    match there {
        [] => "is nothing".to_owned(),
        [one] => format!("is {one}"),
        many => format!("are {}", many.join(", ")),
    }
}

/// Plants of a group with similar windows.
#[derive(Debug, Clone, PartialEq)]
pub struct BedRow {
    /// The group.
    pub group: String,
    /// Their class of windows, such as `2-3`.
    pub window_class: String,
    /// Number of plants.
    pub plants: i64,
    /// Their share of Ω.
    pub omega: f64,
}

/// One run: a policy with a capacity.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRow {
    /// The capacity.
    pub capacity: f64,
    /// The policy.
    pub policy: String,
    /// Number of days.
    pub days: i64,
    /// T̄.
    pub mean_tardiness: f64,
    /// K̄.
    pub mean_workload: f64,
    /// T_max.
    pub most_tardiness: i64,
    /// K_max.
    pub most_workload: f64,
    /// Number of waterings.
    pub probes: i64,
    /// Number of late waterings.
    pub missed: i64,
    /// Whether no other run dominates it.
    pub on_front: bool,
}

/// The measures of a bed on a day: index of the bed, day, days late, work in millionths, waterings, late
/// ones.
pub type CellRow = (usize, u32, u64, u64, u64, u64);

/// An open cube.
#[derive(Debug)]
pub struct Cube {
    pub(super) connection: SqliteConnection,
    /// The temporary path it is written to, and the final path.
    place: Option<(PathBuf, PathBuf)>,
}

impl Cube {
    /// Starts a new cube with these beds, at a path, or a temporary one without a path.
    pub async fn begin(path: Option<&Path>, beds: &[BedRow]) -> Result<Self, CubeError> {
        let place = match path {
            Some(path) => {
                let mut part = path.as_os_str().to_owned();
                part.push(".part");
                let part = PathBuf::from(part);
                check(path).await?;
                check(&part).await?;
                remove(&part)?;
                Some((part, path.to_owned()))
            }
            None => None,
        };
        // SQLite treats a database without a name as private and temporary.
        let file = place.as_ref().map_or(Path::new(""), |(part, _)| part);
        let options = SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(true)
            // An incomplete cube is discarded, so no journal is needed.
            .journal_mode(SqliteJournalMode::Off)
            .synchronous(SqliteSynchronous::Off)
            .disable_statement_logging();
        let mut connection = options.connect().await?;
        sqlx::raw_sql(
            "PRAGMA application_id = 1734439524;
             CREATE TABLE beds (
                 group_name TEXT NOT NULL, window_class TEXT NOT NULL, plants INTEGER NOT NULL,
                 omega REAL NOT NULL) STRICT;
             CREATE TABLE runs (
                 capacity REAL NOT NULL, policy TEXT NOT NULL, days INTEGER NOT NULL,
                 mean_tardiness REAL NOT NULL, mean_workload REAL NOT NULL, most_tardiness INTEGER NOT NULL,
                 most_workload REAL NOT NULL, probes INTEGER NOT NULL, missed INTEGER NOT NULL,
                 on_front INTEGER NOT NULL) STRICT;
             CREATE TABLE cells (
                 capacity REAL NOT NULL, policy TEXT NOT NULL, group_name TEXT NOT NULL,
                 window_class TEXT NOT NULL, day INTEGER NOT NULL, tardiness INTEGER NOT NULL,
                 workload REAL NOT NULL, probes INTEGER NOT NULL, missed INTEGER NOT NULL) STRICT;",
        )
        .execute(&mut connection)
        .await?;
        let rows: Vec<serde_json::Value> = beds
            .iter()
            .map(|bed| serde_json::json!([bed.group, bed.window_class, bed.plants, bed.omega]))
            .collect();
        sqlx::query(
            "INSERT INTO beds (rowid, group_name, window_class, plants, omega)
             SELECT key, value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?)",
        )
        .bind(serde_json::Value::from(rows).to_string())
        .execute(&mut connection)
        .await?;
        Ok(Self { connection, place })
    }

    /// Opens an existing cube, for slices.
    pub async fn open(path: &Path) -> Result<Self, CubeError> {
        if !path.exists() {
            return Err(CubeError::Missing(path.to_owned()));
        }
        match identified(path).await? {
            Some(connection) => Ok(Self { connection, place: None }),
            None => Err(CubeError::NotACube(path.to_owned())),
        }
    }

    /// Adds cells of a run in one transaction.
    pub async fn add(&mut self, capacity: f64, policy: &str, cells: &[CellRow]) -> Result<(), CubeError> {
        let mut transaction = self.connection.begin().await?;
        sqlx::query(
            "INSERT INTO cells (capacity, policy, group_name, window_class, day, tardiness, workload, probes, missed)
             SELECT ?1, ?2, group_name, window_class, value ->> 1, value ->> 2, (value ->> 3) / 1e6, value ->> 4,
                    value ->> 5
             FROM json_each(?3) JOIN beds ON beds.rowid = value ->> 0",
        )
        .bind(capacity)
        .bind(policy)
        .bind(serde_json::to_string(cells).map_err(|error| sqlx::Error::Encode(error.into()))?)
        .execute(&mut *transaction)
        .await?;
        Ok(transaction.commit().await?)
    }

    /// Adds the results of all finished runs.
    pub async fn conclude(&mut self, runs: &[RunRow]) -> Result<(), CubeError> {
        let mut transaction = self.connection.begin().await?;
        for run in runs {
            sqlx::query("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
                .bind(run.capacity)
                .bind(&run.policy)
                .bind(run.days)
                .bind(run.mean_tardiness)
                .bind(run.mean_workload)
                .bind(run.most_tardiness)
                .bind(run.most_workload)
                .bind(run.probes)
                .bind(run.missed)
                .bind(run.on_front)
                .execute(&mut *transaction)
                .await?;
        }
        Ok(transaction.commit().await?)
    }

    /// Closes it; a new one is moved to its final path.
    pub async fn keep(self) -> Result<(), CubeError> {
        self.connection.close().await?;
        match self.place {
            Some((part, path)) => std::fs::rename(&part, &path).map_err(|why| CubeError::Io { path, why }),
            None => Ok(()),
        }
    }

    /// Closes it; a new one is deleted.
    pub async fn discard(self) -> Result<(), CubeError> {
        let _ = self.connection.close().await;
        self.place.map_or(Ok(()), |(part, _)| remove(&part))
    }

    /// The results of the runs.
    pub async fn runs(&mut self) -> Result<Vec<RunRow>, CubeError> {
        let rows = sqlx::query(
            "SELECT capacity, policy, days, mean_tardiness, mean_workload, most_tardiness, most_workload, probes,
                    missed, on_front
             FROM runs ORDER BY capacity, policy",
        )
        .fetch_all(&mut self.connection)
        .await?;
        let run = |row: sqlx::sqlite::SqliteRow| RunRow {
            capacity: row.get(0),
            policy: row.get(1),
            days: row.get(2),
            mean_tardiness: row.get(3),
            mean_workload: row.get(4),
            most_tardiness: row.get(5),
            most_workload: row.get(6),
            probes: row.get(7),
            missed: row.get(8),
            on_front: row.get(9),
        };
        Ok(rows.into_iter().map(run).collect())
    }

    /// The beds.
    pub async fn beds(&mut self) -> Result<Vec<BedRow>, CubeError> {
        let rows = sqlx::query("SELECT group_name, window_class, plants, omega FROM beds ORDER BY rowid")
            .fetch_all(&mut self.connection)
            .await?;
        let bed = |row: sqlx::sqlite::SqliteRow| BedRow {
            group: row.get(0),
            window_class: row.get(1),
            plants: row.get(2),
            omega: row.get(3),
        };
        Ok(rows.into_iter().map(bed).collect())
    }
}

/// Checks that a cube may be written there: the path is free or has a cube.
pub async fn check(path: &Path) -> Result<(), CubeError> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(why) => Err(CubeError::Io { path: path.to_owned(), why }),
        Ok(_) => match identified(path).await? {
            Some(connection) => Ok(connection.close().await?),
            None => Err(CubeError::NotACube(path.to_owned())),
        },
    }
}

/// Opens the file if it is a cube. `None` if it cannot be read as one.
async fn identified(path: &Path) -> Result<Option<SqliteConnection>, CubeError> {
    let options = SqliteConnectOptions::new().filename(path).read_only(true).disable_statement_logging();
    let Ok(mut connection) = options.connect().await else { return Ok(None) };
    let id = sqlx::query_scalar::<_, i64>("PRAGMA application_id").fetch_one(&mut connection).await;
    Ok(id.is_ok_and(|id| id == APPLICATION_ID).then_some(connection))
}

fn remove(path: &Path) -> Result<(), CubeError> {
    match std::fs::remove_file(path) {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => {
            Err(CubeError::Io { path: path.to_owned(), why })
        }
        _ => Ok(()),
    }
}
