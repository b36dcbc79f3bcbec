//! Who is joined to whom: two links at once, lives of a node, strangers, and room that comes back.

use heliostat_backend_transport::address::Address;
use heliostat_backend_transport::error::{CallFailure, JoinFailure, LostCause};
use heliostat_backend_transport::greeting::JoinRefusal;
use heliostat_backend_transport::identity::{Identity, NodeId, Secret};
use heliostat_backend_transport::limits::NodeLimits;
use heliostat_backend_transport::node::{Node, NodeEvent};
use heliostat_backend_transport::simulated::{Network, Simulated, Weather};
use heliostat_backend_transport::transport::LinkId;

const MS: u64 = 1_000_000;
const CALM: Weather =
    Weather { delay_ns_min: MS, delay_ns_max: MS, break_one_in: 0, full_one_in: 0 };
const LATER: u64 = 10_000 * MS;

struct World {
    network: Network,
    now_ns: u64,
}

struct Member {
    node: Node<Simulated>,
    events: Vec<NodeEvent>,
}

impl World {
    fn new() -> World {
        World { network: Network::new(1, CALM), now_ns: 0 }
    }

    fn member(&self, number: u32, incarnation: u64, secret: u8, limits: NodeLimits) -> Member {
        let me = Identity {
            node: NodeId(number.into()),
            incarnation,
            secret: Secret::new([secret; 32]),
        };
        let node = Node::new(self.network.start(number), me, limits, [number as u8; 32]);
        Member { node, events: Vec::new() }
    }

    fn plain(&self, number: u32) -> Member {
        self.member(number, 1, 7, NodeLimits::default())
    }

    fn join(&self, member: &mut Member, to: u32) -> LinkId {
        member.node.join(self.now_ns, Address::Simulated(to), None, LATER).expect("begins")
    }

    fn run(&mut self, ms: u64, members: &mut [&mut Member]) {
        self.run_quarters(ms * 4, members);
    }

    /// Quarters of a millisecond.
    fn run_quarters(&mut self, count: u64, members: &mut [&mut Member]) {
        for _ in 0..count {
            self.now_ns += MS / 4;
            self.network.advance(self.now_ns);
            for member in members.iter_mut() {
                member.node.progress(self.now_ns, &mut member.events).expect("never breaks");
            }
        }
    }
}

impl Member {
    fn joined(&self) -> Vec<u64> {
        self.node.joined().map(|(node, _)| node.0).collect()
    }

    fn refusal(&self) -> Option<(JoinRefusal, bool)> {
        self.events.iter().find_map(|event| match event {
            NodeEvent::NotJoined { why: JoinFailure::Refused { why, is_theirs }, .. } => {
                Some((*why, *is_theirs))
            }
            _ => None,
        })
    }

    fn joins(&self) -> Vec<bool> {
        let of_event = |event: &NodeEvent| match event {
            NodeEvent::Joined { is_ours, .. } => Some(*is_ours),
            _ => None,
        };
        self.events.iter().filter_map(of_event).collect()
    }

    fn lost(&self) -> Vec<LostCause> {
        let of_event = |event: &NodeEvent| match event {
            NodeEvent::Lost { why, .. } => Some(*why),
            _ => None,
        };
        self.events.iter().filter_map(of_event).collect()
    }
}

#[test]
fn two_nodes_that_join_each_other_at_once_keep_the_link_of_the_smaller_number() {
    let mut world = World::new();
    let (mut one, mut two) = (world.plain(1), world.plain(2));
    world.join(&mut one, 2);
    world.join(&mut two, 1);
    world.run(200, &mut [&mut one, &mut two]);
    assert_eq!(one.joined(), [2]);
    assert_eq!(two.joined(), [1]);
    assert_eq!(one.joins().last(), Some(&true));
    assert_eq!(two.joins().last(), Some(&false));
    assert_eq!((one.lost(), two.lost()), (vec![], vec![]));
}

