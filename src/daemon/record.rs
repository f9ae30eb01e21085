//! A recording of the engine's events and actions, in a file of bounded size.
//!
//! The scheduler passes on bytes without waiting; a separate thread writes them. When the file reaches half
//! of the limit, it becomes `FILE.previous`, and a new file begins with a snapshot. The previous part
//! before that is overwritten. If the recording cannot be written, it ends and the daemon continues.

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

/// The file of a recording and its size limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordTo {
    /// The file.
    pub path: PathBuf,
    /// Largest size of both parts together, in bytes.
    pub limit: u64,
}

/// Capacity of the queue of frames to be written.
const WAITING: usize = 4_096;

#[derive(Debug)]
enum RecordingPart {
    /// The first bytes of a new part.
    Begin(Vec<u8>),
    More(Vec<u8>),
}

/// A recording in progress.
#[derive(Debug)]
pub struct Recording {
    recorder: Recorder,
    /// Bytes in the current part.
    size: u64,
    /// Largest size of a part, in bytes.
    most: u64,
    pieces: mpsc::Sender<RecordingPart>,
}

impl Recording {
    /// Begins a recording with a snapshot of the engine. The receiver is signalled when everything is
    /// written.
    pub fn begin(engine: &Engine, to: &RecordTo) -> io::Result<(Self, oneshot::Receiver<()>)> {
        let file = File::create(&to.path)?;
        let (pieces, to_write) = mpsc::channel(WAITING);
        let path = to.path.clone();
        let (done, written) = oneshot::channel();
        // A dedicated thread: it runs as long as the daemon and would block one of tokio's pool.
        std::thread::Builder::new().name("recording".to_owned()).spawn(move || {
            if let Err(error) = write(&path, file, to_write) {
                tracing::error!(%error, file = %path.display(), "the recording cannot be written and ends");
            }
            let _ = done.send(());
        })?;
        let (recorder, bytes) = Recorder::begin(engine);
        let mut recording = Self { recorder, size: 0, most: to.limit / 2, pieces };
        recording.hand_over(RecordingPart::More(bytes));
        Ok((recording, written))
    }

    /// Appends an event and the resulting actions. Returns whether the recording continues.
    pub fn note(
        &mut self,
        engine: &Engine,
        now: Timestamp,
        event: EngineEvent,
        actions: Vec<Action>,
    ) -> bool {
        let bytes = self.recorder.exchange(now, event, actions);
        if !self.hand_over(RecordingPart::More(bytes)) {
            return false;
        }
        if self.size <= self.most {
            return true;
        }
        let (recorder, bytes) = Recorder::begin(engine);
        (self.recorder, self.size) = (recorder, 0);
        self.hand_over(RecordingPart::Begin(bytes))
    }

    fn hand_over(&mut self, piece: RecordingPart) -> bool {
        let (RecordingPart::Begin(bytes) | RecordingPart::More(bytes)) = &piece;
        self.size += bytes.len() as u64;
        let handed_over = self.pieces.try_send(piece).is_ok();
        if !handed_over {
            tracing::error!("the recording cannot be written fast enough and ends");
        }
        handed_over
    }
}

/// The path of the previous part.
fn previous(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".previous");
    name.into()
}

fn write(path: &Path, file: File, mut pieces: mpsc::Receiver<RecordingPart>) -> io::Result<()> {
    let mut file = BufWriter::new(file);
    while let Some(piece) = pieces.blocking_recv() {
        match piece {
            RecordingPart::More(bytes) => file.write_all(&bytes)?,
            RecordingPart::Begin(bytes) => {
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
