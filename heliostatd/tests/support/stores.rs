//! Stores in files, or on the namespace of an NVMe device that the environment names (`make test-nvme`), and what
//! a session asks of them.

use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use heliostat_abi::code::Code;
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{Reply, Request};
use heliostat_abi::store::name::OWN_USER;
use heliostat_abi::store::{
    Alone, AreaKind, AreaName, AreaRights, Creation, ListedArea, NotDone, OpenedArea, StoreInfo,
    StoreReply, StoreRequest, WayWanted, Why,
};
use heliostat_backend_block::{Device, FileDevice, Options, Request as Asked};
use heliostat_backend_store::StoreOnDevice;
use heliostat_base::fd::OwnedFd;
use heliostat_storefile::{Format, Identity};
use rustix::process::Signal;

use super::{await_that, no_starts, place, Client, Daemon, WATCHDOG};

/// What sizes are multiples of in the stores of tests.
pub const GRAIN: u64 = 4096;
/// Areas that there may be in one.
pub const AREAS: u32 = 64;

/// The namespace that stores lie on, one at a time, instead of in files.
pub fn namespace() -> Option<PathBuf> {
    std::env::var_os("HELIOSTAT_NAMESPACE").map(PathBuf::from)
}

/// A store in a file, which is gone with the value.
pub struct StoreFile(pub PathBuf);

impl StoreFile {
    /// An empty store, with so many bytes for areas and a little more.
    pub fn new(bytes: u64) -> StoreFile {
        let file = StoreFile::blank(bytes + (128 << 10));
        file.format();
        file
    }

    /// A file of zeroes.
    pub fn blank(bytes: u64) -> StoreFile {
        if let Some(path) = namespace() {
            zero(&path);
            return StoreFile(path);
        }
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = place().join(format!("heliostat-store-{}-{number}", std::process::id()));
        let _guard = no_starts();
        FileDevice::create(&path, bytes).unwrap();
        StoreFile(path)
    }

    fn format(&self) {
        let _guard = no_starts();
        let device = FileDevice::open(&self.0, Options::default()).unwrap();
        let format = Format {
            identity: Identity([7; 16]),
            device_bytes: 0,
            grain_bytes: GRAIN as u32,
            areas_max: AREAS,
            is_zero: true,
        };
        drop(StoreOnDevice::format(device, &format).unwrap());
    }

    /// The configuration of a control plane that has it, with more in `[store]`.
    pub fn config(&self, more: &str) -> String {
        format!("[store]\npath = \"{}\"\ndurability = \"dsync\"\n{more}\n", self.0.display())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Which way its device is driven.
    pub fn driven_by(&self) -> &'static str {
        namespace().map_or("file", |_| "nvme_commands")
    }
}

impl Drop for StoreFile {
    fn drop(&mut self) {
        if namespace().is_none() {
            let _ = std::fs::remove_file(&self.0);
        }
    }
}

/// Has the device zero all of it, once the control plane that had it last has let go.
fn zero(path: &Path) {
    let mut opened = None;
    await_that("the namespace is free", || {
        opened = FileDevice::open(path, Options::default()).ok();
        opened.is_some()
    });
    let mut device = opened.unwrap();
    let bytes = device.geometry().bytes;
    device.begin(0, Asked::Zero { offset: 0, bytes }).unwrap();
    let mut ended = Vec::new();
    while ended.is_empty() {
        device.reap(Some(WATCHDOG), &mut ended).unwrap();
    }
    assert_eq!(ended[0].result, Ok(()));
}

impl Daemon {
    /// Stops it where it is, until it goes on.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// It goes on.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }
}

/// What is answered.
#[derive(Debug)]
pub enum Told {
    Done,
    Own(StoreReply, Vec<OwnedFd>),
    No(NotDone),
    Refused(Code),
}

impl Client {
    pub fn store(&mut self, request: &StoreRequest) -> Told {
        self.store_with(request, &[])
    }

    /// The answer, however long the store takes.
    pub fn store_with(&mut self, request: &StoreRequest, fds: &[RawFd]) -> Told {
        let (reply, fds) = self.ask_with(&Request::Own(request.encode()), fds);
        let mut answer = told(reply, fds);
        while is_later(&answer) {
            let (reply, fds) = self.ask(&Request::Own(StoreRequest::Outcome.encode()));
            answer = told(reply, fds);
        }
        answer
    }

    /// Why the store has not done it.
    pub fn store_no(&mut self, request: &StoreRequest) -> NotDone {
        match self.store(request) {
            Told::No(not_done) => not_done,
            other => panic!("{request:?}: {other:?}"),
        }
    }

