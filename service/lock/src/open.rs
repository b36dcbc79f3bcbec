//! Names are opened and closed; what nobody has open is gone.

use heliostat_abi::code::Thing;
use heliostat_abi::lock::Shape;
use heliostat_abi::name::ObjectId;
use heliostat_service_grant::Full;

use crate::asker::Asker;
use crate::ending::Parting;
use crate::key::Key;
use crate::locks::{Effect, Locks};
use crate::object::Object;
use crate::refusal::{Reason, Refusal};

impl Locks {
    /// Gives a session a handle on what has a name, and makes it where nothing has. Returns the handle
    /// and what it is on.
    ///
    /// # Errors
    /// Something else has the name, a limit is reached, or the session was revoked.
    pub fn open(
        &mut self,
        asker: &Asker,
        key: Key,
        shape: Shape,
        now_ns: u64,
    ) -> Result<(ObjectId, ObjectId), Refusal> {
        self.revoked.check(asker.session)?;
        self.handles.check(asker.session)?;
        let object = match self.names.get(&key) {
            Some(object) => *object,
            None => self.make(asker, key, shape, now_ns)?,
        };
        let found = self.objects.get(object).map_or(shape, |object| object.shape);
        if found != shape {
            return Err(Reason::Shape { found }.into());
        }
        match self.handles.grant(asker.session, asker.holder, object) {
            Ok(handle) => {
                if let Some(object) = self.objects.get_mut(object) {
                    object.opened += 1;
                }
                Ok((handle, object))
            }
            Err(full) => {
                self.remove_if_unused(object);
                Err(full.into())
            }
        }
    }

    fn make(
        &mut self,
        asker: &Asker,
        key: Key,
        shape: Shape,
        now_ns: u64,
    ) -> Result<ObjectId, Refusal> {
        let made = self.objects.insert(asker.holder, Object::new(key.clone(), shape, now_ns));
        let object = made.map_err(|exceeded| Full::shared(Thing::Locks, exceeded))?;
        self.names.insert(key, object);
        Ok(object)
    }

    /// Takes a handle back. What was acquired by it is released, and what waits does not wait any more.
    /// What was granted and not told puts nothing right.
    ///
    /// # Errors
    /// The session has no such handle.
    pub fn close(
        &mut self,
        session: ObjectId,
        handle: ObjectId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        self.object_of(session, handle)?;
        let is_its = |ticket: &ObjectId| {
            self.tickets.get(*ticket).is_some_and(|ticket| ticket.handle == handle)
        };
        let tickets: Vec<_> = self.tickets.of(session).filter(is_its).collect();
        self.end_tickets(session, &tickets, Parting::Willing, effects);
        self.drop_handle(handle);
        Ok(())
    }

    /// Forgets a handle without tickets.
    pub(crate) fn drop_handle(&mut self, handle: ObjectId) {
        let Some(object) = self.handles.remove(handle) else { return };
        if let Some(object) = self.objects.get_mut(object) {
            object.opened = object.opened.saturating_sub(1);
        }
        self.remove_if_unused(object);
    }

    /// Who holds or waits has it open.
    fn remove_if_unused(&mut self, object: ObjectId) {
        if self.objects.get(object).is_some_and(|object| object.opened == 0) {
            if let Some(object) = self.objects.remove(object) {
                self.names.remove(&object.key);
            }
        }
    }
}
