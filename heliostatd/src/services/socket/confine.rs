//! What stays within reach of a session that is handed to somebody who is not trusted.

use std::fmt;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Reply;
use heliostat_abi::session::restriction::Destination;
use heliostat_abi::socket::limits::CONFINED_NAMES_MAX;
use heliostat_abi::socket::Access;
use heliostat_service_socket::{Confined, Folder, Place, TooMany};
use rustix::fs::{readlink, statx, AtFlags, FileType, StatxFlags};

use crate::answer::Answer;
use crate::closer::ReceivedFd;
use crate::daemon::Daemon;
use crate::refused::{full, full_of, Refused};

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
        let held = HeldFolder(shown);
        let holder = self.holder(id)?;
        self.open_list(id)?;
        held.path().ok_or(Code::BadRecord)?;
        let folders = &self.services.socket.folders;
        folders.check(holder, 1).map_err(|it| full(Thing::ConfinedNames, it))?;
        let folder = Folder { place: Arc::new(held), reads, writes };
        self.open_list(id)?.add_folder(folder).map_err(too_many)?;
        self.services.socket.count_folder(id, holder);
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

/// A folder that was shown, held as long as it is within reach: by its path alone it would be whatever
/// is there later.
struct HeldFolder(ReceivedFd);

impl fmt::Debug for HeldFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.path())
    }
}

impl Place for HeldFolder {
    /// Where it lies, as the kernel names it here; nothing else has a path that holds others. Nothing is
    /// asked that a file system might have to answer.
    fn path(&self) -> Option<String> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let status = statx(&self.0, c"", flags, StatxFlags::TYPE | StatxFlags::NLINK).ok()?;
        let is_folder = FileType::from_raw_mode(status.stx_mode.into()) == FileType::Directory;
        let link = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        let path = readlink(link, Vec::new()).ok()?.into_string().ok()?;
        // One that was removed has a path that another folder may get.
        (is_folder && path.starts_with('/') && status.stx_nlink > 0).then_some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closer::Closer;
    use heliostat_service_grant::Holder;
    use std::fs::{create_dir, create_dir_all, remove_dir, remove_dir_all, rename, File};

    #[test]
    fn a_held_folder_is_found_where_it_was_moved_and_not_once_it_is_removed() {
        let name = format!("heliostatd-held-{}", std::process::id());
        let home = std::env::temp_dir().canonicalize().unwrap().join(name);
        let at = |name: &str| home.join(name);
        create_dir_all(at("data")).unwrap();
        let closer = Closer::start().of(Holder::user(1));
        let show = |name: &str| {
            let shown = File::open(at(name)).unwrap();
            HeldFolder(ReceivedFd::new(shown.into(), &closer))
        };
        let held = show("data");
        let text = |name: &str| Some(at(name).to_str().unwrap().to_owned());
        assert_eq!(held.path(), text("data"));
        rename(at("data"), at("moved")).unwrap();
        create_dir(at("data")).unwrap();
        assert_eq!(held.path(), text("moved"));
        remove_dir(at("moved")).unwrap();
        assert_eq!(held.path(), None);
        File::create(at("file")).unwrap();
        assert_eq!(show("file").path(), None);
        remove_dir_all(&home).unwrap();
    }
}
