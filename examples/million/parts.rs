//! The parts of the run, in their order.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tidewatch::clock::{Clock, Stopwatch};
use tidewatch_core::time::Timestamp;

use crate::daemon::{DaemonProcess, program};
use crate::folder::{DaemonFolder, RunState, Setting};
use crate::report::{COST_RATIO, Limit, READY_WITHIN, RELOAD_WITHIN, Report, SENT_SHARE, say};
use crate::server::{Server, raise_descriptor_limit};
use crate::window::{Window, WindowStart};
use crate::{Options, Part, logged};

/// Sources of the run that costs are compared with.
const FEW: usize = 1_000;
/// The number of changes of a reload.
const CHANGES: usize = 1_000;
/// Time from a start or a reload until the steps are as usual.
const SETTLE: Duration = Duration::from_secs(5);

const PROBED: &str = "SELECT count(*) FROM sources WHERE last_probe_at IS NOT NULL AND state <> 'removed'";
const LAST_FIRST_CONTACT: &str = "SELECT max(started_at) FROM probes WHERE reason = 'first contact'";
const FITTED_SINCE: &str = "SELECT count(*) FROM fits WHERE fitted_at >= ?";
const PLANNED_SINCE: &str = "SELECT count(DISTINCT source_id) FROM plans WHERE made_at >= ?";
const WITH_EVIDENCE: &str =
    "SELECT count(*) FROM histories JOIN sources ON id = source_id WHERE state <> 'removed'";
const TO_PLAN: &str = "SELECT count(*) FROM sources JOIN histories ON id = source_id
                       WHERE policy = 'plan' AND state <> 'removed'";

/// Fitting and planning this number of sources fails the run if it takes longer.
fn fit_deadline(sources: usize) -> Duration {
    Duration::from_secs(300) + Duration::from_millis(3) * u32::try_from(sources).unwrap_or(u32::MAX)
}

/// All parts share this.
#[derive(Debug)]
pub struct Run {
    options: Options,
    program: PathBuf,
    server: Server,
    folder: DaemonFolder,
    state: RunState,
    report: Report,
    /// Runs from one part to the next.
    daemon: Option<DaemonProcess>,
}

impl Run {
    /// Prepares a run in this folder, which may have been used by other parts.
    pub async fn new(options: Options, path: &Path) -> Result<Self> {
        ensure!(
            options.hosts() > 0 && options.sources > 0 && options.per_step > 0,
            "numbers must be above zero"
        );
        std::fs::create_dir_all(path)?;
        let path = path.canonicalize()?;
        let earlier = RunState::read(&path)?;
        let begins = options.runs(Part::Start);
        let used = path.join("tidewatch.db").exists();
        ensure!(!(begins && used), "{} has a store already: choose another folder", path.display());
        let needs_store = [Part::Refit, Part::Reload, Part::Restart].iter().any(|&part| options.runs(part));
        ensure!(begins || used || !needs_store, "the part `start` must be run in this folder first");
        raise_descriptor_limit(options.hosts())?;
        let server = Server::start(earlier.as_ref().map(|state| &*state.ports), options.hosts()).await?;
        let state = earlier.unwrap_or_else(|| RunState {
            sources: options.sources,
            per_step: options.per_step,
            one_file: options.one_file,
            ports: server.ports.clone(),
            setting: Setting::default(),
            cost_us: None,
            few_cost_us: None,
        });
        ensure!(
            (state.sources, state.per_step, state.one_file)
                == (options.sources, options.per_step, options.one_file),
            "the folder is of a run with {} sources, {} probes per second and one_file = {}",
            state.sources,
            state.per_step,
            state.one_file
        );
        state.write(&path)?;
        let folder = DaemonFolder {
            path,
            ports: server.ports.clone(),
            sources: options.sources,
            per_step: options.per_step,
            one_file: options.one_file,
        };
        say(&format!(
            "{} sources, {} hosts, {} probes per second",
            options.sources,
            server.ports.len(),
            options.per_step
        ));
        Ok(Self {
            options,
            program: program()?,
            server,
            folder,
            state,
            report: Report::default(),
            daemon: None,
        })
    }

    /// Runs the parts that were asked for.
    pub async fn run(mut self) -> Result<()> {
        for part in Part::ALL {
            if !self.options.runs(part) {
                continue;
            }
            say(&format!("-- {}", part.title()));
            match part {
                Part::Few => self.few().await?,
                Part::Start => self.start().await?,
                Part::Refit => self.refit().await?,
                Part::Reload => self.reload().await?,
                Part::Restart => self.restart().await?,
            }
        }
        if let Some(daemon) = self.daemon.take() {
            self.report.took("stopped", daemon.stop().await?);
        }
        self.report.finish()
    }

