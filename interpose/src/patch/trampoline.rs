//! The machine code between a site and the hook.
//!
//! One trampoline per site, and a routine shared by all sites that saves and loads registers.
//! What a trampoline keeps: every register but rax, rcx and r11, as the kernel does (flags too
//! are free: every system call's asm in libc lists them as clobbered); the 128 bytes below the
//! stack pointer, which leaf functions use; the vector registers where the site asks for it.
//! It uses no memory but the stack, so it may be entered again at any instruction.
//!
//! ```text
//! frame of the routine, 16-byte aligned   rsp ->   0 rax     8 rdi   16 rsi   24 rdx
//! (SyscallFrame, then xmm0-15 if saved)           32 r10    40 r8    48 r9    56 rsp before
//!                                                 64-112 wait's rax, rdi ... r9
//!                                                120 waited 128 rounds       136 scratch
//!                                                144 outer shield         152 verdict
//!                                                160 xmm0 ... 400 xmm15
//! ```

use super::assemble::{jump, Assembler, Label, When};
use super::memory::Patch;
use super::unwind::{Cfa, FrameTable};
use super::{shield, HookFn, SpawnFn, SyscallFrame, Verdict};
use crate::site::{number, Reason, Site, SYSCALL_BYTES};
use std::mem::offset_of;

const FRAME_BYTES: i32 = size_of::<SyscallFrame>() as i32;
const XMM_BYTES: i32 = 16 * 16;
const RETURN_STACK_AT: u8 = offset_of!(SyscallFrame, return_stack) as u8;
const WAIT_AT: u8 = offset_of!(SyscallFrame, wait) as u8;
const WAITED_AT: u8 = offset_of!(SyscallFrame, waited) as u8;
const ROUNDS_AT: i32 = offset_of!(SyscallFrame, rounds) as i32;
const OUTER_AT: i32 = offset_of!(SyscallFrame, reserved) as i32;
const VERDICT_AT: i32 = OUTER_AT + 8;
/// Displacements up to here fit into one signed byte.
const _: () = assert!(RETURN_STACK_AT < 64 && WAITED_AT < 128 && FRAME_BYTES % 16 == 0);
const _: () = assert!(Verdict::Done as u32 == 0 && offset_of!(SyscallFrame, args) == 8);

/// The longest trampoline: a window's instructions, the longest guard (80 bytes), two calls with
/// their stack adjustments (21 each), a conditional jump, the real call, a jump, alignment.
const TRAMPOLINE_BYTES_MAX: usize = 32 + 80 + 2 * 21 + 6 + 7 + 5 + 16;
/// Six routines, each of some 340 bytes, or 600 with vector registers.
const ROUTINES_BYTES_MAX: usize = 4096;

const LEA_RED_ZONE_SKIP: [u8; 5] = [0x48, 0x8d, 0x64, 0x24, 0x80]; // lea rsp,[rsp-128]
const LEA_RED_ZONE_BACK: [u8; 8] = [0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0]; // lea rsp,[rsp+128]
const SYSCALL: [u8; 2] = [0x0f, 0x05];
const STORE: u8 = 0x89; // mov [rsp+8n],reg
const LOAD: u8 = 0x8b; // mov reg,[rsp+8n]
const TEST_EDI_CLONE_VM: [u8; 6] = [0xf7, 0xc7, 0x00, 0x01, 0x00, 0x00];
const _: () = assert!(number::CLONE_VM == 0x100);

/// Moves between `[rsp + 8*n]` and the register of that place in [`SyscallFrame`]: REX prefix
/// and ModRM byte (source: Intel SDM, vol. 2, table 2-2; base rsp, 8-bit displacement).
const SAVED: [(u8, u8); 7] = [
    (0x48, 0x44), // rax
    (0x48, 0x7c), // rdi
    (0x48, 0x74), // rsi
    (0x48, 0x54), // rdx
    (0x4c, 0x54), // r10
    (0x4c, 0x44), // r8
    (0x4c, 0x4c), // r9
];

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

/// What a routine calls, and whether it answers with a [`Verdict`].
#[derive(Clone, Copy)]
struct Target {
    address: u64,
    answers: bool,
    /// Distance of the thread's shield from its thread pointer.
    shield: i32,
}

