//! How much there may be of everything between two nodes, and how long.

/// The version of the messages between nodes. Nodes of different versions refuse each other.
pub const PROTOCOL_VERSION: u16 = 1;

/// What every message begins with, before the header of the program above.
pub const HEAD_BYTES: usize = 40;
/// The program's own header: a request of the memory service needs less than half of it.
pub const HEADER_BYTES_MAX: usize = 472;
/// Both together: fits into the header of an active message in every version of UCX (8 KiB there).
pub const HEAD_AND_HEADER_BYTES_MAX: usize = HEAD_BYTES + HEADER_BYTES_MAX;
/// The payload of one message. Larger transfers are several messages, so that a short one between
/// them waits for 8 MiB at most.
pub const PAYLOAD_BYTES_MAX: usize = 8 << 20;

/// What each message costs of a window beyond its bytes. It makes the window a limit on the number
/// of messages too: 8,192 of the default window.
pub const MESSAGE_COST_BYTES: u64 = 2048;

/// What one message may cost at most.
pub const COST_BYTES_MAX: u64 = MESSAGE_COST_BYTES + (HEADER_BYTES_MAX + PAYLOAD_BYTES_MAX) as u64;
/// Bytes of requests, and apart from them of replies, that are on their way to one peer. Two of the
/// largest messages: one is sent while the other is read.
pub const WINDOW_BYTES: u64 = 2 * COST_BYTES_MAX;

/// Links at once, of nodes that are known or not yet. UCX over TCP serves 256 by default.
pub const LINKS_MAX: usize = 256;
/// Of those, links that have not proven who they are, so that strangers leave room for nodes.
pub const STRANGERS_MAX: usize = 64;
/// Calls and posts that wait for their end, of all peers together.
pub const CALLS_MAX: usize = 65_536;

/// How long a link may take from its first byte to the end of the handshake.
pub const HANDSHAKE_NS_MAX: u64 = 2_000_000_000;
/// After so long without a message to a peer it is sent a sign of life.
pub const HEARTBEAT_NS: u64 = 250_000_000;
/// After so long without a byte of a peer it is taken for hung. Three signs of life may be late.
pub const SILENCE_NS_MAX: u64 = 1_000_000_000;
/// How long a link that is closed in order may take to send what is queued.
pub const LINGER_NS_MAX: u64 = 500_000_000;

/// The limits that a node may choose for itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeLimits {
    /// Calls and posts that wait, of all peers together.
    pub calls_max: usize,
    /// Links at once.
    pub links_max: usize,
    /// Of those, links without a finished handshake.
    pub strangers_max: usize,
    /// Bytes of requests, and of replies, that this node lets each peer have on the way to it.
    pub window_bytes: u64,
    /// How long a handshake may take.
    pub handshake_ns_max: u64,
    /// Time without a message after which a sign of life is sent.
    pub heartbeat_ns: u64,
    /// Time without a byte after which a peer is lost.
    pub silence_ns_max: u64,
}

impl Default for NodeLimits {
    fn default() -> NodeLimits {
        NodeLimits {
            calls_max: CALLS_MAX,
            links_max: LINKS_MAX,
            strangers_max: STRANGERS_MAX,
            window_bytes: WINDOW_BYTES,
            handshake_ns_max: HANDSHAKE_NS_MAX,
            heartbeat_ns: HEARTBEAT_NS,
            silence_ns_max: SILENCE_NS_MAX,
        }
    }
}
