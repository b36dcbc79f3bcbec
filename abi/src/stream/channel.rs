//! Shared memory of one channel: the streams between one client process and one listener.
//!
//! ```text
//! 0          header: magic u32, version u32, slots u32, ring bytes u32, index u32, generation u32
//! 64         offers u64: bit per slot, set by the client while the slot is on offer
//! 4096       slot headers, SLOT_STRIDE apart
//! data(...)  rings: slot 0 client->server, slot 0 server->client, slot 1 ...
//! ```
//!
//! A slot header; each group has its writer and lies on cache lines of its own. Pairs of lines
//! fetched together by the adjacent-line prefetcher belong to one writer:
//!
//! ```text
//! 0    state u32            generation << 8 | SlotState; both sides, by compare-and-swap
//! 4    family u8, 0, client port u16, 8: server port u16, 0 x 6, 16: client ip, 32: server ip
//! 48   client inode u64     of the shadow socket, for identity checks
//! 64   closed u32           bit 0: client left for good, bit 1: server did; 2: its children hold it;
//!                           bits 3, 4: the client's, the server's end is the kernel's alone
//! 68   acceptor session index u32, 72: its generation u32
//! 76   holders u32 x 2      processes holding the client's, the server's end (a hint)
//! 88   has written u32      an undecided acceptor may have written to this client on the shadow
//! 96   secret u64 x 2       the acceptor's, told by the client on the shadow to prove the offer
//! 112  claim's check u64    of the slot's generation, the secret and the acceptor's session: one that
//!                           comes late may write into another's claim
//! 128  client->server direction, 256 bytes
//! 384  server->client direction, 256 bytes
//! ```
//!
//! A direction; W lines are written by the writing side, R lines by the reading side, except
//! the sleep words and the wish, which one side sets and the other takes back. They lie beside
//! the words their reader owns anyway, so that looking at them costs no cache line:
//!
//! ```text
//! 0    tail u64             bytes ever written             W; R moves it to held, by compare-and-swap
//! 8    origin u64           position that lies at offset 0 W, changes only while empty
//! 16   flags u32            FIN, SWITCHED, RESET           W
//! 20   bells u32            bell bytes sent on the shadow  W
//! 24   reader asleep u32    set by R, exchanged to 0 by W
//! 28   want native u32      R: 1 or 3, the writer shall switch and take unread bytes back; W answers
//!                           by 1 -> 2, R may retract by 1 -> 0, both by compare-and-swap
//! 32   stamps u64 x 3       W: cycle counter at publications, the last three; asked for by
//! 56   stamps wanted u32    R sets: who reads cares which of several streams was first
//! 60   next stamp u32       W: place of the next one
//! 64   reserved u32
//! 72   prefix u64           bytes sent on the shadow before the ring was begun   W
//! 80   held u64             end of the bytes behind tail that are held back W
//! 88   held until u64       monotonic ns from which R may take them nonetheless W
//! 128  head u64             bytes ever read                R
//! 136  writer asleep u32    set by W, exchanged to 0 by R
//! 192  turns u32            R's, where a loop has the socket: who may move bytes (`stream::delegated`)
//! 196  drained u32          bell bytes taken off the shadow R side only
//! 200  taken u64            bytes of the prefix taken off the shadow   R side only
//! ```

use crate::limits::SLOTS_MAX;

/// First four bytes of a channel: "HCHN".
pub const MAGIC: u32 = u32::from_le_bytes(*b"HCHN");
/// Version of this layout, in the header's second word.
pub const VERSION: u32 = 5;
/// Offset of the offers bitmap.
pub const OFFERS: usize = 64;
/// Offset of the first slot header.
pub const SLOTS: usize = 4096;
/// Distance of slot headers: an odd number of cache lines, so that the same word of all slots
/// does not fall into the same cache set.
pub const SLOT_STRIDE: usize = 704;
/// Offset of the first ring, a multiple of the page size.
pub const DATA: usize = (SLOTS + SLOTS_MAX * SLOT_STRIDE).next_multiple_of(4096);

