//! The machine code that saves registers, calls the hook and carries out its answer.
//!
//! One instance per hook and per what it saves ([`Saves`]). Every stretch is described to the
//! unwinder as it is written. The hook's verdict goes back in rcx, which every system call
//! destroys, so that the flags are free to be what they were.
//!
//! ```text
//! frame of the routine, 16-byte aligned   rsp ->   0 rax     8 rdi   16 rsi   24 rdx
//! (SyscallFrame, then the vectors)                32 r10    40 r8    48 r9    56 rsp before
//!                                                 64-112 wait's rax, rdi ... r9
//!                                                120 waited 128 rounds       136 scratch
//!                                                144 outer shield         152 verdict
//!                                                160 flags                168 unused
//! Saves::Xmm                                      176 xmm0 ... 416 xmm15
//! Saves::Everything, 64-byte aligned              192 XSAVE area
//! ```

use super::assemble::{Assembler, Label, When};
use super::extended::Extended;
use super::unwind::{Cfa, FrameTable};
use super::{shield, SyscallFrame, Verdict};
use std::mem::offset_of;

/// The instruction itself.
pub(super) const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// Six routines, each of some 340 bytes, or 600 with vector registers; three that save everything
/// have some 480.
pub(super) const ROUTINES_BYTES_MAX: usize = 4096;

/// A direct call reaches as far, less a margin for the instruction itself.
const DIRECT_CALL_BYTES_MAX: u64 = (1 << 31) - 4096;

const FRAME_BYTES: i32 = size_of::<SyscallFrame>() as i32;
const XMM_BYTES: i32 = 16 * 16;
const RETURN_STACK_AT: u8 = offset_of!(SyscallFrame, return_stack) as u8;
const WAIT_AT: u8 = offset_of!(SyscallFrame, wait) as u8;
const WAITED_AT: u8 = offset_of!(SyscallFrame, waited) as u8;
const ROUNDS_AT: i32 = offset_of!(SyscallFrame, rounds) as i32;
const OUTER_AT: i32 = offset_of!(SyscallFrame, reserved) as i32;
const VERDICT_AT: i32 = OUTER_AT + 8;
const FLAGS_AT: i32 = OUTER_AT + 16;
/// The XSAVE area, and where its header lies, which XRSTOR wants to be zero (SDM, vol. 1, 13.4).
const AREA_AT: i32 = (FRAME_BYTES + 63) / 64 * 64;
const AREA_HEADER: std::ops::Range<i32> = 512..576;
/// Displacements up to here fit into one signed byte.
const _: () = assert!(RETURN_STACK_AT < 64 && WAITED_AT < 128 && FRAME_BYTES % 16 == 0);
const _: () = assert!(Verdict::Done as u32 == 0 && offset_of!(SyscallFrame, args) == 8);

const STORE: u8 = 0x89; // mov [rsp+8n],reg
const LOAD: u8 = 0x8b; // mov reg,[rsp+8n]
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

/// What a routine keeps over the hook beside the general registers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Saves {
    /// Nothing: the code around the site has no use for more.
    General,
    /// xmm0-15.
    Xmm,
    /// Flags, and all that a vector instruction can change: whatever the kernel keeps.
    Everything(Extended),
}

/// What a routine calls, and whether it answers with a [`Verdict`].
#[derive(Clone, Copy)]
pub(super) struct Target {
    /// The hook.
    pub address: u64,
    /// Whether it returns a [`Verdict`].
    pub answers: bool,
    /// Distance of the thread's shield from its thread pointer.
    pub shield: i32,
}

