//! The machine code between a site and the hook.
//!
//! One trampoline per site, which calls a routine shared by all sites (`routine.rs`).
//! What the two keep: every register but rax, rcx and r11, as the kernel does (flags too
//! are free: every system call's asm in libc lists them as clobbered); the 128 bytes below the
//! stack pointer, which leaf functions use; the vector registers where the site asks for it.
//! It uses no memory but the stack, so it may be entered again at any instruction.

use super::assemble::{jump, Assembler, Label, When};
use super::memory::Patch;
use super::routine::{routine, Target, ROUTINES_BYTES_MAX, SYSCALL};
use super::unwind::{Cfa, FrameTable};
use super::{shield, HookFn, SpawnFn};
use crate::site::{number, Reason, Site, SYSCALL_BYTES};

/// The longest trampoline: a window's instructions, the longest guard (80 bytes), two calls with
/// their stack adjustments (21 each), a conditional jump, the real call, a jump, alignment.
const TRAMPOLINE_BYTES_MAX: usize = 32 + 80 + 2 * 21 + 6 + 7 + 5 + 16;
/// Shared routines at most.
const ROUTINES: usize = 6;
const LEA_RED_ZONE_SKIP: [u8; 5] = [0x48, 0x8d, 0x64, 0x24, 0x80]; // lea rsp,[rsp-128]
/// How far below the program's stack a routine begins: the red zone, and the return address.
pub(super) const BELOW_STACK_BYTES: u64 = 128 + 8;
const LEA_RED_ZONE_BACK: [u8; 8] = [0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0]; // lea rsp,[rsp+128]
const TEST_EDI_CLONE_VM: [u8; 6] = [0xf7, 0xc7, 0x00, 0x01, 0x00, 0x00];
const _: () = assert!(number::CLONE_VM == 0x100);

/// Whom the trampolines call.
pub(super) struct Hooks {
    /// For all sites but those of `rt_sigaction`.
    pub call: HookFn,
    /// For those.
    pub sigaction: HookFn,
    /// Before calls that make a child with shared memory.
    pub spawn: Option<SpawnFn>,
}

/// Which shared routine.
#[derive(Clone, Copy)]
struct Routines {
    plain: u64,
    vector: u64,
}

/// Writes trampolines one after the other.
pub(super) struct Builder<'a> {
    code: Assembler<'a>,
    frames: FrameTable,
    call: Routines,
    sigaction: Routines,
    announce: Option<Routines>,
}

/// Whether a refused site can at least be announced to a [`SpawnFn`]: the call itself stays.
pub(super) fn can_announce(site: &Site) -> bool {
    site.refusal == Some(Reason::Forbidden)
        && site.number != Some(number::RT_SIGRETURN)
        && site.keeps_syscall()
}

impl<'a> Builder<'a> {
    /// The most memory that the code for this many sites takes.
    pub fn bytes_max(sites: usize) -> usize {
        ROUTINES_BYTES_MAX + sites * TRAMPOLINE_BYTES_MAX
    }

