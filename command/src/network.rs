//! `heliostat run --network-cores`: whether the network service carries the program's connections, and where.

use std::path::Path;

use heliostat_abi::cores::{CpuMask, CpuRanges};
use heliostat_abi::place::NETWORK_VARIABLE;
use heliostat_abi::stream::carry::Carry;
use heliostat_base::affinity;
use heliostat_control::config::{CarryRule, CarryRules};

use crate::args::RunArguments;
use crate::image::Environment;

/// Tells the stub what is asked for, by this command or else by the configuration; cores that are only
/// counted are kernel cores `of_machine`, or the last ones where there are too few of them.
///
/// # Errors
/// A word that says nothing, more cores than there are, or a configuration that cannot be read.
pub fn set(
    environment: &mut Environment,
    arguments: &RunArguments,
    of_machine: &[usize],
) -> Result<(), String> {
    let rule = match &arguments.network_cores {
        Some(text) => Some(CarryRule::parse(text).map_err(|error| error.to_string())?),
        None => by_rule(arguments)?,
    };
    let Some(rule) = rule else { return Ok(()) };
    let carry = match rule {
        CarryRule::Never => Carry::Never,
        CarryRule::Any => on(CpuMask::EMPTY)?,
        CarryRule::Cores(cores) => on(cores)?,
        CarryRule::Count(count) => on(counted(count, of_machine)?)?,
    };
    environment.set(NETWORK_VARIABLE, carry.to_string());
    Ok(())
}

fn on(cores: CpuMask) -> Result<Carry, String> {
    let ranges = CpuRanges::of(cores).ok_or("these cores are too many ranges")?;
    Ok(Carry::On(ranges))
}

/// So many cores: the machine's kernel cores, or else the last that may be used.
fn counted(count: usize, of_machine: &[usize]) -> Result<CpuMask, String> {
    if count <= of_machine.len() {
        return Ok(of_machine.iter().take(count).copied().collect());
    }
    let allowed = affinity::allowed(0).map_err(|errno| errno.to_string())?;
    let all: Vec<usize> = allowed.iter().collect();
    match all.len().checked_sub(count) {
        Some(first) => Ok(all[first..].iter().copied().collect()),
        None => Err(format!("{count} cores for the network service, of {}", all.len())),
    }
}

/// The rule of the configuration for a program of this name.
fn by_rule(arguments: &RunArguments) -> Result<Option<CarryRule>, String> {
    let Some(config) = arguments.config.as_deref() else { return Ok(None) };
    let named = |error: String| format!("{}: {error}", config.display());
    let text = std::fs::read_to_string(config).map_err(|error| named(error.to_string()))?;
    let rules = CarryRules::of_text(&text).map_err(|error| named(error.to_string()))?;
    let name = arguments.program.first().map(Path::new).and_then(Path::file_name);
    Ok(name.and_then(|name| rules.of_program(&name.to_string_lossy())).cloned())
}
