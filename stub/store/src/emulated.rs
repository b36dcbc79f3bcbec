//! An area as a device by the emulated way: each operation goes over the ring to the server loop.
//!
//! ```text
//! begin -> parts -> a place in the window, copied in -> ring -> completion -> copied out -> completed
//! ```
//!
//! A buffer of the window itself ([`crate::Area::buffer`]) needs no place and no copy. A part that finds no
//! place, or no room in the ring, waits for what is under way: of this device, or of others of the process.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_abi::file::delegated::{Completion as Ended, OpKind, Operation, Piece, Pieces};
use heliostat_backend_block::{BeginError, BlockError, Completion, Device, Geometry, Request};
use heliostat_stub_link::SharedError;

use crate::error::of_link;
use crate::link::Link;
use crate::opened::Opened;
use crate::part::{push_parts, Part};
use crate::watched::Watch;

/// How soon it is tried again where other devices of the process have all places.
const PAUSE: Duration = Duration::from_micros(50);
/// How long a device that is dropped waits for what is under way.
const DROP_WAIT: Duration = Duration::from_secs(1);

/// An area, by a server loop.
pub(crate) struct EmulatedDevice {
    link: Arc<Link>,
    opened: Arc<Opened>,
    geometry: Geometry,
    /// What was begun, by place.
    operations: Vec<Option<Begun>>,
    free: Vec<usize>,
    waiting: VecDeque<Part>,
    /// By tag.
    under_way: HashMap<u64, Part>,
    failed: Option<BlockError>,
    /// Who hears of completions, once somebody has asked for a descriptor.
    watch: Option<Watch>,
}

struct Begun {
    token: u64,
    parts: usize,
    result: Result<(), BlockError>,
}

impl EmulatedDevice {
    /// So many operations at once.
    pub(crate) fn new(link: Arc<Link>, opened: Arc<Opened>, depth: usize) -> EmulatedDevice {
        let geometry = Geometry {
            bytes: opened.is.bytes,
            sector_bytes: opened.is.sector_bytes,
            memory_alignment: 1,
            discard_zeroes: true,
        };
        EmulatedDevice {
            link,
            opened,
            geometry,
            operations: (0..depth).map(|_| None).collect(),
            free: (0..depth).rev().collect(),
            waiting: VecDeque::new(),
            under_way: HashMap::new(),
            failed: None,
            watch: None,
        }
    }

    /// Puts into the ring what there is room for.
    fn hand_on(&mut self) -> Result<(), BlockError> {
        while let Some(mut part) = self.waiting.pop_front() {
            let Some(asked) = self.asked(&mut part) else {
                self.waiting.push_front(part);
                break;
            };
            let tag = self.link.connection.next_tag();
            self.watch.iter().for_each(|watch| watch.expect(tag));
            match self.link.connection.begin_as(tag, &asked) {
                Ok(()) => drop(self.under_way.insert(tag, part)),
                Err(error) => {
                    self.watch.iter().for_each(|watch| watch.give_up(tag));
                    part.run.take().into_iter().for_each(|run| self.link.give_back(run));
                    self.waiting.push_front(part);
                    return if error == SharedError::Full { Ok(()) } else { Err(of_link(error)) };
                }
            }
        }
        Ok(())
    }

    /// The operation for a part, whose bytes get a place in the window; `None` where there is none now.
    fn asked(&self, part: &mut Part) -> Option<Operation> {
        let mut pieces = Pieces::default();
        if let Some(buffer) = &part.buffer {
            let at = if Arc::ptr_eq(&buffer.memory, &self.link.window) {
                buffer.at
            } else {
                let run = self.link.take(buffer.bytes)?;
                part.run = Some(run);
                if part.kind != OpKind::Read {
                    // Both ranges were checked, of the buffer when the operation was begun.
                    let _ =
                        buffer.memory.copy_to(buffer.at, &self.link.window, run.at(), buffer.bytes);
                }
                run.at()
            };
            pieces = Pieces::new(&[Piece { offset: at as u64, bytes: buffer.bytes as u32 }])?;
        }
        let (kind, object, offset) = (part.kind, self.opened.is.handle, part.offset);
        let argument = if matches!(kind, OpKind::Zero | OpKind::Discard) { part.bytes } else { 0 };
        Some(Operation { kind, object, offset, tag: 0, timeout_us: 0, argument, pieces })
    }

    /// Takes what has ended, and waits for the first of it for so long, or not at all.
    fn collect(
        &mut self,
        wait: Option<Duration>,
        completions: &mut Vec<Completion>,
    ) -> Result<(), BlockError> {
        let mut wait = wait;
        loop {
            let under_way = &self.under_way;
            let is_own = |tag: u64| under_way.contains_key(&tag);
            let found = match (&self.watch, wait.take()) {
                (Some(watch), wait) => watch.take(wait),
                (None, Some(wait)) => self.link.connection.wait_for_any(&is_own, wait),
                (None, None) => self.link.connection.take_any(&is_own),
            };
            let Some(ended) = found.map_err(of_link)? else { return Ok(()) };
            self.part_ended(&ended, completions);
        }
    }

