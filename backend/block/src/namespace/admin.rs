//! What a namespace is like: asked of the device once, when it is opened; and commands that are waited for.
#![allow(unsafe_code)] // the kernel is handed addresses of this process

use std::os::fd::{AsRawFd, OwnedFd};

use super::command::{Command, COMMAND_BYTES, OF_CONTROLLER, OF_NAMESPACE};
use super::{COMMAND_BYTES_MAX, SECTORS_MAX};

/// linux/nvme_ioctl.h.
const NVME_IOCTL_ID: libc::Ioctl = 0x4e40;
const NVME_IOCTL_ADMIN_CMD: libc::Ioctl = 0xc048_4e41_u32 as libc::Ioctl;
const NVME_IOCTL_IO_CMD: libc::Ioctl = 0xc048_4e43_u32 as libc::Ioctl;
/// Bytes of what Identify brings.
const IDENTIFIED_BYTES: usize = 4096;
/// Commands that a controller may lack (Identify Controller, bytes 520 and 521).
const DEALLOCATES: u16 = 1 << 2;
const ZEROES: u16 = 1 << 3;
/// What a namespace says of sectors that were given back (Identify Namespace, byte 33).
const READ_AS: u8 = 7;
const READ_AS_ZERO: u8 = 1;
const ZEROING_GIVES_BACK: u8 = 1 << 3;
/// Sectors of 512 to 4,096 bytes are ours.
const SECTOR_BITS: std::ops::RangeInclusive<u8> = 9..=12;

/// How sectors are given back, so that they read as zero for certain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GivesBack {
    /// By the command that zeroes them.
    Zeroing,
    /// They are zeroed first: a device may keep what it is told to give back, and shows it then.
    Afterwards,
}

/// What a namespace is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Namespace {
    /// Its number on its controller.
    pub(super) number: u32,
    pub(crate) sector_bytes: u32,
    pub(crate) sectors: u64,
    /// Bytes that one command moves at most, a multiple of the sector.
    pub(super) command_bytes_max: u32,
    /// Sectors that one command zeroes at most.
    pub(super) zeroed_sectors_max: u64,
    /// Whether it zeroes sectors by itself.
    pub(crate) zeroes: bool,
    /// How it takes sectors back that read as zero afterwards, if it does.
    pub(crate) gives_back: Option<GivesBack>,
    /// Whether it has a cache that loses with the power what was not flushed.
    pub(crate) has_cache: bool,
}

impl Namespace {
    /// What an open file is, if it is a namespace.
    ///
    /// # Errors
    /// It is none (ENOTTY), this process may not ask (EACCES), or the device does not answer.
    pub(crate) fn of(file: &OwnedFd) -> Result<Namespace, i32> {
        // SAFETY: it takes no address.
        let number = unsafe { libc::ioctl(file.as_raw_fd(), NVME_IOCTL_ID) };
        let number = u32::try_from(number).map_err(|_| errno())?;
        let identified = |what| {
            let mut data = [0; IDENTIFIED_BYTES];
            let of = if what == OF_NAMESPACE { number } else { 0 };
            let command = Command::identify(of, what, IDENTIFIED_BYTES as u32);
            // SAFETY: so many bytes of ours, which live until the call has ended.
            match unsafe { ask(file, NVME_IOCTL_ADMIN_CMD, &command, data.as_mut_ptr() as u64) } {
                0 => Ok(data),
                failed => Err(-failed),
            }
        };
        Namespace::from(number, &identified(OF_NAMESPACE)?, &identified(OF_CONTROLLER)?)
    }

    /// From what a device says of itself, which is checked.
    fn from(
        number: u32,
        namespace: &[u8; IDENTIFIED_BYTES],
        controller: &[u8; IDENTIFIED_BYTES],
    ) -> Result<Namespace, i32> {
        let mut sectors = [0; 8];
        sectors.copy_from_slice(&namespace[..8]);
        let sectors = u64::from_le_bytes(sectors);
        let format = 128 + 4 * usize::from(namespace[26] & 0xf);
        let metadata = u16::from_le_bytes([namespace[format], namespace[format + 1]]);
        let bits = namespace[format + 2];
        // Sectors with bytes of their own beside them need a buffer for those.
        if !SECTOR_BITS.contains(&bits) || metadata != 0 || sectors > u64::MAX >> 12 {
            return Err(libc::ENOTSUP);
        }
        // Counted in pages of the controller, which has them of 4 KiB at least; 0 is no limit.
        let most = match controller[77] {
            pages @ 1..=20 => 4096u64 << pages,
            _ => u64::MAX,
        };
        let can = u16::from_le_bytes([controller[520], controller[521]]);
        Ok(Namespace {
            number,
            sector_bytes: 1 << bits,
            sectors,
            command_bytes_max: most.min(COMMAND_BYTES_MAX.into()) as u32,
            // What moves nothing has a limit of its own, which few devices tell; the kernel takes this one, too.
            zeroed_sectors_max: (most >> bits).min(SECTORS_MAX),
            zeroes: can & ZEROES != 0,
            gives_back: gives_back(can, namespace[33]),
            has_cache: controller[525] & 1 != 0,
        })
    }

