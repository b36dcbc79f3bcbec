//! Patches what else is loaded: libraries, and the program itself, where they make system calls.
//!
//! Of each file it is known from the cache whether there is anything to catch, and where. Of those
//! that are new somebody is asked to find out ([`Examine`]): here is no decoder. Never patched are
//! the dynamic linker, whose calls come before and below everything, the kernel's vDSO, and what
//! is Heliostat's own: the library that this code is in, and those with a note that says so.

use super::memory::{write_text, Patch};
use super::object::Object;
use super::{build, choose, find_list, unwind, Installed, PatchError, Request};
use crate::cache;
use crate::index::{Finding, Index};
use crate::patch::extended::Extended;
use crate::site::{BuildId, Reason, Site, SiteList, JUMP_BYTES};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Has files examined that nobody has examined yet, so that the cache knows them afterwards.
pub type Examine<'a> = &'a dyn Fn(&[PathBuf]);

/// What was done to the files other than libc.
#[derive(Debug, Default)]
pub struct Libraries {
    /// Sites that now reach the hook.
    pub patched: usize,
    /// In how many files they are.
    pub files: usize,
    /// What can make system calls that nobody catches.
    pub left: Vec<Left>,
}

/// Something in a file that is not caught.
#[derive(Debug)]
pub struct Left {
    /// The file.
    pub path: PathBuf,
    /// What.
    pub why: Why,
}

/// Why it is not caught.
#[derive(Debug)]
pub enum Why {
    /// One site, with its number if that is known, cannot be patched.
    Site(Option<u32>, Reason),
    /// Whether it makes system calls by itself is not known.
    Unexamined {
        /// It may, and is of a kind that cannot be examined; else nobody has.
        is_known: bool,
    },
    /// It could not be patched at all.
    Failed(PatchError),
}

/// What is to be done about a file.
enum Task {
    Nothing,
    Patch(SiteList),
    Examine,
    Leave,
}

/// The first file is libc.
static PATCHED_FILES: AtomicUsize = AtomicUsize::new(1);
/// The program, which the dynamic linker gives no name.
const PROGRAM: &str = "/proc/self/exe";

/// Patches all loaded files but libc, which [`super::install`] has patched. What is patched already
/// stays as it is, so that this can be done again when more has been loaded.
///
/// No thread may be in the text of a file that is not patched yet, as right after it was mapped.
pub fn install_libraries(request: &Request, examine: Examine<'_>) -> Libraries {
    let objects = candidates();
    let mut tasks = judge_all(request, &objects);
    let is_unknown = |task: &Task| matches!(task, Task::Examine);
    let unknown = objects.iter().zip(&tasks).filter(|(_, task)| is_unknown(task));
    let unknown: Vec<PathBuf> = unknown.map(|((object, _), _)| object.path.clone()).collect();
    if !unknown.is_empty() {
        examine(&unknown);
        tasks = judge_all(request, &objects);
    }
    let mut libraries = Libraries::default();
    for ((object, _), task) in objects.iter().zip(tasks) {
        let left = |why| Left { path: object.path.clone(), why };
        match task {
            Task::Nothing => {}
            Task::Examine => libraries.left.push(left(Why::Unexamined { is_known: false })),
            Task::Leave => libraries.left.push(left(Why::Unexamined { is_known: true })),
            Task::Patch(list) => match patch(request, object, &list) {
                Ok(installed) => {
                    libraries.patched += installed.patched;
                    libraries.files += usize::from(installed.patched > 0);
                    let refused = installed.unpatchable.into_iter();
                    let refused = refused.map(|(number, reason)| left(Why::Site(number, reason)));
                    libraries.left.extend(refused);
                }
                Err(error) => libraries.left.push(left(Why::Failed(error))),
            },
        }
    }
    libraries
}

