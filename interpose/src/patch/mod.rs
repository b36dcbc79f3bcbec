//! Patches the libc of this process, once, before it has other threads; then other files.
//!
//! ```text
//!  libc text                         trampoline (one per site)       shared routine
//!  --------------------------------  ------------------------------  -------------------------
//!  mov eax,1   -> jmp trampoline --> mov eax,1
//!                                    lea rsp,[rsp-128]  (red zone)
//!                                    call routine -----------------> save argument registers
//!                                                                    call the hook
//!                                    lea rsp,[rsp+128] <------------ load them, result in rax
//!  syscall     <-------------------- jnz   (Pass: nothing remains on the stack)
//!  cmp rax,..  <-------------------- jmp   (Done)
//! ```
//! Everything that can fail is tried before the first byte of text changes. There is no undoing:
//! a thread may be anywhere in a trampoline at any later time.

mod assemble;
mod error;
mod extended;
mod libraries;
mod loading;
mod memory;
mod object;
mod ready;
mod routine;
mod shield;
mod trampoline;
mod unwind;

use crate::cache::{self, CacheError};
use crate::site::{number, BuildId, Reason, Site, SiteList};
use extended::Extended;
use memory::{NearMemory, Patch};
pub use object::is_go_program;
use object::Object;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use trampoline::{Builder, Hooks};

pub use error::PatchError;
pub use libraries::{install_libraries, Examine, Left, Libraries, Why};
pub use loading::on_loading;
pub use ready::{install_image, write_image};
pub use unwind::before_thread;

/// What a caught system call looks like to the hook: the kernel's registers, and its result.
///
/// `rax` and `args` are loaded back into the registers afterwards, so a hook that answers
/// [`Verdict::Pass`] may change arguments, but then the program sees the changed registers.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SyscallFrame {
    /// In: the number. Out, with [`Verdict::Done`]: the result, `-errno` on failure.
    pub rax: u64,
    /// rdi, rsi, rdx, r10, r8, r9.
    pub args: [u64; 6],
    /// Reserved to the trampoline: the stack it returns to. Must not be changed.
    pub return_stack: u64,
    /// Out, with [`Verdict::Wait`]: the call to wait in, its number and its arguments.
    pub wait: [u64; 7],
    /// In, once `rounds` is not zero: the result of the last wait.
    pub waited: i64,
    /// In: how often the trampoline has waited for this call. Zero at first; the hook may not
    /// change it, but everything else it writes here, it finds again after the wait.
    pub rounds: u64,
    /// The hook's own, to remember something over a wait. Not initialised.
    pub scratch: u64,
    /// Reserved to the trampoline.
    pub reserved: [u64; 4],
}

impl SyscallFrame {
    /// Has the program go on with another stack pointer, as the child of a clone(2) that names a
    /// stack does. For [`Verdict::Done`].
    ///
    /// # Safety
    /// The trampoline's own frame; `stack` is the end of memory for a stack, which nobody uses yet.
    pub unsafe fn go_on_at(&mut self, stack: u64) {
        let return_stack = stack - trampoline::BELOW_STACK_BYTES;
        // SAFETY: the trampoline's return address lies where its stack ends; the copy lies on the new
        // stack, as far below its end.
        unsafe { *(return_stack as *mut u64) = *(self.return_stack as *const u64) };
        self.return_stack = return_stack;
    }
}

/// What the trampoline is to do after the hook.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Verdict {
    /// The call is done, its result is in [`SyscallFrame::rax`].
    Done = 0,
    /// Make the real call, by libc's own instruction where that survived, without a frame of
    /// ours on the stack: cancellation and jumps out of signal handlers are as without us.
    Pass = 1,
    /// Make the call in [`SyscallFrame::wait`], then call the hook again with this same frame.
    ///
    /// This is how a hook sleeps: none of its own frames is on the stack meanwhile, so the thread
    /// can be cancelled there, or a signal handler jump away, and no Rust code is unwound.
    Wait = 2,
}

