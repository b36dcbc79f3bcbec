//! Areas of durable storage: bytes with a name that outlive every program, and logs in them.
//!
//! An area belongs to the store that the control plane of this node has (`heliostat store init`,
//! `attach`). A program that is trusted with the device drives it itself (*direct*); for others the control
//! plane's server loop does it (*emulated*): the calls are the same, and [`Area::way`] says which it is and
//! why. `docs/store.md` tells what is promised.
//!
//! ```no_run
//! use heliostat::control;
//! use heliostat::store::{AreaRights, Store, StoreError};
//!
//! control::configure_as_usual("ledger");
//! let store = Store::connect()?;
//! let area = store.create("ledger/state", 64 << 20).make()?;
//! area.write_durable(0, &[7; 4096])?;
//!
//! // Another program of the same user.
//! let area = store.open("ledger/state", AreaRights::READ)?;
//! let mut page = [0; 4096];
//! area.read(0, &mut page)?;
//! # Ok::<(), StoreError>(())
//! ```
//!
//! A log in an area; what it acknowledges is durable ([`log`]):
//!
//! ```no_run
//! use heliostat::store::log::{Area as Range, Log, Options};
//! use heliostat::store::{AreaRights, Store};
//!
//! let store = Store::connect()?;
//! let area = store.open("ledger/log", AreaRights::READ.and(AreaRights::WRITE))?;
//! let whole = Range { offset: 0, bytes: area.bytes() };
//! let log = Log::create(Box::new(area.device()?), whole, Options::default())?;
//! log.append_sync(b"first")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Without a control plane there is none:
//!
//! ```
//! use heliostat::control::{self, ControlError};
//! use heliostat::store::{Store, StoreError};
//!
//! control::configure("/nonexistent/control.sock", "example");
//! let connected = Store::connect().map(drop);
//! assert!(matches!(connected, Err(StoreError::Control(ControlError::NotRunning(_)))));
//! ```

pub use heliostat_backend_log as log;
pub use heliostat_stub_store::*;
