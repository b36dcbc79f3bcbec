//! TCP sockets as the network service and its programs see them: how far the kernel has come with them.
