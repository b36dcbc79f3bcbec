//! Memory regions over C: bytes with a name and rights that other programs share, and their life.

use std::ffi::c_char;
use std::sync::Arc;

use heliostat_stub_memory::{Class, Memory, MemoryError, Region, Rights};

use crate::border::{fail, hand_out, show, take_back, text, ProcessOwned};
use crate::code::{guard, heliostat_code, *};
use crate::region::configure_as_usual;

/// A right: read the region.
pub const HELIOSTAT_MEMORY_READ: u32 = 1;
/// A right: write it.
pub const HELIOSTAT_MEMORY_WRITE: u32 = 2;
/// A right: change words of it in one step.
pub const HELIOSTAT_MEMORY_ATOMIC: u32 = 4;
/// A right: name it, and say what other users may.
pub const HELIOSTAT_MEMORY_SHARE: u32 = 8;
/// A right: free, enlarge and keep it, and appoint other users.
pub const HELIOSTAT_MEMORY_MANAGE: u32 = 16;
/// The user whose names are meant: the caller's own.
pub const HELIOSTAT_MEMORY_OWN_USER: u32 = 0xffff_ffff;

/// A class of what is done on other nodes: what no rule is about.
pub const HELIOSTAT_CLASS_NORMAL: u32 = 0;
/// A class: what waits for nobody else.
pub const HELIOSTAT_CLASS_HIGH: u32 = 1;
/// A class: what may wait for all others.
pub const HELIOSTAT_CLASS_LOW: u32 = 2;

const _: () = assert!(HELIOSTAT_CLASS_NORMAL == Class::Normal.number() as u32);
const _: () = assert!(HELIOSTAT_CLASS_HIGH == Class::High.number() as u32);
const _: () = assert!(HELIOSTAT_CLASS_LOW == Class::Low.number() as u32);
const _: () = assert!(HELIOSTAT_MEMORY_READ == Rights::READ.bits());
const _: () = assert!(HELIOSTAT_MEMORY_WRITE == Rights::WRITE.bits());
const _: () = assert!(HELIOSTAT_MEMORY_ATOMIC == Rights::ATOMIC.bits());
const _: () = assert!(HELIOSTAT_MEMORY_SHARE == Rights::SHARE.bits());
const _: () = assert!(HELIOSTAT_MEMORY_MANAGE == Rights::MANAGE.bits());
const _: () = assert!(HELIOSTAT_MEMORY_OWN_USER == heliostat_stub_memory::OWN_USER);

/// This process's access to memory regions. Threads may share it.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_memory(pub(crate) ProcessOwned<Memory>);

/// A handle on a memory region. Threads may share it, but for its end.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_memory_region(pub(crate) ProcessOwned<Arc<Region>>);

/// Opens it, where `heliostat_configure` has said that the control plane is. `*memory` is the
/// caller's. Blocks for half a second at most. `HELIOSTAT_NO_CONTROL` when none answers.
///
/// # Safety
/// `memory` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_open(
    memory: *mut *mut heliostat_memory,
) -> heliostat_code {
    guard(|| {
        if memory.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        configure_as_usual();
        let opened = Memory::open().map_err(told)?;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(memory, heliostat_memory(ProcessOwned::new(opened))) }
    })
}

/// Ends it; regions that were made by it stay. Null is ignored.
///
/// # Safety
/// `memory` is null or live, and not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_close(memory: *mut heliostat_memory) {
    // SAFETY: the caller's promise.
    unsafe { take_back(memory) }
}

/// The same for regions of another node, by its number: what is allocated and mapped by it is there.
/// `*there` is the caller's. The node's own number is as if it were not said. Operations on a node that
/// is lost answer `HELIOSTAT_PEER_GONE`, requests to one that is not joined `HELIOSTAT_NO_CONTROL`.
///
/// # Safety
/// `memory` is null or live, `there` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_on(
    memory: *const heliostat_memory,
    node: u64,
    there: *mut *mut heliostat_memory,
) -> heliostat_code {
    guard(|| {
        if there.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promise.
        let placed = unsafe { show(memory)?.0.get()? }.on(node);
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(there, heliostat_memory(ProcessOwned::new(placed))) }
    })
}

