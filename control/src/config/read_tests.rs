//! Configurations as people write and miswrite them, with the exact words of the answers.

use heliostat_abi::store::DurableBy;

use super::*;
use crate::config::{Discard, DurableWrites, Trusted, When};
use crate::rates::Per;
use crate::rights::Subject;

struct Known;

impl Names for Known {
    fn user(&self, name: &str) -> Option<u32> {
        (name == "redis").then_some(101)
    }
    fn group(&self, name: &str) -> Option<u32> {
        (name == "web").then_some(202)
    }
}

fn read(text: &str) -> Config {
    Config::read(text, &Known).unwrap()
}

fn complaint(text: &str) -> String {
    Config::read(text, &Known).unwrap_err().to_string()
}

#[test]
fn an_empty_file_is_the_default() {
    assert_eq!(read(""), Config::default());
}

#[test]
fn every_key_is_read() {
    let config = read(
        "[daemon]\nidle_exit_s = 30\nmetrics_listen = \"127.0.0.1:9464\"\n\
         [log]\nlevel = \"debug\"\nformat = \"json\"\n\
         [limits]\nsessions_per_user = 5\nshared_bytes_per_user = 0x40000000\n\
         connects_per_second = 7\n\
         [channel]\nslots = 8\nring_bytes = 65536\n\
         [[rule]]\naction = \"allow\"\nrights = [\"connect\"]\nusers = [\"redis\", 7]\n\
         groups = [\"web\"]\nnames = [\"/net/tcp/*:6379\"]\n",
    );
    assert_eq!(config.daemon.idle_exit_s, 30);
    assert_eq!(config.log, Log { level: LogLevel::Debug, format: LogFormat::Json });
    assert_eq!((config.limits.sessions_per_user, config.limits.connects.per_second), (5, 7));
    assert_eq!(config.limits.shared_bytes_per_user, 1 << 30);
    assert_eq!(config.channel, Channel { slots: 8, ring_bytes: 65536 });
    assert_eq!(
        (&config.rules.0[0].users[..], &config.rules.0[0].groups[..]),
        (&[101, 7][..], &[202][..])
    );
}

#[test]
fn the_network_service_is_switched_and_placed() {
    let config = read("[network]\ndelegate = \"always\"\nloops = 2\ncores = [1, 3]\n");
    assert_eq!((config.network.delegate, config.network.loops), (When::Always, 2));
    assert_eq!(config.network.cores, [1, 3]);
    assert_eq!(read("").network.delegate, When::Auto);
    assert_eq!(
        complaint("[network]\ndelegate = \"often\"\n"),
        "line 2: network.delegate: \"often\" is not known; one of: auto, always, never"
    );
}

#[test]
fn limits_of_locks_are_read() {
    let config = read("[locks]\nlocks_per_user = 9\ntickets_per_session = 3\n");
    assert_eq!((config.locks.locks_per_user, config.locks.tickets_per_session), (9, 3));
    assert_eq!(
        complaint("[locks]\nhandles_per_user = 0\n"),
        "line 2: locks.handles_per_user: 0 is out of range; allowed is 1 to 262144"
    );
}

#[test]
fn the_store_has_a_path_and_says_whom_it_trusts() {
    let text = "[store]\npath = \"/srv/s\"\ndirect = [\"redis\", 7]\ndurability = \"flush\"\ndiscard = \"yes\"\n";
    let store = read(text).store;
    assert_eq!(store.path.as_deref(), Some(std::path::Path::new("/srv/s")));
    assert_eq!(store.durability, DurableWrites::By(DurableBy::Flush));
    assert_eq!(store.discard, Discard::Yes);
    let measured = read("[store]\ndurability = \"measure\"\n").store;
    assert_eq!((measured.durability, measured.discard), (DurableWrites::Measured, Discard::Auto));
    assert_eq!(store.direct, Trusted::Users(vec![101, 7]));
    assert!(store.is_trusted(&Subject::new(7, 7), false));
    assert!(!store.is_trusted(&Subject::new(8, 8), true));
    let store = Store::default();
    assert!(store.is_trusted(&Subject::new(8, 8), true));
    assert!(!store.is_trusted(&Subject::new(8, 8), false));
    assert_eq!(
        complaint("[store]\ndirect = \"root\"\n"),
        "line 2: store.direct: \"root\" is not owner, all, none, nor a list of users"
    );
    assert_eq!(
        complaint("[store]\npath = \"s\"\n"),
        "line 2: store.path: \"s\" does not begin with a slash"
    );
}

#[test]
fn limits_of_remote_procedure_calls_are_read() {
    let config = read("[rpc]\nfunctions_per_user = 9\nsessions = 0\n");
    assert_eq!((config.rpc.functions_per_user, config.rpc.sessions), (9, 0));
    assert_eq!(
        complaint("[rpc]\nfunctions_per_session = 0\n"),
        "line 2: rpc.functions_per_session: 0 is out of range; allowed is 1 to 256"
    );
}

