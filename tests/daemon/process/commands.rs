//! The commands: their output and their exit codes.

use std::io::Read;
use std::process::{Output, Stdio};

use super::daemon::{BRISK, Home};
use crate::waiting::soon;
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::{LoopbackServer, Reply};
use tidewatch_fixtures::source_list::source_with_budget;

/// First contacts spread over hours.
const DAILY: &str = "probes = 1, per = \"1d\", min_spacing = \"1d\"";

fn text(output: &Output) -> (Option<i32>, String, String) {
    let read = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), read(&output.stdout), read(&output.stderr))
}

#[tokio::test]
async fn check_reports_fine_or_the_faults() {
    let home = Home::new();
    home.write(&["[[source]]\nname = \"a\"\nurl = \"https://example.org/\"\n".to_owned()]);
    let (code, out, err) = text(&home.run(&["check"]).await);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("fine: 1 source"), "{out}");
    std::fs::write(home.config(), "[budget]\nprobes = 0\n").unwrap();
    let (code, out, _) = text(&home.run(&["check"]).await);
    assert_eq!(code, Some(1));
    assert!(out.contains(&format!("{}:2:10: ", home.config().display())), "{out}");
    for command in [&["run"][..], &["status"], &["explain", "a"], &["probe", "a"], &["export"]] {
        let (code, out, err) = text(&home.run(command).await);
        assert_eq!((code, out.as_str()), (Some(78), ""), "{command:?}");
        assert!(err.contains(":2:10: "), "{command:?}: {err}");
    }
    let (code, _, err) = text(&home.run(&["no-such-command"]).await);
    assert_eq!(code, Some(2), "{err}");
}

#[tokio::test]
async fn commands_work_beside_a_running_daemon_and_without_one() {
    let web = LoopbackServer::start(|seen| {
        Reply::ok(rss((0..=seen.order).map(|n| n.to_string())))
            .header("ETag", format!("W/\"{}\"", seen.order))
    })
    .await;
    let home = Home::new();
    // `lazy` has two probes an hour: one by the daemon and one by hand.
    let lazy = "probes = 2, per = \"1h\", min_spacing = \"0s\"";
    home.write(&[
        source_with_budget("brisk", &web.url("/brisk"), BRISK),
        source_with_budget("lazy", &web.url("/lazy"), lazy),
    ]);
    let (code, _, err) = text(&home.run(&["status"]).await);
    assert_eq!(code, Some(69), "{err}");
    assert!(err.contains("no store yet"), "{err}");
    let mut daemon = home.start();
    let each = "SELECT min(n) FROM (SELECT count(p.id) AS n FROM sources s LEFT JOIN probes p ON p.source_id = s.id GROUP BY s.id)";
    home.until(each, |n| n >= 1).await;

    let (code, out, err) = text(&home.run(&["status"]).await);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.lines().next().unwrap().contains("next probe"), "{out}");
    assert!(out.lines().any(|line| line.starts_with("brisk")), "{out}");

    let copy = home.config().with_file_name("copy.db");
    let (code, out, err) = text(&home.run(&["backup", copy.to_str().unwrap()]).await);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains("copy.db: ") && out.contains(" with 2 sources, "), "{out}");
    let (code, _, err) = text(&home.run(&["backup", copy.to_str().unwrap()]).await);
    assert_eq!(code, Some(1));
    assert!(err.contains("copy.db exists; name a file that does not"), "{err}");

    let (code, out, _) = text(&home.run(&["status", "--json"]).await);
    assert_eq!(code, Some(0));
    let status: serde_json::Value = serde_json::from_str(&out).unwrap();
    let names: Vec<&str> =
        status["sources"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["brisk", "lazy"]);
    assert!(status["sources"][0]["probes"].as_i64().unwrap() >= 1);
    assert!(status["sources"][1]["next_probe_at"].is_string());

    let (code, out, err) = text(&home.run(&["explain", "brisk"]).await);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("min_spacing") && out.contains("<- decides"), "{out}");
    let (code, _, err) = text(&home.run(&["explain", "brsk"]).await);
    assert_eq!(code, Some(1));
    assert!(err.contains("did you mean `brisk`?"), "{err}");

    let before = web.requests().iter().filter(|seen| seen.path == "/lazy").count();
    let (code, out, err) = text(&home.run(&["probe", "lazy", "--dry-run"]).await);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains(&format!("GET {}", web.url("/lazy"))), "{out}");
    assert!(out.contains("user-agent: tidewatch/") && out.contains("(+https://example.org/me)"), "{out}");
    let now = web.requests().iter().filter(|seen| seen.path == "/lazy").count();
    assert_eq!(now, before, "a dry run sends nothing");

    let (code, out, err) = text(&home.run(&["probe", "lazy"]).await);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("(HTTP 200)") && out.contains("by the running daemon"), "{out}");
    let (code, _, err) = text(&home.run(&["probe", "lazy"]).await);
    assert_eq!(code, Some(1));
    assert!(err.contains("not now: ") && err.contains("forbids it until"), "{err}");
    daemon.stop().await;
    // Without the daemon the stored probes count, too.
    let (code, _, err) = text(&home.run(&["probe", "lazy"]).await);
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("not now: "), "{err}");
    assert_eq!(web.requests().iter().filter(|seen| seen.path == "/lazy").count(), 2);
    let (_, out, _) = text(&home.run(&["probe", "lazy", "--dry-run"]).await);
    assert!(out.contains("the gate forbids it until") && out.contains("if-none-match: W/\""), "{out}");
}

