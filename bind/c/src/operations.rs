//! Delegated operations as C says them: what sessions and submitters take, and what they give.

use std::ffi::c_char;

use heliostat_abi::file::delegated::{Completion, OpKind, Pieces};
use heliostat_base::mapping::SharedMapping;
use heliostat_stub_file::{DelegatedError, File, Piece, Transfer};

use crate::border::{fail, give, text};
use crate::code::{heliostat_code, *};

/// Pieces that one operation has at most.
pub const HELIOSTAT_PIECES_MAX: usize = 16;
/// Largest tag; those above are the library's own.
pub const HELIOSTAT_TAG_MAX: u64 = 0x7fff_ffff_ffff_ffff;

const _: () = assert!(HELIOSTAT_PIECES_MAX == heliostat_abi::file::delegated::PIECES_MAX);
const _: () = assert!(HELIOSTAT_TAG_MAX == heliostat_stub_file::TAG_MAX);

/// What an operation does.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(non_camel_case_types)] // the name is the C name
pub enum heliostat_kind {
    /// Bytes of the file at `offset` into the pieces.
    HELIOSTAT_KIND_READ = 1,
    /// The pieces into the file at `offset`.
    HELIOSTAT_KIND_WRITE = 2,
    /// The pieces to the end of the file, in one step.
    HELIOSTAT_KIND_APPEND = 3,
    /// What was written before is on the disk once this completes; no pieces.
    HELIOSTAT_KIND_FSYNC = 4,
    /// What is known of the file into the one piece: 64 bytes as docs/delegated.md lays them out.
    HELIOSTAT_KIND_STAT = 6,
    /// The file is not needed any more; no pieces.
    HELIOSTAT_KIND_CLOSE = 7,
    /// The file becomes `argument` bytes long; no pieces.
    HELIOSTAT_KIND_TRUNCATE = 9,
    /// The directory whose name lies in the one piece is made, with the permissions in `argument`.
    HELIOSTAT_KIND_MKDIR = 10,
    /// The directory whose name lies in the one piece is removed.
    HELIOSTAT_KIND_RMDIR = 11,
    /// The name in the one piece is removed.
    HELIOSTAT_KIND_UNLINK = 12,
    /// What has the name in the first piece gets the one in the second; `HELIOSTAT_NOREPLACE`.
    HELIOSTAT_KIND_RENAME = 13,
    /// A symbolic link to what the first piece says gets the name in the second.
    HELIOSTAT_KIND_SYMLINK = 14,
    /// Where the link whose name lies in the first piece leads, into the second.
    HELIOSTAT_KIND_READLINK = 15,
    /// Entries of a directory from a cookie on, which is `offset`: see `heliostat_entry_next`.
    HELIOSTAT_KIND_READDIR = 16,
    /// A lock on the whole file: `HELIOSTAT_LOCK_SHARED` and the like in `argument`; no pieces.
    HELIOSTAT_KIND_LOCK = 17,
}
use heliostat_kind::*;

/// A file that the server has open. A plain value: copy it, compare it by its fields.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_file {
    /// Its number among the session's files.
    pub index: u32,
    /// Tells it from others that had the number.
    pub generation: u32,
    /// Of which session it is.
    pub epoch: u64,
}

/// A place in the window.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_piece {
    /// First byte, counted from the window's start.
    pub offset: u64,
    /// Number of bytes, at least 1.
    pub bytes: u32,
    /// Zero.
    pub reserved: u32,
}

/// One operation.
#[repr(C)]
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_operation {
    /// A `heliostat_kind`.
    pub kind: i32,
    /// Microseconds until it ends with ETIMEDOUT; 0 for never.
    pub timeout_us: u32,
    /// With which file; any for kinds that are about names.
    pub file: heliostat_file,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// Comes back with the completion; at most `HELIOSTAT_TAG_MAX`.
    pub tag: u64,
    /// Where in the window, in order; read during the call that submits.
    pub pieces: *const heliostat_piece,
    /// How many, at most `HELIOSTAT_PIECES_MAX`.
    pub pieces_count: usize,
    /// What the kind says; else 0.
    pub argument: u64,
}

/// How an operation ended.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_completion {
    /// The operation's tag.
    pub tag: u64,
    /// Bytes moved, or minus an errno of this system.
    pub result: i64,
    /// By which way: 0 none, 1 cached, 2 filled, 3 direct, 4 the kernel's page cache, 5 direct by an
    /// io_uring of the program's own.
    pub way: u32,
    /// Zero.
    pub reserved: u32,
}

/// Submits the `count` operations at `operations` by `submit`, and gives how many it has taken.
///
/// # Safety
/// `operations` is null or valid for `count`, and the pieces of each for theirs; `submitted` is null
/// or valid for writing.
pub(crate) unsafe fn submit_all(
    operations: *const heliostat_operation,
    count: usize,
    submitted: *mut usize,
    submit: impl FnOnce(&[Transfer]) -> Result<usize, DelegatedError>,
) -> Result<(), heliostat_code> {
    if operations.is_null() || submitted.is_null() {
        return Err(HELIOSTAT_NULL);
    }
    let mut transfers = Vec::with_capacity(count);
    for index in 0..count {
        // SAFETY: not null (checked), one of `count` by the caller's promise, as are its pieces.
        transfers.push(unsafe { transfer(&*operations.add(index))? });
    }
    let taken = submit(&transfers).map_err(named)?;
    // SAFETY: not null (checked), valid by the caller's promise.
    unsafe { give(submitted, taken) }
}

