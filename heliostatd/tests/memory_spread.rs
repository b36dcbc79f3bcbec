//! Regions that are spread over nodes: longer than any node's memory, found from each, lost in part.

mod support;

use support::cluster::{nodes_with, SecretFile};
use support::programs::Program;
use support::spreaders::play;
use support::Daemon;

/// A node gives a user so much, which is less than a whole region has here.
const LIMIT: &str = "[memory]\nbytes_per_user = 8_388_608\n";
const MIB: u64 = 1 << 20;
/// As many bytes as the three have together, but for the heads.
const WHOLE: u64 = 20 * MIB;

#[test]
fn program_process() {
    play();
}

/// Three nodes, numbers 1 to 3.
struct Three {
    nodes: [Daemon; 3],
    _secret: SecretFile,
}

impl Three {
    fn start(test: &str) -> Three {
        let secret = SecretFile::new(test, "5b");
        Three { nodes: nodes_with::<3>("tcp", LIMIT, &secret), _secret: secret }
    }

    /// A program of node 1 with a lasting region that is spread over all, and one of node 2 that mapped it.
    fn both(&self) -> (Program, Program) {
        let (mut maker, mut other) = (self.program(1), self.program(2));
        assert_eq!(
            maker.say(&format!("spread big {WHOLE} 1,2,3 lasting big")),
            parts("1", ["", ""])
        );
        assert_eq!(other.say("map big big rwasm"), parts("1", ["", ""]));
        (maker, other)
    }

    fn program(&self, node: usize) -> Program {
        Program::start(&self.nodes[node - 1])
    }
}

/// How 20 MiB lie on three nodes; the last two may be lost.
fn parts(first: &str, lost: [&str; 2]) -> String {
    let each = WHOLE.div_ceil(3).div_ceil(4096) * 4096;
    let (second, third) = (each, 2 * each);
    format!("{first}:0..{second} 2:{second}..{third}{} 3:{third}..{WHOLE}{}", lost[0], lost[1])
}

#[test]
fn a_region_is_longer_than_the_memory_of_any_node() {
    let three = Three::start("spread-1");
    let (mut maker, mut other) = three.both();
    let whole = maker.say(&format!("spread own {} 1 x", 9 * MIB));
    assert!(whole.starts_with("error part on 1 with 0..9437184: refused Full"), "{whole}");
    assert_eq!(maker.say(&format!("zeros big 0 {WHOLE}")), "zeros");
    maker.does(&format!("fill big 3 0 {WHOLE}"));
    assert_eq!(other.say(&format!("check big 3 0 {WHOLE}")), "same");
    assert_eq!(three.program(3).say("map big big r"), parts("1", ["", ""]), "from every node");
    // Across both seams, and beside them.
    let seam = WHOLE.div_ceil(3).div_ceil(4096) * 4096;
    for (seed, offset, len) in [(4, seam - 5, 10), (5, seam - 300_000, 7_500_000), (6, seam, 1)] {
        other.does(&format!("fill big {seed} {offset} {len}"));
        assert_eq!(maker.say(&format!("check big {seed} {offset} {len}")), "same", "{seed}");
    }
    assert_eq!(other.say(&format!("check big 3 0 {}", seam - 300_000)), "same", "none beside them");
    assert_eq!(other.say(&format!("pieces big 7 9 {} 700000", 2 * MIB)), "same");
    assert_eq!(maker.say(&format!("pieces big 8 200 {} 13", MIB / 10)), "same");
    let later = format!("later big 9 {} 8000000", seam - 800_000);
    assert_eq!(other.say(&later), "same 5");
    assert_eq!(maker.say("mapped big 0 4096"), "mapped");
    assert_eq!(other.say("mapped big 0 4096"), "not mapped");
}

