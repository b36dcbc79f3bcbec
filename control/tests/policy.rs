//! Properties of policies: files read back, decisions agree with a plain model, nothing panics.

use std::path::{Path, PathBuf};

use heliostat_control::policy::record::{Ask, Recorder};
use heliostat_control::policy::{Access, Endpoint, NamePattern, PathGrant, Policy};
use proptest::prelude::*;

fn access() -> impl Strategy<Value = Access> {
    prop_oneof![Just(Access::ReadOnly), Just(Access::ReadWrite)]
}

/// Short paths over few names, so that they often lie above one another.
fn path() -> impl Strategy<Value = PathBuf> {
    let part = prop::sample::select(vec!["a", "b", "ab", "a:ro", "\"", "ü"]);
    prop::collection::vec(part, 0..5).prop_map(|parts| {
        let mut path = PathBuf::from("/");
        path.extend(parts);
        path
    })
}

fn grant() -> impl Strategy<Value = PathGrant> {
    (path(), access()).prop_map(|(path, access)| PathGrant { path, access })
}

fn grants() -> impl Strategy<Value = Vec<PathGrant>> {
    prop::collection::vec(grant(), 0..6)
}

/// The model: the longest of the grants whose text is the path or goes on with a slash.
fn model(grants: &[PathGrant], path: &Path) -> Option<Access> {
    let text = |path: &Path| format!("{}/", path.to_str().unwrap().trim_end_matches('/'));
    let wanted = text(path);
    let above = grants.iter().filter(|grant| wanted.starts_with(&text(&grant.path)));
    above.max_by_key(|grant| text(&grant.path).len()).map(|grant| grant.access)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn access_is_that_of_the_longest_grant(grants in grants(), path in path()) {
        let policy = Policy { grants, ..Policy::default() };
        prop_assert_eq!(policy.access(&path), model(&policy.grants, &path));
    }

    #[test]
    fn policies_read_back(grants in grants(), memory in prop::option::of(1u64 << 20..1 << 40)) {
        let mut policy = Policy::default();
        grants.into_iter().for_each(|grant| {
            policy.add(Policy { grants: vec![grant], ..Policy::default() });
        });
        policy.limits.memory = memory;
        policy.connect = vec![Endpoint::parse_connect("*.a:1-5").unwrap()];
        prop_assert_eq!(Policy::from_toml(&policy.to_toml()), Ok(policy));
    }

    #[test]
    fn endpoints_that_parse_read_back(text in "[a-c0-9.:*\\[\\]-]{0,12}") {
        if let Ok(endpoint) = Endpoint::parse_connect(&text) {
            prop_assert_eq!(Endpoint::parse_connect(&endpoint.to_string()), Ok(endpoint));
        }
        if let Ok(endpoint) = Endpoint::parse_listen(&text) {
            prop_assert_eq!(Endpoint::parse_listen(&endpoint.to_string()), Ok(endpoint));
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".{0,60}") {
        let _ = Policy::from_toml(&text);
        let _ = PathGrant::parse(&text);
        let _ = NamePattern::parse(&text).map(|pattern| pattern.matches(&text));
    }

    #[test]
    fn what_was_asked_for_is_granted_by_the_recorded_policy(
        asks in prop::collection::vec((path(), access()), 0..60)
    ) {
        let mut recorder = Recorder::new(Vec::new(), Vec::new());
        asks.iter().for_each(|(path, access)| recorder.note(Ask::Path(path, *access), false));
        let policy = recorder.policy();
        for (path, access) in &asks {
            prop_assert!(policy.access(path) >= Some(*access), "{path:?} {access:?} in {policy:?}");
        }
        prop_assert_eq!(Policy::from_toml(&recorder.to_toml("x")).map(|p| p.grants), Ok(policy.grants));
    }
}
