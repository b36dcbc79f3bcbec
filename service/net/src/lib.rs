//! heliostat-service-net
