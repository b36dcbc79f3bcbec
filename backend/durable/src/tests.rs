//! Every crash: what a flush has acknowledged is in the file after recovery, and nothing is invented.
//!
//! One file is appended to and flushed, by the log or by itself, with checkpoints, as a seed says. The
//! log's device is recorded. For each state that a crash may leave of it, the file is put into states
//! that its page cache may have left: nothing of what was not flushed, all of it, a length without its
//! bytes, some pages. Then recovery runs, which may itself crash and be repeated.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use heliostat_backend_block::{
    CrashState, Geometry, MemoryDevice, Random, Recorder, RecordingDevice,
};
use heliostat_backend_log::{Area, Log, Options, Position};
use heliostat_base::call::{birth, Birth};

use crate::entry::{self, Entry, Head};
use crate::{recover, Boot, What};

mod look;
mod refused;

const AREA: Area = Area { offset: 0, bytes: 24 << 10 };
const GEOMETRY: Geometry =
    Geometry { bytes: 0, sector_bytes: 512, memory_alignment: 512, discard_zeroes: false };
const PAGE: usize = 512;
const OLD_BOOT: [u8; 16] = [1; 16];
const LONG_AGO: Duration = Duration::from_secs(1000);

/// What is so at a mark.
#[derive(Clone, Copy, Default)]
struct Promise {
    acknowledged: usize,
    flushed: usize,
    written: usize,
}

struct Scene {
    _folder: tempfile::TempDir,
    path: PathBuf,
    file: File,
    birth: Birth,
}

impl Scene {
    fn new() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.aof");
        let file = File::options().create_new(true).read(true).write(true).open(&path).unwrap();
        let (birth, _) = birth(file.as_raw_fd()).unwrap();
        Scene { _folder: folder, path, file, birth }
    }

    fn put(&self, content: &[u8], modified: SystemTime) {
        self.file.set_len(0).unwrap();
        self.file.write_all_at(content, 0).unwrap();
        self.file.set_modified(modified).unwrap();
    }

    fn content(&self) -> Vec<u8> {
        let mut content = Vec::new();
        File::open(&self.path).unwrap().read_to_end(&mut content).unwrap();
        content
    }

    fn entry(&self, offset: usize, bytes: &[u8]) -> Vec<u8> {
        let path = self.path.as_os_str().as_bytes();
        let (boot, when) = (OLD_BOOT, LONG_AGO.as_secs() as u32);
        let head = Head { boot, file: self.birth, offset: offset as u64, when, path };
        [&head.encode()[..], path, bytes].concat()
    }
}

fn long_ago() -> SystemTime {
    SystemTime::UNIX_EPOCH + LONG_AGO
}

fn memory() -> MemoryDevice {
    MemoryDevice::new(AREA.bytes).with_geometry(GEOMETRY)
}

fn options() -> Options {
    Options { window_bytes: 8192, overlap_from: Duration::ZERO, ..Options::default() }
}

fn recorded(device: MemoryDevice) -> (RecordingDevice<MemoryDevice>, Recorder) {
    let image = device.image().clone();
    let recording = RecordingDevice::new(device, image);
    let recorder = recording.recorder();
    (recording, recorder)
}

fn empty() -> MemoryDevice {
    let (device, recorder) = recorded(memory());
    Log::create(Box::new(device), AREA, options()).unwrap().close().unwrap();
    recorder.recording().crash_states(1, 0).last().unwrap().device
}

fn byte(at: usize) -> u8 {
    (at % 251 + 1) as u8 // never the zero of a hole
}

fn bytes(from: usize, until: usize) -> Vec<u8> {
    (from..until).map(byte).collect()
}

/// A program that appends and flushes, as the stub does it.
struct Player<'a> {
    scene: &'a Scene,
    log: Log,
    recorder: Recorder,
    random: Random,
    promises: Vec<Promise>,
    now: Promise,
    /// Behind what is in the log or was flushed, and what waits for the log.
    logged: usize,
    pending: Vec<(u64, usize)>,
    checkpoint: Option<(Position, usize)>,
}

impl Player<'_> {
    fn mark(&mut self) {
        let end = self.log.end().at;
        let done = self.pending.iter().take_while(|(until, _)| *until <= end).count();
        for (_, length) in self.pending.drain(..done) {
            self.now.acknowledged = self.now.acknowledged.max(length);
        }
        self.recorder.mark(self.promises.len() as u64);
        self.promises.push(self.now);
    }

    fn append(&mut self) {
        self.now.written += 1 + self.random.below(700) as usize;
        // Now and then the kernel writes pages back by itself.
        if self.random.below(4) == 0 {
            self.now.flushed = self.logged.max(self.now.flushed);
        }
    }

    fn flush(&mut self) {
        let (from, until) = (self.logged, self.now.written);
        let entry = self.scene.entry(from, &bytes(from, until));
        let begin = self.log.begin().at;
        let is_full = self.log.end().at - begin + 3 * entry.len() as u64 > self.log.capacity() / 2;
        if from == until || is_full || entry.len() as u64 > self.log.longest() {
            return self.flush_file();
        }
        let appended = self.log.append(&entry).unwrap();
        self.pending.push((appended.end(), until));
        self.logged = until;
    }

    /// The file's own flush, which is acknowledged when all before it is.
    fn flush_file(&mut self) {
        (self.logged, self.now.flushed) = (self.now.written, self.now.written);
        self.log.sync().unwrap();
        self.mark();
        self.now.acknowledged = self.now.written;
    }

    fn check_point(&mut self) {
        match self.checkpoint.take() {
            None => self.checkpoint = Some((self.log.end(), self.now.written)),
            Some((to, length)) => {
                self.now.flushed = self.now.flushed.max(length);
                self.mark();
                self.log.trim(to).unwrap();
                if self.random.below(2) == 0 {
                    self.log.checkpoint().unwrap();
                }
            }
        }
    }
}

