//! Clusters as people write and miswrite them, with the exact words of the answers.

use super::*;
use crate::config::{Config, Names};

struct Nobody;

impl Names for Nobody {
    fn user(&self, _: &str) -> Option<u32> {
        None
    }
    fn group(&self, _: &str) -> Option<u32> {
        None
    }
}

const BEGIN: &str =
    "[cluster]\nnode = 3\nlisten = \"tcp:127.0.0.1:7700\"\nsecret = \"/etc/heliostat/secret\"\n";

fn read(more: &str) -> Result<Option<Cluster>, String> {
    let read = Config::read(&format!("{BEGIN}{more}"), &Nobody);
    read.map(|config| config.cluster).map_err(|error| error.to_string())
}

fn peer(node: &str, address: &str) -> String {
    format!("[[cluster.peer]]\nnode = {node}\naddress = \"{address}\"\n")
}

#[test]
fn without_the_table_there_is_no_cluster() {
    assert_eq!(Config::read("", &Nobody).unwrap().cluster, None);
}

#[test]
fn a_node_and_its_peers_are_read() {
    let text = peer("1", "tcp:127.0.0.1:7701") + &peer("2", "tcp:[::1]:7702");
    let cluster = read(&text).unwrap().unwrap();
    assert_eq!((cluster.node, cluster.listen.to_string()), (3, "tcp:127.0.0.1:7700".to_owned()));
    assert_eq!(cluster.secret, PathBuf::from("/etc/heliostat/secret"));
    let peers: Vec<_> = cluster.peers.iter().map(|it| (it.node, it.address.to_string())).collect();
    let wanted = [(1, "tcp:127.0.0.1:7701"), (2, "tcp:[::1]:7702")];
    assert_eq!(peers, wanted.map(|(node, address)| (node, address.to_owned())));
    assert!(read("").unwrap().unwrap().peers.is_empty());
}

#[test]
fn other_nodes_are_believed_who_asks_unless_the_configuration_says_no() {
    let trusts = |more: &str| read(more).map(|cluster| cluster.unwrap().trusts_users);
    assert_eq!(trusts(""), Ok(true));
    assert_eq!(trusts("users = \"trusted\"\n"), Ok(true));
    assert_eq!(trusts("users = \"none\"\n"), Ok(false));
    let said = "line 5: cluster.users: \"some\" is neither \"trusted\" nor \"none\"";
    assert_eq!(trusts("users = \"some\"\n"), Err(said.to_owned()));
}

#[test]
fn what_is_wrong_with_a_peer_is_said_with_its_place() {
    let fine = peer("1", "tcp:127.0.0.1:7701");
    let cases = [
        (peer("0", "tcp:127.0.0.1:1"), "line 6: cluster.peer[1].node: 0 is out of range; allowed is 1 to 65535"),
        (peer("3", "tcp:127.0.0.1:1"), "line 6: cluster.peer[1].node: node 3 is this node"),
        (fine.clone() + &fine, "line 9: cluster.peer[2].node: node 1 is named twice"),
        (peer("1", "ucx:127.0.0.1:1"), "line 7: cluster.peer[1].address: `ucx:`, but this node listens by `tcp:`"),
        (peer("1", "tcp:127.0.0.1:0"), "line 7: cluster.peer[1].address: port 0 leads nowhere"),
        (
            peer("1", "tcp:host:1"),
            "line 7: cluster.peer[1].address: \"tcp:host:1\" is no address; tcp:HOST:PORT and ucx:HOST:PORT are, with a numeric host",
        ),
        ("[[cluster.peer]]\nnode = 1\n".to_owned(), "line 5: cluster.peer[1].address: this key must be given"),
    ];
    for (text, wanted) in cases {
        assert_eq!(read(&text), Err(wanted.to_owned()));
    }
}

#[test]
fn a_cluster_without_number_address_or_secret_is_none() {
    let complaint = |text: &str| Config::read(text, &Nobody).unwrap_err().to_string();
    assert_eq!(complaint("[cluster]\n"), "line 1: cluster.node: this key must be given");
    assert_eq!(
        complaint("[cluster]\nnode = 1\n"),
        "line 1: cluster.listen: this key must be given"
    );
    let text = BEGIN.replace("secret = \"/etc", "secret = \"etc");
    let wanted = "line 4: cluster.secret: \"etc/heliostat/secret\" does not begin with /";
    assert_eq!(complaint(&text), wanted);
}
