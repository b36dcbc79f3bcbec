use super::*;

fn recorder() -> Recorder {
    let system = vec![PathGrant::parse("/usr:ro").unwrap()];
    Recorder::new(system, vec![PathBuf::from("/users/ann/own")])
}

fn read(recorder: &mut Recorder, path: &str) {
    recorder.note(Ask::Path(Path::new(path), Access::ReadOnly), false);
}

fn write(recorder: &mut Recorder, path: &str) {
    recorder.note(Ask::Path(Path::new(path), Access::ReadWrite), true);
}

fn grants(recorder: &Recorder) -> Vec<String> {
    let grants = recorder.policy().grants;
    grants.iter().map(|one| format!("{}:{}", one.path.display(), one.access.word())).collect()
}

#[test]
fn few_files_stay_files_and_eight_become_their_folder() {
    let mut recorder = recorder();
    (0..7).for_each(|n| read(&mut recorder, &format!("/srv/few/{n}")));
    (0..8).for_each(|n| read(&mut recorder, &format!("/srv/many/{n}")));
    let grants = grants(&recorder);
    assert_eq!(grants.len(), 8);
    assert_eq!(grants[7], "/srv/many:ro");
}

#[test]
fn folders_that_lead_on_count_as_entries_and_writing_takes_reading_in() {
    let mut recorder = recorder();
    for n in 0..8 {
        write(&mut recorder, &format!("/srv/repo/objects/{n}/blob"));
        read(&mut recorder, &format!("/srv/repo/objects/{n}/info"));
    }
    read(&mut recorder, "/srv/repo/config");
    assert_eq!(grants(&recorder), ["/srv/repo/config:ro", "/srv/repo/objects:rw"]);
}

#[test]
fn a_written_file_stays_apart_in_a_folder_that_is_read() {
    let mut recorder = recorder();
    (0..9).for_each(|n| read(&mut recorder, &format!("/srv/a/{n}")));
    write(&mut recorder, "/srv/a/log");
    assert_eq!(grants(&recorder), ["/srv/a:ro", "/srv/a/log:rw"]);
}

#[test]
fn top_folders_and_the_home_folder_are_never_folded_into() {
    let mut recorder = recorder();
    for n in 0..9 {
        read(&mut recorder, &format!("/etc/{n}"));
        read(&mut recorder, &format!("/users/ann/own/{n}"));
        read(&mut recorder, &format!("/users/{n}"));
    }
    assert_eq!(grants(&recorder).len(), 27);
}

#[test]
fn what_the_system_grants_is_not_recorded_but_writing_there_is() {
    let mut recorder = recorder();
    read(&mut recorder, "/usr/lib/a");
    write(&mut recorder, "/usr/lib/b");
    assert_eq!(grants(&recorder), ["/usr/lib/b:rw"]);
}

#[test]
fn a_folder_that_was_looked_at_is_granted_only_if_nothing_else_makes_it_visible() {
    let mut recorder = recorder();
    for folder in ["/", "/srv", "/srv/x", "/srv/y/z", "/users/ann/own"] {
        recorder.note(Ask::Folder(Path::new(folder)), false);
    }
    read(&mut recorder, "/srv/x/file");
    assert_eq!(grants(&recorder), ["/srv/x/file:ro", "/srv/y/z:ro"]);
    let text = recorder.to_toml("ls");
    assert!(text.contains("# looked at, and too much to grant for that: /users/ann/own"), "{text}");
}

#[test]
fn a_look_is_granted_as_one_and_reading_takes_it_in() {
    let mut recorder = recorder();
    let mut look = |path: &str| recorder.note(Ask::Path(Path::new(path), Access::Stat), true);
    ["/etc", "/srv/app", "/srv/app/none", "/srv/app/conf", "/srv/empty"]
        .into_iter()
        .for_each(&mut look);
    (0..8).for_each(|n| look(&format!("/srv/many/{n}")));
    read(&mut recorder, "/srv/app/conf");
    let wanted = ["/srv/app/conf:ro", "/srv/app/none:stat", "/srv/empty:stat", "/srv/many:stat"];
    assert_eq!(grants(&recorder), wanted);
    assert_eq!(Policy::from_toml(&recorder.to_toml("ls")).unwrap().grants.len(), wanted.len());
}

