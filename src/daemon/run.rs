//! Starts the daemon's tasks, watches them, and stops them in order.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, patience, real_pause};
use crate::config::configuration::Config;
use crate::config::params::DaemonParams;
use crate::deliver::dispatcher::Dispatcher;
use crate::fetch::client::Fetcher;
use crate::fetch::error::FetchError;
use crate::store::StoreError;
use crate::store::clock::ClockSeen;
use crate::store::files::OpenedFiles;
use crate::store::probe_inputs::InputsQueue;
use crate::store::reader::Reader;
use crate::store::record::EventRecord;
use crate::store::writer::{Health, Write, Writer, WriterHandle, commit};
use tidewatch_core::engine::event::EngineEvent;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::activity::summarize;
use super::messages::{Control, DaemonCommand, ProbeRequest};
use super::open_store::{Begun, open_store};
use super::planner::{self, Planner};
use super::probe_context::ProbeContext;
use super::record::RecordTo;
use super::refit::{RefitParams, Refitter};
use super::reload::{Reloader, SettingsSenders};
use super::scheduler::{Channels, Progress, Scheduler};
use super::startup::Loaded;
use super::supervised_tasks::{EndedTask, SupervisedTasks};
use super::watchdog::{ProgressMark, Watchdog};
use super::{descriptors, notify, prober, retention};

/// The inputs of a daemon.
#[derive(Debug)]
pub struct DaemonSetup {
    /// The configuration.
    pub config: Config,
    /// The configuration file, for reloads; without it a reload is refused.
    pub path: Option<PathBuf>,
    /// The clock.
    pub clock: Clock,
    /// Receives the scheduler's progress.
    pub progress: watch::Sender<Progress>,
    /// The recording, if any.
    pub record: Option<RecordTo>,
}

/// How a daemon ended after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All probes finished or were cancelled at the deadline; finished ones are stored.
    Drained,
    /// Ended at once.
    Aborted,
}

/// An error that ends the daemon or prevents its start.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The network client.
    #[error("the network client cannot be made: {0}")]
    Fetch(#[from] FetchError),
    /// The recording.
    #[error("{}: the recording cannot be begun: {why}", .path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: std::io::Error,
    },
    /// The watchdog's thread.
    #[error("the thread of the watchdog cannot be started: {0}")]
    Watchdog(std::io::Error),
    /// A task ended without a command.
    #[error("the {task} ended by itself: {why}")]
    TaskDied {
        /// The task.
        task: &'static str,
        /// The reason.
        why: String,
    },
}

/// Time for probes to finish after a stop.
const DRAIN: Duration = Duration::from_secs(6);
/// Time for the last refit, which may stay incomplete.
const LAST_FIT: Duration = Duration::from_secs(1);
/// Time for the last writes.
const LAST_WRITES: Duration = Duration::from_secs(2);
/// Interval between checks for requested probes in the store.
const REQUESTS_EVERY: Duration = Duration::from_secs(1);

/// Interval between checks of the files of the store.
const FILES_EVERY: Span = Span::from_mins(1);

/// Runs the daemon until a command ends it.
pub async fn run(
    setup: DaemonSetup,
    mut commands: mpsc::UnboundedReceiver<DaemonCommand>,
) -> Result<Ended, DaemonError> {
    let clock = setup.clock.clone();
    let store = setup.config.daemon.store.clone();
    let mut starting = clock.pending_work();
    starting.set(1);
    let Some((_lock, begun)) = open_store(&setup.config, &clock, &mut commands).await? else {
        return Ok(Ended::Drained);
    };
    descriptors::raise_limit();
    let mut tasks = start(setup, begun, &store).await?;
    drop(starting);
    notify::ready(format!("watching {} sources", tasks.sources)).await;
    tracing::info!(sources = tasks.sources, store = %store.display(), "watching");
    let ended = loop {
        tokio::select! {
            // Polled in order: the planner ends with the scheduler, whose error must be reported.
            biased;
            command = commands.recv() => match command {
                Some(DaemonCommand::Reload) => drop(tasks.reloads.send(())),
                Some(DaemonCommand::Abort) => break Ok(Ended::Aborted),
                Some(DaemonCommand::Stop) | None => {
                    let _ = tasks.writes.send(Write::Stopping);
                    let _ = tasks.control.send(Control::Stop);
                    tokio::spawn(notify::stopping());
                    break drain(&mut tasks.scheduler, &mut commands).await;
                }
            },
            died = &mut tasks.writer => break Err(died_writer(died)),
            died = &mut tasks.prober => break Err(died_task("prober", died)),
            died = &mut tasks.scheduler => break Err(died_task("scheduler", died)),
            died = &mut tasks.planner => break Err(died_task("planner", died)),
            died = &mut tasks.dispatcher => break Err(died_task("dispatcher", died)),
            EndedTask { task, why } = tasks.others.ended() => break Err(DaemonError::TaskDied { task, why }),
            ended = &mut tasks.files => break Err(match ended {
                Ok(replaced) => replaced.into(),
                Err(error) => DaemonError::TaskDied { task: "watch of the store's files", why: error.to_string() },
            }),
        }
    };
    tasks.end(matches!(ended, Ok(Ended::Drained)), &clock).await?;
    ended
}

