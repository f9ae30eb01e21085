//! The corrections of the clock, as stored: by which clock each part of the log was written.
//!
//! Logged probes keep the time of the clock that was in force, and a correction stores the last of them. So no
//! transaction rewrites the log, and its times are right after any number of restarts. Must not know how the other
//! tables follow a correction.

use sqlx::{Row, SqliteConnection};

use tidewatch_core::time::{Span, Timestamp};

use crate::clock::{Clock, ClockReading};

type Result<T = ()> = std::result::Result<T, sqlx::Error>;

/// How a correction was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CorrectionFound {
    /// The clock was set while the daemon ran.
    Running,
    /// At a start, by the time since boot.
    SameBoot,
    /// At a start after another boot: the clock shows less than before.
    OtherBoot,
}

impl CorrectionFound {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::SameBoot => "same_boot",
            Self::OtherBoot => "other_boot",
        }
    }

    fn when(self) -> &'static str {
        match self {
            Self::Running => "while the daemon ran",
            Self::SameBoot => "while the daemon was stopped",
            Self::OtherBoot => "at least, before the daemon started",
        }
    }
}

/// A correction of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Correction {
    /// When it was found, by the new clock.
    pub at: Timestamp,
    /// The new clock minus the old one.
    pub by: Span,
    /// How it was found.
    pub found: CorrectionFound,
}

impl std::fmt::Display for Correction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (direction, by) = match self.by < Span::ZERO {
            true => ("back", -self.by),
            false => ("forward", self.by),
        };
        write!(f, "set {direction} by {by} {}", self.found.when())
    }
}

/// The clock as the daemon saw it last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClockSeen {
    /// The clock, and the time of the boot by it.
    pub reading: ClockReading,
    /// The name of the boot.
    pub boot: Option<String>,
}

impl ClockSeen {
    /// The clock now.
    pub fn now(clock: &Clock) -> Self {
        Self { reading: clock.read(), boot: clock.boot() }
    }

    pub(super) async fn write(&self, connection: &mut SqliteConnection) -> Result {
        sqlx::query("INSERT OR REPLACE INTO clock_seen (id, at, booted_at, boot) VALUES (1, ?, ?, ?)")
            .bind(self.reading.now.as_millis())
            .bind(self.reading.booted_at.as_millis())
            .bind(&self.boot)
            .execute(connection)
            .await?;
        Ok(())
    }

    async fn last(connection: &mut SqliteConnection) -> Result<Option<Self>> {
        let row =
            sqlx::query("SELECT at, booted_at, boot FROM clock_seen").fetch_optional(connection).await?;
        Ok(row.map(|row| Self {
            reading: ClockReading {
                now: Timestamp::from_millis(row.get(0)),
                booted_at: Timestamp::from_millis(row.get(1)),
            },
            boot: row.get(2),
        }))
    }
}

/// Smaller changes are not distinguished from the disciplining of the clock …
const LEAST: Span = Span::from_millis(500);
/// … nor smaller ones than this share of the time in between.
const SLEWED: f64 = 500e-6;

/// Probes that may have the latest time.
const LAST_PROBES: i64 = 1000;

/// Logged probes of one clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogPeriod {
    /// They come after this one …
    after: i64,
    /// … and end with this one.
    last: i64,
    /// Its first time, by its clock.
    from: Timestamp,
    /// Its last time, by its clock.
    until: Timestamp,
    /// The clock in force minus theirs.
    pub(super) shift: Span,
}

impl LogPeriod {
    /// Its times and by how much they differ from those of the present clock, in milliseconds.
    pub(super) fn times(&self) -> [i64; 3] {
        [self.from.as_millis(), self.until.as_millis(), self.shift.as_millis()]
    }

    /// The condition for rows of `probes` that started at `from` or later, by the present clock.
    pub(super) fn condition(&self, from: &str) -> String {
        let Self { after, last, until, shift, .. } = *self;
        // The unary plus: the index of sources and times is the narrow one.
        format!(
            "started_at >= {from} - {} AND started_at <= {} AND +probes.id > {after} AND +probes.id <= {last}",
            shift.as_millis(),
            until.as_millis(),
        )
    }
}

/// The times of logged rows by the present clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LogTimes {
    /// Oldest first, at least one.
    periods: Vec<LogPeriod>,
}

impl LogTimes {
    /// The time of a row that this probe logged at `at`. Without a probe, which may be pruned, the time itself shows
    /// the clock: the last one that showed it. The first one may have shown any earlier time, so it comes last.
    pub(super) fn of(&self, probe: Option<i64>, at: Timestamp) -> Timestamp {
        at + self.shift_of(probe, at)
    }

