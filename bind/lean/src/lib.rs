//! Files and sockets for processors without a kernel: one C header, and functions over it.
