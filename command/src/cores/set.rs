//! Parts the cores, and undoes it.

use std::time::{Duration, Instant};

use heliostat_abi::code::Code;
use heliostat_abi::cores::{CoresRequest, CoresState, CpuMask, CpuRanges, Layout, Wanted};
use heliostat_abi::session::record::Request;
use heliostat_backend_cores::{probe, Root};
use heliostat_client::ControlError;
use heliostat_service_cores::{plan, undo, Partition, Undone, Wish};
use serde_json::{json, Value};

use super::join::ask;
use super::place::{journal_path, system};
use super::CoresError;
use crate::args::cores::WantedCores;
use crate::args::{ControlPlace, Format};
use crate::client::{self, open_session, ClientError};
use crate::ensure::ensure;
use crate::place::surroundings;
use crate::show::print;

/// How long a change may take: it looks at every process.
const DEADLINE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(5);

/// `heliostat cores --kernel ...`.
pub fn set(wanted: &WantedCores, format: &Format) -> Result<(), CoresError> {
    let wish = wish(wanted)?;
    begin(&format.place)?;
    let before = settled()?;
    let machine = probe(&Root::default());
    // Here for its words: the control plane plans by itself.
    plan(&machine.topology(&before.all), &wish)?;
    let state = part(&wish)?;
    if let Some(why) = failed(&format.place)? {
        return Err(CoresError::Failed(why));
    }
    tell(&state, format)
}

/// `heliostat cores reset`.
pub fn reset(format: &Format) -> Result<(), CoresError> {
    let here = surroundings(&format.place);
    match open_session(&format.place) {
        Ok(()) => {
            settled()?;
            let state = change(CoresRequest::Reset)?;
            tell(&state, format)?;
            tell_refused(&format.place)
        }
        Err(ClientError::NotRunning { .. }) => {
            if !journal_path(&here).exists() {
                return Ok(print("cores are not parted\n")?);
            }
            let undone = undo(&mut system(&here)).map_err(CoresError::Journal)?;
            let text = match format.json {
                true => format!("{}\n", undone_json(&undone)),
                false => format!("{}\n", undone_text(&undone)),
            };
            Ok(print(&text)?)
        }
        Err(error) => Err(error.into()),
    }
}

/// People are told of what the system kept, on the other stream: the state is whole without it.
fn tell_refused(place: &ControlPlace) -> Result<(), CoresError> {
    let refused = cores_status(place)?["not_undone"].as_u64().unwrap_or(0);
    if refused > 0 {
        eprintln!("heliostat: {}", refused_text(refused as usize));
    }
    Ok(())
}

fn refused_text(refused: usize) -> String {
    format!("{refused} refused by the system, kept for the next reset")
}

/// Makes sure of a control plane, and begins a session with it.
pub fn begin(place: &ControlPlace) -> Result<(), CoresError> {
    ensure(&surroundings(place), None).map_err(CoresError::Ensure)?;
    Ok(open_session(place)?)
}

/// Parts the cores so, and returns once that is done.
pub fn part(wish: &Wish) -> Result<CoresState, CoresError> {
    let Wish { layout, kernel, interrupt } = *wish;
    change(CoresRequest::Set { layout, kernel, interrupt })
}

/// Has everything undone, and returns once that is done.
pub fn part_not() -> Result<CoresState, CoresError> {
    change(CoresRequest::Reset)
}

fn change(request: CoresRequest) -> Result<CoresState, CoresError> {
    let end = Instant::now() + DEADLINE;
    loop {
        match ask(request) {
            Ok(_) => return settled(),
            // Somebody else changes it at this moment.
            Err(CoresError::Control(ControlError::Refused { code: Code::BadState, .. }))
                if Instant::now() < end && ask(CoresRequest::State)?.generation % 2 == 1 =>
            {
                std::thread::sleep(PAUSE);
            }
            Err(error) => return Err(error),
        }
    }
}

