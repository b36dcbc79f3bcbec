//! What a function is to be, before it is served.

use heliostat_abi::rpc::limits::QUEUE_USUAL;
use heliostat_abi::rpc::{FunctionName, Publication, RpcRequest};

use super::uses::Use;
use super::{Rpc, RpcError, Service, PAYLOAD_BYTES_MAX};

/// Says what a function is. Where somebody serves it already, it is what that one has said.
pub struct PublicationBuilder<'a> {
    rpc: &'a Rpc,
    name: &'a str,
    others: bool,
    request_bytes: u32,
    reply_bytes: u32,
    queue: u32,
}

impl<'a> PublicationBuilder<'a> {
    pub(crate) fn new(rpc: &'a Rpc, name: &'a str) -> Self {
        let (request_bytes, reply_bytes) = (PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MAX);
        Self { rpc, name, others: false, request_bytes, reply_bytes, queue: QUEUE_USUAL }
    }

    /// Programs of other users may call it, as far as rules allow that.
    pub fn others(mut self) -> Self {
        self.others = true;
        self
    }

    /// Bytes that a call's payload may have; [`PAYLOAD_BYTES_MAX`] unless said, and at most.
    pub fn request_bytes(mut self, bytes: u32) -> Self {
        self.request_bytes = bytes;
        self
    }

    /// Bytes that a reply may have; [`PAYLOAD_BYTES_MAX`] unless said, and at most.
    pub fn reply_bytes(mut self, bytes: u32) -> Self {
        self.reply_bytes = bytes;
        self
    }

    /// Messages sent one way that may wait; 64 unless said, 1024 at most.
    pub fn queue(mut self, messages: u32) -> Self {
        self.queue = messages;
        self
    }

    /// Serves the function from now on, until the value is dropped.
    ///
    /// # Errors
    /// A rule says no, or a limit is reached.
    pub fn serve(self) -> Result<Service, RpcError> {
        let name = FunctionName::parse(self.name).map_err(RpcError::Name)?;
        let Self { others, request_bytes, reply_bytes, queue, .. } = self;
        let wanted = Publication { name, others, request_bytes, reply_bytes, queue };
        let shared = self.rpc.shared.clone();
        let asked = RpcRequest::Publish(wanted);
        let info = shared.uses.ask(Use::Serves, &shared.control, &asked)?;
        Ok(Service::new(shared, info))
    }
}
