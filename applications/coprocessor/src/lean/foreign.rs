//! The shim's functions, with their pointers checked: the only unsafe code of this program.

use std::ffi::{CString, c_char, c_int, c_void};
use std::io;

use super::BUFFER_BYTES;

/// An open file or a socket; the host's number and how often that was given out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Object {
    index: u32,
    generation: u32,
}

/// A socket that is waited for.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct PollEntry {
    socket: Object,
    wanted: u16,
    found: u16,
    zero: u32,
}

/// A file that is read whole, as the header has it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Fetch {
    name: *const c_char,
    offset: u64,
    into: *mut c_void,
    bytes: u64,
    ticket: [u32; 2],
    value: i64,
}

const POLL_IN: u16 = 1;

pub const READ: u32 = 1;
pub const WRITE: u32 = 2;
pub const CREATE: u32 = 16;
pub const EXCLUSIVE: u32 = 32;
pub const TRUNCATE: u32 = 64;
pub const DIRECTORY: u32 = 128;

unsafe extern "C" {
    fn shim_attach(
        payload: *mut *mut u8,
        bytes: *mut u64,
        worker: *mut u32,
        workers: *mut u32,
    ) -> c_int;
    fn shim_open(name: *const c_char, flags: u32, file: *mut Object) -> i64;
    fn shim_close(file: Object) -> i64;
    fn shim_read(file: Object, offset: u64, into: *mut c_void, bytes: u64) -> i64;
    fn shim_fetch_begin(each: *mut Fetch, count: u32) -> i64;
    fn shim_fetch_end(one: *const Fetch) -> i64;
    fn shim_write(file: Object, offset: u64, from: *const c_void, bytes: u64) -> i64;
    fn shim_fsync(file: Object) -> i64;
    fn shim_length(file: Object) -> i64;
    fn shim_unlink(name: *const c_char) -> i64;
    fn shim_rename(from: *const c_char, to: *const c_char) -> i64;
    fn shim_readdir(directory: Object, cookie: u64, into: *mut c_void, bytes: u64) -> i64;
    fn shim_next_entry(
        entries: *const c_void,
        bytes: u64,
        at: *mut u64,
        cookie: *mut u64,
        name: *mut *const c_char,
    ) -> c_int;
    fn shim_listen(address: u32, port: u16, listener: *mut Object) -> i64;
    fn shim_accept(listener: Object, socket: *mut Object) -> i64;
    fn shim_send(socket: Object, from: *const c_void, bytes: u64) -> i64;
    fn shim_receive(socket: Object, into: *mut c_void, bytes: u64) -> i64;
    fn shim_poll(entries: *mut c_void, count: u32) -> i64;
    fn shim_close_socket(socket: Object) -> i64;
}

/// `BUFFER_BYTES` of the window, that one owner has.
#[derive(Debug)]
pub struct Buffer(*mut u8);

// SAFETY: the window stays mapped to the process's end, and a buffer has one owner at a time.
unsafe impl Send for Buffer {}

/// Files that one part of a buffer is read into at once, and the parts of a buffer.
pub const FETCHES: usize = 8;
pub const PARTS: usize = 2;
/// Bytes of one file that are read so.
pub const FETCH_BYTES: usize = BUFFER_BYTES / FETCHES / PARTS;

/// Whole files that are being read into a part of a buffer, in order. Dropped, it waits for those that
/// were not asked for: the host writes there until it has answered.
pub struct Fetches<'a> {
    asked: [Fetch; FETCHES],
    begun: usize,
    ended: usize,
    /// The names, and the buffer, stay as long as the host may look.
    _names: Vec<CString>,
    _buffer: std::marker::PhantomData<&'a Buffer>,
}

