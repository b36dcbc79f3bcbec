use super::*;

fn matches(pattern: &str, address: &str) -> bool {
    let address = NetAddress::new(address.parse().unwrap());
    NamePattern::parse(pattern).unwrap().matches(address)
}

#[test]
fn patterns_match_address_and_port_separately() {
    assert!(matches("/net/tcp/127.0.0.1:6379", "127.0.0.1:6379"));
    assert!(!matches("/net/tcp/127.0.0.1:6379", "127.0.0.2:6379"));
    assert!(matches("/net/tcp/*:80", "[::1]:80"));
    assert!(!matches("/net/tcp/*:80", "[::1]:81"));
    assert!(matches("/net/tcp/[::1]:*", "[::1]:81"));
    assert!(matches("/net/tcp/*:8000-8999", "10.0.0.1:8080"));
    assert!(matches("/net/*", "10.0.0.1:1"));
}

#[test]
fn regions_match_by_name_or_by_its_beginning() {
    let matches = |pattern, name| {
        let name = RegionName::parse(name).unwrap();
        NamePattern::parse(pattern).unwrap().matches(&name)
    };
    assert!(matches("/snapshot/a", "a") && !matches("/snapshot/a", "a/b"));
    assert!(matches("/snapshot/a/*", "a/b") && !matches("/snapshot/a/*", "ab"));
    assert!(matches("/snapshot/*", "x") && !matches("/net/*", "x"));
    let error = NamePattern::parse("/snapshot/a b").unwrap_err();
    assert_eq!(error, PatternError::Region(NameError::Character(' ')));
    assert!(NamePattern::parse("/snapshot/a*b").is_err());
    let everywhere = NamePattern::parse("/snapshot/*").unwrap();
    assert!(!everywhere.matches(NetAddress::new("127.0.0.1:1".parse().unwrap())));
}

#[test]
fn memory_regions_match_by_name_or_by_its_beginning_and_are_no_snapshots() {
    let matches = |pattern: &str, name| {
        let name = MemoryName::parse(name).unwrap();
        NamePattern::parse(pattern).unwrap().matches(&name)
    };
    assert!(matches("/memory/kv/a", "kv/a") && !matches("/memory/kv/a", "kv/ab"));
    assert!(matches("/memory/kv/*", "kv/a") && matches("/memory/*", "x"));
    assert!(!matches("/snapshot/*", "x") && !matches("/file/*", "x"));
    assert!(NamePattern::parse("/memory/a//*").is_err());
}

#[test]
fn locks_match_by_name_or_by_its_beginning_and_are_no_memory() {
    let matches = |pattern: &str, name| {
        let name = LockName::parse(name).unwrap();
        NamePattern::parse(pattern).unwrap().matches(&name)
    };
    assert!(matches("/lock/jobs/0", "jobs/0") && !matches("/lock/jobs/0", "jobs/01"));
    assert!(matches("/lock/jobs/*", "jobs/0") && !matches("/memory/*", "jobs/0"));
    assert!(NamePattern::parse("/lock/a//*").is_err());
}

#[test]
fn functions_match_by_name_or_by_its_beginning_and_are_no_regions() {
    let matches = |pattern: &str, name| {
        let name = FunctionName::parse(name).unwrap();
        NamePattern::parse(pattern).unwrap().matches(&name)
    };
    assert!(matches("/rpc/kv/get", "kv/get") && !matches("/rpc/kv/get", "kv/get2"));
    assert!(matches("/rpc/kv/*", "kv/get") && matches("/rpc/*", "x"));
    assert!(!matches("/memory/*", "x") && NamePattern::parse("/rpc/a//*").is_err());
}

#[test]
fn names_are_shown_as_rules_write_them() {
    let region = RegionName::parse("model/a").unwrap();
    assert_eq!(Name::from(&region).to_string(), "/snapshot/model/a");
    assert_eq!(Name::File("/srv/a").to_string(), "/file/srv/a");
    let memory = MemoryName::parse("kv/a").unwrap();
    assert_eq!(Name::from(&memory).to_string(), "/memory/kv/a");
    let area = AreaName::parse("redis/a").unwrap();
    assert_eq!(Name::from(&area).to_string(), "/store/redis/a");
}

#[test]
fn areas_match_by_name_or_by_its_beginning() {
    let (log, other) = (AreaName::parse("redis/a").unwrap(), AreaName::parse("redis/b").unwrap());
    let pattern = |text: &str| NamePattern::parse(text).unwrap();
    assert!(pattern("/store/redis/a").matches(&log) && !pattern("/store/redis/a").matches(&other));
    assert!(pattern("/store/redis/*").matches(&other) && !pattern("/memory/*").matches(&log));
}

#[test]
fn files_match_by_path_or_by_its_beginning() {
    let matches = |pattern: &str, path: &str| {
        let pattern = NamePattern::parse(pattern).unwrap();
        pattern.matches(Name::File(path))
    };
    assert!(matches("/file/srv/a", "/srv/a") && !matches("/file/srv/a", "/srv/a/b"));
    assert!(matches("/file/srv/*", "/srv/a/b") && !matches("/file/srv/*", "/srv"));
    assert!(matches("/file/srv/log*", "/srv/log.1") && matches("/file/*", "/x"));
    assert!(!matches("/snapshot/*", "/x") && !matches("/net/*", "/x"));
}

#[test]
fn a_mapped_pattern_is_the_plain_address() {
    assert!(matches("/net/tcp/[::ffff:10.0.0.1]:80", "10.0.0.1:80"));
}

#[test]
fn what_is_no_pattern_says_why() {
    let why = |text: &str| NamePattern::parse(text).unwrap_err();
    assert_eq!(why("/files/x"), PatternError::Service);
    for wrong in ["/", "/a/../b", "/a//b", "/a*b", "/a/", "/a/./*", "/a/**"] {
        assert_eq!(why(&format!("/file{wrong}")), PatternError::Path(wrong.into()));
    }
    assert_eq!(why("/net/tcp/80"), PatternError::Port);
    assert_eq!(why("/net/tcp/::1:80"), PatternError::Address("::1".into()));
    assert_eq!(why("/net/tcp/*:0"), PatternError::PortNumber("0".into()));
    assert_eq!(why("/net/tcp/*:9-8"), PatternError::PortNumber("9-8".into()));
}
