//! The number of probes that find every X-th update within Y, on forty simulated sources with known rates
//! in four weeks: `cargo run --release -p tidewatch-lab --example profiles -- [confidence]`.
//!
//! SUP is derived once for the week from expectations, fbSUP again after every probe from its result. SUP(λ)
//! also adjusts the rate. The one knob of each rival is tuned in hindsight until its share equals that of
//! fbSUP, of all X-th updates together, and in the mean over sources. Further tables have wrong rates, other
//! confidences, sources without a rhythm, and a limit on the probes of all sources.

use std::io::Write;

use tidewatch_core::planning::execution::{Interval, RuleId};
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::Span;
use tidewatch_lab::profiles::intervals::{earliest_deadline, last_moment, wic};
use tidewatch_lab::profiles::policies::{Feedback, by_points, sup, sup_spending, with_feedback};
use tidewatch_lab::profiles::rivals::Rival;
use tidewatch_lab::profiles::sources::{ProfileRhythm, ProfileSource, sources};
use tidewatch_lab::profiles::{ProfileScore, Setting, score};

/// SUP, fbSUP and SUP(λ), which get `rate_factor` times the true rate.
fn ours(setting: &Setting, sources: &[ProfileSource], rate_factor: f64) -> [ProfileScore; 3] {
    [
        score(setting, sources, |source| sup(setting, source, rate_factor)),
        score(setting, sources, |source| with_feedback(setting, source, rate_factor, Feedback::Counts)),
        score(setting, sources, |source| {
            with_feedback(setting, source, rate_factor, Feedback::CountsAndRate)
        }),
    ]
}

fn shown(score: &ProfileScore) -> String {
    format!("{:>6.3} {:>5.3} {:>7}", score.of_all, score.share, score.probes)
}

fn against_rivals(
    out: &mut impl Write,
    sources: &[ProfileSource],
    settings: &[(u32, i64)],
    confidence: f64,
) -> std::io::Result<()> {
    writeln!(
        out,
        "{:>3} {:>4} | {:^20} | {:^20} | {:^20} | {:^17} | {:^17} | {:^17}",
        "X", "Y", "SUP", "fbSUP", "SUP(λ)", "uniform", "fixed", "TTL"
    )?;
    for &(every, mins) in settings {
        let setting = Setting { every, window: Span::from_mins(mins), confidence };
        let ours = ours(&setting, sources, 1.0);
        write!(out, "{every:>3} {:>4}", setting.window.to_string())?;
        for score in &ours {
            write!(out, " | {}", shown(score))?;
        }
        for rival in Rival::ALL {
            let of_all = rival.seeing(ours[1].of_all, |score| score.of_all, &setting, sources);
            let share = rival.seeing(ours[1].share, |score| score.share, &setting, sources);
            let probes = |score: Option<ProfileScore>| match score {
                Some(score) => score.probes.to_string(),
                None => "not reached".to_owned(),
            };
            write!(out, " | {:>8} {:>8}", probes(of_all), probes(share))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn main() -> std::io::Result<()> {
    let confidence = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0.9);
    let out = &mut std::io::stdout().lock();
    let weekly = sources(ProfileRhythm::Weekly, 40, 4, 1);

    writeln!(out, "Confidence {confidence}. Ours: share of all, mean share of sources, probes.")?;
    writeln!(out, "Rivals: probes at fbSUP's share of all, and at its mean share of sources.")?;
    let all: Vec<(u32, i64)> = [1, 5, 10].into_iter().flat_map(|x| [5, 30, 120].map(|y| (x, y))).collect();
    against_rivals(out, &weekly, &all, confidence)?;

    writeln!(out, "\nThe same without a rhythm")?;
    let even = sources(ProfileRhythm::Even, 40, 4, 1);
    against_rivals(out, &even, &[(1, 30), (5, 30), (10, 30)], confidence)?;

    let heading = "Given a multiple of the true rate, Y = 30m: share of all, mean share of sources, probes";
    writeln!(out, "\n{heading}")?;
    writeln!(
        out,
        "{:>3} {:>4} | {:^20} | {:^20} | {:^20} | {:^20}",
        "X", "rate", "SUP", "SUP, fbSUP's probes", "fbSUP", "SUP(λ)"
    )?;
    for every in [1, 5, 10] {
        for rate_factor in [0.5, 1.0, 2.0] {
            let setting = Setting { every, window: Span::from_mins(30), confidence };
            let [once, counting, learning] = ours(&setting, &weekly, rate_factor);
            let as_many = sup_spending(counting.probes, &setting, &weekly, rate_factor);
            let all = [once, as_many, counting, learning].map(|score| shown(&score));
            writeln!(out, "{every:>3} {rate_factor:>4} | {}", all.join(" | "))?;
        }
    }

    let heading = "The same by points: each X-th update is assumed when X updates are expected";
    writeln!(out, "\n{heading}\n{:>3} {:>4} | {:^20} | {:^20}", "X", "rate", "SUP", "fbSUP")?;
    for every in [1, 5, 10] {
        for rate_factor in [0.5, 1.0, 2.0] {
            let setting = Setting { every, window: Span::from_mins(30), confidence };
            let points = |feedback| {
                score(&setting, &weekly, |source| by_points(&setting, source, rate_factor, feedback))
            };
            let all = [points(false), points(true)].map(|score| shown(&score));
            writeln!(out, "{every:>3} {rate_factor:>4} | {}", all.join(" | "))?;
        }
    }

    writeln!(out, "\nX = 5, Y = 30m, by confidence: fbSUP")?;
    for confidence in [0.5, 0.8, 0.9, 0.95, 0.99] {
        let setting = Setting { every: 5, window: Span::from_mins(30), confidence };
        let [_, fb, _] = ours(&setting, &weekly, 1.0);
        writeln!(out, "{confidence:>5} | {}", shown(&fb))?;
    }

    writeln!(
        out,
        "\nUpdates known beforehand, Y = 30m, c probes per 5m for all: share found in time (probes)"
    )?;
    writeln!(out, "{:>3} {:>2} | {:^14} | {:^14} | {:^14}", "X", "c", "by deadline", "WIC", "last moment")?;
    let step = Span::from_mins(5);
    for every in [1, 5] {
        let setting = Setting { every, window: Span::from_mins(30), confidence };
        let intervals: Vec<(SourceId, Interval)> = weekly
            .iter()
            .flat_map(|source| setting.wanted(source).into_iter().map(|from| (source.number, from)))
            .map(|(number, from)| {
                (SourceId(number as i64), Interval { rule: RuleId(0), from, until: from + setting.window })
            })
            .collect();
        for c in [1, 2, 4] {
            let all = [earliest_deadline, wic, last_moment].map(|rule| {
                let schedule = rule(&intervals, step, c);
                let share = schedule.satisfied as f64 / intervals.len() as f64;
                format!("{share:.3} ({:>6})", schedule.probes.len())
            });
            writeln!(out, "{every:>3} {c:>2} | {}", all.join(" | "))?;
        }
    }
    Ok(())
}
