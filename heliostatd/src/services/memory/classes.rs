//! How urgent is what sessions do on other nodes: by the rules, and by programs' word within them.

use heliostat_abi::cluster::Class;
use heliostat_abi::memory::MemoryRequest;
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Reply;
use heliostat_control::config::Scheme;
use heliostat_control::name::Name;
use heliostat_server_memory::MemoryOrder;

use crate::answer::Answer;
use crate::daemon::Daemon;
use crate::refused::Refused;

impl Daemon {
    /// A program says how urgent is what it does by a handle: no more than the rules let it.
    pub(super) fn choose_class(
        &mut self,
        session: ObjectId,
        handle: ObjectId,
        class: Class,
    ) -> Result<Answer, Refused> {
        if self.parts.config.scheme() != Scheme::None {
            let memory = &mut self.services.memory;
            let of = memory.across.classes.entry((session, handle)).or_default();
            of.chosen = class.min(of.most);
            let class = of.chosen;
            memory.tell(session, MemoryOrder::Class { session, handle, class });
        }
        Ok(Reply::Done.into())
    }

    /// How urgent is what a session will do by the handle that it asks for. Of a region that it asks for
    /// by its identity the name is unknown here.
    pub(super) fn class_of_request(
        &self,
        id: ObjectId,
        request: &MemoryRequest,
    ) -> Result<Class, Refused> {
        let name = match request {
            MemoryRequest::Map { name, .. } => Some(name),
            MemoryRequest::Allocate(wanted) => wanted.name.as_ref(),
            _ => None,
        };
        let subject = &self.session(id)?.peer.subject;
        Ok(self.class_between_nodes(subject, name.map(Name::from)))
    }
}
