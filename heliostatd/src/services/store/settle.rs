//! What the service has decided, carried out: orders to the store, words to loops, late answers.
//!
//! A loop that is not there has nothing under way: what it would be asked is answered at once, and may
//! bring effects of its own, until there are none.

use std::collections::HashSet;
use std::sync::mpsc::TryRecvError;

use heliostat_abi::name::ObjectId;
use heliostat_abi::store::Why;
use heliostat_server_store::StoreOrder;
use heliostat_service_store::{Done, Effect, Failed, Order};

use super::no::No;
use crate::daemon::Daemon;
use crate::state::store::{Changed, Numbers, OpenStore, State, Told};

impl Daemon {
    /// Carries out what was decided, and what follows from it.
    pub(super) fn carry_out_store(&mut self, effects: Vec<Effect>) {
        let mut left = std::collections::VecDeque::from(effects);
        while let Some(effect) = left.pop_front() {
            let mut more = Vec::new();
            match effect {
                Effect::Order(area, order) => self.order_store(area, order, &mut more),
                Effect::Open { session, handle, area, rights } => {
                    self.tell_loops_of(area);
                    if let Some(loops) = &mut self.services.store.loops {
                        loops.open(session, handle, area, rights);
                    }
                }
                Effect::Close { handle, .. } => self.close_on_loop(handle, &mut more),
                Effect::Bytes { area, bytes, is_asked } => {
                    self.tell_bytes(area, bytes, is_asked, &mut more);
                }
                Effect::Rate(area, rate) => self.tell_rate(area, rate),
                Effect::Answer(question, result) => self.answer_question(question, result),
            }
            // What follows from one effect comes before those that were decided after it.
            more.into_iter().rev().for_each(|effect| left.push_front(effect));
        }
    }

    fn order_store(&mut self, area: ObjectId, order: Order, more: &mut Vec<Effect>) {
        let Some(open) = self.services.store.open_mut() else { return };
        let taken = open.areas.view(area).filter(|_| takes_bytes(open, area, &order));
        let from = if let Order::Resize { bytes, .. } = order { bytes } else { 0 };
        if taken.is_some_and(|view| open.is_granted(view.generation, from)) {
            return open.areas.done(area, Err(Failed::Held), more);
        }
        let thread = self.services.store.thread.as_ref();
        if !thread.is_some_and(|thread| thread.order(area, order)) {
            self.lose_store_thread();
            if let Some(open) = self.services.store.open_mut() {
                open.areas.done(area, Err(Failed::Device), more);
            }
        }
    }

    /// Tells all loops of an area that they do not know.
    fn tell_loops_of(&mut self, area: ObjectId) {
        let store = &mut self.services.store;
        let (State::Open(open), Some(loops)) = (&mut store.state, &store.loops) else { return };
        if open.known.contains(&area) {
            return;
        }
        let Some(Told { bytes, pieces, meter }) = open.told(area) else { return };
        open.known.insert(area);
        loops.tell_all(|| {
            let (pieces, meter) = (pieces.clone(), meter.clone());
            StoreOrder::Area { area, bytes, pieces, meter }
        });
    }

    fn close_on_loop(&mut self, handle: ObjectId, more: &mut Vec<Effect>) {
        let store = &mut self.services.store;
        let is_told = store.loops.as_mut().is_some_and(|loops| loops.close(handle));
        if let Some(open) = store.open_mut().filter(|_| !is_told) {
            open.areas.let_go(handle, more);
        }
    }

    fn tell_bytes(&mut self, area: ObjectId, bytes: u64, is_asked: bool, more: &mut Vec<Effect>) {
        let store = &mut self.services.store;
        let State::Open(open) = &mut store.state else { return };
        let loops = store.loops.as_ref().filter(|_| open.known.contains(&area));
        // Of loops that end nobody hears; when the last is gone all is quiet.
        let count = loops.map_or(0, |loops| loops.alive);
        if let Some(loops) = loops {
            loops.tell_all(|| StoreOrder::Bytes { area, bytes, is_asked });
        }
        match (is_asked, count) {
            (false, _) => {}
            (true, 0) => open.areas.quiet(area, more),
            (true, count) => {
                open.unquiet.insert(area, count);
            }
        }
    }

