//! Classes of what is asked about locks of other nodes, and of their news.

use crate::support::await_that;
use crate::support::cluster::{figure, nodes_with, SecretFile};
use crate::support::programs::Program;
use crate::support::Daemon;

const CLASSES: &str = "[[class]]\nnames = [\"/lock/hot/*\"]\nclass = \"high\"\n\
     [[class]]\nnames = [\"/lock/bulk/*\"]\nclass = \"low\"\n";

fn on_node_2(nodes: &[Daemon; 2], node: usize, name: &str) -> Program {
    let mut program = Program::start(&nodes[node - 1]);
    program.does(&format!("open it lock {name} on=2"));
    program
}

#[test]
fn what_is_asked_and_told_is_of_the_class_that_the_locks_name_has() {
    let secret = SecretFile::new("locks-classes", "8d");
    let nodes = nodes_with::<2>("tcp", CLASSES, &secret);
    for (name, class) in [("hot/a", "high"), ("bulk/a", "low"), ("plain", "normal")] {
        let (mut here, mut there) = (on_node_2(&nodes, 1, name), on_node_2(&nodes, 2, name));
        let asked = figure(&nodes[0], 2, class, "calls");
        for _ in 0..20 {
            assert!(here.say("claim it held x try").starts_with("held "));
            here.does("release held");
        }
        await_that("asks are of it", || figure(&nodes[0], 2, class, "calls") >= asked + 40);
        assert!(there.say("claim it held x wait").starts_with("held "));
        here.send("claim it held x wait");
        await_that("it waits", || nodes[1].status()["locks"]["waiting"] == 1);
        let told = figure(&nodes[1], 1, class, "calls");
        there.does("release held");
        assert!(here.hear().starts_with("held "));
        await_that("news are of it", || figure(&nodes[1], 1, class, "calls") > told);
        here.does("release held");
    }
}

/// One session with locks of all classes: whatever overtakes what, each of its locks is released once.
#[test]
fn what_one_program_asks_stays_in_order_whatever_its_classes() {
    let secret = SecretFile::new("locks-order", "8e");
    let nodes = nodes_with::<2>("tcp", CLASSES, &secret);
    let mut program = Program::start(&nodes[0]);
    let all = ["hot/b", "bulk/b", "plain"];
    for name in all {
        program.does(&format!("open {name} lock {name} on=2"));
    }
    for _ in 0..20 {
        for name in all {
            assert!(program.say(&format!("claim {name} {name} x try")).starts_with("held "));
        }
        for name in all {
            program.does(&format!("release {name}"));
        }
    }
    for name in all {
        assert!(program.say(&format!("claim {name} {name} x try")).starts_with("held "));
    }
    program.kill();
    let mut next = Program::start(&nodes[1]);
    for name in all {
        next.does(&format!("open {name} lock {name} on=2"));
        assert!(next.say(&format!("claim {name} {name} x wait")).starts_with("held "), "{name}");
    }
    await_that("its session has nothing there", || {
        nodes[1].status()["locks"]["sessions_of_other_nodes"] == 0
    });
}
