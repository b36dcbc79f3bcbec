//! Chooses the window of one `syscall` instruction and tells its number.
//!
//! Three shapes, in order of preference:
//! 1. *before*: at least five bytes of instructions before the `syscall`, which itself stays;
//! 2. *after*: the `syscall` and what follows it;
//! 3. *around*: something of both.
//!
//! In each, no instruction but the first may be a branch target, and none may branch itself.

use super::elf::Image;
use super::survey::{whole, Survey};
use crate::site::{
    number, Reason, Relocation, Site, JUMP_BYTES, NUMBER_MAX, RELOCATIONS_MAX, SYSCALL_BYTES,
    WINDOW_BYTES_MAX,
};
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess,
    OpKind, Register,
};
use std::ops::Range;

/// One instruction with where its displacement lies.
struct Decoded {
    insn: Instruction,
    displacement_at: usize,
    displacement_bytes: usize,
}

/// The code around one `syscall` instruction.
struct Surroundings<'a> {
    survey: &'a Survey,
    insns: Vec<Decoded>,
    at: usize,
}

/// Describes the site at `address`.
pub(super) fn site(image: &Image, survey: &Survey, address: u64) -> Site {
    let insns = survey
        .region_of(address)
        .map_or_else(Vec::new, |index| decode(image, &survey.regions[index]));
    let at = insns.iter().position(|d| d.insn.ip() == address).unwrap_or(0);
    let around = Surroundings { survey, insns, at };
    let number = around.number();
    let forbidden = [number::RT_SIGRETURN, number::VFORK, number::CLONE3].map(Some);
    let mut site = match around.window() {
        Ok(window) => around.site(image, window),
        Err(reason) => bare(address, reason),
    };
    site.number = number;
    site.save_xmm = survey.vector_live(address);
    if forbidden.contains(&number) {
        site.refusal = Some(Reason::Forbidden);
    }
    site
}

/// The same site without its window, refused for `reason`.
pub(super) fn bare(address: u64, reason: Reason) -> Site {
    let mut original = [0; WINDOW_BYTES_MAX];
    original[..SYSCALL_BYTES].copy_from_slice(&[0x0f, 0x05]);
    Site {
        start: address as u32,
        number: None,
        save_xmm: true,
        syscall_at: 0,
        length: SYSCALL_BYTES as u8,
        refusal: Some(reason),
        relocations: [None; RELOCATIONS_MAX],
        original,
    }
}

