//! Slots: a channel whose every word the peer writes, between the steps of both sides.
//!
//! ```text
//! input = [slots u8][ring u8][mark u8][cut u8] and records of 11 bytes: [what u8][a u16][word u64]
//! what  = 0 slot header word   1 offers   2 address bytes      (the peer writes)
//!         3 a session's word in the node page                  (the control plane writes)
//!         4 take a slot   5 hold a slot by number   6 a step of a taken slot   7 of a held one
//!         8 bytes through the lanes of one or the other
//! ```
//! All is done by one thread, so each step must do exactly what the state word, as it lies there,
//! allows; nothing but its own slot and the offers may change.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, OnceLock};

use heliostat_abi::name::ObjectId;
use heliostat_abi::session::node;
use heliostat_abi::session::record::ChannelEntry;
use heliostat_abi::stream::channel::{self as layout, slot as at};
use heliostat_abi::VERSION;
use heliostat_base::mapping::SharedMapping;
use heliostat_client::NodePage;
use heliostat_stub_posix::net::channel::{Channel, Side};

use super::slot_acts::{self, TakenSlot};
use super::step::{steps, Step};

/// Kinds of steps.
const KINDS: u8 = 9;
/// Sessions whose words inputs change.
const SESSIONS: u32 = 4;
const HELD_MAX: usize = 64;
/// Files are not made longer than this, whatever shape an input names.
const FILE_BYTES_MAX: usize = 4 << 20;
const ADDRESS_BYTES: usize = 52;

/// The node page of all inputs, writable here as it is for the control plane.
fn node_page() -> &'static (SharedMapping, Arc<NodePage>) {
    static PAGE: OnceLock<(SharedMapping, Arc<NodePage>)> = OnceLock::new();
    PAGE.get_or_init(|| {
        let (fd, page) = SharedMapping::create(c"node", node::BYTES).expect("memory");
        page.atomic_u32(0).store(node::MAGIC, SeqCst);
        page.atomic_u32(4).store(u32::from(VERSION), SeqCst);
        (page, Arc::new(NodePage::map(&fd).expect("a node page")))
    })
}

pub fn exercise(input: &[u8]) {
    let Some((shape, script)) = input.split_at_checked(4) else { return };
    let Some(mut player) = Player::new([shape[0], shape[1], shape[2], shape[3]]) else { return };
    steps(script, KINDS).for_each(|step| player.step(step));
}

pub struct Player {
    pub channel: Arc<Channel>,
    pub memory: SharedMapping,
    /// Slots that this process has out, as `take_slot` counts them.
    given: u64,
    taken: Vec<TakenSlot>,
    held: Vec<TakenSlot>,
}

impl Player {
    /// Maps a channel of the shape that the input names, which must do exactly if it is one.
    fn new([slots, ring, mark, cut]: [u8; 4]) -> Option<Self> {
        let ring_bytes = if ring < 32 { 1 << ring } else { u32::from(ring) * 1024 };
        let id = |index| ObjectId { index, generation: 1 };
        let (slots, peer_uid) = (u32::from(slots), 0);
        let entry = ChannelEntry { id: id(0), client: id(1), peer_uid, slots, ring_bytes };
        let is_shape = layout::shape_is_valid(slots, ring_bytes);
        let wanted = if is_shape { layout::bytes(slots, ring_bytes) } else { layout::DATA };
        let length = wanted.min(FILE_BYTES_MAX) - usize::from(cut);
        let (fd, memory) = SharedMapping::create(c"slots", length).ok()?;
        memory.atomic_u32(0).store(layout::MAGIC ^ u32::from(mark), SeqCst);
        memory.atomic_u32(4).store(layout::VERSION, SeqCst);
        let (page, node) = node_page();
        (0..SESSIONS).for_each(|index| page.atomic_u32(node::session_word(index)).store(0, SeqCst));
        let channel = Channel::map(entry, &fd, node);
        assert_eq!(channel.is_some(), is_shape && length == wanted && mark == 0, "{entry:?}");
        Some(Self { channel: channel?, memory, given: 0, taken: vec![], held: vec![] })
    }

    fn step(&mut self, step: Step) {
        match step.what {
            0..=3 => self.strike(step),
            4 => self.take(),
            5 => self.hold(u32::from(step.a) % 80),
            6 => self.act_as(Side::Client, step),
            7 => self.act_as(Side::Server, step),
            _ => self.move_bytes(step),
        }
    }

    pub fn slots(&self) -> u32 {
        self.channel.entry.slots
    }

    pub fn load(&self, slot: u32, offset: usize) -> u32 {
        self.memory.atomic_u32(layout::slot_offset(slot) + offset).load(SeqCst)
    }

