//! A store that is open: its areas, where they lie, and how fast each may be used.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use heliostat_abi::name::ObjectId;
use heliostat_abi::store::{AreaKind, AreaName, AreaRights, Piece, StoreInfo, StoreState};
use heliostat_backend_block::SharedFile;
use heliostat_service_grant::{Holder, Meter, Rate};
use heliostat_service_store::{AreaView, Areas, Key, Limits, Stored};
use heliostat_storefile::Kind;
use tracing::warn;

use crate::recovery::Recovering;

use super::distrust::DISTRUSTED;
use super::thread::{Facts, Found, FoundArea, Numbers};

/// What loops know of an area.
#[derive(Clone, Debug)]
pub struct Told {
    /// Its size.
    pub bytes: u64,
    /// Where it lies.
    pub pieces: Arc<[Piece]>,
    /// How fast it may be used.
    pub meter: Meter,
}

/// A store that is open.
pub struct OpenStore {
    /// Where it lies, for people.
    pub place: String,
    /// What does not change of it.
    pub facts: Facts,
    /// What does.
    pub numbers: Numbers,
    /// The device, for loops and for who is trusted with it.
    pub file: SharedFile,
    /// Who has which area.
    pub areas: Areas,
    /// Why the device has failed, if it has.
    pub failed: Option<String>,
    /// Areas whose logs are put into their files: nobody else writes them meanwhile.
    pub recovering: Recovering,
    /// Areas that are written down as distrusted, by generation.
    pub distrusted: HashSet<u64>,
    /// Logs that a program writes which is older than this control plane, by generation.
    pub claimed: HashSet<u64>,
    /// Areas that loops know.
    pub known: HashSet<ObjectId>,
    /// Loops that have something under way behind the new end of an area.
    pub unquiet: HashMap<ObjectId, usize>,
    pieces: HashMap<u64, Arc<[Piece]>>,
    meters: HashMap<ObjectId, Meter>,
}

impl OpenStore {
    /// A store that was just opened; `holder` says whose share a user's areas count against.
    pub fn new(
        place: String,
        found: Found,
        limits: Limits,
        holder: impl Fn(u32) -> Holder,
    ) -> OpenStore {
        let Found { facts, numbers, file, areas } = found;
        let pieces = areas.iter().map(|it| (it.area.generation, it.pieces.clone())).collect();
        let distrusted = areas.iter().filter(|it| it.area.rights & DISTRUSTED != 0);
        let distrusted = distrusted.map(|it| it.area.generation).collect();
        let claimed = areas.iter().filter(|it| is_claimed(&file, it));
        let claimed = claimed.map(|it| it.area.generation).collect();
        let stored = areas.iter().filter_map(|area| stored(area, &holder)).collect();
        OpenStore {
            place,
            facts,
            numbers,
            file,
            areas: Areas::new(limits, stored),
            failed: None,
            recovering: Recovering::default(),
            distrusted,
            claimed,
            known: HashSet::new(),
            unquiet: HashMap::new(),
            pieces,
            meters: HashMap::new(),
        }
    }

    /// The area of a name, if there is one.
    pub fn known_of(&self, key: &Key) -> Option<AreaView> {
        self.areas.resolve(key).and_then(|area| self.areas.view(area))
    }

    /// Where an area lies.
    pub fn pieces(&self, generation: u64) -> Arc<[Piece]> {
        self.pieces.get(&generation).cloned().unwrap_or_else(|| Arc::from([]))
    }

    /// An area lies elsewhere now, or nowhere.
    pub fn moved(&mut self, generation: u64, pieces: Arc<[Piece]>) {
        match pieces.is_empty() {
            true => self.pieces.remove(&generation),
            false => self.pieces.insert(generation, pieces),
        };
    }

    /// What a loop has to know of an area.
    pub fn told(&mut self, area: ObjectId) -> Option<Told> {
        let view = self.areas.view(area)?;
        let meter = self.meters.entry(area).or_insert_with(|| Meter::new(0, view.rate.per_second));
        let meter = meter.clone();
        Some(Told { bytes: view.bytes, pieces: self.pieces(view.generation), meter })
    }

    /// An area has another rate.
    pub fn set_meter(&mut self, area: ObjectId, rate: Rate) -> Meter {
        let meter = Meter::new(0, rate.per_second);
        self.meters.insert(area, meter.clone());
        meter
    }

