//! Snapshot regions: a table whose every word the producer writes, between a consumer's calls, and
//! pages of pins that consumers write as they like, between a producer's.
//!
//! ```text
//! input = [side u8][length u8][first u8][colours u8][cut u8] and records: [what u8][a u16][word u64]
//! side 0, what = 0 a word of the table   1 a colour   2 a version   3 LATEST   4 a byte of the head
//!                5 pin the newest   6 pin by number   7 let go   8 read   9 show   10 look, attach
//! side 1, what = 0 to 3 a word of a page   4, 5 admit a page   6 dismiss   7 to 10 write, publish
//! ```
//! Nothing panics, hangs or faults; a read inside the region has an answer whatever the table says,
//! and no page of pins shows another consumer anything but what was published.

use std::convert::Infallible;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use heliostat_abi::snapshot::memory::{Shape, COLOURS, LATEST, PINS_BYTES, PINS_MAGIC};
use heliostat_abi::VERSION;
use heliostat_backend_pages::live::LiveMemory;
use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::SharedMapping;
use heliostat_stub_snapshot::{
    Attachment, ConsumerHandle, EngineKind, PublishError, Region, Settings, Version, View,
};

use super::step::{steps, Step};

/// Kinds of steps, of either side.
const KINDS: u8 = 11;
/// Bytes that one unit of `length` stands for.
const UNIT: u64 = 512 << 10;
/// Versions have small numbers here, so that scripts meet them.
const NUMBERS: u64 = 8;

pub fn exercise(input: &[u8]) {
    let Some((head, script)) = input.split_at_checked(5) else { return };
    if head[0] & 1 == 0 {
        let Some(mut player) = Producer::new(head) else { return };
        steps(script, KINDS).for_each(|step| player.step(step));
    } else {
        let mut player = Consumers::new(u32::from(head[3]) % 4 + 2);
        steps(script, KINDS).for_each(|step| player.step(step));
    }
}

/// A hostile producer, and the consumer that it has.
struct Producer {
    shape: Shape,
    table: (OwnedFd, SharedMapping),
    pool: OwnedFd,
    consumer: Attachment,
    held: Vec<Version>,
    view: Option<View>,
}

fn attached(table: &OwnedFd, pool: &OwnedFd) -> Option<Attachment> {
    let pool = pool.duplicate().expect("a descriptor");
    let answer = Attachment::new(table, pool, |_| Ok::<(), Infallible>(()));
    answer.ok().map(|attachment| attachment.unwrap_or_else(|never| match never {}))
}

impl Producer {
    fn new(head: &[u8]) -> Option<Self> {
        let length = (u64::from(head[1]) + 1) * UNIT - u64::from(head[2]);
        let shape = Shape::new(1, length, u32::from(head[2]), u32::from(head[3]) % 15 + 2)?;
        let cut = usize::from(head[4]);
        let table = SharedMapping::create(c"table", shape.table_bytes()).ok()?;
        let (pool, _) = SharedMapping::create(c"pool", shape.pool_bytes() - cut).ok()?;
        table.1.copy_in(0, &shape.encode()).expect("inside");
        let consumer = attached(&table.0, &pool);
        assert_eq!(consumer.is_some(), cut == 0, "a pool that is {cut} bytes short");
        Some(Self { shape, table, pool, consumer: consumer?, held: vec![], view: None })
    }

    fn step(&mut self, step: Step) {
        match step.what {
            0..=4 => self.strike(step),
            5 => self.hold(0),
            6 => self.hold(step.word % NUMBERS),
            7 if self.held.is_empty() => {}
            7 => drop(self.held.swap_remove(usize::from(step.a) % self.held.len())),
            8 => self.read(step),
            9 => self.show(),
            _ => self.look(step),
        }
    }

    fn strike(&self, step: Step) {
        let (memory, value) = (&self.table.1, step.word & 0xffff_ffff);
        let place = self.shape.place(usize::from(step.a) % self.shape.colours as usize);
        let far = (step.word >> 32) as usize;
        match step.what {
            0 => {
                // Behind the head: a consumer has looked at that when it attached.
                let words = self.shape.table_bytes() / 8 - 8;
                memory.atomic_u64(64 + far % words * 8).store(value, SeqCst);
            }
            1 => {
                let at = place + COLOURS + far % self.shape.chunks as usize;
                memory.copy_in(at, &[value as u8]).expect("inside");
            }
            2 => {
                memory.atomic_u64(place).store(value % NUMBERS, SeqCst);
                memory.atomic_u64(LATEST).store(value % NUMBERS, SeqCst);
            }
            3 => memory.atomic_u64(LATEST).store(step.word, SeqCst),
            _ => memory.copy_in(far % 64, &[value as u8]).expect("inside"),
        }
    }

