//! Reads the configuration.

use std::path::Path;

use heliostat_control::config::Config;

use crate::names::MachineNames;
use crate::services::cluster::{look_at_registry, secret};

/// The configuration in a file, or the default; a mistake is told with file, line and key.
pub fn read(path: Option<&Path>) -> Result<Config, String> {
    let Some(path) = path else { return Ok(Config::default()) };
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let config = Config::read(&text, &MachineNames::read())
        .map_err(|error| format!("{}: {error}", path.display()))?;
    if let Some(cluster) = &config.cluster {
        secret::read(&cluster.secret).map_err(|error| format!("{}: {error}", path.display()))?;
        look_at_registry(cluster).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(config)
}
