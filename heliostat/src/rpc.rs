//! Remote procedure calls: functions that programs serve by name, and others call.
//!
//! A call carries a payload of up to 1 MiB there and a reply back. Several threads and several programs
//! of a user may serve one function; a call goes to whoever is free. Who gets no reply is told whether
//! the function may have run. `docs/rpc.md` tells what is promised.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use heliostat::control;
//! use heliostat::rpc::{Rpc, RpcError};
//!
//! // One program.
//! control::configure_as_usual("server");
//! let rpc = Rpc::open()?;
//! let service = rpc.publish("text/upper").request_bytes(4096).reply_bytes(4096).serve()?;
//! let ended = service.run(|call| Ok(call.payload().to_ascii_uppercase()));
//!
//! // Another one.
//! control::configure_as_usual("client");
//! let upper = Rpc::open()?.find("text/upper")?;
//! match upper.call(b"hello", Some(Duration::from_secs(1))) {
//!     Ok(reply) => assert_eq!(reply, b"HELLO"),
//!     Err(error) if error.may_have_run() => eprintln!("perhaps done: {error}"),
//!     Err(error) => eprintln!("not done: {error}"),
//! }
//! # Ok::<(), RpcError>(())
//! ```
//!
//! Without a control plane there are none:
//!
//! ```
//! use heliostat::control::{self, ControlError};
//! use heliostat::rpc::{Rpc, RpcError};
//!
//! control::configure("/nonexistent/control.sock", "example");
//! let opened = Rpc::open().map(drop);
//! assert!(matches!(opened, Err(RpcError::Control(ControlError::NotRunning(_)))));
//! ```

pub use heliostat_stub_rpc::*;
