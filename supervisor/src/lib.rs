//! The supervisor of a sealed program: puts it behind the fence, and answers what it asks.
//!
//! A sealed program reaches nothing but itself, the descriptors it holds, and what its policy
//! grants. The fence is the kernel's (`filter`, `fence`); what it does not pass comes in here
//! (`serve`) and is answered from one set of tables (`calls`, `paths`, `net`).
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod acting;
mod behalf;
mod births;
mod call;
mod calls;
mod control;
mod errno;
mod fence;
mod filter;
#[cfg(any(test, feature = "foreign"))]
#[doc(hidden)]
pub mod foreign;
mod granted;
mod held;
mod identity;
mod images;
mod limits;
mod lookup;
mod made;
mod memory;
mod mending;
mod net;
mod own_fence;
mod paths;
mod plan;
mod presence;
mod proc;
mod refused;
pub mod report;
mod serve;
mod signals;
mod spaces;
mod supervisor;
mod system;
mod trace;
pub mod tree;
mod turn;
mod uncharged;

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use heliostat_backend_seal::{fork_telling, is_taken, Fork, Handover, Hearer, Listener, Teller};
use heliostat_base::fd::OwnedFd;
use heliostat_base::sys::Errno;
use heliostat_control::policy::record::Recorder;
use heliostat_control::policy::{PathGrant, Policy};

pub use fence::landlock_abi;
pub use identity::Identities;
pub use plan::{Plan, SealError};
pub use spaces::are_allowed as spaces_are_allowed;

use crate::behalf::Behalf;
use crate::births::Births;
use crate::filter::Fenced;
use crate::memory::MemoryGroup;
use crate::paths::View;
use crate::spaces::Spaces;
use crate::supervisor::Supervisor;

/// A sealed program that has not been waited for.
pub struct Sealed {
    /// Number of its first process, a child of this one.
    pub child: i32,
    /// What `explain` reads; removed with it.
    #[allow(dead_code)]
    report: Option<report::Report>,
    supervisor: Arc<Supervisor>,
}

/// Whether another supervisor listens to this process, so that it can get none of its own.
///
/// # Errors
/// The sentence that says so.
pub fn check_untaken() -> Result<(), SealError> {
    match is_taken() {
        true => Err(SealError::Fence(Errno(libc::EBUSY))),
        false => Ok(()),
    }
}

/// Forks; the child is put behind the fence and then makes `become_program`, which gets the folder
/// for temporary files if that is the program's own, and must not return. This process answers its calls from now on, in threads of its own.
///
/// The caller has one thread only, and keeps the result until the program has ended.
///
/// # Errors
/// `SealError`; the child has then ended.
pub fn seal(
    plan: Plan<'_>,
    become_program: impl FnOnce(Option<&Path>) -> i32,
) -> Result<Sealed, SealError> {
    let mut plan = plan;
    let given = granted::take_besides(&mut plan);
    let limits = plan.policy.limits;
    let fenced = fence::probe().map_err(|_| SealError::NoLandlock)?;
    let places = granted::own_places(&plan);
    let spaces = granted::make_spaces(&plan, &places);
    let handover = Handover::new().map_err(SealError::Fence)?;
    let fenced = Fenced {
        counts: limits.processes.is_some(),
        bounds: limits.memory.is_some(),
        becomes: plan.identities.is_some(),
        copies: handover.copies(),
        hides_users: spaces.as_ref().is_some_and(Spaces::hides_users),
        ..fenced
    };
    // Each grant is held open.
    let own_limit = limits::raise_descriptors();
    let ground = Ground::open(&plan, spaces.as_ref(), &places)?;
    ground.limit_own_files(plan.folder, spaces.as_ref()).map_err(SealError::Fence)?;
    match fork_telling().map_err(SealError::Fence)? {
        Fork::Child(teller) => {
            let limit = |bytes| memory::limit_program(ground.group.as_ref(), bytes);
            let limited = limits.memory.map_or(Ok(()), limit);
            let enter =
                |()| fence::enter(&ground.roots, spaces.as_ref(), fenced, &plan.kept, handover);
            let listener = limited.and_then(enter);
            tell(&teller, &listener);
            drop(teller);
            limits::restore_descriptors(own_limit);
            let temporary = ground.roots.temporary();
            let status = if listener.is_ok() { become_program(temporary) } else { 125 };
            // Its roots are the parent's to remove.
            std::mem::forget(ground);
            std::process::exit(status)
        }
        Fork::Parent(child, hearer) => {
            // Both sides put their fences up at the same time.
            own_fence::limit_calls(plan.identities.as_ref()).map_err(SealError::Fence)?;
            let listener = hear(child, &hearer, handover).map_err(SealError::Fence)?;
            supervise(child, listener, ground, fenced, plan, given)
        }
    }
}

/// Tells the parent the number of the listener, or why there is none.
fn tell(teller: &Teller, listener: &Result<OwnedFd, Errno>) {
    teller.tell(match listener {
        Ok(fd) => fd.as_raw_fd(),
        Err(Errno(number)) => -number,
    });
}

