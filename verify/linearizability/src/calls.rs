//! The calls that have not been ordered yet: a list of invocations and responses in order of time, from
//! which a call is lifted when it is ordered, and put back when that was wrong.

use crate::history::{Call, History};

/// Which end of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// It may take effect from here on.
    Invocation,
    /// It has taken effect.
    Response,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    call: usize,
    end: End,
    before: usize,
    after: usize,
}

/// The list. Place 0 is its head.
pub(crate) struct Calls {
    nodes: Vec<Node>,
    invocations: Vec<usize>,
    responses: Vec<Option<usize>>,
}

impl Calls {
    /// All calls. Of two ends at one time the invocation comes first: that the other call had ended
    /// before is not certain.
    pub fn new<O, A>(history: &History<O, A>) -> Calls {
        let mut ends = Vec::new();
        for (number, Call { invoked_ns, responded, .. }) in history.calls().iter().enumerate() {
            ends.push((*invoked_ns, false, number));
            ends.extend(responded.as_ref().map(|(at, _)| (*at, true, number)));
        }
        ends.sort_unstable();
        let count = history.calls().len();
        let (mut invocations, mut responses) = (vec![0; count], vec![None; count]);
        let mut nodes = vec![Node { call: 0, end: End::Invocation, before: 0, after: 0 }];
        for (_, is_response, call) in ends {
            let at = nodes.len();
            let end = if is_response { End::Response } else { End::Invocation };
            nodes.push(Node { call, end, before: at - 1, after: 0 });
            nodes[at - 1].after = at;
            match end {
                End::Invocation => invocations[call] = at,
                End::Response => responses[call] = Some(at),
            }
        }
        Calls { nodes, invocations, responses }
    }

    /// What comes first of all that is left.
    pub fn first(&self) -> Option<usize> {
        self.next(0)
    }

    /// What comes after an entry.
    pub fn next(&self, at: usize) -> Option<usize> {
        Some(self.nodes[at].after).filter(|after| *after != 0)
    }

    /// Which call an entry is of, and which end.
    pub fn entry(&self, at: usize) -> (usize, End) {
        (self.nodes[at].call, self.nodes[at].end)
    }

    /// Takes a call out.
    pub fn lift(&mut self, call: usize) {
        self.unlink(self.invocations[call]);
        if let Some(response) = self.responses[call] {
            self.unlink(response);
        }
    }

    /// Puts back the call that was taken out last of those that are out.
    pub fn put_back(&mut self, call: usize) {
        if let Some(response) = self.responses[call] {
            self.link(response);
        }
        self.link(self.invocations[call]);
    }

    /// The entry of a call's invocation.
    pub fn invocation(&self, call: usize) -> usize {
        self.invocations[call]
    }

    fn unlink(&mut self, at: usize) {
        let Node { before, after, .. } = self.nodes[at];
        self.nodes[before].after = after;
        if after != 0 {
            self.nodes[after].before = before;
        }
    }

    fn link(&mut self, at: usize) {
        let Node { before, after, .. } = self.nodes[at];
        self.nodes[before].after = at;
        if after != 0 {
            self.nodes[after].before = at;
        }
    }
}
