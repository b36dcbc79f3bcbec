//! `/net`: addresses that programs under Heliostat listen at, each as a text that says who does.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::status::{list, Status};
use crate::text::{lines, plain, text};
use crate::{Entry, Found, NameFault};

/// Returns what a path stands for.
pub(crate) fn look(status: &Status, path: &[String]) -> Result<Found, NameFault> {
    let [address] = path else {
        return if path.is_empty() { Ok(Found::Folder) } else { Err(NameFault::NotFound) };
    };
    // What began to listen just now is looked for once more.
    let recent = status.recent()?;
    let told = if ports(&recent).contains_key(address) { recent } else { status.now()? };
    let ports = ports(&told);
    let port = ports.get(address).ok_or(NameFault::NotFound)?;
    let user = port["uid"].as_u64().and_then(|uid| u32::try_from(uid).ok());
    Ok(text(user, describe(port, &told)))
}

/// Returns the addresses.
pub(crate) fn entries(status: &Status, path: &[String]) -> Result<Vec<Entry>, NameFault> {
    if !path.is_empty() {
        look(status, path)?;
        return Err(NameFault::NoFolder);
    }
    let told = status.now()?;
    let names = ports(&told).into_keys();
    Ok(names.map(|name| Entry { name, is_folder: false }).collect())
}

/// Addresses by file name: one that several network namespaces have is told apart by theirs.
fn ports(status: &Value) -> BTreeMap<String, &Value> {
    let mut found = BTreeMap::new();
    let all = list(status, "ports");
    for port in all {
        let is_same = |other: &&Value| other["address"] == port["address"];
        let address = plain(&port["address"]);
        let name = match all.iter().filter(is_same).count() {
            1 => address,
            _ => format!("{address}@{}", plain(&port["namespace_cookie"])),
        };
        found.insert(name, port);
    }
    found
}

/// The address's facts, and a line for each program that listens.
fn describe(port: &Value, status: &Value) -> String {
    let mut fields: Vec<(&str, String)> = ["address", "uid", "namespace_cookie", "channels"]
        .map(|field| (field, plain(&port[field])))
        .into();
    let ids = list(port, "sessions");
    let listeners = list(status, "sessions").iter().filter(|session| ids.contains(&session["id"]));
    fields.extend(listeners.map(|session| {
        ("listener", format!("{} {}", plain(&session["pid"]), plain(&session["program"])))
    }));
    lines(&fields)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_address_of_two_namespaces_is_two_files() {
        let port = |cookie| json!({ "address": "0.0.0.0:80", "namespace_cookie": cookie });
        let status = json!({ "ports": [port(1), port(2), { "address": "[::]:81" }] });
        let names: Vec<_> = ports(&status).into_keys().collect();
        assert_eq!(names, ["0.0.0.0:80@1", "0.0.0.0:80@2", "[::]:81"]);
    }

    #[test]
    fn who_listens_is_said() {
        let port = json!({ "address": "[::]:81", "uid": 5, "sessions": ["0.1"], "channels": 0,
            "namespace_cookie": 1 });
        let session = |id: &str| json!({ "id": id, "pid": 77, "program": "redis\n" });
        let status = json!({ "ports": [port], "sessions": [session("0.1"), session("0.2")] });
        let told = describe(&status["ports"][0], &status);
        assert!(told.ends_with("listener          77 redis?\n"), "{told}");
        assert_eq!(told.matches("listener").count(), 1);
    }
}
