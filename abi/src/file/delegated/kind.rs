//! What an operation does: one number for each kind, of all services.

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum OpKind {
    /// Bytes of the file into the pieces, in order.
    Read = 1,
    /// The pieces' bytes into the file at the offset.
    Write = 2,
    /// The pieces' bytes to the end of the file, in one step.
    Append = 3,
    /// What was written before is on the disk when this completes.
    Fsync = 4,
    /// The file whose name lies in the piece; the result is its index.
    Open = 5,
    /// What is known of the file ([`Facts`]), into the piece.
    Stat = 6,
    /// The file is not needed any more; operations that are under way end as they would.
    Close = 7,
    /// The operation whose tag is the argument should end now.
    Cancel = 8,
    /// The file becomes as long as the argument says.
    Truncate = 9,
    /// The directory whose name lies in the piece is made.
    Mkdir = 10,
    /// It is removed, if it is empty.
    Rmdir = 11,
    /// The name in the piece is removed; the file with its last one.
    Unlink = 12,
    /// What has the name in the first piece gets the one in the second.
    Rename = 13,
    /// A symbolic link to what the first piece says gets the name in the second.
    Symlink = 14,
    /// Where the symbolic link whose name lies in the first piece leads, into the second.
    Readlink = 15,
    /// Entries of an open directory from a cookie on, which is the offset ([`DirectoryEntries`]).
    Readdir = 16,
    /// A lock on the whole file that others who ask for one heed, or its end.
    Lock = 17,
    /// Bytes of a memory region become one value (this and the next: `memory::operation`).
    Set = 18,
    /// Bytes of a memory region become those of a region, perhaps of the same one.
    Copy = 19,
    /// A word of a memory region becomes larger by the argument.
    FetchAdd = 20,
    /// A word of a memory region becomes the argument, if it is what the piece says.
    CompareSwap = 21,
    /// A word of a memory region becomes the argument.
    Swap = 22,
    /// Bytes of the file whose name lies in the first piece, from the offset on, into the others: open,
    /// read and close in one.
    Fetch = 23,
    /// A function is called and its reply waited for (this and the next: `rpc::operation`). From here
    /// on a service's kinds begin at 16 times its number.
    Call = 128,
    /// A function is sent a message, one way.
    Send = 129,
    /// The next call of a function, or message; perhaps the last one is answered first.
    Receive = 130,
    /// A call is answered.
    Reply = 131,
    /// The pieces' bytes into an area at the offset, durable when this completes (this and the next two:
    /// `store::operation`).
    WriteDurable = 176,
    /// Bytes of an area read as zero.
    Zero = 177,
    /// Bytes of an area are not needed any more, and read as zero.
    Discard = 178,
    /// A TCP connection to the address in the piece; the result is its index (this and the next:
    /// `socket::operation`). What it receives is read, what it sends is written.
    Connect = 224,
    /// A TCP listener at the address in the piece, which gets the one that it has then.
    Listen = 225,
    /// The next connection of a listener; the result is its index.
    Accept = 226,
    /// Which of the sockets in the piece are ready.
    Poll = 227,
    /// One direction of a connection ends, or both.
    Shutdown = 228,
    /// The address of a socket's own end, or of the other one.
    Address = 229,
}

impl OpKind {
    /// Every kind, in order of number.
    pub const ALL: [OpKind; 36] = [
        OpKind::Read,
        OpKind::Write,
        OpKind::Append,
        OpKind::Fsync,
        OpKind::Open,
        OpKind::Stat,
        OpKind::Close,
        OpKind::Cancel,
        OpKind::Truncate,
        OpKind::Mkdir,
        OpKind::Rmdir,
        OpKind::Unlink,
        OpKind::Rename,
        OpKind::Symlink,
        OpKind::Readlink,
        OpKind::Readdir,
        OpKind::Lock,
        OpKind::Set,
        OpKind::Copy,
        OpKind::FetchAdd,
        OpKind::CompareSwap,
        OpKind::Swap,
        OpKind::Fetch,
        OpKind::Call,
        OpKind::Send,
        OpKind::Receive,
        OpKind::Reply,
        OpKind::WriteDurable,
        OpKind::Zero,
        OpKind::Discard,
        OpKind::Connect,
        OpKind::Listen,
        OpKind::Accept,
        OpKind::Poll,
        OpKind::Shutdown,
        OpKind::Address,
    ];

    /// Its place in [`OpKind::ALL`].
    #[inline]
    pub const fn place(self) -> usize {
        let number = self as usize;
        // The kinds of a service follow each other, and those of the next one follow them.
        match number {
            224.. => 30 + number - OpKind::Connect as usize,
            176.. => 27 + number - OpKind::WriteDurable as usize,
            128.. => 23 + number - OpKind::Call as usize,
            _ => number - 1,
        }
    }

    /// The kind with this number.
    pub fn from_number(number: u8) -> Option<OpKind> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Its name, for people and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            OpKind::Read => "read",
            OpKind::Write => "write",
            OpKind::Append => "append",
            OpKind::Fsync => "fsync",
            OpKind::Open => "open",
            OpKind::Stat => "stat",
            OpKind::Close => "close",
            OpKind::Cancel => "cancel",
            OpKind::Truncate => "truncate",
            OpKind::Mkdir => "mkdir",
            OpKind::Rmdir => "rmdir",
            OpKind::Unlink => "unlink",
            OpKind::Rename => "rename",
            OpKind::Symlink => "symlink",
            OpKind::Readlink => "readlink",
            OpKind::Readdir => "readdir",
            OpKind::Lock => "lock",
            OpKind::Set => "set",
            OpKind::Copy => "copy",
            OpKind::FetchAdd => "fetch_add",
            OpKind::CompareSwap => "compare_swap",
            OpKind::Swap => "swap",
            OpKind::Fetch => "fetch",
            OpKind::Call => "call",
            OpKind::Send => "send",
            OpKind::Receive => "receive",
            OpKind::Reply => "reply",
            OpKind::WriteDurable => "write_durable",
            OpKind::Zero => "zero",
            OpKind::Discard => "discard",
            OpKind::Connect => "connect",
            OpKind::Listen => "listen",
            OpKind::Accept => "accept",
            OpKind::Poll => "poll",
            OpKind::Shutdown => "shutdown",
            OpKind::Address => "address",
        }
    }

    /// Whether the order among such operations on one file is the order of their submission.
    pub const fn is_ordered(self) -> bool {
        matches!(self, OpKind::Write | OpKind::Append | OpKind::Fsync | OpKind::Truncate)
    }

    /// Whether it is about an open file; others are about names, or another operation.
    pub const fn has_file(self) -> bool {
        use OpKind::*;
        !matches!(
            self,
            Open | Cancel
                | Mkdir
                | Rmdir
                | Unlink
                | Rename
                | Symlink
                | Readlink
                | Fetch
                | Connect
                | Listen
                | Poll
        )
    }

    /// How many of its first pieces are names.
    pub const fn names(self) -> usize {
        match self {
            OpKind::Open
            | OpKind::Mkdir
            | OpKind::Rmdir
            | OpKind::Unlink
            | OpKind::Readlink
            | OpKind::Fetch => 1,
            OpKind::Rename | OpKind::Symlink => 2,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_number_and_its_place() {
        for (place, kind) in OpKind::ALL.into_iter().enumerate() {
            assert_eq!((kind.place(), OpKind::from_number(kind as u8)), (place, Some(kind)));
        }
        assert_eq!(OpKind::from_number(179), None);
    }
}
