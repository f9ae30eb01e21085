//! Output of `calibrate` as text, JSON and SVG.

use quick_xml::Reader;
use quick_xml::events::Event;

use super::document::document;
use super::show::{NOTHING, show};
use super::svg::to_svg;
use super::verdicts::{StatedPeriod, grouped, summary, updates, verdict};
use crate::store::predictions::{PeriodPredictions, PredictionSums};
use tidewatch_core::time::{Span, Timestamp};

fn sums(probes: u64, expected: f64, found: u64) -> PredictionSums {
    PredictionSums {
        probes,
        expected,
        variance: 1.3 * expected,
        found,
        alarms_stated: 0.001 * found as f64,
        ..PredictionSums::default()
    }
}

fn period() -> StatedPeriod {
    let until = Timestamp::parse_iso("2026-11-18T12:00:00Z").unwrap();
    let day = |days: i64| Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap() + Span::from_days(days);
    let days =
        vec![(day(0), sums(60, 52.0, 45)), (day(1), sums(60, 52.0, 154)), (day(2), sums(30, 30.4, 31))];
    let sources =
        vec![("<lwn>".to_owned(), sums(90, 104.0, 212)), ("quiet \u{1b}".to_owned(), sums(60, 30.4, 18))];
    let total = PredictionSums {
        bursts: 4,
        quiet: 1,
        quiet_ended: 1,
        overflow: 0.7,
        overflowed: 1,
        rule_updates: 40,
        rule_confidence: 36.0,
        rule_in_time: 35,
        ..sums(150, 134.4, 230)
    };
    StatedPeriod {
        source: None,
        span: Span::from_days(28),
        until,
        predictions: PeriodPredictions { days, sources, total },
    }
}

fn shown(period: &StatedPeriod) -> String {
    let mut out = Vec::new();
    show(period, false, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_period_is_shown_at_a_terminal() {
    let text = shown(&period());
    let head = "all sources: 150 forecasts since 2026-10-21\n\n\
                updates: does not fit: found 230, expected 134 (probability under 0.0001)\n\n";
    assert!(text.starts_with(head), "{text}");
    let lines: Vec<String> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in [
        "rare event cases stated at most found verdict",
        "burst called 230 updates 0.23 4 does not fit",
        "called quiet, then updated 230 updates 0.23 1 fits",
        "feed overflowed 150 probes 0.70 1 fits",
        "found too late for a rule 40 updates 4.00 5 fits",
        "2026-11-17 52.0 154 ██████████████│█████████████████████████",
        "by source: 1 of 2 fit; a right forecast fails one time in a hundred",
        "<lwn> 90 104 212 2.04 does not fit",
        "quiet 60 30.4 18 0.59 fits",
    ] {
        assert!(lines.iter().any(|shown| shown == line), "{line}\n{text}");
    }
}

#[test]
fn a_named_source_has_no_table_of_sources() {
    let text = shown(&StatedPeriod { source: Some("lwn".into()), ..period() });
    assert!(text.starts_with("lwn: 150 forecasts since 2026-10-21\n"), "{text}");
    assert!(!text.contains("by source"), "{text}");
}

#[test]
fn without_forecasts_there_is_one_sentence() {
    let nothing = StatedPeriod { predictions: PeriodPredictions::default(), ..period() };
    assert_eq!(shown(&nothing), format!("{NOTHING}\n"));
    assert!(to_svg(&nothing).contains("nothing to compare yet"));
    assert_eq!(summary(&nothing.predictions.total, nothing.span), None);
}

#[test]
fn a_rate_that_is_off_by_two_does_not_fit() {
    let right = updates(&sums(100, 104.0, 98));
    assert_eq!(verdict(&right), "fits");
    let wrong = updates(&sums(100, 104.0, 212));
    assert_eq!(verdict(&wrong), "does not fit: found 212, expected 104 (probability under 0.0001)");
    let line = summary(&sums(5000, 1204.4, 1187), Span::from_days(28)).unwrap();
    assert_eq!(line, "calibration: 1,204 updates expected, 1,187 found in the last 28d; fits");
    let line = summary(&sums(5000, 1204.4, 2387), Span::from_days(28)).unwrap();
    assert!(
        line.ends_with("2,387 found in the last 28d; does not fit: see `tidewatch calibrate`"),
        "{line}"
    );
}

#[test]
fn numbers_are_grouped() {
    assert_eq!(
        [0.0, 7.0, 8.25, 999.6, 12_345_678.0].map(grouped),
        ["0", "7", "8.2", "1,000", "12,345,678"]
    );
}

#[test]
fn the_document_has_verdicts_by_source() {
    let period = period();
    let value = serde_json::to_value(document(&period)).unwrap();
    assert_eq!(value["since"], "2026-10-21T00:00:00.000Z");
    assert_eq!((&value["total"]["found"], &value["total"]["fits"]), (&230.into(), &false.into()));
    assert_eq!(value["days"][1]["day"], "2026-11-17");
    assert_eq!(value["sources"][0]["source"], "<lwn>");
    assert_eq!(value["sources"][0]["fits"], false);
    assert_eq!(value["sources"][1]["fits"], true);
    let events = value["total"]["rare_events"].as_array().unwrap();
    let fits: Vec<bool> = events.iter().map(|event| event["fits"].as_bool().unwrap()).collect();
    assert_eq!(fits, [false, true, true, true]);
    assert_eq!(events[3]["found"], 5);
}

#[test]
fn the_picture_is_well_formed_and_names_are_escaped() {
    let svg = to_svg(&period());
    let mut reader = Reader::from_str(&svg);
    let (mut circles, mut depth) = (0, 0);
    loop {
        match reader.read_event().unwrap() {
            Event::Start(tag) => {
                depth += 1;
                circles += usize::from(tag.name().as_ref() == "circle");
            }
            Event::End(_) => depth -= 1,
            Event::Eof => break,
            _ => {}
        }
    }
    // Those of sources have hints; those of days have none.
    assert_eq!((circles, depth), (2, 0));
    assert!(svg.contains("&lt;lwn&gt;: 104 expected, 212 found") && !svg.contains('\u{1b}'), "{svg}");
}
