use std::path::PathBuf;

use super::*;

fn policy(text: &str) -> Policy {
    Policy::from_toml(text).unwrap()
}

fn granted(policy: &Policy, path: &str) -> Option<Access> {
    policy.access(Path::new(path))
}

const EXAMPLE: &str = r#"
system = true
grant = ["/data:rw", "/data/keys:ro", "/data/keys/mine:rw", "/usr"]
listen = ["8080", 9090]
connect = ["127.0.0.1:6379", "db.example.org:5432"]
lookup = ["*.example.net"]
env = ["TOKEN", "AWS_*", "DEBUG=1"]
delegate = true
snapshot = ["model/*:attach", "out:publish"]
[limits]
memory = "512M"
processes = 64
"#;

#[test]
fn the_longest_path_decides_by_whole_parts() {
    let policy = policy(EXAMPLE);
    assert_eq!(granted(&policy, "/data"), Some(Access::ReadWrite));
    assert_eq!(granted(&policy, "/data/a"), Some(Access::ReadWrite));
    assert_eq!(granted(&policy, "/data/keys/a"), Some(Access::ReadOnly));
    assert_eq!(granted(&policy, "/data/keys/mine/a"), Some(Access::ReadWrite));
    assert_eq!(granted(&policy, "/data/keyset"), Some(Access::ReadWrite));
    assert_eq!(granted(&policy, "/database"), None);
    assert_eq!(granted(&policy, "/"), None);
    assert_eq!(granted(&policy, "/usr/../etc"), None);
    assert_eq!(granted(&policy, "usr"), None);
}

#[test]
fn what_is_judged_for_no_address_is_what_must_be_used() {
    let used = |to: &str| destination(to.parse().unwrap()).to_string();
    assert_eq!(used("0.0.0.0:80"), "127.0.0.1:80");
    assert_eq!(used("[::]:80"), "[::1]:80");
    assert_eq!(used("[::ffff:0.0.0.0]:80"), "[::ffff:127.0.0.1]:80");
    assert_eq!(used("[fe80::1%3]:80"), "[fe80::1%3]:80");
    assert_eq!(used("10.0.0.5:80"), "10.0.0.5:80");
}

#[test]
fn connections_are_judged_by_where_they_go() {
    let policy = policy(EXAMPLE);
    let may = |to: &str| policy.may_connect(to.parse().unwrap());
    assert!(may("127.0.0.1:6379"));
    assert!(may("[::ffff:127.0.0.1]:6379"));
    assert!(may("0.0.0.0:6379"));
    assert!(!may("[::]:6379"));
    assert!(!may("127.0.0.1:6380"));
    assert!(!may("10.0.0.5:5432"));
    assert_eq!(policy.connect_names(5432).count(), 1);
    assert_eq!(policy.connect_names(6379).count(), 0);
}

#[test]
fn listening_and_look_ups_are_granted_each_by_its_list() {
    let policy = policy(EXAMPLE);
    let may = |at: &str| policy.may_listen(at.parse().unwrap());
    assert!(may("0.0.0.0:8080") && may("[::1]:9090") && !may("127.0.0.1:6379"));
    assert!(!may("127.0.0.1:0"));
    assert!(policy.may_look_up("a.example.net") && policy.may_look_up("DB.example.org."));
    assert!(!policy.may_look_up("example.net") && !policy.may_look_up("x.example.org"));
}

#[test]
fn what_is_added_later_has_the_last_word_on_its_path_and_limit() {
    let mut policy = policy(EXAMPLE);
    let flags = r#"
        grant = ["/data/:ro", "/srv:rw"]
        listen = ["8080"]
        [limits]
        processes = 3
    "#;
    policy.add(Policy::from_toml(flags).unwrap());
    assert_eq!(granted(&policy, "/data/a"), Some(Access::ReadOnly));
    assert_eq!(granted(&policy, "/data/keys/mine"), Some(Access::ReadWrite));
    assert_eq!(granted(&policy, "/srv/a"), Some(Access::ReadWrite));
    assert_eq!(policy.listen.len(), 2);
    assert_eq!(policy.limits, Limits { memory: Some(512 << 20), processes: Some(3), tmp: None });
    assert!(policy.system);
    policy.add(Policy { system: false, ..Policy::default() });
    assert!(!policy.system);
}

