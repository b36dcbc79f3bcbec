//! One payload to many functions.

use std::time::Duration;

use super::{Function, PendingCall, RpcError};

/// Calls many functions with the same payload at once, and waits for all of their replies, `limit` at
/// most: in order of the functions, each with its own reply or error.
pub fn multicast(
    functions: &[&Function],
    payload: &[u8],
    limit: Option<Duration>,
) -> Vec<Result<Vec<u8>, RpcError>> {
    let begun: Vec<_> = functions.iter().map(|it| it.begin(payload, limit)).collect();
    begun.into_iter().map(|call| call.and_then(PendingCall::wait)).collect()
}
