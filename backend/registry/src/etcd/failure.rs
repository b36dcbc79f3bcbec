//! Why a request to etcd has no answer.

/// Why a request has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// It did not reach etcd.
    NotSent(String),
    /// It may have, and there is no answer, or none that can be read.
    Lost(String),
    /// etcd answers with an error: its number in gRPC, and its words.
    Error(i64, String),
}
