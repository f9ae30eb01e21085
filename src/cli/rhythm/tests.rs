//! Output of the rhythm as text, JSON and SVG.

use jiff::tz::TimeZone;
use quick_xml::Reader;
use quick_xml::events::Event;
use serde_json::json;

use super::document::to_json;
use super::grid::{self, NextHours};
use super::known::StoredRhythm;
use super::show::show;
use super::svg::to_svg;
use super::{stretches, words};
use tidewatch_core::model::cyclic::{DAY_S, Rate};
use tidewatch_core::model::habits::named::PredictorShare;
use tidewatch_core::time::Timestamp;

const NOW: &str = "2026-06-16T09:20:00Z";

fn at(text: &str) -> Timestamp {
    Timestamp::parse_iso(text).unwrap()
}

fn office() -> StoredRhythm {
    let day = |start: u32, office: f64| {
        [(9, 0.02), (12, office), (13, office * 0.4), (17, office), (19, office * 0.2), (24, 0.02)]
            .map(|(hour, rate)| (start + hour * 3600, rate))
    };
    let segments = day(0, 1.02).into_iter().chain([(2 * DAY_S, 0.02)]);
    let zone = TimeZone::get("Europe/London").unwrap();
    StoredRhythm {
        name: "office-news".into(),
        rate: Rate::of_days(zone, [0, 0, 0, 0, 0, 1, 1], segments).unwrap(),
        origin: "individual".into(),
        cycle: "work week".into(),
        updates: 347,
        since: Some(at("2026-04-20T08:00:00Z")),
        fitted_at: at("2026-06-16T07:05:00Z"),
        dispersion: Some(1.13),
        habits: None,
    }
}