    /// Has a command done and waits for its end: 0, or minus an errno.
    ///
    /// # Safety
    /// The command's data lies at the address until this returns, and may be written where it is read.
    pub(super) unsafe fn perform(file: &OwnedFd, command: &Command, address: u64) -> i32 {
        // SAFETY: the caller's promise.
        unsafe { ask(file, NVME_IOCTL_IO_CMD, command, address) }
    }
}

fn gives_back(can: u16, feature: u8) -> Option<GivesBack> {
    if can & ZEROES == 0 || feature & READ_AS != READ_AS_ZERO {
        return None;
    }
    match feature & ZEROING_GIVES_BACK != 0 {
        true => Some(GivesBack::Zeroing),
        false => (can & DEALLOCATES != 0).then_some(GivesBack::Afterwards),
    }
}

/// # Safety
/// As for `perform`.
unsafe fn ask(file: &OwnedFd, what: libc::Ioctl, command: &Command, address: u64) -> i32 {
    let mut bytes: [u8; COMMAND_BYTES] = command.encode(address);
    // SAFETY: the kernel reads and writes the command, which is ours, and its data (the caller's promise).
    match unsafe { libc::ioctl(file.as_raw_fd(), what, bytes.as_mut_ptr()) } {
        0 => 0,
        failed if failed < 0 => -errno(),
        status => -of_status(status),
    }
}

/// What a device's own answer is as an errno: of those that say what to do.
pub(super) fn of_status(status: i32) -> i32 {
    match status & 0x7ff {
        // Invalid field, or command.
        0x01 | 0x02 => libc::EINVAL,
        // Beyond the namespace's end, or no room in it.
        0x80 => libc::ERANGE,
        0x81 => libc::ENOSPC,
        // Write protected: the namespace, or a range of it.
        0x20 | 0x182 => libc::EROFS,
        _ => libc::EIO,
    }
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_what_it_says_and_one_that_is_not_ours_is_refused() {
        let (mut of, mut by) = ([0; IDENTIFIED_BYTES], [0; IDENTIFIED_BYTES]);
        of[..8].copy_from_slice(&1000u64.to_le_bytes());
        (of[26], of[33]) = (1, 1);
        of[128 + 4 + 2] = 12;
        (by[77], by[520], by[525]) = (2, 0b1100, 1);
        let found = Namespace::from(7, &of, &by).unwrap();
        assert_eq!((found.number, found.sector_bytes, found.sectors), (7, 4096, 1000));
        assert_eq!((found.command_bytes_max, found.zeroed_sectors_max), (16 << 10, 4));
        assert!(found.zeroes && found.has_cache);
        assert_eq!(found.gives_back, Some(GivesBack::Afterwards));
        assert_eq!(gives_back(0b1000, 0b1001), Some(GivesBack::Zeroing));
        for (can, feature) in [(0b0100, 0b1001), (0b1000, 1), (0b1100, 0), (0b1100, 2)] {
            assert_eq!(gives_back(can, feature), None, "{can} {feature}");
        }
        by[77] = 0;
        let found = Namespace::from(7, &of, &by).unwrap();
        assert_eq!(found.command_bytes_max, COMMAND_BYTES_MAX);
        assert_eq!(found.zeroed_sectors_max, SECTORS_MAX);
        of[128 + 4 + 2] = 13;
        assert_eq!(Namespace::from(7, &of, &by), Err(libc::ENOTSUP), "sectors of 8 KiB");
        (of[128 + 4], of[128 + 4 + 2]) = (8, 12);
        assert_eq!(Namespace::from(7, &of, &by), Err(libc::ENOTSUP), "metadata");
        let null = std::fs::File::open("/dev/null").unwrap().into();
        assert_eq!(Namespace::of(&null), Err(libc::ENOTTY));
    }
}
