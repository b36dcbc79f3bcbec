//! heliostat-posix