/// The loaded files that may be patched, each with what it is known by.
fn candidates() -> Vec<(Object, Option<BuildId>)> {
    // SAFETY: asks for a number.
    let auxiliary = |kind| unsafe { libc::getauxval(kind) };
    let (linker, vdso) = (auxiliary(libc::AT_BASE), auxiliary(libc::AT_SYSINFO_EHDR));
    let own = candidates as *const () as u64;
    let libc = libc::gnu_get_libc_version as *const () as u64;
    let is_other = |object: &Object| {
        let is_linkers = object.base == linker || object.base == vdso;
        !is_linkers && !object.is_exempt && !object.executes(own) && !object.executes(libc)
    };
    let mut objects = Object::all();
    objects.retain(|object| !object.segments.is_empty() && is_other(object));
    for object in &mut objects {
        if object.path.as_os_str().is_empty() {
            object.path = PathBuf::from(PROGRAM);
        }
    }
    let with_name = |object: Object| {
        let name = object.build_id.or_else(|| identity(&object.path));
        (object, name)
    };
    objects.into_iter().map(with_name).collect()
}

/// What a file without a build-id is known by, as the scanner has it.
fn identity(path: &Path) -> Option<BuildId> {
    let about = fs::metadata(path).ok()?;
    let changed_ns = about.ctime() as u64 * 1_000_000_000 + about.ctime_nsec() as u64;
    Some(BuildId::of_file(about.dev(), about.ino(), about.size(), changed_ns))
}

fn judge_all(request: &Request, objects: &[(Object, Option<BuildId>)]) -> Vec<Task> {
    let mut index = Index::default();
    cache::candidates()
        .filter_map(|directory| cache::load_index(&directory).ok())
        .for_each(|found| index.add(found));
    let judge = |(_, name): &(Object, Option<BuildId>)| {
        let Some(name) = name else { return Task::Examine };
        match index.find(name) {
            Some(Finding::Nothing) => Task::Nothing,
            Some(Finding::Unknown) => Task::Leave,
            None => find_list(request, name).map_or(Task::Examine, Task::Patch),
        }
    };
    objects.iter().map(judge).collect()
}

fn patch(request: &Request, object: &Object, list: &SiteList) -> Result<Installed, PatchError> {
    let (wanted, found) = ((list.text_start, list.text_bytes), object.text);
    if wanted != found {
        return Err(PatchError::Segment { wanted, found });
    }
    let mut installed = Installed::default();
    let chosen = choose(request, list, &mut installed);
    if chosen.is_empty() || chosen.iter().all(|site| is_patched(object, site)) {
        installed.patched = 0;
        return Ok(installed);
    }
    if !object.is_plain {
        return Err(PatchError::Protection);
    }
    if let Some(site) = chosen.iter().find(|site| !object.holds(site.start, site.window())) {
        return Err(PatchError::TextChanged { offset: site.start });
    }
    let extended = Extended::of_processor().ok_or(PatchError::NoXsave)?;
    if PATCHED_FILES.fetch_add(1, Relaxed) >= unwind::SECTIONS_MAX {
        PATCHED_FILES.fetch_sub(1, Relaxed);
        return Err(PatchError::Files { limit: unwind::SECTIONS_MAX });
    }
    let plan = build(request, object, &chosen, installed, Some(extended))?;
    for segment in &object.segments {
        let within = |patch: &&Patch| segment.contains(&patch.address);
        let patches: Vec<Patch> = plan.patches.iter().filter(within).copied().collect();
        // SAFETY: every site holds its recorded bytes, the trampolines are finished, and that no
        // thread is in this text the caller vouches for.
        unsafe { write_text(&patches) }.map_err(PatchError::Protect)?;
    }
    unwind::register(plan.frames);
    Ok(plan.installed)
}

/// Whether a jump lies over a site's window already.
fn is_patched(object: &Object, site: &Site) -> bool {
    const JUMP: u8 = 0xe9;
    let is_original = object.holds(site.start, site.window());
    !is_original && site.window().len() >= JUMP_BYTES && object.holds(site.start, &[JUMP])
}
