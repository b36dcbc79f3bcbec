//! `heliostat run --offload`: which groups of the program's calls kernel cores make, and which cores.

use heliostat_abi::offload::{Request, DEFAULT};
use heliostat_abi::place::{OFFLOAD_CORES_VARIABLE, OFFLOAD_VARIABLE};
use heliostat_control::config::Offload;

use crate::args::RunArguments;
use crate::image::Environment;

/// Tells the stub what is asked for, by this command or else by the configuration.
///
/// # Errors
/// A word that names no group, or a configuration that cannot be read.
pub fn set(environment: &mut Environment, arguments: &RunArguments) -> Result<(), String> {
    let request = match &arguments.offload {
        Some(text) => Some(Request::parse(text).map_err(|error| error.to_string())?),
        None => by_rule(arguments)?,
    };
    let Some(request) = request else { return Ok(()) };
    debug_assert!(request.is_any(), "an empty list means {DEFAULT}");
    environment.set(OFFLOAD_VARIABLE, request.to_string());
    Ok(())
}

/// Tells the stub the kernel cores: those that this command was told, or else those of the machine.
pub fn set_cores(environment: &mut Environment, arguments: &RunArguments, of_machine: &[usize]) {
    let told = &arguments.offload_cores;
    let cores = if told.is_empty() { of_machine } else { told };
    if !cores.is_empty() {
        let cores: Vec<String> = cores.iter().map(usize::to_string).collect();
        environment.set(OFFLOAD_CORES_VARIABLE, cores.join(","));
    }
}

/// The rule of the configuration for a program of this name.
fn by_rule(arguments: &RunArguments) -> Result<Option<Request>, String> {
    let Some(config) = arguments.config.as_deref() else { return Ok(None) };
    let named = |error: String| format!("{}: {error}", config.display());
    let text = std::fs::read_to_string(config).map_err(|error| named(error.to_string()))?;
    let rules = Offload::of_text(&text).map_err(|error| named(error.to_string()))?;
    let program = arguments.program.first().map(std::path::Path::new);
    let name = program.and_then(|path| path.file_name()).map(|name| name.to_string_lossy());
    Ok(name.and_then(|name| rules.request(&name)))
}
