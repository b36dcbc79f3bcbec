//! Files read and written by the control plane's server loops, many operations at once.
//!
//! A program makes a window, has files opened, submits operations whose pieces are places in the
//! window, and takes their completions in whatever order they come. `docs/delegated.md` tells what
//! is promised.
//!
//! ```no_run
//! use heliostat::control;
//! use heliostat::file::{Delegated, OpKind, Piece, Pieces, Transfer, READ};
//!
//! control::configure_as_usual("reader");
//! let mut session = Delegated::start(1 << 20)?;
//! let scratch = Piece { offset: 0, bytes: 4096 };
//! let file = session.open("/var/lib/data", READ, scratch)?;
//!
//! // One read that is waited for.
//! let count = session.read_at(file, 0, scratch)?;
//!
//! // Several at once: the tag says which one has completed.
//! let read = |tag: u64| {
//!     let piece = Piece { offset: tag * 4096, bytes: 4096 };
//!     let pieces = Pieces::new(&[piece]).expect("one piece fits");
//!     let (offset, timeout_us, argument) = (tag * 4096, 0, 0);
//!     Transfer { kind: OpKind::Read, file, offset, pieces, tag, timeout_us, argument }
//! };
//! let submitted = session.submit(&[read(0), read(1), read(2)])?;
//! for _ in 0..submitted {
//!     let completion = session.wait(None)?;
//!     println!("{} bytes of part {}", completion.result, completion.tag);
//! }
//! # Ok::<(), heliostat::file::DelegatedError>(())
//! ```

pub use heliostat_abi::file::delegated::{Completion, OpKind, Pieces};
pub use heliostat_stub_file::*;
