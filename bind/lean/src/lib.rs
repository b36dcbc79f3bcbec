//! Files and sockets for processors without a kernel: C headers, which are the whole of it.
//!
//! The stub is `heliostat_lean.h`; what it needs of a processor is `heliostat_lean_atomics.h`, and a
//! worker on Linux finds its memory by `heliostat_lean_host.h`. This crate has them as text, for tools
//! that write or compile them, and compares their numbers with the Rust layouts in its tests.
#![forbid(unsafe_code)]

/// Each header: its file's name and its text.
pub const HEADERS: [(&str, &str); 8] = [
    ("heliostat_lean.h", include_str!("../include/heliostat_lean.h")),
    ("heliostat_lean_atomics.h", include_str!("../include/heliostat_lean_atomics.h")),
    ("heliostat_lean_layout.h", include_str!("../include/heliostat_lean_layout.h")),
    ("heliostat_lean_operations.h", include_str!("../include/heliostat_lean_operations.h")),
    ("heliostat_lean_files.h", include_str!("../include/heliostat_lean_files.h")),
    ("heliostat_lean_sockets.h", include_str!("../include/heliostat_lean_sockets.h")),
    ("heliostat_lean_warps.h", include_str!("../include/heliostat_lean_warps.h")),
    ("heliostat_lean_host.h", include_str!("../include/heliostat_lean_host.h")),
];