impl Surroundings<'_> {
    /// The instructions (by index) of the best window.
    fn window(&self) -> Result<Range<usize>, Reason> {
        let mut refusal = Reason::NoRoom;
        let before = (0..self.at)
            .rev()
            .map(|first| first..self.at + 1)
            .find(|window| self.span(window) >= JUMP_BYTES + SYSCALL_BYTES);
        if let Some(window) = before {
            match self.check(&window) {
                Ok(()) => return Ok(window),
                Err(reason) => refusal = reason,
            }
        }
        for first in (0..=self.at).rev() {
            let ends = self.at + 1..=self.insns.len();
            let window = ends.map(|end| first..end).find(|w| self.span(w) >= JUMP_BYTES);
            let Some(window) = window else { continue };
            if self.span(&window) > WINDOW_BYTES_MAX {
                break;
            }
            if self.check(&window).is_ok() {
                return Ok(window);
            }
        }
        Err(refusal)
    }

    fn span(&self, window: &Range<usize>) -> usize {
        self.insns[window.clone()].iter().map(|d| d.insn.len()).sum()
    }

    fn check(&self, window: &Range<usize>) -> Result<(), Reason> {
        let mut relocations = 0;
        for index in window.clone() {
            let Decoded { insn, displacement_bytes, .. } = &self.insns[index];
            if index != window.start && self.survey.is_target(insn.ip()) {
                let is_syscall = index == self.at;
                return Err(if is_syscall { Reason::EnteredByBranch } else { Reason::NoRoom });
            }
            if index != self.at && insn.flow_control() != FlowControl::Next {
                return Err(Reason::NoRoom);
            }
            if insn.is_invalid() || insn.code() == Code::Endbr64 {
                return Err(Reason::NotMovable);
            }
            if insn.is_ip_rel_memory_operand() {
                relocations += 1;
                if *displacement_bytes != 4 || relocations > RELOCATIONS_MAX {
                    return Err(Reason::NotMovable);
                }
            }
        }
        Ok(())
    }

    fn site(&self, image: &Image, window: Range<usize>) -> Site {
        let start = self.insns[window.start].insn.ip();
        let syscall = self.insns[self.at].insn.ip();
        let length = self.span(&window);
        let mut original = [0; WINDOW_BYTES_MAX];
        let code = image.code_in(&(start..start + length as u64));
        original[..code.len()].copy_from_slice(code);
        let moved = self.insns[window].iter().filter(|d| d.insn.is_ip_rel_memory_operand());
        let mut relocations = [None; RELOCATIONS_MAX];
        for (slot, decoded) in relocations.iter_mut().zip(moved) {
            let insn_at = (decoded.insn.ip() - start) as usize;
            *slot = Some(Relocation {
                field_at: (insn_at + decoded.displacement_at) as u8,
                insn_end: (insn_at + decoded.insn.len()) as u8,
            });
        }
        Site {
            start: start as u32,
            number: None,
            save_xmm: true,
            syscall_at: (syscall - start) as u8,
            length: length as u8,
            refusal: None,
            relocations,
            original,
        }
    }

    /// The constant in rax, if one instruction before puts it there on the only way to here.
    fn number(&self) -> Option<u32> {
        let mut factory = InstructionInfoFactory::new();
        for index in (0..self.at).rev() {
            if self.survey.is_target(self.insns[index + 1].insn.ip()) {
                return None;
            }
            let insn = &self.insns[index].insn;
            if !matches!(insn.flow_control(), FlowControl::Next | FlowControl::ConditionalBranch) {
                return None;
            }
            if writes(&mut factory, insn, Register::RAX) {
                let copied = insn.code() == Code::Mov_r32_rm32 || insn.code() == Code::Mov_rm32_r32;
                let number = match copied && insn.op1_kind() == OpKind::Register {
                    true => self.hoisted(&mut factory, insn.op1_register()),
                    false => constant(insn),
                };
                return number.filter(|number| *number <= NUMBER_MAX);
            }
        }
        None
    }

    /// The constant that a register holds in the whole function: in loops the compiler keeps the
    /// number in one. Restoring the caller's value (pop) is no other use. For numbers that decide
    /// about safety this is not proof enough; those stay unknown and are tested at run time.
    fn hoisted(&self, factory: &mut InstructionInfoFactory, register: Register) -> Option<u32> {
        let mut found = None;
        for Decoded { insn, .. } in &self.insns {
            if insn.code() == Code::Pop_r64 || !writes(factory, insn, whole(register)) {
                continue;
            }
            let value = constant(insn)?;
            if found.is_some_and(|known| known != value) {
                return None;
            }
            found = Some(value);
        }
        let special = [number::RT_SIGRETURN, number::CLONE, number::VFORK, number::CLONE3];
        found.filter(|value| !special.contains(value))
    }
}

fn decode(image: &Image, region: &Range<u64>) -> Vec<Decoded> {
    let code = image.code_in(region);
    let mut decoder = Decoder::with_ip(64, code, region.start, DecoderOptions::NONE);
    let mut insns = Vec::new();
    while decoder.can_decode() {
        let insn = decoder.decode();
        let offsets = decoder.get_constant_offsets(&insn);
        insns.push(Decoded {
            insn,
            displacement_at: offsets.displacement_offset(),
            displacement_bytes: offsets.displacement_size(),
        });
    }
    insns
}

fn writes(factory: &mut InstructionInfoFactory, insn: &Instruction, register: Register) -> bool {
    factory.info(insn).used_registers().iter().any(|used| {
        whole(used.register()) == register
            && !matches!(used.access(), OpAccess::None | OpAccess::Read | OpAccess::CondRead)
    })
}

fn constant(insn: &Instruction) -> Option<u32> {
    let zeroed = insn.op_count() == 2 && insn.op0_register() == insn.op1_register();
    match insn.code() {
        Code::Mov_r32_imm32 => Some(insn.immediate32()),
        Code::Mov_rm64_imm32 | Code::Mov_r64_imm64 => u32::try_from(insn.immediate(1)).ok(),
        Code::Xor_r32_rm32 | Code::Xor_rm32_r32 if zeroed => Some(0),
        _ => None,
    }
}
