//! Putting the tasks together, and taking them apart again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, patience, real_pause};
use crate::config::configuration::Config;
use crate::deliver::courier::Courier;
use crate::fetch::client::Fetcher;
use crate::fetch::error::FetchError;
use crate::store::lock::Lock;
use crate::store::reader::Reader;
use crate::store::record::Event;
use crate::store::writer::{Desk, Write, Writer};
use crate::store::{Connection, StoreError, load, open};
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::Timestamp;

use super::messages::{Control, ProbeRequest};
use super::planner::{self, Planner};
use super::probe::Bench;
use super::record::RecordTo;
use super::refit::{RefitParams, Refitter};
use super::reload::{Reloader, SettingsSenders};
use super::scheduler::{Channels, Progress, Scheduler};
use super::startup::{Loaded, load_engine};
use super::{notify, prober, retention};

/// What a daemon is started with.
#[derive(Debug)]
pub struct Setup {
    /// What to do.
    pub config: Config,
    /// Where that was read from, for reloads; without it a reload is refused.
    pub path: Option<PathBuf>,
    /// What time it is.
    pub clock: Clock,
    /// Where the scheduler shows itself.
    pub progress: watch::Sender<Progress>,
    /// Where what it is told and does is recorded, if anywhere.
    pub record: Option<RecordTo>,
}

/// What a running daemon can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Read the configuration again.
    Reload,
    /// Finish what is under way and end.
    Stop,
    /// End now.
    Abort,
}

/// How a daemon ended when it was told to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Everything under way was finished or, at the deadline, cut short; what was seen is stored.
    Drained,
    /// At once.
    Aborted,
}

/// Why a daemon could not start or go on.
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
        /// Why not.
        why: std::io::Error,
    },
    /// A task ended that must not.
    #[error("the {task} ended by itself: {why}")]
    TaskDied {
        /// Which.
        task: &'static str,
        /// How.
        why: String,
    },
}

/// Probes get this long to finish after a stop.
const DRAIN: Duration = Duration::from_secs(6);
/// Then rates are fitted once more, as far as that goes in this long.
const LAST_FIT: Duration = Duration::from_secs(1);
/// Then the writer gets this long.
const LAST_WRITES: Duration = Duration::from_secs(2);
/// How often the store is asked whether someone wants a probe.
const REQUESTS_EVERY: Duration = Duration::from_secs(1);