    /// Writes the configuration with this setting.
    fn configure(&mut self, setting: Setting) -> Result<()> {
        self.folder.write(setting)?;
        self.state.setting = setting;
        self.state.write(&self.folder.path)
    }

    fn minutes(minutes: f64) -> Duration {
        Duration::from_secs_f64(minutes * 60.0)
    }

    /// The same pace with few sources: the cost that others are compared with.
    async fn few(&mut self) -> Result<()> {
        let path = self.folder.path.join("few");
        if path.exists() {
            std::fs::remove_dir_all(&path)?;
        }
        std::fs::create_dir(&path)?;
        let ports = self.server.ports.iter().take(FEW).copied().collect();
        let folder =
            DaemonFolder { path, ports, sources: FEW, per_step: self.folder.per_step, one_file: false };
        folder.write(Setting::default())?;
        let mut daemon = DaemonProcess::start(&self.program, &folder)?;
        daemon.ready().await?;
        all_probed(&folder, &mut daemon).await?;
        all_fitted(&folder, &mut daemon).await?;
        daemon.run_for(SETTLE).await?;
        let window = self.watch(&folder, &mut daemon, self.options.minutes).await?;
        daemon.stop().await?;
        self.full_steps(&format!("{FEW} sources"), &window);
        std::fs::remove_dir_all(&folder.path)?;
        self.state.few_cost_us = window.cost_us;
        self.compare_costs()
    }

    /// A start with an empty store, the first contact with every source, and a measured period after it.
    async fn start(&mut self) -> Result<()> {
        self.configure(Setting::default())?;
        if self.options.until_all_probed {
            // No source is due again before all were probed.
            self.server.set_max_age(self.folder.round() + SETTLE);
        }
        let mut daemon = DaemonProcess::start(&self.program, &self.folder)?;
        self.report.within("ready, empty store", daemon.ready().await?, READY_WITHIN);
        self.report.memory("ready, empty store", &daemon.usage()?);
        if self.options.until_all_probed {
            self.first_contact(&mut daemon).await?;
        }
        let window = self.watch(&self.folder, &mut daemon, self.options.minutes).await?;
        self.full_steps("window", &window);
        self.report.memory("window", &daemon.usage()?);
        self.daemon = Some(daemon);
        self.state.cost_us = window.cost_us;
        self.compare_costs()
    }

    /// Waits until every source was probed and has a rate, and until most were probed since: the first probe after
    /// a fit costs more.
    async fn first_contact(&mut self, daemon: &mut DaemonProcess) -> Result<()> {
        let (stopwatch, began) = (Stopwatch::start(), Clock::wall().now());
        all_probed(&self.folder, daemon).await?;
        self.report.took("every source probed after", stopwatch.elapsed());
        self.report.memory_all_probed(self.folder.sources, &daemon.usage()?);
        let ended = self.folder.number(LAST_FIRST_CONTACT, &[]).await?;
        let window = Window::read(&self.folder, began, Timestamp::from_millis(ended)).await?;
        self.report.steps("first contact", &window, None);
        self.report.took("rates of new sources fitted after", all_fitted(&self.folder, daemon).await?);
        daemon.run_for(self.folder.round()).await
    }

    /// A refit of all sources, with a new policy for some of them, which are planned meanwhile.
    async fn refit(&mut self) -> Result<()> {
        let mut daemon = self.running().await?;
        // With more, too few sources would be due to fill the steps.
        let planned = self.options.planned.min(self.folder.sources / 10);
        let Setting { changes, refits, .. } = self.state.setting;
        self.configure(Setting { changes, planned, refits: refits + 1 })?;
        let cpu = daemon.usage()?.cpu_seconds;
        let (stopwatch, began) = (Stopwatch::start(), WindowStart::new(&daemon, &self.server)?);
        let taken = daemon.reload().await?;
        self.report.took(&format!("reload with the policy `plan` for {planned} sources"), taken);
        let since = [began.at.as_millis()];
        let all = self.folder.number(WITH_EVIDENCE, &[]).await?;
        let to_plan = self.folder.number(TO_PLAN, &[]).await?;
        let most = fit_deadline(self.folder.sources);
        self.folder.reaches(&mut daemon, (FITTED_SINCE, &since), all, most).await?;
        self.report.took(&format!("{all} sources fitted again after"), stopwatch.elapsed());
        self.folder.reaches(&mut daemon, (PLANNED_SINCE, &since), to_plan, most).await?;
        self.report.took(&format!("{to_plan} sources planned after"), stopwatch.elapsed());
        let window = began.finish(&self.folder, &mut daemon, &self.server).await?;
        let usage = daemon.usage()?;
        self.report.value("refit, processor time", usage.cpu_seconds - cpu, " s", None);
        self.report.steps("refit", &window, None);
        self.report.memory("refit", &usage);
        self.daemon = Some(daemon);
        Ok(())
    }

