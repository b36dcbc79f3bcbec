//! The memory that the control plane hands out: node page, reports, channels, texts.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::atomic::Ordering;

use heliostat_abi::code::{Native, Unheld, Unlogged, Unmapped, Unoffloaded};
use heliostat_abi::limits::REPORT_ENTRIES_MAX;
use heliostat_abi::name::ObjectId;
use heliostat_abi::offload::Group;
use heliostat_abi::session::node::{self, State};
use heliostat_abi::session::report::{self, OffloadCount};
use heliostat_abi::stream::channel;
use heliostat_abi::wire::Writer;
use heliostat_abi::VERSION;
use heliostat_base::alive;
use heliostat_base::mapping::{Access, MappingError, SharedMapping, Writers};
use heliostat_server_file::LeaseWord;
use rustix::fs::{self, MemfdFlags, Mode, OFlags, SealFlags};

/// The node page: written here only, read by every session.
pub struct NodePage {
    /// Mapped as long as the process lives: the kernel writes into it at its death.
    mapping: &'static SharedMapping,
    read_only: OwnedFd,
}

impl NodePage {
    /// A fresh page of this run of the control plane.
    pub fn create(boot: u64) -> io::Result<NodePage> {
        let (fd, mapping) =
            SharedMapping::create_for(c"heliostat-node", node::BYTES, Writers::CreatorOnly)
                .map_err(io::Error::other)?;
        let mut header = [0; 16];
        Writer::new(&mut header).u32(node::MAGIC).u32(u32::from(VERSION)).u64(boot);
        mapping.copy_in(0, &header).map_err(io::Error::other)?;
        let read_only = read_only(&OwnedFd::from(fd))?;
        Ok(NodePage { mapping: Box::leak(Box::new(mapping)), read_only })
    }

    /// The descriptor that sessions get.
    pub fn fd(&self) -> &OwnedFd {
        &self.read_only
    }

    /// Keeps the life word from now on. Leases are worth nothing without it.
    pub fn keep_alive(&self) -> io::Result<()> {
        alive::keep(self.mapping, node::LIFE).map_err(io::Error::other)
    }

    /// The word of a lease.
    pub fn lease_word(&self, id: ObjectId) -> LeaseWord {
        LeaseWord::new(self.mapping, id)
    }

    /// Tells all sessions that an address started or stopped being listened on.
    pub fn bump_registry(&self) {
        self.mapping.atomic_u32(node::REGISTRY).fetch_add(1, Ordering::Release);
    }

    /// Tells acceptors that a port has a new channel.
    pub fn bump_port(&self, port: ObjectId) {
        self.mapping.atomic_u32(node::port_word(port.index)).fetch_add(1, Ordering::Release);
    }

    /// Tells a producer that a consumer of its region joined or left.
    pub fn bump_region(&self, region: ObjectId) {
        self.mapping.atomic_u32(node::region_word(region.index)).fetch_add(1, Ordering::Release);
    }

    /// Tells everybody that cores are parted otherwise.
    pub fn set_partition(&self, generation: u32) {
        self.mapping.atomic_u32(node::PARTITION).store(generation, Ordering::Release);
    }

    /// Says what holds for a channel.
    pub fn set_channel(&self, id: ObjectId, state: State) {
        self.set(node::channel_word(id.index), id, state);
    }

    /// Says what holds for a session.
    pub fn set_session(&self, id: ObjectId, state: State) {
        self.set(node::session_word(id.index), id, state);
    }

    fn set(&self, offset: usize, id: ObjectId, state: State) {
        self.mapping.atomic_u32(offset).store(node::word_of(id, state), Ordering::Release);
    }
}

/// Of each group of calls for kernel cores: made there, made plainly, ns of a plain one, ns of one there.
pub type OffloadedGroups = [[u64; 4]; Group::ALL.len()];

/// One session's report, written by its stub and read here as foreign bytes.
pub struct Report(SharedMapping);

impl Report {
    /// A fresh report and the descriptor for the session.
    pub fn create() -> Result<(Report, OwnedFd), MappingError> {
        let (fd, mapping) = SharedMapping::create(c"heliostat-report", report::BYTES)?;
        let mut header = [0; 8];
        Writer::new(&mut header).u32(report::MAGIC).u32(u32::from(VERSION));
        // The region was just made of this length, so the copy is inside it.
        let _ = mapping.copy_in(0, &header);
        Ok((Report(mapping), fd.into()))
    }

