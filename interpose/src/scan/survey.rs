//! One pass over all code: branch targets, `syscall` instructions, use of vector registers.
//!
//! Two answers must be complete rather than exact. *Targets*: a window may not contain one, so a
//! target too many costs a site and one too few corrupts the program; jump tables are therefore
//! read generously. *Vector registers*: a function that uses none may still have callers that
//! know so and keep values there (gcc's -fipa-ra, on at -O2), so the question is asked of every
//! function that can reach this one by direct calls inside one translation unit.

use super::elf::Image;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};
use std::ops::Range;

/// The longest jump table believed.
const TABLE_ENTRIES_MAX: u64 = 4096;
/// Translation units are contiguous in the text; libc's longest (vfprintf) is far below this.
const UNIT_BYTES_MAX: u64 = 0x2_0000;

/// Functions start on such a line, cold parts of functions need not.
const LINE_BYTES: u64 = 16;

/// What one pass over the code found.
pub(super) struct Survey {
    text: Range<u64>,
    targets: Vec<u64>,
    /// Addresses of all `syscall` instructions, ascending.
    pub syscalls: Vec<u64>,
    /// The stretches decoded: functions, and what lies between them.
    pub regions: Vec<Range<u64>>,
    vector: Vec<bool>,
    /// Of each region, whether it jumps to where a register or memory says.
    indirect: Vec<bool>,
}

/// What is collected of one region, beside targets and system calls.
#[derive(Default)]
struct Notes {
    vector: bool,
    indirect_jump: bool,
    bases: Vec<u64>,
    /// Direct branches that leave the region: destination, and whether it is a call.
    leaves: Vec<(u64, bool)>,
}

impl Survey {
    /// Decodes everything once.
    pub fn of(image: &Image) -> Survey {
        let regions = regions(image);
        let words = (image.text.end - image.text.start).div_ceil(64) as usize;
        let mut survey = Survey {
            text: image.text.clone(),
            targets: vec![0; words],
            syscalls: Vec::new(),
            vector: Vec::new(),
            indirect: Vec::new(),
            regions: Vec::new(),
        };
        let mut notes = Vec::with_capacity(regions.len());
        for region in &regions {
            let found = survey.decode(image, region);
            if found.indirect_jump {
                survey.read_tables(image, region, &found.bases);
            }
            survey.indirect.push(found.indirect_jump);
            notes.push(found);
        }
        survey.regions = regions;
        survey.vector = survey.spread_vector_use(image, &notes);
        survey
    }

    /// Whether a branch may lead to this address.
    pub fn is_target(&self, address: u64) -> bool {
        let bit = address.wrapping_sub(self.text.start);
        self.targets.get((bit / 64) as usize).is_some_and(|word| word >> (bit % 64) & 1 != 0)
    }

    /// The region that holds this address.
    pub fn region_of(&self, address: u64) -> Option<usize> {
        let index = self.regions.partition_point(|r| r.start <= address).checked_sub(1)?;
        self.regions[index].contains(&address).then_some(index)
    }

    /// Whether a region jumps to where a register or memory says.
    pub fn jumps_indirectly(&self, region: usize) -> bool {
        self.indirect[region]
    }

    /// Takes all these addresses for branch targets.
    pub fn mark_all(&mut self, addresses: &[u64]) {
        addresses.iter().for_each(|address| self.mark(*address));
    }

    /// Whether vector registers may be live at this address.
    pub fn vector_live(&self, address: u64) -> bool {
        self.region_of(address).is_none_or(|index| self.vector[index])
    }

    fn mark(&mut self, address: u64) {
        let bit = address.wrapping_sub(self.text.start);
        if let Some(word) = self.targets.get_mut((bit / 64) as usize) {
            *word |= 1 << (bit % 64);
        }
    }

