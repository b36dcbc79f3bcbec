//! A store as people read it.

use heliostat_abi::store::{StoreInfo, StoreState};
use heliostat_backend_block::Driven;
use serde_json::{json, Value};

use crate::table::{bytes, cell, list, Table};

/// For programs.
pub fn info_json(info: &StoreInfo) -> Value {
    let mut told = json!({ "state": info.state.text(), "where": info.text });
    if !matches!(info.state, StoreState::Open | StoreState::Failed) {
        return told;
    }
    let more = json!({
        "identity": identity(&info.identity),
        "durable_by": info.durable_by.word(),
        "past_page_cache": info.is_past_cache,
        "bytes": info.bytes,
        "data_bytes": info.data_bytes,
        "free_bytes": info.free_bytes,
        "zeroing_bytes": info.zeroing_bytes,
        "discards": info.does_discard,
        "discarded_bytes": info.discarded_bytes,
        "changes": info.sequence,
        "areas": info.areas,
        "areas_max": info.areas_max,
        "grain_bytes": info.grain_bytes,
        "sector_bytes": info.sector_bytes,
        "direct": info.direct,
        "direct_max": info.direct_max,
    });
    if let (Some(told), Value::Object(more)) = (told.as_object_mut(), more) {
        told.extend(more);
    }
    told
}

/// For people.
pub fn info_text(info: &StoreInfo) -> String {
    match info.state {
        StoreState::None if info.text.is_empty() => {
            return "the control plane has no store; make one (heliostat store init PATH) and attach \
                    it (heliostat store attach PATH)\n"
                .to_owned();
        }
        StoreState::None => return format!("the control plane has no store: {}\n", info.text),
        StoreState::Opening => return format!("the store {} is being opened\n", info.text),
        StoreState::Open | StoreState::Failed => {}
    }
    let failed = match info.state {
        StoreState::Failed => "\nits device has failed: nothing is done until it is attached anew",
        _ => "",
    };
    let cache = if info.is_past_cache { "past the page cache" } else { "by the page cache" };
    let discards = match (info.does_discard, info.discarded_bytes) {
        (true, given) => {
            format!("what is zeroed is given back to the device: {} so far", bytes(given))
        }
        (false, _) => "what is zeroed is not given back to the device".to_owned(),
    };
    format!(
        "store {}, {} in {}{failed}\n\
         free {} of {}, to be zeroed {}, {} areas of at most {}, in grains of {}\n\
         writes are made durable by {}, {cache}; sectors of {}\n\
         {discards}\n\
         handles that are direct: {} of at most {}\n",
        identity(&info.identity),
        bytes(info.bytes),
        info.text,
        bytes(info.free_bytes),
        bytes(info.data_bytes),
        bytes(info.zeroing_bytes),
        info.areas,
        info.areas_max,
        bytes(info.grain_bytes.into()),
        info.durable_by.word(),
        bytes(info.sector_bytes.into()),
        info.direct,
        info.direct_max,
    )
}

/// Which way a device is driven, as the control plane tells it too.
pub fn driven_json(driven: Driven) -> Value {
    json!({ "by": driven.word(), "text": driven.by(), "why": driven.why() })
}

/// The same as one line; empty where there is no device.
pub fn driven_line(driven: &Value) -> String {
    match driven["text"].as_str() {
        Some(_) => format!("driven by {}: {}\n", cell(driven, "text"), cell(driven, "why")),
        None => String::new(),
    }
}

/// For status: one line, where there is a store or one was wanted.
pub fn status_text(store: &Value) -> String {
    let number = |name: &str| store[name].as_u64().unwrap_or(0);
    let (state, place) = (cell(store, "state"), cell(store, "where"));
    match state.as_str() {
        "open" => format!(
            "\nstore {place}: {} areas, {} of {} free, {} handles, {} of them direct (of at most {})\n",
            number("areas"),
            bytes(number("free_bytes")),
            bytes(number("data_bytes")),
            number("handles"),
            number("direct"),
            number("direct_max"),
        ),
        "" => String::new(),
        "none" if place.is_empty() => String::new(),
        "none" => format!("\nno store: {place}\n"),
        state => format!("\nstore {place}: {state} {}\n", cell(store, "failed")),
    }
}