/// Called for each caught system call, on the program's stack, with its signal mask.
///
/// It may be entered again from a signal handler or by libc functions it calls, at any depth. It
/// must return (no unwinding) and keep errno, mxcsr and the x87 state. Cancellation of the thread
/// is put off until it returns, so it should block in [`Verdict::Wait`] and not by itself. Calls
/// that share memory
/// with their child (clone with `CLONE_VM`, vfork, clone3) and rt_sigreturn never come here.
pub type HookFn = extern "C" fn(*mut SyscallFrame) -> Verdict;

/// Called before a call that makes a child sharing this memory: clone with `CLONE_VM`, vfork,
/// clone3. It cannot answer; the call follows in any case. A vfork-like child runs on with this
/// thread's registers and thread-local memory, and its calls reach the [`HookFn`] as if they were
/// the parent's, until it execs: this tells a hook when to ask which process it is in.
pub type SpawnFn = extern "C" fn(*mut SyscallFrame);

/// The gate of the sites of a number: while its word is zero their calls pass by the hook, and cost what
/// they cost in a site that is not patched. `None`: they always reach the hook.
pub type GateFn = fn(u32) -> Option<&'static AtomicU32>;

/// What to patch, and how.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Chooses the sites by number; `None` are those whose number is not known before the call.
    pub filter: fn(Option<u32>) -> bool,
    /// Receives the calls.
    pub hook: HookFn,
    /// Hears of the calls that the hook may not receive; without it those are left alone.
    pub before_spawn: Option<SpawnFn>,
    /// Which sites have a gate; none where nothing is given. Those of an image have none.
    pub gate: Option<GateFn>,
    /// The site list's file, or `None` to look in the usual cache directories.
    pub list: Option<&'a Path>,
    /// What is known about other threads.
    pub threads: Threads,
}

/// What is known about other threads of this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threads {
    /// Ask the kernel, and refuse if there is another.
    MustBeAlone,
    /// The caller vouches that none executes libc's text until `install` returns.
    HeldByCaller,
}

/// What was done.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Installed {
    /// Sites that now reach the hook, and those of rt_sigaction, which are patched in any case.
    pub patched: usize,
    /// Sites that the filter wanted and that cannot be patched: number, and why.
    pub unpatchable: Vec<(Option<u32>, Reason)>,
}

static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Patches the libc of this process so that its system calls reach the hook.
///
/// To be called once, as early as a constructor allows. See the module for what it leaves behind.
pub fn install(request: &Request) -> Result<Installed, PatchError> {
    if INSTALLED.swap(true, Ordering::Relaxed) {
        return Err(PatchError::AlreadyInstalled);
    }
    let done = prepare(request).and_then(|plan| {
        // SAFETY: `prepare` has compared every site with its recorded bytes, written the
        // trampolines that the jumps lead to, and made sure of, or been told of, the threads.
        unsafe { memory::write_text(&plan.patches) }.map_err(PatchError::Protect)?;
        unwind::register(plan.frames);
        Ok(plan.installed)
    });
    if done.is_err() {
        INSTALLED.store(false, Ordering::Relaxed);
    }
    done
}

/// The path of the libc of this process, as the dynamic linker names it.
pub fn libc_path() -> Option<PathBuf> {
    Object::libc().map(|object| object.path)
}

/// Where libc's constants lie, once it is patched.
static CONSTANTS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Whether a byte at this address is one of libc's constants, which stay mapped and are never
/// written. Known once libc is patched; until then nothing is.
#[inline]
pub fn is_constant_of_libc(address: u64) -> bool {
    let [start, end] = &CONSTANTS;
    (start.load(Ordering::Relaxed)..end.load(Ordering::Relaxed)).contains(&address)
}

/// What remains to be done when nothing can fail for good reasons any more.
struct Plan {
    patches: Vec<Patch>,
    frames: Vec<u8>,
    installed: Installed,
}

