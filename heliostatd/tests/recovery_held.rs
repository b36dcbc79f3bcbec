//! Recovery of durable files that never ends keeps nobody waiting but who wants that very log: files lie on a
//! file system whose server does not answer. And a log that others have had is left to a person.

mod support;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use heliostat_abi::store::name::OWN_USER;
use heliostat_abi::store::{AreaRights, StoreRequest, WayWanted, Why};
use heliostat_backend_block::{AreaDevice, Extents, FileDevice, Options, Run};
use heliostat_backend_durable::entry::Head;
use heliostat_backend_log::{Area, Log};
use heliostat_backend_store::StoreOnDevice;
use heliostat_base::call::{birth, Birth};
use heliostat_storefile::{Area as Kept, Create, Kind, Name};
use rustix::process::Signal;
use support::beside::{as_user, may_become_others, NEIGHBOUR};
use support::fuse::{self, Hanging};
use support::stores::{opening, StoreFile, GRAIN};
use support::{await_that, no_starts, place, Client, Daemon};

const LOG_BYTES: u64 = 64 << 10;
const LONG_AGO: Duration = Duration::from_secs(1000);

/// A folder that is gone with the value, a file system in it that answers no question of this kind, and a
/// control plane. The file system goes first: a thread that waits for such a server is not to be killed.
struct Scene {
    folder: PathBuf,
    hanging: Option<Hanging>,
    daemon: Option<Daemon>,
}

