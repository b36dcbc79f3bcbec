//! How sessions come to areas: what they may, and by which way.
//!
//! The direct way goes to who comes first. Who comes when as many have it as may is served by a loop,
//! and told why; a handle stays what it is until it is closed.

use heliostat_abi::name::ObjectId;
use heliostat_abi::store::{Alone, AreaRights, Spill, Way, WayWanted};

use crate::areas::{Area, Areas, Asker, Effect, Handle, Key, Stage};
use crate::refusal::{Reason, Refusal};

/// How an area is to be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opening {
    /// What the handle is to allow.
    pub rights: AreaRights,
    /// By which way.
    pub way: WayWanted,
    /// Whether no other session may write it.
    pub alone: Alone,
    /// Why the session is not trusted with the device, if it is not.
    pub untrusted: Option<Spill>,
    /// Whether the configuration allows it, whatever the owner of the area says.
    pub is_allowed: bool,
}

impl Opening {
    /// By a server loop, as far as the owner allows it.
    pub fn by_loop(rights: AreaRights) -> Opening {
        let (way, alone) = (WayWanted::Emulated, Alone::No);
        Opening { rights, way, alone, untrusted: None, is_allowed: false }
    }
}

impl Areas {
    /// Gives a session a handle on an area. The caller has checked the rights of the configuration.
    ///
    /// # Errors
    /// No area has the name, it is not there yet or no longer, its owner does not allow that, a limit
    /// is reached, the way is not to be had, or the session was revoked.
    pub fn open(
        &mut self,
        asker: &Asker,
        key: &Key,
        opening: &Opening,
        effects: &mut Vec<Effect>,
    ) -> Result<(ObjectId, Way), Refusal> {
        self.revoked.check(asker.session)?;
        let id = self.resolve(key).ok_or(Reason::NotFound)?;
        let area = self.areas.get(id).ok_or(Reason::NotFound)?;
        let allowed = allowed(area, asker, opening);
        let wanted = opening.rights;
        match area.stage {
            // Nobody learns of names by being told that they are busy.
            _ if allowed.is_empty() => return Err(Reason::NotFound.into()),
            _ if !allowed.have(wanted) => return Err(Reason::Denied { wanted, allowed }.into()),
            Stage::Making(_) => return Err(Reason::NotFound.into()),
            Stage::Ending(_) | Stage::Deleting(_) => return Err(Reason::Ending.into()),
            _ => {}
        }
        if wanted.have(AreaRights::WRITE) && self.has_left_writes(area) {
            return Err(Reason::Busy.into());
        }
        self.check_alone(area, asker.session, opening)?;
        let way = self.way(area, opening);
        match way {
            Way::Emulated(why) if opening.way == WayWanted::Direct => {
                return Err(Reason::NotDirect(why).into());
            }
            _ => {}
        }
        let (alone, is_closing, is_left) = (opening.alone.shuts_out(), false, false);
        let handle = Handle { area: id, rights: wanted, way, alone, is_closing, is_left };
        let session = asker.session;
        let handle = self.handles.grant(session, asker.holder, handle)?;
        if let Some(area) = self.areas.get_mut(id) {
            area.handles.insert(handle);
        }
        match way {
            Way::Direct => self.direct.0 += 1,
            Way::Emulated(_) => {
                effects.push(Effect::Open { session, handle, area: id, rights: wanted });
            }
        }
        Ok((handle, way))
    }

    /// Whether a loop may still write what a session has left that has ended: it must not come after what
    /// the next one finds there and writes.
    fn has_left_writes(&self, area: &Area) -> bool {
        let mut its = area.handles.iter().filter_map(|handle| self.handles.get(*handle));
        its.any(|held| held.is_left && held.rights.have(AreaRights::WRITE))
    }

    /// Refuses whom a session shuts out that has the area alone, and who would shut others out that may
    /// write it. What they have given back may be under way still: it is over soon.
    fn check_alone(
        &self,
        area: &Area,
        session: ObjectId,
        opening: &Opening,
    ) -> Result<(), Refusal> {
        let (mut writers, mut first) = (0, None);
        for handle in &area.handles {
            let Some(held) = self.handles.get(*handle) else { continue };
            let whose = self.handles.session(*handle).unwrap_or_default();
            let is_own = whose == session;
            let excludes = held.alone && !(is_own && opening.alone != Alone::Yes);
            let is_shut_out = opening.alone.shuts_out() || changes(opening.rights);
            let is_writer = opening.alone.shuts_out() && !is_own && changes(held.rights);
            match (excludes && is_shut_out, is_writer) {
                (true, _) | (_, true) if held.is_closing => return Err(Reason::Busy.into()),
                (true, _) => return Err(Reason::HasAlone { session: whose }.into()),
                (_, true) => {
                    writers += 1;
                    first = first.or(Some(whose));
                }
                _ => {}
            }
        }
        match first {
            Some(session) => Err(Reason::HasWriters { session, count: writers }.into()),
            None => Ok(()),
        }
    }

    /// By which way a handle on an area goes that is opened now.
    fn way(&self, area: &Area, opening: &Opening) -> Way {
        let why = match (opening.way, opening.untrusted) {
            (WayWanted::Emulated, _) => Spill::NotWanted,
            (_, Some(why)) => why,
            _ if area.rate.per_second > 0 => Spill::HasRate,
            _ if area.stage != Stage::Live => Spill::Changing,
            _ if self.direct.0 >= self.direct.1 => Spill::AllTaken,
            _ => return Way::Direct,
        };
        Way::Emulated(why)
    }

    /// Refuses what would take bytes from who has an area directly.
    pub(crate) fn check_not_held(&self, id: ObjectId) -> Result<(), Refusal> {
        let Some(area) = self.areas.get(id) else { return Ok(()) };
        let way = |handle| self.handles.get(handle).map(|held| held.way);
        let mut direct = area.handles.iter().filter(|it| way(**it) == Some(Way::Direct));
        let Some(first) = direct.next() else { return Ok(()) };
        let session = self.handles.session(*first).unwrap_or_default();
        Err(Reason::Held { session, count: 1 + direct.count() }.into())
    }
}

/// Whether who has these changes an area's bytes, or takes them.
fn changes(rights: AreaRights) -> bool {
    rights.have(AreaRights::WRITE) || rights.have(AreaRights::MANAGE)
}

/// What a session may do with an area.
fn allowed(area: &Area, asker: &Asker, opening: &Opening) -> AreaRights {
    let is_own = asker.is_user && asker.uid == area.key.uid;
    match is_own || opening.is_allowed {
        true => AreaRights::ALL,
        false => area.others,
    }
}
