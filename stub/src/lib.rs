//! heliostat-stub
