//! Messages: what machines say is sent, what comes is given to them.

use heliostat_abi::memory::Rights;
use heliostat_base::clock::monotonic_ns;
use heliostat_server_node::{AskId, CallError, NodeCall, Outcome, PeerNode};
use heliostat_service_replica::{
    Action, Answer, Append, ClientEffect, Effect, Fault, Identity, Member, Operate, Placement,
    Received, Replica, Unanswered, RECENT_MAX,
};

use crate::alter;
use crate::engine::{Asked, Engine, Freer, Region, Todo};
use crate::input::{Alterer, Called, Input, Wanted};
use crate::message::{
    header, key_of, kind_of, number_at, put_identity, take_identity, user_of, Kind,
};

/// How long a backup may take, and a keeper.
const APPEND_NS: u64 = 2_000_000_000;
/// How long a primary may take, whose backups may be changing.
const OPERATE_NS: u64 = 8_000_000_000;
/// Longest region: what is longer comes from nobody honest.
const REGION_BYTES_MAX: u64 = 1 << 34;

impl Engine {
    /// Carries out what is to be, and what follows from it.
    pub(crate) fn carry_out(&mut self) {
        while let Some(todo) = self.todo.pop_front() {
            match todo {
                Todo::Replica(identity, effect) => self.carry_out_replica(identity, effect),
                Todo::Client(identity, effect) => self.carry_out_client(identity, effect),
            }
        }
    }

    fn carry_out_replica(&mut self, identity: Identity, effect: Effect) {
        let key = self.regions.get(&identity).map(|it| it.key.clone()).unwrap_or_default();
        match effect {
            Effect::Append { to, tag, append } => {
                let header = header(Kind::Append, key.as_bytes());
                let called = Called::Append(identity, to, tag);
                self.call(0, to, (header, append.encode(), APPEND_NS), called);
            }
            Effect::Answer { token, answer } => self.answer(token, answer),
            Effect::Propose { attempt, expected, placement } => {
                let record = placement.map(|it| it.encode()).unwrap_or_default();
                self.write_record(&key, expected, record, Wanted::Propose(identity, attempt));
            }
            Effect::Look(look) => self.read_record(&key, Wanted::Look(identity, look)),
            Effect::Forget { to, epoch } => {
                let message = (header(Kind::Forget, &[]), put_identity(identity, epoch), APPEND_NS);
                self.call(0, to, message, Called::Nothing);
            }
            Effect::Made(token, result) => self.made(token, result),
            Effect::Freed(token, result) => {
                if let Some(freer) = self.freeing.remove(&token) {
                    self.tell_freer(freer, result);
                }
            }
            Effect::Altered(token, result) => self.altered(token, result),
            Effect::Ended => {
                if self.regions.get(&identity).is_some_and(|it| it.replica.is_ended()) {
                    self.regions.remove(&identity);
                }
            }
        }
    }

    fn carry_out_client(&mut self, identity: Identity, effect: ClientEffect) {
        match effect {
            ClientEffect::Send { to, operate } => {
                let number = operate.id.number;
                let user = self.user_of(number);
                if to == self.starting.me {
                    return self.operate(Asked::Client(identity, number), user, *operate);
                }
                let header = header(Kind::Operate, &user.to_le_bytes());
                let called = Called::Operate(identity, number);
                self.call(1, to, (header, operate.encode(), OPERATE_NS), called);
            }
            ClientEffect::Look => {
                if let Some(key) = self.clients.get(&identity).map(|it| it.key.clone()) {
                    self.read_record(&key, Wanted::Client(identity));
                }
            }
            ClientEffect::Done { token, result } => self.submitted(token, result),
        }
    }

    /// Calls a member, if it is joined in that life; what becomes of it comes as an input.
    pub(crate) fn call(
        &mut self,
        caller: usize,
        to: Member,
        (header, payload, ns): (Vec<u8>, Vec<u8>, u64),
        called: Called,
    ) {
        let peer = self.joined.get(&to.node).filter(|it| it.incarnation == to.life).copied();
        let Some(PeerNode { node, link, .. }) = peer else { return self.not_called(called) };
        let (sender, then) = (self.sender.clone(), called.clone());
        let (link, deadline_ns) = (Some(link), monotonic_ns().saturating_add(ns));
        let call = NodeCall { node, link, service: crate::SERVICE, header, payload, deadline_ns };
        let sent = self.callers[caller].call(call, move |outcome| {
            // Where nobody listens any more the process is ending.
            let _ = sender.send(Input::Called(then, outcome));
        });
        if sent.is_err() {
            self.not_called(called);
        }
    }

