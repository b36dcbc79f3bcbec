//! heliostat-control
