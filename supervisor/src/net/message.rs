//! A `msghdr` from foreign memory: its parts copied once, in order, within limits.

use std::os::fd::RawFd;

use heliostat_backend_seal as seal;
use heliostat_base::fd::OwnedFd;
use heliostat_base::sys::Errno;

use super::address::{self, Address};
use crate::call::Call;

/// Bytes of `msghdr`, `iovec` and `cmsghdr` (source: socket.h, 64 bits).
pub const HEADER_BYTES: usize = 56;
const VECTOR_BYTES: usize = 16;
const CONTROL_HEADER_BYTES: usize = 16;
/// Buffers of one message (source: UIO_MAXIOV, linux/uio.h).
const VECTORS_MAX: u64 = 1024;
/// Bytes that are copied at once, since many messages may wait. A stream takes a message in parts.
pub const BYTES_MAX: usize = 1 << 20;
/// Bytes of control messages: the descriptors of one message (SCM_MAX_FD, 253) and more.
pub const CONTROL_BYTES_MAX: u64 = 4096;
/// What the kernel copies of a stream's message at once: a piece with a fault in it is not sent
/// (source: SKB_FRAG_PAGE_ORDER, net/core/sock.c).
const PIECE_BYTES: usize = 32 << 10;

/// Messages of one sendmmsg(2) (source: UIO_MAXIOV, linux/uio.h).
pub const MESSAGES_MAX: u32 = 1024;
/// Bytes of `mmsghdr`.
pub const MESSAGE_BYTES: u64 = 64;
/// Never seen by programs: the kernel has to make the call, as no copy can be had of the socket or of
/// a descriptor in the message (source: linux/errno.h, ENOTSUPP).
pub const BY_KERNEL: Errno = Errno(524);

/// What a message carries.
pub struct Message {
    /// Where it goes, if it says so.
    pub to: Option<Address>,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// It had more bytes than are copied at once.
    pub is_cut: bool,
    /// It had more, in memory that cannot be read: a stream takes the whole pieces before it.
    pub is_faulty: bool,
    /// Descriptors that travel with it.
    pub descriptors: Vec<OwnedFd>,
}

impl Message {
    /// The message whose header is at `at`, without its first `sent` bytes; with them went its
    /// descriptors. EFAULT, EMSGSIZE, EINVAL, EBADF.
    pub fn read(call: &Call<'_>, at: u64, sent: usize) -> Result<Self, Errno> {
        let mut header = [0; HEADER_BYTES];
        seal::read_memory(call.thread(), at, &mut header)?;
        let word = |place: usize| word_at(&header, place * 8);
        // The length of the name is an int, with padding after it.
        let (name, name_bytes) = (word(0), word(1) as u32);
        let to = match name {
            0 => None,
            _ if name_bytes == 0 => None,
            at => Some(address::read(call, at, u64::from(name_bytes))?),
        };
        let (bytes, is_cut, is_faulty) = gather(call, (word(2), word(3)), sent)?;
        let descriptors = match (word(4), word(5)) {
            (0, _) | (_, 0) => Vec::new(),
            _ if sent > 0 => Vec::new(),
            (at, length) => control(call, at, length)?,
        };
        Ok(Self { to, bytes, is_cut, is_faulty, descriptors })
    }
}

/// The word at a place of bytes.
pub fn word_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_ne_bytes(*word))
}

/// `length` bytes at `at`, as many as are copied at once.
pub fn bytes(call: &Call<'_>, at: u64, length: u64) -> Result<(Vec<u8>, bool), Errno> {
    let kept = usize::try_from(length).unwrap_or(usize::MAX).min(BYTES_MAX);
    let mut bytes = vec![0; kept];
    seal::read_memory(call.thread(), at, &mut bytes)?;
    Ok((bytes, (kept as u64) < length))
}

/// The bytes of a message's parts, whether there are more than are copied at once, and whether there
/// are more that cannot be read. EFAULT if not even a piece can be.
fn gather(
    call: &Call<'_>,
    (at, count): (u64, u64),
    sent: usize,
) -> Result<(Vec<u8>, bool, bool), Errno> {
    if count > VECTORS_MAX {
        return Err(Errno(libc::EMSGSIZE));
    }
    let mut vectors = vec![0; count as usize * VECTOR_BYTES];
    seal::read_memory(call.thread(), at, &mut vectors)?;
    let (mut whole, mut is_cut, mut skipped) = (Vec::new(), false, sent as u64);
    for vector in vectors.chunks_exact(VECTOR_BYTES) {
        let (at, length) = (word_at(vector, 0), word_at(vector, 8));
        let behind = skipped.min(length);
        skipped -= behind;
        let (at, length) = (at.wrapping_add(behind), length - behind);
        let room = BYTES_MAX - whole.len();
        let kept = usize::try_from(length).map_err(|_| Errno(libc::EINVAL))?.min(room);
        is_cut |= (kept as u64) < length;
        let begin = whole.len();
        whole.resize(begin + kept, 0);
        let copied = seal::read_memory_until_fault(call.thread(), at, &mut whole[begin..])?;
        if copied < kept {
            whole.truncate((begin + copied) / PIECE_BYTES * PIECE_BYTES);
            return match whole.is_empty() {
                true => Err(Errno(libc::EFAULT)),
                false => Ok((whole, is_cut, true)),
            };
        }
    }
    Ok((whole, is_cut, false))
}