    /// The session's counters as they stand.
    pub fn counters(&self) -> [u64; report::COUNTER_NAMES.len()] {
        std::array::from_fn(|place| {
            let offset = report::COUNTER_BASE + place * 8;
            self.0.atomic_u64(offset).load(Ordering::Relaxed)
        })
    }

    /// How many of the session's connections were or went native, in order of `Native::ALL`.
    pub fn reasons(&self) -> [u64; Native::ALL.len()] {
        std::array::from_fn(|place| {
            let offset = report::reason(Native::ALL[place]);
            self.0.atomic_u64(offset).load(Ordering::Relaxed)
        })
    }

    /// How many of its open files are or went native, in order of `Unmapped::ALL`.
    pub fn file_reasons(&self) -> [u64; Unmapped::ALL.len()] {
        std::array::from_fn(|place| {
            let offset = report::file_reason(Unmapped::ALL[place]);
            self.0.atomic_u64(offset).load(Ordering::Relaxed)
        })
    }

    /// How many of its flushes of durable files were waited for, in order of `Unheld::ALL`.
    pub fn unheld_reasons(&self) -> [u64; Unheld::ALL.len()] {
        std::array::from_fn(|place| {
            let offset = report::unheld_reason(Unheld::ALL[place]);
            self.0.atomic_u64(offset).load(Ordering::Relaxed)
        })
    }

    /// How many of its flushes of durable files went to the file, in order of `Unlogged::ALL`.
    pub fn unlogged_reasons(&self) -> [u64; Unlogged::ALL.len()] {
        std::array::from_fn(|place| {
            let offset = report::unlogged_reason(Unlogged::ALL[place]);
            self.0.atomic_u64(offset).load(Ordering::Relaxed)
        })
    }

    /// How many of its calls kernel cores did not make, in order of `Unoffloaded::ALL`.
    pub fn unoffloaded_reasons(&self) -> [u64; Unoffloaded::ALL.len()] {
        std::array::from_fn(|place| match Unoffloaded::ALL[place] {
            // It is none, and its place that of the first.
            Unoffloaded::None => 0,
            why => self.0.atomic_u64(report::unoffloaded_reason(why)).load(Ordering::Relaxed),
        })
    }

    /// What it tells of groups of calls for kernel cores.
    pub fn offloaded_groups(&self) -> OffloadedGroups {
        Group::ALL.map(|group| {
            std::array::from_fn(|place| {
                let first = report::offload_group(group, OffloadCount::Offloaded);
                self.0.atomic_u64(first + place * 8).load(Ordering::Relaxed)
            })
        })
    }

    /// The connections that the session reports.
    pub fn entries(&self) -> impl Iterator<Item = report::Entry> + '_ {
        let each = |index| {
            let mut bytes = [0; report::ENTRY_BYTES];
            self.0.copy_out(report::entry(index), &mut bytes).ok()?;
            report::Entry::decode(&bytes)
        };
        (0..self.places()).filter_map(each)
    }

    /// Places to look at for entries. Looking at those that were never used would give them memory.
    pub fn places(&self) -> usize {
        let told = self.0.atomic_u32(report::ENTRIES_USED).load(Ordering::Acquire) as usize;
        told.checked_sub(1).unwrap_or(REPORT_ENTRIES_MAX).min(REPORT_ENTRIES_MAX)
    }

    /// Why the program is native as a whole, if it is.
    pub fn whole(&self) -> Option<Native> {
        let number = self.0.atomic_u32(report::WHOLE).load(Ordering::Relaxed);
        let reason = Native::from_number(u8::try_from(number).ok()?)?;
        (reason != Native::None).then_some(reason)
    }
}

#[cfg(test)]
impl Report {
    /// As a stub lists a connection.
    pub fn write_entry(&self, place: usize, entry: &report::Entry) {
        self.0.copy_in(report::entry(place), &entry.encode()).unwrap();
    }