#[test]
fn what_a_listing_led_to_a_look_at_is_no_grant_of_its_own() {
    let mut recorder = recorder();
    for folder in ["/etc", "/srv/app"] {
        recorder.note(Ask::Folder(Path::new(folder)), true);
    }
    for path in ["/etc/one", "/etc/two", "/srv/app/one", "/srv/app/two"] {
        recorder.note(Ask::Path(Path::new(path), Access::Stat), true);
    }
    read(&mut recorder, "/etc/conf");
    assert_eq!(grants(&recorder), ["/etc/conf:ro", "/srv/app:ro"]);
    assert!(!recorder.to_toml("ls").contains("/etc/two"));
}

#[test]
fn users_that_it_became_are_named() {
    let mut recorder = recorder();
    ["web", "web", "db"].into_iter().for_each(|name| recorder.note_user(name));
    assert_eq!(Policy::from_toml(&recorder.to_toml("serve")).unwrap().users, ["db", "web"]);
}

#[test]
fn connections_are_written_with_the_name_that_led_there() {
    let mut recorder = recorder();
    recorder.note(Ask::Name("DB.example.org."), true);
    recorder.note(Ask::Name("other.example.org"), true);
    recorder.learn("DB.example.org.", "10.0.0.5".parse().unwrap());
    recorder.learn("db.example.org", "10.0.0.6".parse().unwrap());
    for to in ["10.0.0.5:5432", "10.0.0.6:5432", "[::ffff:10.0.0.7]:80"] {
        recorder.note(Ask::Connect(to.parse().unwrap()), false);
    }
    let policy = recorder.policy();
    let connect: Vec<_> = policy.connect.iter().map(Endpoint::to_string).collect();
    assert_eq!(connect, ["10.0.0.7:80", "db.example.org:5432"]);
    assert_eq!(policy.lookup, [NamePattern::parse("other.example.org").unwrap()]);
}

#[test]
fn many_ports_of_a_host_are_all_its_ports() {
    let mut recorder = recorder();
    (1..9).for_each(|n| recorder.note(Ask::Connect(([10, 0, 0, 1], n).into()), true));
    (1..8).for_each(|n| recorder.note(Ask::Connect(([10, 0, 0, 2], n).into()), true));
    let connect = recorder.policy().connect;
    assert_eq!(connect.len(), 8);
    assert_eq!(connect[0].to_string(), "10.0.0.1:*");
}

#[test]
fn the_file_reads_back_and_comments_say_what_was_refused() {
    let mut recorder = recorder();
    read(&mut recorder, "/srv/a");
    read(&mut recorder, "/srv/a");
    (0..8).for_each(|n| write(&mut recorder, &format!("/srv/b/{n}")));
    recorder.note(Ask::Listen("0.0.0.0:8080".parse().unwrap()), false);
    recorder.note(Ask::Call("ptrace"), false);
    recorder.note(Ask::Call("ptrace"), false);
    let text = recorder.to_toml("a\nb");
    assert!(text.starts_with("# What `a?b` asked for"), "{text}");
    assert!(text.contains("\"/srv/a:ro\",  # refused 2 times\n"), "{text}");
    assert!(text.contains("\"/srv/b:rw\",  # 8 paths below it\n"), "{text}");
    assert!(text.contains("\"0.0.0.0:8080\",  # refused once\n"), "{text}");
    assert!(text.contains("# Refused, and no grant allows it: ptrace (2)"), "{text}");
    assert_eq!(Policy::from_toml(&text), Ok(recorder.policy()));
}

