//! Steady sources, with and without bursts, and the changes that a detector reports for them.

pub use tidewatch_core::model::burst::detector::BurstDetector;
pub use tidewatch_core::model::burst::{BurstChange, BurstParams, ProbeWindow, Test, WindowUpdates};
pub use tidewatch_core::model::cyclic::Rate;
pub use tidewatch_core::rng::Stream;
pub use tidewatch_core::time::{Span, Timestamp};

/// Λ(W), from sources that update every few days to those that update all the time.
pub const WINDOW_COUNTS: [f64; 8] = [0.01, 0.1, 0.4, 1.0, 2.0, 5.0, 10.0, 50.0];

/// A Monday, midnight UTC.
pub fn monday() -> Timestamp {
    Timestamp::parse_iso("2026-01-05T00:00:00Z").unwrap()
}

pub fn exponential(stream: &mut Stream) -> f64 {
    -(1.0 - stream.unit()).ln()
}

/// Hours as a span.
pub fn span(hours: f64) -> Span {
    Span::from_millis((hours * 3.6e6).round() as i64)
}

/// Updates of a steady source, one after the other.
pub fn poisson(per_hour: f64, updates: usize, stream: &mut Stream) -> Vec<Timestamp> {
    let mut at = 0.0;
    let mut next = || {
        at += exponential(stream) / per_hour;
        monday() + span(at)
    };
    (0..updates).map(|_| next()).collect()
}

/// Probes at equal steps until all updates are found. Returns the changes.
pub fn watch(updates: &[Timestamp], every: Span, rate: &Rate, params: &BurstParams) -> Vec<BurstChange> {
    let (mut watch, mut from, mut rest) = (BurstDetector::default(), monday(), updates);
    let mut changes = Vec::new();
    while !rest.is_empty() {
        let until = from + every;
        let (now, later) = rest.split_at(rest.partition_point(|&at| at <= until));
        changes.extend(watch.add_probe(
            &ProbeWindow { from, until, seen: WindowUpdates::Dated(now) },
            rate,
            params,
        ));
        (from, rest) = (until, later);
    }
    changes
}

/// Updates of a weekly rhythm, by thinning, over whole weeks.
pub fn rhythmic(rate: &Rate, most_per_hour: f64, weeks: i64, stream: &mut Stream) -> Vec<Timestamp> {
    let all = poisson(most_per_hour, (168 * weeks) as usize, stream);
    all.into_iter().filter(|&at| stream.unit() * most_per_hour < rate.at(at)).collect()
}

/// How many bursts began.
pub fn begun(changes: &[BurstChange]) -> f64 {
    changes.iter().filter(|change| !matches!(change, BurstChange::Ended(_))).count() as f64
}

/// How many bursts begin at a steady source that has none.
pub fn false_alarms(in_window: f64, updates: usize, params: &BurstParams) -> f64 {
    let per_hour = in_window / (params.window.as_secs_f64() / 3600.0);
    let mut stream = Stream::new(1, format!("steady {in_window}"));
    let times = poisson(per_hour, updates, &mut stream);
    begun(&watch(&times, span(20.0 / per_hour), &Rate::constant(per_hour), params))
}

/// How bursts were found.
#[derive(Debug)]
pub struct Found {
    /// How many of them.
    pub share: f64,
    /// Updates of the burst it took, on average.
    pub updates: f64,
    /// Mean gaps from the burst's last update until its end was detected, on average.
    pub gaps_to_end: f64,
}

/// Mean gaps between probes after a burst.
const STEP: f64 = 0.2;

/// Bursts of ten updates at `times` times the rate. Each is preceded by a quiet time of five windows and
/// followed by another. A burst counts as found if it is on at one of the ten.
pub fn detection(in_window: f64, times: f64, bursts: u32, params: &BurstParams) -> Found {
    let per_hour = in_window / (params.window.as_secs_f64() / 3600.0);
    let rate = Rate::constant(per_hour);
    let mut stream = Stream::new(2, format!("burst {in_window} {times}"));
    let (mut found, mut taken, mut ended) = (0, 0, 0.0);
    for _ in 0..bursts {
        let before = poisson(per_hour, 10 + (5.0 * in_window) as usize, &mut stream);
        let mut watch = BurstDetector::default();
        let begin = before[before.len() - 1];
        watch.add_probe(
            &ProbeWindow { from: monday(), until: begin, seen: WindowUpdates::Dated(&before) },
            &rate,
            params,
        );
        let mut at = 0.0;
        let mut probe = |hours: f64, update: bool| {
            let (from, until) = (begin + span(at), begin + span(at + hours));
            at += hours;
            let seen = [until];
            watch.add_probe(
                &ProbeWindow { from, until, seen: WindowUpdates::Dated(&seen[..usize::from(update)]) },
                &rate,
                params,
            );
            watch.is_on()
        };
        // A burst begins at any time, not at an update.
        let mut on = probe(exponential(&mut stream) / per_hour, false);
        let before = on;
        for update in 1..=10 {
            let now = probe(exponential(&mut stream) / per_hour / times, true);
            if now && !on && !before {
                (found, taken) = (found + 1, taken + update);
            }
            on |= now;
        }
        if on && !before {
            let mut quiet = 0.0;
            let mut next = exponential(&mut stream);
            while probe(STEP / per_hour, next <= STEP) && quiet < 20.0 {
                quiet += STEP;
                next = if next <= STEP { exponential(&mut stream) } else { next - STEP };
            }
            ended += quiet;
        }
    }
    let found = f64::from(found);
    Found {
        share: found / f64::from(bursts),
        updates: f64::from(taken) / found,
        gaps_to_end: ended / found,
    }
}
