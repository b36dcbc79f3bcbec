/* Numbers of the lean interface: places, kinds, bits. tests/layout.rs compares each with abi and ring. */
#ifndef HELIOSTAT_LEAN_LAYOUT_H
#define HELIOSTAT_LEAN_LAYOUT_H

#define HL_MAGIC 0x4e41454c494c4548ull /* "HELILEAN" */
#define HL_VERSION 1
#define HL_OVER_AT 64
#define HL_QUEUE_AT 0x1000
#define HL_QUEUE_BYTES 0x4000
#define HL_SCRATCH_AT 0x10000
#define HL_SCRATCH_BYTES 0x1000
#define HL_SLOTS 256
#define HL_PAYLOAD_AT 0x400000
#define HL_WINDOW_BYTES_MIN 0x800000
#define HL_HAS_FILES 1
#define HL_HAS_SOCKETS 2

#define HL_RING_HEAD_AT 0x080
#define HL_RING_TAIL_AT 0x100
#define HL_RING_BELL_AT 0x180
#define HL_RING_DATA_AT 0x1000
#define HL_SUBMISSION_BYTES 65536
#define HL_COMPLETION_BYTES 16384
#define HL_COMPLETION_AT 69632
#define HL_RINGS_BYTES 94208
#define HL_COMPLETION_RECORD_BYTES 24
#define HL_OPERATION_HEAD_BYTES 40
#define HL_PIECE_BYTES 16
#define HL_PIECES_MAX 16
#define HL_TRANSFER_BYTES_MAX 16777216
#define HL_NAME_BYTES_MAX 4096
#define HL_FETCH_BYTES_MAX 65536

#define HL_OP_READ 1
#define HL_OP_WRITE 2
#define HL_OP_APPEND 3
#define HL_OP_FSYNC 4
#define HL_OP_OPEN 5
#define HL_OP_STAT 6
#define HL_OP_CLOSE 7
#define HL_OP_CANCEL 8
#define HL_OP_TRUNCATE 9
#define HL_OP_MKDIR 10
#define HL_OP_RMDIR 11
#define HL_OP_UNLINK 12
#define HL_OP_RENAME 13
#define HL_OP_READDIR 16
#define HL_OP_LOCK 17
#define HL_OP_FETCH 23
#define HL_OP_CONNECT 224
#define HL_OP_LISTEN 225
#define HL_OP_ACCEPT 226
#define HL_OP_POLL 227
#define HL_OP_SHUTDOWN 228
#define HL_OP_ADDRESS 229

/* Open. */
#define HL_READ 1u
#define HL_WRITE 2u
#define HL_DIRECT 4u
#define HL_BUFFERED 8u
#define HL_CREATE 16u
#define HL_EXCLUSIVE 32u
#define HL_TRUNCATE 64u
#define HL_DIRECTORY 128u
#define HL_MODE_SHIFT 16
/* Rename. */
#define HL_NOREPLACE 1u
/* Lock. */
#define HL_UNLOCK 0u
#define HL_SHARED 1u
#define HL_ALONE 2u
#define HL_NOW 4u
/* Listen: others listen at the address too, and connections are shared out. */
#define HL_SHARED_LISTENER 65536u
/* By which rule, with HL_SHARED_LISTENER; without one by the listener's, at first by load. */
#define HL_BY_LOAD 131072u
#define HL_BY_TURN 262144u
#define HL_BY_ADDRESS 393216u
#define HL_BY_CONTENT 524288u
/* Shutdown. */
#define HL_RECEIVING 1u
#define HL_SENDING 2u
/* Address. */
#define HL_OWN 0u
#define HL_PEER 1u
/* Poll. */
#define HL_POLL_IN 1u
#define HL_POLL_OUT 2u
#define HL_POLL_ENDED 4u
#define HL_POLL_UNKNOWN 8u
#define HL_POLLED_MAX 1024

/* Errnos that the header itself answers with; the host's are Linux's too. */
#define HL_ENOENT 2
#define HL_EFAULT 14
#define HL_EINVAL 22
#define HL_ENOTSUP 95
#define HL_ENAMETOOLONG 36
#define HL_ESHUTDOWN 108
#define HL_EPROTO 71

#endif
