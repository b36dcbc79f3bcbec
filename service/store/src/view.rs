//! What people and loops are shown.

use heliostat_abi::code::Thing;
use heliostat_abi::name::ObjectId;
use heliostat_abi::store::{AreaKind, AreaRights, Way};
use heliostat_service_grant::{Quota, Rate};

use crate::areas::{Area, Areas, Handle, Key, Stage};
use crate::refusal::Refusal;

/// What one session has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Holding {
    /// Handles that it has.
    pub handles: usize,
    /// Those of them that are direct.
    pub direct: usize,
    /// Handles that it has given back, and that a loop has not let go yet.
    pub closing: usize,
}

/// A handle that a session has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HandleView {
    /// On which area.
    pub area: ObjectId,
    /// What it allows.
    pub rights: AreaRights,
    /// By which way.
    pub way: Way,
    /// Whether no other session may write it meanwhile.
    pub alone: bool,
}

/// An area, for status and for loops.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AreaView {
    /// Its number here, until the control plane ends.
    pub area: ObjectId,
    /// What names it in the store.
    pub generation: u64,
    /// Whose it is, and its name.
    pub key: Key,
    /// Its size.
    pub bytes: u64,
    /// What it is for.
    pub kind: AreaKind,
    /// What other users may.
    pub others: AreaRights,
    /// How fast it may be read and written.
    pub rate: Rate,
    /// Handles on it.
    pub handles: usize,
    /// Those of them that are direct.
    pub direct: usize,
    /// Whether a change is under way.
    pub is_changing: bool,
    /// The session that has it alone, if one has.
    pub alone: Option<ObjectId>,
}

impl Areas {
    /// What a session has.
    pub fn holding(&self, session: ObjectId) -> Holding {
        let all = self.handles.of(session).filter_map(|handle| self.handles.get(handle));
        all.fold(Holding::default(), |sum, handle| Holding {
            handles: sum.handles + usize::from(!handle.is_closing),
            direct: sum.direct + usize::from(!handle.is_closing && handle.way == Way::Direct),
            closing: sum.closing + usize::from(handle.is_closing),
        })
    }

    /// An area.
    pub fn view(&self, area: ObjectId) -> Option<AreaView> {
        self.areas.get(area).map(|found| self.view_of(area, found))
    }

    /// A handle that a session has and has not given back.
    ///
    /// # Errors
    /// It has no such handle, or was revoked.
    pub fn held(&self, session: ObjectId, handle: ObjectId) -> Result<HandleView, Refusal> {
        Ok(view_of_handle(&self.handle(session, handle)?))
    }

    /// The handles that a session has and has not given back.
    pub fn held_by(&self, session: ObjectId) -> impl Iterator<Item = HandleView> + '_ {
        let all = self.handles.of(session).filter_map(|handle| self.handles.get(handle));
        all.filter(|held| !held.is_closing).map(view_of_handle)
    }

    /// How many areas there are.
    pub fn count(&self) -> usize {
        self.areas.len()
    }

    /// All handles, and how many of them are direct.
    pub fn handle_count(&self) -> (usize, usize) {
        let (_, quota) = self.handles.quota();
        (usize::try_from(quota.used_by_all()).unwrap_or(usize::MAX), self.direct.0)
    }

    /// Some areas from an index on whose names begin so, of users that `sees` allows.
    pub fn list<'a>(
        &'a self,
        from: u32,
        beginning: &'a str,
        sees: impl Fn(u32) -> bool + 'a,
    ) -> impl Iterator<Item = AreaView> + 'a {
        let behind = self.areas.iter().filter(move |(id, _)| id.index >= from);
        let is_meant =
            move |area: &Area| sees(area.key.uid) && area.key.name.as_str().starts_with(beginning);
        behind.filter(move |(_, area)| is_meant(area)).map(|(id, area)| self.view_of(id, area))
    }

    /// Who has how much.
    pub fn quotas(&self) -> Vec<(Thing, &Quota)> {
        let (areas, bytes) = (self.areas.quota(), &self.bytes);
        vec![(Thing::Areas, areas), (Thing::AreaBytes, bytes), self.handles.quota()]
    }

    fn view_of(&self, area: ObjectId, found: &Area) -> AreaView {
        let way = |handle| self.handles.get(handle).map(|held| held.way);
        let direct = found.handles.iter().filter(|it| way(**it) == Some(Way::Direct)).count();
        let mut alone =
            found.handles.iter().filter(|it| self.handles.get(**it).is_some_and(|held| held.alone));
        AreaView {
            area,
            generation: found.generation,
            key: found.key.clone(),
            bytes: found.bytes,
            kind: found.kind,
            others: found.others,
            rate: found.rate,
            handles: found.handles.len(),
            direct,
            is_changing: found.stage != Stage::Live,
            alone: alone.next().and_then(|handle| self.handles.session(*handle)),
        }
    }
}

fn view_of_handle(held: &Handle) -> HandleView {
    let Handle { area, rights, way, alone, .. } = *held;
    HandleView { area, rights, way, alone }
}