fn shown(rhythm: &StoredRhythm, colours: bool) -> String {
    let mut out = Vec::new();
    show(rhythm, at(NOW), colours, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn office_hours_are_drawn_at_a_terminal() {
    insta::assert_snapshot!(shown(&office(), false), @"
    office-news  42.1 updates a week, hours in Europe/London

          00    03    06    09    12    15    18    21
    Mon  │                  ██████▓▓████████▒▒▒▒          │
    Tue >│                  ██████▓▓████████▒▒▒▒          │
    Wed  │                  ██████▓▓████████▒▒▒▒          │
    Thu  │                  ██████▓▓████████▒▒▒▒          │
    Fri  │                  ██████▓▓████████▒▒▒▒          │
    Sat  │                                                │
    Sun  │                                                │
                              ^^ now
    an hour:  [  ] under 0.041  [░░] 0.041+  [▒▒] 0.16+  [▓▓] 0.37+  [██] 0.65+

    Mon-Fri  09:00-12:00   1.02 an hour  (3.1 a day)
    Mon-Fri  12:00-13:00   0.41 an hour  (0.41 a day)
    Mon-Fri  13:00-17:00   1.02 an hour  (4.1 a day)
    Mon-Fri  17:00-19:00   0.20 an hour  (0.41 a day)
    otherwise             0.020 an hour  (2.4 a week)

    evidence    347 updates in 8 weeks, since 2026-04-20
    fitted      2h15m ago, from its own history: working days alike, weekends alike
    temper      keeps its rhythm (dispersion 1.1)
    next 24h    8.2 expected, most likely Tue 13:00-17:00
         │████▃▃████████▂▂▂▂▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁██│
          10    13    16    19    22    01    04    07
    ");
}

#[test]
fn colours_mark_the_current_hour_and_are_always_reset() {
    let text = shown(&office(), true);
    assert_eq!(text.matches("[]").count(), 1);
    assert_eq!(text.matches("\x1b[48").count(), text.matches("\x1b[0m").count());
    // Only the map and the legend are coloured.
    assert_eq!(text.lines().filter(|line| line.contains('\x1b')).count(), 8);
}

#[test]
fn without_updates_there_is_one_sentence() {
    let mut rhythm = StoredRhythm { updates: 0, rate: Rate::constant(0.0), ..office() };
    assert_eq!(shown(&rhythm, false), "office-news: no updates seen yet, so no rhythm to show.\n");
    rhythm.rate = Rate::constant(0.25);
    assert!(shown(&rhythm, false).contains("until then 42.0 a week are assumed"));
    assert_eq!(shown(&rhythm, false).lines().count(), 1);
    assert_eq!(cells_of(&to_svg(&rhythm, at(NOW))), 168);
}

#[test]
fn hours_and_segments_in_json_sum_to_the_week() {
    let rhythm = office();
    let value = to_json(&rhythm, at(NOW));
    let per_week = value["per_week"].as_f64().unwrap();
    let hours: Vec<f64> = value["hours"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|day| day.as_array().unwrap().iter().map(|hour| hour.as_f64().unwrap()))
        .collect();
    assert_eq!(hours.len(), 168);
    assert!((hours.iter().sum::<f64>() - per_week).abs() < 1e-9);
    let segments: f64 = value["segments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| {
            let length = s["ends_s"].as_f64().unwrap() - s["starts_s"].as_f64().unwrap();
            length / 3600.0 * s["per_hour"].as_f64().unwrap()
        })
        .sum();
    assert!((segments - per_week).abs() < 1e-9);
    // Tuesday and Wednesday are equal, so whole clock hours have the same sum as the next 24 hours.
    let ahead = value["next_24h"]["by_hour"].as_array().unwrap();
    let sum: f64 = ahead.iter().map(|hour| hour.as_f64().unwrap()).sum();
    assert_eq!(ahead.len(), 24);
    assert!((sum - value["next_24h"]["expected"].as_f64().unwrap()).abs() < 1e-9);
    assert_eq!(value["time_zone"], "Europe/London");
    assert_eq!(value["since"], "2026-04-20T08:00:00.000Z");
}

#[test]
fn hours_across_segments_are_integrals() {
    let rate = Rate::of_days(TimeZone::UTC, [0; 7], [(9 * 3600 + 900, 0.0), (DAY_S, 2.0)]).unwrap();
    let hours = grid::hours(&rate);
    assert_eq!((hours[3][8], hours[3][9], hours[3][10]), (0.0, 1.5, 2.0));
}

/// Parses the picture as XML, and counts the cells of the map.
fn cells_of(svg: &str) -> usize {
    let mut reader = Reader::from_str(svg);
    let (mut cells, mut depth) = (0, 0);
    loop {
        match reader.read_event().unwrap() {
            Event::Start(tag) => {
                depth += 1;
                let class = tag.attributes().map(Result::unwrap).find(|a| a.key.as_ref() == "class");
                cells += usize::from(class.is_some_and(|class| class.value.as_ref() == "cell"));
            }
            Event::End(_) => depth -= 1,
            Event::Text(text) => assert!(!text.is_empty()),
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(depth, 0);
    cells
}

#[test]
fn the_picture_is_well_formed() {
    let svg = to_svg(&office(), at(NOW));
    assert_eq!(cells_of(&svg), 168);
    assert!(svg.contains("<title>Tue 10:00–11:00: 1.02 an hour (now)</title>"));
    assert!(!svg.contains("<script") && !svg.contains("href"));
}

#[test]
fn hostile_names_are_escaped() {
    let rhythm =
        StoredRhythm { name: "</title><script>x('\"&')</script>\u{1b}[2J\u{0}\n]]>".into(), ..office() };
    let svg = to_svg(&rhythm, at(NOW));
    assert_eq!(cells_of(&svg), 168);
    assert!(!svg.contains("<script") && !svg.contains('\u{1b}') && !svg.contains('\u{0}'));
    assert!(!shown(&rhythm, false).contains('\u{1b}'));
    assert_eq!(to_json(&rhythm, at(NOW))["source"], rhythm.name.as_str());
}

#[test]
fn the_next_24_hours_follow_a_clock_change() {
    let zone = TimeZone::get("Europe/London").unwrap();
    let at_nine = [(9 * 3600, 0.0), (10 * 3600, 1.0), (DAY_S, 0.0)];
    let rate = Rate::of_days(zone.clone(), [0; 7], at_nine).unwrap();
    // Clocks go back in the night to 2026-10-25, so nine o'clock is one hour later.
    let (change, before) = (at("2026-10-24T20:30:00Z"), at("2026-10-17T20:30:00Z"));
    assert_eq!(NextHours::of(&rate, change).likeliest(), Some((13, 13)));
    assert_eq!(NextHours::of(&rate, before).likeliest(), Some((12, 12)));
    let text = words::ahead(&NextHours::of(&rate, change), &zone);
    assert_eq!(text, "1.0 expected, most likely Sun 09:00-10:00");
}

#[test]
fn no_hour_is_named_if_all_are_equal() {
    let text = shown(&StoredRhythm { rate: Rate::constant(0.5), cycle: "none".into(), ..office() }, false);
    assert!(text.contains("12.0 expected, no hour likelier than another"), "{text}");
    assert!(text.contains("always   0.50 an hour"), "{text}");
}

#[test]
fn predictors_are_shown_if_there_are_any() {
    let one = |name, share| PredictorShare { name, share };
    let habits = Some(vec![one("minute of the hour", 0.524), one("weekly rhythm", 0.28)]);
    let rhythm = StoredRhythm { habits, ..office() };
    let text = shown(&rhythm, false);
    assert!(text.contains("\nhabits      minute of the hour 52 %, weekly rhythm 28 %\n"), "{text}");
    let entries = &to_json(&rhythm, at(NOW))["habits"];
    assert_eq!(entries[1], json!({ "account": "weekly rhythm", "share": 0.28 }));
    assert!(!shown(&office(), false).contains("habits"));
    assert!(to_json(&office(), at(NOW))["habits"].is_null());
}

#[test]
fn dispersion_is_described_in_words() {
    let described = [0.3, 0.7, 1.5, 4.0].map(words::regularity);
    assert_eq!(described, ["runs by the clock", "keeps its rhythm", "comes in flurries", "erratic"]);
}

#[test]
fn hours_beside_busy_ones_are_not_listed() {
    let busy = |cell: usize| cell / 24 < 5 && (9..17).contains(&(cell % 24));
    let cells: Vec<f64> = (0..168).map(|cell| if busy(cell) { 1.0 } else { 0.01 }).collect();
    let rate = tidewatch_core::model::fit::to_rate(&cells, &TimeZone::UTC);
    assert_eq!(
        stretches::lines(&rate),
        [
            "Mon-Fri  09:00-17:00   0.94 an hour  (7.5 a day)",
            "otherwise             0.029 an hour  (3.7 a week)",
        ]
    );
    let text = words::ahead(&NextHours::of(&rate, at(NOW)), rate.zone());
    assert!(text.ends_with("most likely Tue 09:00-17:00"), "{text}");
}