    /// Begins with the shared routines, in `room`, which is at `address`, for so many sites.
    pub fn new(address: u64, room: &'a mut [u8], sites: usize, hooks: &Hooks) -> Builder<'a> {
        let mut code = Assembler::new(address, room);
        let mut frames = FrameTable::new(ROUTINES + sites);
        let mut pair = |address: u64, answers: bool| {
            let target = Target { address, answers, shield: shield::thread_offset() };
            Routines {
                plain: routine(&mut code, &mut frames, target, false),
                vector: routine(&mut code, &mut frames, target, true),
            }
        };
        let call = pair(hooks.call as usize as u64, true);
        let sigaction = pair(hooks.sigaction as usize as u64, true);
        let announce = hooks.spawn.map(|hook| pair(hook as usize as u64, false));
        Builder { code, frames, call, sigaction, announce }
    }

    /// Writes the trampoline of one site; the jump to it is returned.
    pub fn add(&mut self, site: &Site, base: u64) -> Patch {
        self.code.align();
        let address = base + u64::from(site.start);
        let syscall = address + u64::from(site.syscall_at);
        let end = address + u64::from(site.length);
        let start = self.code.here();
        self.frames.begin_moved(start, syscall + SYSCALL_BYTES as u64);
        self.copy(site, 0..site.syscall_at as usize, address);
        let (call, raw) = (self.code.label(), self.code.label());
        self.guard(site, call, raw);
        self.code.place(call);
        if site.refusal.is_none() {
            let sigaction = site.number == Some(number::RT_SIGACTION);
            let routines = if sigaction { self.sigaction } else { self.call };
            self.enter(routines, site.save_xmm);
        }
        if site.keeps_syscall() {
            self.finish_kept(site, syscall, raw);
        } else {
            self.finish_moved(site, address, end, raw);
        }
        self.frames.end(self.code.here());
        Patch { address, bytes: jump(address, start) }
    }

    /// The code's length, and the table that lets the unwinder pass through it.
    pub fn finish(self) -> (usize, Vec<u8>) {
        (self.code.finish(), self.frames.finish())
    }

    /// Done: go on after the `syscall` instruction. Otherwise: go to it.
    fn finish_kept(&mut self, site: &Site, syscall: u64, raw: Label) {
        if site.refusal.is_none() {
            self.code.jump_if(When::NotZero, raw);
            self.code.jump(syscall + SYSCALL_BYTES as u64);
        }
        self.code.place(raw);
        self.code.jump(syscall);
    }

    /// The jump lies over the `syscall` instruction, so the real call is made here.
    fn finish_moved(&mut self, site: &Site, address: u64, end: u64, raw: Label) {
        let done = self.code.label();
        self.code.jump_if(When::Zero, done);
        self.code.place(raw);
        self.code.bytes(&SYSCALL);
        self.code.place(done);
        let after = site.syscall_at as usize + SYSCALL_BYTES;
        self.copy(site, after..site.length as usize, address);
        self.code.jump(end);
    }

    /// Copies instructions of the window, corrected for their new place.
    fn copy(&mut self, site: &Site, part: std::ops::Range<usize>, address: u64) {
        let from = address + part.start as u64;
        let to = self.code.here();
        self.code.bytes(&site.window()[part.clone()]);
        for relocation in site.relocations.iter().flatten() {
            let field = relocation.field_at as usize;
            if part.contains(&field) {
                let field_at = to + (field - part.start) as u64;
                self.code.correct(field_at, from.wrapping_sub(to));
            }
        }
    }

    /// Keeps away from the hook what must not have its frame on the stack.
    fn guard(&mut self, site: &Site, call: Label, raw: Label) {
        let spawn = self.code.label();
        match site.number {
            Some(number::CLONE) => self.unless_shared_memory(call),
            Some(number::VFORK | number::CLONE3) => {}
            Some(_) => return,
            None => {
                self.if_number(number::RT_SIGRETURN, When::Zero, raw);
                self.if_number(number::VFORK, When::Zero, spawn);
                self.if_number(number::CLONE3, When::Zero, spawn);
                self.if_number(number::CLONE, When::NotZero, call);
                self.unless_shared_memory(call);
            }
        }
        self.code.place(spawn);
        if let Some(announce) = self.announce {
            self.enter(announce, site.save_xmm);
        }
        if site.refusal.is_none() {
            self.code.bytes(&[0x39, 0xe4]); // cmp esp,esp: sets ZF, so that the jump is taken
            self.code.jump_if(When::Zero, raw);
        }
    }

    fn if_number(&mut self, number: u32, when: When, to: Label) {
        self.code.bytes(&[0x3d]); // cmp eax,imm32
        self.code.bytes(&number.to_le_bytes());
        self.code.jump_if(when, to);
    }

    fn unless_shared_memory(&mut self, call: Label) {
        self.code.bytes(&TEST_EDI_CLONE_VM);
        self.code.jump_if(When::Zero, call);
    }

    /// Calls a shared routine from below the red zone. `lea` keeps the flags it answers with.
    fn enter(&mut self, routines: Routines, vector: bool) {
        self.code.bytes(&LEA_RED_ZONE_SKIP);
        self.frames.cfa(self.code.here(), Cfa::Stack(128));
        self.code.call(if vector { routines.vector } else { routines.plain });
        self.code.bytes(&LEA_RED_ZONE_BACK);
        self.frames.cfa(self.code.here(), Cfa::Stack(0));
    }
}
