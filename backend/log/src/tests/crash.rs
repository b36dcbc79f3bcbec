//! Every crash that a device may leave: what was acknowledged is there, in order, and nothing else.
//!
//! One thread plays several producers: it appends, reserves and commits out of order, trims, asks for
//! checkpoints, and has the device do some of what is under way, as a seed says. All of it is recorded.
//! Then each crash of the recording is opened and read, and now and then gone on with, so that one
//! crash follows another; and each crash of an opening is opened again.

use std::time::Duration;

use heliostat_backend_block::{CrashState, Image, MemoryDevice, Random, Recorder, RecordingDevice};

use super::{area, id_of, memory, payload};
use crate::mutant::Mutant;
use crate::{Log, LogError, LogReader, Options, Position, Reservation};

const DATA_BYTES: u64 = 12 << 10;
/// Crashes that are tried at each event.
const STATES_PER_EVENT: usize = 8;

/// What is so at a mark of a recording; the numbers count the entries of the run.
#[derive(Clone, Copy, Default, Debug)]
struct Promise {
    appended: usize,
    acknowledged: usize,
    trimmed: usize,
    trimmed_durably: usize,
}

/// A log, what was done with it, and what that promised.
struct Run {
    recorder: Recorder,
    ids: Vec<u64>,
    promises: Vec<Promise>,
}

struct Producers {
    log: Log,
    random: Random,
    run: Run,
    ends: Vec<Position>,
    open: Vec<(Reservation, Vec<u8>)>,
    next_id: u64,
    now: Promise,
}

fn options(random: &mut Random) -> Options {
    Options {
        window_bytes: [4096, 8192][random.below(2) as usize],
        in_flight: 1 + random.below(4) as usize,
        overlap_from: Duration::ZERO,
        checkpoint_bytes: [0, 1500, 4000][random.below(3) as usize],
    }
}

/// A device with an empty log.
fn empty(seed: u64) -> MemoryDevice {
    let mut random = Random::new(seed);
    let area = area(DATA_BYTES);
    let recording = RecordingDevice::new(memory(area, 512), memory(area, 512).image().clone());
    let recorder = recording.recorder();
    Log::create(Box::new(recording), area, options(&mut random)).unwrap().close().unwrap();
    last_state(&recorder)
}

fn last_state(recorder: &Recorder) -> MemoryDevice {
    recorder.recording().crash_states(1, 0).last().expect("there is a state").device
}

impl Producers {
    fn new(device: MemoryDevice, ids: Vec<u64>, seed: u64, mutant: Mutant) -> Self {
        let mut random = Random::new(seed);
        let image = device.image().clone();
        let depth = 1 + random.below(6) as usize;
        let device = device.in_random_order(seed).with_depth(depth);
        let recording = RecordingDevice::new(device, image);
        let recorder = recording.recorder();
        let options = options(&mut random);
        let log = Log::open_as(Box::new(recording), area(DATA_BYTES), options, mutant).unwrap();
        let ends: Vec<Position> = log.read().map(|entry| entry.unwrap().next).collect();
        assert_eq!(ends.len(), ids.len());
        let now = Promise { appended: ids.len(), acknowledged: ids.len(), ..Promise::default() };
        let next_id = 1000 * (1 + seed % 1_000_000_007);
        let run = Run { recorder, ids, promises: Vec::new() };
        Self { log, random, run, ends, open: Vec::new(), next_id, now }
    }

    fn play(mut self, steps: usize) -> Run {
        self.mark();
        for _ in 0..steps {
            match self.random.below(10) {
                0..=3 => self.append(),
                4 => self.reserve(),
                5 => self.commit(),
                6 => self.trim(),
                7 if self.random.below(4) == 0 => self.checkpoint(),
                _ => self.log.poll(),
            }
            self.mark();
        }
        // What is under way stays so: a crash may come then, too.
        while !self.open.is_empty() {
            self.commit();
        }
        self.mark();
        self.run
    }

    fn mark(&mut self) {
        let durable = self.log.end();
        self.now.acknowledged = self.ends.partition_point(|end| *end <= durable);
        self.run.recorder.mark(self.run.promises.len() as u64);
        self.run.promises.push(self.now);
    }

    fn length(&mut self) -> usize {
        [0, 10, 100, 300, 600, 900][self.random.below(6) as usize] + self.random.below(8) as usize
    }

    /// Whether appending would wait for an entry that this thread itself holds open.
    fn is_tight(&self) -> bool {
        let space = self.log.core.space();
        space.tail.at - space.durable.at > space.window_bytes / 4 && !self.open.is_empty()
    }

    fn append(&mut self) {
        if self.is_tight() {
            return self.commit();
        }
        let length = self.length();
        let bytes = payload(self.next_id, length);
        match self.log.append(&bytes) {
            Ok(appended) => self.added(appended.position(), bytes.len()),
            Err(LogError::Full { .. }) => self.trim(),
            Err(error) => panic!("{error}"),
        }
    }