/// Writes one shared routine, which calls `target` with a [`SyscallFrame`]; answers where it is.
pub(super) fn routine(
    code: &mut Assembler<'_>,
    frames: &mut FrameTable,
    target: Target,
    saves: Saves,
) -> u64 {
    code.align();
    let start = code.here();
    let (again, wait) = (code.label(), code.label());
    let (deliver, go_on) = (code.label(), code.label());
    frames.begin_called(start);
    save(code, frames, saves);
    code.place(again);
    raise_shield(code, target.shield);
    call_hook(code, target.address);
    lower_shield(code, target.shield);
    code.jump_if(When::NotZero, deliver);
    code.place(go_on);
    if target.answers {
        code.bytes(&[0x83, 0xf8, Verdict::Wait as u8]); // cmp eax,imm8
        code.jump_if(When::Zero, wait);
    }
    code.bytes(&[0x89, 0xc1]); // mov ecx,eax: zero = Done, kept by all that follows
    load_and_return(code, frames, saves);
    frames.cfa(code.here(), Cfa::SavedStack { at: RETURN_STACK_AT, plus: 8 });
    code.place(wait);
    wait_and_repeat(code, again);
    code.place(deliver);
    deliver_cancellation(code, target.shield, go_on);
    frames.end(code.here());
    start
}

/// Makes the frame. rcx and r11, which the kernel would destroy, hold the stack and the flags until
/// the frame does.
fn save(code: &mut Assembler<'_>, frames: &mut FrameTable, saves: Saves) {
    if let Saves::Everything(_) = saves {
        code.bytes(&[0x9c]); // pushfq
        frames.cfa(code.here(), Cfa::Stack(16));
        code.bytes(&[0x41, 0x5b]); // pop r11
        frames.cfa(code.here(), Cfa::Stack(8));
        code.bytes(&[0xfc]); // cld, as the kernel has it and every compiler's code expects it
    }
    let (align, frame_bytes) = match saves {
        Saves::General => (16_i8, FRAME_BYTES),
        Saves::Xmm => (16, FRAME_BYTES + XMM_BYTES),
        Saves::Everything(extended) => (64, AREA_AT + extended.area_bytes as i32),
    };
    code.bytes(&[0x48, 0x89, 0xe1]); // mov rcx,rsp
    frames.cfa(code.here(), Cfa::Rcx(8));
    code.bytes(&[0x48, 0x83, 0xe4, -align as u8]); // and rsp,imm8
    code.bytes(&[0x48, 0x81, 0xec]); // sub rsp,imm32
    code.bytes(&frame_bytes.to_le_bytes());
    code.bytes(&[0x48, 0x89, 0x4c, 0x24, RETURN_STACK_AT]); // mov [rsp+disp8],rcx
    frames.cfa(code.here(), Cfa::SavedStack { at: RETURN_STACK_AT, plus: 8 });
    move_saved(code, STORE, 0);
    store_zero(code, ROUNDS_AT);
    match saves {
        Saves::General => {}
        Saves::Xmm => move_vectors(code, 0x29), // movaps [rsp+disp32],xmm
        Saves::Everything(extended) => {
            code.bytes(&[0x4c, 0x89, 0x9c, 0x24]); // mov [rsp+disp32],r11
            code.bytes(&FLAGS_AT.to_le_bytes());
            AREA_HEADER.step_by(8).for_each(|at| store_zero(code, AREA_AT + at));
            move_area(code, extended, 0xa4); // xsave64 [rsp+disp32]
        }
    }
}

fn store_zero(code: &mut Assembler<'_>, at: i32) {
    code.bytes(&[0x48, 0xc7, 0x84, 0x24]); // mov qword [rsp+disp32],0
    code.bytes(&at.to_le_bytes());
    code.bytes(&[0; 4]);
}

/// XSAVE or XRSTOR by its ModRM byte, of the components that a hook may change. Takes rax and rdx.
fn move_area(code: &mut Assembler<'_>, extended: Extended, modrm: u8) {
    code.bytes(&[0xb8]); // mov eax,imm32
    code.bytes(&extended.components.to_le_bytes());
    code.bytes(&[0x31, 0xd2]); // xor edx,edx
    code.bytes(&[0x48, 0x0f, 0xae, modrm, 0x24]);
    code.bytes(&AREA_AT.to_le_bytes());
}

