//! What machines say is to be done, done in the world: messages that may be lost, and answers.

use heliostat_service_replica::{
    Answer, Answered, Append, ClientEffect, Effect, Failed, Member, Operate, Outcome, Received,
    RequestId, Unanswered,
};
use heliostat_verify_linearizability::model::WordOperation;

use super::{Broken, Event, Tag, Waiting, World, MS};

impl World {
    pub(super) fn carry_out(&mut self, at: usize, effects: Vec<Effect>) {
        let me = self.nodes[at].me;
        for effect in effects {
            match effect {
                Effect::Append { to, tag, append } => self.send_append(me, to, tag, append),
                Effect::Answer { token, answer } => self.answer(me, token, answer),
                Effect::Propose { attempt, expected, placement } => match self.registry_delay() {
                    Some(delay) => {
                        self.at(delay, Event::Propose(me, (attempt, expected), placement));
                    }
                    None => self.at(20 * MS, Event::Proposed(me, attempt, Outcome::Unknown)),
                },
                Effect::Look(look) => self.at(1, Event::Look(me, Some(look))),
                Effect::Forget { to, epoch } => {
                    if let Some(delay) = self.delay(me, to) {
                        self.at(delay, Event::Forget(to, epoch));
                    }
                }
                Effect::Ended => self.nodes[at].replica = None,
                Effect::Made(..) | Effect::Freed(..) | Effect::Altered(..) => {}
            }
        }
    }

    fn send_append(&mut self, me: Member, to: Member, tag: Tag, append: Box<Append>) {
        let message = (self.stamp(), tag);
        if self.broken == Some(Broken::AnswersEarly) {
            // Taken for confirmed although it is on its way.
            let end = append.first + append.entries.len() as u64 - 1;
            let have = Received::Have { entry: end, instance: 0, is_confirmed: true };
            let early = (self.stamp(), tag);
            self.at(0, Event::Received(me, to, early, have));
        }
        self.at(40 * MS, Event::AppendLate(me, to, message));
        if let Some(delay) = self.delay(me, to) {
            self.at(delay, Event::Append(to, me, message, append));
        }
    }

    fn answer(&mut self, me: Member, message: u64, answer: Answer) {
        let Some((from, number)) = self.asked.remove(&message) else { return };
        if let Some(delay) = self.delay(me, from) {
            self.at(delay, Event::Answered(from, number, message, answer));
        }
    }

    pub(super) fn come_back(
        &mut self,
        to: Member,
        number: u64,
        message: u64,
        answer: Result<Answer, Unanswered>,
    ) {
        if !self.over.insert(message) {
            return;
        }
        let mut effects = Vec::new();
        if let Some(node) = self.living(to) {
            node.client.answered(number, answer, &mut effects);
        }
        self.carry_out_client(to.node as usize, effects);
    }

    pub(super) fn carry_out_client(&mut self, at: usize, effects: Vec<ClientEffect>) {
        let me = self.nodes[at].me;
        for effect in effects {
            match effect {
                ClientEffect::Send { to, operate } => self.send_operate(me, to, operate),
                ClientEffect::Look => self.at(1, Event::Look(me, None)),
                ClientEffect::Done { token, result } => {
                    self.done(token, result);
                }
            }
        }
    }

    fn send_operate(&mut self, me: Member, to: Member, mut operate: Box<Operate>) {
        let (message, number) = (self.stamp(), operate.id.number);
        if self.broken == Some(Broken::NewIdentities) {
            operate.id = RequestId { asker: Member { node: 1000 + message, life: 1 }, number };
        }
        if !self.is_joined(me, to) {
            let mut effects = Vec::new();
            let client = &mut self.nodes[super::at_of(me)].client;
            client.answered(number, Err(Unanswered::NotSent), &mut effects);
            return self.carry_out_client(super::at_of(me), effects);
        }
        self.at(80 * MS, Event::OperateLate(me, number, message));
        if let Some(delay) = self.delay(me, to) {
            self.at(delay, Event::Operate(to, me, message, operate));
        }
    }

    pub(super) fn done(&mut self, token: u64, result: Result<Answered, Failed>) {
        let Some(Waiting { call, process }) = self.open.remove(&token) else { return };
        let mut is_free = true;
        match result {
            Ok(answered) => {
                let value = match self.calls[call].operation.operation {
                    WordOperation::Read => {
                        u64::from_le_bytes(answered.read.try_into().expect("a word"))
                    }
                    _ => answered.word,
                };
                self.calls[call].responded = Some((self.stamp(), value));
            }
            Err(Failed::NotDone) => drop(self.removed.insert(call)),
            Err(Failed::Unknown) => is_free = false,
            Err(other) => panic!("{other:?}"),
        }
        self.busy.remove(&process);
        // Nobody knows when such a call ends: it is somebody else who goes on.
        let next = if is_free { process } else { self.next_process };
        self.next_process += u64::from(!is_free);
        self.busy.insert(next, None);
    }
}