#[test]
fn bytes_are_set_and_copied_and_words_change_wherever_they_are() {
    let three = Three::start("spread-2");
    let (mut maker, mut other) = three.both();
    let seam = WHOLE.div_ceil(3).div_ceil(4096) * 4096;
    maker.does(&format!("fill big 1 0 {WHOLE}"));
    other.does(&format!("set big {} 9000000 0", seam - 1_000_000));
    assert_eq!(maker.say(&format!("zeros big {} 9000000", seam - 1_000_000)), "zeros");
    assert_eq!(maker.say(&format!("check big 1 0 {}", seam - 1_000_000)), "same");
    let behind = seam + 8_000_000;
    assert_eq!(maker.say(&format!("check big 1 {behind} {}", WHOLE - behind)), "same");
    // Forwards and backwards, over both seams, onto itself.
    for (from, to) in [(0, 3_000_000), (3_000_000, 0)] {
        maker.does(&format!("fill big 2 {from} 15000000"));
        other.does(&format!("copy big {from} big {to} 15000000"));
        maker.does(&format!("copy big {to} big {from} 15000000"));
        assert_eq!(other.say(&format!("check big 2 {from} 15000000")), "same", "{from} to {to}");
    }
    for at in [8, seam, WHOLE - 8] {
        maker.does(&format!("set big {at} 8 0"));
        maker.send(&format!("add big {at} 1 500"));
        other.say(&format!("add big {at} 1 500"));
        maker.hear();
        assert_eq!(maker.say(&format!("compare_swap big {at} 1000 7")), "1000", "{at}");
        assert_eq!(other.say(&format!("add big {at} 0 1")), "7");
    }
    assert_eq!(maker.say("add big 4 1 1"), "error misaligned");
    let limit = format!("error range {WHOLE}");
    assert_eq!(maker.say(&format!("add big {WHOLE} 1 1")), limit);
    assert_eq!(maker.say(&format!("check big 0 {} 2", WHOLE - 1)), limit);
    assert_eq!(maker.say(&format!("set big {} 8 1", u64::MAX)), limit);
    assert_eq!(maker.say(&format!("fill big 0 {WHOLE} 0")), "done", "nothing, at the end");
}

#[test]
fn a_killed_node_takes_its_bytes_with_it_and_no_others() {
    let mut three = Three::start("spread-3");
    let (mut maker, mut other) = three.both();
    maker.does(&format!("fill big 1 0 {WHOLE}"));
    let seam = WHOLE.div_ceil(3).div_ceil(4096) * 4096;
    let third = format!("error part on 3 with {}..{WHOLE}:", 2 * seam);
    three.nodes[2].kill();
    for program in [&mut maker, &mut other] {
        let told = program.say(&format!("check big 1 0 {WHOLE}"));
        assert!([format!("{third} node 3 Lost"), format!("{third} node 3 Down")].contains(&told));
        assert_eq!(
            program.say(&format!("check big 1 {} 8", WHOLE - 8)),
            format!("{third} node 3 Down")
        );
        assert_eq!(program.say(&format!("check big 1 0 {}", 2 * seam)), "same");
    }
    // Who comes later finds what is there.
    let mut late = three.program(2);
    assert_eq!(late.say("map big big rwa"), parts("1", ["", "!"]));
    assert_eq!(late.say(&format!("check big 1 0 {}", 2 * seam)), "same");
    assert_eq!(late.say(&format!("fill big 1 0 {WHOLE}")), format!("{third} unreachable 3"));
    late.does("fill big 2 100 100");
    assert_eq!(maker.say("check big 2 100 100"), "same");
    // The node starts anew, without the part, and another region gets the identity that it had.
    three.nodes[2].restart();
    let mut there = three.program(3);
    there.does("plain big.spread 4096");
    support::await_that("node 3 is joined", || {
        late.say("map big big rwa") == parts("1", ["", "!"])
            && late.say(&format!("check big 1 {} 8", WHOLE - 8)) == format!("{third} stale")
    });
    assert_eq!(late.say("map big big rwasm"), parts("1", ["", "!"]));
    late.does("free big");
    assert_eq!(late.say("map big big r"), "error corrupt 3", "what has the name is no part");
    there.does("let_go");
    assert_eq!(late.say("map big big r"), "error refused NotFound 0");
    assert_eq!(maker.say("check big 1 0 8").split(": ").nth(1), Some("stale"));
}

#[test]
fn a_region_ends_with_its_maker_unless_it_is_lasting() {
    let three = Three::start("spread-4");
    let mut other = three.program(3);
    for node in [1, 2] {
        let mut maker = three.program(node);
        maker.say(&format!("spread leased {WHOLE} 2,3,1 leased"));
        assert_eq!(maker.say("spread again 100 1 leased"), "error taken");
        assert_eq!(three.program(node).say("spread again 100 1,2 leased"), "error taken");
        maker.kill();
        support::await_that("it has ended with its maker", || {
            let told = other.say("map it leased r");
            // Who has mapped it keeps its bytes.
            told == "error refused NotFound 0" || other.say("drop it") != "done"
        });
        // Its bytes and its name are given again.
        let made = other.say(&format!("until leased {WHOLE} 1,2,3"));
        assert_eq!(made, "made");
        other.does("free last");
    }
    let (mut maker, mut mapped) = three.both();
    maker.say("drop big");
    mapped.does("fill big 1 0 100");
    mapped.does("drop big");
    maker.kill();
    assert_eq!(other.say("map big big rwasm"), parts("1", ["", ""]));
    assert_eq!(other.say("check big 1 0 100"), "same");
    assert_eq!(other.say("free_held big"), "error held 1");
    assert_eq!(other.say("map big big rwasm"), parts("1", ["", ""]), "as it was");
    other.does("free big");
    assert_eq!(mapped.say("map big big r"), "error refused NotFound 0");
    assert_eq!(other.say("spread few 10 1,2,3 few"), "1:0..10", "one part is enough");
    assert_eq!(other.say("spread few 10 1,2,1"), "error nodes 3");
    assert!(other.say("spread few 10 9").starts_with("error part on 9 with 0..10: unreachable 9"));
}