#[test]
fn limits_of_memory_are_read_and_an_arena_is_whole_huge_pages() {
    let config = read("[memory]\narena_bytes = 3000000\nregions_per_user = 9\nsessions = 0\n");
    assert_eq!((config.memory.arena_bytes, config.memory.regions_per_user), (4 << 20, 9));
    assert_eq!(config.memory.sessions, 0);
    assert_eq!(
        complaint("[memory]\nloops = 0\n"),
        "line 2: memory.loops: 0 is out of range; allowed is 1 to 16"
    );
}

#[test]
fn rules_keep_their_order() {
    let config = read("[[rule]]\naction = \"deny\"\nusers = [7]\n[[rule]]\naction = \"allow\"\n");
    let address = heliostat_abi::name::NetAddress::new("127.0.0.1:80".parse().unwrap());
    let decide =
        |uid| config.rules.decide(&Subject::new(uid, 0), Right::Connect, address, 9).is_allowed();
    assert_eq!((decide(7), decide(8)), (false, true));
}

#[test]
fn a_misspelt_key_is_refused_with_a_suggestion() {
    assert_eq!(
        complaint("[limits]\n\nsession_per_user = 5\n"),
        "line 3: limits.session_per_user: no such key; did you mean sessions_per_user?"
    );
    assert_eq!(
        complaint("colour = 5\n"),
        "line 1: colour: no such key; known here: daemon, log, limits, channel, delegated, memory, cluster, locks, rpc, network, store, listener, rule, rate, class, quality, durable, cores, offload, carry"
    );
}

#[test]
fn a_number_out_of_range_says_the_range() {
    assert_eq!(
        complaint("[channel]\nslots = 65\n"),
        "line 2: channel.slots: 65 is out of range; allowed is 1 to 64"
    );
    assert_eq!(
        complaint("[limits]\nports_per_session = -1\n"),
        "line 2: limits.ports_per_session: -1 is out of range; allowed is 1 to 1024"
    );
}

#[test]
fn a_wrong_type_says_both_types() {
    assert_eq!(
        complaint("[channel]\nslots = \"many\"\n"),
        "line 2: channel.slots: wanted a whole number, found string"
    );
    assert_eq!(complaint("log = 5\n"), "line 1: log: wanted a table, found integer");
}

#[test]
fn a_ring_that_is_no_power_of_two_names_the_next() {
    assert_eq!(
        complaint("[channel]\nring_bytes = 100000\n"),
        "line 2: channel.ring_bytes: 100000 is no power of two; 131072 is"
    );
}

#[test]
fn a_word_that_is_not_known_lists_those_that_are() {
    assert_eq!(
        complaint("[log]\nformat = \"xml\"\n"),
        "line 2: log.format: \"xml\" is not known; one of: text, json"
    );
}

#[test]
fn rules_explain_their_mistakes() {
    assert_eq!(
        complaint("[[rule]]\nusers = [7]\n"),
        "line 1: rule[1].action: this key must be given"
    );
    assert_eq!(
        complaint("[[rule]]\naction = \"allow\"\nusers = [\"nobody-here\"]\n"),
        "line 3: rule[1].users[1]: no user \"nobody-here\" on this machine"
    );
    assert_eq!(
        complaint("[[rule]]\naction = \"allow\"\nnames = []\n"),
        "line 3: rule[1].names: the list is empty; leave the key out to mean all"
    );
    assert_eq!(
        complaint("[[rule]]\naction = \"allow\"\nnames = [\"/net/tcp/80\"]\n"),
        "line 3: rule[1].names[1]: \"/net/tcp/80\": address and port are parted by a colon, as in *:80"
    );
}

#[test]
fn broken_toml_says_its_line() {
    let said = complaint("[limits]\nslots = = 5\n");
    assert!(said.starts_with("line 2: "), "{said}");
}

#[test]
fn a_server_loop_for_each_kernel_core_or_as_many_as_said() {
    let told = |text: &str| {
        let config = read(&format!("[delegated]\n{text}\n"));
        (config.delegated.cores, config.delegated.loops)
    };
    assert_eq!(told(""), (vec![], 1));
    assert_eq!(told("loops = 3"), (vec![], 3));
    assert_eq!(told("cores = [2, 5]"), (vec![2, 5], 2));
    assert_eq!(told("cores = [2, 5]\nloops = 2"), (vec![2, 5], 2));
    assert_eq!(told("cores = []\nloops = 2"), (vec![], 2));
    assert!(complaint("[delegated]\nloops = 0\n").contains("loops"));
    assert!(complaint("[delegated]\ncores = [1, 1]\n").contains("named twice"));
    assert!(complaint("[delegated]\ncores = [1, 2]\nloops = 3\n").contains("2 cores for 3 loops"));
    assert!(complaint("[delegated]\nown_rings = 1\n").contains("true or false"));
    let around = |text: &str| read(&format!("[delegated]\n{text}\n")).delegated.copy_around_bytes;
    assert_eq!((around(""), around("copy_around_bytes = 0")), (None, Some(0)));
    assert!(complaint("[delegated]\ncopy_around_bytes = 16777217\n").contains("copy_around_bytes"));
}

