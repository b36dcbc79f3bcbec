//! The other nodes' end: a registry whose records another node keeps.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;

use heliostat_backend_registry::{
    Event, Key, Operation, Outcome, Registry, WatchId, Watched, Why, OPERATIONS_MAX, WATCHES_MAX,
};
use heliostat_base::clock::monotonic_ns;
use heliostat_server_node::header::REGISTRY;
use heliostat_server_node::{Caller, Effect, NodeCall, NodeId, Outcome as Called};

use crate::record::{Answer, Request};

/// How long a watch waits at the other node before it is asked anew.
const WATCH_NS: u64 = 2_000_000_000;
/// How long a node is left alone that did not answer a watch, or answered it with nothing.
const PAUSE_NS: u64 = 200_000_000;

/// A user of another node's registry.
pub struct Remote {
    caller: Caller,
    node: NodeId,
    bell: Arc<dyn Fn() + Send + Sync>,
    sender: Sender<Heard>,
    heard: Receiver<Heard>,
    waiting: usize,
    watches: BTreeMap<WatchId, Watch>,
    last_watch: u64,
    events: VecDeque<Event>,
}

enum Heard {
    Ended { token: u64, is_read: bool, called: Called },
    Watched { watch: WatchId, called: Called },
}

struct Watch {
    prefix: Key,
    after: u64,
    /// When it is asked again; `None` while it waits for an answer.
    due_ns: Option<u64>,
}

impl Remote {
    /// The registry of a node, which is asked when it is joined. `bell` is rung on the node's thread when
    /// there are events.
    pub fn new(caller: Caller, node: u64, bell: Arc<dyn Fn() + Send + Sync>) -> Remote {
        let (sender, heard) = channel();
        Remote {
            caller,
            node: NodeId(node),
            bell,
            sender,
            heard,
            waiting: 0,
            watches: BTreeMap::new(),
            last_watch: 0,
            events: VecDeque::new(),
        }
    }

    fn call(
        &self,
        request: &Request,
        deadline_ns: u64,
        then: impl FnOnce(Called) -> Heard + Send + 'static,
    ) -> Result<(), String> {
        let call = NodeCall {
            node: self.node,
            link: None,
            service: REGISTRY,
            header: Vec::new(),
            payload: request.encode(),
            deadline_ns,
        };
        let (sender, bell) = (self.sender.clone(), self.bell.clone());
        let called = self.caller.call(call, move |called| {
            // Where nobody listens any more nobody asks.
            let _ = sender.send(then(called));
            bell();
        });
        called.map_err(|error| error.to_string())
    }

    fn ended(&mut self, token: u64, outcome: Outcome) {
        self.events.push_back(Event::Ended { token, outcome });
        (self.bell)();
    }

    fn hear(&mut self, heard: Heard, now_ns: u64) {
        match heard {
            Heard::Ended { token, is_read, called } => {
                self.waiting = self.waiting.saturating_sub(1);
                let outcome = outcome(called, is_read);
                self.events.push_back(Event::Ended { token, outcome });
            }
            Heard::Watched { watch, called } => self.watched(watch, called, now_ns),
        }
    }

    fn watched(&mut self, id: WatchId, called: Called, now_ns: u64) {
        let Some(watch) = self.watches.get_mut(&id) else { return };
        let answer = called.as_ref().ok().and_then(|reply| Answer::decode(&reply.payload));
        match answer {
            Some(Answer::Watched(Watched::Changes { changes, upto })) if upto >= watch.after => {
                // A node that has nothing to tell waits with its answer: one that does not is not asked
                // as fast as it answers.
                let pause_ns = if changes.is_empty() { PAUSE_NS } else { 0 };
                (watch.after, watch.due_ns) = (upto, Some(now_ns.saturating_add(pause_ns)));
                let told = changes.into_iter().map(|change| Event::Changed { watch: id, change });
                self.events.extend(told);
            }
            Some(Answer::Watched(Watched::Broken)) => {
                self.watches.remove(&id);
                let why = "the node keeps no changes from so long ago".to_owned();
                self.events.push_back(Event::Broken { watch: id, why });
            }
            // Nothing has changed so long, or it was not reached.
            _ => watch.due_ns = Some(now_ns.saturating_add(PAUSE_NS)),
        }
    }

    fn ask_watches(&mut self, now_ns: u64) {
        let due = self.watches.iter().filter(|(_, it)| it.due_ns.is_some_and(|ns| ns <= now_ns));
        let due: Vec<_> = due.map(|(id, it)| (*id, it.prefix.clone(), it.after)).collect();
        for (watch, prefix, after) in due {
            let request = Request::Watch { prefix, after };
            let then = move |called| Heard::Watched { watch, called };
            let asked = self.call(&request, now_ns.saturating_add(WATCH_NS), then);
            let due_ns = asked.err().map(|_| now_ns.saturating_add(PAUSE_NS));
            if let Some(watch) = self.watches.get_mut(&watch) {
                watch.due_ns = due_ns;
            }
        }
    }
}

/// What became of an operation.
fn outcome(called: Called, is_read: bool) -> Outcome {
    let unknown = |why| if is_read { Outcome::NotDone(why) } else { Outcome::Unknown(why) };
    match called {
        Ok(reply) => match Answer::decode(&reply.payload) {
            Some(Answer::Ended(outcome)) => outcome,
            _ => unknown(Why::Malformed("no answer of a registry".to_owned())),
        },
        Err(error) => {
            let why = Why::Unreachable(error.to_string());
            if error.effect == Effect::Unknown {
                unknown(why)
            } else {
                Outcome::NotDone(why)
            }
        }
    }
}

impl Registry for Remote {
    fn begin(&mut self, token: u64, operation: Operation, deadline_ns: u64) {
        let is_read = matches!(operation, Operation::Get { .. } | Operation::List { .. });
        if self.waiting >= OPERATIONS_MAX {
            let full = Why::Full { what: "operations", limit: OPERATIONS_MAX };
            return self.ended(token, Outcome::NotDone(full));
        }
        if deadline_ns <= monotonic_ns() {
            return self.ended(token, Outcome::NotDone(Why::Deadline));
        }
        let then = move |called| Heard::Ended { token, is_read, called };
        match self.call(&Request::Do(operation), deadline_ns, then) {
            Ok(()) => self.waiting += 1,
            Err(why) => self.ended(token, Outcome::NotDone(Why::Unreachable(why))),
        }
    }

    fn watch(&mut self, prefix: Key, after: u64) -> Option<WatchId> {
        if self.watches.len() >= WATCHES_MAX {
            return None;
        }
        self.last_watch += 1;
        let id = WatchId(self.last_watch);
        self.watches.insert(id, Watch { prefix, after, due_ns: Some(0) });
        self.ask_watches(monotonic_ns());
        Some(id)
    }

    fn unwatch(&mut self, watch: WatchId) {
        self.watches.remove(&watch);
        self.events
            .retain(|event| !matches!(event, Event::Changed { watch: of, .. } if *of == watch));
    }

    fn next_event(&mut self, now_ns: u64) -> Option<Event> {
        while self.events.is_empty() {
            let Ok(heard) = self.heard.try_recv() else { break };
            self.hear(heard, now_ns);
        }
        self.ask_watches(now_ns);
        self.events.pop_front()
    }

    fn next_ns(&self) -> Option<u64> {
        self.watches.values().filter_map(|it| it.due_ns).min()
    }
}
