//! The parts of a program that are published: one named region each, following its mappings.

use std::ops::Range;

use heliostat_stub_snapshot::{
    publish_as, NamedRegion, Outside, Policy, PublishError, Published, Region, Settings,
};
use serde_json::{json, Value};

use super::choose::Chosen;
use super::target::Target;
use crate::snapshot::error::SnapshotError;

/// Most regions of one program: a session may have 64.
const PARTS_MAX: usize = 60;

struct Part {
    range: Range<usize>,
    region: NamedRegion,
}

/// All parts of one program.
pub(super) struct Parts {
    target: Target,
    settings: Settings,
    parts: Vec<Part>,
    has_warned: bool,
}

impl Parts {
    /// Parts of `target`, of whose versions the newest `keep` stay. There are none before `follow`.
    pub(super) fn new(target: Target, keep: usize) -> Self {
        let policy = Policy { keep: keep.max(1), ..Policy::default() };
        let colours = (keep as u32).saturating_add(2).clamp(4, 16);
        let settings = Settings { colours, policy, ..Settings::default() };
        Self { target, settings, parts: Vec::new(), has_warned: false }
    }

    pub(super) fn pid(&self) -> i32 {
        self.target.pid
    }

    pub(super) fn name(&self) -> &str {
        &self.target.name
    }

    /// Bytes of all regions.
    pub(super) fn promised(&self) -> u64 {
        self.parts.iter().map(|part| part.range.len() as u64).sum()
    }

    pub(super) fn regions(&mut self) -> impl Iterator<Item = &mut Region> {
        self.parts.iter_mut().map(|part| &mut *part.region)
    }

    /// Names of the regions that are copied whole, or nearly so, for every version.
    pub(super) fn whole(&self) -> impl Iterator<Item = &str> {
        let whole = self.parts.iter().filter(|part| part.region.engine() == "whole");
        whole.map(|part| part.region.name().as_str())
    }

    /// What came of each region, for programs.
    pub(super) fn described<'a>(
        &'a self,
        versions: &'a [Result<Published, PublishError>],
    ) -> impl Iterator<Item = Value> + 'a {
        self.parts.iter().zip(versions).map(|(part, version)| {
            json!({
                "name": part.region.name().as_str(),
                "address": part.range.start,
                "bytes": part.range.len(),
                "generation": part.region.generation(),
                "engine": part.region.engine(),
                "number": version.as_ref().ok().map(|it| it.number),
                "error": version.as_ref().err().map(|it| it.to_string()),
            })
        })
    }

    /// Looks at what is mapped now: what is not chosen any more, or has outgrown its region, loses
    /// its name, what is new gets one.
    pub(super) fn follow(&mut self, outside: &Outside) -> Result<(), SnapshotError> {
        let pid = self.target.pid;
        let mappings = outside.mappings();
        let mappings = mappings.map_err(|error| SnapshotError::Outside { pid, error })?;
        let wanted = self.target.wanted.iter();
        let mut chosen: Vec<Chosen> = wanted.flat_map(|it| it.choose(&mappings)).collect();
        if self.target.wanted.len() > 1 {
            // Several parts cannot all have the one name.
            let label = |it: &Chosen| Some(format!("{:#x}", it.range.start));
            chosen.iter_mut().for_each(|it| it.label = it.label.take().or_else(|| label(it)));
        }
        self.parts.retain(|part| {
            let known = &part.range;
            let meets = |it: &&Chosen| it.range.start < known.end && known.start < it.range.end;
            // A heap was given room: it is outgrown once it has used that up.
            let is_outgrown = |it: &Chosen| is_heap(it) && it.used_end > known.end;
            let mut met = chosen.iter().filter(meets).peekable();
            met.peek().is_some() && !met.any(is_outgrown)
        });
        self.add(outside, &chosen)
    }

    fn add(&mut self, outside: &Outside, chosen: &[Chosen]) -> Result<(), SnapshotError> {
        let mut chosen: Vec<Chosen> = chosen.to_vec();
        chosen.sort_by_key(|it| std::cmp::Reverse(it.range.len()));
        for it in chosen {
            let Some((range, label)) = self.missing(&it) else { continue };
            if self.parts.len() == PARTS_MAX {
                if !std::mem::replace(&mut self.has_warned, true) {
                    eprintln!("heliostat: only the {PARTS_MAX} largest ranges are published");
                }
                break;
            }
            self.publish(outside, range, label)?;
        }
        match self.parts.is_empty() {
            true => Err(SnapshotError::Asked(format!(
                "process {} has no such memory; `heliostat snapshot memory {0}` shows what it has",
                self.target.pid
            ))),
            false => Ok(()),
        }
    }

    /// What of a range has no region yet: all of it, or what was mapped below or above one.
    fn missing(&self, chosen: &Chosen) -> Option<(Range<usize>, Option<String>)> {
        let mut range = chosen.range.clone();
        for part in &self.parts {
            let known = &part.range;
            if known.start <= range.start && range.start < known.end {
                range.start = known.end;
            }
            if known.start < range.end && range.end <= known.end {
                range.end = known.start;
            }
        }
        let is_all = range == chosen.range;
        // A heap is one region: it is replaced when it has outgrown it, and not before.
        let is_missing = range.start < range.end && (is_all || !is_heap(chosen));
        let by_address = || Some(format!("{:#x}", range.start));
        let label = if is_all { chosen.label.clone() } else { by_address() };
        is_missing.then_some((range, label))
    }

    fn publish(
        &mut self,
        outside: &Outside,
        range: Range<usize>,
        label: Option<String>,
    ) -> Result<(), SnapshotError> {
        let pid = self.target.pid;
        let region = outside.region(range.start, range.len(), self.settings);
        let mut region = region.map_err(|error| SnapshotError::Outside { pid, error })?;
        let own = json!({ "heliostat.outside": 1, "pid": pid, "address": range.start });
        let own = own.to_string().into_bytes();
        region.describe(self.target.description.as_deref().unwrap_or(&own));
        let name = match label {
            Some(label) => format!("{}/{label}", self.target.name),
            None => self.target.name.clone(),
        };
        let named = publish_as(&name, region);
        let region = named.map_err(|error| SnapshotError::Region { name, error })?;
        self.parts.push(Part { range, region });
        Ok(())
    }
}

fn is_heap(chosen: &Chosen) -> bool {
    chosen.label.as_deref() == Some("heap")
}
