//! The store: where it lies, how much of it a user may have, and who is trusted with the device.

use std::path::PathBuf;

use heliostat_abi::file::delegated::SESSIONS_MAX;
use heliostat_abi::store::limits::{
    AREAS_MAX, AREA_HANDLES_MAX, DIRECT_HANDLES_MAX, WINDOW_BYTES_MAX,
};
use heliostat_abi::store::DurableBy;

use super::error::{ConfigError, Fault};
use super::field::{Field, Section};
use super::LOOPS_MAX;
use crate::rights::Subject;

/// Smallest window: room for a few operations.
const WINDOW_BYTES_MIN: u64 = 1 << 16;
/// Largest sum of one user's areas, and largest rate: more than any disk has.
const BYTES_MAX: u64 = 1 << 60;

/// Who is trusted with the device: whoever is can read and write all of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Trusted {
    /// The user that the control plane runs as, and root.
    #[default]
    Owner,
    /// Everybody.
    All,
    /// Nobody.
    Nobody,
    /// These users, and nobody else.
    Users(Vec<u32>),
}

/// How writes are made durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DurableWrites {
    /// As it was measured when the store was made; measured where that is not kept.
    #[default]
    Kept,
    /// As it is measured at each opening.
    Measured,
    /// So.
    By(DurableBy),
}

/// Whether what areas lose is given back to the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Discard {
    /// To a disk that takes it back.
    #[default]
    Auto,
    /// Of a file, too: it becomes a hole.
    Yes,
    /// Not.
    No,
}

/// The store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Store {
    /// The file or disk; without one there is no store until one is attached.
    pub path: Option<PathBuf>,
    /// How writes are made durable.
    pub durability: DurableWrites,
    /// Whether what areas lose is given back to the device, once it is zeroed.
    pub discard: Discard,
    /// Who is trusted with the device.
    pub direct: Trusted,
    /// Handles that are direct at once.
    pub direct_max: usize,
    /// Areas of one user.
    pub areas_per_user: usize,
    /// Bytes of areas of one user.
    pub bytes_per_user: u64,
    /// How fast one area is read and written; 0 is no limit. An area with a limit is never direct.
    pub bytes_per_second: u64,
    /// Handles of one session.
    pub handles_per_session: usize,
    /// Handles of one user's sessions.
    pub handles_per_user: usize,
    /// Server loops.
    pub loops: usize,
    /// Sessions that they serve at once; 0 switches them off.
    pub sessions: usize,
    /// Of these, one user's.
    pub sessions_per_user: usize,
    /// Largest window of one.
    pub window_bytes: u64,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            path: None,
            durability: DurableWrites::Kept,
            discard: Discard::Auto,
            direct: Trusted::Owner,
            // A descriptor in some program each.
            direct_max: 256,
            // Of one user half of what the node has, as of sessions.
            areas_per_user: AREAS_MAX / 2,
            bytes_per_user: BYTES_MAX,
            bytes_per_second: 0,
            handles_per_session: 1024,
            handles_per_user: AREA_HANDLES_MAX / 2,
            loops: 1,
            sessions: SESSIONS_MAX,
            sessions_per_user: SESSIONS_MAX / 2,
            window_bytes: WINDOW_BYTES_MAX,
        }
    }
}

impl Store {
    /// Whether somebody is trusted with the device; `is_owner` says that it is the control plane's own
    /// user, or root.
    pub fn is_trusted(&self, subject: &Subject, is_owner: bool) -> bool {
        match &self.direct {
            Trusted::Owner => is_owner,
            Trusted::All => true,
            Trusted::Nobody => false,
            Trusted::Users(users) => users.contains(&subject.uid),
        }
    }

    /// From the table `[store]`; `user` reads one user, by name or number.
    pub(super) fn read(
        field: &Field<'_>,
        user: impl Fn(&Field<'_>) -> Result<u32, ConfigError>,
    ) -> Result<Store, ConfigError> {
        let section = field.section(&[
            "path",
            "durability",
            "discard",
            "direct",
            "direct_max",
            "areas_per_user",
            "bytes_per_user",
            "bytes_per_second",
            "handles_per_session",
            "handles_per_user",
            "loops",
            "sessions",
            "sessions_per_user",
            "window_bytes",
        ])?;
        let mut store = Store { path: read_path(&section)?, ..Store::default() };
        if let Some(durability) = section.field("durability") {
            let ways = [DurableBy::Dsync, DurableBy::Flush, DurableBy::DsyncAlone];
            let [first, second, third] = ways.map(|way| (way.word(), DurableWrites::By(way)));
            let (kept, measured) =
                (("auto", DurableWrites::Kept), ("measure", DurableWrites::Measured));
            store.durability = durability.choice(&[kept, measured, first, second, third])?;
        }
        if let Some(discard) = section.field("discard") {
            let words = [("auto", Discard::Auto), ("yes", Discard::Yes), ("no", Discard::No)];
            store.discard = discard.choice(&words)?;
        }
        if let Some(direct) = section.field("direct") {
            store.direct = read_trusted(&direct, user)?;
        }
        let direct = (0, DIRECT_HANDLES_MAX as u64);
        section.number("direct_max", direct, &mut store.direct_max)?;
        let areas = (0, AREAS_MAX as u64);
        section.number("areas_per_user", areas, &mut store.areas_per_user)?;
        section.number("bytes_per_user", (0, BYTES_MAX), &mut store.bytes_per_user)?;
        section.number("bytes_per_second", (0, BYTES_MAX), &mut store.bytes_per_second)?;
        let handles = (1, AREA_HANDLES_MAX as u64);
        section.number("handles_per_session", handles, &mut store.handles_per_session)?;
        section.number("handles_per_user", handles, &mut store.handles_per_user)?;
        section.number("loops", (1, LOOPS_MAX as u64), &mut store.loops)?;
        let sessions = SESSIONS_MAX as u64;
        section.number("sessions", (0, sessions), &mut store.sessions)?;
        section.number("sessions_per_user", (1, sessions), &mut store.sessions_per_user)?;
        let window = (WINDOW_BYTES_MIN, WINDOW_BYTES_MAX);
        section.number("window_bytes", window, &mut store.window_bytes)?;
        Ok(store)
    }
}

/// A path that means the same from whichever folder the control plane is started.
fn read_path(section: &Section<'_>) -> Result<Option<PathBuf>, ConfigError> {
    let Some(field) = section.field("path") else { return Ok(None) };
    let path = PathBuf::from(field.text()?);
    match path.is_absolute() {
        true => Ok(Some(path)),
        false => Err(field.fault(Fault::Value(format!("{path:?} does not begin with a slash")))),
    }
}

fn read_trusted(
    field: &Field<'_>,
    user: impl Fn(&Field<'_>) -> Result<u32, ConfigError>,
) -> Result<Trusted, ConfigError> {
    let words = [("owner", Trusted::Owner), ("all", Trusted::All), ("none", Trusted::Nobody)];
    if let Ok(text) = field.text() {
        let found = words.into_iter().find(|(word, _)| *word == text).map(|(_, trusted)| trusted);
        let message = format!("{text:?} is not owner, all, none, nor a list of users");
        return found.ok_or_else(|| field.fault(Fault::Value(message)));
    }
    let users = field.list()?.iter().map(user).collect::<Result<_, _>>()?;
    Ok(Trusted::Users(users))
}