    /// The newest for 0.
    fn hold(&mut self, number: u64) {
        let pinned = match number {
            0 => self.consumer.latest(),
            number => self.consumer.numbered(number),
        };
        match pinned {
            Ok(version) => {
                assert!(version.number() != 0 && (number == 0 || version.number() == number));
                self.held.push(version);
                assert!(self.held.len() <= 8, "a page has eight pins");
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }

    fn read(&self, step: Step) {
        let Some(version) = self.held.first() else { return };
        let (offset, mut bytes) = (step.word as usize % (version.len() + 64), [0; 64]);
        let is_inside = offset + bytes.len() <= version.len();
        assert_eq!(version.read(offset, &mut bytes).is_ok(), is_inside);
        assert!(version.read(usize::MAX, &mut bytes).is_err());
    }

    fn show(&mut self) {
        let Some(version) = self.held.pop() else { return };
        let view = match self.view.take() {
            Some(mut view) => view.advance(version).map(|_| view),
            None => View::new(version),
        };
        let view = view.expect("colours were checked when it was pinned");
        let mut last = [0];
        view.read(self.shape.length as usize - 1, &mut last).expect("inside");
        self.view = Some(view);
    }

    fn look(&self, step: Step) {
        assert!(self.consumer.description().len() <= 2044);
        assert_eq!(self.consumer.shape(), self.shape, "what was checked once stays");
        self.consumer.wait(step.word % NUMBERS, Some(Duration::ZERO));
        let _ = (self.consumer.is_closed(), self.consumer.alive(), self.consumer.latest_number());
        // The head may be another by now; then it is refused, or fits into this table and pool.
        if let Some(other) = attached(&self.table.0, &self.pool) {
            let (now, fits) = (other.shape(), self.shape);
            assert!(now.table_bytes() <= fits.table_bytes().next_multiple_of(4096));
            assert!(now.pool_bytes() <= fits.pool_bytes());
        }
    }
}

/// An honest producer with one honest consumer among hostile ones.
struct Consumers {
    bytes: Box<[u8; 3 * 4096]>,
    region: Region,
    honest: Attachment,
    pages: Vec<(OwnedFd, SharedMapping)>,
    handles: Vec<ConsumerHandle>,
    round: u8,
}

impl Consumers {
    fn new(colours: u32) -> Self {
        let bytes = Box::new([0; 3 * 4096]);
        // SAFETY: the bytes lie on the heap for as long as the region, which is dropped with them.
        let memory = unsafe { LiveMemory::new(bytes.as_ptr() as usize, bytes.len()) };
        let settings = Settings { colours, engine: EngineKind::Whole, ..Settings::default() };
        let mut region = Region::new(memory, settings).expect("a region");
        let (table, pool) = region.descriptors();
        let (table, pool) = (table.duplicate().expect("one"), pool.duplicate().expect("one"));
        let honest = Attachment::new(&table, pool, |page| region.admit(page).map(drop));
        let honest = honest.expect("mapped").expect("admitted");
        let page = || SharedMapping::create(c"pins", PINS_BYTES).expect("memory");
        let pages: Vec<_> = (0..4).map(|_| page()).collect();
        Self { bytes, region, honest, pages, handles: Vec::new(), round: 0 }
    }

    fn step(&mut self, step: Step) {
        let (page, far) = (usize::from(step.a) % self.pages.len(), (step.word >> 32) as usize);
        match step.what {
            0..=3 => {
                let word = self.pages[page].1.atomic_u64(far % (PINS_BYTES / 8) * 8);
                // Numbers near those that are alive, and any.
                let near = step.word % 4 + u64::from(self.round).saturating_sub(3);
                word.store(if step.what == 3 { step.word } else { near }, SeqCst);
            }
            4 | 5 => {
                let memory = &self.pages[page].1;
                if step.what == 4 {
                    memory.atomic_u32(0).store(PINS_MAGIC, SeqCst);
                    memory.atomic_u32(4).store(u32::from(VERSION), SeqCst);
                }
                let is_page = memory.atomic_u32(0).load(SeqCst) == PINS_MAGIC
                    && memory.atomic_u32(4).load(SeqCst) == u32::from(VERSION);
                let admitted = self.region.admit(&self.pages[page].0);
                assert_eq!(admitted.is_ok(), is_page);
                self.handles.extend(admitted.ok().flatten());
            }
            // Also those that are gone already; never the honest one.
            6 => {
                let handle = self.handles.get(far % self.handles.len().max(1));
                handle.into_iter().for_each(|handle| self.region.dismiss(*handle));
            }
            _ => self.publish(),
        }
    }

    /// It is published, or all places are pinned; the honest consumer sees the newest that was.
    fn publish(&mut self) {
        self.bytes.fill(self.round.wrapping_add(1));
        match self.region.publish() {
            Ok(_) => self.round = self.round.wrapping_add(1),
            Err(PublishError::Full { .. }) if self.pages.iter().any(pins_something) => {}
            Err(error) => panic!("{error}"),
        }
        if self.honest.latest_number() == 0 {
            return;
        }
        let (mut seen, version) = ([0; 3 * 4096], self.honest.latest().expect("there is one"));
        version.read(0, &mut seen).expect("inside");
        assert!(seen.iter().all(|byte| *byte == self.round), "another version than was published");
    }
}

fn pins_something((_, page): &(OwnedFd, SharedMapping)) -> bool {
    (16..24).any(|at| page.atomic_u64(at * 8).load(SeqCst) != 0)
}
