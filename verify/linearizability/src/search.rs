//! The search for an order.

use std::collections::HashSet;
use std::fmt;

use crate::calls::{Calls, End};
use crate::history::{Call, History};
use crate::model::Model;

/// There is no order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotLinearizable {
    /// The longest beginning of an order that was found: places in `History::calls`.
    pub longest: Vec<usize>,
    /// The call that had responded by then, and that no order that begins so has.
    pub stuck: usize,
}

impl fmt::Display for NotLinearizable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.longest.len();
        write!(f, "after {count} calls in order, call {} could not have answered so", self.stuck)
    }
}

impl std::error::Error for NotLinearizable {}

/// A set of calls.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Ordered(Vec<u64>);

impl Ordered {
    fn none(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    fn flip(&mut self, call: usize) {
        self.0[call / 64] ^= 1 << (call % 64);
    }
}

/// Finds an order of a history in which a model answers as was answered.
///
/// # Errors
/// There is none.
pub fn check<M: Model>(
    model: &M,
    history: &History<M::Operation, M::Answer>,
) -> Result<(), NotLinearizable> {
    Search::new(model, history).run()
}

struct Search<'a, M: Model> {
    model: &'a M,
    calls: &'a [Call<M::Operation, M::Answer>],
    left: Calls,
    /// Calls that have responded and are not ordered.
    responded_left: usize,
    state: M::State,
    ordered: Ordered,
    /// What was ordered, with the states before.
    path: Vec<(usize, M::State)>,
    tried: HashSet<(Ordered, M::State)>,
    worst: NotLinearizable,
}

impl<'a, M: Model> Search<'a, M> {
    fn new(model: &'a M, history: &'a History<M::Operation, M::Answer>) -> Self {
        let calls = history.calls();
        Search {
            model,
            calls,
            left: Calls::new(history),
            responded_left: calls.iter().filter(|call| call.responded.is_some()).count(),
            state: model.begin(),
            ordered: Ordered::none(calls.len()),
            path: Vec::new(),
            tried: HashSet::new(),
            worst: NotLinearizable { longest: Vec::new(), stuck: 0 },
        }
    }

    fn run(mut self) -> Result<(), NotLinearizable> {
        let mut at = self.left.first();
        // Those that never responded may never have taken effect.
        while self.responded_left > 0 {
            let entry = at.map(|at| (at, self.left.entry(at)));
            at = match entry {
                Some((at, (call, End::Invocation))) => match self.try_call(call) {
                    true => self.left.first(),
                    false => self.left.next(at),
                },
                // All that could come before this response have been tried.
                Some((_, (call, End::Response))) => self.go_back(call)?,
                // A call that has responded and is not ordered is in the list with its response.
                None => return Err(self.worst),
            };
        }
        Ok(())
    }

    /// Orders a call next, where the model allows it and that was not tried.
    fn try_call(&mut self, call: usize) -> bool {
        let Call { process, operation, responded, .. } = &self.calls[call];
        let answer = responded.as_ref().map(|(_, answer)| answer);
        let Some(state) = self.model.step(&self.state, *process, operation, answer) else {
            return false;
        };
        self.ordered.flip(call);
        if !self.tried.insert((self.ordered.clone(), state.clone())) {
            self.ordered.flip(call);
            return false;
        }
        self.responded_left -= usize::from(responded.is_some());
        self.path.push((call, std::mem::replace(&mut self.state, state)));
        self.left.lift(call);
        true
    }

    /// Takes the last call back. Returns where to go on: behind it.
    fn go_back(&mut self, stuck: usize) -> Result<Option<usize>, NotLinearizable> {
        if self.path.len() >= self.worst.longest.len() {
            let longest = self.path.iter().map(|(call, _)| *call).collect();
            self.worst = NotLinearizable { longest, stuck };
        }
        let Some((call, state)) = self.path.pop() else { return Err(self.worst.clone()) };
        self.state = state;
        self.ordered.flip(call);
        self.responded_left += usize::from(self.calls[call].responded.is_some());
        self.left.put_back(call);
        Ok(self.left.next(self.left.invocation(call)))
    }
}
