//! What another node is asked, and what it answers.

use heliostat_backend_transport::error::{CallError, CallFailure, Effect};
use heliostat_backend_transport::identity::NodeId;
use heliostat_backend_transport::limits::PAYLOAD_BYTES_MAX;
use heliostat_backend_transport::transport::LinkId;

use crate::limits::REQUEST_HEADER_BYTES_MAX;

/// What another node is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeCall {
    /// Which node.
    pub node: NodeId,
    /// Only by this link, if given: what was granted on another one means nothing on it.
    pub link: Option<LinkId>,
    /// Which service of it, by its number in the control protocol.
    pub service: u16,
    /// That service's own header, at most [`REQUEST_HEADER_BYTES_MAX`].
    pub header: Vec<u8>,
    /// At most [`PAYLOAD_BYTES_MAX`].
    pub payload: Vec<u8>,
    /// When nobody waits any more, in nanoseconds of the monotonic clock.
    pub deadline_ns: u64,
}

/// What another node answers: foreign bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeReply {
    /// The link that it came on.
    pub link: LinkId,
    /// The service's own header.
    pub header: Vec<u8>,
    /// The rest.
    pub payload: Vec<u8>,
}

/// What becomes of a call.
pub type Outcome = Result<NodeReply, CallError>;

impl NodeCall {
    /// The error of a call that was not sent.
    pub(crate) fn not_sent(&self, why: CallFailure) -> CallError {
        not_sent(self.node, why)
    }

    /// Whether a message may be so long.
    pub(crate) fn check_length(&self) -> Result<(), CallError> {
        let is_short = self.header.len() <= REQUEST_HEADER_BYTES_MAX
            && self.payload.len() <= PAYLOAD_BYTES_MAX;
        if is_short {
            return Ok(());
        }
        Err(self.not_sent(CallFailure::TooLong { found: self.bytes() }))
    }

    /// Bytes of header and payload.
    pub(crate) fn bytes(&self) -> usize {
        self.header.len() + self.payload.len()
    }
}

/// The error of a call to a node that nothing was sent to.
pub(crate) fn not_sent(node: NodeId, why: CallFailure) -> CallError {
    CallError { node: Some(node), effect: Effect::NotSent, why }
}
