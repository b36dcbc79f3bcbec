//! How far a long piece of work is, on a terminal; elsewhere nothing is shown.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over `bytes` bytes, on standard error.
pub fn bar(what: &'static str, bytes: u64) -> ProgressBar {
    let bar = ProgressBar::new(bytes).with_message(what);
    let style = ProgressStyle::with_template(
        "{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta} left",
    );
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}
