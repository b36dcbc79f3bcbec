//! What the kernel asks, one method each: numbers become names, and answers become attributes.

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use heliostat_names::{Access, Bytes, Found, NameFault, Names};

use crate::attributes::Owner;
use crate::nodes::{Node, Nodes};
use crate::open::{Open, OpenFiles};

/// How long the kernel may believe what a name stands for: not at all, it asks each time.
const NAME: Duration = Duration::ZERO;
/// The same of what never changes: a constant file's length, the folders at the root.
const CONSTANT: Duration = Duration::from_secs(60);
/// The number that a folder's line has: each name gets its own once it is looked up.
const UNKNOWN: INodeNo = INodeNo(0xffff_ffff);
/// Longest part of a path.
const NAME_BYTES_MAX: u32 = 255;
/// Block that statfs(2) counts in.
const BLOCK: u32 = 4096;

/// The names of a node, as the kernel asks for files.
pub(crate) struct NameFiles {
    names: Arc<Names>,
    owner: Owner,
    nodes: Nodes,
    open: OpenFiles,
}

impl NameFiles {
    /// Nothing looked up yet.
    pub(crate) fn new(names: Arc<Names>, is_for_all: bool) -> Self {
        let (nodes, open) = (Nodes::new(), OpenFiles::default());
        Self { names, owner: Owner::new(is_for_all), nodes, open }
    }

    fn node(&self, number: INodeNo) -> Result<Node, NameFault> {
        self.nodes.node(number.0).ok_or(NameFault::Stale)
    }

    fn find(&self, parent: INodeNo, name: &OsStr) -> Result<(FileAttr, Duration), NameFault> {
        let path = self.node(parent)?.path.with(name.to_str().ok_or(NameFault::NotFound)?)?;
        let found = self.names.look(&path)?;
        let file = match &found {
            Found::Folder => None,
            Found::File(file) => Some(file.facts()),
        };
        let is_lasting = file.is_none() && parent.0 == crate::nodes::ROOT;
        let number = self.nodes.tell(path, found);
        let attributes = match &file {
            None => self.owner.folder(number),
            Some(facts) => self.owner.file(number, facts),
        };
        Ok((attributes, if is_lasting { CONSTANT } else { NAME }))
    }

    /// What a name is now, and for how long that holds.
    fn attributes(
        &self,
        number: INodeNo,
        open: Option<FileHandle>,
    ) -> Result<(FileAttr, Duration), NameFault> {
        let node = self.node(number)?;
        let Some(file) = node.file else { return Ok((self.owner.folder(number.0), CONSTANT)) };
        let facts = file.facts();
        if facts.is_constant {
            return Ok((self.owner.file(number.0, &facts), CONSTANT));
        }
        let mut now = facts;
        match open.and_then(|open| self.open.file(open.0)) {
            Some(open) => now.bytes = open.size()?,
            None => match self.names.look(&node.path)? {
                Found::File(file) if file.facts().key == now.key => now = file.facts(),
                _ => return Err(NameFault::Stale),
            },
        }
        Ok((self.owner.file(number.0, &now), NAME))
    }

    fn open_file(
        &self,
        number: INodeNo,
        flags: OpenFlags,
    ) -> Result<(FileHandle, FopenFlags), NameFault> {
        let file = self.node(number)?.file.ok_or(NameFault::Folder)?;
        let access = match flags.acc_mode() {
            OpenAccMode::O_RDONLY => Access::Read,
            OpenAccMode::O_WRONLY => Access::Write,
            OpenAccMode::O_RDWR => Access::Both,
        };
        let open = self.open.add(Open::File(file.open(access)?.into()))?;
        // Others change what is not constant, past the kernel: it must not keep it.
        let way = match file.facts().is_constant {
            true => FopenFlags::FOPEN_KEEP_CACHE,
            false => FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES,
        };
        Ok((FileHandle(open), way))
    }

    fn open_folder(&self, number: INodeNo) -> Result<FileHandle, NameFault> {
        let entries = self.names.list(&self.node(number)?.path)?;
        Ok(FileHandle(self.open.add(Open::Folder(entries.into()))?))
    }

    fn bytes(&self, open: FileHandle) -> Result<Arc<dyn Bytes>, NameFault> {
        self.open.file(open.0).ok_or(NameFault::Stale)
    }

    fn read_bytes(&self, open: FileHandle, offset: u64, count: u32) -> Result<Vec<u8>, NameFault> {
        let file = self.bytes(open)?;
        let mut bytes = vec![0; count as usize];
        let read = file.read_at(offset, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    fn resize(&self, number: INodeNo, bytes: u64) -> Result<(), NameFault> {
        self.node(number)?.file.ok_or(NameFault::Folder)?.resize(bytes)
    }
}

fn errno(error: &NameFault) -> Errno {
    Errno::from_i32(error.errno())
}

impl Filesystem for NameFiles {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // An opening that would empty a file is told from truncate(2): a region is like a disk. And what
        // passes the kernel's cache may be mapped all the same. A kernel without either serves, too.
        let _ = config.add_capabilities(InitFlags::FUSE_ATOMIC_O_TRUNC);
        let _ = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        let _ = config.set_max_write(1 << 20);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.find(parent, name) {
            Ok((attributes, holds)) => {
                reply.entry_with_ttls(&holds, &NAME, &attributes, Generation(0));
            }
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn forget(&self, _: &Request, number: INodeNo, times: u64) {
        self.nodes.forget(number.0, times);
    }

    fn getattr(&self, _: &Request, number: INodeNo, open: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(number, open) {
            Ok((attributes, holds)) => reply.attr(&holds, &attributes),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        bytes: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        open: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if mode.is_some() || user.is_some() || group.is_some() {
            return reply.error(Errno::EPERM);
        }
        // Times are nobody's to set, and setting them is no reason to fail.
        let done = bytes.map_or(Ok(()), |bytes| self.resize(number, bytes));
        match done.and_then(|()| self.attributes(number, open)) {
            Ok((attributes, holds)) => reply.attr(&holds, &attributes),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.open_file(number, flags) {
            Ok((open, way)) => reply.opened(open, way),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        open: FileHandle,
        offset: u64,
        count: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.read_bytes(open, offset, count) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        open: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.bytes(open).and_then(|file| file.write_at(offset, bytes)) {
            // What comes in one request is far shorter than this counts.
            Ok(written) => reply.written(written as u32),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, open: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.bytes(open).and_then(|file| file.synchronize()) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        open: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.open.remove(open.0);
        reply.ok();
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.open_folder(number) {
            Ok(open) => reply.opened(open, FopenFlags::empty()),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        open: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let Some(entries) = self.open.folder(open.0) else { return reply.error(Errno::EBADF) };
        let both = [(number, FileType::Directory, "."), (UNKNOWN, FileType::Directory, "..")];
        let named = entries.iter().map(|entry| match entry.is_folder {
            true => (UNKNOWN, FileType::Directory, entry.name.as_str()),
            false => (UNKNOWN, FileType::RegularFile, entry.name.as_str()),
        });
        // Each line says where to go on behind it.
        let all = both.into_iter().chain(named).zip(1..);
        let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
        for ((number, kind, name), next) in all.skip(skipped) {
            if reply.add(number, next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        open: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.open.remove(open.0);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(0, 0, 0, 0, 0, BLOCK, NAME_BYTES_MAX, BLOCK);
    }

    fn create(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        // Names are made by the programs whose they are, and end with them.
        reply.error(Errno::EPERM);
    }

    fn mknod(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn mkdir(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn unlink(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn rmdir(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn rename(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: INodeNo,
        _: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EPERM);
    }
}
