//! Slices of a garden's cube: sums grouped by some dimensions and filtered by others.
//!
//! Statements are composed of fixed column names; values are bound. Each sum comes with its number of plants
//! and days. Must not know how a slice is shown.

use sqlx::{AssertSqlSafe, Row};

use super::{BedRow, Cube, CubeError, RunRow};

/// A given capacity matches a stored one within this distance.
const NEAR: f64 = 0.05;

/// A dimension of the cube.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dim {
    /// Work a day.
    Capacity,
    /// The policy.
    Policy,
    /// The group of plants.
    Group,
    /// The class of windows.
    Window,
    /// The day.
    Day,
}

impl Dim {
    /// All dimensions.
    pub const ALL: [Self; 5] = [Self::Capacity, Self::Policy, Self::Group, Self::Window, Self::Day];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::Policy => "policy",
            Self::Group => "group",
            Self::Window => "window",
            Self::Day => "day",
        }
    }

    /// The dimension of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dim| dim.name() == name)
    }

    fn column(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::Policy => "policy",
            Self::Group => "group_name",
            Self::Window => "window_class",
            Self::Day => "day",
        }
    }

    /// The SQL expression to sort by.
    fn order(self) -> &'static str {
        match self {
            // By the shortest window, which the class name begins with.
            Self::Window => "CAST(window_class AS INTEGER)",
            other => other.column(),
        }
    }
}

/// A value of a dimension.
#[derive(Debug, Clone, PartialEq)]
pub enum SliceMark {
    /// A capacity.
    Capacity(f64),
    /// A policy, a group or a class of windows.
    Name(String),
    /// A day.
    Day(i64),
}

/// A row of a slice.
#[derive(Debug, Clone, PartialEq)]
pub struct SliceRow {
    /// Its values on the dimensions that it is grouped by, in their order.
    pub marks: Vec<SliceMark>,
    /// Total days late.
    pub tardiness: i64,
    /// Work, in units.
    pub workload: f64,
    /// Number of waterings.
    pub probes: i64,
    /// Number of late waterings.
    pub missed: i64,
    /// Number of days, summed over runs.
    pub days: i64,
    /// Number of plants times these days.
    pub plant_days: i64,
}

/// The result of a slice, with its grouping and filters.
#[derive(Debug, Clone, PartialEq)]
pub struct Slice {
    /// The dimensions it is grouped by.
    pub by: Vec<Dim>,
    /// The filters.
    pub held: Vec<(Dim, SliceMark)>,
    /// The rows.
    pub rows: Vec<SliceRow>,
}

impl SliceRow {
    /// Days late per plant and day.
    pub fn mean_tardiness(&self) -> f64 {
        self.tardiness as f64 / self.plant_days.max(1) as f64
    }

    /// Work per day.
    pub fn mean_workload(&self) -> f64 {
        self.workload / self.days.max(1) as f64
    }
}

impl Cube {
    /// Sums grouped by these dimensions and filtered by these values; several values of one dimension are
    /// alternatives.
    pub async fn slice(&mut self, by: &[Dim], held: &[(Dim, String)]) -> Result<Slice, CubeError> {
        let (runs, beds) = (self.runs().await?, self.beds().await?);
        let held: Vec<(Dim, SliceMark)> = held
            .iter()
            .map(|(dim, value)| Ok((*dim, meant(*dim, value, &runs, &beds)?)))
            .collect::<Result<_, CubeError>>()?;
        let mut statement = "SELECT sum(tardiness), sum(workload), sum(probes), sum(missed)".to_owned();
        for dim in by {
            statement += &format!(", {}", dim.column());
        }
        statement += " FROM cells";
        let mut marks = Vec::new();
        for dim in Dim::ALL {
            let of_dim: Vec<&SliceMark> =
                held.iter().filter(|(other, _)| *other == dim).map(|(_, mark)| mark).collect();
            if !of_dim.is_empty() {
                let word = if marks.is_empty() { "WHERE" } else { "AND" };
                let places = vec!["?"; of_dim.len()].join(", ");
                statement += &format!(" {word} {} IN ({places})", dim.column());
                marks.extend(of_dim);
            }
        }
        let list =
            |of: fn(Dim) -> &'static str| by.iter().map(|&dim| of(dim)).collect::<Vec<_>>().join(", ");
        statement += &format!(" GROUP BY {} ORDER BY {}", list(Dim::column), list(Dim::order));
        let mut query = sqlx::query(AssertSqlSafe(statement));
        for mark in marks {
            query = match mark {
                SliceMark::Capacity(capacity) => query.bind(*capacity),
                SliceMark::Name(name) => query.bind(name.clone()),
                SliceMark::Day(day) => query.bind(*day),
            };
        }
        let found = query.fetch_all(&mut self.connection).await?;
        let row = |row: sqlx::sqlite::SqliteRow| {
            let mark = |(place, dim): (usize, &Dim)| match dim {
                Dim::Capacity => SliceMark::Capacity(row.get(4 + place)),
                Dim::Day => SliceMark::Day(row.get(4 + place)),
                Dim::Policy | Dim::Group | Dim::Window => SliceMark::Name(row.get(4 + place)),
            };
            let marks: Vec<SliceMark> = by.iter().enumerate().map(mark).collect();
            let fits = |dim: Dim, here: &SliceMark| {
                by.iter().zip(&marks).all(|(&other, mark)| other != dim || mark == here)
                    && (held.iter().all(|(other, _)| *other != dim) || held.contains(&(dim, here.clone())))
            };
            let days = days(&runs, &held, &marks, &fits);
            let bed = |bed: &&BedRow| {
                fits(Dim::Group, &SliceMark::Name(bed.group.clone()))
                    && fits(Dim::Window, &SliceMark::Name(bed.window_class.clone()))
            };
            let plants: i64 = beds.iter().filter(bed).map(|bed| bed.plants).sum();
            SliceRow {
                tardiness: row.get(0),
                workload: row.get(1),
                probes: row.get(2),
                missed: row.get(3),
                days,
                plant_days: days * plants,
                marks,
            }
        };
        let rows = found.into_iter().map(row).collect();
        Ok(Slice { by: by.to_vec(), rows, held })
    }
}