    /// The clock in force minus that of the row.
    pub(super) fn shift_of(&self, probe: Option<i64>, at: Timestamp) -> Span {
        if let [_] = self.periods[..] {
            return Span::ZERO;
        }
        let period = match probe {
            Some(probe) => self.periods.get(self.periods.partition_point(|period| period.last < probe)),
            None => {
                let shows = |period: &&LogPeriod| period.from <= at && at <= period.until;
                self.periods.iter().rev().find(shows)
            }
        };
        period.map_or(Span::ZERO, |period| period.shift)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StoredCorrection {
    at: Timestamp,
    by: Span,
    total: Span,
    last_probe: i64,
}

/// The corrections of the clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredClock {
    /// Oldest first.
    corrections: Vec<StoredCorrection>,
    unrecorded: Span,
    /// What the present clock showed last.
    seen: Option<Timestamp>,
    /// Some rows of sources do not include all of them.
    sources_behind: bool,
}

impl StoredClock {
    /// Reads the corrections.
    pub async fn read(connection: &mut SqliteConnection) -> Result<Self> {
        let rows = sqlx::query("SELECT at, by_ms, total_ms, last_probe FROM clock_corrections ORDER BY id")
            .fetch_all(&mut *connection)
            .await?;
        let corrections = rows.iter().map(|row| StoredCorrection {
            at: Timestamp::from_millis(row.get(0)),
            by: Span::from_millis(row.get(1)),
            total: Span::from_millis(row.get(2)),
            last_probe: row.get(3),
        });
        let seen = ClockSeen::last(connection).await?.map(|seen| seen.reading.now);
        let mut stored = Self { corrections: corrections.collect(), seen, ..Self::default() };
        let included: Option<i64> =
            sqlx::query_scalar("SELECT value FROM meta WHERE key = 'sources_clock_ms'")
                .fetch_optional(connection)
                .await?;
        stored.sources_behind = included.unwrap_or(0) != stored.corrected().as_millis();
        Ok(stored)
    }

    /// Reads the corrections, with one that the daemon has not stored yet.
    pub async fn read_at(connection: &mut SqliteConnection, seen: &ClockSeen) -> Result<Self> {
        let mut stored = Self::read(connection).await?;
        if let Some(Correction { at, by, .. }) = stored.find(connection, seen).await? {
            let last_probe = last_probe(connection).await?;
            let total = stored.corrected() + by;
            stored.corrections.push(StoredCorrection { at, by, total, last_probe });
            stored.unrecorded = by;
        }
        Ok(stored)
    }

    /// The sum of all corrections.
    pub fn corrected(&self) -> Span {
        self.corrections.last().map_or(Span::ZERO, |last| last.total)
    }

    /// The part of it that is not stored yet.
    pub fn unrecorded(&self) -> Span {
        self.unrecorded
    }

    /// Whether the rows of some sources do not include all corrections.
    pub fn sources_behind(&self) -> bool {
        self.sources_behind
    }

    /// The periods by clocks that were behind the present clock, with times at `since` or later.
    pub(super) fn periods_behind(&self, since: Timestamp) -> Vec<LogPeriod> {
        let mut periods = self.periods(since);
        periods.retain(|period| period.shift > Span::ZERO);
        periods
    }

    /// What each clock of the log showed from `since` to `until`, with the numbers of its probes: they come after the
    /// first and end with the second.
    pub(super) fn windows(&self, since: Timestamp, until: Timestamp) -> Vec<[i64; 4]> {
        let window = |period: &LogPeriod| {
            let LogPeriod { after, last, shift, .. } = *period;
            [(since - shift).as_millis(), (until - shift).as_millis(), after, last]
        };
        self.periods(since).iter().map(window).collect()
    }

    /// The times of all logged rows.
    pub(super) fn log_times(&self) -> LogTimes {
        let mut periods = self.periods(Timestamp::MIN);
        if let (Some(last), Some(seen)) = (periods.last_mut(), self.seen) {
            // As at the end of the other periods, a row may be later than the last reading.
            last.until = seen + Span::from_hours(1);
        }
        LogTimes { periods }
    }

    /// The sum of all corrections, with one of this boot that the daemon has not stored yet.
    pub async fn corrected_at(connection: &mut SqliteConnection, seen: &ClockSeen) -> Result<Span> {
        let stored = Self::read(connection).await?;
        let found = stored.find(connection, seen).await?;
        let unrecorded = found.filter(|correction| correction.found == CorrectionFound::SameBoot);
        Ok(stored.corrected() + unrecorded.map_or(Span::ZERO, |correction| correction.by))
    }

    /// The periods with probes at `since` or later, by the present clock.
    pub(super) fn periods(&self, since: Timestamp) -> Vec<LogPeriod> {
        let total = self.corrected();
        let mut periods = Vec::new();
        let (mut after, mut from) = (0, Timestamp::MIN);
        for correction in &self.corrections {
            let StoredCorrection { at, by, total: including, last_probe } = *correction;
            let shift = total - (including - by);
            // A probe may have started since the last reading of the clock.
            let until = at - by + Span::from_hours(1);
            if since == Timestamp::MIN || since - shift <= until {
                periods.push(LogPeriod { after, last: last_probe, from, until, shift });
            }
            (after, from) = (last_probe, at);
        }
        periods.push(LogPeriod { after, last: i64::MAX, from, until: Timestamp::MAX, shift: Span::ZERO });
        periods
    }

