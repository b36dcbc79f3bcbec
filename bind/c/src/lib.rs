//! heliostat-c