/// How cores are parted, once nothing is being changed.
pub fn settled() -> Result<CoresState, CoresError> {
    let end = Instant::now() + DEADLINE;
    loop {
        let state = ask(CoresRequest::State)?;
        if state.generation % 2 == 0 {
            return Ok(state);
        }
        if Instant::now() > end {
            return Err(CoresError::Busy);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Why the control plane did not carry the last change out.
fn failed(place: &ControlPlace) -> Result<Option<String>, CoresError> {
    Ok(cores_status(place)?["failed"].as_str().map(str::to_owned))
}

fn cores_status(place: &ControlPlace) -> Result<Value, CoresError> {
    let text = client::ask(&surroundings(place), &Request::Status)?;
    let status: Value = serde_json::from_str(&text).unwrap_or_default();
    Ok(status["cores"].clone())
}

fn wish(wanted: &WantedCores) -> Result<Wish, CoresError> {
    let one = |count: Option<u32>, list: Option<&String>| match list {
        None => Ok::<_, CoresError>(Wanted::Count(count.unwrap_or(0))),
        Some(text) => {
            let mask = CpuMask::parse(text).map_err(|error| CoresError::List(error.to_string()))?;
            let many =
                || CoresError::List(format!("{text}: more ranges than a request has room for"));
            Ok(Wanted::List(CpuRanges::of(mask).ok_or_else(many)?))
        }
    };
    Ok(Wish {
        layout: if wanted.spread { Layout::Spread } else { Layout::Packed },
        kernel: one(wanted.kernel, wanted.kernel_list.as_ref())?,
        interrupt: one(wanted.interrupt, wanted.interrupt_list.as_ref())?,
    })
}

fn tell(state: &CoresState, format: &Format) -> Result<(), CoresError> {
    let text = match format.json {
        true => format!("{}\n", state_json(state)),
        false => state_text(state),
    };
    Ok(print(&text)?)
}

/// The partition of a state.
pub fn partition_of(state: &CoresState) -> Partition {
    let CoresState { application, kernel, interrupt, .. } = *state;
    Partition { application, kernel, interrupt }
}

/// A state as people read it.
pub fn state_text(state: &CoresState) -> String {
    let partition = partition_of(state);
    if partition.is_none() {
        return format!("cores {} are not parted\n", state.all);
    }
    let mut text = format!("applications on cores {}", state.application);
    if !state.kernel.is_empty() {
        text.push_str(&format!(", server loops on {}", state.kernel));
    }
    if !state.interrupt.is_empty() {
        text.push_str(&format!(", interrupts on {}", state.interrupt));
    }
    text.push_str(&format!("\n{} threads placed", state.placed));
    let by = [(state.means.cpusets, "cpusets"), (state.means.masks, "affinity masks")];
    let by: Vec<&str> = by.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect();
    if !by.is_empty() {
        text.push_str(&format!(" (by {})", by.join(" and ")));
    }
    if state.left > 0 {
        text.push_str(&format!(", {} left where they are", state.left));
    }
    if !state.interrupt.is_empty() {
        let (moved, refused) = (state.interrupts_moved, state.interrupts_refused);
        text.push_str(&format!(", {moved} interrupts moved"));
        if refused > 0 {
            text.push_str(&format!(", {refused} kept by the system"));
        }
    }
    text.push('\n');
    text
}

fn state_json(state: &CoresState) -> Value {
    json!({
        "all": state.all.to_string(),
        "application": state.application.to_string(),
        "kernel": state.kernel.to_string(),
        "interrupt": state.interrupt.to_string(),
        "placed": state.placed,
        "left": state.left,
        "interrupts_moved": state.interrupts_moved,
        "interrupts_refused": state.interrupts_refused,
        "cpusets": state.means.cpusets,
        "masks": state.means.masks,
    })
}

fn undone_json(undone: &Undone) -> Value {
    json!({
        "threads": undone.threads,
        "interrupts": undone.interrupts,
        "groups": undone.groups,
        "refused": undone.refused,
    })
}

fn undone_text(undone: &Undone) -> String {
    let Undone { threads, interrupts, groups, refused, unreadable } = undone;
    let mut text = format!("undone: {threads} threads, {interrupts} interrupts, {groups} groups");
    if *refused > 0 {
        text.push_str(&format!("; {}", refused_text(*refused)));
    }
    if let Some(error) = unreadable {
        text.push_str(&format!("; {error}: it was forgotten"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use heliostat_abi::cores::Means;

    #[test]
    fn a_state_is_told_with_what_was_not_possible() {
        let mask = |text| CpuMask::parse(text).unwrap();
        let state = CoresState {
            generation: 2,
            means: Means { cpusets: false, masks: true, interrupts: true },
            interrupts_moved: 2,
            interrupts_refused: 1,
            left: 3,
            placed: 12,
            all: mask("0-3"),
            application: mask("0-1"),
            kernel: mask("2"),
            interrupt: mask("3"),
        };
        let wanted = "applications on cores 0-1, server loops on 2, interrupts on 3\n\
                      12 threads placed (by affinity masks), 3 left where they are, \
                      2 interrupts moved, 1 kept by the system\n";
        assert_eq!(state_text(&state), wanted);
        let none = CoresState { kernel: CpuMask::EMPTY, interrupt: CpuMask::EMPTY, ..state };
        assert_eq!(state_text(&none), "cores 0-3 are not parted\n");
    }

    #[test]
    fn what_is_refused_is_told_with_what_becomes_of_it() {
        let undone = Undone { threads: 4, groups: 1, refused: 2, ..Undone::default() };
        let wanted = "undone: 4 threads, 0 interrupts, 1 groups; \
                      2 refused by the system, kept for the next reset";
        assert_eq!(undone_text(&undone), wanted);
        assert_eq!(undone_json(&undone)["refused"], 2);
    }

    #[test]
    fn counts_and_lists_become_a_wish() {
        let wanted = WantedCores {
            kernel_list: Some("3,7".into()),
            interrupt: Some(1),
            spread: true,
            ..WantedCores::default()
        };
        let wish = wish(&wanted).unwrap();
        assert_eq!((wish.layout, wish.interrupt), (Layout::Spread, Wanted::Count(1)));
        let wrong = WantedCores { kernel_list: Some("x".into()), ..WantedCores::default() };
        assert!(matches!(super::wish(&wrong), Err(CoresError::List(_))));
    }
}