/// The node that the region is on goes to `*node`; 0 for this process's own.
///
/// # Safety
/// `region` is null or live, `node` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_node(
    region: *const heliostat_memory_region,
    node: *mut u64,
) -> heliostat_code {
    guard(|| {
        if node.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promise.
        let found = unsafe { show(region)?.0.get()? }.node().unwrap_or(0);
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { node.write(found) };
        Ok(())
    })
}

/// Makes a region of so many bytes, all zero. `name` is null for none; `is_lasting` not 0 lets it
/// outlive this process until it is freed; other users who know the name may do `others` with it.
/// `*region` is the caller's and allows everything. `HELIOSTAT_TAKEN` when another region has the name,
/// `HELIOSTAT_FULL` at a limit, `HELIOSTAT_DENIED` where a rule says no.
///
/// # Safety
/// `memory` is null or live, `name` null or a C string, `region` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_allocate(
    memory: *const heliostat_memory,
    bytes: u64,
    name: *const c_char,
    is_lasting: i32,
    others: u32,
    region: *mut *mut heliostat_memory_region,
) -> heliostat_code {
    guard(|| {
        if region.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promise.
        let (memory, name) = unsafe { (show(memory)?.0.get()?, text(name)?) };
        let mut asked = memory.allocate(bytes).others(rights(others)?);
        if let Some(name) = name {
            asked = asked.name(name);
        }
        if is_lasting != 0 {
            asked = asked.lasting();
        }
        let made = asked.make().map_err(told)?;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(region, heliostat_memory_region(ProcessOwned::new(Arc::new(made)))) }
    })
}

/// Makes a region of so many bytes, all zero, that lives on `replicas` nodes of a cluster, this one
/// among them: what was written is on all of them before a call returns, and the death of one loses
/// nothing. It stays until it is freed, or all of its nodes have died. `*region` is the caller's and
/// allows everything. `HELIOSTAT_TAKEN` when another region has the name, `HELIOSTAT_FULL` at a limit.
///
/// # Safety
/// `memory` is null or live, `name` null or a C string, `region` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_replicate(
    memory: *const heliostat_memory,
    bytes: u64,
    name: *const c_char,
    replicas: u32,
    others: u32,
    region: *mut *mut heliostat_memory_region,
) -> heliostat_code {
    guard(|| {
        if region.is_null() || name.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promise.
        let (memory, name) = unsafe { (show(memory)?.0.get()?, text(name)?) };
        let asked = memory.allocate(bytes).others(rights(others)?);
        let asked = name.into_iter().fold(asked, |asked, name| asked.name(name));
        let made = asked.replicas(replicas.max(1)).make().map_err(told)?;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(region, heliostat_memory_region(ProcessOwned::new(Arc::new(made)))) }
    })
}

/// A handle on the region of this name, among those of `user` (`HELIOSTAT_MEMORY_OWN_USER` for the caller's),
/// that allows `wanted`: all of it or nothing. `HELIOSTAT_NOT_FOUND` when none has the name,
/// `HELIOSTAT_DENIED` where a rule or its owner says no, which may take half a second.
///
/// # Safety
/// `memory` is null or live, `name` null or a C string, `region` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_map(
    memory: *const heliostat_memory,
    user: u32,
    name: *const c_char,
    wanted: u32,
    region: *mut *mut heliostat_memory_region,
) -> heliostat_code {
    guard(|| {
        if region.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promise.
        let (memory, name) = unsafe { (show(memory)?.0.get()?, text(name)?) };
        let name = name.ok_or(HELIOSTAT_NULL)?;
        let mapped = memory.map_of(user, name, rights(wanted)?).map_err(told)?;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(region, heliostat_memory_region(ProcessOwned::new(Arc::new(mapped)))) }
    })
}

