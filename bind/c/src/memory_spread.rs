//! Memory regions over C that are spread over nodes: their life, their bytes and words.

use std::ffi::{c_char, c_void};

use heliostat_stub_memory::{SpreadError, SpreadRegion};

use crate::border::{
    fail, give, give_if_wanted, hand_out, show, take_back, text, to_fill, to_read, ProcessOwned,
};
use crate::code::{guard, heliostat_code, *};
use crate::memory::{heliostat_memory, rights, told};

/// Handles on all parts of a region that is spread over nodes. Threads may share it, but for its end.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_spread(ProcessOwned<SpreadRegion>);

/// Spreads so many bytes, all zero, evenly over `count` nodes in this order; without a cluster node 0 is
/// this one. The rest is as in `heliostat_memory_allocate`. `HELIOSTAT_TAKEN` when another region has the
/// name, or one is being made or freed.
///
/// # Safety
/// `memory` is null or live, `name` null or a C string, `nodes` null or valid for `count`, `spread` null
/// or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_spread_allocate(
    memory: *const heliostat_memory,
    bytes: u64,
    nodes: *const u64,
    count: usize,
    name: *const c_char,
    is_lasting: i32,
    others: u32,
    spread: *mut *mut heliostat_spread,
) -> heliostat_code {
    guard(|| {
        if spread.is_null() || nodes.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promise.
        let (memory, name) = unsafe { (show(memory)?.0.get()?, text(name)?) };
        // SAFETY: not null (checked), valid for so many by the caller's promise.
        let nodes = unsafe { std::slice::from_raw_parts(nodes, count) };
        let asked = memory.spread(bytes, nodes).others(rights(others)?);
        let asked = name.into_iter().fold(asked, |asked, name| asked.name(name));
        let asked = if is_lasting != 0 { asked.lasting() } else { asked };
        let made = asked.make().map_err(of_spread)?;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(spread, heliostat_spread(ProcessOwned::new(made))) }
    })
}

/// Handles on the parts of the spread region of this name, found from any node, as
/// `heliostat_memory_map`. Parts on nodes that are lost answer `HELIOSTAT_PEER_GONE` or
/// `HELIOSTAT_NO_CONTROL` when they are used, and the others can be used.
///
/// # Safety
/// `memory` is null or live, `name` null or a C string, `spread` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_spread_map(
    memory: *const heliostat_memory,
    user: u32,
    name: *const c_char,
    wanted: u32,
    spread: *mut *mut heliostat_spread,
) -> heliostat_code {
    guard(|| {
        if spread.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promise.
        let (memory, name) = unsafe { (show(memory)?.0.get()?, text(name)?) };
        let name = name.ok_or(HELIOSTAT_NULL)?;
        let mapped = memory.map_spread_of(user, name, rights(wanted)?).map_err(of_spread)?;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(spread, heliostat_spread(ProcessOwned::new(mapped))) }
    })
}

/// Gives the handles back, as `heliostat_memory_unmap`. Null is ignored.
///
/// # Safety
/// `spread` is null or live, and not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_spread_unmap(spread: *mut heliostat_spread) {
    // SAFETY: the caller's promise.
    unsafe { take_back(spread) }
}

/// Ends the region for everybody, and gives the handles back in any case. An error is about the first
/// part that could not be freed.
///
/// # Safety
/// `spread` is null or live, and not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_spread_free(spread: *mut heliostat_spread) -> heliostat_code {
    if spread.is_null() {
        return HELIOSTAT_NULL;
    }
    guard(|| {
        // SAFETY: not null, ours, and the caller's last use.
        let spread = unsafe { Box::from_raw(spread) };
        spread.0.into_inner()?.free().map_err(of_spread)
    })
}

/// How many bytes it has goes to `*bytes`.
///
/// # Safety
/// `spread` is null or live, `bytes` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_spread_size(
    spread: *const heliostat_spread,
    bytes: *mut u64,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { give(bytes, show(spread)?.0.get()?.size()) }
    })
}

/// Reads `bytes` bytes from an offset on, from all nodes that they lie on at once. Codes are those of
/// `heliostat_memory_read`; `heliostat_last_message` names the node and its bytes.
///
/// # Safety
/// `spread` is null or live; `into` is null or valid for writing `bytes` bytes, which nobody else uses.
#[no_mangle]
pub unsafe extern "C" fn heliostat_spread_read(
    spread: *const heliostat_spread,
    offset: u64,
    into: *mut c_void,
    bytes: usize,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let (spread, into) = unsafe { (show(spread)?.0.get()?, to_fill(into, bytes)?) };
        spread.read(offset, into).map_err(of_spread)
    })
}

/// Writes `bytes` bytes from an offset on.
///
/// # Safety
/// `spread` is null or live; `from` is null or valid for reading `bytes` bytes, which nobody changes.
#[no_mangle]
pub unsafe extern "C" fn heliostat_spread_write(
    spread: *const heliostat_spread,
    offset: u64,
    from: *const c_void,
    bytes: usize,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let (spread, from) = unsafe { (show(spread)?.0.get()?, to_read(from, bytes)?) };
        spread.write(offset, from).map_err(of_spread)
    })
}

/// Sets bytes from an offset on to a value.
///
/// # Safety
/// `spread` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_spread_set(
    spread: *const heliostat_spread,
    offset: u64,
    bytes: u64,
    value: u8,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { show(spread)?.0.get()? }.set(offset, bytes, value).map_err(of_spread)
    })
}

/// Adds to the word at an offset, as `heliostat_memory_fetch_add`.
///
/// # Safety
/// `spread` is null or live, `old` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_spread_fetch_add(
    spread: *const heliostat_spread,
    offset: u64,
    more: u64,
    old: *mut u64,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let found = unsafe { show(spread)?.0.get()? }.fetch_add(offset, more).map_err(of_spread)?;
        // SAFETY: null, or valid by the caller's promise.
        unsafe { give_if_wanted(old, found) }
    })
}

/// Stores `stored` in a word that is `expected`, as `heliostat_memory_compare_swap`.
///
/// # Safety
/// As `heliostat_spread_fetch_add`.
#[no_mangle]
pub unsafe extern "C" fn heliostat_spread_compare_swap(
    spread: *const heliostat_spread,
    offset: u64,
    expected: u64,
    stored: u64,
    old: *mut u64,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let spread = unsafe { show(spread)?.0.get()? };
        let found = spread.compare_swap(offset, expected, stored).map_err(of_spread)?;
        // SAFETY: null, or valid by the caller's promise.
        unsafe { give_if_wanted(old, found) }
    })
}

/// The code for an error, whose words are kept.
fn of_spread(error: SpreadError) -> heliostat_code {
    let code = match error {
        SpreadError::Memory(why) | SpreadError::Part { why, .. } => told(why),
        SpreadError::Range { .. } | SpreadError::Misaligned { .. } | SpreadError::Nodes { .. } => {
            HELIOSTAT_INVALID
        }
        SpreadError::Taken { .. } | SpreadError::Unfinished { .. } | SpreadError::Held { .. } => {
            HELIOSTAT_TAKEN
        }
        SpreadError::Corrupt { .. } => HELIOSTAT_CORRUPT,
    };
    fail(code, error)
}
