//! heliostat-abi