/// Whoever begins, however much later the other does and however long each message takes: a link that
/// was once told stays.
#[test]
fn links_that_cross_never_end_one_that_is_joined() {
    for seed in 0..1200 {
        let (delay_ns_max, quarters) = ((1 + seed % 4 * 3) * MS, seed % 120);
        let weather = Weather { delay_ns_max, ..CALM };
        let mut world = World { network: Network::new(seed + 1, weather), now_ns: 0 };
        let (first, second) = if seed < 600 { (1, 2) } else { (2, 1) };
        let (mut sooner, mut later) = (world.plain(first), world.plain(second));
        world.join(&mut sooner, second);
        world.run_quarters(quarters, &mut [&mut sooner, &mut later]);
        world.join(&mut later, first);
        // Some messages take twenty times as long.
        world.run(500, &mut [&mut sooner, &mut later]);
        let joined = (sooner.joined(), later.joined());
        assert_eq!(joined, (vec![second.into()], vec![first.into()]), "seed {seed}");
        assert_eq!((sooner.lost(), later.lost()), (vec![], vec![]), "seed {seed}");
        assert_ne!(sooner.joins(), later.joins(), "one began it, seed {seed}");
    }
}

#[test]
fn a_second_link_of_the_larger_number_is_given_up_as_duplicate() {
    let mut world = World::new();
    let (mut one, mut two) = (world.plain(1), world.plain(2));
    world.join(&mut one, 2);
    world.run(200, &mut [&mut one, &mut two]);
    world.join(&mut two, 1);
    world.run(200, &mut [&mut one, &mut two]);
    assert_eq!(two.refusal(), Some((JoinRefusal::Duplicate, false)));
    assert_eq!((one.joined(), two.joined()), (vec![2], vec![1]));
    assert_eq!((one.lost(), two.lost()), (vec![], vec![]));
}

#[test]
fn a_later_life_takes_the_place_of_an_earlier_one_that_nobody_saw_end() {
    let mut world = World::new();
    let (mut one, mut two) = (world.plain(1), world.plain(2));
    world.join(&mut two, 1);
    world.run(200, &mut [&mut one, &mut two]);
    // The news of its end is held up, and its next life comes by another way.
    world.network.cut(1, 2);
    world.network.crash(2);
    world.run(200, &mut [&mut one]);
    let mut again = world.member(3, 2, 7, NodeLimits::default());
    again.node = {
        let me = Identity { node: NodeId(2), incarnation: 2, secret: Secret::new([7; 32]) };
        Node::new(world.network.start(3), me, NodeLimits::default(), [9; 32])
    };
    world.join(&mut again, 1);
    world.run(200, &mut [&mut one, &mut again]);
    assert_eq!(one.lost(), [LostCause::Replaced]);
    assert_eq!(one.joined(), [2]);
}

#[test]
fn an_earlier_life_is_refused_while_a_later_one_is_joined() {
    let mut world = World::new();
    let mut one = world.plain(1);
    let node_two = |number, incarnation| {
        let me = Identity { node: NodeId(2), incarnation, secret: Secret::new([7; 32]) };
        let node = Node::new(world.network.start(number), me, NodeLimits::default(), [9; 32]);
        Member { node, events: Vec::new() }
    };
    let (mut later, mut earlier) = (node_two(2, 5), node_two(3, 4));
    world.join(&mut later, 1);
    world.run(200, &mut [&mut one, &mut later]);
    world.join(&mut earlier, 1);
    world.run(200, &mut [&mut one, &mut later, &mut earlier]);
    assert_eq!(earlier.refusal(), Some((JoinRefusal::Outdated { found: 4, wanted: 5 }, true)));
    assert_eq!(one.lost(), []);
}

#[test]
fn a_node_with_another_secret_is_refused_and_counted_as_a_stranger() {
    let mut world = World::new();
    let mut one = world.plain(1);
    let mut stranger = world.member(2, 1, 8, NodeLimits::default());
    world.join(&mut stranger, 1);
    world.run(200, &mut [&mut one, &mut stranger]);
    assert_eq!(stranger.refusal(), Some((JoinRefusal::Secret, true)));
    assert_eq!((one.joined(), one.node.counters().strangers), (vec![], 1));
}

#[test]
fn strangers_beyond_the_limit_are_told_that_it_is_full() {
    let mut world = World::new();
    let mut one = world.member(1, 1, 7, NodeLimits { strangers_max: 0, ..NodeLimits::default() });
    let mut two = world.plain(2);
    world.join(&mut two, 1);
    world.run(200, &mut [&mut one, &mut two]);
    assert_eq!(two.refusal(), Some((JoinRefusal::Full { limit: 0 }, true)));
}

#[test]
fn a_node_that_says_nothing_after_it_knocked_is_forgotten_in_time() {
    let mut world = World::new();
    let (mut one, mut silent) = (world.plain(1), world.plain(2));
    world.join(&mut silent, 1);
    world.run(2_500, &mut [&mut one]);
    assert_eq!(one.node.counters().strangers, 1);
    assert_eq!(one.node.wake_ns(), None);
}

