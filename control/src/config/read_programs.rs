//! What the command that runs a program reads of a configuration: rules by the program's name, and files.

use super::super::error::ConfigError;
use super::super::field::Section;
use super::super::{CarryRules, Config, Durable, Offload, ProgramRules};

/// Reads it.
pub fn read(root: &Section<'_>, config: &mut Config) -> Result<(), ConfigError> {
    if let Some(field) = root.field("durable") {
        config.durable = Durable::read(&field)?;
    }
    if let Some(field) = root.field("carry") {
        config.carry = CarryRules::read(&field)?;
    }
    if let Some(field) = root.field("offload") {
        config.offload = Offload::read(&field)?;
    }
    if let Some(field) = root.field("cores") {
        config.cores = ProgramRules::read(&field)?;
    }
    Ok(())
}