    /// A reload of a configuration with some changes.
    async fn reload(&mut self) -> Result<()> {
        let mut daemon = self.running().await?;
        // A second run of this part takes the changes back, which are then as many.
        let most = CHANGES.min(self.folder.sources / 2);
        let Setting { changes, planned, refits } = self.state.setting;
        self.configure(Setting { changes: most - changes, planned, refits })?;
        let began = WindowStart::new(&daemon, &self.server)?;
        let taken = daemon.reload().await?;
        self.report.within(&format!("reload of {most} changes"), taken, RELOAD_WITHIN);
        daemon.run_for(SETTLE).await?;
        let window = began.finish(&self.folder, &mut daemon, &self.server).await?;
        self.report.steps("reload", &window, None);
        self.report.memory("reload", &daemon.usage()?);
        self.daemon = Some(daemon);
        Ok(())
    }

    /// A start with the store of a month.
    async fn restart(&mut self) -> Result<()> {
        if let Some(daemon) = self.daemon.take() {
            self.report.took("stopped", daemon.stop().await?);
        }
        let stopwatch = Stopwatch::start();
        logged::write(&self.folder, self.options.logged).await?;
        self.report.took(&format!("{} more probes logged", self.options.logged), stopwatch.elapsed());
        let probes = self.folder.number("SELECT count(*) FROM probes", &[]).await?;
        let size = std::fs::metadata(self.folder.store())?.len() as f64 / 1e6;
        self.report.value(&format!("store with {probes} logged probes"), size, " MB", None);
        let mut daemon = DaemonProcess::start(&self.program, &self.folder)?;
        self.report.within("ready, full store", daemon.ready().await?, READY_WITHIN);
        self.report.memory("ready, full store", &daemon.usage()?);
        let window = self.watch(&self.folder, &mut daemon, self.options.again).await?;
        self.report.steps("after the restart", &window, None);
        self.report.memory("after the restart", &daemon.usage()?);
        self.daemon = Some(daemon);
        Ok(())
    }

    /// The running daemon of the part before, or a new one.
    async fn running(&mut self) -> Result<DaemonProcess> {
        if let Some(daemon) = self.daemon.take() {
            return Ok(daemon);
        }
        let mut daemon = DaemonProcess::start(&self.program, &self.folder)?;
        self.report.took("ready", daemon.ready().await?);
        daemon.run_for(SETTLE).await?;
        Ok(daemon)
    }

    async fn watch(
        &self,
        folder: &DaemonFolder,
        daemon: &mut DaemonProcess,
        minutes: f64,
    ) -> Result<Window> {
        let began = WindowStart::new(daemon, &self.server)?;
        daemon.run_for(Self::minutes(minutes)).await?;
        began.finish(folder, daemon, &self.server).await
    }

    fn full_steps(&mut self, what: &str, window: &Window) {
        self.report.steps(what, window, Some(SENT_SHARE * f64::from(self.folder.per_step)));
        if let Some(cost) = window.cost_us {
            self.report.value(&format!("{what}, processor time per probe"), cost, " µs", None);
        }
    }

    /// Keeps the costs for later parts, and prints their ratio if both are known.
    fn compare_costs(&mut self) -> Result<()> {
        if let (Some(cost), Some(few)) = (self.state.cost_us, self.state.few_cost_us) {
            let what = format!("cost per probe, {} sources to {FEW}", self.folder.sources);
            self.report.value(&what, cost / few, "", Some(Limit::AtMost(COST_RATIO)));
        }
        self.state.write(&self.folder.path)
    }
}

/// Waits until every source was probed.
async fn all_probed(folder: &DaemonFolder, daemon: &mut DaemonProcess) -> Result<()> {
    let all = i64::try_from(folder.sources)?;
    let most = Duration::from_secs(300) + folder.round() * 4;
    // Cheap to read; afterwards most sources were probed.
    folder.reaches(daemon, ("SELECT count(*) FROM probes", &[]), all, most).await?;
    folder.reaches(daemon, (PROBED, &[]), all, most).await?;
    Ok(())
}

/// Waits until every source has a rate. A reload without changes has those without one fitted now, rather than some
/// minutes later. Returns the time that this takes.
async fn all_fitted(folder: &DaemonFolder, daemon: &mut DaemonProcess) -> Result<Duration> {
    let stopwatch = Stopwatch::start();
    daemon.reload().await.context("a reload without changes")?;
    let all = folder.number(WITH_EVIDENCE, &[]).await?;
    let most = fit_deadline(folder.sources);
    folder.reaches(daemon, (FITTED_SINCE, &[0]), all, most).await?;
    Ok(stopwatch.elapsed())
}
