//! heliostat-interpose
