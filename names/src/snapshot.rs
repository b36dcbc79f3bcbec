//! `/snapshot`: regions as folders of the versions that are alive, each as a file of its bytes.
//!
//! A region that was looked at here once stays attached to: its newest version is read from its memory
//! also after its producer has died, and while there is no control plane.

mod attached;
mod version;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::brief::Brief;
use crate::path::whose;
use crate::shelf::{Place, Shelf};
use crate::status::{list, Status};
use crate::text::{lines, text};
use crate::{Entry, Found, NameFault};
use attached::{AttachedRegion, AttachedRegions};
use version::VersionFile;

/// What stands before a version's number where a region has a name that is the number.
const VERSION: char = '@';
/// The newest version.
const CURRENT: &str = "current";
/// What is known of the region, as a text.
const ABOUT: &str = "@about";

/// A user and a name.
type Key = (u32, String);

/// Versions by region.
pub(crate) struct VersionNames {
    own: u32,
    attached: AttachedRegions,
    brief: Brief,
}

impl VersionNames {
    /// The regions as user `own` sees them.
    pub(crate) fn new(own: u32) -> Self {
        Self { own, attached: AttachedRegions::new(own), brief: Brief::default() }
    }

    /// Returns what a path stands for.
    pub(crate) fn look(&self, status: &Status, path: &[String]) -> Result<Found, NameFault> {
        if path.is_empty() {
            return Ok(Found::Folder);
        }
        // Whose producer has died may have another at any moment.
        let told = match self.shelf(status, self.attached.has_deserted()) {
            // What is attached to needs nobody else.
            Err(NameFault::Broken(why)) => self.known().ok_or(NameFault::Broken(why))?,
            told => told?,
        };
        match self.look_in(&told, path) {
            Err(NameFault::NotFound) => self.look_in(&self.shelf(status, true)?, path),
            found => found,
        }
    }

    /// Returns what lies in a folder.
    pub(crate) fn list(&self, status: &Status, path: &[String]) -> Result<Vec<Entry>, NameFault> {
        let shelf = self.shelf(status, true)?;
        let mut found = BTreeMap::new();
        let entries = match shelf.place(path)? {
            Place::Thing(_) => Vec::new(),
            Place::Folder(_) => shelf.list(path)?,
        };
        // A region is a folder of its own name: it needs no other.
        let named = entries.into_iter().filter(|entry| entry.name != crate::shelf::ITSELF);
        found.extend(named.map(|entry| (entry.name, true)));
        if let Place::Thing(generation) | Place::Folder(Some(generation)) = shelf.place(path)? {
            let region = self.region(path, *generation)?;
            let numbers = region.attachment.alive();
            let newest = numbers.last().map(|_| CURRENT.to_owned());
            for name in numbers.iter().map(u64::to_string).chain(newest) {
                let name =
                    if found.contains_key(&name) { format!("{VERSION}{name}") } else { name };
                found.insert(name, false);
            }
            found.insert(ABOUT.to_owned(), false);
        }
        Ok(found.into_iter().map(|(name, is_folder)| Entry { name, is_folder }).collect())
    }

    fn look_in(&self, shelf: &Shelf<u64>, path: &[String]) -> Result<Found, NameFault> {
        match shelf.place(path) {
            Ok(_) => return Ok(Found::Folder),
            Err(NameFault::NotFound) => {}
            Err(error) => return Err(error),
        }
        let Some((last, folder)) = path.split_last() else { return Ok(Found::Folder) };
        let generation = match shelf.place(folder) {
            Ok(Place::Thing(generation) | Place::Folder(Some(generation))) => *generation,
            _ => return Err(NameFault::NotFound),
        };
        let region = self.region(folder, generation)?;
        if last == ABOUT {
            return Ok(about(&region));
        }
        self.version(region, last.strip_prefix(VERSION).unwrap_or(last))
    }

    /// The version of a region that a name stands for.
    fn version(&self, region: AttachedRegion, name: &str) -> Result<Found, NameFault> {
        let file = match name.parse() {
            Ok(number) => VersionFile::numbered(region, number)?,
            Err(_) if name == CURRENT => VersionFile::newest(region, &self.brief)?,
            Err(_) => return Err(NameFault::NotFound),
        };
        Ok(file.found())
    }

    fn region(&self, folder: &[String], generation: u64) -> Result<AttachedRegion, NameFault> {
        let (user, parts) = whose(folder, self.own);
        self.attached.region((user, parts.join("/")), generation)
    }

    /// All regions with their generations: those that the control plane names, and those attached to.
    fn shelf(&self, status: &Status, is_new: bool) -> Result<Shelf<u64>, NameFault> {
        let told = if is_new { status.now()? } else { status.recent()? };
        let mut regions: BTreeMap<Key, u64> = self.attached.kept().into_iter().collect();
        regions.extend(list(&told, "regions").iter().map(read));
        Ok(Shelf::new(self.own, regions.into_iter()))
    }

    /// Those attached to, if there is any.
    fn known(&self) -> Option<Shelf<u64>> {
        let kept = self.attached.kept();
        (!kept.is_empty()).then(|| Shelf::new(self.own, kept.into_iter()))
    }
}

/// A region as the control plane lists it.
fn read(entry: &Value) -> (Key, u64) {
    let user = entry["uid"].as_u64().and_then(|uid| u32::try_from(uid).ok()).unwrap_or(u32::MAX);
    let name = entry["name"].as_str().unwrap_or_default();
    let name = name.strip_prefix(heliostat_abi::snapshot::region::PREFIX).unwrap_or(name);
    ((user, name.to_owned()), entry["generation"].as_u64().unwrap_or(0))
}

fn about(region: &AttachedRegion) -> Found {
    let attachment = &region.attachment;
    let description = String::from_utf8_lossy(&attachment.description()).into_owned();
    let is_over = attachment.is_closed() || attachment.is_deserted();
    let fields = [
        ("bytes", attachment.shape().length.to_string()),
        ("generation", attachment.generation().to_string()),
        ("newest", attachment.latest_number().to_string()),
        ("producer", if is_over { "gone" } else { "there" }.to_owned()),
        ("description", description.replace(char::is_control, "?")),
    ];
    text(Some(region.user), lines(&fields))
}
