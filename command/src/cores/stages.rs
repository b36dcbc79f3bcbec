//! `heliostat cores --stages`: what a system call on a kernel core costs, by stage.
//!
//! The stub measures, in a process of its own: there the program's calls are caught, and executors run.

use std::path::Path;
use std::process::{Command, Stdio};

use heliostat_abi::offload::STAGES_VARIABLE;
use heliostat_abi::place::{OFFLOAD_CORES_VARIABLE, SOCKET_VARIABLE};
use serde_json::Value;

use super::CoresError;
use crate::show::print;
use crate::sites::cache_sites;
use crate::stub::find_stub;
use crate::table::Table;

/// In order of time, as the stub names them.
const STAGES: [&str; 5] = ["enter", "there", "handle", "back", "leave"];

/// Measures and shows; `core` is the kernel core, the last one without it.
pub fn stages(core: Option<usize>, is_json: bool) -> Result<(), CoresError> {
    let told = measure(core).map_err(CoresError::Stages)?;
    let text = if is_json { format!("{told}\n") } else { text_of(&told) };
    Ok(print(&text)?)
}

fn measure(core: Option<usize>) -> Result<Value, String> {
    let stub = find_stub()?;
    cache_sites()?;
    let own = std::env::current_exe().map_err(|error| format!("who am I? {error}"))?;
    let folder = std::env::temp_dir();
    let mut command = Command::new(own);
    // What the program would do is never done; no control plane is asked.
    command.arg("--version").env("LD_PRELOAD", stub);
    command.env(SOCKET_VARIABLE, Path::new("/none")).env("HELIOSTAT_FILES", "0");
    command.env(STAGES_VARIABLE, folder);
    if let Some(core) = core {
        command.env(OFFLOAD_CORES_VARIABLE, core.to_string());
    }
    let done = command.stdin(Stdio::null()).output();
    let done = done.map_err(|error| format!("the stages were not measured: {error}"))?;
    let told: Value = serde_json::from_slice(&done.stdout)
        .map_err(|error| format!("the stages were not measured: {error}"))?;
    let calls = told["calls"].as_array().ok_or("the stages were not measured")?;
    match calls.iter().all(|call| call["rounds"].as_u64() > Some(0)) {
        true => Ok(told),
        false => Err("no call went to the kernel core: it is busy, or may not be used".to_owned()),
    }
}

/// Medians and p99 in ns, a call a line.
fn text_of(told: &Value) -> String {
    let mut columns = vec!["call", "#plain"];
    let names = STAGES.map(|stage| format!("#{stage}"));
    columns.extend(names.iter().map(String::as_str));
    columns.push("#in all");
    let mut table = Table::new(&columns);
    for call in told["calls"].as_array().into_iter().flatten() {
        let pair = |key: &str| {
            let at = |place: usize| call[key][place].as_f64().unwrap_or(0.0);
            format!("{:.0} / {:.0}", at(0), at(1))
        };
        let name = call["call"].as_str().unwrap_or_default().to_owned();
        let stages = STAGES.iter().map(|stage| pair(stage));
        table.row([name, pair("plain")].into_iter().chain(stages).chain([pair("total")]));
    }
    format!(
        "ns, median / p99; the program on core {}, the kernel core is {}\n\n{}",
        told["core"],
        told["kernel_core"],
        table.render()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_call_has_a_line_of_its_stages_in_order() {
        let told = json!({
            "core": 0, "kernel_core": 1,
            "calls": [{
                "call": "read", "rounds": 9, "plain": [200, 300], "total": [900, 1900],
                "enter": [50, 60], "there": [150, 160], "handle": [400, 500], "back": [200, 210],
                "leave": [40, 41],
            }],
        });
        let wanted = "ns, median / p99; the program on core 0, the kernel core is 1\n\n\
            call      plain    enter      there     handle       back    leave      in all\n\
            read  200 / 300  50 / 60  150 / 160  400 / 500  200 / 210  40 / 41  900 / 1900\n";
        assert_eq!(text_of(&told), wanted);
    }
}
