//! Contests as one self-contained HTML page: no scripts, no network, light or dark by the reader's setting.
//!
//! It defines the order of what is shown. Must not compute results, nor know where it is written.

use std::ffi::OsString;
use std::fmt::{Result, Write};

use crate::draw::chart::{Frame, Scale, bar, plain};
use crate::draw::colour::ink;
use crate::draw::svg::{Picture, Shape, escaped, tenth};
use crate::tables::{Emphasis, ResultTable};
use crate::words::cut;

use super::curve::{self, WIDTH};
use super::question::ContestQuestion;
use super::results::Results;
use super::tables::{BY_RULE, by_kind, contest_rules, extremes, kinds, policies, spent, summary};

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1f2328;--soft:#59636e;--grid:#d1d9e0;--page:#ffffff;--good:#1a7f37;\
--bad:#c62828;--warn:#9a6700}\
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9aa4af;--grid:#2b3440;--page:#10151c;\
--good:#3fb950;--bad:#ff7b72;--warn:#d29922}}\
body{background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,\
'DejaVu Sans',sans-serif;max-width:1000px;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.2rem}p,figcaption{color:var(--soft)}\
figure{margin:0}svg{width:100%;height:auto}svg text{fill:var(--ink);font-size:13px}\
svg .soft{fill:var(--soft)}.grid{stroke:var(--grid)}.one{stroke:var(--ink)}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9rem}\
th,td{padding:.25rem .7rem .25rem 0;text-align:right;border-bottom:1px solid var(--grid);white-space:nowrap}\
th:first-child,td:first-child{text-align:left}.good{color:var(--good)}.bad{color:var(--bad)}\
.warn{color:var(--warn)}.faint{color:var(--soft)}\
pre{white-space:pre-wrap;overflow-wrap:anywhere;border:1px solid var(--grid);padding:.7rem}";

/// Layout of the bars of kinds.
const LEFT: f64 = 170.0;
const TOP: f64 = 10.0;
const BAR: f64 = 10.0;
const BETWEEN: f64 = 12.0;
/// The distance between the lines of the legend.
const KEY: f64 = 20.0;
const KEYS_A_LINE: usize = 6;
/// Ratios below this, and above its reciprocal, are cut off.
const LEAST: f64 = 0.05;

/// The page: tables of `shown`, a curve of `all`. `line` is the command line after the program's name.
pub fn to_html(
    question: &ContestQuestion,
    shown: &[Results],
    all: &[&Results],
    line: &[OsString],
) -> String {
    let mut page = String::new();
    // Writing to a string does not fail.
    let _ = write(question, shown, all, line, &mut page);
    page
}

fn write(
    question: &ContestQuestion,
    shown: &[Results],
    all: &[&Results],
    line: &[OsString],
    page: &mut String,
) -> Result {
    let title = escaped(&question.title);
    writeln!(
        page,
        r#"<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Policies on {title}</title>
<style>{STYLE}</style></head><body>
<h1>Policies on {title}</h1>
<p>{}</p>"#,
        escaped(&summary(question))
    )?;
    trade_off(all, page)?;
    if let Some(first) = shown.first() {
        writeln!(
            page,
            "<h2>By kind of source</h2><p>{}; {}. Bars to the left of 1 are sooner; they end at {} and {}.</p>",
            escaped(&spent(question, first)),
            escaped(&by_kind(first)),
            plain(LEAST),
            plain(LEAST.recip())
        )?;
        bars(first, page)?;
        table(&kinds(first), page)?;
        for (title, rows) in first.extremes.iter().flat_map(extremes) {
            writeln!(page, "<h2>{}</h2>", escaped(&capital(&title)))?;
            table(&rows, page)?;
        }
    }
    for results in shown {
        writeln!(page, "<h2>{}</h2>", escaped(&capital(&spent(question, results))))?;
        table(&policies(results), page)?;
        if question.rules.profiles.is_some() {
            writeln!(page, "<h3>{}</h3>", escaped(&capital(BY_RULE)))?;
            table(&contest_rules(results), page)?;
        }
    }
    let typed: Vec<String> = line.iter().map(|word| quoted(&word.to_string_lossy())).collect();
    writeln!(
        page,
        "<h2>How this was made</h2><pre>tidewatch {}</pre>\n</body></html>",
        escaped(&typed.join(" "))
    )
}