/// Gives the completion that `take` finds or waits for.
///
/// # Safety
/// `completion` is null or valid for writing.
pub(crate) unsafe fn give_completion(
    completion: *mut heliostat_completion,
    take: impl FnOnce() -> Result<Completion, DelegatedError>,
) -> Result<(), heliostat_code> {
    if completion.is_null() {
        return Err(HELIOSTAT_NULL);
    }
    let Completion { tag, result, way, .. } = take().map_err(named)?;
    let value = heliostat_completion { tag, result, way: way as u32, reserved: 0 };
    // SAFETY: not null (checked), valid by the caller's promise.
    unsafe { give(completion, value) }
}

/// Gives a window's first byte and its length; a null is an output not wanted.
///
/// # Safety
/// The outputs are null or valid for writing.
pub(crate) unsafe fn give_window(window: &SharedMapping, bytes: *mut *mut u8, len: *mut usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let _ = give(bytes, window.as_ptr());
        let _ = give(len, window.len());
    }
}

/// Gives the file that `open` opens by `name`.
///
/// # Safety
/// `name` is null or a C string; `file` is null or valid for writing.
pub(crate) unsafe fn give_opened(
    name: *const c_char,
    scratch: &heliostat_piece,
    file: *mut heliostat_file,
    open: impl FnOnce(&str, Piece) -> Result<File, DelegatedError>,
) -> Result<(), heliostat_code> {
    // SAFETY: the caller's promise.
    let name = unsafe { text(name)? }.filter(|_| !file.is_null()).ok_or(HELIOSTAT_NULL)?;
    let opened = open(name, piece(scratch)?).map_err(named)?;
    // SAFETY: not null (checked), valid by the caller's promise.
    unsafe { give(file, heliostat_file::of(opened)) }
}

/// The answer to whoever asked for the end of an operation.
pub(crate) fn cancelled(was_under_way: Result<bool, DelegatedError>) -> Result<(), heliostat_code> {
    if was_under_way.map_err(named)? {
        Ok(())
    } else {
        Err(fail(HELIOSTAT_NOT_FOUND, "no operation with this tag is under way"))
    }
}

pub(crate) fn named(error: DelegatedError) -> heliostat_code {
    fail((&error).into(), error)
}

pub(crate) fn piece(given: &heliostat_piece) -> Result<Piece, heliostat_code> {
    let heliostat_piece { offset, bytes, reserved } = *given;
    match reserved {
        0 => Ok(Piece { offset, bytes }),
        _ => Err(fail(HELIOSTAT_INVALID, "reserved bytes of a piece are zero")),
    }
}

impl heliostat_file {
    pub(crate) fn of(file: File) -> heliostat_file {
        let (index, generation, epoch) = file.to_parts();
        heliostat_file { index, generation, epoch }
    }

    pub(crate) fn file(self) -> File {
        File::from_parts((self.index, self.generation, self.epoch))
    }
}

/// # Safety
/// The operation's pieces are valid for their number.
unsafe fn transfer(given: &heliostat_operation) -> Result<Transfer, heliostat_code> {
    let count = given.pieces_count;
    if count > HELIOSTAT_PIECES_MAX {
        return Err(fail(HELIOSTAT_INVALID, format!("{count} pieces; at most 16")));
    }
    if count > 0 && given.pieces.is_null() {
        return Err(HELIOSTAT_NULL);
    }
    let mut list = [Piece::default(); HELIOSTAT_PIECES_MAX];
    for (index, place) in list.iter_mut().enumerate().take(count) {
        // SAFETY: not null (checked), one of `count` by the caller's promise.
        *place = piece(unsafe { &*given.pieces.add(index) })?;
    }
    let pieces = Pieces::new(list.get(..count).unwrap_or(&[])).unwrap_or_default();
    let heliostat_operation { timeout_us, offset, tag, argument, .. } = *given;
    let (kind, file) = (kind(given.kind)?, given.file.file());
    Ok(Transfer { kind, file, offset, argument, pieces, tag, timeout_us })
}

fn kind(number: i32) -> Result<OpKind, heliostat_code> {
    let kinds = [
        (HELIOSTAT_KIND_READ, OpKind::Read),
        (HELIOSTAT_KIND_WRITE, OpKind::Write),
        (HELIOSTAT_KIND_APPEND, OpKind::Append),
        (HELIOSTAT_KIND_FSYNC, OpKind::Fsync),
        (HELIOSTAT_KIND_STAT, OpKind::Stat),
        (HELIOSTAT_KIND_CLOSE, OpKind::Close),
        (HELIOSTAT_KIND_TRUNCATE, OpKind::Truncate),
        (HELIOSTAT_KIND_MKDIR, OpKind::Mkdir),
        (HELIOSTAT_KIND_RMDIR, OpKind::Rmdir),
        (HELIOSTAT_KIND_UNLINK, OpKind::Unlink),
        (HELIOSTAT_KIND_RENAME, OpKind::Rename),
        (HELIOSTAT_KIND_SYMLINK, OpKind::Symlink),
        (HELIOSTAT_KIND_READLINK, OpKind::Readlink),
        (HELIOSTAT_KIND_READDIR, OpKind::Readdir),
        (HELIOSTAT_KIND_LOCK, OpKind::Lock),
    ];
    let found = kinds.iter().find(|(here, _)| *here as i32 == number);
    found.map(|(_, kind)| *kind).ok_or_else(|| fail(HELIOSTAT_INVALID, "there is no such kind"))
}
