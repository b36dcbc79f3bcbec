//! Many threads at one end of a ring: requests are combined, bytes are copied in parallel.
//!
//! An end belongs to one process, so that no process waits for a lock that a dead or hostile one
//! holds. Inside a process any number of threads share the end. What they contend for, positions,
//! goes through a [`Combiner`](crate::combine::Combiner) in private memory; filling and reading
//! happens outside. The exception is [`JointProducer`]: processes that know each other and push short
//! records by turns.
//!
//! ```text
//! reserve   zero word behind the element (relaxed), handed over with the answer  [answer] in combine
//! commit    header := ready (release), by the thread that filled it              [publish]
//! take      header (acquire), handed over with the answer                        [publish]
//! release   hold := released (release), in any order                             [hold]
//! reclaim   oldest released holds (acquire), then tail := ... (release)          [hold], [reclaim]
//! ```
//! A reservation that is dropped unfilled becomes a skipped element; the consumer passes over it.

mod consumer;
mod holds;
mod joint;
mod producer;

pub(crate) use consumer::Token;
pub use consumer::{Consumer, Element};
pub use holds::HOLDS_MAX;
pub use joint::{JointProducer, PushError};
pub use producer::{Producer, Slot};
