//! The one table of what sessions may ask: number, name, service, descriptors, restriction.
//!
//! Everything that goes by the kind of a request reads it here: the wire, the metrics, the log, the
//! limits on descriptors, and what a restricted session may ask. A number is given once and never
//! used again for another. The numbers up to 22 were given in the order in which the requests came;
//! every later one lies in the range of its service: [`Service::first_number`] and 127 after it,
//! with its replies 128 further on. From the fifth service on the envelope only carries the records
//! ([`Own`](super::Own)): their rows lie with the service.

use std::ops::RangeInclusive;

use crate::limits::FDS_PER_REPLY_MAX;
use crate::session::restriction::Services;

/// A service, as the protocol divides its requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u16)]
pub enum Service {
    /// The control plane itself: sessions, restrictions, and what people ask.
    Control = 1,
    /// Streams.
    Net = 2,
    /// Versions of live memory.
    Snapshot = 3,
    /// Leases on files, and delegated operations.
    File = 4,
}

impl Service {
    /// Every service, in order of number.
    pub const ALL: [Service; 4] =
        [Service::Control, Service::Net, Service::Snapshot, Service::File];

    /// The first of the numbers that later requests of the service have.
    pub const fn first_number(self) -> u16 {
        (self as u16) << 8
    }
}

/// Which sessions may ask something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asker {
    /// Every one.
    Any,
    /// One that is not restricted, or that may use these services.
    With(Services),
    /// One that is not restricted.
    Unrestricted,
}

/// What holds for requests of a kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// For people and metrics.
    pub name: &'static str,
    /// Descriptors that come with it.
    pub brings: RangeInclusive<usize>,
    /// Descriptors that it may leave with the control plane.
    pub keeps: u64,
    /// Descriptors that its answer may bring.
    pub answers: u64,
    /// Who may ask it.
    pub asker: Asker,
}

