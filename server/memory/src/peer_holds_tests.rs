use super::*;
use heliostat_abi::memory::page::{State, HEADER_BYTES};
use heliostat_server_node::{LinkId, NodeId};

const BYTES: u64 = 300_000;

fn id(index: u32) -> ObjectId {
    ObjectId { index, generation: 1 }
}

fn peer(link: u64) -> PeerNode {
    PeerNode { node: NodeId(2), incarnation: 1, link: LinkId(link) }
}

/// A region that session 1 of link 1 may use so, by handle 1.
struct Setup {
    holds: PeerHolds,
    page: RegionPage,
    area: Arc<Area>,
}

impl Setup {
    fn with(rights: Rights) -> Setup {
        let page = Arc::new(SharedMapping::create(c"page", HEADER_BYTES + 4096).unwrap().1);
        let arena = Arc::new(SharedMapping::create(c"arena", 1 << 20).unwrap().1);
        let pieces = [(arena.clone(), 512, 100_032), (arena, 400_000, 200_000)];
        let area = Arc::new(Area::new(pieces, BYTES).unwrap());
        let (holds, page) = (PeerHolds::new(page.clone()), RegionPage::new(page));
        page.set(id(7), State::Live, 1);
        holds.begin(id(1), peer(1));
        let setup = Setup { holds, page, area };
        assert!(setup.hold(id(1), rights));
        setup
    }

    fn hold(&self, session: ObjectId, rights: Rights) -> bool {
        let (handle, region, area) = (id(1), id(7), self.area.clone());
        self.holds.hold(Hold { session, handle, region, rights, area, epoch: 1 })
    }

    fn ask(&self, link: u64, action: PeerAction, payload: &[u8]) -> (PeerAnswer, Vec<u8>) {
        let handle = PeerHandle { session: id(1), handle: id(1) };
        let header = PeerOperation { handle, action }.encode();
        let (header, read) = self.holds.serve(peer(link), &header, payload);
        (PeerAnswer::decode(&header).unwrap(), read)
    }

    fn refusal(&self, link: u64, action: PeerAction) -> Option<PeerRefusal> {
        self.ask(link, action, &[]).0.result.err()
    }
}

fn read(offset: u64, bytes: u64) -> PeerAction {
    let part = Range { offset, bytes };
    PeerAction::Read { part, of: part }
}

#[test]
fn what_a_handle_allows_is_done_and_answered() {
    let setup = Setup::with(Rights::ALL);
    let part = Range { offset: 100_000, bytes: 3 };
    let written = setup.ask(1, PeerAction::Write { part, of: part }, b"abc");
    assert_eq!(written, (PeerAnswer::done(3), vec![]), "over the border of two pieces");
    assert_eq!(setup.ask(1, read(99_999, 5), &[]), (PeerAnswer::done(5), b"\0abc\0".to_vec()));
    let set = PeerAction::Set { part, of: part, value: 9 };
    assert_eq!(setup.ask(1, set, &[]).0, PeerAnswer::done(3));
    let handle = PeerHandle { session: id(1), handle: id(1) };
    let copy = PeerAction::Copy { to: 8, source: handle, from: 100_000, bytes: 3, done: 0 };
    assert_eq!(setup.ask(1, copy, &[]).0, PeerAnswer::done(3));
    let add = PeerAction::FetchAdd { offset: 8, more: 1 };
    assert_eq!(setup.ask(1, add, &[]).0, PeerAnswer { result: Ok(8), word: 0x09_0909 });
    let compare = PeerAction::CompareSwap { offset: 8, expected: 1, new: 2 };
    assert_eq!(setup.ask(1, compare, &[]).0, PeerAnswer { result: Ok(0), word: 0x09_090a });
    assert_eq!(setup.holds.counted(), (6, 0));
}

#[test]
fn another_link_and_another_session_lead_nowhere() {
    let setup = Setup::with(Rights::ALL);
    assert_eq!(setup.refusal(2, read(0, 8)), Some(PeerRefusal::NoHandle));
    assert!(!setup.hold(id(2), Rights::ALL), "nobody is known by that name");
    setup.holds.end(id(1));
    assert_eq!(setup.refusal(1, read(0, 8)), Some(PeerRefusal::NoHandle));
}

#[test]
fn rights_bounds_and_words_are_looked_at_for_each_message() {
    let setup = Setup::with(Rights::READ);
    assert_eq!(setup.refusal(1, read(BYTES, 1)), Some(PeerRefusal::Range));
    let part = Range { offset: 0, bytes: 8 };
    let of = Range { offset: 0, bytes: BYTES + 1 };
    assert_eq!(setup.refusal(1, PeerAction::Read { part, of }), Some(PeerRefusal::Range));
    let set = PeerAction::Set { part, of: part, value: 1 };
    assert_eq!(setup.refusal(1, set), Some(PeerRefusal::Denied));
    let swap = PeerAction::Swap { offset: 0, new: 1 };
    assert_eq!(setup.refusal(1, swap), Some(PeerRefusal::Denied));
    setup.hold(id(1), Rights::ATOMIC);
    let odd = PeerAction::Swap { offset: 4, new: 1 };
    assert_eq!(setup.refusal(1, odd), Some(PeerRefusal::Misaligned));
    assert_eq!(setup.holds.counted(), (0, 5));
}

#[test]
fn the_word_decides_whether_a_region_is_there() {
    let setup = Setup::with(Rights::ALL);
    setup.page.set(id(7), State::Live, 2);
    assert_eq!(setup.refusal(1, read(0, 8)), Some(PeerRefusal::Again), "it has grown");
    setup.holds.place(id(1), id(7), &setup.area, 2);
    assert_eq!(setup.refusal(1, read(0, 8)), None);
    setup.page.set(id(7), State::Gone, 0);
    assert_eq!(setup.refusal(1, read(0, 8)), Some(PeerRefusal::Stale));
    setup.holds.drop_handle(id(1), id(1));
    assert_eq!(setup.refusal(1, read(0, 8)), Some(PeerRefusal::NoHandle));
}
