//! The runs: bare loop, daemon, statements, memory.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use rustix::process::Signal;
use tidewatch::clock::{Stopwatch, real_pause};

use crate::bare::{BareCounts, BareOrder};
use crate::daemon::{DaemonFolder, DaemonProcess, Pace, folder, reaches};
use crate::process::{Measurement, Meter, ProcessUsage, RoleProcess};
use crate::report::{Report, StatementCounts};
use crate::server::RequestCounts;
use crate::{Case, Options};

/// A short wait that takes longer fails the run.
const SHORT: Duration = Duration::from_secs(60);
/// The same for waits that grow with the number of sources.
fn long(sources: usize) -> Duration {
    SHORT + Duration::from_millis(5) * u32::try_from(sources).unwrap_or(u32::MAX)
}

/// Time between the last change and a measurement.
const SETTLE: Duration = Duration::from_secs(1);

/// Shown while the bench runs; the result goes to standard output.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Runs everything that was asked for.
pub async fn all(options: &Options) -> Result<Report> {
    let temporary = tempfile::tempdir()?;
    let inside = options.folder.clone().unwrap_or_else(|| temporary.path().to_owned());
    std::fs::create_dir_all(&inside)?;
    let most = options.memory.iter().chain([&options.sources, &options.statement_sources]).max();
    let paths = most.copied().unwrap_or(options.sources);
    let mut server = RoleProcess::start(&[
        "--role=server".to_owned(),
        format!("--hosts={}", options.hosts),
        format!("--sources={paths}"),
    ])?;
    let ports: Vec<u16> = server.answer(SHORT)?;
    let mut report = Report::new(options);
    if !options.no_bare {
        bare(options, &mut server, &ports, &inside.join("bare-1.db"), &mut report)?;
    }
    if !options.no_daemon {
        let folder = folder(&inside, "daemon", &ports, options.sources)?;
        daemon(options, &mut server, &folder, &mut report).await?;
    }
    if !options.no_bare && !options.no_daemon {
        // Before and after the daemon: the machine may be faster at one of these times.
        bare(options, &mut server, &ports, &inside.join("bare-2.db"), &mut report)?;
    }
    if !options.no_daemon && options.statement_sources > 0 {
        let folder = crate::daemon::folder(&inside, "statements", &ports, options.statement_sources)?;
        statements(options, &mut server, &folder, &mut report).await?;
    }
    for &sources in options.memory.iter().filter(|_| !options.no_daemon) {
        let folder = crate::daemon::folder(&inside, &format!("memory-{sources}"), &ports, sources)?;
        let before = set_mode(&mut server, Case::FirstContact)?;
        let mut daemon = DaemonProcess::start(&folder, &options.log)?;
        first_contact(&mut server, before, &folder, &mut daemon).await?;
        real_pause(SETTLE).await;
        report.resident(sources, "first contact", ProcessUsage::of(daemon.pid())?.resident_kb);
        daemon.stop().await?;
    }
    Ok(report.finished())
}

fn counts(server: &mut RoleProcess) -> Result<RequestCounts> {
    server.ask("count", SHORT)
}

fn set_mode(server: &mut RoleProcess, case: Case) -> Result<RequestCounts> {
    server.ask(case.mode().command(), SHORT)
}

fn bare(
    options: &Options,
    server: &mut RoleProcess,
    ports: &[u16],
    store: &Path,
    report: &mut Report,
) -> Result<()> {
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    let mut arguments = vec![
        "--role=bare".to_owned(),
        format!("--sources={}", options.sources),
        format!("--folder={}", store.display()),
        format!("--ports={}", ports.join(",")),
    ];
    if options.bare_in_one_thread {
        arguments.push("--bare-in-one-thread".to_owned());
    }
    let mut bare = RoleProcess::start(&arguments)?;
    let all = BareOrder { probes: options.sources, seconds: long(options.sources).as_secs_f64() };
    let some = BareOrder { probes: usize::MAX, seconds: options.seconds };
    for case in [Case::FirstContact].into_iter().chain(Case::REPEATED) {
        if case != Case::FirstContact && !options.runs(case) {
            continue;
        }
        set_mode(server, case)?;
        say(&format!("bare loop, process {}: {}", bare.pid(), case.title()));
        let order = serde_json::to_string(if case == Case::FirstContact { &all } else { &some })?;
        let meter = Meter::start(bare.pid())?;
        let counts: BareCounts = bare.ask(&order, SHORT + long(options.sources))?;
        let measurement = meter.finish(counts.probes)?;
        let expected = if case == Case::NotModified { counts.probes } else { 0 };
        ensure!(counts.not_modified == expected, "{}: {counts:?}", case.title());
        if options.runs(case) {
            report.bare.entry(case).or_default().push(measurement);
        }
    }
    Ok(())
}

/// An empty store and all sources due at once, from the first request until all are stored. `before` was counted
/// before the start of the daemon.
async fn first_contact(
    server: &mut RoleProcess,
    before: RequestCounts,
    folder: &DaemonFolder,
    daemon: &mut DaemonProcess,
) -> Result<Measurement> {
    say(&format!("daemon, process {}: first contact with {} sources", daemon.pid(), folder.sources));
    let (before, stopwatch) = (before.requests, Stopwatch::start());
    let mut asked = 0;
    while asked == 0 {
        daemon.check()?;
        ensure!(stopwatch.elapsed() < long(folder.sources), "the daemon sends no request");
        real_pause(Duration::from_millis(1)).await;
        asked = counts(server)?.requests - before;
    }
    let meter = Meter::start(daemon.pid())?;
    let sources = folder.sources as u64;
    let stored = "SELECT coalesce(max(id), 0) FROM probes";
    reaches(folder, daemon, stored, i64::try_from(sources)?, long(folder.sources)).await?;
    let measurement = meter.finish(sources - asked)?;
    let all = counts(server)?.requests - before;
    ensure!(all == sources, "{all} requests for {sources} sources");
    check_outcomes(folder, Case::FirstContact, 0).await?;
    Ok(measurement)
}

