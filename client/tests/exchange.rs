//! Which answer belongs to a request, and what an answer that does not fit ends as.

#[path = "support/packet.rs"]
mod packet;

use std::os::fd::AsRawFd;

use heliostat_abi::code::Code;
use heliostat_abi::session::record::{Bound, Reply, Request};
use heliostat_base::packet::PacketSocket;
use heliostat_base::sys::Errno;
use heliostat_client::{exchange, ControlError};

const REFUSED_FULL: Reply = Reply::Refused { code: Code::Full, limit: 7, bound: Bound::NONE };

/// Asks for the status as request 5 of a control plane that answers with these records and is silent
/// from then on.
fn ask(name: &str, records: Vec<Vec<u8>>) -> Result<Reply, ControlError> {
    let path = std::env::temp_dir().join(format!("heliostat-{name}-{}", std::process::id()));
    let path = path.display().to_string();
    let listener = packet::listen(&path);
    let client = PacketSocket::connect(&path, 2000).unwrap();
    let server = packet::accept(&listener);
    std::fs::remove_file(&path).unwrap();
    for record in &records {
        packet::send(server.as_raw_fd(), record, &[]);
    }
    let answer = exchange(&client, &Request::Status, &[], 5).map(|(reply, _)| reply);
    let (asked, _) = packet::receive(server.as_raw_fd()).expect("a request was sent");
    assert_eq!(Request::decode(&asked), Ok((Request::Status, 5)));
    answer
}

#[test]
fn an_answer_to_an_earlier_request_is_dropped() {
    let records = vec![Reply::Done.encode(4).to_vec(), REFUSED_FULL.encode(5).to_vec()];
    assert_eq!(ask("late", records), Ok(REFUSED_FULL));
}

#[test]
fn a_refusal_without_a_number_is_the_answer_to_a_request_that_could_not_be_read() {
    let refusal = Reply::Refused { code: Code::BadVersion, limit: 0, bound: Bound::NONE };
    assert_eq!(ask("unread", vec![refusal.encode(0).to_vec()]), Ok(refusal));
}

#[test]
fn bytes_that_are_no_record_are_malformed() {
    let answer = ask("nonsense", vec![vec![7; 100]]);
    assert!(matches!(answer, Err(ControlError::Malformed(_))), "{answer:?}");
}

#[test]
fn silence_ends_as_broken_after_the_sockets_timeout() {
    let path = std::env::temp_dir().join(format!("heliostat-silent-{}", std::process::id()));
    let path = path.display().to_string();
    let listener = packet::listen(&path);
    let client = PacketSocket::connect(&path, 50).unwrap();
    let _server = packet::accept(&listener);
    std::fs::remove_file(&path).unwrap();
    let answer = exchange(&client, &Request::Status, &[], 1).map(|(reply, _)| reply);
    assert_eq!(answer, Err(ControlError::Broken(Errno(libc::EAGAIN))));
}
