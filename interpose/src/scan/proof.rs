//! Whether a site outside libc may be patched: that it is code, and what can lead into its window.
//!
//! libc is known; here is anybody's text. What would make a window unsafe, and how it is excluded:
//!
//! - *Data in the text that looks like a `syscall`*: the unwind table must describe the function
//!   around it, which must decode from its first to its last byte without an invalid instruction,
//!   every branch within it leading to the start of one. Compilers put no data into functions;
//!   assembly that does fails one of these.
//! - *A jump to where a register says*: tables of 32-bit distances are read (`survey`), and labels
//!   that computed gotos use are relocated, so all of those are targets. A function that jumps so is
//!   refused in a file where not all relocations are known: programs at a fixed address, RELR.
//! - *The unwinder*, which enters a function at a landing pad. No instruction but an end of the
//!   flow, or a call, comes before one, and a window has none of these but the `syscall` itself; so
//!   only a window that goes on after it is refused, where a function may have landing pads.

use super::elf::Image;
use super::survey::{is_near_branch, Survey};
use crate::site::Site;
use iced_x86::{Decoder, DecoderOptions, Instruction};
use std::collections::HashSet;
use std::ops::Range;

/// Whether nothing stands against patching this site. A refused one is proved if it is code.
pub(super) fn is_proved(image: &Image, survey: &Survey, site: &Site) -> bool {
    let syscall = u64::from(site.syscall_offset());
    let (start, end) = (u64::from(site.start), u64::from(site.start) + u64::from(site.length));
    let Some(function) = image.described(syscall) else { return false };
    let Some(region) = survey.region_of(syscall) else { return false };
    let is_whole = survey.regions[region].start == function.start
        && function.start <= start
        && end <= function.end;
    let is_open = survey.jumps_indirectly(region) && image.relocated.is_none();
    let may_be_entered = !site.keeps_syscall() && image.may_have_landing_pads(function.start);
    is_whole && !is_open && !may_be_entered && is_code(image, &function)
}

/// Whether the bytes are data: no function's, in a stretch between functions that is no code.
/// Assembly keeps its constants there, and one in 65,536 pairs of bytes looks like a `syscall`.
pub(super) fn is_data(image: &Image, survey: &Survey, address: u64) -> bool {
    if image.described(address).is_some() {
        return false;
    }
    let Some(region) = survey.region_of(address) else { return true };
    let region = &survey.regions[region];
    let from = image.described(region.start).map_or(region.start, |function| function.end);
    let code = image.code_in(&(from..region.end));
    Decoder::with_ip(64, code, from, DecoderOptions::NONE).into_iter().any(|insn| insn.is_invalid())
}

/// Whether all executable sections are instructions and nothing else, decoded one after another
/// without the help of an unwind table: every branch, exported function and relocated address in
/// them leads to the start of one. A decoder that is out of step somewhere fails this at the next
/// function, whose callers know where it starts.
pub(super) fn is_code_throughout(image: &Image) -> bool {
    let Some(relocated) = &image.relocated else { return false };
    let mut walk = Walk::default();
    let mut sections = image.code.iter();
    if !sections.all(|(start, code)| walk.decode(code, *start)) {
        return false;
    }
    let held = |to: &u64| {
        let after = image.code.partition_point(|(start, _)| start <= to);
        after.checked_sub(1).is_some_and(|at| to - image.code[at].0 < image.code[at].1.len() as u64)
    };
    let mut entered = walk.branches.iter().chain(&image.exported).chain(relocated);
    entered.all(|to| !held(to) || walk.starts.contains(to))
}

/// Whether all of the function decodes, and its branches fit.
fn is_code(image: &Image, function: &Range<u64>) -> bool {
    let code = image.code_in(function);
    let mut walk = Walk::default();
    code.len() as u64 == function.end - function.start
        && walk.decode(code, function.start)
        && walk.branches.iter().all(|to| !function.contains(to) || walk.starts.contains(to))
}

/// Where instructions start, and where their direct branches lead.
#[derive(Default)]
struct Walk {
    starts: HashSet<u64>,
    branches: Vec<u64>,
}

impl Walk {
    /// Decodes this code; false where it is none.
    fn decode(&mut self, code: &[u8], start: u64) -> bool {
        let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
        let mut insn = Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut insn);
            if insn.is_invalid() {
                return false;
            }
            self.starts.insert(insn.ip());
            if insn.op_count() > 0 && is_near_branch(insn.op0_kind()) {
                self.branches.push(insn.near_branch_target());
            }
        }
        true
    }
}
