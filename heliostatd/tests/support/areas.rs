//! Programs that use areas through the stub, each a process of its own that does what a test tells it.
//!
//! The lines are those of [`super::programs`]; the areas are by name, one handle each.

use std::collections::HashMap;
use std::os::fd::AsRawFd;
use std::time::Duration;

use heliostat_backend_log::{Area as Range, Log, LogError, Options};
use heliostat_stub_store::{
    Area, AreaKind, AreaQueue, AreaRights, Device, Ended, Request, Spill, Store, StoreError, Way,
    WayWanted, Why, OWN_USER,
};

use super::await_that;
use super::programs::{answer, play_with};

const SECTOR: usize = 4096;

/// A program's part.
pub fn play() {
    play_with(|| {
        let store = Store::connect().unwrap();
        let (areas, logs, stays, queues) = Default::default();
        let mut actor = Actor { store, areas, logs, stays, queues };
        move |words: &[&str]| actor.act(words).unwrap_or_else(|error| told(&error))
    });
}

/// An error by its kind.
fn told(error: &StoreError) -> String {
    match error {
        StoreError::NotDone(no) if matches!(no.why, Why::HasAlone | Why::HasWriters) => {
            format!("error {:?} {} {}", no.why, no.pid, no.found)
        }
        StoreError::NotDone(not_done) => format!("error {:?}", not_done.why),
        StoreError::Operation(_) => "error operation".into(),
        StoreError::Gone => "error gone".into(),
        StoreError::InUse => "error in use".into(),
        StoreError::Device(error) => format!("error device {error}"),
        other => format!("error other {other:?}"),
    }
}

struct Actor {
    store: Store,
    areas: HashMap<String, Area>,
    logs: HashMap<String, Log>,
    /// Devices with operations under way that nobody waits for.
    stays: Vec<Box<dyn Device>>,
    /// Queues with one operation under way.
    queues: HashMap<String, AreaQueue<()>>,
}

fn number(word: &str) -> u64 {
    word.parse().unwrap()
}

fn way(word: &str) -> WayWanted {
    match word {
        "direct" => WayWanted::Direct,
        "emulated" => WayWanted::Emulated,
        _ => WayWanted::Any,
    }
}

fn rights(word: &str) -> AreaRights {
    match word {
        "read" => AreaRights::READ,
        "data" => AreaRights::READ.and(AreaRights::WRITE),
        _ => AreaRights::ALL,
    }
}

/// All bytes, where they are the same.
fn what_is_in(found: &[u8]) -> String {
    match found.iter().all(|byte| *byte == found[0]) {
        true => format!("all {}", found[0]),
        false => "mixed".into(),
    }
}

impl Actor {
    fn act(&mut self, words: &[&str]) -> Result<String, StoreError> {
        match *words {
            ["connect"] => {
                (self.areas, self.logs, self.stays) = Default::default();
                // A session that was just lost is not greeted anew at once.
                await_that("the control plane takes the program", || match Store::connect() {
                    Ok(store) => {
                        self.store = store;
                        true
                    }
                    Err(_) => false,
                });
            }
            ["create", name, bytes, by] => {
                let area = self.store.create(name, number(bytes)).way(way(by)).make()?;
                self.areas.insert(name.to_owned(), area);
            }
            ["open", name, may, by] => {
                let area = self.store.open_of(OWN_USER, name, rights(may), way(by))?;
                self.areas.insert(name.to_owned(), area);
            }
            ["alone", name, may, by] => {
                let area = self.store.open_exclusive(OWN_USER, name, rights(may), way(by))?;
                self.areas.insert(name.to_owned(), area);
            }
            [what @ ("begin" | "finish" | "leave"), name, ref rest @ ..] => {
                self.later(what, name, rest)?
            }
            ["create_log", name, bytes, by] => {
                let new = self.store.create(name, number(bytes)).kind(AreaKind::Log);
                self.areas.insert(name.to_owned(), new.way(way(by)).make()?);
            }
            ["claim", name] => return Ok(self.areas[name].claim_alone()?.to_string()),
            ["queue", name, count] => queued(&self.areas[name], number(count))?,
            ["way", name] => return Ok(self.way(name)),
            ["bytes", name] => return Ok(self.areas[name].bytes().to_string()),
            ["close", name] => drop(self.areas.remove(name)),
            ["resize", name, bytes] => {
                self.areas.get_mut(name).unwrap().resize(number(bytes))?;
            }
            ["delete", name] => self.areas.remove(name).unwrap().delete()?,
            ["rate", name, bytes] => self.areas[name].set_rate(number(bytes))?,
            ["keep", name] => self.stays.push(Box::new(self.areas[name].device()?)),
            ["release"] => self.stays.clear(),
            ["flood", name, count] => self.flood(name, number(count))?,
            ["threads", name, count] => {
                let (area, count) = (&self.areas[name], number(count));
                std::thread::scope(|scope| {
                    for thread in 0..count {
                        scope.spawn(move || stripe(area, thread, count));
                    }
                });
            }
            ["log", name] => self.open_log(name)?,
            ["append", name, from, count] => {
                return Ok(self.append(name, number(from), number(count)))
            }
            ["entries", name] => return Ok(self.entries(name)),
            [what, name, ref rest @ ..] => return self.transfer(what, name, rest),
            _ => panic!("{words:?}"),
        }
        Ok("done".into())
    }

