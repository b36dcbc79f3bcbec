//! How many values of this process stand for one function: the session lets go of it with the last.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::{FunctionInfo, RpcRequest};
use heliostat_client::OwnSession;

use super::RpcError;
use crate::ask::AskRpc;

/// What a value does with a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) enum Use {
    Serves,
    Calls,
}

/// The counts.
#[derive(Default)]
pub(crate) struct Uses(Mutex<HashMap<(ObjectId, Use), usize>>);

impl Uses {
    /// Asks for a function: there is one more. Nobody gives one back meanwhile, or this one would lose
    /// what it was granted.
    pub(crate) fn ask(
        &self,
        what: Use,
        control: &OwnSession,
        request: &RpcRequest,
    ) -> Result<FunctionInfo, RpcError> {
        let mut counts = self.lock();
        let info = control.grant(request)?;
        *counts.entry((info.function, what)).or_default() += 1;
        Ok(info)
    }

    /// There is one less, of a function that is gone.
    pub(crate) fn forget(&self, function: ObjectId, what: Use) {
        lessen(&mut self.lock(), function, what);
    }

    /// There is one less. The control plane is told of the last; nothing happens in a forked child,
    /// whose parent has the session.
    pub(crate) fn release(&self, function: ObjectId, what: Use, control: &OwnSession) {
        if !control.is_own() {
            return;
        }
        let mut counts = self.lock();
        if lessen(&mut counts, function, what) {
            let (serves, calls) = (what == Use::Serves, what == Use::Calls);
            // One that is gone, or whose session is over, was given back already.
            let _ = control.tell(&RpcRequest::Leave { function, serves, calls });
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(ObjectId, Use), usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether that was the last.
fn lessen(counts: &mut HashMap<(ObjectId, Use), usize>, function: ObjectId, what: Use) -> bool {
    let Some(count) = counts.get_mut(&(function, what)) else { return false };
    *count -= 1;
    let is_last = *count == 0;
    if is_last {
        counts.remove(&(function, what));
    }
    is_last
}
