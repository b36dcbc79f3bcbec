//! How a server loop, or any other thread, calls other nodes without the daemon.

use std::sync::Arc;

use heliostat_abi::cluster::Class;
use heliostat_backend_transport::error::{CallError, CallFailure};

use crate::call::{NodeCall, Outcome};
use crate::gate::{Closed, Gate, Order};
use crate::outgoing::{Answer, Outgoing};
use crate::place::Places;

/// Calls other nodes. Clones share one limit; each thread that must not suffer from others has its own,
/// from [`Nodes::caller`](crate::Nodes::caller).
#[derive(Clone)]
pub struct Caller {
    gate: Arc<Gate>,
    /// By [`Class::place`]: a class takes no place of another's.
    places: [Places; 3],
}

impl Caller {
    pub(crate) fn new(gate: Arc<Gate>) -> Caller {
        Caller { gate, places: [(); 3].map(|()| Places::default()) }
    }

    /// Calls a node; never waits. `then` gets the outcome exactly once, by the deadline at the latest,
    /// on the node's thread, where it must not wait either.
    ///
    /// # Errors
    /// The call was not made, and `then` is dropped: too long, more than a caller may have waiting
    /// (`TooMany`, `Full`), or the thread has ended (`NoPeer`).
    pub fn call(
        &self,
        call: NodeCall,
        then: impl FnOnce(Outcome) + Send + 'static,
    ) -> Result<(), CallError> {
        self.call_as(Class::Normal, call, then)
    }

    /// The same as one of a class, whose places are its own.
    ///
    /// # Errors
    /// As of [`Self::call`].
    pub fn call_as(
        &self,
        class: Class,
        call: NodeCall,
        then: impl FnOnce(Outcome) + Send + 'static,
    ) -> Result<(), CallError> {
        call.check_length()?;
        let places = &self.places[class.place()];
        let place = places.take(call.bytes()).map_err(|why| call.not_sent(why))?;
        let gone = call.not_sent(CallFailure::NoPeer);
        let answer = Answer::sink(call.node, Box::new(then), place);
        match self.gate.send(Order::Call(Box::new(Outgoing::new(class, call, answer)))) {
            Err(Closed(Order::Call(unsent))) => {
                unsent.answer.forget();
                Err(gone)
            }
            _ => Ok(()),
        }
    }

    /// Calls that have not ended.
    pub fn waiting(&self) -> usize {
        self.places.iter().map(Places::calls).sum()
    }
}