    /// Nobody has anything of an area any more; whether loops knew it.
    pub fn forget(&mut self, area: ObjectId) -> bool {
        self.meters.remove(&area);
        self.unquiet.remove(&area);
        self.known.remove(&area)
    }

    /// Whether a program has bytes of an area directly, from the offset on. The device's locks say so,
    /// also of programs that have closed their handle or are of an earlier control plane.
    pub fn is_granted(&self, generation: u64, from: u64) -> bool {
        let (mut at, mut ranges) = (0, Vec::new());
        for piece in self.pieces(generation).iter() {
            let skip = from.saturating_sub(at).min(piece.bytes);
            if skip < piece.bytes {
                ranges.push((piece.offset + skip, piece.bytes - skip));
            }
            at += piece.bytes;
        }
        // Where the kernel does not tell nobody's bytes are taken.
        self.file.is_granted(&ranges).unwrap_or_else(|error| {
            warn!(%error, "who has bytes of the store directly is not known");
            true
        })
    }

    /// Whether a program has an area alone, directly, of which no session here knows: it is older than this
    /// control plane.
    pub fn has_stranger_alone(&self, generation: u64) -> bool {
        let Some(first) = self.pieces(generation).first().copied() else { return false };
        // Where the kernel does not tell nobody is let in.
        self.file.is_granted_alone(first.offset).unwrap_or(true)
    }

    /// Whether a program that is older than this control plane writes the log in an area, and so is the only
    /// one. What its session had asked for has ended with the control plane before; its claim has not.
    pub fn has_stranger_writer(&mut self, generation: u64) -> bool {
        let Some(first) = self.pieces(generation).first().copied() else { return false };
        let is_left = self.claimed.contains(&generation)
            // Where the kernel does not tell nobody is let in.
            && self.file.is_claimed(first.offset).unwrap_or(true);
        if !is_left {
            self.claimed.remove(&generation);
        }
        is_left
    }

    /// What people are told of it.
    pub fn info(&self, direct_max: usize) -> StoreInfo {
        let Facts { identity, bytes, data_bytes, areas_max, grain_bytes, .. } = self.facts;
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        StoreInfo {
            state: if self.failed.is_some() { StoreState::Failed } else { StoreState::Open },
            durable_by: self.facts.durable_by,
            identity,
            bytes,
            data_bytes,
            free_bytes: self.numbers.free_bytes,
            zeroing_bytes: self.numbers.zeroing_bytes,
            sequence: self.numbers.sequence,
            areas: number(self.areas.count()),
            areas_max,
            grain_bytes,
            sector_bytes: self.facts.sector_bytes,
            memory_alignment: self.facts.memory_alignment,
            direct: number(self.areas.handle_count().1),
            direct_max: number(direct_max),
            is_past_cache: self.facts.is_past_cache,
            is_forced: self.facts.is_forced,
            does_discard: self.numbers.does_discard,
            discarded_bytes: self.numbers.discarded_bytes,
            text: self.place.clone(),
        }
    }
}

/// Whether a program has a claim on a log that was found: nobody could ask this control plane for it yet.
fn is_claimed(file: &SharedFile, found: &FoundArea) -> bool {
    let first = found.pieces.first().filter(|_| found.area.kind != Kind::Raw);
    // Where the kernel does not tell it is asked again.
    first.is_some_and(|first| file.is_claimed(first.offset).unwrap_or(true))
}

/// An area as the service knows it. One whose name or rights no request could have is another
/// program's: it stays in the store, and nobody here sees it.
fn stored(found: &FoundArea, holder: impl Fn(u32) -> Holder) -> Option<Stored> {
    let area = &found.area;
    let name = AreaName::parse(area.name.as_str());
    let others = AreaRights::from_bits(area.rights & !DISTRUSTED);
    let (Ok(name), Some(others)) = (name, others) else {
        warn!(name = %area.name, generation = area.generation, "an area that is not ours is hidden");
        return None;
    };
    let kind = match area.kind {
        Kind::Raw => AreaKind::Raw,
        Kind::Log => AreaKind::Log,
        Kind::Queue => AreaKind::Queue,
    };
    let (key, holder) = (Key { uid: area.owner, name }, holder(area.owner));
    Some(Stored { generation: area.generation, holder, key, bytes: area.bytes, kind, others })
}
