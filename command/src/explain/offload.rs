//! How calls that kernel cores may make were made, as people read it.

use serde_json::Value;

/// How calls of groups that kernel cores may make were made, and what each way takes.
pub fn groups_text(groups: &Value) -> String {
    let groups = groups.as_object().into_iter().flatten();
    groups.map(|(name, told)| group_text(name, told)).collect()
}

fn group_text(name: &str, told: &Value) -> String {
    let number = |key: &str| told[key].as_u64().unwrap_or(0);
    let counts = format!(
        "offload of {name}: {} calls on kernel cores, {} plainly",
        number("offloaded"),
        number("plain")
    );
    match (number("plain_ns"), number("offloaded_ns")) {
        (0, _) | (_, 0) => format!("{counts}\n"),
        (plain, offloaded) => {
            format!("{counts}; measured here {plain} ns plainly, {offloaded} ns there\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_group_is_told_with_what_was_measured() {
        let groups = json!({
            "files": { "offloaded": 3, "plain": 9, "plain_ns": 200, "offloaded_ns": 900 },
            "sockets": { "offloaded": 0, "plain": 1, "plain_ns": 0, "offloaded_ns": 0 },
        });
        let wanted =
            "offload of files: 3 calls on kernel cores, 9 plainly; measured here 200 ns plainly, \
            900 ns there\noffload of sockets: 0 calls on kernel cores, 1 plainly\n";
        assert_eq!(groups_text(&groups), wanted);
        assert_eq!(groups_text(&json!({})), "");
    }
}
