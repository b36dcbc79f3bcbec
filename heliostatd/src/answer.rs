//! What a request is answered with: a record, and descriptors beside it.

use std::os::fd::AsFd;
use std::rc::Rc;

use heliostat_abi::code::Code;
use heliostat_abi::session::record::Reply;
use tracing::warn;

use crate::memory;
use crate::refused::Refused;

/// What goes back to the client.
pub struct Answer {
    /// The record.
    pub reply: Reply,
    /// Descriptors that travel with it.
    pub fds: Vec<Rc<dyn AsFd>>,
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Answer { reply, fds: Vec::new() }
    }
}

/// A text as an answer: [memory file].
pub(crate) fn text_answer(text: &str) -> Result<Answer, Refused> {
    let fd = memory::text(text).map_err(|error| {
        warn!(%error, "no memory for a text");
        Code::Internal
    })?;
    Ok(Answer { reply: Reply::Text { bytes: text.len() as u64 }, fds: vec![Rc::new(fd)] })
}