#[test]
fn a_join_that_is_withdrawn_or_takes_too_long_fails_by_name() {
    let mut world = World::new();
    let (mut one, mut two) = (world.plain(1), world.plain(2));
    let link = world.join(&mut one, 2);
    one.node.leave(world.now_ns, link);
    world.network.cut(1, 2);
    let late = one.node.join(world.now_ns, Address::Simulated(2), None, 300 * MS).expect("begins");
    world.run(400, &mut [&mut one, &mut two]);
    let failed = |link, why| NodeEvent::NotJoined { link, why };
    assert_eq!(
        one.events,
        [failed(link, JoinFailure::Withdrawn), failed(late, JoinFailure::Deadline)]
    );
    assert_eq!(one.node.wake_ns(), None);
}

#[test]
fn a_cut_is_noticed_by_silence_and_calls_end_with_it() {
    let mut world = World::new();
    let (mut one, mut two) = (world.plain(1), world.plain(2));
    let link = world.join(&mut one, 2);
    world.run(200, &mut [&mut one, &mut two]);
    world.network.cut(1, 2);
    let call = one.node.call(world.now_ns, link, b"", vec![1], LATER).expect("room");
    world.run(1_300, &mut [&mut one, &mut two]);
    assert!(matches!(one.lost()[..], [LostCause::Silent { .. }]), "{:?}", one.lost());
    let failed = one.events.iter().find_map(|event| match event {
        NodeEvent::Failed { call: of, error } if *of == call => Some(*error),
        _ => None,
    });
    assert!(matches!(failed.expect("ended").why, CallFailure::Lost(LostCause::Silent { .. })));
}

#[test]
fn idle_nodes_stay_joined_by_signs_of_life_and_by_nothing_else() {
    let mut world = World::new();
    let (mut one, mut two) = (world.plain(1), world.plain(2));
    world.join(&mut one, 2);
    world.run(5_000, &mut [&mut one, &mut two]);
    assert_eq!((one.joined(), two.joined()), (vec![2], vec![1]));
    assert!((15..=22).contains(&one.node.counters().heartbeats), "{:?}", one.node.counters());
}

#[test]
fn a_full_window_and_a_full_queue_both_tell_when_there_is_room() {
    let mut world = World::new();
    let limits = NodeLimits { window_bytes: 8192, ..NodeLimits::default() };
    let (mut one, mut two) = (world.member(1, 1, 7, limits), world.member(2, 1, 7, limits));
    let link = world.join(&mut one, 2);
    world.run(200, &mut [&mut one, &mut two]);
    let too_long = one.node.call(world.now_ns, link, b"", vec![0; 4096], LATER);
    assert_eq!(
        too_long.expect_err("half of the window").error.why,
        CallFailure::TooLong { found: 4096 }
    );
    for _ in 0..2 {
        one.node.post(world.now_ns, link, b"", vec![0; 2000], LATER).expect("room");
    }
    let full = one.node.post(world.now_ns, link, b"", vec![0; 2000], LATER).expect_err("no room");
    assert_eq!((full.error.why, full.payload.len()), (CallFailure::Full, 2000));
    world.run(200, &mut [&mut one, &mut two]);
    assert!(!one.events.contains(&NodeEvent::Room { link }), "nothing was released");
    release_all(&world, &mut two);
    world.run(200, &mut [&mut one, &mut two]);
    assert!(one.events.contains(&NodeEvent::Room { link }));
    one.node.post(world.now_ns, link, b"", vec![0; 2000], LATER).expect("room again");
    one.events.clear();
    world.network.set_weather(Weather { full_one_in: 1, ..CALM });
    let full =
        one.node.post(world.now_ns, link, b"", vec![], LATER).expect_err("the queue is full");
    assert_eq!(full.error.why, CallFailure::Full);
    world.network.set_weather(CALM);
    world.run(200, &mut [&mut one, &mut two]);
    assert!(one.events.contains(&NodeEvent::Room { link }));
}

fn release_all(world: &World, member: &mut Member) {
    let asks: Vec<_> = member
        .events
        .iter()
        .filter_map(|event| match event {
            NodeEvent::Request { ask, .. } => Some(*ask),
            _ => None,
        })
        .collect();
    for ask in asks {
        assert!(member.node.release(world.now_ns, ask));
    }
}