/// The tasks of a running daemon.
struct Tasks {
    sources: usize,
    writes: mpsc::UnboundedSender<Write>,
    control: mpsc::UnboundedSender<Control>,
    reloads: mpsc::UnboundedSender<()>,
    stop_writer: oneshot::Sender<()>,
    abort: CancellationToken,
    writer: JoinHandle<Result<(), StoreError>>,
    prober: JoinHandle<()>,
    scheduler: JoinHandle<()>,
    planner: JoinHandle<()>,
    dispatcher: JoinHandle<()>,
    /// Ends when a file of the store is not the opened one any more.
    files: JoinHandle<StoreError>,
    /// Signalled when the scheduler has ended and the recording is written.
    recording: Option<oneshot::Receiver<()>>,
    others: SupervisedTasks,
    /// Notifies the service manager until the daemon ends.
    _watchdog: Watchdog,
    last_fit: Refitter,
}

/// Stores the start event and the names of the configured rules, and begins to correct the times of sources.
fn note_start(config: &Config, loaded: &Loaded, now: Timestamp, writes: &mpsc::UnboundedSender<Write>) {
    loaded.correct_sources(writes);
    let detail = Some(format!("tidewatch {}", env!("CARGO_PKG_VERSION")));
    let _ = writes.send(Write::Event(EventRecord { at: now, kind: "started", source: None, detail }));
    let _ = writes.send(Write::Rules(config.rules.names()));
}

fn begin_recording(scheduler: &mut Scheduler, to: RecordTo) -> Result<oneshot::Receiver<()>, DaemonError> {
    scheduler.begin_recording(&to).map_err(|why| DaemonError::Record { path: to.path, why })
}

/// Starts the tasks that are not waited for at the end.
fn start_others(
    refitter: &Refitter,
    inputs: &InputsQueue,
    (shown, retain): (watch::Receiver<Progress>, watch::Receiver<DaemonParams>),
    first_due: Vec<(SourceId, Timestamp)>,
) -> SupervisedTasks {
    let Refitter { reader, writes, control, clock, .. } = refitter.clone();
    let mut others = SupervisedTasks::default();
    others.start("refitter", refitter.clone().run());
    others.start("reader of probe inputs", inputs.ended());
    // These end only with a task that is supervised too.
    others.start_once("status line", notify::keep(shown, clock.clone()));
    others.start_once("writer of first due times", note_first_due(first_due, writes.clone()));
    others.start_once("reader of requests", pass_requests(reader.clone(), control));
    others.start_once("deletion of old rows", retention::prune(clock, retain, reader, writes));
    others
}

/// The queue of reloads, with the one that was requested during the start.
fn reload_requests(reload: bool) -> (mpsc::UnboundedSender<()>, mpsc::UnboundedReceiver<()>) {
    let (reloads, to_reload) = mpsc::unbounded_channel();
    if reload {
        let _ = reloads.send(());
    }
    (reloads, to_reload)
}

