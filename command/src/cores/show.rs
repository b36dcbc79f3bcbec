//! Shows cores, caches, interrupts, and who runs where.

use std::collections::BTreeMap;

use heliostat_abi::cores::{CoresState, CpuMask};
use heliostat_abi::session::record::Request;
use heliostat_backend_cores::{
    allowed_here, interrupts, probe, probe_ability, Ability, InterruptFacts, Machine, Root, Tasks,
};
use heliostat_service_cores::{Program, System, Thread};
use serde_json::{json, Value};

use super::join::ask;
use super::measured::Measured;
use super::place::system;
use super::set::state_text;
use super::CoresError;
use crate::args::Format;
use crate::client::{self, open_session};
use crate::place::surroundings;
use crate::show::print;
use crate::table::Table;

/// What is shown.
struct Shown {
    machine: Machine,
    ability: Ability,
    interrupts: Vec<InterruptFacts>,
    /// How cores are parted; none without a control plane.
    state: Option<CoresState>,
    programs: Vec<Program>,
    /// The control plane's threads, by name.
    loops: Vec<(String, Thread)>,
    measured: Option<Measured>,
}

/// `heliostat cores`.
pub fn show(format: &Format) -> Result<(), CoresError> {
    let shown = look(format);
    let text = if format.json { format!("{}\n", as_json(&shown)) } else { as_text(&shown) };
    Ok(print(&text)?)
}