    /// A loop has nothing under way any more behind the new end of an area.
    pub(super) fn loop_quiet(&mut self, area: ObjectId) {
        let mut effects = Vec::new();
        let Some(open) = self.services.store.open_mut() else { return };
        let Some(left) = open.unquiet.get_mut(&area) else { return };
        *left -= 1;
        if *left == 0 {
            open.unquiet.remove(&area);
            open.areas.quiet(area, &mut effects);
        }
        self.carry_out_store(effects);
    }

    fn tell_rate(&mut self, area: ObjectId, rate: heliostat_service_grant::Rate) {
        let store = &mut self.services.store;
        let State::Open(open) = &mut store.state else { return };
        let meter = open.set_meter(area, rate);
        if let Some(loops) = store.loops.as_ref().filter(|_| open.known.contains(&area)) {
            loops.tell_all(|| StoreOrder::Rate { area, meter: meter.clone() });
        }
    }

    /// The store has done what was ordered, or not.
    pub(super) fn store_done(
        &mut self,
        area: ObjectId,
        result: Result<Changed, Failed>,
        numbers: Numbers,
    ) {
        let Some(open) = self.services.store.open_mut() else { return };
        open.numbers = numbers;
        let generation = result.as_ref().ok().map(|changed| changed.generation);
        if let Ok(Changed { generation, pieces }) = &result {
            open.moved(*generation, pieces.clone());
        }
        let done = result.map(|changed| Done { generation: changed.generation });
        let mut effects = Vec::new();
        open.areas.done(area, done, &mut effects);
        if generation.is_some() {
            self.tell_loops_again(area);
        }
        self.carry_out_store(effects);
    }

    /// An area that loops know lies elsewhere, or is no more.
    fn tell_loops_again(&mut self, area: ObjectId) {
        let Some(open) = self.services.store.open_mut() else { return };
        if open.areas.view(area).is_some() {
            if open.known.remove(&area) {
                self.tell_loops_of(area);
            }
            return;
        }
        let identity = open.facts.identity;
        let was_known = open.forget(area);
        self.forget_rates(&identity);
        if was_known {
            if let Some(loops) = &self.services.store.loops {
                loops.tell_all(|| StoreOrder::Gone { area });
            }
        }
    }

    /// What is kept of areas that are gone goes, too.
    fn forget_rates(&mut self, identity: &[u8; 16]) {
        let store = &mut self.services.store;
        let State::Open(open) = &store.state else { return };
        let rates = store.kept.rates(identity);
        if rates.is_empty() {
            return;
        }
        let there: HashSet<u64> =
            open.areas.list(0, "", |_| true).map(|area| area.generation).collect();
        store.kept.forget(identity, |generation| there.contains(&generation));
    }

    /// Attends to what the thread of the store and the loops tell.
    pub(crate) fn attend_store(&mut self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.services.store.bell, &mut count);
        for _ in 0..super::served::EVENTS_AT_ONCE {
            let told = self.services.store.thread.as_ref().map(|thread| thread.told());
            match told {
                Some(Ok(event)) => self.take_store_event(event),
                Some(Err(TryRecvError::Disconnected)) => {
                    self.lose_store_thread();
                    break;
                }
                Some(Err(TryRecvError::Empty)) | None => break,
            }
        }
        self.attend_store_loops();
    }

    /// The thread has ended by itself, which it does only where it has found no store.
    fn lose_store_thread(&mut self) {
        let store = &mut self.services.store;
        if store.thread.take().is_none() {
            return;
        }
        match &store.state {
            State::Opening { .. } => {
                self.store_opened(Err("the thread of the store has ended".to_owned()));
            }
            State::Open(_) => self.fail_store("the thread of the store has ended".to_owned()),
            State::None(_) => {}
        }
    }

    /// The store, also while it has failed: what is given back it takes.
    pub(super) fn open_store_mut(&mut self) -> Result<&mut OpenStore, No> {
        self.open_store_even_failed()?;
        self.services.store.open_mut().ok_or(Why::NoStore.into())
    }
}

/// Whether an order takes bytes from an area.
fn takes_bytes(open: &OpenStore, area: ObjectId, order: &Order) -> bool {
    match order {
        Order::Delete { .. } => true,
        Order::Resize { bytes, .. } => open.areas.view(area).is_some_and(|it| *bytes < it.bytes),
        Order::Create { .. } | Order::Appoint { .. } => false,
    }
}