/// Starts all tasks.
async fn start(setup: DaemonSetup, begun: Begun, store: &Path) -> Result<Tasks, DaemonError> {
    let DaemonSetup { config, path, clock, progress, record } = setup;
    let config = Arc::new(config);
    let Begun { connection, mut loaded, first_due, reload } = begun;
    let suspects = std::mem::take(&mut loaded.suspects);
    let files = tokio::spawn(watch_files(OpenedFiles::of(store), clock.clone()));
    let reader = Reader::open(store).await?;
    let fetcher = Fetcher::new(&config.fetch, config.daemon.contact.as_deref())?;
    let sources = loaded.engine.len();
    let (writer, WriterHandle { writes, receipts, health }) = Writer::new(connection);
    let (stop_writer, writer_stopped) = oneshot::channel();
    let writer = tokio::spawn(writer.run(writer_stopped));
    note_start(&config, &loaded, clock.now(), &writes);
    let (launches, to_launch) = mpsc::unbounded_channel();
    let (finished, has_finished) = mpsc::unbounded_channel();
    let (control, controls) = mpsc::unbounded_channel();
    let (plans, to_plan) = mpsc::unbounded_channel();
    let (deliver, shown) = (Arc::new(Notify::new()), progress.subscribe());
    let abort = CancellationToken::new();
    let context = ProbeContext::new(reader.clone(), writes.clone(), control.clone(), clock.clone());
    let inputs = context.inputs.clone();
    let prober = tokio::spawn(prober::run(context, to_launch, finished, abort.clone()));
    let mark = ProgressMark::default();
    let watchdog = Watchdog::start(mark.clone()).map_err(DaemonError::Watchdog)?;
    let stalls = health.clone();
    let channels = Channels {
        control: controls,
        finished: has_finished,
        receipts,
        writes: writes.clone(),
        launches,
        plans,
        health,
        progress,
        deliver: Arc::clone(&deliver),
        mark: mark.clone(),
    };
    let rules = Arc::clone(&config.rules);
    let mut scheduler = Scheduler::new(loaded, clock.clone(), Some(fetcher.clone()), rules, channels);
    let counters = scheduler.activity();
    let recording = record.map(|to| begin_recording(&mut scheduler, to)).transpose()?;
    scheduler.suspect(suspects);
    let (posts, fetcher_of_posts) = watch::channel(fetcher);
    let (targets, changed_targets) = watch::channel(Arc::new(config.targets.clone()));
    let dispatcher = Dispatcher {
        // A separate pool: long documents must not take connections from probes.
        reader: Reader::open(store).await?,
        writes: writes.clone(),
        clock: clock.clone(),
        targets: changed_targets,
        fetcher: fetcher_of_posts,
        committed: deliver,
    };
    let (refits, params) = watch::channel(Arc::new(RefitParams::new(&config)));
    let refitter = Refitter {
        reader: reader.clone(),
        writes: writes.clone(),
        control: control.clone(),
        clock: clock.clone(),
        params,
    };
    let (planning, params) = watch::channel(planner::params(&config));
    let planner = Planner { reader: reader.clone(), orders: to_plan, control: control.clone(), params };
    let (retention, retain) = watch::channel(config.daemon.clone());
    let mut others = start_others(&refitter, &inputs, (shown, retain), first_due);
    others.start_once("summary of the log", summarize(counters, reader.clone()));
    let (reloads, to_reload) = reload_requests(reload);
    if let Some(path) = path {
        let (control, writes) = (control.clone(), writes.clone());
        let settings = SettingsSenders { refits, planning, targets, posts, retention };
        let reloader = Reloader { config, path, reader, writes, control, clock, settings, doubted: None };
        others.start_once("reloader", keep_reloading(reloader, to_reload, stalls));
    }
    Ok(Tasks {
        sources,
        writes,
        control,
        reloads,
        stop_writer,
        abort,
        writer,
        prober,
        scheduler: tokio::spawn(scheduler.run()),
        planner: tokio::spawn(planner.run()),
        dispatcher: tokio::spawn(dispatcher.run()),
        files,
        recording,
        others,
        _watchdog: watchdog,
        last_fit: refitter,
    })
}

impl Tasks {
    /// Ends all tasks. If the daemon was drained, stores pending results first.
    async fn end(mut self, drained: bool, clock: &Clock) -> Result<(), DaemonError> {
        self.abort.cancel();
        self.files.abort();
        let tasks = [self.scheduler, self.planner, self.dispatcher];
        tasks.into_iter().for_each(|task| task.abort());
        self.others.abort();
        if drained {
            // The next start refits the sources that are left out.
            let _ = patience(LAST_FIT, self.last_fit.refit(clock.now())).await;
            if let Some(recording) = self.recording {
                let _ = patience(LAST_WRITES, recording).await;
            }
            let stopped = EventRecord { at: clock.now(), kind: "stopped", source: None, detail: None };
            let _ = self.writes.send(Write::Event(stopped));
            let _ = self.writes.send(Write::ClockSeen(ClockSeen::now(clock)));
            let _ = self.stop_writer.send(());
            match patience(LAST_WRITES, &mut self.writer).await {
                Ok(Ok(Ok(()))) => {}
                Ok(died) => return Err(died_writer(died)),
                Err(_) => tracing::error!(
                    "stopping: the store did not accept the last writes in time; the next probes find their updates again, \
                     but log events may be missing; check the disk"
                ),
            }
        }
        self.writer.abort();
        Ok(())
    }
}

