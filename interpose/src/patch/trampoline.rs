//! The machine code between a site and the hook.
//!
//! One trampoline per site, which calls a routine shared by all sites (`routine.rs`).
//! What the two keep: every register but rax, rcx and r11, as the kernel does; the 128 bytes below
//! the stack pointer, which leaf functions use. In libc the vector registers where the site asks for
//! it, and no flags: every system call's asm there lists them as clobbered. In other files both,
//! always: nobody can say what their asm promises (`preserves_flags` of Rust's is one promise), and
//! so nothing here but the hook changes a flag.
//! It uses no memory but the stack, so it may be entered again at any instruction.

use super::assemble::{jump, Assembler, Label};
use super::extended::Extended;
use super::memory::{Patch, PAGE_BYTES};
use super::routine::{routine, Saves, Target, ROUTINES_BYTES_MAX, SYSCALL};
use super::unwind::{Cfa, FrameTable};
use super::{shield, GateFn, HookFn, SpawnFn};
use crate::image;
use crate::site::{number, Reason, Site, SYSCALL_BYTES};

/// The longest trampoline: a window's instructions, the longest guard (69 bytes; no site with one has a
/// gate, of 14), two calls with their stack adjustments (18 each), a conditional jump, the real call
/// repeated (17), a jump, alignment.
const TRAMPOLINE_BYTES_MAX: usize = 32 + 69 + 2 * 18 + 2 + 17 + 5 + 16;
/// Shared routines at most.
const ROUTINES: usize = image::ROUTINES;
const LEA_RED_ZONE_SKIP: [u8; 5] = [0x48, 0x8d, 0x64, 0x24, 0x80]; // lea rsp,[rsp-128]
/// How far below the program's stack a routine begins: the red zone, and the return address.
pub(super) const BELOW_STACK_BYTES: u64 = 128 + 8;
const LEA_RED_ZONE_BACK: [u8; 8] = [0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0]; // lea rsp,[rsp+128]
/// Leaves CLONE_VM of edi in rcx, by instructions that keep the flags: bits 8-15 to 0-7, then seven
/// to the left, and what is left of it in eight bits.
#[rustfmt::skip]
const ECX_CLONE_VM_OF_EDI: [u8; 25] = [
    0x89, 0xf9,                               // mov ecx,edi
    0x0f, 0xb6, 0xcd,                         // movzx ecx,ch
    0x8d, 0x0c, 0xcd, 0, 0, 0, 0,             // lea ecx,[rcx*8]
    0x8d, 0x0c, 0xcd, 0, 0, 0, 0,             // lea ecx,[rcx*8]
    0x8d, 0x0c, 0x09,                         // lea ecx,[rcx+rcx]
    0x0f, 0xb6, 0xc9,                         // movzx ecx,cl
];
const _: () = assert!(number::CLONE_VM == 0x100);

/// Whom the trampolines call.
pub(super) struct Hooks {
    /// For all sites but those of `rt_sigaction`.
    pub call: HookFn,
    /// For those.
    pub sigaction: HookFn,
    /// Before calls that make a child with shared memory.
    pub spawn: Option<SpawnFn>,
    /// Which sites have a gate.
    pub gate: Option<GateFn>,
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
    gate: Option<GateFn>,
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