/// For explain: one line for each area that a session has open, and why its way is not direct; and which
/// way the store's device is driven.
pub fn explain_text(explained: &Value) -> String {
    let mut table = Table::new(&["area", "rights", "way", "why"]);
    let areas: Vec<&Value> =
        sessions_of(explained).flat_map(|session| list(session, "areas")).collect();
    if areas.is_empty() {
        return String::new();
    }
    for area in areas {
        table.row(["name", "rights", "way", "why"].map(|column| cell(area, column)));
    }
    let driven = sessions_of(explained).next().map(|session| &session["driven"]);
    let driven = driven.map(driven_line).filter(|line| !line.is_empty());
    let driven = driven.map(|line| format!("their store is {line}")).unwrap_or_default();
    format!("\n{}{driven}", table.render())
}

fn sessions_of(explained: &Value) -> impl Iterator<Item = &Value> {
    list(explained, "store").iter()
}

/// Sixteen bytes as people write them.
pub fn identity(bytes: &[u8; 16]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_not_there_says_what_to_do() {
        let none = info_text(&StoreInfo::default());
        assert!(none.contains("heliostat store init") && none.contains("heliostat store attach"));
        let failed = StoreInfo { text: "/srv/s: in use".into(), ..StoreInfo::default() };
        assert_eq!(info_text(&failed), "the control plane has no store: /srv/s: in use\n");
        assert_eq!(info_json(&failed)["state"], "none");
    }

    #[test]
    fn status_has_one_line_and_explain_one_for_each_area() {
        let open = json!({ "state": "open", "where": "/s", "areas": 2, "handles": 3, "direct": 1,
            "direct_max": 256, "free_bytes": 1 << 20, "data_bytes": 2 << 20 });
        let wanted = "\nstore /s: 2 areas, 1.0 MiB of 2.0 MiB free, 3 handles, 1 of them direct \
                      (of at most 256)\n";
        assert_eq!(status_text(&open), wanted);
        assert_eq!(status_text(&json!({ "state": "none", "where": "" })), "");
        assert_eq!(
            status_text(&json!({ "state": "none", "where": "/s: in use" })),
            "\nno store: /s: in use\n"
        );
        let areas =
            json!([{ "name": "/store/a", "rights": "read", "way": "emulated", "why": "no" }]);
        let explained = json!({ "store": [{ "areas": areas.clone() }] });
        let wanted = "\narea      rights  way       why\n/store/a  read    emulated  no\n";
        assert_eq!(explain_text(&explained), wanted);
        assert_eq!(explain_text(&json!({})), "");
        let driven = driven_json(Driven::Commands);
        let explained = json!({ "store": [{ "areas": areas, "driven": driven }] });
        let told = "their store is driven by the commands of its NVMe namespace: a namespace was \
                    named, and io_uring carries its commands\n";
        assert_eq!(explain_text(&explained), format!("{wanted}{told}"));
        assert_eq!(driven_line(&Value::Null), "");
    }

    #[test]
    fn a_store_that_is_there_says_how_much_is_free_and_how_writes_are_made_durable() {
        let info = StoreInfo {
            state: StoreState::Open,
            free_bytes: 1 << 30,
            data_bytes: 2 << 30,
            areas: 3,
            text: "/srv/s".into(),
            ..StoreInfo::default()
        };
        let text = info_text(&info);
        assert!(text.contains("free 1.0 GiB of 2.0 GiB") && text.contains("dsync_alone"), "{text}");
        assert_eq!(info_json(&info)["areas"], 3);
    }
}
