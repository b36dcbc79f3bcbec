//! The number of each kind of record: given once, never used again for another.

use super::{Reply, Request};

impl Request {
    pub(super) fn kind(&self) -> u16 {
        match self {
            Self::Hello { .. } => 1,
            Self::Listen => 2,
            Self::Unlisten { .. } => 3,
            Self::Open { .. } => 4,
            Self::Attach { .. } => 5,
            Self::Status => 6,
            Self::Explain { .. } => 7,
            Self::Metrics => 8,
            Self::Revoke { .. } => 9,
            Self::Stop => 10,
            Self::Publish { .. } => 11,
            Self::AttachRegion { .. } => 12,
            Self::Consumers { .. } => 13,
            Self::Unpublish { .. } => 14,
            Self::Detach { .. } => 15,
            Self::Lease => 16,
            Self::EndLease { .. } => 17,
            Self::Delegate => 18,
            Self::ShowFile { .. } => 19,
            Self::EndDelegate => 20,
            Self::Allow { .. } => 21,
            Self::Restrict { .. } => 22,
        }
    }
}

impl Reply {
    pub(super) fn kind(&self) -> u16 {
        match self {
            Self::Welcome { .. } => 101,
            Self::Listening { .. } => 102,
            Self::Channels { .. } => 103,
            Self::Text { .. } => 104,
            Self::Done => 105,
            Self::Refused { .. } => 106,
            Self::Published { .. } => 107,
            Self::Region { .. } => 108,
            Self::Consumers { .. } => 109,
            Self::Leased { .. } => 110,
            Self::NotLeased { .. } => 111,
            Self::Delegated { .. } => 112,
        }
    }
}
