//! Progress of a simulation, on a terminal only. Must not know what is simulated.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A progress bar on stderr, removed on drop.
pub struct Bar(ProgressBar);

impl Bar {
    /// A bar that is full after this many steps.
    pub fn new(steps: u64) -> Self {
        let bar = ProgressBar::new(steps);
        bar.set_draw_target(match std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr_with_hz(5),
            false => ProgressDrawTarget::hidden(),
        });
        let style = ProgressStyle::with_template("{bar:40} {percent} %, {eta} left  {msg}");
        Self(bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())))
    }

    /// Sets the name of the current part.
    pub fn name(&self, what: impl Into<String>) {
        self.0.set_message(what.into());
    }

    /// Advances the bar by this many steps.
    pub fn forward(&self, steps: u64) {
        self.0.inc(steps);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
