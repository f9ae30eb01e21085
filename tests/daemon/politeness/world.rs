//! A store, a clock, a daemon that runs on them, and recording servers on loopback.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::waiting::soon;
use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{ConnectOptions, FromRow, SqliteConnection};
use tempfile::TempDir;
use tidewatch::clock::{Clock, real_pause};
use tidewatch::config;
use tidewatch::config::configuration::Config;
use tidewatch::daemon::messages::DaemonCommand;
use tidewatch::daemon::run::{DaemonError, DaemonSetup, Ended, run};
use tidewatch::daemon::scheduler::Progress;
use tidewatch::store::open;
use tidewatch::store::retention::DeleteBefore;
use tidewatch::store::writer::{Write, Writer};
use tidewatch_core::time::{Span, Timestamp};
use tokio::sync::{mpsc, oneshot, watch};
use url::Url;

use tidewatch_fixtures::loopback::{LoopbackServer, Reply, SeenRequest};
use tidewatch_fixtures::source_list::source_with_budget;

/// The start of every test's clock: a Monday, at midnight.
pub fn monday() -> Timestamp {
    Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap()
}

/// A store and a clock.
pub struct World {
    folder: TempDir,
    pub clock: Clock,
    /// `[fleet]` and `[fetch]`.
    pub settings: String,
}

impl World {
    /// The clock runs this many times as fast as real time.
    pub fn new(speed: f64) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            clock: Clock::paced(monday(), speed),
            settings: "[fleet]\nstep = \"1s\"\nprobes_per_step = 1000\nhost_spacing = \"0s\"\n".to_owned(),
        }
    }

    /// With these settings for the fleet.
    pub fn fleet(mut self, settings: &str) -> Self {
        self.settings = format!("[fleet]\n{settings}\n");
        self
    }

    /// With these names at 127.0.0.1.
    pub fn named(mut self, names: &[&str]) -> Self {
        let names: Vec<String> = names.iter().map(|name| format!("\"{name}\" = \"127.0.0.1\"")).collect();
        self.settings.push_str(&format!("[fetch]\nresolve = {{ {} }}\n", names.join(", ")));
        self
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("tidewatch.toml")
    }

    pub fn store(&self) -> PathBuf {
        self.folder.path().join("tidewatch.db")
    }

    /// Writes the configuration with these sources.
    pub fn write(&self, sources: &[String]) {
        let daemon =
            format!("[daemon]\nstore = {:?}\ncontact = \"https://example.org/me\"\n", self.store());
        let text = format!("{daemon}{}\n{}", self.settings, sources.join("\n"));
        std::fs::write(self.config(), text).unwrap();
    }

    /// Starts a daemon that watches these sources.
    pub async fn start(&self, sources: &[String]) -> Daemon {
        self.write(sources);
        let config = config::load::load(&self.config()).unwrap_or_else(|error| panic!("{error}"));
        let (commands, orders) = mpsc::unbounded_channel();
        let (progress, mut shown) = watch::channel(Progress::default());
        let setup = DaemonSetup {
            config,
            path: Some(self.config()),
            clock: self.clock.clone(),
            progress,
            record: None,
        };
        let (ending, ended) = oneshot::channel();
        // On its own thread, so that the test cannot delay it.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let _ = ending.send(runtime.block_on(run(setup, orders)));
        });
        soon("the daemon is up", shown.wait_for(|shown| shown.iterations > 0)).await.expect("it runs");
        Daemon { commands, ended }
    }

    /// Writes these sources, reloads, and returns when the running daemon has applied them.
    pub async fn reload(&self, daemon: &Daemon, sources: &[String]) {
        let reloads = "SELECT count(*) FROM events WHERE kind = 'reloaded'";
        let before = self.number(reloads).await;
        self.write(sources);
        daemon.commands.send(DaemonCommand::Reload).unwrap();
        self.until(reloads, |now| now > before).await;
    }

    /// The configuration that was written last.
    pub fn loaded(&self) -> Config {
        config::load::load(&self.config()).unwrap()
    }

    pub async fn connection(&self) -> SqliteConnection {
        SqliteConnectOptions::new().filename(self.store()).connect().await.unwrap()
    }

    /// The rows of a query.
    pub async fn rows<T>(&self, query: &'static str) -> Vec<T>
    where
        T: for<'r> FromRow<'r, SqliteRow> + Send + Unpin,
    {
        sqlx::query_as(query).fetch_all(&mut self.connection().await).await.unwrap()
    }

    /// The one number that a query finds; NULL is -1.
    pub async fn number(&self, query: &'static str) -> i64 {
        let found: Option<i64> =
            sqlx::query_scalar(query).fetch_one(&mut self.connection().await).await.unwrap();
        found.unwrap_or(-1)
    }

    /// Deletes what is older than this, while no daemon runs.
    pub async fn prune(&self, before: Timestamp) {
        let (writer, handle) = Writer::new(open::for_writing(&self.store()).await.unwrap());
        let (stop, stopped) = oneshot::channel();
        handle.writes.send(Write::Prune(DeleteBefore::probes(before, before))).unwrap();
        let writing = tokio::spawn(writer.run(stopped));
        for _ in 0..10 {
            let (done, flushed) = oneshot::channel();
            handle.writes.send(Write::Flush(done)).unwrap();
            flushed.await.unwrap();
        }
        stop.send(()).unwrap();
        writing.await.unwrap().unwrap();
    }

    /// Changes the store, as another program.
    pub async fn execute(&self, statement: &'static str) {
        sqlx::query(statement).execute(&mut self.connection().await).await.unwrap();
    }

    /// Waits until the number that a query finds is as wanted.
    pub async fn until(&self, query: &'static str, wanted: impl Fn(i64) -> bool) {
        let seen = async {
            while !wanted(self.number(query).await) {
                real_pause(Duration::from_millis(5)).await;
            }
        };
        soon(query, seen).await;
    }

    /// Waits for this span on the daemon's clock.
    pub async fn pass(&self, span: Span) {
        soon("time passes", self.clock.sleep(span)).await;
    }
}

