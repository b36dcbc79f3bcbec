//! The nodes and links of a simulated network, and what is due when.
//!
//! ```text
//! send -> queue of the end --leaves: Sent--> wire --arrives--> inbox of the other node
//!                      \--end: Unsent            \--cut: held up until it is healed
//! ```
//!
//! A link is two ends. The wire belongs to the end that reads from it, and is a queue, so that the
//! order is kept whatever the delays.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::random::Random;
use super::Weather;
use crate::transport::{EndCause, LinkEvent, LinkId, Message, NotTaken, SendToken};

/// One end of a link, in the whole world.
type EndNumber = u64;

/// Everything.
#[derive(Debug)]
pub struct World {
    pub(super) weather: Weather,
    random: Random,
    now_ns: u64,
    /// What is due, by time and then by the order in which it was planned.
    plan: BTreeMap<(u64, u64), Step>,
    planned: u64,
    nodes: BTreeMap<u32, Place>,
    ends: BTreeMap<EndNumber, End>,
    cuts: BTreeSet<(u32, u32)>,
    /// Steps between nodes that are cut from each other, in the order in which they were due.
    held_up: Vec<Step>,
    lives: u64,
}

/// One node.
#[derive(Debug)]
struct Place {
    life: u64,
    links: BTreeMap<LinkId, EndNumber>,
    links_made: u64,
    inbox: VecDeque<LinkEvent>,
}

/// One end of a link.
#[derive(Debug)]
struct End {
    node: u32,
    other_node: u32,
    link: LinkId,
    other: EndNumber,
    /// What waits to leave here.
    queue: VecDeque<(SendToken, Message)>,
    /// What comes to here.
    wire: VecDeque<Item>,
    /// Whether the wire takes more; not after a break.
    is_sound: bool,
}

#[derive(Debug)]
enum Item {
    Opened,
    Message(Message),
    Ended(EndCause),
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The first message of the queue of this end leaves.
    Leave(EndNumber),
    /// The first item on the wire to this end arrives.
    Arrive(EndNumber),
    /// This end can be sent on.
    Open(EndNumber),
    /// This end learns that the link is over.
    Learn(EndNumber, EndCause),
}

const BROKEN: EndCause = EndCause::Broken { code: 104 };
const REFUSED: EndCause = EndCause::Unreachable { code: 111 };

impl World {
    pub fn new(random: Random, weather: Weather) -> World {
        World {
            weather,
            random,
            now_ns: 0,
            plan: BTreeMap::new(),
            planned: 0,
            nodes: BTreeMap::new(),
            ends: BTreeMap::new(),
            cuts: BTreeSet::new(),
            held_up: Vec::new(),
            lives: 0,
        }
    }

    pub fn start(&mut self, number: u32) -> u64 {
        self.lives += 1;
        let place = Place {
            life: self.lives,
            links: BTreeMap::new(),
            links_made: 0,
            inbox: VecDeque::new(),
        };
        self.nodes.insert(number, place);
        self.lives
    }

    pub fn crash(&mut self, number: u32) {
        let Some(place) = self.nodes.remove(&number) else { return };
        for end in place.links.into_values() {
            let Some(gone) = self.ends.remove(&end) else { continue };
            self.lose_tail(gone.other);
            self.push_item(gone.other, Item::Ended(BROKEN));
        }
    }

    pub fn cut(&mut self, one: u32, other: u32) {
        self.cuts.insert(pair(one, other));
    }

    pub fn heal(&mut self, one: u32, other: u32) {
        self.cuts.remove(&pair(one, other));
        for step in std::mem::take(&mut self.held_up) {
            // What is still cut is held up again when it is due.
            self.plan_step(step);
        }
    }

    pub fn break_between(&mut self, one: u32, other: u32) {
        let found = self.ends.iter().find(|(_, end)| end.node == one && end.other_node == other);
        if let Some(number) = found.map(|(number, _)| *number) {
            self.break_at(number);
        }
    }

    pub fn connect(&mut self, node: u32, life: u64, other_node: u32) -> Option<LinkId> {
        self.place(node, life)?;
        let near = self.planned;
        let far = near + 1;
        self.planned += 2;
        let link = self.add_end(node, other_node, near, far);
        if self.nodes.contains_key(&other_node) {
            let far_link = self.add_end(other_node, node, far, near);
            debug_assert!(far_link.0 > 0);
            self.push_item(far, Item::Opened);
            self.plan_step(Step::Open(near));
        } else {
            self.plan_step(Step::Learn(near, REFUSED));
        }
        Some(link)
    }

    pub fn send(
        &mut self,
        node: u32,
        life: u64,
        link: LinkId,
        message: Message,
        token: SendToken,
    ) -> Result<(), (NotTaken, Message)> {
        let end = self.place(node, life).and_then(|place| place.links.get(&link).copied());
        let Some(number) = end else { return Err((NotTaken::NoLink, message)) };
        if self.random.happens(self.weather.full_one_in) {
            return Err((NotTaken::Full, message));
        }
        let Some(end) = self.ends.get_mut(&number) else { return Err((NotTaken::NoLink, message)) };
        end.queue.push_back((token, message));
        self.plan_step(Step::Leave(number));
        Ok(())
    }

