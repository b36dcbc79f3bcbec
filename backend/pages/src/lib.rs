//! Live memory by pages: what was written since one last looked, and how it is copied.
//!
//! Four ways to the same end. `live` copies a program's own memory, `track` tells which of its pages
//! were written, `remap` copies a page at its first store, and `tracee` does the first two for
//! another program, which is stopped for it. Which versions there are, and who reads them, is
//! decided elsewhere.
#![warn(missing_docs)]

pub mod live;
pub mod remap;
pub mod tracee;
pub mod track;