/// Whether text may be replaced in this process at all.
fn check_process(request: &Request) -> Result<(), PatchError> {
    if memory::shadow_stack_enabled() {
        return Err(PatchError::ShadowStack);
    }
    let threads = memory::thread_count().map_err(PatchError::ThreadCount)?;
    if request.threads == Threads::MustBeAlone && threads != 1 {
        return Err(PatchError::Threads { found: threads });
    }
    Ok(())
}

fn note_constants(object: &Object) {
    CONSTANTS[0].store(object.constants.start, Ordering::Relaxed);
    CONSTANTS[1].store(object.constants.end, Ordering::Relaxed);
}

fn prepare(request: &Request) -> Result<Plan, PatchError> {
    check_process(request)?;
    let object = Object::libc().ok_or(PatchError::NoLibc)?;
    let build_id = object.build_id.ok_or(PatchError::NoBuildId { path: object.path.clone() })?;
    let list = find_list(request, &build_id)?;
    let (wanted, found) = ((list.text_start, list.text_bytes), object.text);
    if wanted != found {
        return Err(PatchError::Segment { wanted, found });
    }
    note_constants(&object);
    let mut installed = Installed::default();
    let chosen = choose(request, &list, &mut installed);
    if let Some(site) = chosen.iter().find(|site| !object.holds(site.start, site.window())) {
        return Err(PatchError::TextChanged { offset: site.start });
    }
    build(request, &object, &chosen, installed, None)
}

/// The sites that the filter wants, and those of the shield, whoever else wants them or not.
fn find_list(request: &Request, build_id: &BuildId) -> Result<SiteList, PatchError> {
    let no_list = |source| PatchError::NoList { build_id: *build_id, source };
    let keep = |number| (request.filter)(number) || number == Some(number::RT_SIGACTION);
    if let Some(path) = request.list {
        return cache::load_where(path, build_id, &keep).map_err(no_list);
    }
    let mut last = None;
    for directory in cache::candidates() {
        let path = cache::file_name(&directory, build_id);
        match cache::load_where(&path, build_id, &keep) {
            Ok(list) => return Ok(list),
            Err(error) => last = Some(error),
        }
    }
    let unlooked = CacheError::Io { path: PathBuf::new(), source: io::ErrorKind::NotFound.into() };
    Err(no_list(last.unwrap_or(unlooked)))
}

/// The sites to patch; counts them, and those that cannot be.
fn choose<'a>(request: &Request, list: &'a SiteList, installed: &mut Installed) -> Vec<&'a Site> {
    let mut chosen = Vec::with_capacity(list.sites.len());
    for site in &list.sites {
        let announced = request.before_spawn.is_some() && trampoline::can_announce(site);
        if let (Some(reason), false) = (site.refusal, announced) {
            if (request.filter)(site.number) {
                installed.unpatchable.push((site.number, reason));
            }
        } else {
            installed.patched += 1;
            chosen.push(site);
        }
    }
    chosen
}

fn hooks(request: &Request) -> Hooks {
    let wanted = (request.filter)(Some(number::RT_SIGACTION));
    Hooks {
        call: request.hook,
        sigaction: shield::sigaction_hook(wanted.then_some(request.hook)),
        spawn: request.before_spawn,
        gate: request.gate,
    }
}

fn build(
    request: &Request,
    object: &Object,
    chosen: &[&Site],
    installed: Installed,
    everything: Option<Extended>,
) -> Result<Plan, PatchError> {
    let room = Builder::bytes_max(chosen.len());
    let text = object.text_addresses();
    let mut near = NearMemory::map(&text, room).ok_or(PatchError::NoRoomNear { wanted: room })?;
    let hooks = hooks(request);
    let mut builder = Builder::new(near.address(), near.room(), chosen.len(), &hooks, everything);
    let patches = chosen.iter().map(|site| builder.add(site, object.base)).collect();
    let finished = builder.finish().ok_or(PatchError::NoRoomNear { wanted: room })?;
    let (code_bytes, frames) = finished;
    if code_bytes > room {
        return Err(PatchError::NoRoomNear { wanted: code_bytes });
    }
    near.seal().map_err(PatchError::Protect)?;
    Ok(Plan { patches, frames, installed })
}