#[tokio::test]
async fn a_probe_by_hand_is_conditional_and_counts() {
    let web = LoopbackServer::start(|seen| match seen.order {
        0 => Reply::ok(rss(["a"])).header("ETag", "W/\"1\""),
        _ => Reply::new(304),
    })
    .await;
    let home = Home::new();
    home.write(&[source_with_budget(
        "s",
        &web.url("/feed"),
        "probes = 2, per = \"1h\", min_spacing = \"0s\"",
    )]);
    let (code, out, err) = text(&home.run(&["probe", "s"]).await);
    assert_eq!(
        (code, out.as_str()),
        (Some(0), format!("unchanged (HTTP 200): 0 updates, {} bytes\n", rss(["a"]).len()).as_str()),
        "{err}"
    );
    let (code, out, err) = text(&home.run(&["probe", "s"]).await);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("not_modified (HTTP 304)"), "{out}");
    assert_eq!(web.requests()[1].text("if-none-match").as_deref(), Some("W/\"1\""));
    let (code, _, err) = text(&home.run(&["probe", "s"]).await);
    assert_eq!(code, Some(1));
    assert!(err.contains("budget forbids it until"), "{err}");
    assert_eq!(web.requests().len(), 2);
}

#[tokio::test]
async fn status_over_a_period_reports_how_probes_were_spent() {
    let web = LoopbackServer::start(|seen| match seen.order {
        0 => Reply::ok(rss(["a"])).header("ETag", "\"1\""),
        1 => Reply::new(304),
        2 => Reply::ok(rss(["a", "b", "c"])),
        _ => Reply::new(500),
    })
    .await;
    let home = Home::new();
    home.write(&[
        source_with_budget("unasked", &web.url("/other"), DAILY),
        source_with_budget("busy", &web.url("/feed"), "probes = 4, per = \"1h\", min_spacing = \"0s\""),
    ]);
    for ends in [0, 0, 0, 1] {
        let (code, out, err) = text(&home.run(&["probe", "busy"]).await);
        assert_eq!(code, Some(ends), "{out}{err}");
    }

    let (code, out, err) = text(&home.run(&["status", "--period", "1h30m"]).await);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let lines: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(out.starts_with("the last 1h30m, since 2"), "{out}");
    assert_eq!(lines[1][..7], ["source", "policy", "validations", "useful", "misses", "failed", "updates"]);
    assert_eq!(lines[2][..9], ["busy", "auto", "3", "1", "(33", "%)", "2", "1", "2"], "{out}");
    assert_eq!(lines[2].len(), 11, "with both delays: {out}");
    assert_eq!(lines[3], ["unasked", "auto", "0", "0", "0", "0", "0"], "{out}");
    assert_eq!(lines[4][..8], ["total", "3", "1", "(33", "%)", "2", "1", "2"], "{out}");
    assert_eq!(lines.len(), 5, "{out}");

    let json = async |arguments: &[&str]| -> serde_json::Value {
        let (code, out, err) = text(&home.run(arguments).await);
        assert_eq!((code, err.as_str()), (Some(0), ""));
        serde_json::from_str(&out).unwrap()
    };
    let status = json(&["status", "--period", "1d", "--json"]).await;
    let at =
        |value: &serde_json::Value| tidewatch_core::time::Timestamp::parse_iso(value.as_str().unwrap());
    let (since, until) = (at(&status["period"]["since"]).unwrap(), at(&status["period"]["until"]).unwrap());
    assert_eq!(until - since, tidewatch_core::time::Span::from_days(1));
    let [busy, unasked] = &status["sources"].as_array().unwrap()[..] else { panic!("{status:#}") };
    let measures = &busy["measures"];
    let counts = ["validations", "useful_validations", "freshness_misses", "failed", "updates"];
    assert_eq!(counts.map(|name| measures[name].as_i64().unwrap()), [3, 1, 2, 1, 2], "{status:#}");
    assert_eq!(measures["average_delay_s"], measures["median_delay_s"], "both were found at once");
    assert!(measures["average_delay_s"].as_f64().unwrap() > 0.0, "{status:#}");
    assert_eq!(&status["totals"], measures);
    assert_eq!(unasked["measures"]["validations"], 0);
    assert!(unasked["measures"]["average_delay_s"].is_null(), "{status:#}");
    assert_eq!((&busy["name"], &busy["probes"]), (&"busy".into(), &4.into()), "the rest is there as well");

    let plain = json(&["status", "--json"]).await;
    assert!(plain.get("period").is_none() && plain.get("totals").is_none(), "{plain:#}");
    assert!(plain["sources"][0].get("measures").is_none(), "{plain:#}");

    for (bad, why) in
        [("7", "has no unit"), ("7 moons", "unknown unit `moons`"), ("0s", "no length"), ("", "empty")]
    {
        let (code, out, err) = text(&home.run(&["status", "--period", bad]).await);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{bad:?}");
        assert!(err.contains("--period") && err.contains(why), "{bad:?}: {err}");
    }
}