/// Offsets inside a slot header.
pub mod slot {
    /// Generation and state.
    pub const STATE: usize = 0;
    /// Address family, 4 or 6.
    pub const FAMILY: usize = 4;
    /// Client's port.
    pub const CLIENT_PORT: usize = 6;
    /// Server's port.
    pub const SERVER_PORT: usize = 8;
    /// Client's address, 16 bytes.
    pub const CLIENT_IP: usize = 16;
    /// Server's address, 16 bytes.
    pub const SERVER_IP: usize = 32;
    /// Inode of the client's shadow socket.
    pub const CLIENT_INODE: usize = 48;
    /// Who has left for good.
    pub const CLOSED: usize = 64;
    /// Session that accepted.
    pub const ACCEPTOR: usize = 68;
    /// Processes that hold the client's end, then the server's.
    pub const HOLDERS: usize = 76;
    /// Not 0: an acceptor that waits for this offer, or for another, has written on its shadow.
    pub const HAS_WRITTEN: usize = 88;
    /// What the client tells the acceptor on the shadow, to prove that it holds the connection.
    pub const SECRET: usize = 96;
    /// Bytes of it.
    pub const SECRET_BYTES: usize = 16;
    /// Tells a claim of this generation that is whole.
    pub const CLAIM_CHECK: usize = 112;
    /// The two directions.
    pub const DIRECTION: [usize; 2] = [128, 384];
    /// Bit of `CLOSED` for the client; the server's is the next.
    pub const CLOSED_CLIENT: u32 = 1;
    /// Bit of `CLOSED` for the server.
    pub const CLOSED_SERVER: u32 = 2;
    /// Bit of `CLOSED`: the acceptor has let go of its end, and processes that it forked hold it. Its
    /// session's end says nothing of them.
    pub const PASSED_ON: u32 = 4;
    /// Bit of `CLOSED`: the client's end is the kernel's alone, and touches the slot no more.
    pub const DONE_CLIENT: u32 = 8;
    /// The same of the server's end.
    pub const DONE_SERVER: u32 = 16;
}

/// Offsets inside a direction.
pub mod direction {
    /// Bytes ever written.
    pub const TAIL: usize = 0;
    /// Position at ring offset zero.
    pub const ORIGIN: usize = 8;
    /// `FIN | SWITCHED | RESET | TAKEN_BACK | SHUT | FULL`.
    pub const FLAGS: usize = 16;
    /// Bell bytes sent on the shadow, in this direction.
    pub const BELLS: usize = 20;
    /// The reader sleeps.
    pub const READER_ASLEEP: usize = 24;
    /// Cycle counter at the last publications, 8 bytes each.
    pub const STAMPS: usize = 32;
    /// How many of them are kept.
    pub const STAMPS_KEPT: u32 = 3;
    /// The reader wants them.
    pub const STAMPS_WANTED: usize = 56;
    /// Place of the next one.
    pub const NEXT_STAMP: usize = 60;
    /// Bytes sent on the shadow before the ring was begun; final once the slot is Started.
    pub const PREFIX: usize = 72;
    /// End of the bytes behind `tail` that the writer holds back; not behind it: nothing is held.
    pub const HELD: usize = 80;
    /// Monotonic nanoseconds from which the reader may move `tail` to `held`.
    pub const HELD_UNTIL: usize = 88;
    /// Bytes ever read.
    pub const HEAD: usize = 128;
    /// The reader asks for the kernel's path.
    pub const WANT_NATIVE: usize = 28;
    /// The writer sleeps until there is room.
    pub const WRITER_ASLEEP: usize = 136;
    /// In what a loop sends: 0, 1 while the loop moves bytes, 2 once the program has the socket again.
    pub const TURNS: usize = 192;
    /// Bell bytes the reading side has taken off the shadow.
    pub const DRAINED: usize = 196;
    /// Bytes of the prefix that the reading side has taken off the shadow.
    pub const TAKEN: usize = 200;