/// The number of days of the matching runs: on the row's day, on the filtered days, or in total.
fn days(
    runs: &[RunRow],
    held: &[(Dim, SliceMark)],
    marks: &[SliceMark],
    fits: &dyn Fn(Dim, &SliceMark) -> bool,
) -> i64 {
    let of_day = |mark: &SliceMark| if let SliceMark::Day(day) = mark { Some(*day) } else { None };
    let requested = marks.iter().find_map(of_day);
    let mut only: Vec<i64> = held.iter().filter_map(|(_, mark)| of_day(mark)).collect();
    only.sort_unstable();
    only.dedup();
    let of_run = |run: &RunRow| match requested {
        Some(day) => i64::from(day <= run.days),
        None if only.is_empty() => run.days,
        None => only.iter().filter(|&&day| day <= run.days).count() as i64,
    };
    let fitting = runs.iter().filter(|run| {
        fits(Dim::Capacity, &SliceMark::Capacity(run.capacity))
            && fits(Dim::Policy, &SliceMark::Name(run.policy.clone()))
    });
    fitting.map(of_run).sum()
}

/// The value that a text stands for, or an error that lists the existing values.
fn meant(dim: Dim, value: &str, runs: &[RunRow], beds: &[BedRow]) -> Result<SliceMark, CubeError> {
    let not_there =
        |there: Vec<String>| CubeError::NotThere { dim: dim.name(), value: value.to_owned(), there };
    let named = |mut there: Vec<String>| {
        there
            .sort_by_key(|name| (name.split('-').next().and_then(|n| n.parse::<u32>().ok()), name.clone()));
        there.dedup();
        match there.iter().any(|name| name == value) {
            true => Ok(SliceMark::Name(value.to_owned())),
            false => Err(not_there(there)),
        }
    };
    match dim {
        Dim::Policy => named(runs.iter().map(|run| run.policy.clone()).collect()),
        Dim::Group => named(beds.iter().map(|bed| bed.group.clone()).collect()),
        Dim::Window => named(beds.iter().map(|bed| bed.window_class.clone()).collect()),
        Dim::Day => {
            let last = runs.iter().map(|run| run.days).max().unwrap_or(0);
            let day = value.parse().ok().filter(|day| (1..=last).contains(day));
            day.map(SliceMark::Day).ok_or_else(|| not_there(vec![format!("1 to {last}")]))
        }
        Dim::Capacity => {
            let mut there: Vec<f64> = runs.iter().map(|run| run.capacity).collect();
            there.sort_by(f64::total_cmp);
            there.dedup();
            let wanted = value.parse().ok().filter(|wanted: &f64| wanted.is_finite());
            let nearest = wanted.and_then(|wanted| {
                let away = |one: &f64| (one - wanted).abs();
                // With a tolerance for decimals that have no exact representation.
                let near = there.iter().copied().filter(|one| away(one) <= NEAR + 1e-9);
                near.min_by(|one, other| away(one).total_cmp(&away(other)))
            });
            nearest
                .map(SliceMark::Capacity)
                .ok_or_else(|| not_there(there.iter().map(f64::to_string).collect()))
        }
    }
}
