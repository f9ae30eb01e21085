//! How far a simulation is, for whoever sits before a terminal.
//!
//! Must not know what is simulated, and shows nothing where nobody looks.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar on stderr, which goes away with its value.
pub struct Bar(ProgressBar);

impl Bar {
    /// It is full after so many steps.
    pub fn new(steps: u64) -> Self {
        let bar = ProgressBar::new(steps);
        bar.set_draw_target(match std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr_with_hz(5),
            false => ProgressDrawTarget::hidden(),
        });
        let style = ProgressStyle::with_template("{bar:40} {percent} %, {eta} left  {msg}");
        Self(bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())))
    }

    /// What is under way.
    pub fn name(&self, what: impl Into<String>) {
        self.0.set_message(what.into());
    }

    /// So many steps are done.
    pub fn forward(&self, steps: u64) {
        self.0.inc(steps);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
