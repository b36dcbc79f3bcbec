//! Answer codes and the reasons why a connection or a file is native; numbered by hand, never reused.

/// Declares an enum with fixed numbers, a checked constructor and a plain-words explanation.
macro_rules! numbered {
    ($(#[$meta:meta])* $name:ident : $int:ty { $($(#[$vmeta:meta])* $variant:ident = $value:literal => $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[repr($int)]
        pub enum $name { $(#[doc = $text] $(#[$vmeta])* $variant = $value,)* }
        impl $name {
            /// Every value, in order of number.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];
            /// The value with this number, if there is one.
            pub fn from_number(number: $int) -> Option<Self> {
                match number { $($value => Some(Self::$variant),)* _ => None }
            }
            /// What it means, in words for people.
            pub fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

numbered! {
    /// The control plane's answer to one request.
    Code: u16 {
        Ok = 0 => "granted",
        NotFound = 1 => "no such name",
        Denied = 2 => "the rules deny it",
        Full = 3 => "a limit is reached",
        BadRecord = 4 => "the request is malformed",
        BadState = 5 => "not possible in this state",
        BadVersion = 6 => "the other side speaks another version",
        Revoked = 7 => "the grant was revoked",
        Internal = 8 => "the control plane failed",
        Stale = 9 => "what it names is gone",
        Unwilling = 10 => "its owner said no, or nothing in time",
        Unreachable = 11 => "the other node is not joined, or did not answer in time",
        Moved = 12 => "it has moved to another node",
    }
}

numbered! {
    /// What there is only so much of, in a refusal for a limit.
    Thing: u16 {
        None = 0 => "nothing that is counted",
        Connections = 1 => "connections to the control plane",
        ConnectRate = 2 => "new connections to the control plane",
        Sessions = 3 => "sessions",
        Ports = 4 => "listening addresses",
        Channels = 5 => "channels",
        ChannelBytes = 6 => "bytes of channels",
        Regions = 7 => "snapshot regions",
        Attachments = 8 => "attachments to snapshot regions",
        Leases = 9 => "leases on files",
        Delegations = 10 => "sessions that delegate",
        WindowBytes = 11 => "bytes of a window",
        Destinations = 12 => "destinations of a restricted connection",
        Descriptors = 13 => "descriptors of the control plane",
        Unread = 14 => "descriptors or texts in answers that nobody has read",
        DelegatedFiles = 15 => "open files of delegated operations",
        RegionScopes = 16 => "region scopes of a restricted connection",
        MemoryRegions = 17 => "memory regions",
        MemoryHandles = 18 => "handles on memory regions",
        MemoryBytes = 19 => "bytes of memory regions",
        MemoryArenas = 20 => "arenas of memory regions",
        MemoryPieces = 21 => "pieces of a memory region",
        MemorySessions = 22 => "sessions whose memory operations are delegated",
        MemoryQuestions = 23 => "questions who may map a region",
        MemoryAppointed = 24 => "users appointed to a memory region",
        Locks = 40 => "locks, semaphores and barriers",
        LockHandles = 41 => "handles on locks",
        LockTickets = 42 => "locks that are held or waited for",
        LockBells = 43 => "sessions that are told of locks by a bell",
        LockSessions = 44 => "sessions of other nodes that have locks",
        LockGrantsOfNode = 45 => "handles on locks and tickets of one other node",
        Functions = 48 => "functions that are served",
        RpcSessions = 50 => "sessions that call or serve functions",
        Replicas = 60 => "replicas of memory regions on a node",
        ReplicaBytes = 61 => "bytes of replicas of memory regions on a node",
        MemoryMoves = 64 => "moves of memory regions",
        MemoryForwards = 65 => "regions that have moved to other nodes and are looked for here",
        Areas = 80 => "areas of a store",
        AreaBytes = 81 => "bytes of areas of a store",
        AreaHandles = 82 => "handles on areas of a store",
        AreaSessions = 83 => "sessions whose operations on areas are delegated",
        SocketSessions = 105 => "sessions whose socket operations are delegated",
        Sockets = 106 => "sockets of delegated operations",
        CarriedConnections = 108 => "connections carried by the network service",
        NetworkLoops = 109 => "loops of the network service",
        LoopOrders = 110 => "orders that one loop of the network service is behind",
        ConfinedNames = 107 => "folders and addresses of a confined session",
        SharedListeners = 95 => "shared listeners",
        ListenerWorkers = 96 => "workers of shared listeners",
        ListenerSockets = 97 => "listening sockets of one shared listener",
        WorkerHolders = 98 => "processes that share one worker's queue",
    }
}

numbered! {
    /// Whose limit is reached, in a refusal for a limit.
    Side: u16 {
        None = 0 => "nobody",
        Node = 1 => "the whole node",
        User = 2 => "this user",
        SealedProgram = 3 => "this sealed program",
        Session = 4 => "this session",
        Object = 5 => "this one object",
    }
}

numbered! {
    /// Why a connection travels through the kernel instead of shared memory.
    Native: u8 {
        None = 0 => "not native",
        PeerNotOurs = 1 => "the other end is not under Heliostat",
        NotLocal = 2 => "the other end is on another machine, or in another network namespace",
        NoControl = 3 => "the control plane did not answer",
        Denied = 4 => "the rules deny a direct stream",
        Full = 5 => "a limit on sessions, channels or streams is reached",
        NotAccepted = 6 => "the other end did not take the direct offer",
        PolledBefore = 7 => "the socket was in an epoll set before it was connected",
        Exec = 8 => "the socket was handed to a new program image",
        Passed = 9 => "the socket was passed to another process",
        Option = 10 => "a socket option needs the kernel's path",
        Call = 11 => "a system call needs the kernel's path",
        PeerAsked = 12 => "the other end needed the kernel's path",
        Revoked = 13 => "the direct grant was revoked",
        TableFull = 14 => "the program's own table of streams, or of descriptors, is full",
        Identity = 15 => "the other end's identity did not match its offer",
        Corrupt = 16 => "the other end broke the stream protocol",
        Disabled = 17 => "switched off by option",
        Nested = 18 => "the socket is watched where no stub can see it (nested epoll)",
        DoneEarly = 19 => "an end was closed or shut before both ends had begun to use their shared memory",
        NoOffer = 20 => "the other end offered no direct stream (it is not under Heliostat, or native itself)",
        Unpatched = 21 => "the program's system calls cannot be caught",
        OwnDescriptors = 22 => "threads of the program have descriptors of their own (CLONE_FILES)",
        Protocol = 23 => "the socket is not plain TCP (MPTCP, SCTP)",
        SharedSet = 26 => "the socket is in an epoll set that other processes use, or that came from one",
        Ring = 28 => "the kernel uses the socket by itself (an io_uring names it, or is polled by the kernel)",
        OwnCalls = 29 => "the program makes system calls that cannot be caught (Go, or a library's own)",
        Forked = 30 => "the program forked before the other end accepted",
        Crossed = 31 => "this end was used while the other end was still inside connect(2)",
        Undecided = 32 => "not used yet since it was accepted, while the other end was still inside connect(2)",
        LoopEnded = 33 => "the network service ended, and the connection went on where it was",
        NoDescriptors = 34 => "the program has no descriptors left for the network service",
        ShortLived = 35 => "the network service leaves it to the kernel: the program's last connections were short",
    }
}

impl Native {
    /// True where this end went along with what the other one did: why, the other end knows.
    pub const fn is_of_other_end(self) -> bool {
        matches!(self, Self::NoOffer | Self::PeerNotOurs | Self::PeerAsked | Self::NotAccepted)
    }
}

numbered! {
    /// Why reads of an open file go through the kernel instead of a mapping under a lease.
    Unmapped: u8 {
        None = 0 => "read from a mapping",
        TooFew = 1 => "read too few times: a mapping pays after 256 short reads, or one for each 4 KiB of a file above 1 MiB",
        NotRegular = 2 => "not a regular file, or an empty one",
        Writable = 3 => "opened for writing, or with O_DIRECT",
        Written = 4 => "somebody has it open for writing",
        Owner = 5 => "it belongs to another user: the kernel gives leases to a file's owner only",
        FileSystem = 6 => "its file system promises no leases",
        NoControl = 7 => "the control plane did not answer",
        Denied = 8 => "the rules deny it",
        Full = 9 => "a limit on leases is reached",
        Broken = 10 => "a writer or a truncation ended the lease",
        Shared = 11 => "its offset is shared with another process (fork, exec, passed descriptor)",
        Call = 12 => "a system call needs the kernel's own offset",
        Cold = 13 => "most of it is not in memory",
        NoMemory = 14 => "the program's address space has no room for a mapping",
        Fault = 15 => "a page of it could not be read",
        Disabled = 16 => "switched off by option",
        TableFull = 17 => "the program's own table of files is full",
        NoSignals = 18 => "the program's handling of SIGBUS or SIGSEGV could not be kept apart",
        Locked = 19 => "a record lock is on it (fcntl(2), F_SETLK), which mapping could end",
    }
}

numbered! {
    /// Why fdatasync(2) of a durable file waits for the device itself.
    Unheld: u8 {
        None = 0 => "the program goes on, and what it lets out is held back",
        Native = 1 => "the program is native as a whole",
        Uncaught = 2 => "a system call that may let something out cannot be caught",
        Shared = 3 => "the program has memory that other processes may see (MAP_SHARED, shmat(2))",
        Borrowed = 4 => "a child of vfork(2) asked",
        NotRegular = 5 => "not a regular file",
        TooMany = 6 => "more files at once than one flush takes along",
        Failed = 7 => "a flush has failed",
        Ring = 8 => "the program has an io_uring, which the kernel may poll",
        Unprofitable = 9 => "the program waits for its flushes at once, so holding back gains nothing",
        Undetected = 10 => "files are detected, and this one was not appended to and flushed often enough yet",
        NotAppended = 11 => "files are detected, and this one is not written at its end only",
    }
}

numbered! {
    /// Why a flush of a durable file went to the file itself, where there is a log.
    Unlogged: u8 {
        None = 0 => "its bytes are in the log",
        First = 1 => "the file's first flush, or the first after names or lengths of files changed",
        NotAppended = 2 => "the file is not written at its end only (opened without O_APPEND)",
        Unreadable = 3 => "the file cannot be opened for reading, so nobody knows what was appended",
        Locked = 4 => "the program has a record lock on the file, which a second opening would end",
        Long = 5 => "more was appended than one entry of the log takes",
        Full = 6 => "the log has no room until files are on the device",
        TooMany = 7 => "the log is kept for as many files as may be",
        LogInUse = 8 => "another program uses the log",
        LogMissing = 9 => "the log cannot be opened: there is none, it is damaged, or not allowed",
        LogUnrecovered = 10 => "the log has entries of before a crash that could not be put into their files",
        NoRing = 11 => "the kernel gives no io_uring (a container's filter, a sealed program)",
        LogFailed = 12 => "the log's device has failed",
        Shortened = 13 => "the file has become shorter",
        InHandler = 14 => "a signal handler asked",
        NoArea = 15 => "the log's area cannot be had: no control plane, no store, or it is not granted",
        Overwritten = 16 => "the file is overwritten in place again and again, or the log emptied as often as it is used, so it gains nothing",
    }
}

numbered! {
    /// Why a call of a program that asked for offload was made by its own thread all the same.
    Unoffloaded: u8 {
        None = 0 => "made on a kernel core",
        Dearer = 100 => "the plain call is cheaper here, as measured, or no core is spare",
        Waits = 101 => "the call would wait, and a thread waits by itself, so that signals reach it",
        Late = 102 => "no kernel core took the call in time",
        NoLine = 103 => "the thread has no line: all are taken, or a handler interrupted a call",
        Ended = 104 => "offload has ended here (user, rights, filter or descriptors changed, or no executor could be made)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_maps_back_to_its_value() {
        for code in Code::ALL {
            assert_eq!(Code::from_number(*code as u16), Some(*code));
        }
        for reason in Native::ALL {
            assert_eq!(Native::from_number(*reason as u8), Some(*reason));
        }
        for reason in Unmapped::ALL {
            assert_eq!(Unmapped::from_number(*reason as u8), Some(*reason));
        }
        for reason in Unheld::ALL {
            assert_eq!(Unheld::from_number(*reason as u8), Some(*reason));
        }
        for reason in Unlogged::ALL {
            assert_eq!(Unlogged::from_number(*reason as u8), Some(*reason));
        }
        for reason in Unoffloaded::ALL {
            assert_eq!(Unoffloaded::from_number(*reason as u8), Some(*reason));
        }
        for thing in Thing::ALL {
            assert_eq!(Thing::from_number(*thing as u16), Some(*thing));
        }
        for side in Side::ALL {
            assert_eq!(Side::from_number(*side as u16), Some(*side));
        }
        assert_eq!(Code::from_number(999), None);
    }
}