impl<'a> Fetches<'a> {
    /// Asks for at most [`FETCHES`] files, in a part of a buffer where nothing else is read.
    pub fn begin(buffer: &'a Buffer, part: usize, names: &[String]) -> io::Result<Fetches<'a>> {
        let names: Vec<CString> =
            names.iter().take(FETCHES).map(|name| c_name(name)).collect::<io::Result<_>>()?;
        let into = |number: usize| {
            let place = (part % PARTS * FETCHES + number) * FETCH_BYTES;
            // SAFETY: the parts lie side by side in a buffer.
            unsafe { buffer.0.add(place) }.cast()
        };
        let none = std::ptr::null();
        let asked = std::array::from_fn(|number| Fetch {
            name: names.get(number).map_or(none, |name| name.as_ptr()),
            offset: 0,
            into: into(number),
            bytes: FETCH_BYTES as u64,
            ticket: [0; 2],
            value: 0,
        });
        let begun = names.len();
        let buffer = std::marker::PhantomData;
        let mut all = Fetches { asked, begun, ended: 0, _names: names, _buffer: buffer };
        // SAFETY: so many are filled in; names and buffer outlive what is asked.
        let error = unsafe { shim_fetch_begin(all.asked.as_mut_ptr(), begun as u32) };
        if error < 0 {
            // The host is gone: nothing is under way any more.
            all.ended = begun;
        }
        answered(error).map(|_| all)
    }

    /// Waits for the next file and puts its bytes in the place of `bytes`: whether these are all that
    /// there are. None when all were asked for.
    pub fn next(&mut self, bytes: &mut Vec<u8>) -> Option<io::Result<bool>> {
        let one = self.asked[..self.begun].get(self.ended)?;
        self.ended += 1;
        // SAFETY: it was begun, and is ended once.
        let got = match answered(unsafe { shim_fetch_end(one) }) {
            Ok(got) => (got as usize).min(FETCH_BYTES),
            Err(error) => return Some(Err(error)),
        };
        bytes.resize(got, 0);
        // SAFETY: so many bytes lie there, and the host has answered; the window is not Rust's memory.
        unsafe { one.into.cast::<u8>().copy_to_nonoverlapping(bytes.as_mut_ptr(), got) };
        Some(Ok(got < FETCH_BYTES))
    }
}

impl Drop for Fetches<'_> {
    fn drop(&mut self) {
        for one in &self.asked[self.ended..self.begun] {
            // SAFETY: as in `next`.
            unsafe { shim_fetch_end(one) };
        }
    }
}

/// What was mapped.
pub struct Payload {
    pub worker: usize,
    pub workers: usize,
    pub buffers: Vec<Buffer>,
}

/// Maps the window and parts it; an errno if that fails. To be called once.
pub fn attach() -> Result<Payload, i32> {
    let (mut start, mut bytes, mut worker, mut workers) = (std::ptr::null_mut(), 0, 0, 0);
    // SAFETY: the four are places of ours; the caller says that this is the first time.
    let error =
        unsafe { shim_attach(&raw mut start, &raw mut bytes, &raw mut worker, &raw mut workers) };
    if error != 0 {
        return Err(-error);
    }
    let count = bytes as usize / BUFFER_BYTES;
    // SAFETY: `count` buffers lie within the payload, side by side.
    let buffers =
        (0..count).map(|number| Buffer(unsafe { start.add(number * BUFFER_BYTES) })).collect();
    Ok(Payload { worker: worker as usize, workers: workers as usize, buffers })
}

fn answered(value: i64) -> io::Result<u64> {
    u64::try_from(value)
        .map_err(|_| io::Error::from_raw_os_error(i32::try_from(-value).unwrap_or(i32::MAX)))
}

fn c_name(name: &str) -> io::Result<CString> {
    CString::new(name).map_err(|_| io::ErrorKind::InvalidInput.into())
}

pub fn open(name: &str, flags: u32) -> io::Result<Object> {
    let (name, mut file) = (c_name(name)?, Object::default());
    // SAFETY: a string with its end, and a place of ours.
    answered(unsafe { shim_open(name.as_ptr(), flags, &raw mut file) }).map(|_| file)
}

pub fn close(file: Object) -> io::Result<()> {
    // SAFETY: the shim takes values, no pointer.
    answered(unsafe { shim_close(file) }).map(|_| ())
}

pub fn sync(file: Object) -> io::Result<()> {
    // SAFETY: the shim takes values, no pointer.
    answered(unsafe { shim_fsync(file) }).map(|_| ())
}

pub fn length(file: Object) -> io::Result<u64> {
    // SAFETY: the shim takes values, no pointer.
    answered(unsafe { shim_length(file) })
}

pub fn unlink(name: &str) -> io::Result<()> {
    let name = c_name(name)?;
    // SAFETY: a string with its end.
    answered(unsafe { shim_unlink(name.as_ptr()) }).map(|_| ())
}

pub fn rename(from: &str, to: &str) -> io::Result<()> {
    let (from, to) = (c_name(from)?, c_name(to)?);
    // SAFETY: strings with their ends.
    answered(unsafe { shim_rename(from.as_ptr(), to.as_ptr()) }).map(|_| ())
}

pub fn listen(address: std::net::SocketAddrV4) -> io::Result<Object> {
    let mut listener = Object::default();
    // SAFETY: values, and a place of ours.
    answered(unsafe { shim_listen(u32::from(*address.ip()), address.port(), &raw mut listener) })
        .map(|_| listener)
}

pub fn accept(listener: Object) -> io::Result<Object> {
    let mut socket = Object::default();
    // SAFETY: values, and a place of ours.
    answered(unsafe { shim_accept(listener, &raw mut socket) }).map(|_| socket)
}

pub fn close_socket(socket: Object) -> io::Result<()> {
    // SAFETY: the shim takes values, no pointer.
    answered(unsafe { shim_close_socket(socket) }).map(|_| ())
}