/// Writes trampolines one after the other.
pub(super) struct Builder {
    code: Assembler,
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

impl Builder {
    /// The most memory that the code for this many sites takes.
    pub fn bytes_max(sites: usize) -> usize {
        ROUTINES_BYTES_MAX + sites * TRAMPOLINE_BYTES_MAX
    }

    /// Begins at `address` with the shared routines.
    pub fn new(address: u64, bytes_max: usize, hooks: &Hooks) -> Builder {
        let mut code = Assembler::new(address, bytes_max);
        let mut frames = FrameTable::new();
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

    /// The code, and the table that lets the unwinder pass through it.
    pub fn finish(self) -> (Vec<u8>, Vec<u8>) {
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

/// Writes one shared routine, which calls `target` with a [`SyscallFrame`]; answers where it is.
fn routine(code: &mut Assembler, frames: &mut FrameTable, target: Target, vector: bool) -> u64 {
    code.align();
    let start = code.here();
    let (again, wait) = (code.label(), code.label());
    let (deliver, go_on) = (code.label(), code.label());
    frames.begin_called(start);
    let frame_bytes = FRAME_BYTES + if vector { XMM_BYTES } else { 0 };
    code.bytes(&[0x48, 0x89, 0xe1]); // mov rcx,rsp
    frames.cfa(code.here(), Cfa::Rcx(8));
    code.bytes(&[0x48, 0x83, 0xe4, 0xf0]); // and rsp,-16
    code.bytes(&[0x48, 0x81, 0xec]); // sub rsp,imm32
    code.bytes(&frame_bytes.to_le_bytes());
    code.bytes(&[0x48, 0x89, 0x4c, 0x24, RETURN_STACK_AT]); // mov [rsp+56],rcx
    frames.cfa(code.here(), Cfa::SavedStack { at: RETURN_STACK_AT, plus: 8 });
    move_saved(code, STORE, 0);
    code.bytes(&[0x48, 0xc7, 0x84, 0x24]); // mov qword [rsp+disp32],0
    code.bytes(&ROUNDS_AT.to_le_bytes());
    code.bytes(&[0; 4]);
    if vector {
        move_vectors(code, 0x29); // movaps [rsp+disp32],xmm
    }
    code.place(again);
    raise_shield(code, target.shield);
    code.bytes(&[0x48, 0x89, 0xe7]); // mov rdi,rsp
    code.bytes(&[0x48, 0xb8]); // mov rax,imm64
    code.bytes(&target.address.to_le_bytes());
    code.bytes(&[0xff, 0xd0]); // call rax
    lower_shield(code, target.shield);
    code.jump_if(When::NotZero, deliver);
    code.place(go_on);
    if target.answers {
        code.bytes(&[0x83, 0xf8, Verdict::Wait as u8]); // cmp eax,imm8
        code.jump_if(When::Zero, wait);
    }
    code.bytes(&[0x85, 0xc0]); // test eax,eax: ZF = Done, kept by all that follows
    if vector {
        move_vectors(code, 0x28); // movaps xmm,[rsp+disp32]
    }
    move_saved(code, LOAD, 0);
    code.bytes(&[0x48, 0x8b, 0x64, 0x24, RETURN_STACK_AT]); // mov rsp,[rsp+56]
    frames.cfa(code.here(), Cfa::Stack(8));
    code.bytes(&[0xc3]); // ret
    frames.cfa(code.here(), Cfa::SavedStack { at: RETURN_STACK_AT, plus: 8 });
    code.place(wait);
    wait_and_repeat(code, again);
    code.place(deliver);
    deliver_cancellation(code, target.shield, go_on);
    frames.end(code.here());
    start
}

/// Makes the call that the hook wants to wait in. The frame stays on the stack, and the unwinder
/// knows of it, so that a thread cancelled here goes the way it would go from libc.
fn wait_and_repeat(code: &mut Assembler, again: Label) {
    move_saved(code, LOAD, WAIT_AT);
    code.bytes(&SYSCALL);
    code.bytes(&[0x48, 0x89, 0x44, 0x24, WAITED_AT]); // mov [rsp+disp8],rax
    code.bytes(&[0x48, 0xff, 0x84, 0x24]); // inc qword [rsp+disp32]
    code.bytes(&ROUNDS_AT.to_le_bytes());
    code.jump_to(again);
}

/// From here on a cancellation is put off. An outer frame's mark is kept, unless it is not above
/// this frame on the stack: then that frame was left by a jump, and its mark means nothing.
fn raise_shield(code: &mut Assembler, shield: i32) {
    code.bytes(&[0x31, 0xc9]); // xor ecx,ecx
    code.bytes(&[0x64, 0x48, 0x8b, 0x04, 0x25]); // mov rax,fs:[disp32]
    code.bytes(&shield.to_le_bytes());
    code.bytes(&[0x48, 0x39, 0xe0]); // cmp rax,rsp
    code.bytes(&[0x48, 0x0f, 0x46, 0xc1]); // cmovbe rax,rcx
    code.bytes(&[0x48, 0x89, 0x84, 0x24]); // mov [rsp+disp32],rax
    code.bytes(&OUTER_AT.to_le_bytes());
    code.bytes(&[0x64, 0x48, 0x89, 0x24, 0x25]); // mov fs:[disp32],rsp
    code.bytes(&shield.to_le_bytes());
}

/// From here on it is not. ZF tells that none came meanwhile; eax is kept. This order loses none:
/// one that comes between the two instructions takes effect at once.
fn lower_shield(code: &mut Assembler, shield: i32) {
    code.bytes(&[0x48, 0x8b, 0x8c, 0x24]); // mov rcx,[rsp+disp32]
    code.bytes(&OUTER_AT.to_le_bytes());
    code.bytes(&[0x64, 0x48, 0x89, 0x0c, 0x25]); // mov fs:[disp32],rcx
    code.bytes(&shield.to_le_bytes());
    code.bytes(&[0x64, 0x48, 0x83, 0x3c, 0x25]); // cmp qword fs:[disp32],0
    code.bytes(&(shield + shield::PENDING_AT).to_le_bytes());
    code.bytes(&[0]);
}

/// Sends the put-off signal to this thread again, unless an outer hook is still at work. If
/// libc's handler does not end the thread, the hook's answer is carried out.
fn deliver_cancellation(code: &mut Assembler, shield: i32, go_on: Label) {
    code.bytes(&[0x48, 0x85, 0xc9]); // test rcx,rcx
    code.jump_if(When::NotZero, go_on);
    code.bytes(&[0x89, 0x84, 0x24]); // mov [rsp+disp32],eax
    code.bytes(&VERDICT_AT.to_le_bytes());
    code.bytes(&[0x64, 0x48, 0xc7, 0x04, 0x25]); // mov qword fs:[disp32],0
    code.bytes(&(shield + shield::PENDING_AT).to_le_bytes());
    code.bytes(&[0; 4]);
    call_number(code, libc::SYS_getpid);
    code.bytes(&[0x89, 0xc7]); // mov edi,eax
    call_number(code, libc::SYS_gettid);
    code.bytes(&[0x89, 0xc6]); // mov esi,eax
    code.bytes(&[0xba]); // mov edx,imm32
    code.bytes(&(shield::SIGCANCEL as u32).to_le_bytes());
    call_number(code, libc::SYS_tgkill);
    code.bytes(&[0x8b, 0x84, 0x24]); // mov eax,[rsp+disp32]
    code.bytes(&VERDICT_AT.to_le_bytes());
    code.jump_to(go_on);
}

fn call_number(code: &mut Assembler, number: i64) {
    code.bytes(&[0xb8]); // mov eax,imm32
    code.bytes(&(number as u32).to_le_bytes());
    code.bytes(&SYSCALL);
}

/// Moves rax, rdi, rsi, rdx, r10, r8, r9 from or to seven words at `[rsp + from]`.
fn move_saved(code: &mut Assembler, opcode: u8, from: u8) {
    for (place, (rex, modrm)) in SAVED.iter().enumerate() {
        code.bytes(&[*rex, opcode, *modrm, 0x24, from + place as u8 * 8]);
    }
}

fn move_vectors(code: &mut Assembler, opcode: u8) {
    for register in 0..16_u8 {
        if register >= 8 {
            code.bytes(&[0x44]); // REX.R
        }
        code.bytes(&[0x0f, opcode, 0x84 | (register & 7) << 3, 0x24]);
        code.bytes(&(FRAME_BYTES + i32::from(register) * 16).to_le_bytes());
    }
}