/// Takes the listener that the child has told of.
fn hear(child: i32, hearer: &Hearer, handover: Handover) -> Result<Listener, Errno> {
    match hearer.hear() {
        Some(number) if number >= 0 => Ok(Listener::new(handover.take(child, number)?)),
        other => Err(Errno(other.map_or(libc::ECHILD, |number| -number))),
    }
}

/// What the supervisor holds of the host.
struct Ground {
    roots: paths::Roots,
    report: Option<report::Report>,
    group: Option<MemoryGroup>,
    /// The text of /etc/resolv.conf.
    servers: String,
    behalf: Option<Behalf>,
}

impl Ground {
    /// Opens what the plan grants, in the spaces that there are.
    fn open(
        plan: &Plan<'_>,
        spaces: Option<&Spaces>,
        places: &[&'static str],
    ) -> Result<Ground, SealError> {
        let behalf = plan.identities.as_ref().and_then(|_| Behalf::of_root());
        let report = report::Report::create(plan.folder);
        let view = View { top: spaces.and_then(Spaces::top), places };
        let roots = granted::open_roots(plan, &view, report.as_ref())?;
        let group = plan.policy.limits.memory.and_then(memory::enter);
        // Names are looked up at the servers that this machine uses now.
        let servers = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        Ok(Ground { roots, report, group, servers, behalf })
    }

    /// Leaves this process the files of its own that it still has to open or remove.
    fn limit_own_files(&self, folder: &Path, spaces: Option<&Spaces>) -> Result<(), Errno> {
        let own = [Some(folder), self.roots.place().parent()];
        let own: Vec<_> = own.into_iter().flatten().collect();
        let removes = self.group.as_ref().and_then(|group| group.folder().parent());
        own_fence::limit_files(&self.roots, &own, removes, spaces.and_then(Spaces::queues))
    }
}

/// The parent's side: begins to answer. The child waits for the answer to its exec.
fn supervise(
    child: i32,
    listener: Listener,
    Ground { roots, report, group, servers, behalf }: Ground,
    fenced: Fenced,
    plan: Plan<'_>,
    given: Vec<PathGrant>,
) -> Result<Sealed, SealError> {
    listener.wake_on_one_processor();
    // Not the child's: new files' modes are masked by each program's own mask.
    let first_umask = rustix::process::umask(rustix::fs::Mode::empty()).bits();
    let recorder = plan.traces.then(|| {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let recorder = Recorder::new(given, home.into_iter().collect());
        recorder.with_environment(plan.policy.env.clone(), plan.untold.clone())
    });
    let lines = report.as_ref().and_then(report::Report::lines);
    let refused = Arc::new(Mutex::new(refused::Refused::new(plan.tells, lines, recorder)));
    let supervisor = Arc::new(Supervisor {
        listener,
        roots,
        lookups: lookups(&plan.policy, &servers, &refused),
        refused,
        control: control::ControlPlane::new(plan.control, &plan.policy),
        births: Births::new(plan.policy.limits.processes),
        uncharged: uncharged::Uncharged::default(),
        group,
        policy: plan.policy,
        tells_identity: Mutex::new(Some(plan.tells_identity)),
        own: rustix::process::getpid().as_raw_nonzero().get(),
        fenced,
        is_traced: plan.traces,
        identities: plan.identities,
        behalf,
        begun: SystemTime::now(),
        images: images::Images::default(),
        made: (!fenced.copies).then(made::Made::new),
        shares: AtomicBool::new(false),
        places_itself: AtomicBool::new(false),
        first_umask,
        sets_umask: AtomicBool::new(false),
    });
    serve::start(&supervisor).map_err(SealError::Fence)?;
    Ok(Sealed { child, report, supervisor })
}

/// Look-ups at the servers of resolv.conf(5).
fn lookups(
    policy: &Policy,
    servers: &str,
    refused: &Arc<Mutex<refused::Refused>>,
) -> lookup::Lookups {
    let refused = refused.clone();
    let told = move |name: &str, what| {
        let Ok(mut refused) = refused.lock() else { return };
        match what {
            lookup::NameEvent::Asked(granted) => refused.name(name, granted),
            lookup::NameEvent::Has(ip) => refused.learned(name, ip),
        }
    };
    lookup::Lookups::new(policy, servers, Box::new(told))
}

/// Whether a control group for the memory of sealed programs can be made here: tried, and removed.
pub fn memory_group_is_allowed() -> bool {
    let made = MemoryGroup::make(1 << 30);
    made.iter().for_each(MemoryGroup::remove);
    made.is_some()
}

impl Sealed {
    /// What to call when the last sealed process has ended, from any thread: removes what the
    /// supervisor made on the host.
    pub fn cleaner(&self) -> impl Fn() + Send + 'static {
        let supervisor = self.supervisor.clone();
        move || {
            supervisor.roots.remove();
            supervisor.group.iter().for_each(MemoryGroup::remove);
        }
    }

    /// How many different things were refused so far.
    pub fn refusals(&self) -> i32 {
        self.supervisor.refused.lock().map_or(0, |refused| refused.count())
    }

    /// The policy file that the program needs, if it is traced; `command` says what was run.
    pub fn traced(&self, command: &str) -> Option<String> {
        let all = self.supervisor.refused.lock().ok()?;
        all.recorder().map(|recorder| recorder.to_toml(command))
    }
}
