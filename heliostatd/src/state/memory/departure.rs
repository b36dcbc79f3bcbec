//! A region on its way to another node: how far that is, and its next bytes.

use std::sync::Arc;

use heliostat_abi::memory::peer::{PeerAction, PeerHandle, PeerOperation, Range, CHUNK_BYTES_MAX};
use heliostat_abi::memory::{Granted, Rights};
use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::OutOfRange;
use heliostat_server_loop::Area;
use heliostat_server_node::PeerNode;
use heliostat_service_memory::Remote;

/// Messages with bytes of one region that are on the way at once.
const UNDER_WAY_MAX: usize = 8;
/// Bytes that are looked at in one turn of the loop of events: those that are zero are not sent.
const LOOKED_AT_MAX: u64 = 4 << 20;

/// Header and bytes of a message.
pub type WriteMessage = (Vec<u8>, Vec<u8>);

/// What the other node is asked next, or has been.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Nothing: whoever is in the region is waited for.
    Leave,
    /// To stage a region.
    Stage,
    /// To write bytes there.
    Copy,
    /// To appoint users, of whom so many are.
    Appoint(usize),
    /// To adopt it. From here on the other node may have it.
    Adopt,
    /// Nothing, since it cannot be asked: it may have adopted the region, or not.
    Doubt,
    /// Whether it has.
    Ask,
}

/// A region that leaves.
pub struct Departure {
    /// Where it goes.
    pub peer: PeerNode,
    /// Whose it is.
    pub user: u32,
    /// Which it is: messages of one that was given up are on their way still.
    pub serial: u64,
    /// How far that is.
    pub step: Step,
    /// This node's handle there.
    pub there: Option<PeerHandle>,
    /// What it is called there.
    pub region: ObjectId,
    /// Who was appointed to what.
    pub appointed: Vec<(u32, Rights)>,
    /// Bytes that are there.
    pub done: u64,
    /// When it is asked about again, while it is in doubt.
    pub ask_ns: u64,
    /// Until when the region waits for its place there.
    pub stage_until_ns: u64,
    area: Option<Arc<Area>>,
    bytes: u64,
    sent: u64,
    under_way: usize,
}

impl Departure {
    /// One that begins.
    pub fn new(peer: PeerNode, user: u32, serial: u64) -> Departure {
        Departure {
            peer,
            user,
            serial,
            step: Step::Leave,
            there: None,
            region: ObjectId::default(),
            appointed: Vec::new(),
            done: 0,
            ask_ns: 0,
            stage_until_ns: u64::MAX,
            area: None,
            bytes: 0,
            sent: 0,
            under_way: 0,
        }
    }

    /// Its bytes can be copied from here.
    pub fn has_area(&mut self, area: Arc<Area>, bytes: u64) {
        (self.area, self.bytes) = (Some(area), bytes);
    }

    /// The other node has made a place.
    pub fn is_staged(&mut self, session: ObjectId, granted: &Granted) {
        self.there = Some(PeerHandle { session, handle: granted.handle });
        self.region = granted.region;
        self.step = Step::Copy;
    }

    /// Whether what the other node has granted is the region that was staged.
    pub fn is_it(&self, granted: &Granted) -> bool {
        (granted.region, granted.bytes) == (self.region, self.bytes)
    }

    /// Bytes of the region.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The handle there as one that is given back.
    pub fn handle(&self) -> Option<Remote> {
        Some(Remote {
            node: self.peer.node.0,
            link: self.peer.link.0,
            there: self.there?,
            region: self.region,
            rights: Rights::ALL,
            user: self.user,
            is_restricted: false,
            is_lost: false,
        })
    }

    /// Whether the other node has been asked something about it, whose answer is to come.
    pub fn is_asked(&self) -> bool {
        matches!(self.step, Step::Stage | Step::Appoint(_) | Step::Adopt | Step::Ask)
    }

    /// Whether nobody knows here which of both nodes has it.
    pub fn is_in_doubt(&self) -> bool {
        matches!(self.step, Step::Doubt | Step::Ask)
    }

    /// Whether there are bytes to be sent now.
    pub fn can_send(&self) -> bool {
        self.step == Step::Copy && self.under_way < UNDER_WAY_MAX && self.sent < self.bytes
    }

    /// Whether all bytes are there.
    pub fn is_copied(&self) -> bool {
        self.step == Step::Copy && self.done == self.bytes
    }

    /// The next messages: header and bytes of each.
    ///
    /// # Errors
    /// The region does not lie where it should.
    pub fn next(&mut self) -> Result<Vec<WriteMessage>, OutOfRange> {
        let (mut messages, mut left) = (Vec::new(), LOOKED_AT_MAX);
        let (Some(area), Some(handle)) = (self.area.clone(), self.there) else {
            return Ok(messages);
        };
        while self.can_send() && left > 0 {
            let part =
                Range { offset: self.sent, bytes: CHUNK_BYTES_MAX.min(self.bytes - self.sent) };
            let mut bytes = vec![0; part.bytes as usize];
            area.read(part.offset, &mut bytes)?;
            self.sent += part.bytes;
            left = left.saturating_sub(part.bytes);
            if bytes.iter().all(|byte| *byte == 0) {
                // What is given there is zero.
                self.done += part.bytes;
                continue;
            }
            self.under_way += 1;
            let action = PeerAction::Write { part, of: part };
            messages.push((PeerOperation { handle, action }.encode().to_vec(), bytes));
        }
        Ok(messages)
    }

    /// A message was answered: so many bytes more are there.
    pub fn written(&mut self, bytes: u64) {
        self.under_way = self.under_way.saturating_sub(1);
        self.done += bytes;
    }
}