fn play(scene: &Scene, seed: u64, steps: usize) -> (Recorder, Vec<Promise>) {
    let device = empty().in_random_order(seed).with_depth(4);
    let (device, recorder) = recorded(device);
    let log = Log::open(Box::new(device), AREA, options()).unwrap();
    let (random, now) = (Random::new(seed), Promise::default());
    let (promises, pending, kept) = (Vec::new(), Vec::new(), recorder.clone());
    let mut player = Player {
        scene,
        log,
        recorder,
        random,
        promises,
        now,
        logged: 0,
        pending,
        checkpoint: None,
    };
    player.mark();
    for _ in 0..steps {
        match player.random.below(8) {
            0..=2 => player.append(),
            3 | 4 => player.flush(),
            5 => player.check_point(),
            _ => player.log.poll(),
        }
        player.mark();
    }
    (kept, player.promises)
}

/// A state that the file may be in after a crash.
fn remains(promise: Promise, variant: u64, random: &mut Random) -> Vec<u8> {
    let most = promise.written - promise.flushed;
    let length = match variant {
        0 => promise.flushed,
        1 | 2 => promise.written,
        _ => promise.flushed + random.below(most as u64 + 1) as usize,
    };
    let mut content = bytes(0, length);
    for page in (0..length).step_by(PAGE) {
        let is_lost = variant == 2 || variant == 3 && random.below(2) == 0;
        let from = page.max(promise.flushed);
        if is_lost && from < (page + PAGE).min(length) {
            content[from..(page + PAGE).min(length)].fill(0);
        }
    }
    content
}

fn judge(content: &[u8], promise: Promise, about: &str) {
    assert!(content.len() >= promise.acknowledged, "{about}: {} bytes", content.len());
    assert!(content.len() <= promise.written, "{about}: something was invented");
    let wrong = content.iter().enumerate().find(|(at, found)| {
        let is_acknowledged = *at < promise.acknowledged;
        **found != byte(*at) && (is_acknowledged || **found != 0)
    });
    assert_eq!(wrong, None, "{about}: of {} acknowledged", promise.acknowledged);
}

/// Recovers, and returns what happened to the log's device meanwhile.
fn run(device: MemoryDevice, force: bool) -> (What, Recorder) {
    let (device, recorder) = recorded(device);
    let log = Log::open(Box::new(device), AREA, options()).unwrap();
    let outcome = recover(&log, &Boot::now().unwrap(), force).unwrap();
    assert!(outcome.is_whole(), "{outcome:?}");
    assert_eq!(log.begin(), log.end());
    (outcome.files.first().map_or(What::Flushed, |file| file.what), recorder)
}

/// Whether recovery has said in the log of this state that it has begun.
fn is_marked(state: &CrashState) -> bool {
    let device = MemoryDevice::of(state.image().clone()).with_geometry(GEOMETRY);
    let log = Log::open(Box::new(device), AREA, options()).unwrap();
    let is_mark = |payload: &[u8]| matches!(entry::decode(payload), Ok(Entry::Mark(..)));
    let marks = log.read().filter(|entry| is_mark(&entry.as_ref().unwrap().payload)).count();
    marks > 0
}

/// Crashes in the middle of a recovery that began with this file: before the mark the file is as it was,
/// after it any part may have been written, just now.
fn repeat(
    scene: &Scene,
    recorder: &Recorder,
    before: &[u8],
    promise: Promise,
    random: &mut Random,
) {
    let after = scene.content();
    let states: Vec<CrashState> = recorder.recording().crash_states(2, 5).collect();
    for state in states {
        match is_marked(&state) {
            false if state.completed.len() < 2 => scene.put(before, long_ago()),
            false => scene.put(&after, SystemTime::now()),
            true => {
                let cut =
                    before.len() + random.below((after.len() - before.len()) as u64 + 1) as usize;
                let mut part = after[..cut].to_vec();
                let old = random.below(before.len() as u64 + 1) as usize;
                part[old..before.len()].copy_from_slice(&before[old..]);
                scene.put(&part, SystemTime::now());
            }
        }
        let about = format!("recovery cut off at {}", state.cut);
        run(state.device, false);
        judge(&scene.content(), promise, &about);
    }
}

#[test]
fn after_every_crash_what_was_acknowledged_is_in_the_file_and_nothing_else() {
    let seeds: u64 = std::env::var("HELIOSTAT_TEST_SEEDS").map_or(2, |it| it.parse().unwrap());
    let (mut states, mut restored, mut repeated) = (0, 0, 0);
    for seed in 0..seeds {
        let scene = Scene::new();
        let (recorder, promises) = play(&scene, seed, 60);
        let recording = recorder.recording();
        let mut random = Random::new(seed ^ 0x5eed);
        for state in recording.crash_states(2, seed) {
            let promise = state.promised.map_or(Promise::default(), |at| promises[at as usize]);
            let about = format!("seed {seed}, cut {}", state.cut);
            let image = state.image().clone();
            for variant in 0..4 {
                let before = remains(promise, variant, &mut random);
                scene.put(&before, long_ago());
                let device = MemoryDevice::of(image.clone()).with_geometry(GEOMETRY);
                let (what, recorder) = run(device, false);
                judge(&scene.content(), promise, &format!("{about}, variant {variant}"));
                states += 1;
                if matches!(what, What::Restored { .. }) {
                    restored += 1;
                    if restored % 37 == 0 {
                        repeat(&scene, &recorder, &before, promise, &mut random);
                        repeated += 1;
                    }
                }
            }
        }
    }
    assert!(states > 500 && restored > 100 && repeated > 3, "{states} {restored} {repeated}");
}