    /// A write that ends later, by a queue of its own.
    fn later(&mut self, what: &str, name: &str, rest: &[&str]) -> Result<(), StoreError> {
        if let ("begin", [bytes, value]) = (what, rest) {
            let mut queue = self.areas[name].queue(1)?;
            let bytes = vec![number(value) as u8; number(bytes) as usize];
            queue.begin_write((), 0, &bytes, false)?;
            self.queues.insert(name.to_owned(), queue);
            return Ok(());
        }
        let mut queue = self.queues.remove(name).unwrap();
        match what {
            "finish" => queue.next(None)?.unwrap().result,
            _ => Ok(()),
        }
    }

    fn way(&self, name: &str) -> String {
        match self.areas[name].way() {
            Way::Direct => "direct".into(),
            Way::Emulated(Spill::NotWanted) => "emulated".into(),
            Way::Emulated(why) => format!("emulated {why:?}"),
        }
    }

    fn transfer(&mut self, what: &str, name: &str, rest: &[&str]) -> Result<String, StoreError> {
        let area = &self.areas[name];
        let rest: Vec<u64> = rest.iter().map(|word| number(word)).collect();
        match (what, &rest[..]) {
            ("write", [offset, bytes, value]) => {
                area.write(*offset, &vec![*value as u8; *bytes as usize])?;
            }
            ("write_durable", [offset, bytes, value]) => {
                area.write_durable(*offset, &vec![*value as u8; *bytes as usize])?;
            }
            ("read", [offset, bytes]) => {
                let mut found = vec![0xee; *bytes as usize];
                area.read(*offset, &mut found)?;
                return Ok(what_is_in(&found));
            }
            ("write_at", [offset, bytes, value]) => {
                area.write_at(*offset, &vec![*value as u8; *bytes as usize])?;
            }
            ("read_at", [offset, bytes]) => {
                let mut found = vec![0xee; *bytes as usize];
                area.read_at(*offset, &mut found)?;
                return Ok(what_is_in(&found));
            }
            ("flush", []) => area.flush()?,
            ("zero", [offset, bytes]) => area.zero(*offset, *bytes)?,
            ("discard", [offset, bytes]) => area.discard(*offset, *bytes)?,
            _ => panic!("{what} {rest:?}"),
        }
        Ok("done".into())
    }

    /// Begins writes over the whole area, and waits for none.
    fn flood(&mut self, name: &str, count: u64) -> Result<(), StoreError> {
        let area = &self.areas[name];
        let mut device = area.device_of(count as usize)?;
        let buffer = heliostat_stub_store::Buffer::new(SECTOR)?;
        buffer.copy_in(&[0xf1; SECTOR]).unwrap();
        for at in 0..count {
            let offset = at * SECTOR as u64 % area.bytes();
            device.begin(at, Request::Write { offset, from: buffer.clone(), durable: true })?;
        }
        device.reap(None, &mut Vec::new())?;
        self.stays.push(Box::new(device));
        Ok(())
    }

    fn open_log(&mut self, name: &str) -> Result<(), StoreError> {
        let area = &self.areas[name];
        let range = Range { offset: 0, bytes: area.bytes() };
        let options = Options { window_bytes: 64 << 10, ..Options::default() };
        let log = match Log::open(Box::new(area.device()?), range, options) {
            Err(LogError::NoLog(_)) => Log::create(Box::new(area.device()?), range, options),
            opened => opened,
        };
        self.logs.insert(name.to_owned(), log.unwrap());
        Ok(())
    }

    /// Appends numbers and says each when it is durable.
    fn append(&mut self, name: &str, from: u64, count: u64) -> String {
        let log = &self.logs[name];
        for entry in from..from + count {
            let mut payload = entry.to_le_bytes().to_vec();
            payload.resize(8 + (entry * 37 % 3000) as usize, entry as u8);
            if let Err(error) = log.append_sync(&payload) {
                return format!("error log {error}");
            }
            answer(&format!("durable {entry}"));
        }
        "done".into()
    }