    /// Nothing was sent. It comes as an input all the same, so that nothing turns in a circle.
    pub(crate) fn not_called(&mut self, called: Called) {
        use heliostat_server_node::{CallFailure, Effect};
        let error = CallError { node: None, effect: Effect::NotSent, why: CallFailure::NoPeer };
        let _ = self.sender.send(Input::Called(called, Err(error)));
    }

    /// A call has ended.
    pub(crate) fn called(&mut self, called: Called, outcome: Outcome) {
        match called {
            Called::Append(identity, to, tag) => {
                let received = outcome.ok().and_then(|it| Received::decode(&it.payload));
                if received == Some(Received::Full) {
                    self.refused(identity);
                }
                self.with_replica(identity, |replica, effects| match received {
                    Some(received) => replica.received(to, tag, received, effects),
                    None => replica.not_received(to, tag),
                });
            }
            Called::Operate(identity, number) => {
                let answer = match outcome {
                    Ok(reply) => Answer::decode(&reply.payload).ok_or(Unanswered::Unknown),
                    Err(error) if error.effect == heliostat_server_node::Effect::Unknown => {
                        Err(Unanswered::Unknown)
                    }
                    Err(_) => Err(Unanswered::NotSent),
                };
                self.answered(identity, number, answer);
            }
            Called::Record(wanted) => {
                let answer = outcome.ok().and_then(|it| self.trusted(&it.payload));
                self.record_came(wanted, answer);
            }
            Called::Free(token) => {
                let result = match outcome.as_ref().map(|it| it.payload.as_slice()) {
                    Ok([0]) => Ok(()),
                    Ok([2]) => Err(Fault::Denied),
                    _ => Err(Fault::NotPrimary),
                };
                if let Some(freer) = self.freeing.remove(&token) {
                    self.tell_freer(freer, result);
                }
            }
            Called::Alter(token) => self.altered_there(token, outcome),
            Called::Nothing => {}
        }
    }

    fn answered(&mut self, identity: Identity, number: u64, answer: Result<Answer, Unanswered>) {
        let Some(one) = self.clients.get_mut(&identity) else { return };
        let mut effects = Vec::new();
        one.client.answered(number, answer, &mut effects);
        self.todo.extend(effects.into_iter().map(|it| Todo::Client(identity, it)));
    }

    pub(crate) fn with_replica(
        &mut self,
        identity: Identity,
        act: impl FnOnce(&mut Replica, &mut Vec<Effect>),
    ) {
        let Some(region) = self.regions.get_mut(&identity) else { return };
        let mut effects = Vec::new();
        act(&mut region.replica, &mut effects);
        self.todo.extend(effects.into_iter().map(|it| Todo::Replica(identity, it)));
    }