fn look(format: &Format) -> Shown {
    let here = surroundings(&format.place);
    let root = Root::default();
    let machine = probe(&root);
    let asked = open_session(&format.place).map_err(CoresError::from);
    let state = asked.and_then(|()| ask(heliostat_abi::cores::CoresRequest::State)).ok();
    let status = state.and_then(|_| client::ask(&here, &Request::Status).ok());
    let status: Value =
        status.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let number = |value: &Value| value["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    let own = std::process::id();
    let sessions: Vec<u32> =
        crate::table::list(&status, "sessions").iter().filter_map(number).collect();
    let mut programs = if state.is_some() { system(&here).programs(&sessions) } else { Vec::new() };
    programs.retain(|program| program.pid != own && Some(program.pid) != number(&status));
    let all = state.map_or_else(allowed_here, |state| state.all);
    let is_root = rustix::process::geteuid().is_root();
    Shown {
        ability: probe_ability(&root, &machine, &all, is_root),
        interrupts: interrupts(&root),
        loops: number(&status).map(|pid| threads_of(&root, pid)).unwrap_or_default(),
        measured: Measured::last(&here),
        machine,
        state,
        programs,
    }
}

fn threads_of(root: &Root, pid: u32) -> Vec<(String, Thread)> {
    let tasks = Tasks(root);
    let named = |thread: Thread| {
        let name = tasks.names(thread.tid).into_iter().next().unwrap_or_default();
        (clean(&name), thread)
    };
    tasks.threads(pid).into_iter().map(named).collect()
}

fn clean(text: &str) -> String {
    text.replace(char::is_control, "?")
}

fn as_text(shown: &Shown) -> String {
    let mut text = String::new();
    match &shown.state {
        Some(state) => text.push_str(&state_text(state)),
        None => text.push_str("no control plane runs: cores are not parted\n"),
    }
    text.push_str(&ability_text(&shown.ability));
    if let Some(measured) = &shown.measured {
        text.push_str(&format!("{}\n", measured.text()));
    }
    text.push_str(&format!("\n{}", cores_table(shown)));
    text.push_str(&format!("\n{}", caches_table(&shown.machine)));
    text.push_str(&interrupts_text(&shown.interrupts));
    text.push_str(&programs_text(shown));
    text
}

/// What may be done here, a clause each.
pub fn ability_text(ability: &Ability) -> String {
    let whose = if ability.is_root { "every user's programs" } else { "your own programs" };
    let how = if ability.makes_cpusets { "by cpusets" } else { "by affinity masks" };
    let interrupts = match (ability.moves_interrupts, ability.interrupts) {
        (_, 0) => "no interrupts to move".to_owned(),
        (true, count) => format!("{count} interrupts may be moved where the system permits"),
        (false, count) => format!("{count} interrupts stay where they are (root moves them)"),
    };
    let withheld = match ability.withheld.is_empty() {
        true => String::new(),
        false => format!("; cores {} are not this container's to use", ability.withheld),
    };
    format!("possible here: {whose} placed {how}, {interrupts}{withheld}\n")
}

fn cores_table(shown: &Shown) -> String {
    let mut table = Table::new(&["core", "node", "package", "last cache with", "place"]);
    let mut told = CpuMask::EMPTY;
    for facts in &shown.machine.cpus {
        if told.contains(facts.cpu.cpu) {
            continue;
        }
        told = told.union(&facts.siblings);
        let last = facts.caches.iter().max_by_key(|cache| cache.level);
        table.row([
            facts.siblings.to_string(),
            facts.cpu.node.to_string(),
            facts.cpu.core.0.to_string(),
            last.map_or("-".to_owned(), |cache| cache.shared.to_string()),
            place_text(shown.state.as_ref(), &shown.ability, &facts.siblings),
        ]);
    }
    table.render()
}

fn place_text(state: Option<&CoresState>, ability: &Ability, cores: &CpuMask) -> String {
    let meets = |mask: &CpuMask| !mask.intersection(cores).is_empty();
    if !meets(&ability.allowed) {
        return "not ours".to_owned();
    }
    let Some(state) = state.filter(|state| !state.kernel.is_empty() || !state.interrupt.is_empty())
    else {
        return "all".to_owned();
    };
    let places = [
        (meets(&state.application), "application"),
        (meets(&state.kernel), "kernel"),
        (meets(&state.interrupt), "interrupt"),
    ];
    let words: Vec<&str> = places.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect();
    words.join(", ")
}

fn caches_table(machine: &Machine) -> String {
    let mut kinds: BTreeMap<(u32, &str, &str), Vec<String>> = BTreeMap::new();
    let caches = machine.caches();
    for cache in &caches {
        let shared = kinds.entry((cache.level, &cache.kind, &cache.size)).or_default();
        shared.push(cache.shared.to_string());
    }
    let mut table = Table::new(&["cache", "#size", "shared by"]);
    for ((level, kind, size), shared) in kinds {
        table.row([
            format!("L{level} {}", kind.to_lowercase()),
            size.to_owned(),
            shared.join(" | "),
        ]);
    }
    table.render()
}

fn interrupts_text(all: &[InterruptFacts]) -> String {
    let used: Vec<&InterruptFacts> = all.iter().filter(|facts| facts.count > 0).collect();
    if used.is_empty() {
        return "\nno interrupt that has a place has come\n".to_owned();
    }
    let mut table = Table::new(&["#interrupt", "#came", "may come on", "comes on", "of"]);
    for facts in used {
        table.row([
            facts.interrupt.number.to_string(),
            facts.count.to_string(),
            facts.interrupt.mask.to_string(),
            facts.effective.to_string(),
            clean(&facts.name),
        ]);
    }
    format!("\n{}", table.render())
}

/// Threads of one process on one set of cores are one row.
fn programs_text(shown: &Shown) -> String {
    if shown.state.is_none() {
        return String::new();
    }
    let mut table = Table::new(&["#process", "program", "#threads", "on cores"]);
    for program in &shown.programs {
        let name = program.names.first().map(|name| clean(name)).unwrap_or_default();
        for (mask, count) in by_mask(program.threads.iter()) {
            let mask = mask.intersection(&shown.machine.online());
            table.row([program.pid.to_string(), name.clone(), count.to_string(), mask.to_string()]);
        }
    }
    let mut loops = Table::new(&["thread of the control plane", "on cores"]);
    for (name, thread) in &shown.loops {
        loops.row([name.clone(), thread.mask.intersection(&shown.machine.online()).to_string()]);
    }
    let programs = match shown.programs.is_empty() {
        true => "no program runs under Heliostat\n".to_owned(),
        false => table.render(),
    };
    format!("\n{programs}\n{}", loops.render())
}

fn by_mask<'a>(threads: impl Iterator<Item = &'a Thread>) -> Vec<(CpuMask, usize)> {
    let mut masks: Vec<(CpuMask, usize)> = Vec::new();
    for thread in threads {
        match masks.iter_mut().find(|(mask, _)| *mask == thread.mask) {
            Some((_, count)) => *count += 1,
            None => masks.push((thread.mask, 1)),
        }
    }
    masks
}

