//! Lines on standard error, whose reader may have gone.

use std::fmt::Arguments;
use std::io::Write;

/// Says a line, if anybody reads it: `eprintln!` would end the command instead, and a program that
/// is to be run does not depend on who listens to the command before it (`2>&1 | head`).
pub fn say(line: Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "heliostat: {line}");
}
