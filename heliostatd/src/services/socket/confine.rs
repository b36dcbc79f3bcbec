//! What stays within reach of a session that is handed to somebody who is not trusted.

use std::os::fd::AsFd;

use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Reply;
use heliostat_abi::session::restriction::Destination;
use heliostat_abi::socket::limits::CONFINED_NAMES_MAX;
use heliostat_abi::socket::Access;
use heliostat_service_socket::{Confined, Folder, TooMany};
use rustix::fs::{fstat, readlink, FileType};
use std::os::fd::AsRawFd;

use crate::answer::Answer;
use crate::closer::ReceivedFd;
use crate::daemon::Daemon;
use crate::refused::{full_of, Refused};

impl Daemon {
    /// The list of a session that is not closed yet.
    fn open_list(&mut self, id: ObjectId) -> Result<&mut Confined, Refused> {
        self.session(id)?;
        let list = self.services.socket.confined.entry(id).or_default();
        match list.is_closed() {
            true => Err(Code::BadState.into()),
            false => Ok(list),
        }
    }

    /// Keeps addresses within reach.
    pub(super) fn keep_address(
        &mut self,
        id: ObjectId,
        access: Access,
        to: Destination,
    ) -> Result<Answer, Refused> {
        self.open_list(id)?.add_address(access, to).map_err(too_many)?;
        Ok(Reply::Done.into())
    }

    /// Keeps a folder's files within reach: shown is [the folder].
    pub(super) fn keep_folder(
        &mut self,
        id: ObjectId,
        shown: ReceivedFd,
        (reads, writes): (bool, bool),
    ) -> Result<Answer, Refused> {
        let path = folder_path(&shown);
        let list = self.open_list(id)?;
        let path = path.ok_or(Code::BadRecord)?;
        list.add_folder(Folder { path, reads, writes }).map_err(too_many)?;
        Ok(Reply::Done.into())
    }

    /// From now on nothing else is within reach.
    pub(super) fn confine(&mut self, id: ObjectId) -> Result<Answer, Refused> {
        self.open_list(id)?.close();
        self.tell_socket_session(id);
        Ok(Reply::Done.into())
    }
}

fn too_many(_: TooMany) -> Refused {
    full_of(Thing::ConfinedNames, Side::Session, CONFINED_NAMES_MAX as u64)
}

/// Where a folder lies, as the kernel names it here; nothing else has a path that holds others.
fn folder_path(shown: &impl AsFd) -> Option<String> {
    let status = fstat(shown).ok()?;
    if FileType::from_raw_mode(status.st_mode) != FileType::Directory {
        return None;
    }
    let link = format!("/proc/self/fd/{}", shown.as_fd().as_raw_fd());
    let path = readlink(link, Vec::new()).ok()?.into_string().ok()?;
    // One that was removed has a path that another folder may get.
    (path.starts_with('/') && status.st_nlink > 0).then_some(path)
}
