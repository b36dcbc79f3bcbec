//! Whose memory is to be published, which of it, and under which name.

use heliostat_stub_snapshot::Attachment;

use super::choose::Wanted;
use crate::args::snapshot::PublishArguments;
use crate::snapshot::error::SnapshotError;
use crate::snapshot::live::{attached, listed, Listed};

/// A program and what is wanted of it.
pub(super) struct Target {
    pub(super) pid: i32,
    /// Name of the only part, or what the parts' names begin with.
    pub(super) name: String,
    pub(super) wanted: Vec<Wanted>,
    /// What the bytes mean, if a producer has said so.
    pub(super) description: Option<Vec<u8>>,
}

impl Target {
    /// Reads what the command line means: a number is a process, all else a region.
    pub(super) fn find(arguments: &PublishArguments) -> Result<Self, SnapshotError> {
        if let Ok(pid) = arguments.target.parse() {
            let asked = match arguments.memory.is_empty() {
                true => vec!["heap".to_owned(), "anon".to_owned()],
                false => arguments.memory.clone(),
            };
            let wanted = asked.iter().map(|text| Wanted::parse(text)).collect::<Result<_, _>>()?;
            let name = arguments.name.clone().unwrap_or(format!("pid-{pid}"));
            return Ok(Self { pid, name, wanted, description: None });
        }
        if !arguments.memory.is_empty() {
            let text = "--memory is for processes: a region says itself where it lies";
            return Err(SnapshotError::Asked(text.to_owned()));
        }
        let place = &arguments.format.place;
        let own = rustix::process::geteuid().as_raw();
        let name = arguments.target.strip_prefix("/snapshot/").unwrap_or(&arguments.target);
        let is_it = |it: &Listed| it.name == name && it.uid == own;
        let found = listed(place)?.into_iter().find(is_it).ok_or_else(|| {
            SnapshotError::Asked(format!(
                "{name} is neither a process id nor a region of yours; `heliostat snapshot list`"
            ))
        })?;
        Self::of_region(arguments, found.pid as i32, name, &attached(place, name, None)?)
    }

    fn of_region(
        arguments: &PublishArguments,
        pid: i32,
        name: &str,
        region: &Attachment,
    ) -> Result<Self, SnapshotError> {
        let (start, len) = (region.address() as usize, region.shape().length as usize);
        if start == 0 {
            let text = format!("region {name} does not say where it lies in its program");
            return Err(SnapshotError::Asked(text));
        }
        let name = arguments.name.clone().unwrap_or(format!("{name}.outside"));
        let wanted = vec![Wanted::Range { start, len }];
        Ok(Self { pid, name, wanted, description: Some(region.description()) })
    }
}
