//! What a run is told: `key=value` words, each with a default.

use std::time::Duration;

use heliostat_stub_snapshot::{EngineKind, Placement, Policy, Settings};

use crate::consume::Habit;
use crate::memory::{MemoryKind, KINDS};
use crate::sandbox::{Lack, LACKS};

/// Engines by name; a new one is one line.
const ENGINES: [(&str, Option<EngineKind>); 5] = [
    ("probed", Some(EngineKind::Probed)),
    ("tracked", Some(EngineKind::Tracked)),
    ("declared", Some(EngineKind::Declared)),
    ("whole", Some(EngineKind::Whole)),
    ("remap", None),
];

/// Where versions lie, by name.
const PLACEMENTS: [(&str, Placement); 3] =
    [("probed", Placement::Probed), ("chunks", Placement::Chunks), ("slab", Placement::Slab)];

/// Which versions stay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// The newest alone, with room for all that consumers may hold: never a version skipped.
    Latest,
    /// The newest four, read in order.
    Keep,
    /// Too few places, and the producer waits a moment for one.
    Wait,
    /// Too few places, and versions are skipped.
    Skip,
}

const FLOWS: [(&str, Flow); 4] =
    [("latest", Flow::Latest), ("keep", Flow::Keep), ("wait", Flow::Wait), ("skip", Flow::Skip)];

/// Whether consumers are killed, stopped and forked meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Chaos {
    /// They live.
    None,
    /// They are hurt.
    All,
}

/// All of it.
#[derive(Clone, Debug)]
pub struct Orders {
    pub bytes: usize,
    pub memory: MemoryKind,
    /// None: the region has memory of its own, and remaps it.
    pub engine: Option<EngineKind>,
    pub placement: Placement,
    /// Name of the engine that must come of it.
    pub expects: Option<String>,
    pub flow: Flow,
    pub consumers: usize,
    pub colours: u32,
    /// Rounds at least.
    pub rounds: u32,
    /// Time at least.
    pub time: Duration,
    pub least: usize,
    pub seed: u64,
    pub chaos: Chaos,
    pub lack: Option<Lack>,
    /// Of the region, for roles that go through a control plane.
    pub name: String,
    pub socket: String,
    pub owner: u32,
    /// The producer's process, for an intruder.
    pub pid: i32,
}

impl Default for Orders {
    fn default() -> Self {
        Self {
            bytes: 64 << 20,
            memory: MemoryKind::Anonymous,
            engine: Some(EngineKind::Probed),
            placement: Placement::Probed,
            expects: None,
            flow: Flow::Latest,
            consumers: 2,
            colours: 0,
            rounds: 60,
            time: Duration::ZERO,
            least: 50,
            seed: 1,
            chaos: Chaos::None,
            lack: None,
            name: "verified".into(),
            socket: String::new(),
            owner: heliostat_abi::snapshot::region::OWN_USER,
            pid: 0,
        }
    }
}

fn named<T: Copy>(list: &[(&str, T)], name: &str) -> Result<T, String> {
    let found = list.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    let known = || list.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", ");
    found.ok_or_else(|| format!("{name} is none of {}", known()))
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text} is no number that fits"))
}

impl Orders {
    /// Reads `key=value` words.
    pub fn read(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut it = Self::default();
        for word in words {
            let (key, value) = word.split_once('=').ok_or(format!("{word} is no key=value"))?;
            it.set(key, value).map_err(|why| format!("{key}: {why}"))?;
        }
        Ok(it)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "mib" => self.bytes = number::<usize>(value)? << 20,
            "kib" => self.bytes = number::<usize>(value)? << 10,
            "memory" => self.memory = named(&KINDS, value)?,
            "engine" => self.engine = named(&ENGINES, value)?,
            "placement" => self.placement = named(&PLACEMENTS, value)?,
            "expects" => self.expects = Some(value.into()),
            "flow" => self.flow = named(&FLOWS, value)?,
            "consumers" => self.consumers = number(value)?,
            "colours" => self.colours = number(value)?,
            "rounds" => self.rounds = number(value)?,
            "seconds" => self.time = Duration::from_secs(number(value)?),
            "least" => self.least = number(value)?,
            "seed" => self.seed = number(value)?,
            "chaos" => self.chaos = named(&[("none", Chaos::None), ("all", Chaos::All)], value)?,
            "lack" => self.lack = Some(named(&LACKS, value)?),
            "name" => self.name = value.into(),
            "socket" => self.socket = value.into(),
            "owner" => self.owner = number(value)?,
            "pid" => self.pid = number(value)?,
            _ => return Err("there is no such order".into()),
        }
        Ok(())
    }

    /// Places for what consumers may hold (two versions while one goes on to the next), for the
    /// newest, and for the one in the making.
    fn roomy(&self) -> u32 {
        2 * self.consumers as u32 + 2 + self.remapped()
    }

    /// Memory that is remapped has one more place taken: what is written next goes there.
    fn remapped(&self) -> u32 {
        u32::from(self.engine.is_none())
    }

    /// True when no publishing may ever find all places taken.
    pub fn has_room(&self) -> bool {
        self.flow == Flow::Latest && self.settings().colours >= self.roomy()
    }

    /// How the region is set up.
    pub fn settings(&self) -> Settings {
        let (keep, patience, colours) = match self.flow {
            Flow::Latest => (1, Duration::ZERO, self.roomy()),
            Flow::Keep => (4, Duration::ZERO, self.roomy() + 4),
            Flow::Wait => (1, Duration::from_millis(20), 3 + self.remapped()),
            Flow::Skip => (1, Duration::ZERO, 2 + self.remapped()),
        };
        let colours = if self.colours > 0 { self.colours } else { colours }.clamp(2, 16);
        // Places given by hand may be fewer than the kept versions need beside the newest.
        let keep = keep.min(colours as usize - 1);
        Settings {
            colours,
            policy: Policy { keep, patience },
            engine: self.engine.unwrap_or_default(),
            placement: self.placement,
            looks_for_races: self.seed % 2 == 0,
            ..Settings::default()
        }
    }

    /// How consumer `index` behaves: the later ones are slower.
    pub fn habit(&self, index: usize) -> Habit {
        Habit {
            views: (index as u64 + self.seed) % 2 == 0,
            pause: Duration::from_millis(4 * index as u64),
            in_order: self.flow == Flow::Keep,
        }
    }
}
