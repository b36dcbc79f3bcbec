//! A node that was found, by a link.

/// A node that has proven itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// Which.
    pub node: u64,
    /// Which life of it.
    pub incarnation: u64,
    /// By which link.
    pub link: u64,
    /// Whether this is what a [`Effect::Join`](crate::Effect::Join) came to.
    pub is_ours: bool,
}
