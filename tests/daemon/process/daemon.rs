//! A folder with a configuration and a store, and the program run on them.

use std::fs::File;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use crate::waiting::{soon, until};
use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{ConnectOptions, FromRow, SqliteConnection};
use tempfile::TempDir;
use tidewatch::clock::{Stopwatch, real_pause};

/// A folder to work in.
pub struct Home {
    folder: TempDir,
}

impl Home {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn config(&self) -> PathBuf {
        self.path("tidewatch.toml")
    }

    pub fn store(&self) -> PathBuf {
        self.path("tidewatch.db")
    }

    /// Writes the configuration with these sources.
    pub fn write(&self, sources: &[String]) {
        self.write_with_steps("step = \"100ms\"\nprobes_per_step = 100", sources);
    }

    /// Writes the configuration with these sources and settings of steps.
    pub fn write_with_steps(&self, steps: &str, sources: &[String]) {
        let text = format!(
            "[daemon]\nstore = {:?}\ncontact = \"https://example.org/me\"\n\
             [fleet]\n{steps}\nhost_spacing = \"0s\"\n{}",
            self.store(),
            sources.join("\n")
        );
        std::fs::write(self.config(), text).unwrap();
    }

    /// A command with this configuration and without tidewatch's and systemd's variables.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidewatch"));
        for (name, _) in std::env::vars_os() {
            let name_text = name.to_string_lossy();
            let ours = ["TIDEWATCH", "NOTIFY", "WATCHDOG", "JOURNAL"];
            if ours.iter().any(|start| name_text.starts_with(start)) {
                command.env_remove(&name);
            }
        }
        command.current_dir(self.folder.path()).args(arguments).arg("--config").arg(self.config());
        command
    }

    /// Runs a command to its end.
    pub async fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        soon("the command ends", tokio::task::spawn_blocking(move || command.output().unwrap()))
            .await
            .unwrap()
    }

    /// Starts the daemon.
    pub fn start(&self) -> Daemon {
        Daemon::start(self.command(&["run"]), &self.path("log"), None)
    }

    /// Starts the daemon with these options and variables.
    pub fn start_with_settings(&self, options: &[&str], variables: &[(&str, &str)]) -> Daemon {
        let mut command = self.command(&["run"]);
        command.args(options).envs(variables.iter().copied());
        Daemon::start(command, &self.path("log"), None)
    }

    /// Starts the daemon with this level of the log, which goes into a pipe.
    pub fn start_with_log(&self, level: &str, log: std::io::PipeWriter) -> Daemon {
        std::fs::write(self.path("log"), "").unwrap();
        let mut command = self.command(&["run"]);
        command.env("TIDEWATCH_LOG", level).stderr(log);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        Daemon { child, log: self.path("log"), socket: None, messages: Vec::new() }
    }

    /// Starts the daemon from a shell, after this command of it.
    pub fn start_after(&self, setting: &str) -> Daemon {
        Daemon::start(self.after(setting), &self.path("log"), None)
    }

    fn after(&self, setting: &str) -> Command {
        let direct = self.command(&["run"]);
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{setting} && exec \"$0\" \"$@\"")]);
        command.arg(direct.get_program()).args(direct.get_args()).current_dir(self.folder.path());
        for (name, _) in direct.get_envs().filter(|(_, value)| value.is_none()) {
            command.env_remove(name);
        }
        command
    }

    /// Starts the daemon under a service manager.
    pub fn start_as_service(&self) -> Daemon {
        self.with_manager(self.command(&["run"]))
    }

    /// Starts the daemon under a service manager, without room for more than a part of a new store.
    pub fn start_without_room(&self) -> Daemon {
        self.with_manager(self.after("trap '' XFSZ && ulimit -S -f 200"))
    }

    fn with_manager(&self, mut command: Command) -> Daemon {
        let path = self.path("notify");
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "1500000");
        Daemon::start(command, &self.path("log"), Some(socket))
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

    /// The texts that a query finds.
    pub async fn texts(&self, query: String) -> Vec<String> {
        let query = sqlx::query_scalar(sqlx::AssertSqlSafe(query));
        query.fetch_all(&mut self.connection().await).await.unwrap()
    }

    /// The one number that a query finds; NULL is -1. Before there is a store it is -1 too.
    pub async fn number(&self, query: &'static str) -> i64 {
        if !self.store().exists() {
            return -1;
        }
        let found: Result<Option<i64>, _> =
            sqlx::query_scalar(query).fetch_one(&mut self.connection().await).await;
        match found {
            Ok(number) => number.unwrap_or(-1),
            Err(sqlx::Error::Database(error)) if error.message().starts_with("no such table") => -1,
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits until the number that a query finds is as wanted.
    pub async fn until(&self, query: &'static str, wanted: impl Fn(i64) -> bool) {
        let seen = async {
            while !wanted(self.number(query).await) {
                real_pause(Duration::from_millis(10)).await;
            }
        };
        soon(query, seen).await;
    }
}

/// A running daemon. Killed when dropped.
pub struct Daemon {
    child: Child,
    log: PathBuf,
    socket: Option<UnixDatagram>,
    messages: Vec<String>,
}

impl Daemon {
    fn start(mut command: Command, log: &Path, socket: Option<UnixDatagram>) -> Self {
        let stderr = File::options().create(true).append(true).open(log).unwrap();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn().unwrap();
        Self { child, log: log.to_owned(), socket, messages: Vec::new() }
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The most memory that it had at once, in bytes.
    pub fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// Its output on stderr.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Sends a signal, by name.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &pid]).status().unwrap();
        assert!(sent.success(), "no process to send {name} to:\n{}", self.log());
    }

    /// Lets it write files of any length.
    pub fn give_room(&self) {
        let pid = self.child.id().to_string();
        let given = Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited"]).status().unwrap();
        assert!(given.success(), "no limit of files was changed:\n{}", self.log());
    }

    /// Kills it, and returns when it has ended.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end; returns the status and the time taken.
    pub async fn ended(&mut self) -> (ExitStatus, Duration) {
        let stopwatch = Stopwatch::start();
        let mut status = None;
        until("the daemon ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        (status.unwrap(), stopwatch.elapsed())
    }

    /// Sends SIGTERM, and expects a clean exit.
    pub async fn stop(&mut self) {
        self.signal("TERM");
        let (status, taken) = self.ended().await;
        assert_eq!(status.code(), Some(0), "{}", self.log());
        assert!(taken < Duration::from_secs(10), "{taken:?}");
    }

    /// The messages to the service manager since the last call.
    pub fn messages(&mut self) -> Vec<String> {
        let socket = self.socket.as_ref().expect("started as a service");
        let mut buffer = [0; 4096];
        while let Ok(length) = socket.recv(&mut buffer) {
            self.messages.push(String::from_utf8(buffer[..length].to_vec()).unwrap());
        }
        std::mem::take(&mut self.messages)
    }

    /// Waits for a message to the service manager that contains this text, and returns all messages up
    /// to that one, in order.
    pub async fn wait_for_message(&mut self, part: &str) -> Vec<String> {
        let mut all = Vec::new();
        until(&format!("a message to the service manager with {part}"), || {
            let mut received = self.messages().into_iter();
            for message in received.by_ref() {
                all.push(message);
                if all.last().is_some_and(|message| message.contains(part)) {
                    self.messages = received.collect();
                    return true;
                }
            }
            false
        })
        .await;
        all
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The settings of the memory allocator with which the service runs.
pub fn allocator_settings() -> &'static str {
    let unit = include_str!("../../../systemd/tidewatch.service");
    let settings = unit.lines().filter_map(|line| line.strip_prefix("Environment="));
    settings.into_iter().find(|settings| settings.contains("MALLOC_ARENA_MAX")).unwrap()
}

/// The processor time that a process has used, user and system.
pub fn processor_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit_once(')').unwrap().1;
    let fields = after_name.split_whitespace().skip(11).take(2);
    let ticks: u64 = fields.map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    // 100 a second on every Linux.
    Duration::from_millis(10 * ticks)
}

/// A few probes a second.
pub const BRISK: &str = "probes = 20, per = \"5s\", min_spacing = \"100ms\"";

/// One probe at once (first contacts are spread over the spacing), and the next after an hour.
pub const LAZY: &str = "probes = 1, per = \"1h\", min_spacing = \"0s\"";
