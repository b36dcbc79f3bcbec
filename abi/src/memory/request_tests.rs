use super::*;

const HANDLE: ObjectId = ObjectId { index: 7, generation: 3 };

fn all() -> Vec<MemoryRequest> {
    use MemoryRequest::*;
    let name = MemoryName::parse("kv/cache").unwrap();
    let rights = Rights::READ.and(Rights::ATOMIC);
    let allocation =
        Allocation { bytes: 1 << 40, lasting: true, name: Some(name.clone()), others: rights };
    vec![
        Allocate(allocation.clone()),
        Map { user: name::OWN_USER, name: name.clone(), rights },
        Locate { handle: HANDLE, from: 20 },
        Arena { arena: HANDLE },
        RegionPage,
        Unmap { handle: HANDLE },
        Free { handle: HANDLE },
        Grow { handle: HANDLE, bytes: 9 },
        Name { handle: HANDLE, name: Some(name), others: rights },
        Appoint { handle: HANDLE, user: 1000, rights },
        Lasting { handle: HANDLE, lasting: true },
        List { user: 0, from: 3, beginning: "kv/".into() },
        Move { handle: HANDLE, node: 3 },
        Session,
        AskMe { handle: HANDLE },
        NextAsked,
        Answer { question: u64::MAX, rights },
        MapRegion { region: HANDLE, rights },
        On { node: 7, request: Box::new(Allocate(allocation.clone())) },
        Adopt {
            handle: HANDLE,
            others: rights,
            lasting: false,
            name: Some(MemoryName::parse("kv").unwrap()),
        },
        Allocate(Allocation { name: None, others: Rights::NONE, lasting: false, ..allocation }),
        Name { handle: HANDLE, name: None, others: Rights::NONE },
        EndSession,
        MoveState { handle: HANDLE },
        Class { handle: HANDLE, class: crate::cluster::Class::Low },
        Stage(allocation.clone()),
        Adopt { handle: HANDLE, others: rights, lasting: true, name: None },
        Presence { fenced: false },
        Presence { fenced: true },
    ]
}

#[test]
fn every_request_comes_back_as_it_was_and_has_its_number() {
    for request in all() {
        assert_eq!(MemoryRequest::decode(&request.encode()), Ok(request));
    }
    let numbers: Vec<_> = all().iter().take(19).map(MemoryRequest::number).collect();
    assert_eq!(numbers, (1280..1299).collect::<Vec<_>>());
}

#[test]
fn no_request_has_bytes_that_say_nothing() {
    for request in all() {
        let mut own = request.encode();
        own.body[REQUEST_BODY_BYTES - 1] = 1;
        assert_eq!(MemoryRequest::decode(&own), Err(WireError::Reserved), "{request:?}");
    }
}

#[test]
fn fields_out_of_their_range_are_refused_by_name() {
    let field = |request: &MemoryRequest, at: usize, value: u8| {
        let mut own = request.encode();
        own.body[at] = value;
        match MemoryRequest::decode(&own) {
            Err(WireError::Field { name, .. }) => name,
            other => panic!("{other:?}"),
        }
    };
    let all = all();
    assert_eq!(field(&MemoryRequest::Presence { fenced: true }, 0, 2), "fenced");
    assert_eq!(field(&all[0], 8, 2), "lasting");
    assert_eq!(field(&all[0], 12, 64), "rights");
    assert_eq!(field(&all[0], 16, 65), "memory name");
    assert_eq!(field(&all[0], 20, b'/'), "memory name");
    assert_eq!(field(&all[10], 8, 9), "lasting");
    let nameless = MemoryRequest::Name { handle: HANDLE, name: None, others: Rights::NONE };
    let own = OwnRequest { number: number::MAP, body: nameless.encode().body };
    assert!(MemoryRequest::decode(&own).is_err(), "a map of no name");
    let own = OwnRequest { number: FIRST + 19, body: own.body };
    assert_eq!(MemoryRequest::decode(&own), Err(WireError::Kind { found: FIRST + 19 }));
}
