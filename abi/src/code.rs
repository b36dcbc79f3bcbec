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
    }
}

numbered! {
    /// Why a connection travels through the kernel instead of shared memory.
    Native: u8 {
        None = 0 => "not native",
        PeerNotOurs = 1 => "the other end is not under Heliostat",
        NotLocal = 2 => "the other end is on another machine",
        NoControl = 3 => "the control plane did not answer",
        Denied = 4 => "the rules deny a direct stream",
        Full = 5 => "a limit on channels or streams is reached",
        NotAccepted = 6 => "the other end did not take the direct offer in time",
        PolledBefore = 7 => "the socket was in an epoll set before it was connected",
        Exec = 8 => "the socket was handed to a new program image",
        Passed = 9 => "the socket was passed to another process",
        Option = 10 => "a socket option needs the kernel's path",
        Call = 11 => "a system call needs the kernel's path",
        PeerAsked = 12 => "the other end needed the kernel's path",
        Revoked = 13 => "the direct grant was revoked",
        TableFull = 14 => "the program's own table of streams is full",
        Identity = 15 => "the other end's identity did not match its offer",
        Corrupt = 16 => "the other end broke the stream protocol",
        Disabled = 17 => "switched off by option",
        Nested = 18 => "the socket is watched where no stub can see it (nested epoll, io_uring)",
        DoneEarly = 19 => "this end was closed before the other end accepted",
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
        assert_eq!(Code::from_number(999), None);
    }
}