    fn strike(&self, step: Step) {
        let header = layout::slot_offset(u32::from(step.a) % self.slots());
        match step.what {
            0 => {
                let word = (step.word >> 32) as usize % (layout::SLOT_STRIDE / 4);
                self.memory.atomic_u32(header + word * 4).store(step.word as u32, SeqCst);
            }
            1 => self.memory.atomic_u64(layout::OFFERS).store(step.word, SeqCst),
            2 => {
                let at = header + at::FAMILY + (step.word >> 32) as usize % ADDRESS_BYTES;
                self.memory.copy_in(at, &[step.word as u8]).expect("inside");
            }
            _ => {
                let word = node::session_word(u32::from(step.a) % SESSIONS);
                node_page().0.atomic_u32(word).store(step.word as u32 & 15, SeqCst);
            }
        }
    }

    /// Takes a slot: one that is nobody's, or whose client end is closed as far as the word says.
    fn take(&mut self) {
        let before = self.headers();
        let closed: Vec<u32> = (0..self.slots()).map(|slot| self.load(slot, at::CLOSED)).collect();
        let Some(slot) = self.channel.take_slot() else {
            assert_eq!(self.given, u64::MAX >> (64 - self.slots()), "a free slot is not given out");
            return assert!(closed.iter().all(|word| word & 3 != 3), "nor is one that both left");
        };
        let state = |slot: &u32| layout::slot_offset(*slot) + at::STATE;
        let is_new = |slot: &u32| {
            self.memory.atomic_u32(state(slot)).load(SeqCst).to_le_bytes()
                != before[state(slot)..state(slot) + 4]
        };
        let index = (0..self.slots()).find(is_new).expect("one slot has a new generation");
        let left = closed[index as usize] & at::CLOSED_CLIENT != 0;
        assert!(self.given & 1 << index == 0 || left, "slot {index} is given out twice");
        self.given |= 1 << index;
        let header = layout::slot_offset(index);
        self.check_unchanged(&before, header, header + layout::SLOT_STRIDE);
        let held = TakenSlot { slot, index, generation: self.load(index, at::STATE) >> 8 };
        slot_acts::check_fresh(self, &held);
        if self.taken.len() < HELD_MAX {
            self.taken.push(held);
        }
    }

    fn hold(&mut self, index: u32) {
        let slot = self.channel.slot(index);
        assert_eq!(slot.is_some(), index < self.slots(), "slot {index}");
        let Some(slot) = slot.filter(|_| self.held.len() < HELD_MAX) else { return };
        self.held.push(TakenSlot { slot, index, generation: self.load(index, at::STATE) >> 8 });
    }

    fn pick(&self, side: Side, step: Step) -> Option<TakenSlot> {
        let all = if side == Side::Client { &self.taken } else { &self.held };
        (!all.is_empty()).then(|| all[usize::from(step.a) % all.len()].clone())
    }

    /// One step of a side; it may write the head of its own slot's header and the offers.
    fn act_as(&mut self, side: Side, step: Step) {
        let Some(held) = self.pick(side, step) else { return };
        let before = self.headers();
        let is_given_back = slot_acts::act(self, &held, side, step.word);
        let header = layout::slot_offset(held.index);
        self.check_unchanged(&before, header, header + at::DIRECTION[0]);
        let known = u64::MAX >> (64 - self.slots());
        assert_eq!(self.channel.offers() & !known, 0, "offers of slots that are not there");
        if is_given_back {
            self.given &= !(1 << held.index);
            self.taken.retain(|other| other.index != held.index);
        }
    }

    fn move_bytes(&mut self, step: Step) {
        let side = if step.word & 1 == 0 { Side::Client } else { Side::Server };
        let Some(held) = self.pick(side, step) else { return };
        let before = self.headers();
        slot_acts::move_bytes(self, &held, side, (step.word >> 1) as u16);
        let header = layout::slot_offset(held.index);
        let lanes = header + at::DIRECTION[0]..header + layout::SLOT_STRIDE;
        self.check_unchanged(&before, lanes.start, lanes.end);
    }

    /// The channel's header and those of all slots.
    fn headers(&self) -> Vec<u8> {
        let mut bytes = vec![0; layout::slot_offset(self.slots())];
        self.memory.copy_out(0, &mut bytes).expect("inside");
        bytes
    }

    /// No byte has changed but in `[from, to)` and in the offers.
    fn check_unchanged(&self, before: &[u8], from: usize, to: usize) {
        let mut now = self.headers();
        for range in [from..to, layout::OFFERS..layout::OFFERS + 8] {
            now[range.clone()].copy_from_slice(&before[range]);
        }
        let changed = now.iter().zip(before).position(|(now, before)| now != before);
        assert_eq!(changed, None, "a byte outside {from}..{to} was written");
    }
}
