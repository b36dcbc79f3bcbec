//! What each sector may hold after a crash, as events go by.
//!
//! A sector's *candidates* are the operations whose bytes it may hold, and what was there before. An
//! operation that is begun becomes one. One that is durable removes those that it has overwritten for
//! certain: what had completed before it was begun. Operations that were under way together stay
//! candidates beside each other, since a device does them in any order.

use std::collections::BTreeMap;

use super::{Effect, Event};
use crate::{Geometry, Image};

/// The operation whose bytes a sector holds; `None` is what was there before all of them.
pub(super) type Source = Option<usize>;

#[derive(Debug)]
struct Operation {
    effect: Effect,
    begun: usize,
    completed: Option<usize>,
    is_well: bool,
    is_durable: bool,
}

/// The candidates of every sector that was ever written.
#[derive(Debug)]
pub(super) struct Sectors {
    sector_bytes: u64,
    operations: Vec<Operation>,
    /// Only where there are several: a single one is in the image.
    candidates: BTreeMap<u64, Vec<Source>>,
    /// What is certain.
    image: Image,
    now: usize,
}

impl Sectors {
    pub(super) fn new(geometry: Geometry, start: Image) -> Sectors {
        let (operations, candidates) = (Vec::new(), BTreeMap::new());
        let sector_bytes = u64::from(geometry.sector_bytes);
        Sectors { sector_bytes, operations, candidates, image: start, now: 0 }
    }

    /// Takes the next event; whether a crash after it may leave something new.
    pub(super) fn take(&mut self, event: &Event) -> bool {
        self.now += 1;
        match event {
            Event::Begun(effect) => self.begin(effect.clone()),
            Event::Completed { number, well } => self.complete(*number, *well),
            Event::Marked(_) => true,
        }
    }

    fn begin(&mut self, effect: Effect) -> bool {
        let number = self.operations.len();
        let sectors = self.sectors(&effect);
        let changes = !sectors.is_empty();
        let all = &mut self.candidates;
        sectors.for_each(|at| all.entry(at).or_insert_with(|| vec![None]).push(Some(number)));
        let (begun, completed) = (self.now, None);
        let operation = Operation { effect, begun, completed, is_well: false, is_durable: false };
        self.operations.push(operation);
        changes
    }

    fn complete(&mut self, number: usize, is_well: bool) -> bool {
        let Some(operation) = self.operations.get_mut(number) else { return false };
        (operation.completed, operation.is_well) = (Some(self.now), is_well);
        if !is_well {
            return false;
        }
        let begun = operation.begun;
        match operation.effect {
            Effect::Bytes { durable: true, .. } => self.settle(number),
            Effect::Flush => {
                let is_covered = |it: &Operation| {
                    it.is_well && !it.is_durable && it.completed.is_some_and(|at| at < begun)
                };
                let all = self.operations.iter().enumerate();
                let covered: Vec<usize> =
                    all.filter(|(_, it)| is_covered(it)).map(|(number, _)| number).collect();
                covered.into_iter().for_each(|number| self.settle(number));
            }
            _ => return false,
        }
        true
    }

    /// An operation is durable now.
    fn settle(&mut self, number: usize) {
        let Some(operation) = self.operations.get_mut(number) else { return };
        operation.is_durable = true;
        let (begun, effect) = (operation.begun, operation.effect.clone());
        for at in self.sectors(&effect) {
            // Where it was overwritten for certain meanwhile, it removes nothing any more.
            let has = |candidates: &Vec<Source>| candidates.contains(&Some(number));
            if !self.candidates.get(&at).is_some_and(has) {
                continue;
            }
            let Some(mut candidates) = self.candidates.remove(&at) else { continue };
            candidates.retain(|candidate| {
                *candidate == Some(number) || candidate.is_some_and(|it| !self.ended_by(it, begun))
            });
            match candidates[..] {
                [one] => self.write(at, one),
                _ => drop(self.candidates.insert(at, candidates)),
            }
        }
    }

    fn ended_by(&self, number: usize, time: usize) -> bool {
        self.operations[number].completed.is_some_and(|completed| completed < time)
    }

    fn sectors(&self, effect: &Effect) -> std::ops::Range<u64> {
        let (offset, bytes) = match effect {
            Effect::Bytes { offset, bytes, .. } => (*offset, bytes.len() as u64),
            Effect::Zeroes { offset, bytes } => (*offset, *bytes),
            Effect::Flush | Effect::Nothing => (0, 0),
        };
        offset / self.sector_bytes..(offset + bytes) / self.sector_bytes
    }

    fn write(&mut self, sector: u64, source: Source) {
        let mut image = std::mem::replace(&mut self.image, Image::new(0));
        self.write_into(&mut image, sector, source);
        self.image = image;
    }

    fn write_into(&self, image: &mut Image, sector: u64, source: Source) {
        let Some(operation) = source.and_then(|number| self.operations.get(number)) else { return };
        let at = sector * self.sector_bytes;
        // All of it was checked when it was begun.
        let _ = match &operation.effect {
            Effect::Bytes { offset, bytes, .. } => {
                let start = (at - offset) as usize;
                image.write(at, &bytes[start..start + self.sector_bytes as usize])
            }
            Effect::Zeroes { .. } => image.fill(at, self.sector_bytes, 0),
            Effect::Flush | Effect::Nothing => Ok(()),
        };
    }

    /// Sectors that may hold one thing or another, with their candidates as they were begun.
    pub(super) fn open(&self) -> Vec<(u64, Vec<Source>)> {
        self.candidates.iter().map(|(at, candidates)| (*at, candidates.clone())).collect()
    }

    /// Whether an operation has to be there after a crash.
    pub(super) fn is_durable(&self, number: usize) -> bool {
        self.operations[number].is_durable
    }

    /// From when to when an operation may be done, in time of events.
    pub(super) fn span(&self, number: usize) -> (usize, usize) {
        let operation = &self.operations[number];
        (operation.begun, operation.completed.unwrap_or(self.now + 1))
    }

    /// Operations that have completed well.
    pub(super) fn completed(&self) -> Vec<usize> {
        let all = self.operations.iter().enumerate();
        all.filter(|(_, it)| it.is_well).map(|(number, _)| number).collect()
    }

    /// The bytes of a device whose open sectors hold these.
    pub(super) fn image(&self, chosen: &[(u64, Source)]) -> Image {
        let mut image = self.image.clone();
        chosen.iter().for_each(|(at, source)| self.write_into(&mut image, *at, *source));
        image
    }
}
