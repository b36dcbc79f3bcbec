//! What travels as a descriptor or a list: arenas, the region page, and which regions there are.

use std::rc::Rc;

use heliostat_abi::code::Code;
use heliostat_abi::memory::limits::REGIONS_MAX;
use heliostat_abi::memory::name::OWN_USER;
use heliostat_abi::memory::MemoryReply;
use heliostat_abi::name::ObjectId;
use heliostat_base::clock::monotonic_ns;
use heliostat_service_memory::Asker;

use super::requests::reply;
use crate::answer::Answer;
use crate::daemon::Daemon;
use crate::refused::{refuse, Refused};

impl Daemon {
    /// An arena of the asker's own user: [the arena].
    pub(super) fn memory_arena(
        &mut self,
        asker: &Asker,
        arena: ObjectId,
    ) -> Result<Answer, Refused> {
        let memory = &self.services.memory;
        let bytes = memory.grants.arena(asker, arena).map_err(refuse(asker.session))?;
        let fd = memory.arenas.get(&arena).ok_or(Code::Internal)?.fd.clone();
        Ok(Answer { fds: vec![fd], ..reply(&MemoryReply::Arena { bytes }) })
    }

    /// The page of all regions' words: [the page]. Who maps nothing has no use for it.
    pub(super) fn region_page(&mut self, asker: &Asker) -> Result<Answer, Refused> {
        if !asker.maps {
            return Err(Code::Denied.into());
        }
        let page: Rc<_> = self.services.memory.page.read_only.clone();
        let places = REGIONS_MAX as u64;
        Ok(Answer { fds: vec![page], ..reply(&MemoryReply::Page { places }) })
    }

    /// Some of the regions that the asker may see: its own user's, to root and the owner everybody's.
    pub(super) fn list_memory(
        &mut self,
        asker: &Asker,
        user: u32,
        from: u32,
        beginning: &str,
    ) -> Result<Answer, Refused> {
        let sees_all = self.sees_all_memory(asker);
        let sees = |uid: u32| {
            let is_meant = user == OWN_USER || uid == user;
            is_meant && (sees_all || (asker.is_user && uid == asker.uid))
        };
        let grants = &self.services.memory.grants;
        let (regions, next) = grants.list(from, beginning, monotonic_ns(), sees);
        Ok(reply(&MemoryReply::Listed { regions, next }))
    }
}