    fn part_ended(&mut self, ended: &Ended, completions: &mut Vec<Completion>) {
        let Some(part) = self.under_way.remove(&ended.tag) else { return };
        let result = match u64::try_from(ended.result) {
            Err(_) => Err(BlockError::Device { errno: ended.result.unsigned_abs() as i32 }),
            Ok(moved) if moved < part.bytes => Err(BlockError::Short { moved }),
            Ok(_) => Ok(()),
        };
        if let Some(run) = part.run {
            if let (OpKind::Read, Ok(()), Some(buffer)) = (part.kind, result, &part.buffer) {
                let (memory, at) = (&buffer.memory, buffer.at);
                let _ = self.link.window.copy_to(run.at(), memory, at, buffer.bytes);
            }
            self.link.give_back(run);
        }
        part.kept.into_iter().for_each(|run| self.link.give_back(run));
        let Some(found) = self.operations.get_mut(part.place) else { return };
        let Some(begun) = found.as_mut() else { return };
        begun.parts -= 1;
        begun.result = begun.result.and(result);
        if begun.parts == 0 {
            let Begun { token, result, .. } = *begun;
            *found = None;
            self.free.push(part.place);
            completions.push(Completion { token, result });
        }
    }

    fn step(
        &mut self,
        wait: Option<Duration>,
        completions: &mut Vec<Completion>,
    ) -> Result<(), BlockError> {
        let (until, before) = (wait.map(|wait| Instant::now() + wait), completions.len());
        loop {
            self.hand_on()?;
            self.collect(None, completions)?;
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let left = left.filter(|left| !left.is_zero()).unwrap_or_default();
            let is_idle = self.free.len() == self.operations.len();
            if completions.len() > before || is_idle || left.is_zero() {
                // For what has ended something that waited may have room.
                return self.hand_on();
            }
            match self.under_way.is_empty() {
                true => std::thread::sleep(PAUSE.min(left)),
                false => self.collect(Some(left), completions)?,
            }
        }
    }
}

impl Device for EmulatedDevice {
    fn event(&mut self) -> Option<Arc<OwnedFd>> {
        if self.watch.is_none() {
            let tags = self.under_way.keys().copied();
            self.watch = Watch::begin(self.link.clone(), tags).ok();
        }
        self.watch.as_ref().map(Watch::descriptor)
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn depth(&self) -> usize {
        self.operations.len()
    }

    fn begin(&mut self, token: u64, request: Request) -> Result<(), BeginError> {
        self.geometry.check(&request)?;
        let place = self.free.pop().ok_or(BeginError::Full { depth: self.operations.len() })?;
        let before = self.waiting.len();
        push_parts(&mut self.waiting, place, &request);
        self.keep_pages(before);
        let parts = self.waiting.len() - before;
        self.operations[place] = Some(Begun { token, parts, result: Ok(()) });
        Ok(())
    }

    fn reap(
        &mut self,
        wait: Option<Duration>,
        completions: &mut Vec<Completion>,
    ) -> Result<(), BlockError> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        let result = self.step(wait, completions);
        self.failed = result.err();
        result
    }
}

impl EmulatedDevice {
    /// Buffers of the window may be dropped while they are read or written: those that wait from a number on
    /// keep their pages.
    fn keep_pages(&mut self, from: usize) {
        for part in self.waiting.iter_mut().skip(from) {
            let own = part.buffer.as_ref().filter(|it| Arc::ptr_eq(&it.memory, &self.link.window));
            part.kept = own.map(|buffer| self.link.keep(buffer.at, buffer.bytes));
        }
    }

    /// Has the loop begin nothing more of what is under way.
    fn cancel(&mut self) {
        let tags: Vec<u64> = self.under_way.keys().copied().collect();
        for argument in tags {
            let (kind, object, pieces) = (OpKind::Cancel, self.opened.is.handle, Pieces::default());
            let asked =
                Operation { kind, object, offset: 0, tag: 0, timeout_us: 0, argument, pieces };
            let Ok(tag) = self.link.connection.begin(&asked) else { return };
            // Of no operation of this device's.
            self.under_way.insert(tag, Part::plain(self.operations.len(), kind, 0, 0));
        }
    }
}

impl Drop for EmulatedDevice {
    /// Pages that the loop may still read or write are given to nobody else before that has ended.
    fn drop(&mut self) {
        let waiting = self.waiting.drain(..).flat_map(|part| part.runs());
        waiting.for_each(|run| self.link.give_back(run));
        let mut completions = Vec::new();
        let heard = self.watch.take().map(Watch::end).unwrap_or_default();
        heard.iter().for_each(|ended| self.part_ended(ended, &mut completions));
        if self.failed.is_none() {
            self.cancel();
        }
        let until = Instant::now() + DROP_WAIT;
        while self.failed.is_none() && !self.under_way.is_empty() && Instant::now() < until {
            self.failed = self.collect(Some(DROP_WAIT / 10), &mut completions).err();
        }
        for (tag, part) in self.under_way.drain() {
            self.link.abandon(tag, part.runs().collect());
        }
    }
}