    fn reserve(&mut self) {
        if self.is_tight() || self.open.len() >= 3 {
            return self.commit();
        }
        let length = self.length();
        let bytes = payload(self.next_id, length);
        match self.log.reserve(bytes.len()) {
            Ok(reservation) => {
                let position = reservation.position();
                self.open.push((reservation, bytes.clone()));
                self.added(position, bytes.len());
            }
            Err(LogError::Full { .. }) => self.trim(),
            Err(error) => panic!("{error}"),
        }
    }

    fn added(&mut self, position: Position, length: usize) {
        let at = position.at + crate::format::entry_bytes(length as u64);
        self.ends.push(Position { at, sequence: position.sequence + 1 });
        self.run.ids.push(self.next_id);
        self.next_id += 1;
        self.now.appended = self.run.ids.len();
    }

    fn commit(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let chosen = self.random.below(self.open.len() as u64) as usize;
        let (mut reservation, bytes) = self.open.swap_remove(chosen);
        reservation.put(&bytes).unwrap();
        reservation.commit().unwrap();
    }

    fn trim(&mut self) {
        let acknowledged = self.ends.partition_point(|end| *end <= self.log.end());
        let most = (acknowledged - self.now.trimmed.min(acknowledged)) as u64;
        let count = self.random.below(most + 1) as usize;
        if count > 0 {
            self.now.trimmed += count;
            // Said before it is done: a crash may come in between.
            self.mark();
            self.log.trim(self.ends[self.now.trimmed - 1]).unwrap();
        }
    }

    fn checkpoint(&mut self) {
        self.log.checkpoint().unwrap();
        self.now.trimmed_durably = self.now.trimmed;
    }
}

impl Run {
    /// The entries that a crash has left, if they are what may be there.
    fn check(&self, log: &Log, promised: Option<u64>) -> Result<Vec<u64>, String> {
        let Some(promised) = promised else {
            return Ok(Vec::new());
        };
        let then = self.promises[promised as usize];
        let next = self.promises[(promised as usize + 1).min(self.promises.len() - 1)];
        let mut found = Vec::new();
        for entry in log.read() {
            let entry = entry.map_err(|error| error.to_string())?;
            let id = id_of(&entry.payload);
            if entry.payload != payload(id, entry.payload.len() - 8) {
                return Err(format!("entry {id} was changed"));
            }
            found.push(id);
        }
        let begin = match found.first() {
            Some(first) => self.ids.iter().position(|id| id == first).ok_or("invented")?,
            None => then.acknowledged,
        };
        let end = begin + found.len();
        let is_theirs = self.ids.get(begin..end) == Some(&found[..]);
        let has_all = found.is_empty() || begin <= next.trimmed;
        let has_all = has_all && (!found.is_empty() || next.trimmed >= then.acknowledged);
        let all_there = end >= then.acknowledged && has_all;
        let nothing_else = end <= next.appended && begin >= then.trimmed_durably;
        match is_theirs && all_there && nothing_else {
            true => Ok(found),
            false => Err(format!("{found:?} of {:?}, {then:?} .. {next:?}", self.ids)),
        }
    }
}

/// Opens what a crash has left, and the same after each crash of the opening.
fn recover(
    state: CrashState,
    run: &Run,
    mutant: Mutant,
) -> Result<(Vec<u64>, MemoryDevice, u64), String> {
    let (promised, cut) = (state.promised, state.cut as u64);
    let image: Image = state.image().clone();
    // A writer that breaks the rules may leave what no reader can read.
    let seen = match mutant {
        Mutant::None => seen_beside(image.clone()).map_err(|error| format!("beside: {error}"))?,
        _ => Vec::new(),
    };
    let recording = RecordingDevice::new(state.device, image);
    let recorder = recording.recorder();
    let open = |device| Log::open_as(device, area(DATA_BYTES), Options::default(), mutant);
    let log = open(Box::new(recording)).map_err(|error| error.to_string())?;
    let found = run.check(&log, promised)?;
    if promised.is_some() && mutant == Mutant::None && seen != found {
        return Err(format!("a reader saw {seen:?}, the opening kept {found:?}"));
    }
    drop(log);
    let recording = recorder.recording();
    let mut count = 1;
    // The opening is short: every twentieth is crashed at each of its events.
    if cut % 20 == 0 {
        for again in recording.crash_states(4, cut) {
            let log = open(Box::new(again.device)).map_err(|error| format!("again: {error}"))?;
            if promised.is_some() && run.check(&log, promised)? != found {
                return Err("a second opening finds something else".into());
            }
            count += 1;
        }
    }
    Ok((found, last_state(&recorder), count))
}

/// What a reader that opens nothing finds.
fn seen_beside(image: Image) -> Result<Vec<u64>, LogError> {
    let mut reader = LogReader::open(Box::new(MemoryDevice::of(image)), area(DATA_BYTES))?;
    let seen: Result<Vec<u64>, LogError> =
        reader.by_ref().map(|entry| entry.map(|entry| id_of(&entry.payload))).collect();
    reader.check_end().and(seen)
}

