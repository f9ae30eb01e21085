//! Slices of a garden's cube: sums by some dimensions, of what others are held to.
//!
//! Statements are put together from fixed names of columns; values are bound. Knows of how many plants and days a
//! sum is. Must not know how a slice is shown.

use sqlx::{AssertSqlSafe, Row};

use super::{BedRow, Cube, CubeError, RunRow};

/// A capacity is meant if it is this near.
const NEAR: f64 = 0.05;

/// What measures are told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dim {
    /// Work a day.
    Capacity,
    /// Who waters.
    Policy,
    /// Whose plants.
    Group,
    /// How long they may wait.
    Window,
    /// When.
    Day,
}

impl Dim {
    /// All there are.
    pub const ALL: [Self; 5] = [Self::Capacity, Self::Policy, Self::Group, Self::Window, Self::Day];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::Policy => "policy",
            Self::Group => "group",
            Self::Window => "window",
            Self::Day => "day",
        }
    }

    /// The one that is called so.
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

    /// What it is sorted by.
    fn order(self) -> &'static str {
        match self {
            // By the shortest, which it begins with.
            Self::Window => "CAST(window_class AS INTEGER)",
            other => other.column(),
        }
    }
}

/// A place on a dimension.
#[derive(Debug, Clone, PartialEq)]
pub enum Mark {
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
    /// Where it stands on the dimensions that were asked for, in their order.
    pub marks: Vec<Mark>,
    /// Days late.
    pub tardiness: i64,
    /// Work, in units.
    pub workload: f64,
    /// Waterings.
    pub probes: i64,
    /// Of these late.
    pub missed: i64,
    /// How many days of how many runs that is.
    pub days: i64,
    /// How many plants, over these days.
    pub plant_days: i64,
}

/// What was found, and where it was looked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Slice {
    /// By which dimensions.
    pub by: Vec<Dim>,
    /// What others were held to.
    pub held: Vec<(Dim, Mark)>,
    /// Row by row.
    pub rows: Vec<SliceRow>,
}

impl SliceRow {
    /// Days late, of a plant and a day.
    pub fn mean_tardiness(&self) -> f64 {
        self.tardiness as f64 / self.plant_days.max(1) as f64
    }

    /// Work of a day.
    pub fn mean_workload(&self) -> f64 {
        self.workload / self.days.max(1) as f64
    }
}

impl Cube {
    /// Sums by these dimensions, where others have these values; more values of one dimension are each let through.
    pub async fn slice(&mut self, by: &[Dim], held: &[(Dim, String)]) -> Result<Slice, CubeError> {
        let (runs, beds) = (self.runs().await?, self.beds().await?);
        let held: Vec<(Dim, Mark)> = held
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
            let of_dim: Vec<&Mark> =
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
                Mark::Capacity(capacity) => query.bind(*capacity),
                Mark::Name(name) => query.bind(name.clone()),
                Mark::Day(day) => query.bind(*day),
            };
        }
        let found = query.fetch_all(&mut self.connection).await?;
        let row = |row: sqlx::sqlite::SqliteRow| {
            let mark = |(place, dim): (usize, &Dim)| match dim {
                Dim::Capacity => Mark::Capacity(row.get(4 + place)),
                Dim::Day => Mark::Day(row.get(4 + place)),
                Dim::Policy | Dim::Group | Dim::Window => Mark::Name(row.get(4 + place)),
            };
            let marks: Vec<Mark> = by.iter().enumerate().map(mark).collect();
            let fits = |dim: Dim, here: &Mark| {
                by.iter().zip(&marks).all(|(&other, mark)| other != dim || mark == here)
                    && (held.iter().all(|(other, _)| *other != dim) || held.contains(&(dim, here.clone())))
            };
            let days = days(&runs, &held, &marks, &fits);
            let bed = |bed: &&BedRow| {
                fits(Dim::Group, &Mark::Name(bed.group.clone()))
                    && fits(Dim::Window, &Mark::Name(bed.window_class.clone()))
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

/// How many days of the runs that fit there are on a day, or on the days that it is held to, or in all.
fn days(runs: &[RunRow], held: &[(Dim, Mark)], marks: &[Mark], fits: &dyn Fn(Dim, &Mark) -> bool) -> i64 {
    let of_day = |mark: &Mark| if let Mark::Day(day) = mark { Some(*day) } else { None };
    let asked = marks.iter().find_map(of_day);
    let mut only: Vec<i64> = held.iter().filter_map(|(_, mark)| of_day(mark)).collect();
    only.sort_unstable();
    only.dedup();
    let of_run = |run: &RunRow| match asked {
        Some(day) => i64::from(day <= run.days),
        None if only.is_empty() => run.days,
        None => only.iter().filter(|&&day| day <= run.days).count() as i64,
    };
    let fitting = runs.iter().filter(|run| {
        fits(Dim::Capacity, &Mark::Capacity(run.capacity))
            && fits(Dim::Policy, &Mark::Name(run.policy.clone()))
    });
    fitting.map(of_run).sum()
}

/// The place that a word means, or what there is instead.
fn meant(dim: Dim, value: &str, runs: &[RunRow], beds: &[BedRow]) -> Result<Mark, CubeError> {
    let not_there =
        |there: Vec<String>| CubeError::NotThere { dim: dim.name(), value: value.to_owned(), there };
    let named = |mut there: Vec<String>| {
        there
            .sort_by_key(|name| (name.split('-').next().and_then(|n| n.parse::<u32>().ok()), name.clone()));
        there.dedup();
        match there.iter().any(|name| name == value) {
            true => Ok(Mark::Name(value.to_owned())),
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
            day.map(Mark::Day).ok_or_else(|| not_there(vec![format!("1 to {last}")]))
        }
        Dim::Capacity => {
            let mut there: Vec<f64> = runs.iter().map(|run| run.capacity).collect();
            there.sort_by(f64::total_cmp);
            there.dedup();
            let wanted = value.parse().ok().filter(|wanted: &f64| wanted.is_finite());
            let nearest = wanted.and_then(|wanted| {
                let away = |one: &f64| (one - wanted).abs();
                // A little more, for what cannot be written exactly.
                let near = there.iter().copied().filter(|one| away(one) <= NEAR + 1e-9);
                near.min_by(|one, other| away(one).total_cmp(&away(other)))
            });
            nearest.map(Mark::Capacity).ok_or_else(|| not_there(there.iter().map(f64::to_string).collect()))
        }
    }
}
