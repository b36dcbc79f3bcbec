//! Which kind of the table a record is.

use super::table::{ReplyKind, RequestKind};
use super::{Reply, Request};

impl Request {
    /// Its kind, which says everything that holds for all such requests.
    pub fn kind(&self) -> RequestKind {
        match self {
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
            Self::Delegate => RequestKind::Delegate,
            Self::ShowFile { .. } => RequestKind::ShowFile,
            Self::EndDelegate => RequestKind::EndDelegate,
            Self::Allow { .. } => RequestKind::Allow,
            Self::Restrict { .. } => RequestKind::Restrict,
        }
    }
}

impl Reply {
    pub(super) fn kind(&self) -> ReplyKind {
        match self {
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
        }
    }
}