    /// Begins with the shared routines, in `room`, which is at `address`, for so many sites. Those
    /// keep everything where the text is not libc's.
    pub fn new(
        address: u64,
        room: &'a mut [u8],
        sites: usize,
        hooks: &Hooks,
        everything: Option<Extended>,
    ) -> Builder<'a> {
        let mut code = Assembler::new(address, room);
        let mut frames = FrameTable::new(ROUTINES + sites);
        let mut pair = |address: u64, answers: bool| {
            let target = Target { address, answers, shield: shield::thread_offset() };
            let mut one = |saves| routine(&mut code, &mut frames, target, saves);
            match everything.map(Saves::Everything) {
                Some(saves) => {
                    let only = one(saves);
                    Routines { plain: only, vector: only }
                }
                None => Routines { plain: one(Saves::General), vector: one(Saves::Xmm) },
            }
        };
        let call = pair(hooks.call as usize as u64, true);
        let sigaction = pair(hooks.sigaction as usize as u64, true);
        let announce = hooks.spawn.map(|hook| pair(hook as usize as u64, false));
        Builder { code, frames, call, sigaction, announce, gate: hooks.gate }
    }

    /// Where the routines are, as distances from `address`.
    pub fn routines(&self, address: u64) -> [u32; ROUTINES] {
        let announce = self.announce.unwrap_or(Routines { plain: address, vector: address });
        let all = [self.call, self.sigaction, announce].map(|pair| [pair.plain, pair.vector]);
        let mut offsets = [0; ROUTINES];
        for (offset, at) in offsets.iter_mut().zip(all.as_flattened()) {
            *offset = (at - address) as u32;
        }
        offsets
    }

    /// Begins the trampolines on a page of their own, which needs nothing of this process's.
    pub fn end_routines(&mut self) {
        while self.code.here() % PAGE_BYTES != 0 {
            self.code.bytes(&[0xcc]);
        }
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

    /// The code's length, and the table that lets the unwinder pass through it; `None` where a
    /// jump does not reach.
    pub fn finish(self) -> Option<(usize, Vec<u8>)> {
        Some((self.code.finish()?, self.frames.finish()))
    }

    /// Done: go on after the `syscall` instruction. Otherwise: go to it.
    fn finish_kept(&mut self, site: &Site, syscall: u64, raw: Label) {
        let done = self.code.label();
        let has_hook = site.refusal.is_none();
        if has_hook {
            self.code.jump_if_rcx_zero(done);
        }
        self.code.place(raw);
        match site.number {
            Some(number::VFORK) => self.repeat_interrupted(number::VFORK, syscall),
            _ => self.code.jump(syscall),
        }
        self.code.place(done);
        if has_hook {
            self.code.jump(syscall + SYSCALL_BYTES as u64);
        }
    }

    /// Makes a call that is never interrupted until it is not: a filter that asks somebody about it
    /// ends it with EINTR (seccomp_unotify(2)). Uses no stack, which a child of vfork shares.
    fn repeat_interrupted(&mut self, number: u32, syscall: u64) {
        let again = self.code.label();
        self.code.place(again);
        self.code.bytes(&[0xb8]); // mov eax,imm32
        self.code.bytes(&number.to_le_bytes());
        self.code.bytes(&SYSCALL);
        self.code.bytes(&[0x8d, 0x48, libc::EINTR as u8]); // lea ecx,[rax+disp8]
        self.code.jump_if_rcx_zero(again);
        self.code.jump(syscall + SYSCALL_BYTES as u64);
    }

    /// The jump lies over the `syscall` instruction, so the real call is made here.
    fn finish_moved(&mut self, site: &Site, address: u64, end: u64, raw: Label) {
        let done = self.code.label();
        self.code.jump_if_rcx_zero(done);
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
            Some(number) => return self.gate(number, raw),
            None => {
                let clone = self.code.label();
                self.if_number(number::RT_SIGRETURN, raw);
                self.if_number(number::VFORK, spawn);
                self.if_number(number::CLONE3, spawn);
                self.if_number(number::CLONE, clone);
                self.code.jump_to(call);
                self.code.place(clone);
                self.unless_shared_memory(call);
            }
        }
        self.code.place(spawn);
        if let Some(announce) = self.announce {
            self.enter(announce, site.save_xmm);
        }
        if site.refusal.is_none() {
            self.code.jump_to(raw);
        }
    }

    /// Passes by the hook while the gate is zero, by instructions that keep the flags; rcx is the
    /// kernel's to destroy.
    fn gate(&mut self, number: u32, raw: Label) {
        if let Some(word) = self.gate.and_then(|gate| gate(number)) {
            self.code.bytes(&[0x48, 0xb9]); // mov rcx,imm64
            self.code.bytes(&(word.as_ptr() as u64).to_le_bytes());
            self.code.bytes(&[0x8b, 0x09]); // mov ecx,[rcx]
            self.code.jump_if_rcx_zero(raw);
        }
    }

    fn if_number(&mut self, number: u32, to: Label) {
        self.code.bytes(&[0x8d, 0x88]); // lea ecx,[rax+disp32]
        self.code.bytes(&number.wrapping_neg().to_le_bytes());
        self.code.jump_if_rcx_zero(to);
    }

    fn unless_shared_memory(&mut self, call: Label) {
        self.code.bytes(&ECX_CLONE_VM_OF_EDI);
        self.code.jump_if_rcx_zero(call);
    }

    /// Calls a shared routine from below the red zone. `lea` keeps the flags.
    fn enter(&mut self, routines: Routines, vector: bool) {
        self.code.bytes(&LEA_RED_ZONE_SKIP);
        self.frames.cfa(self.code.here(), Cfa::Stack(128));
        self.code.call(if vector { routines.vector } else { routines.plain });
        self.code.bytes(&LEA_RED_ZONE_BACK);
        self.frames.cfa(self.code.here(), Cfa::Stack(0));
    }
}