/// A daemon at work.
pub struct Daemon {
    pub commands: mpsc::UnboundedSender<DaemonCommand>,
    ended: oneshot::Receiver<Result<Ended, DaemonError>>,
}

impl Daemon {
    /// Stops it; the test fails if it had ended earlier.
    pub async fn stop(self) {
        let _ = self.commands.send(DaemonCommand::Stop);
        let ended = soon("the daemon ends", self.ended).await.expect("no panic");
        assert_eq!(ended.expect("it ran until it was stopped"), Ended::Drained);
    }
}

impl Daemon {
    /// How it ended by itself.
    pub async fn ended(self) -> Result<Ended, DaemonError> {
        soon("the daemon ends", self.ended).await.expect("no panic")
    }
}

/// One request as a site saw it.
#[derive(Debug, Clone)]
pub struct Visit {
    /// On the daemon's clock.
    pub at: Timestamp,
    pub seen: SeenRequest,
}

/// A recording server on loopback.
pub struct Site {
    web: LoopbackServer,
    log: Arc<Mutex<Vec<Visit>>>,
}

impl Site {
    /// Starts a site that answers as the script says.
    pub async fn start(world: &World, script: impl Fn(&Visit) -> Reply + Send + Sync + 'static) -> Self {
        let log = Arc::new(Mutex::new(Vec::new()));
        let (clock, noted) = (world.clock.clone(), Arc::clone(&log));
        let paced = world.clock.clone();
        // The clock runs while an answer is delayed on purpose.
        let during_delay = Box::new(move || -> Box<dyn Send> { Box::new(paced.waiting()) });
        let web = LoopbackServer::start_with_delays(during_delay, move |seen| {
            // Before any answer, so never later than the end of the probe.
            let visit = Visit { at: clock.now(), seen: seen.clone() };
            noted.lock().unwrap().push(visit.clone());
            script(&visit)
        })
        .await;
        Self { web, log }
    }

    pub fn url(&self, path: &str) -> Url {
        self.web.url(path)
    }

    pub fn url_as(&self, name: &str, path: &str) -> Url {
        self.web.url_as(name, path)
    }

    pub fn web(&self) -> &LoopbackServer {
        &self.web
    }

    /// Closes the port.
    pub async fn close(self) {
        self.web.stop().await;
    }

    /// Every request so far.
    pub fn visits(&self) -> Vec<Visit> {
        self.log.lock().unwrap().clone()
    }

    /// Every request for this path so far.
    pub fn visits_to(&self, path: &str) -> Vec<Visit> {
        self.visits().into_iter().filter(|visit| visit.seen.path == path).collect()
    }

    /// Waits for this many requests, and returns them.
    pub async fn visited(&self, count: usize) -> Vec<Visit> {
        soon(&format!("{count} requests, {} so far", self.visits().len()), self.web.arrived(count)).await;
        // The server counts a request just before the script notes it.
        while self.visits().len() < count {
            tokio::task::yield_now().await;
        }
        self.visits()
    }

    /// Waits for this many requests for a path, and returns them.
    pub async fn visited_at(&self, path: &str, count: usize) -> Vec<Visit> {
        let enough = async {
            while self.visits_to(path).len() < count {
                self.web.arrived(self.visits().len() + 1).await;
                tokio::task::yield_now().await;
            }
        };
        soon(&format!("{count} requests for {path}"), enough).await;
        self.visits_to(path)
    }
}

/// Times between consecutive requests.
pub fn gaps(visits: &[Visit]) -> Vec<Span> {
    visits.windows(2).map(|pair| pair[1].at - pair[0].at).collect()
}

/// A source with a budget of its own that lets it be probed every quarter of an hour.
pub fn source(name: &str, url: &Url) -> String {
    source_with_budget(name, url, "probes = 96, per = \"1d\", min_spacing = \"15m\"")
}

/// A page rather than a feed.
pub fn page(name: &str, url: &Url) -> String {
    format!("{}kind = \"page\"\n", source(name, url))
}
