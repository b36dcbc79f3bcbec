use super::*;

fn info() -> FunctionInfo {
    FunctionInfo {
        function: ObjectId { index: 1, generation: 2 },
        user: 1000,
        node: 0,
        request_bytes: 8,
        reply_bytes: PAYLOAD_BYTES_MAX,
        queue: 64,
        others: true,
    }
}

fn listed(index: u32) -> ListedFunction {
    ListedFunction {
        function: ObjectId { index, generation: 2 },
        user: 1000,
        servers: 2,
        callers: 3,
        request_bytes: 8,
        reply_bytes: 9,
        age_s: 10,
        others: false,
        name: FunctionName::parse("kv/get").unwrap(),
    }
}

#[test]
fn every_reply_comes_back_as_it_was() {
    let functions: Vec<_> = (0..LISTED_PER_REPLY_MAX as u32).map(listed).collect();
    let all = [
        RpcReply::Granted(info()),
        RpcReply::Session { depth: 256, functions: 9 },
        RpcReply::Listed { functions, next: NO_MORE },
    ];
    for reply in all {
        assert_eq!(RpcReply::decode(&reply.encode()), Ok(reply));
    }
}

#[test]
fn a_control_plane_that_lies_is_not_believed() {
    let long = RpcReply::Granted(FunctionInfo { request_bytes: PAYLOAD_BYTES_MAX + 1, ..info() });
    let wrong = RpcReply::decode(&long.encode());
    assert!(matches!(wrong, Err(WireError::Field { name: "payload bytes", .. })), "{wrong:?}");
    let mut many = RpcReply::Listed { functions: vec![listed(1)], next: 0 }.encode();
    many.body[0] = 200;
    let wrong = RpcReply::decode(&many);
    assert!(matches!(wrong, Err(WireError::Field { name: "functions", .. })), "{wrong:?}");
}