impl Scene {
    fn new(name: &str, hangs: &'static [u32]) -> Option<Scene> {
        if !may_become_others() {
            return None;
        }
        let folder = place().join(format!("heliostat-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let hanging = Hanging::mount(&folder.join("hanging"), hangs);
        if hanging.is_none() {
            eprintln!("skipped: no FUSE here");
        }
        let scene = Scene { folder, hanging, daemon: None };
        scene.hanging.is_some().then_some(scene)
    }

    fn hanging(&self) -> &Hanging {
        self.hanging.as_ref().unwrap()
    }

    fn start(&mut self, config: &str) {
        self.daemon = Some(Daemon::with(config, &[]));
    }

    /// Starts it with a store whose one log has an entry of a file that hangs, and waits for that.
    fn start_with_a_log_that_hangs(&mut self) -> StoreFile {
        let file = StoreFile::new(64 * LOG_BYTES);
        let guard = no_starts();
        let device = FileDevice::open(file.path(), Options::default()).unwrap();
        let mut store = StoreOnDevice::open(device, None).unwrap();
        let nowhere = Birth { device: 0, inode: 0, born: (0, 0) };
        leave(&mut store, 0, "a", &entry(&self.hanging().path("a"), nowhere));
        drop((store, guard));
        self.start(&file.config(""));
        await_that("recovery hangs", || self.hanging().waiting() > 0);
        file
    }

    fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().unwrap()
    }

    /// Lets go of who hangs, and ends the control plane.
    fn end(mut self) {
        drop(self.hanging.take());
        let mut daemon = self.daemon.take().unwrap();
        daemon.signal(Signal::TERM);
        await_that("the control plane ends", || daemon.ended().is_some());
    }

    /// A file that a crash has left empty.
    fn file(&self, name: &str) -> (PathBuf, Birth) {
        let path = self.folder.join(name);
        let file = File::create(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + LONG_AGO).unwrap();
        (path, birth(file.as_raw_fd()).unwrap().0)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        drop(self.hanging.take());
        drop(self.daemon.take());
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// What a program of an earlier run of the machine has left in a log.
fn entry(path: &Path, file: Birth) -> Vec<u8> {
    let path = path.as_os_str().as_bytes();
    let head = Head { boot: [1; 16], file, offset: 0, when: LONG_AGO.as_secs() as u32, path };
    [&head.encode()[..], path, b"kept"].concat()
}

/// Makes an area with a log that has one entry.
fn leave(store: &mut StoreOnDevice<FileDevice>, owner: u32, name: &str, entry: &[u8]) {
    make(store, owner, name);
    fill(store, owner, name, entry);
}

fn make(store: &mut StoreOnDevice<FileDevice>, owner: u32, name: &str) {
    let name = Name::new(name).unwrap();
    let create = Create { name, bytes: LOG_BYTES, owner, rights: 0, kind: Kind::Log };
    store.create(&create).unwrap();
}

/// Makes a log with one entry in an area.
fn fill(store: &mut StoreOnDevice<FileDevice>, owner: u32, name: &str, entry: &[u8]) {
    let mut areas = store.store().areas().iter();
    let its = |area: &&Kept| (area.owner, area.name.to_string()) == (owner, name.to_owned());
    let area = areas.find(its).unwrap().clone();
    let pieces = area.pieces(store.store().superblock(), 0, area.bytes).unwrap();
    let runs: Vec<Run> =
        pieces.iter().map(|it| Run { offset: it.offset, bytes: it.bytes }).collect();
    let device = store.device_mut().shared().device(Options::default()).unwrap();
    let device = AreaDevice::new(device, Extents::new(runs).unwrap()).unwrap();
    let all = Area { offset: 0, bytes: LOG_BYTES };
    let log = Log::create(Box::new(device), all, Default::default()).unwrap();
    log.append_sync(entry).unwrap();
    log.close().unwrap();
}

#[test]
fn a_log_in_a_file_whose_file_system_hangs_does_not_hold_up_the_control_plane() {
    let Some(mut scene) = Scene::new("log-held", &[fuse::LOOKUP]) else { return };
    let log = scene.hanging().path("aof.log");
    let config = format!("[[durable]]\nfiles = [\"*.aof\"]\nlog = \"{}\"\n", log.display());
    scene.start(&config);
    await_that("recovery hangs", || scene.hanging().waiting() > 0);
    scene.daemon().session();
    let path = scene.daemon().socket();
    as_user(NEIGHBOUR, || Client::connect(path.to_str().unwrap()).hello()).unwrap();
    scene.end();
}

#[test]
fn a_control_plane_that_was_killed_while_recovery_hung_is_followed_by_another() {
    let Some(mut scene) = Scene::new("killed-held", &[fuse::OPEN]) else { return };
    let _store = scene.start_with_a_log_that_hangs();
    scene.daemon().signal(Signal::KILL);
    await_that("its socket is closed", || scene.daemon().try_connect().is_err());
    let folder = scene.daemon().folder();
    let mut next = Command::new(env!("CARGO_BIN_EXE_heliostatd"));
    next.arg("--socket").arg(folder.join("control.sock"));
    next.arg("--config").arg(folder.join("config.toml"));
    let mut next = next.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // The thread of the first one lives on.
    await_that("it serves", || {
        assert_eq!(next.try_wait().unwrap(), None, "the first one has its socket still");
        let status = scene.daemon().try_connect().map(|_| scene.daemon().status());
        status.is_ok_and(|it| it["store"]["state"] == "open")
    });
    drop(scene.hanging.take());
    next.kill().unwrap();
    next.wait().unwrap();
}

#[test]
fn logs_in_areas_whose_files_hang_hold_up_neither_their_users_others_nor_other_users() {
    let Some(mut scene) = Scene::new("areas-held", &[fuse::OPEN]) else { return };
    let file = StoreFile::new(64 * LOG_BYTES);
    let guard = no_starts();
    let mut store =
        StoreOnDevice::open(FileDevice::open(file.path(), Options::default()).unwrap(), None)
            .unwrap();
    let nowhere = Birth { device: 0, inode: 0, born: (0, 0) };
    for name in ["a", "b"] {
        leave(&mut store, 0, name, &entry(&scene.hanging().path(name), nowhere));
    }
    let (own, born) = scene.file("own.aof");
    leave(&mut store, 0, "c", &entry(&own, born));
    let (others, born) = scene.file("others.aof");
    std::os::unix::fs::chown(&others, Some(NEIGHBOUR), None).unwrap();
    std::os::unix::fs::chown(&scene.folder, Some(NEIGHBOUR), None).unwrap();
    leave(&mut store, NEIGHBOUR, "a", &entry(&others, born));
    drop((store, guard));

    scene.start(&file.config(""));
    await_that("two recoveries hang", || scene.hanging().waiting() == 2);
    for path in [&own, &others] {
        await_that("the others end", || std::fs::read(path).unwrap() == b"kept");
    }
    let (mut client, _) = scene.daemon().session();
    let write = |name| opening(OWN_USER, name, AreaRights::WRITE, WayWanted::Any);
    assert_eq!(client.store_no(&write("a")).why, Why::Busy);
    client.open_area("a", AreaRights::READ, WayWanted::Emulated).unwrap();
    client.open_area("c", AreaRights::WRITE, WayWanted::Any).unwrap();
    let path = scene.daemon().socket();
    as_user(NEIGHBOUR, || {
        let mut client = Client::connect(path.to_str().unwrap());
        client.hello();
        client.open_area("a", AreaRights::WRITE, WayWanted::Any).unwrap();
        client.create("new", GRAIN).unwrap();
    });
    drop(client);
    assert_eq!(scene.daemon().visit().store_no(&StoreRequest::Detach).why, Why::Busy);
    scene.end();
}

#[test]
fn a_log_whose_recovery_hung_is_to_be_had_when_that_has_ended() {
    let Some(mut scene) = Scene::new("area-let-go", &[fuse::OPEN]) else { return };
    let _store = scene.start_with_a_log_that_hangs();
    let (mut client, _) = scene.daemon().session();
    let wanted = opening(OWN_USER, "a", AreaRights::WRITE, WayWanted::Any);
    assert_eq!(client.store_no(&wanted).why, Why::Busy);
    drop(scene.hanging.take());
    client.open_area("a", AreaRights::WRITE, WayWanted::Any).unwrap();
}

/// Does something with a store that no control plane has.
fn with_store(file: &StoreFile, work: impl FnOnce(&mut StoreOnDevice<FileDevice>)) {
    let _guard = no_starts();
    let device = FileDevice::open(file.path(), Options::default()).unwrap();
    work(&mut StoreOnDevice::open(device, None).unwrap());
}

#[test]
fn a_log_that_another_user_has_had_to_write_is_never_recovered_with_its_owners_rights() {
    let Some(mut scene) = Scene::new("had", &[]) else { return };
    let file = StoreFile::new(64 * LOG_BYTES);
    let names = ["had", "read", "own"];
    with_store(&file, |store| names.iter().for_each(|name| make(store, 0, name)));
    scene.start(&file.config(""));
    let (mut client, _) = scene.daemon().session();
    let socket = scene.daemon().socket();
    for (name, rights) in [("had", AreaRights::WRITE), ("read", AreaRights::READ)] {
        let handle = client.managed(name);
        client.store_done(&StoreRequest::Appoint { handle, others: rights });
        as_user(NEIGHBOUR, || {
            let mut other = Client::connect(socket.to_str().unwrap());
            other.hello();
            other.open_area_of(0, name, rights, WayWanted::Emulated).unwrap();
        });
        // Who asks by now who may have it finds nobody.
        client.store_done(&StoreRequest::Appoint { handle, others: AreaRights::NONE });
    }
    client.open_area("own", AreaRights::WRITE, WayWanted::Emulated).unwrap();
    drop((client, scene.daemon.take()));

    let files = names.map(|name| scene.file(name));
    let fill_all = |store: &mut StoreOnDevice<FileDevice>| {
        for (name, (path, born)) in names.iter().zip(&files) {
            fill(store, 0, name, &entry(path, *born));
        }
    };
    with_store(&file, fill_all);
    scene.start(&file.config(""));
    for (path, _) in &files[1..] {
        await_that("it is recovered", || std::fs::read(path).unwrap() == b"kept");
    }
    assert_eq!(std::fs::read(&files[0].0).unwrap(), b"", "it waits for a person");
}