#[test]
fn refusals_are_listed_in_words_with_the_flag_that_helps() {
    let mut recorder = recorder();
    assert!(recorder.is_content());
    read(&mut recorder, "/srv/a");
    write(&mut recorder, "/srv/b");
    recorder.note(Ask::Connect("[::1]:80".parse().unwrap()), false);
    recorder.note(Ask::Name("a.example.org"), false);
    recorder.note(Ask::Call("mount"), false);
    let refusals = recorder.refusals();
    let flags: Vec<_> = refusals.iter().map(|one| one.grant.as_deref()).collect();
    let wanted = ["--grant /srv/a:ro", "--connect [::1]:80", "--lookup a.example.org"];
    assert_eq!(flags, wanted.map(Some).into_iter().chain([None]).collect::<Vec<_>>());
    assert_eq!(refusals[0].what, "to read /srv/a");
    assert!(!recorder.is_content());
}

#[test]
fn a_program_that_asks_for_everything_fills_nothing_but_the_limits() {
    let mut recorder = recorder();
    for n in 0..6000u32 {
        read(&mut recorder, &format!("/users/ann/own/{n}"));
        read(&mut recorder, &format!("/srv/many/{n}"));
        recorder.note(Ask::Name(&format!("n{n}.example.org")), false);
        recorder.note(Ask::Connect((n.to_be_bytes(), 1).into()), false);
    }
    assert!(recorder.paths.len() <= PATHS_MAX);
    assert!(recorder.names.len() <= ADDRESSES_MAX && recorder.connects.len() <= ADDRESSES_MAX);
    let text = recorder.to_toml("x");
    assert!(text.contains("further requests found no room"), "{text}");
    assert!(text.contains("\"/srv/many:ro\""));
    recorder.note(Ask::Name("no name at all"), false);
}

#[test]
fn variables_that_were_told_stay_and_others_are_named() {
    let told = ["TOKEN", "A=\"b"].map(|text| Variable::parse(text).unwrap()).to_vec();
    let recorder = recorder().with_environment(told.clone(), vec!["KEY".into(), "X\nY".into()]);
    let text = recorder.to_toml("x");
    assert!(text.contains("# Set outside, and not told to the program: KEY, X?Y\n"), "{text}");
    assert_eq!(Policy::from_toml(&text).unwrap().env, told);
}

#[test]
fn what_holds_secrets_is_named_in_a_comment_and_not_granted() {
    let mut recorder = recorder();
    for path in ["/etc/shadow", "/users/ann/own/.ssh/id_rsa", "/srv/b/server.key"] {
        read(&mut recorder, path);
    }
    (0..9).for_each(|n| read(&mut recorder, &format!("/srv/a/tls/{n}")));
    read(&mut recorder, "/srv/a/tls/server.key");
    write(&mut recorder, "/srv/b");
    let grants = grants(&recorder);
    assert_eq!(grants.len(), 10, "nine files that no folder stands for: {grants:?}");
    assert!(grants.contains(&"/srv/b:rw".to_owned()) && !grants.join(" ").contains("key"));
    let text = recorder.to_toml("x");
    let shadow =
        "# \"/etc/shadow:ro\",  not granted: it may hold the passwords of this machine's users\n";
    assert!(text.contains(shadow), "{text}");
    assert!(
        text.contains("server.key:ro\",  comes with /srv/b, and may hold a private key\n"),
        "{text}"
    );
    assert_eq!(Policy::from_toml(&text), Ok(recorder.policy()));
}

#[test]
fn what_was_asked_of_the_control_plane_is_in_the_policy() {
    let mut recorder = recorder();
    assert!(!recorder.policy().delegate && !recorder.to_toml("x").contains("delegate"));
    let scopes = ["out:publish", "in:attach:7"].map(|text| RegionScope::parse(text).unwrap());
    recorder.note(Ask::Delegation, true);
    recorder.note(Ask::Region(&scopes[0]), true);
    recorder.note(Ask::Region(&scopes[1]), false);
    let found = Policy::from_toml(&recorder.to_toml("x")).unwrap();
    assert_eq!((found.delegate, found.regions.len()), (true, 2));
    assert_eq!(found.regions, recorder.policy().regions);
    let [refusal] = recorder.refusals().try_into().unwrap();
    assert_eq!(refusal.what, "to attach to /snapshot/in of user 7");
    assert_eq!(refusal.grant.as_deref(), Some("--snapshot in:attach:7"));
    assert!(!recorder.is_content());
    assert_eq!(Ask::Delegation.flag().as_deref(), Some("--delegate"));
}