    pub fn close(&mut self, node: u32, life: u64, link: LinkId, lingers: bool) {
        let Some(place) = self.place(node, life) else { return };
        let Some(number) = place.links.remove(&link) else { return };
        place.inbox.retain(|event| event.link() != link);
        let Some(end) = self.ends.remove(&number) else { return };
        if lingers {
            end.queue
                .into_iter()
                .for_each(|(_, message)| self.push_item(end.other, Item::Message(message)));
        }
        self.push_item(end.other, Item::Ended(EndCause::Closed));
    }

    pub fn inbox(&mut self, node: u32, life: u64) -> Option<&mut VecDeque<LinkEvent>> {
        self.place(node, life).map(|place| &mut place.inbox)
    }

    pub fn next_ns(&self) -> Option<u64> {
        self.plan.first_key_value().map(|((due_ns, _), _)| *due_ns)
    }

    pub fn advance(&mut self, now_ns: u64) {
        while let Some(entry) = self.plan.first_entry() {
            if entry.key().0 > now_ns {
                break;
            }
            let ((due_ns, _), step) = entry.remove_entry();
            self.now_ns = due_ns;
            self.take(step);
        }
        self.now_ns = now_ns;
    }

    fn take(&mut self, step: Step) {
        let (Step::Leave(number)
        | Step::Arrive(number)
        | Step::Open(number)
        | Step::Learn(number, _)) = step;
        let Some(end) = self.ends.get(&number) else { return };
        let is_cut = self.cuts.contains(&pair(end.node, end.other_node));
        match step {
            Step::Leave(number) => self.leave(number),
            _ if is_cut => self.held_up.push(step),
            Step::Arrive(number) => self.arrive(number),
            Step::Open(number) => {
                self.tell(number, |link| LinkEvent::Opened { link, is_ours: true })
            }
            Step::Learn(number, why) => self.end(number, why),
        }
    }

    fn leave(&mut self, number: EndNumber) {
        let Some(end) = self.ends.get_mut(&number) else { return };
        let other = end.other;
        let Some((token, message)) = end.queue.pop_front() else { return };
        self.tell(number, |link| LinkEvent::Sent { link, token });
        self.push_item(other, Item::Message(message));
        if self.random.happens(self.weather.break_one_in) {
            self.break_at(number);
        }
    }

    fn arrive(&mut self, number: EndNumber) {
        let Some(end) = self.ends.get_mut(&number) else { return };
        match end.wire.pop_front() {
            Some(Item::Opened) => {
                self.tell(number, |link| LinkEvent::Opened { link, is_ours: false })
            }
            Some(Item::Message(message)) => {
                self.tell(number, |link| LinkEvent::Received { link, message });
            }
            Some(Item::Ended(why)) => self.end(number, why),
            None => {}
        }
    }

    /// An end learns that its link is over.
    fn end(&mut self, number: EndNumber, why: EndCause) {
        let Some(end) = self.ends.remove(&number) else { return };
        let Some(place) = self.nodes.get_mut(&end.node) else { return };
        let link = end.link;
        place.links.remove(&link);
        let unsent = end.queue.into_iter().map(|(token, _)| LinkEvent::Unsent { link, token });
        place.inbox.extend(unsent);
        place.inbox.push_back(LinkEvent::Ended { link, why });
    }

    /// Both ends lose what is on the way from some message on, and learn of it each in its time.
    fn break_at(&mut self, number: EndNumber) {
        let Some(other) = self.ends.get(&number).map(|end| end.other) else { return };
        for end in [number, other] {
            self.lose_tail(end);
            self.plan_step(Step::Learn(end, BROKEN));
        }
    }

    fn lose_tail(&mut self, number: EndNumber) {
        let Some(end) = self.ends.get_mut(&number) else { return };
        let kept = self.random.between(0, end.wire.len() as u64);
        end.wire.truncate(kept as usize);
        end.is_sound = false;
    }

    fn push_item(&mut self, number: EndNumber, item: Item) {
        let Some(end) = self.ends.get_mut(&number) else { return };
        if end.is_sound || matches!(item, Item::Ended(_)) {
            end.wire.push_back(item);
            self.plan_step(Step::Arrive(number));
        }
    }

    fn plan_step(&mut self, step: Step) {
        let delay_ns = self.random.between(self.weather.delay_ns_min, self.weather.delay_ns_max);
        let times = if self.random.happens(64) { 20 } else { 1 };
        self.planned += 1;
        self.plan.insert((self.now_ns + delay_ns * times, self.planned), step);
    }

    fn add_end(
        &mut self,
        node: u32,
        other_node: u32,
        number: EndNumber,
        other: EndNumber,
    ) -> LinkId {
        let Some(place) = self.nodes.get_mut(&node) else { return LinkId(0) };
        place.links_made += 1;
        let link = LinkId(place.links_made);
        place.links.insert(link, number);
        let (queue, wire) = (VecDeque::new(), VecDeque::new());
        let end = End { node, other_node, link, other, queue, wire, is_sound: true };
        self.ends.insert(number, end);
        link
    }

    fn tell(&mut self, number: EndNumber, event: impl FnOnce(LinkId) -> LinkEvent) {
        let Some(end) = self.ends.get(&number) else { return };
        if let Some(place) = self.nodes.get_mut(&end.node) {
            place.inbox.push_back(event(end.link));
        }
    }

    fn place(&mut self, node: u32, life: u64) -> Option<&mut Place> {
        self.nodes.get_mut(&node).filter(|place| place.life == life)
    }
}

fn pair(one: u32, other: u32) -> (u32, u32) {
    (one.min(other), one.max(other))
}
