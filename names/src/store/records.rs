//! A log's two files: its entries as lines of JSON, and their payloads one behind the other.

use std::sync::{Arc, Mutex, PoisonError};

use heliostat_backend_log::LogReader;
use heliostat_stub_store::ListedArea;

use super::shape::{hex, line, Shape};
use super::view::{open_reader, View};
use super::Stores;
use crate::file::within;
use crate::{Access, Bytes, Facts, File, NameFault};

/// A log as it was when it was looked at.
pub(super) struct LogFile {
    stores: Stores,
    area: ListedArea,
    view: Arc<View>,
    shape: Shape,
}

impl LogFile {
    pub(super) fn new(stores: Stores, area: ListedArea, view: Arc<View>, shape: Shape) -> Self {
        Self { stores, area, view, shape }
    }
}

impl File for LogFile {
    fn facts(&self) -> Facts {
        let View { identity, begin, end, lengths, .. } = &*self.view;
        let (generation, shape) = (self.area.generation, self.shape);
        Facts {
            key: format!("log {generation} {} {} {} {shape:?}", hex(identity), begin.at, end.at),
            bytes: lengths.of(shape),
            user: Some(self.area.user),
            is_readable: true,
            is_writable: false,
            changed: None,
            is_constant: true,
        }
    }

    fn open(&self, access: Access) -> Result<Box<dyn Bytes>, NameFault> {
        if access.writes() {
            return Err(NameFault::ReadOnly);
        }
        let reader = open_reader(&self.stores, &self.area)?;
        if reader.header().identity != self.view.identity {
            return Err(NameFault::Stale);
        }
        Ok(Box::new(OpenLog::new(self.view.clone(), self.shape, reader)))
    }
}

struct OpenLog {
    view: Arc<View>,
    shape: Shape,
    cursor: Mutex<Cursor>,
}

impl OpenLog {
    fn new(view: Arc<View>, shape: Shape, reader: LogReader) -> Self {
        // Nothing is read yet, so the first read goes to its place.
        let cursor = Cursor { reader, start: u64::MAX, bytes: Vec::new() };
        Self { view, shape, cursor: Mutex::new(cursor) }
    }
}

/// Where reading is: an entry's bytes of the file, and the reader behind it.
struct Cursor {
    reader: LogReader,
    /// Where the entry's bytes begin in the file.
    start: u64,
    bytes: Vec<u8>,
}

impl Cursor {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes.len() as u64)
    }

    /// Goes to the entry that has the byte at an offset, which is before the view's end.
    fn go_to(&mut self, view: &View, shape: Shape, offset: u64) -> Result<(), NameFault> {
        let (entry, start) = view.place(shape, offset);
        // On from where it is, unless that is behind the offset, or there is a nearer place.
        if offset < self.start || start > self.end() {
            self.reader.go_to(entry);
            (self.start, self.bytes) = (start, Vec::new());
        }
        while offset >= self.end() {
            let gone = || NameFault::Broken("the log ends before the file does".to_owned());
            let entry = self.reader.read()?.ok_or_else(gone)?;
            self.start = self.end();
            self.bytes = match shape {
                Shape::Data => entry.payload,
                Shape::Records => line(&entry).into_bytes(),
            };
        }
        Ok(())
    }
}

impl Bytes for OpenLog {
    fn size(&self) -> Result<u64, NameFault> {
        Ok(self.view.lengths.of(self.shape))
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, NameFault> {
        let count = within(offset, into.len(), self.view.lengths.of(self.shape));
        let mut cursor = self.cursor.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = 0;
        while done < count {
            let at = offset + done as u64;
            cursor.go_to(&self.view, self.shape, at)?;
            let from = (at - cursor.start) as usize;
            let part = (cursor.bytes.len() - from).min(count - done);
            into[done..done + part].copy_from_slice(&cursor.bytes[from..from + part]);
            done += part;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use heliostat_backend_block::{Device, MemoryDevice};
    use heliostat_backend_log::{Area, Log, LogReader, Options};

    use super::*;

    const BYTES: u64 = 8 << 20;
    const AREA: Area = Area { offset: 0, bytes: BYTES };

    /// A log with these entries, on a device of its own.
    fn log_of(payloads: &[Vec<u8>]) -> Box<dyn Device> {
        let device = Box::new(MemoryDevice::new(BYTES));
        let log = Log::create(device, AREA, Options::default()).unwrap();
        payloads.iter().for_each(|payload| drop(log.append(payload).unwrap()));
        log.sync().unwrap();
        log.close().unwrap();
        log.into_device().unwrap()
    }

    /// Entries of many lengths, some of which are no text.
    fn payloads() -> Vec<Vec<u8>> {
        let byte = |number: usize| if number % 7 == 0 { 0xff } else { b'a' + (number % 26) as u8 };
        (0..4000).map(|number| vec![byte(number); number * 37 % 600]).collect()
    }

    /// Both files of a log, read as programs read: from any offset, and on.
    fn read(device: Box<dyn Device>, shape: Shape) -> (Vec<u8>, Vec<(usize, Vec<u8>)>) {
        let mut reader = LogReader::open(device, AREA).unwrap();
        let mut view = View::new(&reader);
        view.extend(&mut reader).unwrap();
        let open = OpenLog::new(Arc::new(view), shape, reader);
        let mut all = vec![0; open.size().unwrap() as usize];
        assert_eq!(open.read_at(0, &mut all), Ok(all.len()));
        let offsets = (0..40).map(|turn| turn * 7_919_003 % all.len());
        let parts = offsets.map(|offset| {
            let mut part = vec![0; 5000];
            let count = open.read_at(offset as u64, &mut part).unwrap();
            (offset, part[..count].to_vec())
        });
        let parts = parts.collect();
        assert_eq!(open.read_at(all.len() as u64, &mut [0; 8]), Ok(0));
        (all, parts)
    }

    #[test]
    fn data_is_the_payloads_from_any_offset() {
        let wanted = payloads().concat();
        let (all, parts) = read(log_of(&payloads()), Shape::Data);
        assert!(all == wanted);
        for (offset, part) in parts {
            assert!(part == wanted[offset..(offset + 5000).min(wanted.len())], "{offset}");
        }
    }

    #[test]
    fn records_are_a_line_of_json_for_each_entry() {
        let (all, parts) = read(log_of(&payloads()), Shape::Records);
        let text = String::from_utf8(all).unwrap();
        for (line, payload) in text.lines().zip(payloads()) {
            let told: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(told["bytes"], payload.len());
            match String::from_utf8(payload) {
                Ok(payload) => assert_eq!(told["text"], payload),
                Err(error) => assert_eq!(told["hex"], hex(error.as_bytes())),
            }
        }
        assert_eq!(text.lines().count(), payloads().len());
        assert!(parts.iter().all(|(offset, part)| text.as_bytes()[*offset..].starts_with(part)));
    }

    #[test]
    fn an_empty_log_is_an_empty_file() {
        let mut reader = LogReader::open(log_of(&[]), AREA).unwrap();
        let mut view = View::new(&reader);
        view.extend(&mut reader).unwrap();
        let open = OpenLog::new(Arc::new(view), Shape::Records, reader);
        assert_eq!((open.size(), open.read_at(0, &mut [0; 8])), (Ok(0), Ok(0)));
    }
}
