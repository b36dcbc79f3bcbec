//! One producer, one consumer: the fast case, and the types see to it that it is one.
//!
//! Neither end can be cloned or shared between threads; both can be sent to one. An element is
//! published by its own header word, so the consumer needs no control word of the producer at
//! all, and the line that says "there is something" is the line that holds its first bytes:
//!
//! ```text
//! commit   zero word behind the element (relaxed); header := ready (release)         [publish]
//! take     header (acquire)                                                          [publish]
//! release  tail := ... (release), at the latest every eighth of the ring             [reclaim]
//! reserve  tail (acquire), only when the copy at hand says full                      [reclaim]
//! ```
//! [`Refresh::Eager`] looks at the other side's word on every operation and publishes every
//! release; it exists to be measured against.

pub(crate) mod consumer;
pub(crate) mod producer;

pub use consumer::{Element, Sleep, SpscConsumer};
pub use producer::{Slot, SpscProducer};

/// When an end looks at the control word of the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Refresh {
    /// Only when its own copy says that it cannot go on; releases are published in batches.
    #[default]
    Lazy,
    /// At every operation.
    Eager,
}