/// A user may map the region with these rights from now on, whatever others may.
///
/// # Safety
/// `region` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_appoint(
    region: *const heliostat_memory_region,
    user: u32,
    allowed: u32,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let region = unsafe { show(region)?.0.get()? };
        region.appoint(user, rights(allowed)?).map_err(told)
    })
}

/// Makes the region longer, to so many bytes; those that come are zero, and handles stay as they are.
///
/// # Safety
/// `region` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_grow(
    region: *const heliostat_memory_region,
    bytes: u64,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { show(region)?.0.get()? }.grow(bytes).map_err(told)
    })
}

/// Has the region's bytes lie elsewhere, in one piece; handles stay as they are, and whoever uses it
/// meanwhile waits. `HELIOSTAT_TAKEN` while a program stays in it, which the words of the error name:
/// then it is where it was.
///
/// # Safety
/// `region` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_relocate(
    region: *const heliostat_memory_region,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { show(region)?.0.get()? }.relocate().map_err(told)
    })
}

/// Moves the region to another node of the cluster; whoever has a handle goes on with that, and its next
/// call finds the region there. As `heliostat_memory_relocate`; where it is not moved it is where it was.
///
/// # Safety
/// `region` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_move_to(
    region: *const heliostat_memory_region,
    node: u64,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { show(region)?.0.get()? }.move_to(node).map_err(told)
    })
}

/// Says how urgent is what this process does with the region from now on, where it is on another node:
/// one of `HELIOSTAT_CLASS_*`, and no more than the rules of this node let it.
/// `HELIOSTAT_INVALID` for a region of this node, and for a class that there is none of.
///
/// # Safety
/// `region` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_set_class(
    region: *const heliostat_memory_region,
    urgency: u32,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let region = unsafe { show(region)?.0.get()? };
        if region.node().is_none() {
            return Err(fail(HELIOSTAT_INVALID, "a region of this node has no class"));
        }
        region.set_class(class(urgency)?).map_err(told)
    })
}

/// Gives the handle back. The region ends with the last one that may manage it, unless it is lasting.
/// Null is ignored.
///
/// # Safety
/// `region` is null or live, and not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_unmap(region: *mut heliostat_memory_region) {
    // SAFETY: the caller's promise.
    unsafe { take_back(region) }
}

/// Ends the region for everybody, and gives the handle back in any case but one: `HELIOSTAT_TAKEN` while
/// operations on it are on their way or were not taken, and it is as it was.
///
/// # Safety
/// `region` is null or live, and not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_free(
    region: *mut heliostat_memory_region,
) -> heliostat_code {
    if region.is_null() {
        return HELIOSTAT_NULL;
    }
    guard(|| {
        // SAFETY: not null, live by the caller's promise.
        let shared = Arc::strong_count(unsafe { &*region }.0.get()?);
        if shared > 1 {
            return Err(fail(HELIOSTAT_TAKEN, "operations on the region are on their way"));
        }
        // SAFETY: not null, ours, and the caller's last use.
        let region = unsafe { Box::from_raw(region) };
        let region = Arc::into_inner(region.0.into_inner()?).ok_or(HELIOSTAT_TAKEN)?;
        region.free().map_err(told)
    })
}

pub(crate) fn rights(bits: u32) -> Result<Rights, heliostat_code> {
    let none = || fail(HELIOSTAT_INVALID, "there is no such right");
    Rights::from_bits(bits).ok_or_else(none)
}

fn class(number: u32) -> Result<Class, heliostat_code> {
    let none = || fail(HELIOSTAT_INVALID, format_args!("there is no class {number}"));
    u8::try_from(number).ok().and_then(Class::from_number).ok_or_else(none)
}

/// The code for an error, whose words are kept.
pub(crate) fn told(error: MemoryError) -> heliostat_code {
    fail((&error).into(), error)
}