async fn check_outcomes(folder: &DaemonFolder, case: Case, last: i64) -> Result<()> {
    let outcomes = folder.outcomes_after(last).await?;
    let only = outcomes.keys().all(|outcome| outcome == case.outcome());
    ensure!(only && !outcomes.is_empty(), "{}: {outcomes:?}", case.title());
    Ok(())
}

/// Changes the pace, and waits until the daemon has applied it and fitted the rates of new sources.
async fn set_pace(folder: &DaemonFolder, daemon: &mut DaemonProcess, pace: Pace) -> Result<()> {
    let reloads = "SELECT count(*) FROM events WHERE kind = 'reloaded'";
    let before = folder.number(reloads).await?;
    folder.write_settings(pace)?;
    daemon.signal(Signal::HUP)?;
    reaches(folder, daemon, reloads, before + 1, long(folder.sources)).await?;
    let fitted = "SELECT count(*) FROM fits";
    reaches(folder, daemon, fitted, i64::try_from(folder.sources)?, long(folder.sources)).await
}

/// The measured run: first contact, then the other cases in turn.
async fn daemon(
    options: &Options,
    server: &mut RoleProcess,
    folder: &DaemonFolder,
    report: &mut Report,
) -> Result<()> {
    let before = set_mode(server, Case::FirstContact)?;
    let mut daemon = DaemonProcess::start(folder, &options.log)?;
    let first = first_contact(server, before, folder, &mut daemon).await?;
    real_pause(SETTLE).await;
    report.resident(folder.sources, "first contact", ProcessUsage::of(daemon.pid())?.resident_kb);
    if options.runs(Case::FirstContact) {
        report.daemon.insert(Case::FirstContact, first);
    }
    for case in Case::REPEATED.into_iter().filter(|&case| options.runs(case)) {
        let measurement = repeated(options, server, folder, &mut daemon, case).await?;
        report.daemon.insert(case, measurement);
    }
    report.resident(folder.sources, "all cases", ProcessUsage::of(daemon.pid())?.resident_kb);
    daemon.stop().await
}

async fn repeated(
    options: &Options,
    server: &mut RoleProcess,
    folder: &DaemonFolder,
    daemon: &mut DaemonProcess,
    case: Case,
) -> Result<Measurement> {
    set_pace(folder, daemon, options.pace(case)).await?;
    set_mode(server, case)?;
    // The first probe after a fit is reviewed with the new rate.
    let last = folder.number("SELECT coalesce(max(id), 0) FROM probes").await?;
    folder.probed_after(daemon, last, long(folder.sources)).await?;
    real_pause(SETTLE).await;
    say(&format!("daemon, process {}: {}", daemon.pid(), case.title()));
    let last = folder.number("SELECT coalesce(max(id), 0) FROM probes").await?;
    let before = counts(server)?.requests;
    let meter = Meter::start(daemon.pid())?;
    real_pause(Duration::from_secs_f64(options.seconds)).await;
    let measurement = meter.finish(counts(server)?.requests - before)?;
    daemon.check()?;
    check_outcomes(folder, case, last).await?;
    Ok(measurement)
}

/// The same with every statement in the log, which costs time: only statements are counted.
async fn statements(
    options: &Options,
    server: &mut RoleProcess,
    folder: &DaemonFolder,
    report: &mut Report,
) -> Result<()> {
    let asked = set_mode(server, Case::FirstContact)?;
    let mut daemon = DaemonProcess::start(folder, "info,sqlx::query=trace")?;
    daemon.ready(long(folder.sources)).await?;
    let before = daemon.statements();
    let first = first_contact(server, asked, folder, &mut daemon).await?;
    if options.runs(Case::FirstContact) {
        let counted = StatementCounts { probes: first.probes, by_words: since(&before, &daemon) };
        report.statements.insert(Case::FirstContact, counted);
    }
    for case in Case::REPEATED.into_iter().filter(|&case| options.runs(case)) {
        set_pace(folder, &mut daemon, options.pace(case)).await?;
        set_mode(server, case)?;
        real_pause(SETTLE).await;
        say(&format!("daemon, process {}: statements of {}", daemon.pid(), case.title()));
        let (before, asked) = (daemon.statements(), counts(server)?.requests);
        real_pause(Duration::from_secs_f64(options.seconds.min(5.0))).await;
        let probes = counts(server)?.requests - asked;
        let counted = StatementCounts { probes, by_words: since(&before, &daemon) };
        report.statements.insert(case, counted);
    }
    daemon.stop().await
}

fn since(before: &BTreeMap<String, u64>, daemon: &DaemonProcess) -> BTreeMap<String, u64> {
    let after = daemon.statements().into_iter();
    let new = after.map(|(words, count)| {
        let earlier = before.get(&words).copied().unwrap_or(0);
        (words, count - earlier)
    });
    new.filter(|&(_, count)| count > 0).collect()
}