#[test]
fn a_size_for_the_device_is_taken_zero_is_never_and_left_out_it_is_measured() {
    let from = |text: &str| read(&format!("[delegated]\n{text}\n")).delegated.direct_from_bytes;
    assert_eq!((from(""), from("direct_from_bytes = 0")), (None, Some(0)));
    assert_eq!(from("direct_from_bytes = 65536"), Some(65536));
    assert!(complaint("[delegated]\ndirect_from_bytes = 16777217\n").contains("direct_from_bytes"));
}

#[test]
fn who_has_a_limit_is_lent_nothing() {
    let lent = |text: &str| read(&format!("[delegated]\n{text}\n")).may_lend(&Subject::new(7, 7));
    assert!(lent("") && lent("own_rings = true"));
    assert!(!lent("own_rings = false"));
    assert!(!lent("operations_per_second = 1") && !lent("bytes_per_second = 1"));
    let rate = "[[rate]]\noperations_per_second =";
    assert!(!lent(&format!("{rate} 5")) && lent(&format!("{rate} 0")));
    assert!(!lent(&format!("{rate} 5\nnames = [\"/file/srv/*\"]")));
    assert!(lent(&format!("{rate} 5\nusers = [8]")));
}

#[test]
fn rates_are_read_in_order_and_the_pair_of_delegated_holds_for_the_rest() {
    let config = read(
        "[delegated]\nbytes_per_second = 9\n\
         [[rate]]\nusers = [\"redis\"]\nper = \"user\"\noperations_per_second = 100\n\
         [[rate]]\ngroups = [\"web\"]\nper = \"rule\"\nbytes_per_second = 5\n\
         [[rate]]\nnames = [\"/file/srv/*\"]\noperations_per_second = 3\n",
    );
    let of = |uid, gid| {
        let holds = config.rate_of_session(&Subject::new(uid, gid));
        (holds.place, holds.per, holds.per_second.operations, holds.per_second.bytes)
    };
    assert_eq!(of(101, 0), (1, Per::User, 100, 0));
    assert_eq!(of(7, 202), (2, Per::Rule, 0, 5));
    assert_eq!(of(7, 7), (0, Per::Session, 0, 9));
    assert_eq!(
        complaint("[[rate]]\nper = \"node\"\n"),
        "line 2: rate[1].per: `per = \"node\"` is for rates of `nodes`"
    );
    assert_eq!(
        complaint("[[rate]]\nper = \"day\"\n"),
        "line 2: rate[1].per: \"day\" is not known; one of: session, user, node, rule"
    );
    assert!(complaint("[[rate]]\nrights = [\"read\"]\n").contains("no such key"));
}

#[test]
fn rates_of_other_nodes_are_about_all_or_about_some() {
    use crate::rates::Of;
    let config = read(
        "[[rate]]\nnodes = \"all\"\nper = \"node\"\nbytes_per_second = 5\n\
         [[rate]]\nnodes = [3, 4]\nusers = [7]\noperations_per_second = 6\n",
    );
    let of: Vec<_> = config.rates.0.iter().map(|rate| (rate.of.clone(), rate.per)).collect();
    assert_eq!(of, [(Of::Others, Per::Node), (Of::Nodes(vec![3, 4]), Per::Session)]);
    assert_eq!(config.rates.of_session(&Subject::new(7, 7)), None);
    assert!(complaint("[[rate]]\nnodes = \"some\"\n").contains("wanted a list"));
    assert!(complaint("[[rate]]\nnodes = [0]\n").contains("allowed is 1 to 65535"));
}

#[test]
fn classes_are_read_in_order_and_something_is_done_for_them_unless_it_is_said_otherwise() {
    use crate::config::Scheme;
    use heliostat_abi::cluster::Class;
    let one = "[[class]]\nusers = [7]\nclass = \"low\"\n";
    let config = read(&format!("{one}[[class]]\nnodes = [2]\nclass = \"normal\"\n"));
    assert_eq!(config.classes.of(&Subject::new(7, 7), None), Class::Low);
    assert_eq!(config.classes.ceilings().get(&2), Some(&Class::Normal));
    let quality = |text: &str| read(&format!("{one}[quality]\n{text}")).scheme();
    assert_eq!((config.scheme(), read("").scheme()), (Scheme::Separate, Scheme::None));
    assert_eq!(quality("scheme = \"none\"\n"), Scheme::None);
    assert_eq!(quality("scheme = \"back-off\"\nround_trip_us = 200\n"), Scheme::BackOff);
    assert_eq!(quality("scheme = \"both\"\nhigh_percent = 90\n"), Scheme::Both);
    for (text, wanted) in [
        ("[[class]]\nusers = [7]\n", "class[1].class"),
        ("[[class]]\nclass = \"urgent\"\n", "one of: high, normal, low"),
        ("[[class]]\nclass = \"low\"\nusers = [7]\nnodes = [2]\n", "leave the rest out"),
        ("[quality]\nhigh_percent = 94\n", "100 percent"),
        ("[quality]\nround_trip_us = 2000000\n", "allowed is 0 to 1000000"),
    ] {
        assert!(complaint(text).contains(wanted), "{}", complaint(text));
    }
}