    /// Flag: no byte follows `tail`.
    pub const FIN: u32 = 1;
    /// Flag: bytes after `tail` follow on the shadow, after `bells` bell bytes.
    pub const SWITCHED: u32 = 2;
    /// Flag: the writer closed with unread bytes; the reader sees ECONNRESET after `tail`, unless
    /// FIN had been raised before.
    pub const RESET: u32 = 4;
    /// Flag, with SWITCHED: bytes from the reader's head on went over the shadow instead.
    pub const TAKEN_BACK: u32 = 8;
    /// Flag, with FIN: the writer has shut its shadow down, whose end does not mean its own.
    pub const SHUT: u32 = 16;
    /// Flag, with SWITCHED: a loop gives back what it has no share left for, and has moved nothing.
    pub const FULL: u32 = 32;
}

/// State of a slot, in the low byte of its state word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum SlotState {
    /// Nobody's; the client may take it.
    Free = 0,
    /// The client is inside connect(2) and does not know its port yet.
    Connecting = 1,
    /// On offer: the acceptor may claim it; until then the connection is the kernel's.
    Offered = 2,
    /// Claimed: the client may begin its ring and prove its offer; all is on the shadow still.
    Claimed = 3,
    /// The acceptor refused the offer, gave its claim up, or found the offer false.
    Declined = 4,
    /// The client took the offer back before it was claimed.
    Withdrawn = 5,
    /// The client has begun its ring: its prefix is final, and the secret follows it.
    Started = 6,
    /// The acceptor has seen the secret and begun its ring: its prefix is final too.
    Proven = 7,
    /// The client has left after the claim, with nothing in either ring.
    Left = 8,
}

impl SlotState {
    /// The state in the low byte of a foreign word.
    pub const fn from_word(word: u32) -> Option<Self> {
        Some(match word & 0xff {
            0 => Self::Free,
            1 => Self::Connecting,
            2 => Self::Offered,
            3 => Self::Claimed,
            4 => Self::Declined,
            5 => Self::Withdrawn,
            6 => Self::Started,
            7 => Self::Proven,
            8 => Self::Left,
            _ => return None,
        })
    }

    /// True when both ends move bytes through the slot, or may yet.
    pub const fn is_stream(self) -> bool {
        matches!(self, Self::Claimed | Self::Started | Self::Proven)
    }

    /// True when the acceptor may use the slot's words: it is not given out again before it left.
    pub const fn is_acceptors(self) -> bool {
        self.is_stream() || matches!(self, Self::Left)
    }

    /// The word of this state with the generation of `word`.
    pub const fn in_word(self, word: u32) -> u32 {
        (word & !0xff) | self as u32
    }
}

/// Offset of slot `index`'s header.
pub const fn slot_offset(index: u32) -> usize {
    SLOTS + index as usize * SLOT_STRIDE
}

/// Offset of the ring of slot `index` in direction 0 (client to server) or 1.
pub const fn ring_offset(index: u32, direction: usize, ring_bytes: u32) -> usize {
    DATA + (index as usize * 2 + direction) * ring_bytes as usize
}

/// Length of a channel's memory.
pub const fn bytes(slots: u32, ring_bytes: u32) -> usize {
    ring_offset(slots, 0, ring_bytes)
}

/// True when a channel of this shape may exist.
pub const fn shape_is_valid(slots: u32, ring_bytes: u32) -> bool {
    use crate::limits::{RING_BYTES_MAX, RING_BYTES_MIN};
    slots >= 1
        && slots as usize <= SLOTS_MAX
        && ring_bytes.is_power_of_two()
        && ring_bytes >= RING_BYTES_MIN
        && ring_bytes <= RING_BYTES_MAX
}

const _: () = assert!(SLOT_STRIDE >= slot::DIRECTION[1] + 256);
const _: () = assert!(slot::SECRET + slot::SECRET_BYTES <= slot::CLAIM_CHECK);
const _: () = assert!(slot::CLAIM_CHECK + 8 <= slot::DIRECTION[0]);
const _: () = assert!(SLOT_STRIDE % 64 == 0 && (SLOT_STRIDE / 64) % 2 == 1);
const _: () = assert!(DATA % 4096 == 0);