fn trade_off(all: &[&Results], page: &mut String) -> Result {
    let label = "Mean delay against probes per source and week, by policy";
    let mut picture = Picture::figure(WIDTH, (curve::TOP, curve::HEIGHT), label);
    curve::draw(all, &mut picture);
    writeln!(
        page,
        "<h2>What probes buy</h2>\n<figure>{}<figcaption>Lower and further left is better.</figcaption></figure>",
        picture.finish()
    )
}

/// For each kind a bar per policy, from 1 to its ratio.
fn bars(results: &Results, page: &mut String) -> Result {
    let ratios = results.kinds.iter().flat_map(|kind| &kind.shares).filter_map(|share| share.ratio);
    // At least from half to twice, so that small differences stay small; bounded, so that one large ratio
    // does not hide the others.
    let within = ratios.map(|ratio| ratio.clamp(LEAST, LEAST.recip()));
    let Some(scale) = Scale::around(within.chain([0.5, 2.0])) else { return Ok(()) };
    let policies = results.policies.len();
    let step = policies as f64 * BAR + BETWEEN;
    let plot = Frame {
        left: LEFT,
        top: TOP,
        width: WIDTH as f64 - LEFT - 20.0,
        height: step * results.kinds.len() as f64,
    };
    let below = plot.bottom() + 44.0;
    let label = "Ratio of mean delays to the baseline, by kind and policy";
    let mut picture = Picture::figure(WIDTH, (0, below as usize + keys_height(policies)), label);
    plot.upright(&scale, &scale.round(), plain, &mut picture);
    let one = plot.x(scale.share(1.0));
    picture.add(&Shape::line((tenth(one), TOP), (tenth(one), plot.bottom())).class("one"));
    for (place, kind) in results.kinds.iter().enumerate() {
        let top = TOP + place as f64 * step + BETWEEN / 2.0;
        let name = cut(&kind.name, 22);
        let middle = top + policies as f64 * BAR / 2.0 + 4.0;
        picture.add(&Shape::text(LEFT - 10.0, tenth(middle), &name).anchor("end"));
        for (index, share) in kind.shares.iter().enumerate() {
            let Some(ratio) = share.ratio else { continue };
            let word = format!("{name}, {}: {ratio:.3}", share.policy.name());
            let reach = (one, plot.x(scale.share(ratio.clamp(LEAST, LEAST.recip()))));
            bar(index, reach, (top + index as f64 * BAR, BAR - 2.0), &word, &mut picture);
        }
    }
    let names: Vec<&str> = results.policies.iter().map(|result| result.policy.name()).collect();
    keys(&names, below, &mut picture);
    writeln!(page, "<figure>{}</figure>", picture.finish())
}

/// The height of a legend for `policies` policies.
fn keys_height(policies: usize) -> usize {
    policies.div_ceil(KEYS_A_LINE) * KEY as usize
}

/// The legend.
fn keys(names: &[&str], top: f64, picture: &mut Picture) {
    let step = (WIDTH - 40) as f64 / KEYS_A_LINE as f64;
    for (index, name) in names.iter().enumerate() {
        let x = 20.0 + (index % KEYS_A_LINE) as f64 * step;
        picture.key(x, top + (index / KEYS_A_LINE) as f64 * KEY, ink(index), name);
    }
}