    /// As a stub counts.
    pub fn count(&self, counter: report::Counter) {
        self.0.atomic_u64(report::counter(counter)).fetch_add(1, Ordering::Relaxed);
    }
}

/// Memory of one channel, kept open until the channel is forgotten.
pub struct ChannelMemory {
    /// The file.
    pub fd: Rc<OwnedFd>,
    /// Streams in it.
    pub slots: u32,
    /// Bytes of one direction's ring.
    pub ring_bytes: u32,
}

impl ChannelMemory {
    /// Fresh memory with its header written. Pages exist once a stream writes them.
    pub fn create(id: ObjectId, slots: u32, ring_bytes: u32) -> Result<Self, MappingError> {
        let length = channel::bytes(slots, ring_bytes);
        let fd = SharedMapping::create_fd(c"heliostat-channel", length)?;
        let first = SharedMapping::from_fd(fd.as_raw_fd(), channel::SLOTS, Access::ReadWrite)?;
        let mut header = [0; 24];
        Writer::new(&mut header)
            .u32(channel::MAGIC)
            .u32(channel::VERSION)
            .u32(slots)
            .u32(ring_bytes)
            .u32(id.index)
            .u32(id.generation);
        // Mapped with this length a few lines above, so the copy is inside it.
        let _ = first.copy_in(0, &header);
        Ok(Self { fd: Rc::new(fd.into()), slots, ring_bytes })
    }
}

/// Another descriptor of a sealed file, for those who only read it. The seal already forbids new
/// writable mappings; this makes the mistake visible where it is made.
pub fn read_only(fd: &OwnedFd) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    Ok(fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// A text in a sealed file; reading it from the start needs no seek.
pub fn text(text: &str) -> io::Result<OwnedFd> {
    let name: &CStr = c"heliostat-text";
    let fd = fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut written = 0;
    while written < text.len() {
        written += rustix::io::pwrite(&fd, &text.as_bytes()[written..], written as u64)?;
    }
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    fs::fcntl_add_seals(&fd, seals)?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_page_cannot_be_written_through_its_descriptor() {
        let page = NodePage::create(7).unwrap();
        let raw = page.fd().as_raw_fd();
        assert!(SharedMapping::from_fd(raw, node::BYTES, Access::ReadWrite).is_err());
        let seen = SharedMapping::from_fd(raw, node::BYTES, Access::Read).unwrap();
        page.set_channel(ObjectId { index: 3, generation: 9 }, State::Active);
        let word = seen.atomic_u32(node::channel_word(3)).load(Ordering::Acquire);
        assert_eq!(node::state(word, 9), State::Active);
        assert_eq!(seen.atomic_u64(node::BOOT).load(Ordering::Acquire), 7);
    }

    #[test]
    fn a_freed_word_matches_neither_the_old_nor_the_next_owner() {
        let page = NodePage::create(7).unwrap();
        let id = ObjectId { index: 0, generation: 1 };
        page.set_session(id, State::Free);
        let word = page.mapping.atomic_u32(node::session_word(0)).load(Ordering::Relaxed);
        assert_eq!((node::state(word, 1), node::state(word, 2)), (State::Free, State::Free));
    }

    #[test]
    fn a_report_full_of_rubbish_yields_entries_or_nothing() {
        let (report, _fd) = Report::create().unwrap();
        for value in [0u8, 1, 0xff] {
            let rubbish = vec![value; report::BYTES - report::ENTRIES];
            report.0.copy_in(report::ENTRIES, &rubbish).unwrap();
            report.0.copy_in(report::ENTRIES_USED, &[value; 8]).unwrap();
            let _ = (report.entries().count(), report.whole());
        }
    }

    #[test]
    fn a_channel_has_its_full_length_and_header() {
        let id = ObjectId { index: 5, generation: 6 };
        let memory = ChannelMemory::create(id, 2, 16384).unwrap();
        let length = channel::bytes(2, 16384);
        let seen = SharedMapping::from_fd(memory.fd.as_raw_fd(), length, Access::Read).unwrap();
        let words: Vec<_> =
            (0..6).map(|place| seen.atomic_u32(place * 4).load(Ordering::Relaxed)).collect();
        assert_eq!(words, [channel::MAGIC, channel::VERSION, 2, 16384, 5, 6]);
    }
}
