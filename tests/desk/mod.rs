//! A user's desk: a folder to write files into, and one command of the program run in it.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// The folder and the command.
pub struct Desk {
    folder: TempDir,
    command: &'static [&'static str],
}

impl Desk {
    pub fn new(command: &'static [&'static str]) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), command }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    /// Exit code, stdout, stderr.
    pub fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidewatch"));
        command.env_remove("TIDEWATCH_CONFIG").current_dir(self.path()).args(self.command).args(arguments);
        let output = command.output().unwrap();
        let read = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (output.status.code().unwrap(), read(&output.stdout), read(&output.stderr))
    }

    /// What is printed when all is well and nothing else is to be said.
    pub fn said(&self, arguments: &[&str]) -> String {
        let (code, out, err) = self.run(arguments);
        assert_eq!((code, err.as_str()), (0, ""), "{arguments:?}");
        out
    }

    /// What is said when it is refused.
    pub fn refused(&self, code: i32, arguments: &[&str]) -> String {
        let (found, out, err) = self.run(arguments);
        assert_eq!((found, out.as_str()), (code, ""), "{arguments:?}: {err}");
        err
    }
}
