use super::*;

fn scope(text: &str) -> RegionScope {
    RegionScope::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn has(text: &str, right: RegionRight, name: &str, owner: u32) -> bool {
    scope(text).has(right, &RegionName::parse(name).unwrap(), owner, 7)
}

#[test]
fn a_scope_has_its_names_in_its_rightof_its_users_and_no_others() {
    use RegionRight::{Attach, Publish};
    assert!(has("a/b:publish", Publish, "a/b", 7) && has("/snapshot/a:attach", Attach, "a", 7));
    assert!(!has("a:publish", Attach, "a", 7) && !has("a:attach", Publish, "a", 7));
    assert!(!has("a:attach", Attach, "a/b", 7) && !has("a:attach", Attach, "ab", 7));
    assert!(has("a/*:attach", Attach, "a/b", 7) && !has("a/*:attach", Attach, "ab", 7));
    assert!(has("*:attach", Attach, "any", 7) && !has("*:attach", Attach, "any", 8));
    assert!(has("a:attach:8", Attach, "a", 8) && !has("a:attach:8", Attach, "a", 7));
    assert!(has("a:attach:*", Attach, "a", 8) && has("a:attach:7", Attach, "a", 7));
}

#[test]
fn texts_and_records_are_read_back_to_the_same() {
    let texts = ["a:publish", "a/b.c-d_e:attach", "a/*:publish", "*:attach:*", "a:attach:0"];
    for text in texts {
        let one = scope(text);
        assert_eq!(one.to_string(), text);
        let mut bytes = [0; 96];
        one.encode(&mut Writer::new(&mut bytes));
        assert_eq!(RegionScope::decode(&mut Reader::new(&bytes)), Ok(one));
    }
    for right in [RegionRight::Publish, RegionRight::Attach] {
        let all = RegionScope::everything(right);
        assert_eq!(scope(&all.to_string()), all);
    }
}

#[test]
fn scopes_of_memory_have_their_rights_and_those_of_snapshots_do_not() {
    use RegionRight::{Allocate, Attach, Read, Write};
    let scope = |text| RegionScope::parse_memory(text).unwrap();
    let has = |text, right, name, owner| {
        scope(text).has(right, &RegionName::parse(name).unwrap(), owner, 7)
    };
    assert!(has("kv/*:write", Read, "kv/a", 7) && has("kv/*:write", Write, "kv/a", 7));
    assert!(!has("kv/*:read", Write, "kv/a", 7) && !has("kv/*:write", Allocate, "kv/a", 7));
    assert!(!has("kv:read", Attach, "kv", 7) && !has("kv:read", Read, "kv", 8));
    assert!(has("/memory/kv:read:8", Read, "kv", 8) && has("kv:allocate", Allocate, "kv", 7));
    for text in ["a:read", "a/*:write:*", "a/b:allocate", "*:read:8"] {
        let one = scope(text);
        assert_eq!(one.to_string(), text);
        let mut bytes = [0; 96];
        one.encode(&mut Writer::new(&mut bytes));
        assert_eq!(RegionScope::decode(&mut Reader::new(&bytes)), Ok(one));
    }
    let why = |text: &str| RegionScope::parse_memory(text).unwrap_err().to_string();
    assert!(why("a:attach").contains("NAME:read or NAME:write or NAME:allocate"));
    assert_eq!(RegionScope::parse_memory("a:allocate:7"), Err(ScopeError::PublishedByOthers));
}

#[test]
fn scopes_of_locks_and_functions_have_their_rights_and_no_others() {
    use RegionRight::{Acquire, Call, Read, Serve};
    let has = |names, text: &str, right, name: &str, owner| {
        let scope = RegionScope::parse_of(names, text).unwrap();
        scope.has(right, &RegionName::parse(name).unwrap(), owner, 7)
    };
    let (locks, functions) = (NamesOf::Locks, NamesOf::Functions);
    assert!(has(locks, "/lock/jobs/*:acquire", Acquire, "jobs/0", 7));
    assert!(!has(locks, "jobs:acquire", Call, "jobs", 7));
    assert!(!has(locks, "jobs:acquire", Acquire, "jobs", 8));
    assert!(has(functions, "/rpc/f:call:8", Call, "f", 8));
    assert!(!has(functions, "f:call", Serve, "f", 7) && has(functions, "f:serve", Serve, "f", 7));
    assert!(!has(functions, "f:serve", Call, "f", 7) && !has(functions, "f:call", Read, "f", 7));
    for (names, text) in [(locks, "a/*:acquire:*"), (functions, "f:call:8"), (functions, "f:serve")]
    {
        let one = RegionScope::parse_of(names, text).unwrap();
        assert_eq!((one.to_string().as_str(), one.right.names()), (text, names));
        let mut bytes = [0; 96];
        one.encode(&mut Writer::new(&mut bytes));
        assert_eq!(RegionScope::decode(&mut Reader::new(&bytes)), Ok(one));
    }
    let why = |names, text: &str| RegionScope::parse_of(names, text).unwrap_err().to_string();
    assert!(why(locks, "a:call").contains("NAME:acquire"));
    assert!(why(functions, "a").contains("NAME:call or NAME:serve"));
    assert!(why(functions, "a:serve:7").contains("leave the user out"));
}

#[test]
fn a_scope_of_areas_has_what_lies_beneath_its_right_and_is_read_and_written_without_a_word() {
    use RegionRight::{CreateArea, ManageArea, Read, ReadArea, WriteArea};
    let all = [ReadArea, WriteArea, ManageArea, CreateArea];
    let count = |text: &str, owner| {
        let scope = RegionScope::parse_of(NamesOf::Areas, text).unwrap();
        let name = RegionName::parse("log/1").unwrap();
        assert!(!scope.has(Read, &name, owner, 7), "another service's");
        all.iter().take_while(|right| scope.has(**right, &name, owner, 7)).count()
    };
    assert_eq!((count("log/1", 7), count("log/1", 8)), (2, 0));
    assert_eq!((count("/store/log/*:read:8", 8), count("log/*:read:8", 7)), (1, 0));
    assert_eq!((count("*:manage:*", 8), count("log/*:create", 7), count("b:create", 7)), (3, 4, 0));
    for text in ["a/*:read:8", "a:write", "a:manage:*", "a/*:create"] {
        let one = RegionScope::parse_of(NamesOf::Areas, text).unwrap();
        assert_eq!((one.to_string().as_str(), one.right.names()), (text, NamesOf::Areas));
        let mut bytes = [0; 96];
        one.encode(&mut Writer::new(&mut bytes));
        assert_eq!(RegionScope::decode(&mut Reader::new(&bytes)), Ok(one));
    }
    let why = |text: &str| RegionScope::parse_of(NamesOf::Areas, text).unwrap_err().to_string();
    assert!(why("a:publish").contains("NAME:read or NAME:write or NAME:manage or NAME:create"));
    assert!(why("a:create:7").contains("leave the user out"));
}

#[test]
fn what_says_no_regions_says_what_to_write() {
    let why = |text: &str| RegionScope::parse(text).unwrap_err();
    assert_eq!(why("a"), ScopeError::Right(NamesOf::Snapshots.rights()));
    assert_eq!(why("a:read"), ScopeError::Right(NamesOf::Snapshots.rights()));
    assert_eq!(why("a:publish:7"), ScopeError::PublishedByOthers);
    assert_eq!(why("a:attach:ann"), ScopeError::Whose("ann".into()));
    assert_eq!(why("a:attach:4294967295"), ScopeError::Whose("4294967295".into()));
    assert_eq!(why(":attach"), ScopeError::Name(NameError::Length(0)));
    assert_eq!(why("../*:attach"), ScopeError::Name(NameError::Part));
    assert_eq!(why("a*b:attach"), ScopeError::Name(NameError::Character('*')));
}

#[test]
fn records_that_say_no_regions_are_refused() {
    let mut good = [0; 96];
    scope("a/*:attach:8").encode(&mut Writer::new(&mut good));
    for (at, value) in [(0, 6), (4, 3), (12, 2), (16, 65), (16, 3), (20, b'/'), (20, b'*')] {
        let mut bytes = good;
        bytes[at] = value;
        assert!(RegionScope::decode(&mut Reader::new(&bytes)).is_err(), "{at}: {value}");
    }
    good[0] = RegionRight::Publish as u8;
    assert!(RegionScope::decode(&mut Reader::new(&good)).is_err(), "published by others");
}
