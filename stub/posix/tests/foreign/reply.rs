//! Replies: any bytes from the control socket are a reply that a stub can use, or an error.
//!
//! An input is judged as it is, and once more at the right length behind a right mark and version,
//! so that the bodies are reached from any bytes.

use std::net::SocketAddr;

use heliostat_abi::limits::{
    ATTACHMENTS_MAX, CHANNELS_MAX, FDS_PER_REPLY_MAX, LEASES_MAX, PORTS_MAX, REGIONS_MAX,
    SESSIONS_MAX,
};
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_abi::session::record::{Reply, MAGIC, REPLY_BYTES};
use heliostat_abi::VERSION;

pub fn exercise(input: &[u8]) {
    judge(input);
    judge(&mended(input));
}

/// The input as a record of the right length, mark and version.
fn mended(input: &[u8]) -> [u8; REPLY_BYTES] {
    let mut bytes = [0; REPLY_BYTES];
    let kept = input.len().min(REPLY_BYTES);
    bytes[..kept].copy_from_slice(&input[..kept]);
    bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

fn judge(bytes: &[u8]) {
    match Reply::decode(bytes) {
        Ok((reply, sequence)) => {
            assert_eq!(bytes.len(), REPLY_BYTES);
            check(&reply);
            assert_eq!(Reply::decode(&reply.encode(sequence)), Ok((reply, sequence)));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// What a stub does with the values without looking at them again.
fn check(reply: &Reply) {
    match reply {
        Reply::Welcome { session, .. } => check_id(*session, SESSIONS_MAX),
        Reply::Listening { port, address } => {
            check_id(*port, PORTS_MAX);
            check_address(*address);
        }
        Reply::Channels { port, entries, .. } => {
            check_id(*port, PORTS_MAX);
            assert!(entries.len() <= FDS_PER_REPLY_MAX, "{} entries", entries.len());
            for entry in entries {
                check_id(entry.id, CHANNELS_MAX);
                check_id(entry.client, SESSIONS_MAX);
            }
        }
        Reply::Published { region, .. } => check_id(*region, REGIONS_MAX),
        Reply::Region { region, consumer, .. } => {
            check_id(*region, REGIONS_MAX);
            check_id(*consumer, ATTACHMENTS_MAX);
        }
        Reply::Consumers { region, entries, .. } => {
            check_id(*region, REGIONS_MAX);
            assert!(entries.len() <= FDS_PER_REPLY_MAX, "{} entries", entries.len());
            entries.iter().for_each(|entry| check_id(entry.consumer, ATTACHMENTS_MAX));
        }
        Reply::Leased { lease, .. } => check_id(*lease, LEASES_MAX),
        Reply::NotLeased { .. } | Reply::Text { .. } | Reply::Done | Reply::Refused { .. } => {}
        Reply::Delegated { .. } => {}
        // Whoever uses the service checks the body; the stub has no word for it.
        Reply::Own(_) => {}
    }
}

/// The word of each object is looked up in the node page by its index.
fn check_id(id: ObjectId, limit: usize) {
    assert!((id.index as usize) < limit, "{id} has no word in the node page");
}

/// Addresses are compared as values, so each must have one form only.
pub fn check_address(address: NetAddress) {
    assert_eq!(NetAddress::new(SocketAddr::new(address.ip, address.port)), address);
}
