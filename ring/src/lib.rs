//! heliostat-ring