/// Makes the enumeration of kinds and the table from the same lines.
macro_rules! requests {
    ($( $(#[$doc:meta])* $kind:ident = $number:literal, $name:literal, $service:ident,
        $brings:expr, $keeps:expr, $answers:expr, $asker:expr; )*) => {
        /// The kind of a request.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[repr(u16)]
        pub enum RequestKind {
            $( $(#[$doc])* $kind = $number, )*
        }

        impl RequestKind {
            /// Every kind, in the order of the table.
            pub const ALL: &'static [RequestKind] = &[$( RequestKind::$kind ),*];

            /// Whose it is.
            pub const fn service(self) -> Service {
                match self {
                    $( RequestKind::$kind => Service::$service, )*
                }
            }

            /// What holds for requests of this kind.
            pub const fn row(self) -> Row {
                match self {
                    $( RequestKind::$kind => Row {
                        name: $name,
                        brings: $brings,
                        keeps: $keeps,
                        answers: $answers,
                        asker: $asker,
                    }, )*
                }
            }
        }
    };
}

const ANY: Asker = Asker::Any;
const OPEN: Asker = Asker::Unrestricted;
const STREAMS: Asker = Asker::With(Services::STREAMS);
const FILES: Asker = Asker::With(Services::FILES);
const SNAPSHOTS: Asker = Asker::With(Services::SNAPSHOTS);
const DELEGATION: Asker = Asker::With(Services::DELEGATION);
const MANY: u64 = FDS_PER_REPLY_MAX as u64;

requests! {
    // kind = number, name, service, brings, keeps, answers, asker
    /// A session begins.
    Hello = 1, "hello", Control, 0..=0, 0, 2, ANY;
    /// A listening socket is registered.
    Listen = 2, "listen", Net, 1..=1, 1, 0, STREAMS;
    /// A registration is taken back.
    Unlisten = 3, "unlisten", Net, 0..=0, 0, 0, STREAMS;
    /// A channel is wanted.
    Open = 4, "open", Net, 0..=0, 1, 1, STREAMS;
    /// The channels of an address are wanted.
    Attach = 5, "attach", Net, 0..=0, 0, MANY, STREAMS;
    /// The whole state, for people.
    Status = 6, "status", Control, 0..=0, 0, 1, OPEN;
    /// The state of one process, for people.
    Explain = 7, "explain", Control, 0..=0, 0, 1, OPEN;
    /// The counters, for people.
    Metrics = 8, "metrics", Control, 0..=0, 0, 1, OPEN;
    /// The grants of a process end.
    Revoke = 9, "revoke", Control, 0..=0, 0, 0, OPEN;
    /// The control plane ends.
    Stop = 10, "stop", Control, 0..=0, 0, 0, OPEN;
    /// A region is named.
    Publish = 11, "publish", Snapshot, 2..=2, 2, 0, SNAPSHOTS;
    /// A region is read.
    AttachRegion = 12, "attach_region", Snapshot, 1..=2, 2, 2, SNAPSHOTS;
    /// Who reads a region is asked.
    Consumers = 13, "consumers", Snapshot, 0..=0, 0, MANY, SNAPSHOTS;
    /// A name is taken back.
    Unpublish = 14, "unpublish", Snapshot, 0..=0, 0, 0, SNAPSHOTS;
    /// A region is left.
    Detach = 15, "detach", Snapshot, 0..=0, 0, 0, SNAPSHOTS;
    /// A file is leased.
    Lease = 16, "lease", File, 1..=1, 2, 1, FILES;
    /// A lease is given back.
    EndLease = 17, "end_lease", File, 0..=0, 0, 0, FILES;
    /// Delegated operations begin.
    Delegate = 18, "delegate", File, 1..=1, 1, 1, DELEGATION;
    /// A file is opened for delegated operations.
    ShowFile = 19, "show_file", File, 1..=1, 2, 0, DELEGATION;
    /// Delegated operations end.
    EndDelegate = 20, "end_delegate", File, 0..=0, 0, 0, DELEGATION;
    /// A restricted session may reach a destination.
    Allow = 21, "allow", Control, 0..=0, 0, 0, OPEN;
    /// A connection may ask no more than is said.
    Restrict = 22, "restrict", Control, 0..=0, 0, 0, OPEN;
    /// A restricted session may publish or attach to regions.
    AllowRegions = 256, "allow_regions", Control, 0..=0, 0, 0, OPEN;
}

impl RequestKind {
    /// The kind with this number.
    pub fn from_number(number: u16) -> Option<RequestKind> {
        Self::ALL.iter().copied().find(|kind| kind.number() == number)
    }

    /// Its number in the protocol.
    pub const fn number(self) -> u16 {
        self as u16
    }
}

/// The kind of a reply, with its number; those up to 112 were given as the replies came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub(super) enum ReplyKind {
    Welcome = 101,
    Listening = 102,
    Channels = 103,
    Text = 104,
    Done = 105,
    Refused = 106,
    Published = 107,
    Region = 108,
    Consumers = 109,
    Leased = 110,
    NotLeased = 111,
    Delegated = 112,
}

impl ReplyKind {
    const ALL: [ReplyKind; 12] = [
        ReplyKind::Welcome,
        ReplyKind::Listening,
        ReplyKind::Channels,
        ReplyKind::Text,
        ReplyKind::Done,
        ReplyKind::Refused,
        ReplyKind::Published,
        ReplyKind::Region,
        ReplyKind::Consumers,
        ReplyKind::Leased,
        ReplyKind::NotLeased,
        ReplyKind::Delegated,
    ];

    /// The kind with this number.
    pub(super) fn from_number(number: u16) -> Option<ReplyKind> {
        Self::ALL.into_iter().find(|kind| *kind as u16 == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers below this were given before services had ranges.
    const FIRST_OF_RANGES: u16 = 23;

    #[test]
    fn the_numbers_and_names_that_were_given_are_what_they_were() {
        let given: Vec<_> =
            RequestKind::ALL.iter().map(|kind| (kind.number(), kind.row().name)).collect();
        let expected = [
            (1, "hello"),
            (2, "listen"),
            (3, "unlisten"),
            (4, "open"),
            (5, "attach"),
            (6, "status"),
            (7, "explain"),
            (8, "metrics"),
            (9, "revoke"),
            (10, "stop"),
            (11, "publish"),
            (12, "attach_region"),
            (13, "consumers"),
            (14, "unpublish"),
            (15, "detach"),
            (16, "lease"),
            (17, "end_lease"),
            (18, "delegate"),
            (19, "show_file"),
            (20, "end_delegate"),
            (21, "allow"),
            (22, "restrict"),
        ];
        assert_eq!(given.get(..expected.len()), Some(&expected[..]));
    }

    #[test]
    fn replies_keep_their_numbers() {
        let numbers: Vec<_> = ReplyKind::ALL.iter().map(|kind| *kind as u16).collect();
        assert_eq!(numbers, (101..=112).collect::<Vec<_>>());
    }

    #[test]
    fn a_later_number_lies_in_the_range_of_its_service() {
        for kind in RequestKind::ALL.iter().filter(|kind| kind.number() >= FIRST_OF_RANGES) {
            let first = kind.service().first_number();
            assert!((first..first + 128).contains(&kind.number()), "{kind:?}");
        }
    }

    #[test]
    fn no_two_kinds_have_one_number_or_one_name() {
        for kind in RequestKind::ALL {
            assert_eq!(RequestKind::from_number(kind.number()), Some(*kind));
            let same_name = |other: &&RequestKind| other.row().name == kind.row().name;
            assert_eq!(RequestKind::ALL.iter().filter(same_name).count(), 1, "{kind:?}");
        }
        assert_eq!(RequestKind::from_number(0), None);
    }
}