    /// How many entries there are, which are numbers one after the other from 0 on.
    fn entries(&self, name: &str) -> String {
        let mut next = 0u64;
        for entry in self.logs[name].read() {
            let payload = entry.unwrap().payload;
            assert_eq!(payload[..8], next.to_le_bytes(), "in order, and none is missing");
            assert_eq!(payload.len() as u64, 8 + next * 37 % 3000);
            assert!(payload[8..].iter().all(|byte| *byte == next as u8));
            next += 1;
        }
        next.to_string()
    }
}

/// Writes and reads sectors of one thread's own, several at once, by a device of its own.
fn stripe(area: &Area, thread: u64, threads: u64) {
    const DEPTH: u64 = 8;
    let mut device = area.device_of(DEPTH as usize).unwrap();
    // Memory that goes over as it is, and memory that is copied.
    let kept = area.buffer(SECTOR * DEPTH as usize).unwrap();
    let own = heliostat_stub_store::Buffer::new(SECTOR * DEPTH as usize).unwrap();
    let memory = if thread % 2 == 0 { &*kept } else { &own };
    let buffer = |place: u64| memory.part(place as usize * SECTOR, SECTOR);
    let offset = |place: u64| (place * threads + thread) * SECTOR as u64;
    for round in 0..40u64 {
        let value = |place: u64| (round * 31 + place * 7 + thread) as u8;
        for place in 0..DEPTH {
            buffer(place).copy_in(&[value(place); SECTOR]).unwrap();
            let (offset, from) = (offset(place), buffer(place));
            device.begin(place, Request::Write { offset, from, durable: round % 8 == 0 }).unwrap();
        }
        finish(&mut device, DEPTH);
        memory.copy_in(&[0; SECTOR * DEPTH as usize]).unwrap();
        for place in 0..DEPTH {
            let (offset, into) = (offset(place), buffer(place));
            device.begin(place, Request::Read { offset, into }).unwrap();
        }
        finish(&mut device, DEPTH);
        (0..DEPTH).for_each(|place| {
            assert_eq!(buffer(place).copy_out().unwrap(), [value(place); SECTOR]);
        });
    }
}

/// Writes and reads by a queue, which is asked only when its descriptor is readable: also for what has ended
/// while other operations were begun.
fn queued(area: &Area, count: u64) -> Result<(), StoreError> {
    const DEPTH: u64 = 8;
    let mut queue = area.queue::<u64>(DEPTH as usize)?;
    let told = queue.descriptor()?;
    let hear = |queue: &mut AreaQueue<u64>| -> Result<Ended<u64>, StoreError> {
        loop {
            let is_told = heliostat_base::process::poll_readable(told.as_raw_fd(), 60_000);
            assert_eq!(is_told, Ok(true), "{} are under way", queue.under_way());
            if let Some(ended) = queue.next(Some(Duration::ZERO))? {
                return Ok(ended);
            }
        }
    };
    let sectors = area.bytes() / SECTOR as u64;
    let (mut begun, mut ended) = (0, 0);
    while ended < count {
        if begun < count && queue.under_way() < DEPTH as usize {
            let bytes = [begun as u8; SECTOR];
            let offset = begun % sectors * SECTOR as u64;
            queue.begin_write(begun, offset, &bytes, begun % 3 == 0)?;
            begun += 1;
            continue;
        }
        hear(&mut queue)?.result?;
        ended += 1;
    }
    queue.begin_flush(count)?;
    assert_eq!(hear(&mut queue)?.of, count);
    assert!(matches!(queue.begin_read(0, 1, SECTOR), Err(StoreError::Operation(_))));
    for at in 0..count.min(DEPTH) {
        queue.begin_read(at, at * SECTOR as u64, SECTOR)?;
    }
    for _ in 0..count.min(DEPTH) {
        let Ended { of, result, read } = hear(&mut queue)?;
        result?;
        let last = (0..count).rev().find(|number| number % sectors == of).unwrap();
        assert_eq!(read, [last as u8; SECTOR], "sector {of}");
    }
    assert!(queue.next(None)?.is_none(), "nothing is under way");
    Ok(())
}

fn finish(device: &mut impl Device, count: u64) {
    let mut taken = Vec::new();
    while taken.len() < count as usize {
        device.reap(Some(Duration::from_secs(1)), &mut taken).unwrap();
    }
    assert!(taken.iter().all(|completion| completion.result == Ok(())), "{taken:?}");
}

/// Longer than a device needs for what is under way.
pub const A_WHILE: Duration = Duration::from_millis(20);
