//! Arguments of operations: which bits each kind knows. Unknown ones are refused.

use super::area_operation::changed_bytes;
use super::function_operation::SEND_NOW;
use super::region_operation::set_of;
use super::socket_operation::fits_socket;
use super::OpKind;

/// Open: the file will be read.
pub const READ: u64 = 1;
/// Open: the file will be written.
pub const WRITE: u64 = 2;
/// Open: what is aligned goes to the device itself, past every cache.
pub const DIRECT: u64 = 4;
/// Open: reads never go past the caches, however large they are. Not with `DIRECT`.
pub const BUFFERED: u64 = 8;
/// Open: the file is made if it is not there, with the permissions of [`mode`].
pub const CREATE: u64 = 16;
/// Open: it must not be there. With `CREATE` only.
pub const EXCLUSIVE: u64 = 32;
/// Open: it becomes empty. With `WRITE` only.
pub const TRUNCATE: u64 = 64;
/// Open: it is a directory, for Readdir, Fsync, Stat and Lock. With `READ` and nothing else.
pub const DIRECTORY: u64 = 128;

/// Rename: the new name must not be there.
pub const NOREPLACE: u64 = 1;

/// Lock: nobody has one by this file any more.
pub const UNLOCK: u64 = 0;
/// Lock: others may have the same.
pub const SHARED: u64 = 1;
/// Lock: nobody else may have any.
pub const ALONE: u64 = 2;
/// Lock: EAGAIN instead of a wait. With `SHARED` or `ALONE`.
pub const NOW: u64 = 4;

/// Permissions that a file or directory may be made with.
pub const MODE_BITS: u64 = 0o7777;
/// Where Open's argument has them.
const MODE_SHIFT: u32 = 16;

/// Open's argument for a file that is made with these permissions, of which the program's umask
/// takes its bits away.
pub const fn mode(permissions: u32) -> u64 {
    (permissions as u64 & MODE_BITS) << MODE_SHIFT
}

/// The permissions in Open's argument.
pub const fn mode_of(argument: u64) -> u32 {
    (argument >> MODE_SHIFT & MODE_BITS) as u32
}

/// Whether a kind knows every bit of an argument, in this combination.
pub(super) fn fits(kind: OpKind, argument: u64) -> bool {
    match kind {
        OpKind::Open => fits_open(argument),
        OpKind::Cancel | OpKind::FetchAdd | OpKind::CompareSwap | OpKind::Swap => true,
        OpKind::Set => set_of(argument).is_some(),
        OpKind::Truncate => argument <= i64::MAX as u64,
        OpKind::Mkdir => argument & !MODE_BITS == 0,
        OpKind::Rename => argument & !NOREPLACE == 0,
        OpKind::Send => argument & !SEND_NOW == 0,
        OpKind::Receive | OpKind::Reply => true,
        OpKind::Zero | OpKind::Discard => changed_bytes(argument).is_some(),
        OpKind::Listen | OpKind::Shutdown | OpKind::Address => fits_socket(kind, argument),
        OpKind::Lock => matches!(argument & !NOW, SHARED | ALONE) || argument == UNLOCK,
        _ => argument == 0,
    }
}

fn fits_open(argument: u64) -> bool {
    let has = |bits: u64| argument & bits != 0;
    let mode_bits = MODE_BITS << MODE_SHIFT;
    let known = READ | WRITE | DIRECT | BUFFERED | CREATE | EXCLUSIVE | TRUNCATE | DIRECTORY;
    argument & !(known | mode_bits) == 0
        && has(READ | WRITE)
        && !(has(DIRECT) && has(BUFFERED))
        && (has(CREATE) || !has(EXCLUSIVE | mode_bits))
        && (has(WRITE) || !has(TRUNCATE))
        && (!has(DIRECTORY) || argument == READ | DIRECTORY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_takes_exactly_the_combinations_that_mean_something() {
        let good = [
            READ,
            WRITE | BUFFERED,
            READ | WRITE | DIRECT,
            READ | CREATE,
            READ | DIRECTORY,
            WRITE | CREATE | EXCLUSIVE | TRUNCATE | mode(0o7777),
        ];
        let bad = [
            0,
            DIRECT,
            READ | DIRECT | BUFFERED,
            READ | EXCLUSIVE,
            WRITE | mode(0o600),
            READ | TRUNCATE,
            WRITE | DIRECTORY,
            READ | DIRECTORY | CREATE,
            READ | BUFFERED | DIRECTORY,
            READ | 256,
            READ | CREATE | 1 << 28,
            READ | 1 << 63,
        ];
        assert!(good.into_iter().all(|argument| fits(OpKind::Open, argument)));
        assert_eq!(bad.into_iter().find(|argument| fits(OpKind::Open, *argument)), None);
        assert_eq!(mode_of(READ | CREATE | mode(0o1751)), 0o1751);
    }

    #[test]
    fn other_kinds_take_their_own_bits_only() {
        let most = i64::MAX as u64;
        let good = [
            (OpKind::Truncate, most),
            (OpKind::Mkdir, 0o7777),
            (OpKind::Rename, NOREPLACE),
            (OpKind::Lock, UNLOCK),
            (OpKind::Lock, SHARED),
            (OpKind::Lock, ALONE | NOW),
            (OpKind::Cancel, u64::MAX),
        ];
        let bad = [
            (OpKind::Truncate, most + 1),
            (OpKind::Mkdir, 0o10000),
            (OpKind::Rename, 2),
            (OpKind::Lock, NOW),
            (OpKind::Lock, SHARED | ALONE),
            (OpKind::Lock, 8),
            (OpKind::Unlink, 1),
            (OpKind::Rmdir, 1),
            (OpKind::Symlink, 1),
            (OpKind::Readlink, 1),
            (OpKind::Readdir, 1),
            (OpKind::Read, 1),
        ];
        assert!(good.into_iter().all(|(kind, argument)| fits(kind, argument)));
        assert_eq!(bad.into_iter().find(|(kind, argument)| fits(*kind, *argument)), None);
    }
}