#[test]
fn what_a_dead_maker_leaves_is_recognised_and_freed() {
    let three = Three::start("spread-5");
    let (mut dead, mut other) = (three.program(1), three.program(2));
    let names =
        || [1, 2, 3].map(|node| three.nodes[node - 1].status()["memory"]["regions"].clone());
    let none = names();
    for state in ["making", "half", "freed", "half_freed"] {
        dead.does(&format!("remains 1,2,3 big {state}"));
        assert_eq!(other.say("map it big r"), "error refused NotFound 0", "{state}");
        assert_eq!(names(), none, "{state}: all parts are freed");
    }
    for state in ["making", "half", "freed"] {
        // Some parts were made, or freed, and others not.
        dead.does(&format!("remains 1,2,3 big {state} -2"));
        assert_eq!(other.say("spread it 10000 3,2 big"), "3:0..8192 2:8192..10000", "{state}");
        other.does("free it");
        assert_eq!(names(), none, "{state}");
    }
    // While its maker lives it is not touched.
    dead.does("remains 1,2,3 big making kept");
    let unfinished = other.say("map it big r");
    assert!(unfinished.starts_with("error unfinished"), "{unfinished}");
    assert!(other.say("spread it 10000 3,2 big").starts_with("error unfinished"));
    dead.kill();
    assert_eq!(other.say("until big 10000 3,2"), "made");
    other.does("free last");
    support::await_that("all is freed", || names() == none);
    let mut other = three.program(3);
    other.does("plain big.spread 5000");
    assert_eq!(other.say("map it big r"), "error corrupt 0");
    assert_eq!(other.say("spread it 10000 3,2 big"), "error taken");
}

#[test]
fn makers_that_are_killed_at_any_moment_leave_the_name_and_the_bytes() {
    let three = Three::start("spread-6");
    let mut next = three.program(3);
    for turn in 0..12 {
        let mut maker = three.program(1 + turn % 3);
        maker.send(&format!("again big {} 1,2,3", 6 * MIB));
        std::thread::sleep(std::time::Duration::from_millis(3 + 7 * turn as u64));
        maker.kill();
        // Two thirds of what there is: it fits once only.
        assert_eq!(next.say(&format!("until big {} 1,2,3", 16 * MIB)), "made", "{turn}");
        next.does("free last");
    }
}

#[test]
fn a_part_that_has_moved_to_another_node_is_found_there() {
    let mut three = Three::start("spread-7");
    let (mut maker, mut other) = (three.program(1), three.program(3));
    let (whole, seam) = (8 * MIB, 4 * MIB);
    let on = |node| format!("1:0..{seam} {node}:{seam}..{whole}");
    assert_eq!(maker.say(&format!("spread big {whole} 1,2 lasting big")), on(2));
    assert_eq!(other.say("map big big rwasm"), on(2));
    maker.does(&format!("fill big 1 0 {whole}"));
    assert_eq!(other.say(&format!("check big 1 0 {whole}")), "same");
    maker.does("move_part big 1 3");
    // Each has a handle of before: one reads across the seam, one writes and reads in the part.
    assert_eq!(maker.say(&format!("check big 1 0 {whole}")), "same");
    other.does(&format!("fill big 2 {} 2000000", seam - 1_000_000));
    assert_eq!(maker.say(&format!("check big 2 {} 2000000", seam - 1_000_000)), "same");
    assert_eq!((maker.say("parts big"), other.say("parts big")), (on(3), on(3)));
    assert_eq!(other.say(&format!("mapped big {seam} 4096")), "mapped", "it is on its node now");
    // Who comes later finds it, also where the node is lost that it was made on.
    assert_eq!(three.program(2).say("map big big r"), on(3));
    three.nodes[1].kill();
    let mut late = three.program(1);
    support::await_that("node 2 is lost", || late.say("map big big rwasm") == on(3));
    assert_eq!(late.say(&format!("check big 2 {} 2000000", seam - 1_000_000)), "same");
    // And back to where another part is, which has the same name: it stays.
    let refused = late.say("move_part big 1 1");
    assert!(refused.starts_with(&format!("error part on 3 with {seam}..{whole}:")), "{refused}");
    assert_eq!(
        other.say(&format!("add big {} 0 1", whole - 8)),
        late.say(&format!("add big {} 0 1", whole - 8))
    );
    late.does("free big");
    assert_eq!(other.say(&format!("check big 1 {seam} 8")).split(": ").nth(1), Some("stale"));
}
