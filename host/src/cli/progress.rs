//! Progress bars on standard error, for what takes more than a second and where a person is watching.

use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// How long a task runs before its bar is shown.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether and where tasks show their progress.
#[derive(Clone, Copy)]
pub struct Progress {
    shown: bool,
}

impl Progress {
    /// Shown where standard error is a terminal, unless `quiet`.
    pub fn new(quiet: bool) -> Self {
        Self { shown: !quiet && std::io::stderr().is_terminal() }
    }

    /// Begins a task of `total` steps, or of an unknown number. Its bar appears after a second, and goes
    /// away when the task is dropped.
    pub fn task(self, name: &str, total: Option<usize>) -> Task {
        if !self.shown {
            return Task { bar: ProgressBar::hidden(), timer: None };
        }
        let (bar, template) = match total {
            Some(total) => (ProgressBar::new(total as u64), "{msg} {bar:40} {percent}%{left}"),
            None => (ProgressBar::new_spinner(), "{msg} {spinner} {elapsed}"),
        };
        bar.set_draw_target(ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.with_key("left", left));
        }
        bar.set_message(name.to_owned());
        let (sender, done) = mpsc::channel();
        let shown = bar.clone();
        let thread = std::thread::spawn(move || {
            if done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                shown.set_draw_target(ProgressDrawTarget::stderr());
                shown.enable_steady_tick(Duration::from_millis(100));
            }
        });
        Task { bar, timer: Some((sender, thread)) }
    }
}

/// ` · 12s left`, once there is progress to tell from.
fn left(state: &ProgressState, writer: &mut dyn Write) {
    if state.pos() > 0 {
        // It is drawn again in a moment.
        let _ = write!(writer, " · {:#} left", HumanDuration(state.eta()));
    }
}

/// A bar of steps for what measures on a device: hidden where standard error is not a terminal.
#[cfg(feature = "cuda")]
pub fn steps() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Something that is under way.
pub struct Task {
    bar: ProgressBar,
    /// Shows the bar once the task has taken a second; told when the task ends before.
    timer: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Task {
    /// Says how many steps are done.
    pub fn set(&self, done: usize) {
        self.bar.set_position(done as u64);
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.timer.take() {
            drop(sender);
            // It only waits and draws; if it failed there is no bar to clear.
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}