    /// Another node asks; it has an answer always, at once or when backups have confirmed.
    pub(crate) fn asked(&mut self, from: PeerNode, ask: AskId, header: &[u8], payload: &[u8]) {
        let member = Member { node: from.node.0, life: from.incarnation };
        let answer = kind_of(header).and_then(|(kind, about)| match kind {
            Kind::Append => {
                let append = Append::decode(payload)?;
                Some(self.append(member, key_of(about)?, append).encode())
            }
            Kind::Operate => {
                let (user, operate) = (user_of(about)?, Operate::decode(payload)?);
                if operate.id.asker != member {
                    return None;
                }
                let user = if self.starting.believes_users { user } else { u32::MAX };
                self.operate(Asked::Node(ask), user, operate);
                Some(Vec::new())
            }
            Kind::Forget => {
                let (identity, epoch) = take_identity(payload)?;
                self.with_replica(identity, |replica, effects| {
                    // Whoever is not its primary has no say; one that it does not know yet it finds in
                    // the record, which it looks at when nobody is heard.
                    if replica.placement().primary == member {
                        replica.forget(epoch, effects);
                    }
                });
                Some(vec![0])
            }
            Kind::Read if self.is_keeper() => Some(self.keep_read(&key_of(about)?)),
            Kind::Write if self.is_keeper() => {
                let (expected, record) = (number_at(payload, 0)?, payload.get(8..)?);
                // What is no placement could be of any length.
                let is_record = record.is_empty() || Placement::decode(record).is_some();
                let key = key_of(about).filter(|_| is_record)?;
                Some(self.keep_write(&key, expected, record))
            }
            Kind::Free => {
                let (user, (identity, _)) = (user_of(about)?, take_identity(payload)?);
                let user = if self.starting.believes_users { user } else { u32::MAX };
                self.free(identity, user, Freer::Node(ask));
                Some(Vec::new())
            }
            Kind::Alter => {
                let (user, (identity, number)) = (user_of(about)?, take_identity(payload)?);
                let alter = alter::take(number)?;
                let user = if self.starting.believes_users { user } else { u32::MAX };
                self.alter(identity, user, alter, Alterer::Node(ask));
                Some(Vec::new())
            }
            Kind::Read | Kind::Write => None,
        });
        match answer {
            // It is answered later.
            Some(answer) if answer.is_empty() => {}
            Some(answer) => self.replies.reply(ask, Vec::new(), answer),
            None => self.replies.refuse(ask),
        }
    }

    fn append(&mut self, from: Member, key: String, append: Append) -> Received {
        let identity = append.placement.identity;
        if append.placement.bytes > REGION_BYTES_MAX {
            return Received::Full;
        }
        if let Some(region) = self.regions.get_mut(&identity) {
            let mut effects = Vec::new();
            let received = region.replica.append(from, append.clone(), &mut effects);
            self.todo.extend(effects.into_iter().map(|it| Todo::Replica(identity, it)));
            if !self.regions.get(&identity).is_some_and(|it| it.replica.is_ended()) {
                return received;
            }
            self.carry_out();
        }
        let (owner, bytes) = (append.placement.owner, append.placement.bytes);
        if append.placement.primary != from || append.invitation.is_none() {
            return Received::Unknown;
        }
        if self.full(owner, bytes).is_some() {
            return Received::Full;
        }
        let instance = self.next();
        let invited = Replica::invited(self.starting.me, &append, (RECENT_MAX, instance));
        let Some(mut replica) = invited else { return Received::Unknown };
        let mut effects = Vec::new();
        let received = replica.append(from, append, &mut effects);
        self.regions.insert(identity, Region { key, replica, refused_ns: 0 });
        self.todo.extend(effects.into_iter().map(|it| Todo::Replica(identity, it)));
        received
    }

    fn operate(&mut self, asked: Asked, user: u32, operate: Operate) {
        let (token, identity) = (self.next(), operate.region);
        self.operations.insert(token, asked);
        let Some(region) = self.regions.get_mut(&identity) else {
            return self.answer(token, Answer::NotPrimary { may_be_done: false });
        };
        if !may(region.replica.placement(), user, &operate.action) {
            return self.answer(token, Answer::Denied);
        }
        let mut effects = Vec::new();
        region.replica.operate(token, operate, &mut effects);
        self.todo.extend(effects.into_iter().map(|it| Todo::Replica(identity, it)));
    }

    fn answer(&mut self, token: u64, answer: Answer) {
        match self.operations.remove(&token) {
            Some(Asked::Node(ask)) => self.replies.reply(ask, Vec::new(), answer.encode()),
            Some(Asked::Client(identity, number)) => self.answered(identity, number, Ok(answer)),
            None => {}
        }
    }
}

/// Whether a user may do something with a region, by its record.
fn may(placement: &Placement, user: u32, action: &Action) -> bool {
    let wanted = match action {
        Action::Read { .. } => Rights::READ,
        Action::Write { .. } | Action::Set { .. } => Rights::WRITE,
        Action::Copy { .. } => Rights::READ.and(Rights::WRITE),
        _ => Rights::ATOMIC,
    };
    may_have(placement, user, wanted)
}

/// Whether a user has these rights on a region, by its record.
pub(crate) fn may_have(placement: &Placement, user: u32, wanted: Rights) -> bool {
    placement.rights_of(user) & wanted.bits() == wanted.bits()
}