fn table(table: &ResultTable, page: &mut String) -> Result {
    write!(page, r#"<div class="wide"><table><thead><tr>"#)?;
    for head in &table.heads {
        write!(page, "<th>{}</th>", escaped(head))?;
    }
    write!(page, "</tr></thead><tbody>")?;
    for row in &table.rows {
        write!(page, "<tr>")?;
        for entry in row {
            let class = match entry.emphasis {
                Emphasis::Plain | Emphasis::Strong => "",
                Emphasis::Faint => r#" class="faint""#,
                Emphasis::Good => r#" class="good""#,
                Emphasis::Warn => r#" class="warn""#,
                Emphasis::Bad => r#" class="bad""#,
            };
            write!(page, "<td{class}>{}</td>", escaped(&entry.text))?;
        }
        write!(page, "</tr>")?;
    }
    writeln!(page, "</tbody></table></div>")
}

fn capital(text: &str) -> String {
    let mut signs = text.chars();
    signs.next().map_or_else(String::new, |first| first.to_uppercase().chain(signs).collect())
}

/// A word quoted for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:=+@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use quick_xml::events::Event;

    use super::super::results::tests::{question, results};
    use super::*;

    /// Checks that the text is well-formed XML and that names are escaped.
    fn check(text: &str) {
        let mut reader = quick_xml::Reader::from_str(text);
        loop {
            match reader.read_event() {
                Ok(Event::Eof) => break,
                Ok(_) => {}
                Err(error) => panic!("{error} at {}", reader.error_position()),
            }
        }
        assert!(!text.contains("a<b>") && !text.contains("NaN") && !text.contains("inf\""), "{text}");
    }

    #[test]
    fn pages_and_pictures_are_well_formed() {
        let (traces, few) = results(&[("auto", 600), ("uniform", 3600), ("oracle", 1)]);
        let (_, more) = results(&[("auto", 300), ("uniform", 1800), ("oracle", 1)]);
        let question = question(traces);
        let line = ["simulate", "traces", "--traces", "it's <here>"].map(OsString::from);
        let curves = curve::to_svg(&question, &[&few, &more]);
        let page = to_html(&question, &[few], &[&more], &line);
        // Void elements of HTML, which XML requires to be closed.
        check(
            &page
                .replace(r#"charset="utf-8">"#, r#"charset="utf-8"/>"#)
                .replace(r#"device-width">"#, r#"device-width"/>"#),
        );
        assert!(page.contains("a&lt;b&gt;") && page.contains("simulate traces --traces"), "{page}");
        assert!(!page.contains("http") && !page.contains("<script"), "{page}");
        // A line for each that has results, and its name; ours in colour.
        let counts = |svg: &str, what: &str| svg.matches(what).count();
        assert_eq!((counts(&curves, "<polyline"), counts(&curves, "<circle")), (2, 4), "{curves}");
        assert!(curves.contains(r#"style="fill:#e8590c;font-weight:600">auto</text>"#), "{curves}");
        assert!(curves.contains(">uniform</text>") && counts(&curves, "#868e96") == 4, "{curves}");
        // A point each with a single budget.
        let points = curve::to_svg(&question, &[&more]);
        assert_eq!((counts(&points, "<polyline"), counts(&points, "<circle")), (0, 2), "{points}");
        assert!(points.contains(">auto</text>") && points.contains(">uniform</text>"), "{points}");
        for svg in [curves, points] {
            check(&svg);
            assert_eq!(counts(&svg, "http"), 1);
        }
    }

    #[test]
    fn empty_results_give_a_complete_page() {
        let (traces, empty) = results(&[]);
        let page = to_html(&question(traces), &[empty], &[], &[]);
        assert!(page.contains("nothing to draw") && page.ends_with("</body></html>\n"), "{page}");
    }

    #[test]
    fn words_are_quoted_for_shells() {
        assert_eq!(
            ["--a=b/c,d", "", "x y", "it's"].map(quoted),
            ["--a=b/c,d", "''", "'x y'", r"'it'\''s'"]
        );
    }
}
