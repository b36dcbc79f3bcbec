//! Loom: every ordering of the ring, explored over all interleavings.
