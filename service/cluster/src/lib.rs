//! The cluster service's control side: which nodes are members, and in which state each of them is.
#![forbid(unsafe_code)]
