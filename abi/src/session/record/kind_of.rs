//! Which kind of the table a record is.

use super::table::{ReplyKind, RequestKind};
use super::{Reply, Request};

impl Request {
    /// Its number in the protocol.
    pub fn number(&self) -> u16 {
        match self {
            Self::Own(own) => own.number,
            known => known.kind().map_or(0, RequestKind::number),
        }
    }

    /// Its kind, which says everything that holds for all such requests; none of one that a service
    /// brings itself.
    pub fn kind(&self) -> Option<RequestKind> {
        Some(match self {
            Self::Own(_) => return None,
            Self::Hello { .. } => RequestKind::Hello,
            Self::Listen => RequestKind::Listen,
            Self::Unlisten { .. } => RequestKind::Unlisten,
            Self::Open { .. } => RequestKind::Open,
            Self::Attach { .. } => RequestKind::Attach,
            Self::Status => RequestKind::Status,
            Self::Explain { .. } => RequestKind::Explain,
            Self::Metrics => RequestKind::Metrics,
            Self::Revoke { .. } => RequestKind::Revoke,
            Self::Stop => RequestKind::Stop,
            Self::Publish { .. } => RequestKind::Publish,
            Self::AttachRegion { .. } => RequestKind::AttachRegion,
            Self::Consumers { .. } => RequestKind::Consumers,
            Self::Unpublish { .. } => RequestKind::Unpublish,
            Self::Detach { .. } => RequestKind::Detach,
            Self::Lease => RequestKind::Lease,
            Self::EndLease { .. } => RequestKind::EndLease,
            Self::Delegate { .. } => RequestKind::Delegate,
            Self::ShowFile { .. } => RequestKind::ShowFile,
            Self::EndDelegate => RequestKind::EndDelegate,
            Self::Allow { .. } => RequestKind::Allow,
            Self::AllowRegions { .. } => RequestKind::AllowRegions,
            Self::Restrict { .. } => RequestKind::Restrict,
        })
    }
}

impl Reply {
    pub(super) fn number(&self) -> u16 {
        let kind = match self {
            Self::Own(own) => return own.number,
            Self::Welcome { .. } => ReplyKind::Welcome,
            Self::Listening { .. } => ReplyKind::Listening,
            Self::Channels { .. } => ReplyKind::Channels,
            Self::Text { .. } => ReplyKind::Text,
            Self::Done => ReplyKind::Done,
            Self::Refused { .. } => ReplyKind::Refused,
            Self::Published { .. } => ReplyKind::Published,
            Self::Region { .. } => ReplyKind::Region,
            Self::Consumers { .. } => ReplyKind::Consumers,
            Self::Leased { .. } => ReplyKind::Leased,
            Self::NotLeased { .. } => ReplyKind::NotLeased,
            Self::Delegated { .. } => ReplyKind::Delegated,
        };
        kind as u16
    }
}