#[test]
fn relative_grants_are_anchored_and_absolute_ones_stay() {
    let mut policy = policy(r#"grant = ["data:rw", "/usr"]"#);
    policy.anchor(Path::new("/srv/app"));
    let paths: Vec<_> = policy.grants.iter().map(|grant| grant.path.clone()).collect();
    assert_eq!(paths, [PathBuf::from("/srv/app/data"), PathBuf::from("/usr")]);
}

#[test]
fn a_policy_reads_back_as_it_was_written() {
    let policy = policy(EXAMPLE);
    assert_eq!(Policy::from_toml(&policy.to_toml()), Ok(policy));
    let odd = PathGrant::parse("/a \"b\"\\\n\u{7f}é:rw").unwrap();
    let odd = Policy { grants: vec![odd], ..Policy::default() };
    assert_eq!(Policy::from_toml(&odd.to_toml()), Ok(odd));
    assert_eq!(Policy::from_toml(""), Ok(Policy::default()));
}

#[test]
fn a_path_that_is_no_utf8_becomes_a_comment() {
    use std::os::unix::ffi::OsStringExt;
    let path = PathBuf::from(std::ffi::OsString::from_vec(b"/a\xff\n]".to_vec()));
    let grants = vec![PathGrant { path, access: Access::ReadOnly }];
    let text = Policy { grants, ..Policy::default() }.to_toml();
    assert!(text.contains("# \"/a\\xFF\\n]\" is no UTF-8"), "{text}");
    assert_eq!(Policy::from_toml(&text), Ok(Policy::default()));
}

#[test]
fn mistakes_name_file_line_key_and_what_to_write() {
    let said = |text: &str| {
        let error = Policy::from_toml(text).unwrap_err();
        error.in_file(Path::new("app.toml")).to_string()
    };
    assert_eq!(
        said("system = true\ngrants = []"),
        "app.toml: line 2: grants: no such key; did you mean grant?"
    );
    assert!(said("\ngrant = [\n  \"/a:rwx\"\n]").starts_with("app.toml: line 3: grant[1]: \"rwx\""));
    assert!(said("grant = [\"/a:ro\", \"/a/:rw\"]").contains("grant[2]: /a/ is granted twice"));
    assert!(said("connect = [8080]").contains("write 127.0.0.1:8080"));
    assert!(said("listen = [70000]").contains("70000 is out of range; allowed is 0 to 65535"));
    assert!(said("system = 1").contains("wanted true or false, found integer"));
    assert!(said("[limits]\nmemory = \"12\"").contains("line 2: limits.memory: 12 is out of range"));
    assert!(said("[limits]\nprocesses = 0").contains("allowed is 1 to 4194304"));
    assert!(said("grant = [").starts_with("app.toml: line 1: "));
    let many = format!("lookup = [{}]", "\"a\",".repeat(ENTRIES_MAX + 1));
    assert!(said(&many).contains("at most 4096"));
}

#[test]
fn of_the_environment_what_is_harmless_or_named_crosses() {
    let policy = policy(EXAMPLE);
    let crosses = |name| (policy.lets_cross(name, true), policy.lets_cross(name, false));
    assert_eq!([crosses("TOKEN"), crosses("AWS_REGION")], [(true, true); 2]);
    assert_eq!(crosses("PATH"), (true, false));
    assert_eq!([crosses("SECRET"), crosses("DEBUG")], [(false, false); 2]);
    assert_eq!(policy.env[2], Variable::Is("DEBUG".into(), "1".into()));
    let wrong = Policy::from_toml("env = [\"A*B\"]").unwrap_err().to_string();
    assert!(wrong.contains("line 1") && wrong.contains("env[1]"), "{wrong}");
}

#[test]
fn regions_are_granted_by_name_and_right_and_delegation_is_yes_or_no() {
    let mut given = policy(EXAMPLE);
    let may = |policy: &Policy, right, name: &str| {
        policy.may_use_region(right, &RegionName::parse(name).unwrap(), 7, 7)
    };
    assert!(given.delegate && may(&given, RegionRight::Attach, "model/a"));
    assert!(may(&given, RegionRight::Publish, "out") && !may(&given, RegionRight::Attach, "out"));
    assert!(!Policy::default().delegate && !policy("delegate = false").delegate);
    given.add(policy("snapshot = [\"out:publish\", \"more:publish\"]"));
    assert_eq!((given.regions.len(), given.delegate), (3, true));
    let why = Policy::from_toml("snapshot = [\"out\"]").unwrap_err().to_string();
    assert!(why.contains("snapshot[1]") && why.contains("write NAME:publish"), "{why}");
    let memory = "memory = [\"kv/*:write\", \"mine:allocate\", \"kv/a:read:8\"]\n";
    given.add(policy(memory));
    assert!(may(&given, RegionRight::Read, "kv/a") && may(&given, RegionRight::Allocate, "mine"));
    assert!(
        !may(&given, RegionRight::Attach, "kv/a") && !may(&given, RegionRight::Read, "model/a")
    );
    assert_eq!(Policy::from_toml(&given.to_toml()).map(|it| it.memory), Ok(given.memory));
    let why = Policy::from_toml("memory = [\"out:attach\"]").unwrap_err().to_string();
    assert!(why.contains("memory[1]") && why.contains("NAME:allocate"), "{why}");
    let why = Policy::from_toml("delegate = \"yes\"").unwrap_err().to_string();
    assert!(why.contains("delegate"), "{why}");
}