/// Waits for the probes in progress, until the deadline or an abort command.
async fn drain(
    scheduler: &mut JoinHandle<()>,
    commands: &mut mpsc::UnboundedReceiver<DaemonCommand>,
) -> Result<Ended, DaemonError> {
    let aborted = async {
        while let Some(command) = commands.recv().await {
            if command == DaemonCommand::Abort {
                return;
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        drained = patience(DRAIN, &mut *scheduler) => {
            match drained {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Err(DaemonError::TaskDied { task: "scheduler", why: error.to_string() }),
                Err(_) => tracing::warn!("stopping: some probes did not end in time and are cancelled; they count against their budgets"),
            }
            Ok(Ended::Drained)
        }
        () = aborted => Ok(Ended::Aborted),
    }
}

async fn keep_reloading(
    mut reloader: Reloader,
    mut asked: mpsc::UnboundedReceiver<()>,
    mut health: watch::Receiver<Health>,
) {
    while asked.recv().await.is_some() {
        // A store that is stalled takes no list of sources. The files are read when it does.
        if health.wait_for(|health| *health == Health::Well).await.is_err() {
            return;
        }
        // Several pending signals cause one reload.
        while asked.try_recv().is_ok() {}
        notify::reloading().await;
        let status = match reloader.reload().await {
            Ok(summary) => format!("reloaded: {summary}"),
            Err(refused) => {
                format!("reload refused, the old configuration keeps running: {}", refused.first_line())
            }
        };
        notify::ready(status).await;
    }
}

/// Sources whose first due time one write stores.
const NOTED_AT_A_TIME: usize = 500;

/// Stores the first due times of sources that were never probed, in small parts after other writes. They
/// are stored for display only; lost ones are drawn again.
async fn note_first_due(due: Vec<(SourceId, Timestamp)>, writes: mpsc::UnboundedSender<Write>) {
    for some in due.chunks(NOTED_AT_A_TIME) {
        if commit(&writes, Write::FirstDue(some.to_vec())).await.is_err() {
            return;
        }
    }
}

/// Returns when a file of the store was deleted or replaced: what is written then would be lost.
async fn watch_files(opened: OpenedFiles, clock: Clock) -> StoreError {
    loop {
        clock.sleep(FILES_EVERY).await;
        let opened = opened.clone();
        // A file system that does not respond must delay nothing else.
        if let Ok(Err(replaced)) = tokio::task::spawn_blocking(move || opened.check()).await {
            return replaced;
        }
    }
}

/// Forwards requested probes and pardons from the store to the scheduler.
async fn pass_requests(reader: Reader, control: mpsc::UnboundedSender<Control>) {
    let (mut last_passed, mut last_pardon) = (0, 0);
    loop {
        real_pause(REQUESTS_EVERY).await;
        match reader.open_requests().await {
            Ok(requests) => {
                for request in
                    requests.into_iter().filter(|request| request.id > last_passed).collect::<Vec<_>>()
                {
                    last_passed = request.id;
                    let request = ProbeRequest { number: request.id, source: request.source, answer: None };
                    if control.send(Control::Request(request)).is_err() {
                        return;
                    }
                }
            }
            Err(error) => tracing::debug!(%error, "requests cannot be read"),
        }
        match reader.open_pardons().await {
            Ok(pardons) => {
                for (request, whom) in
                    pardons.into_iter().filter(|(id, _)| *id > last_pardon).collect::<Vec<_>>()
                {
                    last_pardon = request;
                    if control.send(Control::Event(EngineEvent::Pardoned { whom, request })).is_err() {
                        return;
                    }
                }
            }
            Err(error) => tracing::debug!(%error, "pardons cannot be read"),
        }
    }
}

fn died_task(task: &'static str, died: Result<(), tokio::task::JoinError>) -> DaemonError {
    let why = died.map_or_else(|error| error.to_string(), |()| "without a reason".to_owned());
    DaemonError::TaskDied { task, why }
}

/// The error of a writer that ended by itself.
pub(super) fn died_writer(died: Result<Result<(), StoreError>, tokio::task::JoinError>) -> DaemonError {
    match died {
        Ok(Err(error)) => DaemonError::Store(error),
        Ok(Ok(())) => DaemonError::TaskDied { task: "writer", why: "without a reason".to_owned() },
        Err(error) => DaemonError::TaskDied { task: "writer", why: error.to_string() },
    }
}
