//! Which sockets a session may have: confined sessions, shared listeners, limits.
#![forbid(unsafe_code)]