/// Control messages: descriptors (unix(7)). Credentials are left out if they are the caller's own,
/// and the kernel adds some where they are asked for; others would change how and where packets go, and are EINVAL.
fn control(call: &Call<'_>, at: u64, length: u64) -> Result<Vec<OwnedFd>, Errno> {
    if length > CONTROL_BYTES_MAX {
        return Err(Errno(libc::ENOBUFS));
    }
    let mut bytes = vec![0; length as usize];
    seal::read_memory(call.thread(), at, &mut bytes)?;
    let mut descriptors = Vec::new();
    for part in parts(&bytes)? {
        allowed(call, &part)?;
        if let (libc::SOL_SOCKET, libc::SCM_RIGHTS, data) = part {
            for number in data.chunks_exact(4) {
                let number = RawFd::from_ne_bytes([number[0], number[1], number[2], number[3]]);
                if call.supervisor.made.is_some() {
                    return Err(BY_KERNEL);
                }
                descriptors.push(seal::descriptor_of(call.thread(), number)?);
            }
        }
    }
    Ok(descriptors)
}

/// Whether a control message may be sent: EINVAL, EPERM.
pub fn allowed(call: &Call<'_>, (level, kind, data): &Part<'_>) -> Result<(), Errno> {
    match (*level, *kind) {
        (libc::SOL_SOCKET, libc::SCM_RIGHTS) => Ok(()),
        (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) => own_credentials(call, data),
        _ => {
            call.note_call(&format!("control messages of level {level}"));
            Err(Errno(libc::EINVAL))
        }
    }
}

/// EPERM for credentials that are not the caller's, as the kernel has it without capabilities.
fn own_credentials(call: &Call<'_>, data: &[u8]) -> Result<(), Errno> {
    let [process, user] = [0, 4].map(|at: usize| {
        let bytes = data.get(at..at + 4)?;
        bytes.try_into().map(u32::from_ne_bytes).ok()
    });
    let own = (call.process() as u32, rustix::process::geteuid().as_raw());
    match process.zip(user) == Some(own) {
        true => Ok(()),
        false => Err(Errno(libc::EPERM)),
    }
}

/// Level, type and data of a control message.
pub type Part<'a> = (i32, i32, &'a [u8]);

/// Each control message (cmsg(3)).
pub fn parts(bytes: &[u8]) -> Result<Vec<Part<'_>>, Errno> {
    let (mut parts, mut rest) = (Vec::new(), bytes);
    while rest.len() >= CONTROL_HEADER_BYTES {
        let length = usize::try_from(word_at(rest, 0)).unwrap_or(usize::MAX);
        let kinds = word_at(rest, 8);
        let data = rest.get(CONTROL_HEADER_BYTES..length).ok_or(Errno(libc::EINVAL))?;
        parts.push((kinds as u32 as i32, (kinds >> 32) as i32, data));
        rest = rest.get(length.next_multiple_of(8)..).unwrap_or(&[]);
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(length: u64, level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut whole = length.to_ne_bytes().to_vec();
        whole.extend(level.to_ne_bytes());
        whole.extend(kind.to_ne_bytes());
        whole.extend(data);
        whole
    }

    #[test]
    fn control_messages_are_taken_apart_and_never_beyond_their_end() {
        let mut two = part(20, 1, 1, &[7, 0, 0, 0, 0, 0, 0, 0]);
        two.extend(part(16, 1, 2, &[]));
        let found = parts(&two).unwrap();
        assert_eq!(found, [(1, 1, &[7, 0, 0, 0][..]), (1, 2, &[][..])]);
        for length in [0, 15, 17, 100, u64::MAX] {
            assert_eq!(parts(&part(length, 1, 1, &[])), Err(Errno(libc::EINVAL)), "{length}");
        }
        assert_eq!(parts(&[1; 15]), Ok(Vec::new()));
    }
}
