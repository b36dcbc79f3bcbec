//! What a log is at a moment: its first and last entry, and how many bytes its files have then.
//!
//! Files have a length before they are read, so a log is gone through once; what was gone through is
//! remembered, and only what was appended since is read the next time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use heliostat_backend_log::format::Position;
use heliostat_backend_log::{Area as Range, Entry, LogReader};
use heliostat_stub_store::{AreaRights, ListedArea};

use super::raw;
use super::shape::{line, Shape};
use super::Stores;
use crate::NameFault;

/// Logs that are remembered.
const LOGS_MAX: usize = 256;
/// Bytes of a file between two places at which reading may begin.
const STEP_BYTES: u64 = 256 << 10;

/// A log at a moment.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// Which log it is: a new one in the same area has another.
    pub(super) identity: [u8; 16],
    pub(super) begin: Position,
    pub(super) end: Position,
    /// Length of the files.
    pub(super) lengths: Lengths,
    /// Where reading may begin, in order.
    places: Vec<Place>,
}

/// Bytes of both files, up to some entry.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Lengths {
    data: u64,
    records: u64,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    before: Lengths,
    entry: Position,
}

impl Lengths {
    /// Of the file of a shape.
    pub(super) fn of(self, shape: Shape) -> u64 {
        match shape {
            Shape::Data => self.data,
            Shape::Records => self.records,
        }
    }

    fn with(self, entry: &Entry) -> Self {
        let records = self.records + line(entry).len() as u64;
        Self { data: self.data + entry.payload.len() as u64, records }
    }
}

impl View {
    /// What is before the first entry.
    pub(super) fn new(reader: &LogReader) -> Self {
        let (identity, begin) = (reader.header().identity, reader.position());
        let places = vec![Place { before: Lengths::default(), entry: begin }];
        Self { identity, begin, end: begin, lengths: Lengths::default(), places }
    }

    /// Goes on to the end that the log has now.
    pub(super) fn extend(&mut self, reader: &mut LogReader) -> Result<(), NameFault> {
        while let Some(entry) = reader.read()? {
            let (last, now) = (self.places.last().map(|place| place.before), self.lengths);
            let passed = |shape| now.of(shape) - last.unwrap_or_default().of(shape);
            if passed(Shape::Data).max(passed(Shape::Records)) >= STEP_BYTES {
                self.places.push(Place { before: now, entry: entry.position });
            }
            self.lengths = now.with(&entry);
            self.end = entry.next;
        }
        Ok(())
    }

    /// The last place at or before an offset of a file: an entry, and where it begins in the file.
    pub(super) fn place(&self, shape: Shape, offset: u64) -> (Position, u64) {
        let after = self.places.partition_point(|place| place.before.of(shape) <= offset);
        let place = self.places[after.saturating_sub(1)];
        (place.entry, place.before.of(shape))
    }
}

/// What logs were when they were looked at last, by the generation of their area.
#[derive(Default)]
pub(super) struct Views(Mutex<HashMap<u64, Arc<View>>>);

impl Views {
    /// The log of an area as it is now. Reads what was appended since the last time.
    pub(super) fn of(&self, stores: &Stores, area: &ListedArea) -> Result<Arc<View>, NameFault> {
        let mut reader = open_reader(stores, area)?;
        let known = self.lock().get(&area.generation).cloned();
        let is_same = |known: &View| {
            let header = reader.header();
            known.identity == header.identity && known.begin == header.begin
        };
        let mut view = match known.filter(|known| is_same(known)) {
            Some(known) => {
                reader.go_to(known.end);
                (*known).clone()
            }
            None => View::new(&reader),
        };
        view.extend(&mut reader)?;
        let view = Arc::new(view);
        let mut views = self.lock();
        if views.len() >= LOGS_MAX {
            views.clear();
        }
        views.insert(area.generation, view.clone());
        Ok(view)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<View>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens the log of an area to be read, beside whoever writes it.
pub(super) fn open_reader(stores: &Stores, area: &ListedArea) -> Result<LogReader, NameFault> {
    let opened = raw::open(stores, area, AreaRights::READ)?;
    // The device keeps the area open.
    let device = opened.device()?;
    let range = Range { offset: 0, bytes: opened.bytes() };
    Ok(LogReader::open(Box::new(device), range)?)
}
