//! Writes log lines to systemd's journal, in its native protocol.
//!
//! A datagram has one line: `NAME=value` for each field. Values have no line breaks. The name of a field
//! of ours begins with `F_`, so that it cannot replace one of the journal.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use tracing::Level;

use super::line::LogLine;

const SOCKET: &str = "/run/systemd/journal/socket";

/// A socket for lines to the journal.
#[derive(Debug)]
pub(super) struct JournalSocket {
    socket: UnixDatagram,
    path: PathBuf,
}

impl JournalSocket {
    /// Fails if there is no journal.
    pub(super) fn open() -> io::Result<Self> {
        Self::at(Path::new(SOCKET))
    }

    fn at(path: &Path) -> io::Result<Self> {
        let journal = Self { socket: UnixDatagram::unbound()?, path: path.to_owned() };
        // An empty datagram is ignored; it shows that the journal listens.
        journal.socket.send_to(&[], &journal.path)?;
        Ok(journal)
    }

    /// Writes a line. Waits if the journal is slow. A journal that restarts loses lines.
    pub(super) fn write(&self, line: &LogLine) {
        let _ = self.socket.send_to(&datagram(line), &self.path);
    }
}

/// The priority of syslog.
fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "3",
        Level::WARN => "4",
        Level::INFO => "6",
        Level::DEBUG | Level::TRACE => "7",
    }
}

fn datagram(line: &LogLine) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(512);
    field(&mut bytes, "PRIORITY", priority(line.level));
    field(&mut bytes, "SYSLOG_IDENTIFIER", "tidewatch");
    field(&mut bytes, "MESSAGE", &line.text);
    field(&mut bytes, "TARGET", &line.target);
    if let Some((file, number)) = line.place {
        field(&mut bytes, "CODE_FILE", file);
        field(&mut bytes, "CODE_LINE", &number.to_string());
    }
    for (name, value) in &line.fields {
        let name: String = name.chars().filter_map(of_name).take(60).collect();
        field(&mut bytes, &format!("F_{name}"), value);
    }
    bytes
}

/// The character in a field's name: the journal allows capitals, digits and underscores.
fn of_name(c: char) -> Option<char> {
    match c {
        '.' | '-' => Some('_'),
        c if c.is_ascii_alphanumeric() || c == '_' => Some(c.to_ascii_uppercase()),
        _ => None,
    }
}

/// Values are without line breaks, so that the simple form is always right.
fn field(bytes: &mut Vec<u8>, name: &str, value: &str) {
    bytes.extend_from_slice(name.as_bytes());
    bytes.push(b'=');
    bytes.extend(value.bytes().map(|byte| if byte == b'\n' { b' ' } else { byte }));
    bytes.push(b'\n');
}

#[cfg(test)]
mod tests {
    use tidewatch_core::time::Timestamp;

    use super::*;

    #[test]
    fn a_datagram_has_the_text_the_priority_and_the_fields() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        assert!(JournalSocket::at(&path).is_err(), "no journal");
        let journal = UnixDatagram::bind(&path).unwrap();
        let socket = JournalSocket::at(&path).unwrap();
        for (level, priority) in
            [(Level::ERROR, 3), (Level::WARN, 4), (Level::INFO, 6), (Level::DEBUG, 7), (Level::TRACE, 7)]
        {
            socket.write(&LogLine {
                at: Timestamp::from_secs(0),
                level,
                target: "tidewatch::x".to_owned(),
                place: Some(("src/x.rs", 7)),
                text: "lwn: probe failed: HTTP 500".to_owned(),
                fields: vec![("source", "lwn".to_owned()), ("http.status", "500\n".to_owned())],
            });
            let mut buffer = [0; 4096];
            let received = loop {
                let length = journal.recv(&mut buffer).unwrap();
                if length > 0 {
                    break String::from_utf8(buffer[..length].to_vec()).unwrap();
                }
            };
            let expected = format!(
                "PRIORITY={priority}\nSYSLOG_IDENTIFIER=tidewatch\nMESSAGE=lwn: probe failed: HTTP 500\n\
                 TARGET=tidewatch::x\nCODE_FILE=src/x.rs\nCODE_LINE=7\nF_SOURCE=lwn\nF_HTTP_STATUS=500 \n"
            );
            assert_eq!(received, expected);
        }
    }
}