    pub fn store_done(&mut self, request: &StoreRequest) {
        let told = self.store(request);
        assert!(matches!(told, Told::Done), "{request:?}: {told:?}");
    }

    pub fn store_info(&mut self) -> StoreInfo {
        match self.store(&StoreRequest::Store) {
            Told::Own(StoreReply::Store(info), _) => info,
            other => panic!("{other:?}"),
        }
    }

    /// Makes an area, by the way of the loop.
    pub fn create(&mut self, name: &str, bytes: u64) -> Result<OpenedArea, NotDone> {
        match self.store(&creation(name, bytes)) {
            Told::Own(StoreReply::Opened(opened), fds) => {
                assert_eq!(fds.len(), 0);
                Ok(opened)
            }
            Told::No(not_done) => Err(not_done),
            other => panic!("{other:?}"),
        }
    }

    /// Opens an area.
    pub fn open_area(
        &mut self,
        name: &str,
        rights: AreaRights,
        way: WayWanted,
    ) -> Result<(OpenedArea, Option<OwnedFd>), NotDone> {
        self.open_area_of(OWN_USER, name, rights, way)
    }

    pub fn open_area_of(
        &mut self,
        user: u32,
        name: &str,
        rights: AreaRights,
        way: WayWanted,
    ) -> Result<(OpenedArea, Option<OwnedFd>), NotDone> {
        let begun = std::time::Instant::now();
        loop {
            match self.store(&opening(user, name, rights, way)) {
                Told::Own(StoreReply::Opened(opened), mut fds) => {
                    return Ok((opened, fds.pop()));
                }
                // A loop has something left of a program that has ended.
                Told::No(no) if no.why == Why::Busy && begun.elapsed() < WATCHDOG => {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                Told::No(not_done) => return Err(not_done),
                other => panic!("{other:?}"),
            }
        }
    }

    /// A handle by which an area can be managed.
    pub fn managed(&mut self, name: &str) -> ObjectId {
        self.open_area(name, AreaRights::ALL, WayWanted::Emulated).unwrap().0.handle
    }

    pub fn areas(&mut self) -> Vec<ListedArea> {
        let (mut found, mut from) = (Vec::new(), 0);
        loop {
            let list = StoreRequest::List { user: OWN_USER, from, beginning: String::new() };
            match self.store(&list) {
                Told::Own(StoreReply::Listed { areas, next }, _) => {
                    found.extend(areas);
                    if next == heliostat_abi::store::reply::NO_MORE {
                        return found;
                    }
                    assert!(next > from);
                    from = next;
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

pub fn told(reply: Reply, fds: Vec<OwnedFd>) -> Told {
    match reply {
        Reply::Done => Told::Done,
        Reply::Refused { code, .. } => Told::Refused(code),
        Reply::Own(own) => match StoreReply::decode(&own).unwrap() {
            StoreReply::NotDone(not_done) => Told::No(not_done),
            reply => Told::Own(reply, fds),
        },
        other => panic!("{other:?}"),
    }
}

/// Whether a change takes longer than an answer may.
pub fn is_later(told: &Told) -> bool {
    matches!(told, Told::No(no) if no.why == Why::Later)
}

pub fn named(name: &str) -> AreaName {
    AreaName::parse(name).unwrap()
}

pub fn creation(name: &str, bytes: u64) -> StoreRequest {
    StoreRequest::Create(Creation {
        name: named(name),
        bytes,
        kind: AreaKind::Raw,
        others: AreaRights::NONE,
        rights: AreaRights::ALL,
        way: WayWanted::Emulated,
        alone: Alone::No,
    })
}

pub fn opening(user: u32, name: &str, rights: AreaRights, way: WayWanted) -> StoreRequest {
    StoreRequest::Open { user, name: named(name), rights, way, alone: Alone::No }
}

/// Gives a file to a control plane that runs.
pub fn attach(client: &mut Client, path: &Path) -> Told {
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    client.store_with(&StoreRequest::Attach, &[file.as_raw_fd()])
}

/// Names and sizes, in order of names.
pub fn sizes(areas: &[ListedArea]) -> Vec<(String, u64)> {
    let each = areas.iter().map(|area| (area.name.as_str().to_owned(), area.bytes));
    let mut all: Vec<_> = each.collect();
    all.sort();
    all
}

/// What is told where there is no store.
pub fn no_store(not_done: &NotDone) -> &str {
    assert_eq!(not_done.why, Why::NoStore);
    &not_done.text
}