#[tokio::test]
async fn a_closed_pipe_is_no_error() {
    let web = LoopbackServer::start(|_| Reply::ok(rss(["a"]))).await;
    let home = Home::new();
    // More than a pipe holds.
    let many: Vec<String> = (0..3000)
        .map(|n| source_with_budget(&format!("source {n}"), &web.url(&format!("/{n}")), DAILY))
        .collect();
    home.write(&many);
    let mut daemon = home.start();
    home.until("SELECT count(next_probe_at) FROM sources", |n| n == 3000).await;
    for arguments in [&["status"][..], &["status", "--json"], &["export"]] {
        let mut child =
            home.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        // The pipe is closed now, before all output is written.
        let ended = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
        let (code, _, err) = text(&soon("it ends", ended).await.unwrap());
        assert_eq!((code, err.as_str()), (Some(0), ""), "{arguments:?}");
    }
    daemon.stop().await;
    // Faults too, and an import.
    std::fs::write(home.config(), "[[source]]\nname = \"\"\n".repeat(5000)).unwrap();
    let feeds: String = (0..5000)
        .map(|n| format!("<outline text=\"feed {n}\" xmlUrl=\"https://example.org/{n}\"/>"))
        .collect();
    std::fs::write(home.path("feeds.opml"), format!("<opml><body>{feeds}</body></opml>")).unwrap();
    for (arguments, code) in [(&["check"][..], 1), (&["import", "feeds.opml"], 0)] {
        let mut child =
            home.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let ended = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
        let (ended, _, err) = text(&soon("it ends", ended).await.unwrap());
        assert!(!err.contains("panicked"), "{arguments:?}: {err}");
        assert!(!err.to_lowercase().contains("broken pipe"), "{arguments:?}: {err}");
        assert!(ended == Some(code) || ended == Some(0), "{arguments:?}: {ended:?}");
    }
}