/// Tries the crashes of one seed, and of runs that follow some of them; how many.
fn try_seed(seed: u64, mutant: Mutant) -> Result<u64, String> {
    let mut count = 0;
    let mut random = Random::new(seed);
    let mut starts = vec![(empty(seed), Vec::new())];
    for round in 0..3 {
        let chosen = random.below(starts.len() as u64) as usize;
        let (device, ids) = starts.swap_remove(chosen);
        let run = Producers::new(device, ids, seed * 8 + round, mutant).play(60);
        starts.clear();
        let recording = run.recorder.recording();
        for state in recording.crash_states(STATES_PER_EVENT, seed) {
            let tells = state.promised.is_some();
            let told = format!("seed {seed}, round {round}, {:?}", (state.cut, &state.chosen));
            let (found, device, tried) =
                recover(state, &run, mutant).map_err(|error| format!("{told}: {error}"))?;
            count += tried;
            if tells && random.below(16) == 0 {
                starts.push((device, found));
            }
        }
        if starts.is_empty() {
            break;
        }
    }
    Ok(count)
}

#[test]
fn every_acknowledged_entry_survives_every_crash_and_nothing_is_invented() {
    let wanted = std::env::var("HELIOSTAT_CRASH_STATES").ok().and_then(|it| it.parse().ok());
    let (wanted, mut count, mut seed) = (wanted.unwrap_or(100_000), 0, 1);
    while count < wanted {
        count += try_seed(seed, Mutant::None).unwrap();
        seed += 1;
    }
    println!("{count} crash states of {seed} seeds");
}

/// The first seed of so many by which the same test finds a broken rule.
fn finds(mutant: Mutant, seeds: u64) {
    let found = (1..=seeds).find_map(|seed| try_seed(seed, mutant).err());
    println!("{mutant:?}: {}", found.expect("the broken rule is found"));
}

#[test]
fn acknowledging_before_the_flush_is_found() {
    finds(Mutant::AcknowledgesUnflushed, 20);
}

#[test]
fn a_header_that_is_ahead_of_the_data_is_found() {
    finds(Mutant::HeaderBeforeData, 40);
}

#[test]
fn using_room_again_before_the_header_says_so_is_found() {
    finds(Mutant::ReusesBeforeHeader, 200);
}

#[test]
fn two_writes_of_one_sector_at_once_are_found() {
    finds(Mutant::SharesSectors, 200);
}

#[test]
fn acknowledging_out_of_order_is_found() {
    finds(Mutant::AcknowledgesOutOfOrder, 100);
}

/// Two entries of a sector each are written together, a crash leaves any of them, and a third of the
/// same length comes behind what was left. Says whether an opening after that finds more.
fn finds_leftovers(mutant: Mutant) -> bool {
    let options = Options::default();
    let open = |device: MemoryDevice| {
        let image = device.image().clone();
        let recording = RecordingDevice::new(device, image);
        let recorder = recording.recorder();
        (Log::open_as(Box::new(recording), area(DATA_BYTES), options, mutant).unwrap(), recorder)
    };
    let ids =
        |log: &Log| -> Vec<u64> { log.read().map(|it| id_of(&it.unwrap().payload)).collect() };
    let (log, recorder) = open(empty(1));
    drop(log.append(&payload(1, 472)).unwrap());
    log.append(&payload(2, 472)).unwrap().wait().unwrap();
    let recording = recorder.recording();
    let found: Vec<bool> = recording
        .crash_states(16, 1)
        .map(|state| {
            let (log, recorder) = open(state.device);
            let left = ids(&log);
            log.append_sync(&payload(3, 472)).unwrap();
            let (log, _) = open(last_state(&recorder));
            ids(&log) != [&left[..], &[3]].concat()
        })
        .collect();
    assert!(found.len() > 4);
    found.contains(&true)
}

#[test]
fn what_a_crash_left_behind_the_end_never_becomes_part_of_the_log() {
    assert!(!finds_leftovers(Mutant::None));
    assert!(finds_leftovers(Mutant::SameGeneration), "the broken rule is found");
}

#[test]
fn every_crash_of_making_a_log_leaves_none_or_an_empty_one() {
    let area = area(DATA_BYTES);
    let start = memory(area, 512).image().clone();
    let recording = RecordingDevice::new(memory(area, 512), start);
    let recorder = recording.recorder();
    drop(Log::create(Box::new(recording), area, Options::default()).unwrap());
    let recording = recorder.recording();
    let (mut logs, mut none) = (0, 0);
    for state in recording.crash_states(8, 1) {
        match Log::open(Box::new(state.device), area, Options::default()) {
            Ok(log) => {
                assert_eq!(log.read().next(), None);
                logs += 1;
            }
            Err(error) => {
                assert!(matches!(error, LogError::NoLog(_)), "{error}");
                none += 1;
            }
        }
    }
    assert!(logs > 0 && none > 0);
}