    fn decode(&mut self, image: &Image, region: &Range<u64>) -> Notes {
        let mut notes = Notes::default();
        let code = image.code_in(region);
        let mut decoder = Decoder::with_ip(64, code, region.start, DecoderOptions::NONE);
        let mut insn = Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut insn);
            self.note(&insn, region, &mut notes);
        }
        notes
    }

    fn note(&mut self, insn: &Instruction, region: &Range<u64>, notes: &mut Notes) {
        match insn.code() {
            Code::Syscall => self.syscalls.push(insn.ip()),
            Code::Endbr64 => self.mark(insn.ip()),
            Code::Lea_r64_m if insn.is_ip_rel_memory_operand() => {
                notes.bases.push(insn.ip_rel_memory_address());
            }
            _ => {}
        }
        let operands = 0..insn.op_count();
        notes.vector |= operands.clone().any(|op| insn.op_register(op).is_vector_register());
        match insn.flow_control() {
            FlowControl::Next => {}
            FlowControl::IndirectBranch => notes.indirect_jump = true,
            _ if insn.op_count() > 0 && is_near_branch(insn.op0_kind()) => {
                let destination = insn.near_branch_target();
                self.mark(destination);
                if !region.contains(&destination) {
                    notes.leaves.push((destination, insn.is_call_near()));
                }
            }
            _ => {}
        }
    }

    /// Marks what the tables at `bases` may lead to. gcc's tables hold 32-bit distances from the
    /// table itself, or from a label in the code for computed gotos; both are tried for all. A
    /// table ends where an entry leads out of the function, of which parts may be elsewhere.
    fn read_tables(&mut self, image: &Image, region: &Range<u64>, bases: &[u64]) {
        let (labels, tables): (Vec<u64>, Vec<u64>) =
            bases.iter().partition(|base| self.text.contains(base));
        labels.iter().for_each(|label| self.mark(*label));
        for table in tables {
            for entry in 0..TABLE_ENTRIES_MAX {
                let Some(distance) = image.read_i32(table.wrapping_add(entry * 4)) else { break };
                let mut inside = false;
                for base in labels.iter().chain([&table]) {
                    let destination = base.wrapping_add_signed(i64::from(distance));
                    if region.contains(&destination) || split_off(image, region, destination) {
                        inside = true;
                        self.mark(destination);
                    }
                }
                if !inside {
                    break;
                }
            }
        }
    }

    /// Carries "uses vector registers" from a region to those whose callers would rely on it.
    fn spread_vector_use(&self, image: &Image, notes: &[Notes]) -> Vec<bool> {
        let mut vector: Vec<bool> = notes.iter().map(|n| n.vector).collect();
        let mut edges = Vec::new();
        for (from, note) in notes.iter().enumerate() {
            for (destination, is_call) in &note.leaves {
                let Some(to) = self.region_of(*destination) else { continue };
                let start = self.regions[to].start;
                // Hot and cold parts of one function jump into each other; cold parts, which
                // linkers put elsewhere, are the ones that do not start on a 16-byte line.
                let same = !is_call && (start != *destination || start % LINE_BYTES != 0);
                let near = start.abs_diff(self.regions[from].start) < UNIT_BYTES_MAX;
                let split = self.regions[from].start % LINE_BYTES != 0;
                let private = image.exported.binary_search(&start).is_err();
                if same {
                    edges.push((to, from));
                }
                if same || (private && (near || split)) {
                    edges.push((from, to));
                }
            }
        }
        while edges.iter().fold(false, |again, (from, to)| {
            let news = vector[*from] && !vector[*to];
            vector[*to] |= news;
            again | news
        }) {}
        vector
    }
}

/// Whether a jump table of `region` may lead to `destination` in another one: from or to a part
/// that the compiler has split off.
fn split_off(image: &Image, region: &Range<u64>, destination: u64) -> bool {
    let after = image.functions.partition_point(|function| *function <= destination);
    let Some(other) = after.checked_sub(1).map(|index| image.functions[index]) else {
        return false;
    };
    let split = region.start % LINE_BYTES != 0 || other % LINE_BYTES != 0;
    split && image.text.contains(&destination)
}

pub(super) fn is_near_branch(kind: OpKind) -> bool {
    matches!(kind, OpKind::NearBranch64 | OpKind::NearBranch32 | OpKind::NearBranch16)
}

/// Each function up to the next, and what lies before the first: every byte of code once.
pub(super) fn regions(image: &Image) -> Vec<Range<u64>> {
    let mut regions = Vec::with_capacity(image.functions.len() + image.code.len());
    for (start, bytes) in &image.code {
        let end = start + bytes.len() as u64;
        let first = image.functions.partition_point(|function| *function <= *start);
        let inside = image.functions[first..].iter().copied().take_while(|f| *f < end);
        let mut from = *start;
        for to in inside.chain([end]) {
            regions.push(from..to);
            from = to;
        }
    }
    regions
}

/// The 64-bit register that holds `register`.
pub(super) fn whole(register: Register) -> Register {
    register.full_register()
}