#[tokio::test]
async fn an_export_can_be_imported_again() {
    let home = Home::new();
    let sources = "[[source]]\nname = \"A & <B>\"\nurl = \"https://example.org/?a=1&b=2\"\ngroup = \"news\"\n\n\
                   [[source]]\nname = \"page\"\nurl = \"https://example.org/page\"\nkind = \"page\"\n";
    home.write(&[sources.to_owned()]);
    let (code, opml, _) = text(&home.run(&["export"]).await);
    assert_eq!(code, Some(0));
    std::fs::write(home.path("feeds.opml"), &opml).unwrap();
    let (code, toml, err) = text(&home.run(&["import", "feeds.opml"]).await);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    home.write(&[toml]);
    let (code, _, err) = text(&home.run(&["check"]).await);
    assert_eq!(code, Some(0), "{err}");
    let (_, again, _) = text(&home.run(&["export"]).await);
    assert_eq!(again, opml);
    std::fs::write(home.path("feeds.opml"), "<html></html>").unwrap();
    let (code, out, err) = text(&home.run(&["import", "feeds.opml"]).await);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(err.contains("not OPML"), "{err}");
}

#[tokio::test]
async fn pardon_lifts_a_long_pause_beside_a_daemon_and_without_one() {
    let web = LoopbackServer::start(|_| Reply::new(429).header("Retry-After", "8640000")).await;
    let home = Home::new();
    let budget = "probes = 3600, per = \"1h\", min_spacing = \"0s\"";
    home.write(&[format!("{}policy = \"uniform\"\n", source_with_budget("alpha", &web.url("/a"), budget))]);
    let (code, _, err) = text(&home.run(&["pardon", "alpha"]).await);
    assert_eq!(code, Some(69), "{err}");
    let (code, _, err) = text(&home.run(&["probe", "alpha"]).await);
    assert_eq!(code, Some(1), "{err}");
    let lifts = "its server asks for no request before 2";
    let (_, out, _) = text(&home.run(&["status"]).await);
    assert!(out.contains(lifts) && out.contains("`tidewatch pardon alpha` lifts that"), "{out}");
    let (_, out, _) = text(&home.run(&["explain", "alpha"]).await);
    assert!(out.contains("the server asks for no request before 2"), "{out}");
    let (code, _, err) = text(&home.run(&["pardon", "alpa"]).await);
    assert_eq!(code, Some(1));
    assert!(err.contains("no source and no site is called `alpa`; did you mean `alpha`?"), "{err}");
    let (code, out, err) = text(&home.run(&["pardon", "alpha"]).await);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("source alpha: lifted retry-after until 2"), "{out}");
    let (code, _, err) = text(&home.run(&["pardon", "alpha"]).await);
    assert_eq!(code, Some(1));
    assert!(err.contains("`alpha` has no Retry-After, backoff or pause to lift"), "{err}");
    // The daemon probes it again, and is refused again.
    let mut daemon = home.start();
    let failed = "SELECT count(*) FROM probes WHERE outcome = 'failed'";
    home.until(failed, |n| n == 2).await;
    let (code, out, err) = text(&home.run(&["pardon", "alpha"]).await);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("source alpha: lifted retry-after until 2"), "{out}");
    home.until(failed, |n| n == 3).await;
    daemon.stop().await;
    let events = "SELECT count(*) FROM events WHERE kind = 'pardoned' AND source_id IS NOT NULL";
    home.until(events, |n| n == 2).await;
}
