//! The writing side: memory, the plan of what is written to it, and the ways to write.

use std::collections::BTreeMap;

use heliostat_stub_snapshot::Region;

use crate::consume::header;
use crate::memory::{Memory, MemoryKind};
use crate::orders::Orders;
use crate::plan::{Act, Plan, PAGE};
use crate::surgery::operate;
use crate::writes::{Way, Writer};

/// The writing side: memory, plan, and the ways to write.
pub struct Pen {
    /// What versions are made of.
    pub memory: Memory,
    /// What is written.
    pub plan: Plan,
    writer: Writer,
    /// How often each way was used.
    pub used: BTreeMap<String, u64>,
}

impl Pen {
    /// Memory as ordered, and the plan for it.
    pub fn new(orders: &Orders) -> Result<Self, String> {
        let memory = Memory::new(orders.memory, orders.bytes).map_err(|error| error.to_string())?;
        Self::over(orders, memory)
    }

    fn over(orders: &Orders, memory: Memory) -> Result<Self, String> {
        let error = |error: std::io::Error| error.to_string();
        let (seed, pages) = (orders.seed, orders.bytes / PAGE);
        let (least, surgery) = (orders.least, memory.allows_surgery());
        let plan = Plan { seed, pages, least, surgery };
        let writer = Writer::new().map_err(error)?;
        for (way, why) in &writer.missing {
            println!("skipped: writes by {way:?}: {why}");
        }
        Ok(Self { memory, plan, writer, used: BTreeMap::new() })
    }

    /// Writes one round, and its head for the version that comes next.
    pub fn write(&mut self, region: &mut Region, round: u32, number: u64) -> Result<(), String> {
        let says = region.engine() == "declared";
        let (plan, memory) = (self.plan, self.memory);
        for (page, act) in plan.acts(round) {
            let fail = |error: std::io::Error| format!("{act:?} of page {page}: {error}");
            let name = if let Act::Write(luck) = act {
                let at = memory.page(page);
                let way = self.writer.way(luck, at);
                if way != Way::Store {
                    prepare(region, page)?;
                }
                self.writer.stamp(&plan, (round, page), at, way).map_err(fail)?;
                format!("{way:?}")
            } else {
                operate(&memory, page, act).map_err(fail)?;
                format!("{act:?}")
            };
            *self.used.entry(name).or_default() += 1;
            // In a file's private mapping the kernel keeps a dropped page's mark of not written.
            if says || (act == Act::Drop && memory.kind == MemoryKind::File) {
                declare(region, page)?;
            }
        }
        let head = memory.page(0).cast::<u64>();
        for (at, word) in header(&plan, round, number).into_iter().enumerate() {
            // SAFETY: three words of page 0, which this thread alone writes.
            unsafe { head.add(at).write_volatile(word) };
        }
        if says {
            declare(region, 0)?;
        }
        Ok(())
    }
}

fn declare(region: &mut Region, page: usize) -> Result<(), String> {
    region.declare(page * PAGE..(page + 1) * PAGE).map_err(|error| error.to_string())
}

/// The kernel's own writes need it where memory is the region's own.
fn prepare(region: &Region, page: usize) -> Result<(), String> {
    region.prepare_write(page * PAGE..(page + 1) * PAGE).map_err(|error| error.to_string())
}

/// Memory as ordered, with its region.
pub fn begin(orders: &Orders) -> Result<(Pen, Region), String> {
    if orders.engine.is_some() {
        let pen = Pen::new(orders)?;
        let region = region(orders, &pen)?;
        return Ok((pen, region));
    }
    let region = Region::allocate(orders.bytes, orders.settings());
    let region = region.map_err(|error| error.to_string())?;
    let (start, len) = region.memory().ok_or("the region has no memory of its own")?;
    let pen = Pen::over(orders, Memory { start: start as usize, len, kind: MemoryKind::Region })?;
    Ok((pen, as_expected(orders, region)?))
}

/// A region over the pen's memory.
pub fn region(orders: &Orders, pen: &Pen) -> Result<Region, String> {
    if orders.engine.is_none() {
        return Err("memory of the region's own is no memory that was there before".into());
    }
    let region = Region::new(pen.memory.live(), orders.settings());
    as_expected(orders, region.map_err(|error| error.to_string())?)
}

fn as_expected(orders: &Orders, region: Region) -> Result<Region, String> {
    match orders.expects.as_deref() {
        Some(wanted) if wanted != region.engine() => {
            Err(format!("the engine is {}, and {wanted} was expected", region.engine()))
        }
        _ => Ok(region),
    }
}