impl Buffer {
    /// Reads a file into `bytes`, at most a buffer's length.
    pub fn read(&mut self, file: Object, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let most = bytes.len().min(BUFFER_BYTES);
        // SAFETY: so many bytes of the buffer are this owner's.
        let got = answered(unsafe { shim_read(file, offset, self.0.cast(), most as u64) })?;
        Ok(self.copy_out(got, bytes))
    }

    /// Writes the first of `bytes`, at most a buffer's length: how many.
    pub fn write(&mut self, file: Object, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let most = self.copy_in(bytes);
        // SAFETY: so many bytes, or entries, of the buffer are this owner's.
        answered(unsafe { shim_write(file, offset, self.0.cast(), most as u64) })
            .map(|wrote| wrote as usize)
    }

    /// Receives what is there.
    pub fn receive(&mut self, socket: Object, bytes: &mut [u8]) -> io::Result<usize> {
        let most = bytes.len().min(BUFFER_BYTES);
        // SAFETY: so many bytes, or entries, of the buffer are this owner's.
        let got = answered(unsafe { shim_receive(socket, self.0.cast(), most as u64) })?;
        Ok(self.copy_out(got, bytes))
    }

    /// Sends the first of `bytes`: how many.
    pub fn send(&mut self, socket: Object, bytes: &[u8]) -> io::Result<usize> {
        let most = self.copy_in(bytes);
        // SAFETY: so many bytes, or entries, of the buffer are this owner's.
        answered(unsafe { shim_send(socket, self.0.cast(), most as u64) }).map(|sent| sent as usize)
    }

    /// Names of a directory's entries from `cookie` on, and the next cookie; none at its end.
    pub fn entries(
        &mut self,
        directory: Object,
        cookie: u64,
    ) -> io::Result<Option<(Vec<String>, u64)>> {
        // SAFETY: so many bytes, or entries, of the buffer are this owner's.
        let got = answered(unsafe {
            shim_readdir(directory, cookie, self.0.cast(), BUFFER_BYTES as u64)
        })?;
        let (mut at, mut next, mut name, mut names) = (0, cookie, std::ptr::null(), Vec::new());
        loop {
            // SAFETY: the host wrote `got` bytes, at most a buffer's; the places are ours.
            let found = unsafe {
                shim_next_entry(
                    self.0.cast(),
                    got.min(BUFFER_BYTES as u64),
                    &raw mut at,
                    &raw mut next,
                    &raw mut name,
                )
            };
            let Ok(length @ 1..) = usize::try_from(found) else { break };
            // SAFETY: the shim found so many bytes of a name within the buffer.
            let bytes = unsafe { std::slice::from_raw_parts(name.cast::<u8>(), length) };
            names.push(String::from_utf8_lossy(bytes).into_owned());
        }
        Ok((got > 0).then_some((names, next)))
    }

    /// Waits until one of the sockets has something to be read, and says which have.
    pub fn poll(&mut self, sockets: &[Object]) -> io::Result<Vec<Object>> {
        let entries = self.0.cast::<PollEntry>();
        for (place, socket) in sockets.iter().enumerate() {
            let entry = PollEntry { socket: *socket, wanted: POLL_IN, ..PollEntry::default() };
            // SAFETY: 1,024 entries fit a buffer, and the host refuses more.
            unsafe { entries.add(place).write_volatile(entry) };
        }
        // SAFETY: so many entries were written.
        answered(unsafe { shim_poll(entries.cast(), sockets.len() as u32) })?;
        // SAFETY: so many bytes, or entries, of the buffer are this owner's.
        let found =
            (0..sockets.len()).map(|place| unsafe { entries.add(place).read_volatile() }.found);
        Ok(sockets
            .iter()
            .zip(found)
            .filter(|(_, found)| *found != 0)
            .map(|(socket, _)| *socket)
            .collect())
    }

    fn copy_out(&self, got: u64, bytes: &mut [u8]) -> usize {
        let got = (got as usize).min(bytes.len()).min(BUFFER_BYTES);
        // SAFETY: both are as long; the window is not memory of Rust's.
        unsafe { self.0.copy_to_nonoverlapping(bytes.as_mut_ptr(), got) };
        got
    }

    fn copy_in(&mut self, bytes: &[u8]) -> usize {
        let most = bytes.len().min(BUFFER_BYTES);
        // SAFETY: so many bytes, or entries, of the buffer are this owner's.
        unsafe { self.0.copy_from_nonoverlapping(bytes.as_ptr(), most) };
        most
    }
}

/// Sockets that one wait takes at the most.
pub const POLLED_MAX: usize = 1024;
const _: () = assert!(POLLED_MAX * size_of::<PollEntry>() <= BUFFER_BYTES);
