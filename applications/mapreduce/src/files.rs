//! Files by the node's file service: long reads in parts that are on their way at once, and a split's text.

use heliostat::file::{
    mode, Delegated, DelegatedError, File, OpKind, Piece, Pieces, Transfer, BUFFERED, CREATE, READ,
    TRUNCATE, WRITE,
};

use crate::job::Job;
use crate::Failure;

const PART_BYTES: usize = 1 << 20;
const PARTS: usize = 8;
/// What names and facts go through, behind the parts.
const SCRATCH_BYTES: usize = 8192;
/// How much is read at a time to find where a key ends that goes on behind its split.
const MORE_BYTES: u64 = 64 << 10;
const SCRATCH: Piece = Piece { offset: (PART_BYTES * PARTS) as u64, bytes: SCRATCH_BYTES as u32 };

/// Files of this process, one thread's.
pub struct Files {
    session: Delegated,
}

impl Files {
    /// Begins a session with the node's file service.
    ///
    /// # Errors
    /// No control plane, or it gives none.
    pub fn start() -> Result<Files, Failure> {
        Ok(Files { session: Delegated::start(PART_BYTES * PARTS + SCRATCH_BYTES)? })
    }

    /// Opens a file for reading; says how long it is.
    ///
    /// # Errors
    /// What open(2) would say.
    pub fn open(&mut self, path: &str) -> Result<(File, u64), Failure> {
        let named = |error| format!("{path}: {error}");
        let file = self.session.open(path, READ | BUFFERED, SCRATCH).map_err(named)?;
        Ok((file, self.session.facts(file, SCRATCH).map_err(named)?.size))
    }

    /// Makes an empty file.
    ///
    /// # Errors
    /// What open(2) would say.
    pub fn create(&mut self, path: &str) -> Result<File, Failure> {
        let access = WRITE | CREATE | TRUNCATE | mode(0o644);
        Ok(self.session.open(path, access, SCRATCH).map_err(|error| format!("{path}: {error}"))?)
    }

    /// Reads bytes from an offset on, all of `into`, several parts at once.
    ///
    /// # Errors
    /// The file ends before, or what read(2) would say.
    pub fn read(&mut self, file: File, offset: u64, into: &mut [u8]) -> Result<(), Failure> {
        let places: Vec<usize> = (0..into.len()).step_by(PART_BYTES).collect();
        let length = |at: usize| PART_BYTES.min(into.len() - at);
        let transfers: Vec<_> = places
            .iter()
            .enumerate()
            .map(|(part, at)| read_of(file, offset + *at as u64, part, length(*at)))
            .collect();
        let mut submitted = self.submit(&transfers[..transfers.len().min(PARTS)])?;
        for _ in 0..transfers.len() {
            let completion = self.session.wait(None)?;
            let part = completion.tag as usize;
            let at = *places.get(part).ok_or("a read that nobody asked for has completed")?;
            let bytes = length_of(completion.result, PART_BYTES.min(into.len() - at))?;
            let from = part % PARTS * PART_BYTES;
            self.session.window().copy_out(from, &mut into[at..at + bytes])?;
            // Its place in the window is that of the part which comes `PARTS` later.
            if let Some(next) = transfers.get(part + PARTS) {
                submitted += self.submit(std::slice::from_ref(next))?;
            }
        }
        debug_assert_eq!(submitted, transfers.len());
        Ok(())
    }

    fn submit(&mut self, transfers: &[Transfer]) -> Result<usize, DelegatedError> {
        let mut done = 0;
        while done < transfers.len() {
            done += self.session.submit(&transfers[done..])?;
        }
        Ok(done)
    }

    /// Writes bytes from an offset on.
    ///
    /// # Errors
    /// What write(2) would say.
    pub fn write(&mut self, file: File, offset: u64, from: &[u8]) -> Result<(), Failure> {
        let mut written = 0;
        while written < from.len() {
            let bytes = PART_BYTES.min(from.len() - written);
            self.session.window().copy_in(0, &from[written..written + bytes])?;
            let piece = Piece { offset: 0, bytes: bytes as u32 };
            let done = self.session.write_at(file, offset + written as u64, piece)?;
            written += length_of(done as i64, done.max(1))?;
        }
        Ok(())
    }

    /// Gives a file that was written its name, in one step: nobody sees a part of it under that.
    ///
    /// # Errors
    /// What close(2) and rename(2) would say.
    pub fn finish(&mut self, file: File, from: &str, to: &str) -> Result<(), Failure> {
        self.session.close(file)?;
        Ok(self.session.rename(from, to, true, SCRATCH)?)
    }

    /// Reads the text of a split: the keys that begin in it, also where the last one ends behind it.
    /// `into` keeps its memory from call to call; the text is the part of it that is returned.
    ///
    /// # Errors
    /// As `read`.
    pub fn read_split<'a>(
        &mut self,
        (file, bytes): (File, u64),
        (start, end): (u64, u64),
        job: Job,
        into: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], Failure> {
        // The byte before tells whether a key begins with the split.
        let from = start.saturating_sub(1);
        let length = (end - from) as usize;
        into.resize(length, 0);
        self.read(file, from, into)?;
        let mut begin = 0;
        if start > 0 {
            match into.iter().position(|byte| job.is_end(*byte)) {
                Some(at) if at + 1 < length => begin = at + 1,
                // All of it belongs to a key that began before.
                _ => return Ok(&[]),
            }
        }
        let (mut at, mut is_whole) = (end, into.last().is_some_and(|byte| job.is_end(*byte)));
        while !is_whole && at < bytes {
            let (kept, more) = (into.len(), MORE_BYTES.min(bytes - at));
            into.resize(kept + more as usize, 0);
            self.read(file, at, &mut into[kept..])?;
            at += more;
            if let Some(last) = into[kept..].iter().position(|byte| job.is_end(*byte)) {
                into.truncate(kept + last + 1);
                is_whole = true;
            }
        }
        Ok(&into[begin..])
    }
}

fn read_of(file: File, offset: u64, part: usize, bytes: usize) -> Transfer {
    let place = Piece { offset: (part % PARTS * PART_BYTES) as u64, bytes: bytes as u32 };
    let pieces = Pieces::new(&[place]).unwrap_or_default();
    let (tag, timeout_us, argument) = (part as u64, 0, 0);
    Transfer { kind: OpKind::Read, file, offset, pieces, tag, timeout_us, argument }
}

/// What an operation says that has to be done in full.
fn length_of(result: i64, wanted: usize) -> Result<usize, Failure> {
    match usize::try_from(result) {
        Ok(bytes) if bytes == wanted => Ok(bytes),
        Ok(bytes) => Err(format!("{bytes} bytes instead of {wanted}: the file changes").into()),
        Err(_) => Err(std::io::Error::from_raw_os_error(result.unsigned_abs() as i32).into()),
    }
}
