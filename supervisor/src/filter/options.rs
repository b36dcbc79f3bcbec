//! Socket options that programs set: the numbers that pass, by level.
//!
//! What one of these does concerns the socket itself and what it sends to where it may send. Left
//! out is what sends packets by itself (memberships, which carry an address of the program's
//! choosing), what leads packets elsewhere (source routes, devices, foreign sources), what puts a
//! program into the kernel (BPF), and what takes a capability.

const SOL_SOCKET: u32 = libc::SOL_SOCKET as u32;
const TCP: u32 = libc::IPPROTO_TCP as u32;
const UDP: u32 = libc::IPPROTO_UDP as u32;
const IP: u32 = libc::IPPROTO_IP as u32;
const IPV6: u32 = libc::IPPROTO_IPV6 as u32;

/// (level, options) (sources: asm-generic/socket.h, linux/tcp.h, linux/udp.h, linux/in.h,
/// linux/in6.h).
pub const OPTIONS: &[(u32, &[u32])] =
    &[(SOL_SOCKET, OF_SOCKETS), (TCP, OF_TCP), (UDP, OF_UDP), (IP, OF_IP), (IPV6, OF_IPV6)];

/// Reuse, buffers, time limits, time stamps, credentials of the peer, pace.
#[rustfmt::skip]
const OF_SOCKETS: &[u32] = &[
    2,  // SO_REUSEADDR
    5,  // SO_DONTROUTE
    6,  // SO_BROADCAST: the address is judged where it is sent to
    7,  // SO_SNDBUF
    8,  // SO_RCVBUF
    9,  // SO_KEEPALIVE
    10, // SO_OOBINLINE
    11, // SO_NO_CHECK
    12, // SO_PRIORITY
    13, // SO_LINGER
    14, // SO_BSDCOMPAT
    15, // SO_REUSEPORT
    16, // SO_PASSCRED
    18, // SO_RCVLOWAT
    19, // SO_SNDLOWAT
    20, // SO_RCVTIMEO
    21, // SO_SNDTIMEO
    27, // SO_DETACH_FILTER
    29, // SO_TIMESTAMP
    34, // SO_PASSSEC
    35, // SO_TIMESTAMPNS
    37, // SO_TIMESTAMPING
    40, // SO_RXQ_OVFL
    42, // SO_PEEK_OFF
    45, // SO_SELECT_ERR_QUEUE
    46, // SO_BUSY_POLL
    47, // SO_MAX_PACING_RATE
    49, // SO_INCOMING_CPU
    60, // SO_ZEROCOPY
    63, 64, 65, 66, 67, // SO_TIMESTAMP_NEW to SO_SNDTIMEO_NEW
    69, // SO_PREFER_BUSY_POLL
    70, // SO_BUSY_POLL_BUDGET
    72, // SO_BUF_LOCK
    74, // SO_TXREHASH
    76, // SO_PASSPIDFD
    83, // SO_PASSRIGHTS
];

/// Not TCP_REPAIR (19 to 21), which makes up connections, nor TCP_ULP (31), which changes the
/// protocol of the socket, nor keys of packets.
#[rustfmt::skip]
const OF_TCP: &[u32] = &[
    1,  // TCP_NODELAY
    2,  // TCP_MAXSEG
    3,  // TCP_CORK
    4,  // TCP_KEEPIDLE
    5,  // TCP_KEEPINTVL
    6,  // TCP_KEEPCNT
    7,  // TCP_SYNCNT
    8,  // TCP_LINGER2
    9,  // TCP_DEFER_ACCEPT
    10, // TCP_WINDOW_CLAMP
    12, // TCP_QUICKACK
    13, // TCP_CONGESTION
    16, // TCP_THIN_LINEAR_TIMEOUTS
    17, // TCP_THIN_DUPACK
    18, // TCP_USER_TIMEOUT
    23, // TCP_FASTOPEN
    24, // TCP_TIMESTAMP
    25, // TCP_NOTSENT_LOWAT
    27, // TCP_SAVE_SYN
    30, // TCP_FASTOPEN_CONNECT: the address has been judged by connect(2)
    33, // TCP_FASTOPEN_KEY
    34, // TCP_FASTOPEN_NO_COOKIE
    36, // TCP_INQ
    37, // TCP_TX_DELAY
    44, 45, 46, // TCP_RTO_MAX_MS, TCP_RTO_MIN_US, TCP_DELACK_MAX_US
];

/// Not UDP_ENCAP, by which other protocols travel inside.
#[rustfmt::skip]
const OF_UDP: &[u32] = &[
    1,   // UDP_CORK
    101, // UDP_NO_CHECK6_TX
    102, // UDP_NO_CHECK6_RX
    103, // UDP_SEGMENT
    104, // UDP_GRO
];

/// Memberships are asked about; leaving one (36, 45) tells only of what was joined.
#[rustfmt::skip]
const OF_IP: &[u32] = &[
    1,  // IP_TOS
    2,  // IP_TTL
    6,  // IP_RECVOPTS
    7,  // IP_RETOPTS
    8,  // IP_PKTINFO
    10, // IP_MTU_DISCOVER
    11, // IP_RECVERR
    12, // IP_RECVTTL
    13, // IP_RECVTOS
    15, // IP_FREEBIND: what is sent from a foreign address is no route
    18, // IP_PASSSEC
    20, // IP_RECVORIGDSTADDR
    21, // IP_MINTTL
    24, // IP_BIND_ADDRESS_NO_PORT
    25, // IP_RECVFRAGSIZE
    26, // IP_RECVERR_RFC4884
    32, // IP_MULTICAST_IF
    33, // IP_MULTICAST_TTL
    34, // IP_MULTICAST_LOOP
    36, // IP_DROP_MEMBERSHIP
    45, // MCAST_LEAVE_GROUP
    49, // IP_MULTICAST_ALL
    51, // IP_LOCAL_PORT_RANGE
];

#[rustfmt::skip]
const OF_IPV6: &[u32] = &[
    2,  // IPV6_2292PKTINFO
    8,  // IPV6_2292HOPLIMIT
    11, // IPV6_FLOWINFO
    16, // IPV6_UNICAST_HOPS
    17, // IPV6_MULTICAST_IF
    18, // IPV6_MULTICAST_HOPS
    19, // IPV6_MULTICAST_LOOP
    21, // IPV6_LEAVE_GROUP
    23, // IPV6_MTU_DISCOVER
    24, // IPV6_MTU
    25, // IPV6_RECVERR
    26, // IPV6_V6ONLY
    29, // IPV6_MULTICAST_ALL
    31, // IPV6_RECVERR_RFC4884
    33, // IPV6_FLOWINFO_SEND
    45, // MCAST_LEAVE_GROUP
    49, // IPV6_RECVPKTINFO
    51, // IPV6_RECVHOPLIMIT
    53, // IPV6_RECVHOPOPTS
    56, // IPV6_RECVRTHDR
    58, // IPV6_RECVDSTOPTS
    60, // IPV6_RECVPATHMTU
    62, // IPV6_DONTFRAG
    63, // IPV6_USE_MIN_MTU, which Linux does not know and dig asks for
    66, // IPV6_RECVTCLASS
    67, // IPV6_TCLASS
    70, // IPV6_AUTOFLOWLABEL
    72, // IPV6_ADDR_PREFERENCES
    73, // IPV6_MINHOPCOUNT
    74, // IPV6_RECVORIGDSTADDR
    77, // IPV6_RECVFRAGSIZE
    78, // IPV6_FREEBIND
];
