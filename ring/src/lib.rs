//! heliostat-ring
pub mod stream;
