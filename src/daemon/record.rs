//! A recording of what the engine is told and asks for, in a file of bounded size.
//!
//! The scheduler hands over bytes and goes on; a thread of its own writes them. When the file has grown to half of
//! what is allowed, it becomes `FILE.previous` and a new one begins with a snapshot: what is older goes. A recording
//! that cannot be written ends, and the daemon goes on without it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tokio::sync::{mpsc, oneshot};

use tidewatch_core::engine::action::Action;
use tidewatch_core::engine::event::EngineEvent;
use tidewatch_core::engine::recording::Recorder;
use tidewatch_core::engine::state::Engine;
use tidewatch_core::time::Timestamp;

/// Where to, and how large it may become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordTo {
    /// The file.
    pub path: PathBuf,
    /// Bytes of both parts together.
    pub limit: u64,
}

/// Frames that may wait to be written.
const WAITING: usize = 4_096;

#[derive(Debug)]
enum Piece {
    /// A new part begins.
    Begin(Vec<u8>),
    More(Vec<u8>),
}

/// A recording in progress.
#[derive(Debug)]
pub struct Recording {
    recorder: Recorder,
    /// Bytes of this part so far.
    size: u64,
    /// Bytes that a part may have.
    most: u64,
    pieces: mpsc::Sender<Piece>,
}

impl Recording {
    /// Begins a recording of an engine as it stands. The receiver hears when all is written.
    pub fn begin(engine: &Engine, to: &RecordTo) -> io::Result<(Self, oneshot::Receiver<()>)> {
        let file = File::create(&to.path)?;
        let (pieces, to_write) = mpsc::channel(WAITING);
        let path = to.path.clone();
        let (done, written) = oneshot::channel();
        // A thread of its own: it lives as long as the daemon, and would hold one of tokio's for good.
        std::thread::Builder::new().name("recording".to_owned()).spawn(move || {
            if let Err(error) = write(&path, file, to_write) {
                tracing::error!(%error, file = %path.display(), "the recording cannot be written and ends");
            }
            let _ = done.send(());
        })?;
        let (recorder, bytes) = Recorder::begin(engine);
        let mut recording = Self { recorder, size: 0, most: to.limit / 2, pieces };
        recording.hand_over(Piece::More(bytes));
        Ok((recording, written))
    }

    /// Notes what the engine was told and asked for. Returns whether the recording goes on.
    pub fn note(
        &mut self,
        engine: &Engine,
        now: Timestamp,
        event: EngineEvent,
        actions: Vec<Action>,
    ) -> bool {
        let bytes = self.recorder.exchange(now, event, actions);
        if !self.hand_over(Piece::More(bytes)) {
            return false;
        }
        if self.size <= self.most {
            return true;
        }
        let (recorder, bytes) = Recorder::begin(engine);
        (self.recorder, self.size) = (recorder, 0);
        self.hand_over(Piece::Begin(bytes))
    }

    fn hand_over(&mut self, piece: Piece) -> bool {
        let (Piece::Begin(bytes) | Piece::More(bytes)) = &piece;
        self.size += bytes.len() as u64;
        let handed_over = self.pieces.try_send(piece).is_ok();
        if !handed_over {
            tracing::error!("the recording cannot be written fast enough and ends");
        }
        handed_over
    }
}

/// The part before the one that is being written.
fn previous(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".previous");
    name.into()
}

fn write(path: &Path, file: File, mut pieces: mpsc::Receiver<Piece>) -> io::Result<()> {
    let mut file = BufWriter::new(file);
    while let Some(piece) = pieces.blocking_recv() {
        match piece {
            Piece::More(bytes) => file.write_all(&bytes)?,
            Piece::Begin(bytes) => {
                file.flush()?;
                fs::rename(path, previous(path))?;
                file = BufWriter::new(File::create(path)?);
                file.write_all(&bytes)?;
            }
        }
        if pieces.is_empty() {
            file.flush()?;
        }
    }
    file.flush()
}
