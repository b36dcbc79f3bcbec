//! What is granted, and what is not.

use super::*;

#[test]
fn folders_and_processes_of_proc_are_not_granted_and_links_into_it_are_no_roots() {
    let whole = tempfile::tempdir().expect("a folder");
    let folder = whole.path().canonicalize().expect("its real name");
    let mtab = folder.join("mtab");
    let depth = folder.components().count() - 1;
    let text = Path::new(&"../".repeat(depth)).join("proc/self/mounts");
    std::os::unix::fs::symlink(text, &mtab).expect("a link as /etc/mtab is one");
    let paths = ["/proc", "/proc/self/status", "/proc/sys/kernel", "/proc/cpuinfo"];
    let paths = paths.iter().map(PathBuf::from).chain([mtab.clone()]);
    let grants: Vec<_> = paths.map(|path| PathGrant { path, access: Access::ReadOnly }).collect();
    let mut refused = Vec::new();
    let roots = Roots::open(&View::default(), &grants, &folder.join("own"), &mut |path, error| {
        refused.push((path.to_owned(), error.kind()));
    });
    let roots = roots.expect("roots");
    let kind = io::ErrorKind::InvalidInput;
    let wanted = ["/proc", "/proc/self/status", "/proc/sys/kernel"];
    assert_eq!(refused, wanted.map(|path| (PathBuf::from(path), kind)));
    let names: Vec<_> = roots.all().iter().map(|root| root.path.as_path()).collect();
    assert_eq!(names, [Path::new("/proc/cpuinfo")]);
    assert!(!roots.lacks(mtab.as_os_str().as_bytes()), "the link itself is there");
}

#[test]
fn a_file_outside_is_changed_only_when_it_has_no_name_left() {
    let whole = tempfile::tempdir().expect("a folder");
    let folder = whole.path().canonicalize().expect("its real name");
    let roots =
        Roots::open(&View::default(), &[], &folder.join("own"), &mut |_, _| {}).expect("roots");
    let make = |name: &str| -> OwnedFd {
        std::fs::File::create(folder.join(name)).expect("a file outside").into()
    };
    assert!(!roots.may_change_removed(&make("log (deleted)")), "that is its name");
    let linked = make("linked");
    std::fs::hard_link(folder.join("linked"), folder.join("other")).expect("a second name");
    std::fs::remove_file(folder.join("linked")).expect("removed");
    assert!(!roots.may_change_removed(&linked), "it has another name");
    std::fs::remove_file(folder.join("other")).expect("removed");
    assert!(roots.may_change_removed(&linked));
    let (one, _other) = std::os::unix::net::UnixStream::pair().expect("sockets");
    assert!(roots.may_change_removed(&one.into()), "its own");
}

/// What these names in a folder grant for reading; its own names are kept in `place` there.
fn granted(folder: &Path, names: &[&str], place: &str) -> Roots {
    let grant = |name: &&str| PathGrant { path: folder.join(name), access: Access::ReadOnly };
    let grants: Vec<_> = names.iter().map(grant).collect();
    let opened = Roots::open(&View::default(), &grants, &folder.join(place), &mut |path, error| {
        panic!("{}: {error}", path.display())
    });
    opened.expect("roots")
}

#[test]
fn grants_are_what_their_names_lead_to_and_nothing_beside_them() {
    let whole = tempfile::tempdir().expect("a folder");
    let folder = whole.path().canonicalize().expect("its real name");
    std::fs::create_dir_all(folder.join("data/inner")).expect("a folder to grant");
    std::os::unix::fs::symlink("data", folder.join("link")).expect("a link to it");
    let roots = granted(&folder, &["link"], "own");
    assert!(roots.exactly(&folder.join("data")).is_some());
    assert!(roots.deciding(&folder.join("data/inner")).is_some());
    assert!(roots.deciding(&folder.join("data2")).is_none());
    let lacks = |name: &str| roots.lacks(folder.join(name).as_os_str().as_bytes());
    assert!(lacks("own") && lacks("data2/none"));
    assert!(!lacks("link/inner") && !lacks("data/none"));
}

#[test]
fn a_link_is_granted_by_a_name_that_leads_up() {
    let whole = tempfile::tempdir().expect("a folder");
    let folder = whole.path().canonicalize().expect("its real name");
    std::fs::create_dir_all(folder.join("data/inner")).expect("a folder to grant");
    std::os::unix::fs::symlink("data/inner", folder.join("deep")).expect("a link to go up from");
    for (name, text) in [("link", "data"), ("own", "/proc/self/fd")] {
        std::os::unix::fs::symlink(text, folder.join(name)).expect("a link to grant");
    }
    let roots = granted(&folder, &["data/inner/../../link", "deep/../../own"], "place");
    let lacks = |name: &str| roots.lacks(folder.join(name).as_os_str().as_bytes());
    assert!(!lacks("link/inner") && !lacks("own") && lacks("other"));
}