fn as_json(shown: &Shown) -> Value {
    let cores = shown.machine.cpus.iter().map(|facts| {
        let caches = facts.caches.iter().map(|cache| {
            json!({
                "level": cache.level,
                "kind": cache.kind,
                "size": cache.size,
                "shared": cache.shared.to_string(),
            })
        });
        json!({
            "cpu": facts.cpu.cpu,
            "siblings": facts.siblings.to_string(),
            "package": facts.cpu.core.0,
            "node": facts.cpu.node,
            "caches": caches.collect::<Vec<_>>(),
            "place": place_text(shown.state.as_ref(), &shown.ability, &std::iter::once(facts.cpu.cpu).collect()),
        })
    });
    let interrupts = shown.interrupts.iter().map(|facts| {
        json!({
            "number": facts.interrupt.number,
            "count": facts.count,
            "may_come_on": facts.interrupt.mask.to_string(),
            "comes_on": facts.effective.to_string(),
            "name": clean(&facts.name),
        })
    });
    let thread =
        |thread: &Thread| json!({ "thread": thread.tid, "cores": thread.mask.to_string() });
    let programs = shown.programs.iter().map(|program| {
        json!({
            "pid": program.pid,
            "names": program.names,
            "threads": program.threads.iter().map(thread).collect::<Vec<_>>(),
        })
    });
    let loops = shown
        .loops
        .iter()
        .map(|(name, thread)| json!({ "name": name, "cores": thread.mask.to_string() }));
    json!({
        "cores": cores.collect::<Vec<_>>(),
        "offline": shown.machine.offline.to_string(),
        "withheld": shown.ability.withheld.to_string(),
        "moves_interrupts": shown.ability.moves_interrupts,
        "makes_cpusets": shown.ability.makes_cpusets,
        "interrupts": interrupts.collect::<Vec<_>>(),
        "partition": shown.state.map(|state| json!({
            "application": state.application.to_string(),
            "kernel": state.kernel.to_string(),
            "interrupt": state.interrupt.to_string(),
        })),
        "programs": programs.collect::<Vec<_>>(),
        "control_plane": loops.collect::<Vec<_>>(),
        "measured": shown.measured.as_ref().map(Measured::text),
    })
}

#[cfg(test)]
mod tests {
    use heliostat_service_cores::Interrupt;

    use super::*;

    #[test]
    fn what_is_possible_is_told_for_root_for_others_and_in_a_container() {
        let mask = |text| CpuMask::parse(text).unwrap();
        let root = Ability {
            is_root: true,
            allowed: mask("0-1"),
            withheld: CpuMask::EMPTY,
            interrupts: 12,
            moves_interrupts: true,
            makes_cpusets: true,
            has_groups: true,
        };
        let wanted = "possible here: every user's programs placed by cpusets, \
                      12 interrupts may be moved where the system permits\n";
        assert_eq!(ability_text(&root), wanted);
        let other = Ability {
            is_root: false,
            moves_interrupts: false,
            makes_cpusets: false,
            withheld: mask("2-7"),
            ..root
        };
        let wanted = "possible here: your own programs placed by affinity masks, 12 interrupts \
                      stay where they are (root moves them); cores 2-7 are not this container's to use\n";
        assert_eq!(ability_text(&other), wanted);
    }

    #[test]
    fn interrupts_that_came_are_listed() {
        let mask = |text| CpuMask::parse(text).unwrap();
        let facts = |number, count| InterruptFacts {
            interrupt: Interrupt { number, mask: mask("0-1") },
            effective: mask("1"),
            count,
            name: "virtio".into(),
        };
        let text = interrupts_text(&[facts(24, 7), facts(25, 0)]);
        assert!(text.contains("24     7  0-1") && !text.contains("25"), "{text}");
        assert!(interrupts_text(&[facts(25, 0)]).starts_with("\nno interrupt"));
    }
}