/// Runs until told to stop.
pub async fn run(
    setup: Setup,
    mut commands: mpsc::UnboundedReceiver<Command>,
) -> Result<Ended, DaemonError> {
    let clock = setup.clock.clone();
    let store = setup.config.daemon.store.clone();
    let _lock = Lock::take(&store)?;
    let mut tasks = start(setup, &store).await?;
    notify::ready(format!("watching {} sources", tasks.sources)).await;
    tracing::info!(sources = tasks.sources, store = %store.display(), "watching");
    let ended = loop {
        tokio::select! {
            // In order: without a scheduler the planner ends as well, and is not to blame.
            biased;
            command = commands.recv() => match command {
                Some(Command::Reload) => drop(tasks.reloads.send(())),
                Some(Command::Abort) => break Ok(Ended::Aborted),
                Some(Command::Stop) | None => {
                    let _ = tasks.control.send(Control::Stop);
                    tokio::spawn(notify::stopping());
                    break drain(&mut tasks.scheduler, &mut commands).await;
                }
            },
            died = &mut tasks.writer => break Err(died_writer(died)),
            died = &mut tasks.prober => break Err(died_task("prober", died)),
            died = &mut tasks.scheduler => break Err(died_task("scheduler", died)),
            died = &mut tasks.planner => break Err(died_task("planner", died)),
            died = &mut tasks.courier => break Err(died_task("courier", died)),
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
    courier: JoinHandle<()>,
    /// Ends when the scheduler has, and all is written.
    recording: Option<oneshot::Receiver<()>>,
    /// Those whose end is no crash.
    others: Vec<JoinHandle<()>>,
    last_fit: Refitter,
}

/// What is stored at a start before anything else happens.
struct Begun {
    connection: Connection,
    loaded: Loaded,
    first_due: Vec<(SourceId, Timestamp)>,
}

async fn begin(config: &Config, store: &Path, now: Timestamp) -> Result<Begun, DaemonError> {
    let mut connection = open::for_writing(store).await?;
    load::begin(&mut connection, &config.sources, now).await?;
    let loaded = load_engine(config, &mut connection, now).await?;
    let due = |&id: &SourceId| Some((id, loaded.engine.memory(id)?.due.at()?));
    let first_due = loaded.unscheduled.iter().filter_map(due).collect();
    Ok(Begun { connection, loaded, first_due })
}

/// Stores that the daemon started, and which rules it has.
fn note_start(config: &Config, now: Timestamp, writes: &mpsc::UnboundedSender<Write>) {
    let detail = Some(format!("tidewatch {}", env!("CARGO_PKG_VERSION")));
    let _ = writes.send(Write::Event(Event { at: now, kind: "started", source: None, detail }));
    let _ = writes.send(Write::Rules(config.rules.names()));
}

fn begin_recording(scheduler: &mut Scheduler, to: RecordTo) -> Result<oneshot::Receiver<()>, DaemonError> {
    scheduler.begin_recording(&to).map_err(|why| DaemonError::Record { path: to.path, why })
}

/// Starts all tasks.
async fn start(setup: Setup, store: &Path) -> Result<Tasks, DaemonError> {
    let Setup { config, path, clock, progress, record } = setup;
    let config = Arc::new(config);
    let Begun { connection, loaded, first_due } = begin(&config, store, clock.now()).await?;
    let reader = Reader::open(store).await?;
    let fetcher = Fetcher::new(&config.fetch, config.daemon.contact.as_deref())?;
    let sources = loaded.engine.len();
    let (writer, Desk { writes, receipts, health }) = Writer::new(connection);
    let (stop_writer, writer_stopped) = oneshot::channel();
    let writer = tokio::spawn(writer.run(writer_stopped));
    note_start(&config, clock.now(), &writes);
    let (launches, to_launch) = mpsc::unbounded_channel();
    let (finished, has_finished) = mpsc::unbounded_channel();
    let (control, controls) = mpsc::unbounded_channel();
    let (plans, to_plan) = mpsc::unbounded_channel();
    let (deliver, shown) = (Arc::new(Notify::new()), progress.subscribe());
    let abort = CancellationToken::new();
    let bench = Bench { reader: reader.clone(), writes: writes.clone(), clock: clock.clone() };
    let prober = tokio::spawn(prober::run(bench, to_launch, finished, abort.clone()));
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
    };
    let rules = Arc::clone(&config.rules);
    let mut scheduler =
        Scheduler::new(loaded.engine, loaded.roster, clock.clone(), Some(fetcher.clone()), rules, channels);
    let recording = record.map(|to| begin_recording(&mut scheduler, to)).transpose()?;
    let (posts, fetcher_of_posts) = watch::channel(fetcher);
    let (targets, told) = watch::channel(Arc::new(config.targets.clone()));
    let courier = Courier {
        // Of its own: documents may be long, and no probe waits for a connection because of them.
        reader: Reader::open(store).await?,
        writes: writes.clone(),
        clock: clock.clone(),
        targets: told,
        fetcher: fetcher_of_posts,
        poke: deliver,
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
    let (retention, retain) = watch::channel(config.daemon.retain_probes);
    let mut others = vec![
        tokio::spawn(notify::keep(shown, clock.clone())),
        tokio::spawn(note_first_due(first_due, writes.clone())),
        tokio::spawn(pass_requests(reader.clone(), control.clone())),
        tokio::spawn(refitter.clone().run()),
        tokio::spawn(retention::prune(clock.clone(), retain, writes.clone())),
    ];
    let (reloads, to_reload) = mpsc::unbounded_channel();
    if let Some(path) = path {
        let (control, writes) = (control.clone(), writes.clone());
        let settings = SettingsSenders { refits, planning, targets, posts, retention };
        let reloader = Reloader { config, path, reader, writes, control, clock, settings };
        others.push(tokio::spawn(keep_reloading(reloader, to_reload)));
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
        courier: tokio::spawn(courier.run()),
        recording,
        others,
        last_fit: refitter,
    })
}

impl Tasks {
    /// Ends all of them; what was seen is stored first if they were drained.
    async fn end(mut self, drained: bool, clock: &Clock) -> Result<(), DaemonError> {
        self.abort.cancel();
        let tasks = [self.scheduler, self.planner, self.courier];
        tasks.into_iter().chain(self.others).for_each(|task| task.abort());
        if drained {
            // What is left out is made up for at the next start.
            let _ = patience(LAST_FIT, self.last_fit.refit(clock.now())).await;
            if let Some(recording) = self.recording {
                let _ = patience(LAST_WRITES, recording).await;
            }
            let stopped = Event { at: clock.now(), kind: "stopped", source: None, detail: None };
            let _ = self.writes.send(Write::Event(stopped));
            let _ = self.stop_writer.send(());
            match patience(LAST_WRITES, &mut self.writer).await {
                Ok(Ok(Ok(()))) => {}
                Ok(died) => return Err(died_writer(died)),
                Err(_) => tracing::error!(
                    "the store could not be written in time; what is missing will be seen again"
                ),
            }
        }
        self.writer.abort();
        Ok(())
    }
}

/// Waits for what is under way, up to the deadline or a second signal.
async fn drain(
    scheduler: &mut JoinHandle<()>,
    commands: &mut mpsc::UnboundedReceiver<Command>,
) -> Result<Ended, DaemonError> {
    let aborted = async {
        while let Some(command) = commands.recv().await {
            if command == Command::Abort {
                return;
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        landed = patience(DRAIN, &mut *scheduler) => {
            match landed {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Err(DaemonError::TaskDied { task: "scheduler", why: error.to_string() }),
                Err(_) => tracing::warn!("some probes did not end in time and are cut short"),
            }
            Ok(Ended::Drained)
        }
        () = aborted => Ok(Ended::Aborted),
    }
}

async fn keep_reloading(mut reloader: Reloader, mut asked: mpsc::UnboundedReceiver<()>) {
    while asked.recv().await.is_some() {
        // Several signals at once are one reload.
        while asked.try_recv().is_ok() {}
        notify::reloading().await;
        let status = match reloader.reload().await {
            Ok(summary) => format!("reloaded: {summary}"),
            Err(refused) => {
                let first = refused.to_string().lines().next().unwrap_or_default().to_owned();
                format!("reload refused, the old configuration keeps running: {first}")
            }
        };
        notify::ready(status).await;
    }
}

/// Sources whose first due time is stored at a time.
const NOTED_AT_A_TIME: usize = 500;

/// Stores when sources that were never probed are due, a few at a time and behind everything else:
/// for who looks at the store. Were it lost, they would be drawn again.
async fn note_first_due(due: Vec<(SourceId, Timestamp)>, writes: mpsc::UnboundedSender<Write>) {
    for some in due.chunks(NOTED_AT_A_TIME) {
        let (done, committed) = oneshot::channel();
        for write in [Write::FirstDue(some.to_vec()), Write::Flush(done)] {
            if writes.send(write).is_err() {
                return;
            }
        }
        if committed.await.is_err() {
            return;
        }
    }
}

/// Passes on probes asked for by hand.
async fn pass_requests(reader: Reader, control: mpsc::UnboundedSender<Control>) {
    let mut last_passed = 0;
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
    }
}

fn died_task(task: &'static str, died: Result<(), tokio::task::JoinError>) -> DaemonError {
    let why = died.map_or_else(|error| error.to_string(), |()| "without a reason".to_owned());
    DaemonError::TaskDied { task, why }
}

fn died_writer(died: Result<Result<(), StoreError>, tokio::task::JoinError>) -> DaemonError {
    match died {
        Ok(Err(error)) => DaemonError::Store(error),
        Ok(Ok(())) => DaemonError::TaskDied { task: "writer", why: "without a reason".to_owned() },
        Err(error) => DaemonError::TaskDied { task: "writer", why: error.to_string() },
    }
}
