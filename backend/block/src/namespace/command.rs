//! Commands as the kernel takes them: `struct nvme_uring_cmd` and `struct nvme_passthru_cmd`, 72 bytes that are
//! alike but for their last word.
//!
//! ```text
//!  0 opcode u8, flags u8, 0 u16, namespace u32, 0 u64      24 address u64
//! 16 metadata u64                                          36 bytes u32, words 10 to 15 u32
//! 32 bytes of metadata u32                                 64 time limit in ms u32, result u32
//! ```

/// Bytes of one.
pub(super) const COMMAND_BYTES: usize = 72;

const FLUSH: u8 = 0x00;
const WRITE: u8 = 0x01;
const READ: u8 = 0x02;
const WRITE_ZEROES: u8 = 0x08;
const DATASET_MANAGEMENT: u8 = 0x09;
const IDENTIFY: u8 = 0x06;

/// Of word 12: the write lasts when it has ended.
const FORCED_UNIT_ACCESS: u32 = 1 << 30;
/// Of word 12: sectors that are zeroed are given back as well, and read as zero whether they were or not.
const ZERO_AND_DEALLOCATE: u32 = 1 << 25;
/// Of word 11: the ranges are given back.
const DEALLOCATE: u32 = 1 << 2;
/// Which data Identify brings: of a namespace, of the controller.
pub(super) const OF_NAMESPACE: u32 = 0;
pub(super) const OF_CONTROLLER: u32 = 1;

/// Bytes of a range that is given back.
pub(super) const RANGE_BYTES: usize = 16;

/// A command without the address of its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Command {
    opcode: u8,
    namespace: u32,
    /// Bytes of its data, or none.
    pub(super) bytes: u32,
    words: [u32; 6],
}

impl Command {
    pub(super) fn read(namespace: u32, sectors: Sectors, bytes: u32) -> Command {
        Command { opcode: READ, namespace, bytes, words: sectors.words(0) }
    }

    pub(super) fn write(namespace: u32, sectors: Sectors, bytes: u32, durable: bool) -> Command {
        let flags = if durable { FORCED_UNIT_ACCESS } else { 0 };
        Command { opcode: WRITE, namespace, bytes, words: sectors.words(flags) }
    }

    /// Makes sectors read as zero, and moves nothing; has them given back with it, where the device can.
    pub(super) fn zero(namespace: u32, sectors: Sectors, gives_back: bool) -> Command {
        let flags = if gives_back { ZERO_AND_DEALLOCATE } else { 0 };
        Command { opcode: WRITE_ZEROES, namespace, bytes: 0, words: sectors.words(flags) }
    }

    pub(super) fn flush(namespace: u32) -> Command {
        Command { opcode: FLUSH, namespace, ..Command::default() }
    }

    /// Gives back the one range that its data is. A device need not: what it keeps reads as before.
    pub(super) fn deallocate(namespace: u32) -> Command {
        let words = [0, DEALLOCATE, 0, 0, 0, 0];
        Command { opcode: DATASET_MANAGEMENT, namespace, bytes: RANGE_BYTES as u32, words }
    }

    /// Of the device's own queue, for commands about itself.
    pub(super) fn identify(namespace: u32, what: u32, bytes: u32) -> Command {
        Command { opcode: IDENTIFY, namespace, bytes, words: [what, 0, 0, 0, 0, 0] }
    }

    /// As the kernel takes it, with its data at an address of this process.
    pub(super) fn encode(&self, address: u64) -> [u8; COMMAND_BYTES] {
        let mut bytes = [0; COMMAND_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &[self.opcode]);
        put(4, &self.namespace.to_ne_bytes());
        put(24, &address.to_ne_bytes());
        put(36, &self.bytes.to_ne_bytes());
        for (place, word) in self.words.iter().enumerate() {
            put(40 + 4 * place, &word.to_ne_bytes());
        }
        bytes
    }
}

/// Sectors one behind the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sectors {
    pub(super) first: u64,
    /// 1 to 65,536.
    pub(super) count: u32,
}

impl Sectors {
    fn words(self, flags: u32) -> [u32; 6] {
        let Sectors { first, count } = self;
        [first as u32, (first >> 32) as u32, (count - 1) | flags, 0, 0, 0]
    }

    /// As a range that is given back.
    pub(super) fn range(self) -> [u8; RANGE_BYTES] {
        let mut bytes = [0; RANGE_BYTES];
        bytes[4..8].copy_from_slice(&self.count.to_le_bytes());
        bytes[8..].copy_from_slice(&self.first.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_their_words_where_the_kernel_and_the_device_look_for_them() {
        let sectors = Sectors { first: 0x1_0000_0002, count: 8 };
        let write = Command::write(3, sectors, 4096, true).encode(0x7f00_1234_5678);
        let word =
            |bytes: &[u8], at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!((write[0], word(&write, 4), word(&write, 36)), (1, 3, 4096));
        assert_eq!(write[24..32], 0x7f00_1234_5678u64.to_ne_bytes());
        assert_eq!((word(&write, 40), word(&write, 44)), (2, 1));
        assert_eq!(word(&write, 48), 7 | 1 << 30);
        let read = Command::read(3, sectors, 4096).encode(0);
        assert_eq!((read[0], word(&read, 48)), (2, 7));
        let flush = Command::flush(3).encode(0);
        assert_eq!((flush[0], word(&flush, 4), flush[8..] == [0; 64]), (0, 3, true));
        let zeroed = |gives_back| word(&Command::zero(3, sectors, gives_back).encode(0), 48);
        assert_eq!((zeroed(false), zeroed(true)), (7, 7 | 1 << 25));
        let given = Command::deallocate(3).encode(9);
        assert_eq!((given[0], word(&given, 40), word(&given, 44)), (9, 0, 4));
        assert_eq!(sectors.range()[..8], [0, 0, 0, 0, 8, 0, 0, 0]);
        assert_eq!(sectors.range()[8..], 0x1_0000_0002u64.to_le_bytes());
    }
}
