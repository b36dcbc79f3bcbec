//! What happens in the world: messages come, answers, time.

use std::collections::BTreeSet;

use heliostat_service_replica::{
    Answer, Append, Effect, Member, Operate, Outcome, Placement, Received, Record, Replica,
    Unanswered,
};

use super::{Event, World, MS, RECENT};

impl World {
    pub(super) fn happen(&mut self, event: Event) {
        let mut effects = Vec::new();
        match event {
            Event::Tick => self.tick(),
            Event::Append(to, from, message, append) => {
                let Some(received) = self.take_append(to, from, *append, &mut effects) else {
                    return;
                };
                self.carry_out(to.node as usize, effects);
                if let Some(delay) = self.delay(to, from) {
                    self.at(delay, Event::Received(from, to, message, received));
                }
            }
            Event::Received(to, from, (message, tag), received) => {
                if self.over.insert(message) {
                    if let Some(replica) = self.living(to).and_then(|it| it.replica.as_mut()) {
                        replica.received(from, tag, received, &mut effects);
                    }
                    self.carry_out(to.node as usize, effects);
                }
            }
            Event::AppendLate(to, from, (message, tag)) => {
                if self.over.insert(message) {
                    if let Some(replica) = self.living(to).and_then(|it| it.replica.as_mut()) {
                        replica.not_received(from, tag);
                    }
                }
            }
            Event::Operate(to, from, message, operate) => {
                self.take_operate(to, from, message, *operate);
            }
            Event::Answered(to, number, message, answer) => {
                self.come_back(to, number, message, Ok(answer));
            }
            Event::OperateLate(to, number, message) => {
                self.come_back(to, number, message, Err(Unanswered::Unknown));
            }
            Event::Forget(to, epoch) => {
                if let Some(replica) = self.living(to).and_then(|it| it.replica.as_mut()) {
                    replica.forget(epoch, &mut effects);
                }
                self.carry_out(to.node as usize, effects);
            }
            Event::Propose(who, ask, placement) => self.decide(who, ask, placement.map(|it| *it)),
            Event::Proposed(who, attempt, outcome) => {
                if let Some(replica) = self.living(who).and_then(|it| it.replica.as_mut()) {
                    replica.proposed(attempt, outcome, &mut effects);
                }
                self.carry_out(who.node as usize, effects);
            }
            Event::Look(who, look) => {
                // The answer is read when it comes: later than it could have been, never earlier.
                let delay = 1 + self.random.below(4 * MS);
                self.at(delay, Event::Looked(who, look));
            }
            Event::Looked(who, look) => self.looked(who, look),
        }
    }

    fn take_operate(&mut self, to: Member, from: Member, message: u64, operate: Operate) {
        let (number, mut effects) = (operate.id.number, Vec::new());
        let Some(node) = self.living(to) else { return };
        let answer = Answer::NotPrimary { may_be_done: false };
        match node.replica.as_mut() {
            Some(replica) => replica.operate(message, operate, &mut effects),
            None => effects.push(Effect::Answer { token: message, answer }),
        }
        self.asked.insert(message, (from, number));
        self.carry_out(to.node as usize, effects);
    }

    /// The registry takes a proposal; whoever made it may not hear of that.
    fn decide(&mut self, who: Member, (attempt, expected): (u64, u64), next: Option<Placement>) {
        let outcome = match self.record.revision == expected {
            true => {
                let revision = self.record.revision + 1;
                self.record = Record { revision, placement: next };
                Outcome::Accepted(revision)
            }
            false => Outcome::Conflict,
        };
        let (outcome, delay) = match self.registry_delay() {
            Some(delay) => (outcome, delay),
            None => (Outcome::Unknown, 20 * MS),
        };
        self.at(delay, Event::Proposed(who, attempt, outcome));
    }

    fn looked(&mut self, who: Member, look: Option<u64>) {
        let (record, is_lost) = (self.record.clone(), !self.is_calm && self.random.one_in(10));
        let Some(node) = self.living(who) else { return };
        let (mut effects, mut of_client) = (Vec::new(), Vec::new());
        match (look, node.replica.as_mut()) {
            (None, _) => {
                let found = if is_lost { Err(()) } else { Ok(record.placement) };
                node.client.looked(found, &mut of_client);
            }
            (Some(look), Some(replica)) if is_lost => replica.not_looked(look),
            (Some(look), Some(replica)) => replica.looked(look, record, &mut effects),
            (Some(_), None) => {}
        }
        self.carry_out(who.node as usize, effects);
        self.carry_out_client(who.node as usize, of_client);
    }

    fn take_append(
        &mut self,
        to: Member,
        from: Member,
        append: Append,
        effects: &mut Vec<Effect>,
    ) -> Option<Received> {
        let instance = self.stamp();
        let node = self.living(to)?;
        if let Some(replica) = node.replica.as_mut() {
            let received = replica.append(from, append.clone(), effects);
            if !replica.is_ended() {
                return Some(received);
            }
            node.replica = None;
            effects.retain(|it| *it != Effect::Ended);
        }
        node.replica = Replica::invited(to, &append, (RECENT, instance));
        let Some(replica) = node.replica.as_mut() else { return Some(Received::Unknown) };
        Some(replica.append(from, append, effects))
    }

    fn tick(&mut self) {
        for at in (0..self.nodes.len()).filter(|it| self.nodes[*it].is_alive).collect::<Vec<_>>() {
            let me = self.nodes[at].me;
            let joined: BTreeSet<Member> =
                self.nodes.iter().map(|it| it.me).filter(|it| self.is_joined(me, *it)).collect();
            let (mut effects, mut of_client, now) = (Vec::new(), Vec::new(), self.now);
            let node = &mut self.nodes[at];
            node.client.tick(now, &mut of_client);
            if let Some(replica) = &mut node.replica {
                replica.tick((now, 500 * MS), |it| joined.contains(&it), &mut effects);
                joined.iter().for_each(|it| replica.invite(*it, &mut effects));
            }
            self.carry_out(at, effects);
            self.carry_out_client(at, of_client);
        }
        self.at(10 * MS, Event::Tick);
    }
}
