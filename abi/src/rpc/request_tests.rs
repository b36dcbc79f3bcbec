use super::*;

fn name() -> FunctionName {
    FunctionName::parse("kv/get").unwrap()
}

fn publication() -> Publication {
    let (request_bytes, reply_bytes, queue) = (PAYLOAD_BYTES_MAX, 0, QUEUE_MAX);
    Publication { name: name(), others: true, request_bytes, reply_bytes, queue }
}

#[test]
fn every_request_comes_back_as_it_was() {
    let function = ObjectId { index: 3, generation: 4 };
    let all = [
        RpcRequest::Publish(publication()),
        RpcRequest::Find { user: 5, node: 0, name: name() },
        RpcRequest::Leave { function, serves: true, calls: false },
        RpcRequest::Leave { function, serves: false, calls: true },
        RpcRequest::Session,
        RpcRequest::List { user: name::OWN_USER, from: 9, beginning: "kv/".into() },
        RpcRequest::ListOn { node: 2, user: 5, from: 0, beginning: String::new() },
    ];
    for request in all {
        assert_eq!(RpcRequest::decode(&request.encode()), Ok(request));
    }
}

#[test]
fn a_field_out_of_its_range_is_named() {
    let field =
        |request: Publication| match RpcRequest::decode(&RpcRequest::Publish(request).encode()) {
            Err(WireError::Field { name, .. }) => name,
            other => panic!("{other:?}"),
        };
    assert_eq!(field(Publication { queue: 0, ..publication() }), "queue");
    assert_eq!(field(Publication { queue: QUEUE_MAX + 1, ..publication() }), "queue");
    let long = PAYLOAD_BYTES_MAX + 1;
    assert_eq!(field(Publication { request_bytes: long, ..publication() }), "request bytes");
    assert_eq!(field(Publication { reply_bytes: long, ..publication() }), "reply bytes");
}

#[test]
fn bytes_behind_the_last_field_and_other_numbers_are_refused() {
    let function = ObjectId::default();
    let none = RpcRequest::Leave { function, serves: false, calls: false };
    let wrong = RpcRequest::decode(&none.encode());
    assert_eq!(wrong, Err(WireError::Field { name: "roles", found: 0 }));
    let mut own = RpcRequest::Session.encode();
    own.body[REQUEST_BODY_BYTES - 1] = 1;
    assert_eq!(RpcRequest::decode(&own), Err(WireError::Reserved));
    let other = OwnRequest { number: FIRST + 6, ..RpcRequest::Session.encode() };
    assert_eq!(RpcRequest::decode(&other), Err(WireError::Kind { found: FIRST + 6 }));
}