fn call_hook(code: &mut Assembler<'_>, address: u64) {
    code.bytes(&[0x48, 0x89, 0xe7]); // mov rdi,rsp

    // Right after a system call the processor guesses no indirect branch, and waits for it.
    if address.abs_diff(code.here()) < DIRECT_CALL_BYTES_MAX {
        return code.call(address);
    }
    code.bytes(&[0x48, 0xb8]); // mov rax,imm64
    code.bytes(&address.to_le_bytes());
    code.bytes(&[0xff, 0xd0]); // call rax
}

/// The frame's registers, the stack before it, and back to the trampoline. rcx is kept.
fn load_and_return(code: &mut Assembler<'_>, frames: &mut FrameTable, saves: Saves) {
    match saves {
        Saves::General => {}
        Saves::Xmm => move_vectors(code, 0x28), // movaps xmm,[rsp+disp32]
        Saves::Everything(extended) => {
            move_area(code, extended, 0xac); // xrstor64 [rsp+disp32]
            code.bytes(&[0x4c, 0x8b, 0x9c, 0x24]); // mov r11,[rsp+disp32]
            code.bytes(&FLAGS_AT.to_le_bytes());
        }
    }
    move_saved(code, LOAD, 0);
    code.bytes(&[0x48, 0x8b, 0x64, 0x24, RETURN_STACK_AT]); // mov rsp,[rsp+disp8]
    frames.cfa(code.here(), Cfa::Stack(8));
    if let Saves::Everything(_) = saves {
        code.bytes(&[0x41, 0x53]); // push r11
        frames.cfa(code.here(), Cfa::Stack(16));
        code.bytes(&[0x9d]); // popfq
        frames.cfa(code.here(), Cfa::Stack(8));
    }
    code.bytes(&[0xc3]); // ret
}

/// Makes the call that the hook wants to wait in. The frame stays on the stack, and the unwinder
/// knows of it, so that a thread cancelled here goes the way it would go from libc.
fn wait_and_repeat(code: &mut Assembler<'_>, again: Label) {
    move_saved(code, LOAD, WAIT_AT);
    code.bytes(&SYSCALL);
    code.bytes(&[0x48, 0x89, 0x44, 0x24, WAITED_AT]); // mov [rsp+disp8],rax
    code.bytes(&[0x48, 0xff, 0x84, 0x24]); // inc qword [rsp+disp32]
    code.bytes(&ROUNDS_AT.to_le_bytes());
    code.jump_to(again);
}

/// From here on a cancellation is put off. An outer frame's mark is kept, unless it is not above
/// this frame on the stack: then that frame was left by a jump, and its mark means nothing.
fn raise_shield(code: &mut Assembler<'_>, shield: i32) {
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
fn lower_shield(code: &mut Assembler<'_>, shield: i32) {
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
fn deliver_cancellation(code: &mut Assembler<'_>, shield: i32, go_on: Label) {
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

fn call_number(code: &mut Assembler<'_>, number: i64) {
    code.bytes(&[0xb8]); // mov eax,imm32
    code.bytes(&(number as u32).to_le_bytes());
    code.bytes(&SYSCALL);
}

/// Moves rax, rdi, rsi, rdx, r10, r8, r9 from or to seven words at `[rsp + from]`.
fn move_saved(code: &mut Assembler<'_>, opcode: u8, from: u8) {
    for (place, (rex, modrm)) in SAVED.iter().enumerate() {
        code.bytes(&[*rex, opcode, *modrm, 0x24, from + place as u8 * 8]);
    }
}

fn move_vectors(code: &mut Assembler<'_>, opcode: u8) {
    for register in 0..16_u8 {
        if register >= 8 {
            code.bytes(&[0x44]); // REX.R
        }
        code.bytes(&[0x0f, opcode, 0x84 | (register & 7) << 3, 0x24]);
        code.bytes(&(FRAME_BYTES + i32::from(register) * 16).to_le_bytes());
    }
}
