//! Revocation ends every grant of this process, so that it has a test binary of its own.

mod support;

use support::pair::direct;

#[test]
fn a_revoked_stream_goes_native_and_keeps_its_bytes() {
    let (client, server) = direct();
    assert_eq!(client.send(b"before", 0), Ok(6));
    support::control().revoke_all();
    let peer = std::thread::spawn(move || {
        let mut bytes = [0; 11];
        assert_eq!(server.recv(&mut bytes, libc::MSG_WAITALL), Ok(11));
        assert_eq!(server.send(b"done", 0), Ok(4));
        (bytes, server)
    });
    assert_eq!(client.send(b"after", 0), Ok(5));
    let mut done = [0; 4];
    assert_eq!(client.recv(&mut done, libc::MSG_WAITALL), Ok(4));
    let (bytes, server) = peer.join().unwrap();
    assert_eq!((&bytes, &done), (b"beforeafter", b"done"));
    assert!(!client.is_direct() && !server.is_direct());
}