    /// The correction between what was seen last and now, if any.
    pub(super) async fn find(
        &self,
        connection: &mut SqliteConnection,
        seen: &ClockSeen,
    ) -> Result<Option<Correction>> {
        let before = ClockSeen::last(connection).await?;
        let at = seen.reading.now;
        if let Some(before) =
            before.as_ref().filter(|before| before.boot.is_some() && before.boot == seen.boot)
        {
            let by = seen.reading.booted_at - before.reading.booted_at;
            let size = if by < Span::ZERO { -by } else { by };
            let passed = (at - before.reading.now - by).max(Span::ZERO);
            let found = CorrectionFound::SameBoot;
            return Ok((size >= LEAST.max(passed.scaled(SLEWED))).then_some(Correction { at, by, found }));
        }
        let latest = before.map(|before| before.reading.now).max(self.latest_probe(connection).await?);
        let found = CorrectionFound::OtherBoot;
        Ok(latest.filter(|&latest| latest > at).map(|latest| Correction { at, by: at - latest, found }))
    }

    /// The latest end of a probe by the present clock.
    async fn latest_probe(&self, connection: &mut SqliteConnection) -> Result<Option<Timestamp>> {
        let after = self.corrections.last().map_or(0, |last| last.last_probe);
        let latest: Option<i64> = sqlx::query_scalar(
            "SELECT max(at) FROM (
                 SELECT * FROM (SELECT started_at + duration_ms AS at FROM probes WHERE id > ?1
                                ORDER BY id DESC LIMIT ?2)
                 UNION ALL SELECT started_at FROM flights)",
        )
        .bind(after)
        .bind(LAST_PROBES)
        .fetch_one(connection)
        .await?;
        Ok(latest.map(Timestamp::from_millis))
    }
}

pub(super) async fn last_probe(connection: &mut SqliteConnection) -> Result<i64> {
    sqlx::query_scalar(
        "SELECT max(coalesce((SELECT max(id) FROM probes), 0),
                    coalesce((SELECT max(last_probe) FROM clock_corrections), 0))",
    )
    .fetch_one(connection)
    .await
}

/// The sum of all corrections, as SQL.
pub(super) const TOTAL: &str =
    "coalesce((SELECT total_ms FROM clock_corrections ORDER BY id DESC LIMIT 1), 0)";

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_secs(1_800_000_000) + Span::from_hours(hours)
    }

    fn stored(corrections: &[(i64, i64, i64)]) -> StoredClock {
        let mut clock = StoredClock::default();
        for &(hour, by, last_probe) in corrections {
            let (at, by) = (at(hour), Span::from_hours(by));
            clock.corrections.push(StoredCorrection { at, by, total: clock.corrected() + by, last_probe });
        }
        clock
    }

    #[test]
    fn each_period_of_the_log_has_the_corrections_after_it() {
        // A boot in 1970, and then network time.
        let years = 500_000;
        let clock = stored(&[(-years, -years, 10), (1, years, 12)]);
        assert_eq!(clock.corrected(), Span::ZERO);
        let periods = clock.periods(at(-24));
        let shifts: Vec<Span> = periods.iter().map(|period| period.shift).collect();
        assert_eq!(shifts, [Span::ZERO, Span::from_hours(years), Span::ZERO]);
        assert_eq!(
            periods.iter().map(|period| (period.after, period.last)).collect::<Vec<_>>(),
            [(0, 10), (10, 12), (12, i64::MAX)]
        );
        // Those of the window only.
        assert_eq!(clock.periods(at(5)).len(), 1);
        assert_eq!(clock.periods_behind(at(-24)).len(), 1);
        assert_eq!(StoredClock::default().periods(at(0)).len(), 1);
    }

    #[test]
    fn a_logged_row_has_its_time_by_the_clock_in_force() {
        let years = 26_280;
        // Three years ahead for an hour.
        let mut ahead = stored(&[(years, years, 10), (1, -years, 12)]);
        ahead.seen = Some(at(2));
        let ahead = ahead.log_times();
        for (probe, logged, wanted) in [
            (Some(10), 0, 0),
            (Some(11), years, 0),
            (Some(12), years + 1, 1),
            (Some(13), 2, 2),
            (None, -50, -50),
            (None, years + 1, 1),
            (None, 2, 2),
        ] {
            assert_eq!(ahead.of(probe, at(logged)), at(wanted), "probe {probe:?} at {logged} h");
        }
        // Ahead from the first probe on, and right since an hour.
        let mut begun = stored(&[(0, -years, 12)]);
        begun.seen = Some(at(1));
        assert_eq!(begun.log_times().of(None, at(years - 3)), at(-3));
        assert_eq!(begun.log_times().of(None, at(1)), at(1));
        // A boot in 1970.
        let behind = stored(&[(-years, -years, 10), (1, years, 12)]).log_times();
        assert_eq!(behind.of(None, at(-years)), at(0));
        assert_eq!(behind.of(None, at(-1)), at(-1));
        assert_eq!(StoredClock::default().log_times().of(Some(1), at(3)), at(3));
    }
}
