//! `/sessions`: programs that have a session with the control plane, by process, each as JSON.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::status::{list, Status};
use crate::text::{plain, text};
use crate::{Entry, Found, NameFault};

/// Returns what a path stands for.
pub(crate) fn look(status: &Status, path: &[String]) -> Result<Found, NameFault> {
    let [pid] = path else {
        return if path.is_empty() { Ok(Found::Folder) } else { Err(NameFault::NotFound) };
    };
    let recent = status.recent()?;
    let told = if of_process(&recent, pid).is_empty() { status.now()? } else { recent };
    let sessions = of_process(&told, pid);
    let first = sessions.first().ok_or(NameFault::NotFound)?;
    let user = first["uid"].as_u64().and_then(|uid| u32::try_from(uid).ok());
    // A process may have several: one line each.
    Ok(text(user, sessions.iter().map(|session| format!("{session}\n")).collect()))
}

/// Returns the processes.
pub(crate) fn entries(status: &Status, path: &[String]) -> Result<Vec<Entry>, NameFault> {
    if !path.is_empty() {
        look(status, path)?;
        return Err(NameFault::NoFolder);
    }
    let told = status.now()?;
    let pids: BTreeSet<_> = list(&told, "sessions").iter().map(|it| plain(&it["pid"])).collect();
    Ok(pids.into_iter().map(|name| Entry { name, is_folder: false }).collect())
}

fn of_process<'a>(status: &'a Value, pid: &str) -> Vec<&'a Value> {
    list(status, "sessions").iter().filter(|session| plain(&session["pid"]) == pid).collect()
}
