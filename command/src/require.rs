//! `heliostat run --require`: no program runs natively in silence.
//!
//! What can be told from outside is asked here, before the image changes. The rest only the stub in
//! the program itself can tell (is its libc patched, does it get a session?): a variable makes it
//! end the program with the same status before its main function, and is gone then.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use heliostat_abi::place::{DIRECT_VARIABLE, REQUIRE_VARIABLE, SOCKET_VARIABLE, VERBOSE_VARIABLE};

use crate::args::RunArguments;
use crate::image::Environment;
use crate::stub::find_stub;

/// A small program, dynamically linked on every machine.
const TRIAL: &str = "/bin/cat";

/// Whether everything from here on can be left to the stub, which then ends the program should it be
/// native as a whole.
pub fn check(
    arguments: &RunArguments,
    file: &Path,
    environment: &mut Environment,
) -> Result<(), String> {
    if arguments.no_direct || std::env::var_os(DIRECT_VARIABLE).is_some_and(|value| value == "0") {
        return Err(format!("direct streams are switched off ({DIRECT_VARIABLE}=0)"));
    }
    if let Err(error) = File::open(file) {
        return Err(format!("whether it can be covered is not known: its file: {error}"));
    }
    try_stub(&find_stub()?)?;
    environment.set(REQUIRE_VARIABLE, "1");
    Ok(())
}

/// A loader that cannot load the stub says so and goes on. The stub in the trial says what it does.
fn try_stub(stub: &Path) -> Result<(), String> {
    let trial = Command::new(TRIAL)
        .env("LD_PRELOAD", stub)
        // Nobody serves it: the trial is no program of the control plane's.
        .env(SOCKET_VARIABLE, "/nonexistent/heliostat-trial")
        .env(VERBOSE_VARIABLE, "1")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("the stub cannot be tried: {TRIAL}: {error}"))?;
    let said = String::from_utf8_lossy(&trial.stderr);
    match said.contains("heliostat: ") {
        true => Ok(()),
        false => {
            Err(format!("the loader does not take the stub {}: {}", stub.display(), said.trim()))
        }
    }
}
