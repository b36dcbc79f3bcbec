// The C interface of Heliostat. Generated from bind/c/src by cbindgen; do not edit.
// Regenerate: HELIOSTAT_BLESS=1 cargo test -p heliostat-c

#ifndef HELIOSTAT_RPC_H
#define HELIOSTAT_RPC_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include "code.h"

// The user whose names are meant: the caller's own.
#define HELIOSTAT_RPC_OWN_USER 4294967295

// Bytes that a payload, and a reply, have at most.
#define HELIOSTAT_RPC_PAYLOAD_BYTES_MAX 1048576

// Bytes that a message sent one way has at most.
#define HELIOSTAT_RPC_MESSAGE_BYTES_MAX 65536

// A call that this process has received, or a message. One thread has it at a time.
typedef struct heliostat_call heliostat_call;

// A function of another program. Threads may share it, but for its end.
typedef struct heliostat_function heliostat_function;

// A call that was begun. One thread has it at a time.
typedef struct heliostat_pending heliostat_pending;

// This process's access to remote procedure calls. Threads may share it.
typedef struct heliostat_rpc heliostat_rpc;

// A function that this process serves. Threads may share it, but for its end.
typedef struct heliostat_service heliostat_service;

// Where the reply of one of several calls goes, and what became of it.
typedef struct {
  // Set before: where the reply goes; null where `room` is 0.
  void *reply;
  // Set before: bytes that there is room for.
  size_t room;
  // The reply's length.
  size_t reply_bytes;
  // As `heliostat_function_call` answers.
  heliostat_code code;
  // 0 where the function certainly did not run, else 1.
  int32_t may_have_run;
} heliostat_multicast_reply;

// What a function carries, for `heliostat_rpc_serve`; zeros are what is usual.
typedef struct {
  // Bytes that a payload may have.
  uint32_t request_bytes;
  // Bytes that a reply may have.
  uint32_t reply_bytes;
  // Messages that may wait.
  uint32_t queue;
  // Not 0: programs of other users may call it, as far as rules allow that.
  uint32_t others;
} heliostat_service_options;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Opens it, where `heliostat_configure` has said that the control plane is. `*rpc` is the caller's.
// Blocks for half a second at most. `HELIOSTAT_NO_CONTROL` when none answers.
//
// # Safety
// `rpc` is null or valid for writing.
heliostat_code heliostat_rpc_open(heliostat_rpc **rpc);

// Ends it; functions that came by it stay. Null is ignored.
//
// # Safety
// `rpc` is null or live, and not used again.
void heliostat_rpc_close(heliostat_rpc *rpc);

// The function of this name, among those of `user` (`HELIOSTAT_RPC_OWN_USER` for the caller's).
// `HELIOSTAT_NOT_FOUND` when nobody serves it, `HELIOSTAT_DENIED` where a rule or its publisher says
// no. `*function` is the caller's.
//
// # Safety
// `rpc` is null or live, `name` null or a C string, `function` null or valid for writing.
heliostat_code heliostat_rpc_find(const heliostat_rpc *rpc,
                                  uint32_t user,
                                  const char *name,
                                  heliostat_function **function);

// The same on another node of the cluster, by its number (0 for this one). `HELIOSTAT_NO_CONTROL` when
// that node is not joined or does not answer; its words name the node, as those of every later error of
// the function do.
//
// # Safety
// As `heliostat_rpc_find`.
heliostat_code heliostat_rpc_find_on(const heliostat_rpc *rpc,
                                     uint32_t node,
                                     uint32_t user,
                                     const char *name,
                                     heliostat_function **function);

// Calls a function and waits for its reply, up to `timeout_ms` (negative for ever). The reply is put
// into `reply`, which has room for `room` bytes, and its length into `*reply_bytes`: of a longer reply
// the beginning, and `HELIOSTAT_TOO_LARGE`. `*may_have_run`, unless null, becomes 0 where the function
// certainly did not run, and 1 otherwise.
//
// `HELIOSTAT_STALE` when nobody serves it, `HELIOSTAT_TIMED_OUT`, `HELIOSTAT_PEER_GONE` when the server,
// the control plane or the function's node has ended, `HELIOSTAT_FAILED` when the function says no; the
// last message says why, of the function's no the function's own words.
//
// # Safety
// `function` is null or live; `payload` is valid for reading `bytes` bytes and `reply` for writing
// `room`, or they are null and these 0; `reply_bytes` and `may_have_run` are null or valid for writing.
heliostat_code heliostat_function_call(const heliostat_function *function,
                                       const void *payload,
                                       size_t bytes,
                                       void *reply,
                                       size_t room,
                                       size_t *reply_bytes,
                                       int64_t timeout_ms,
                                       int32_t *may_have_run);

// Sends a function a message, one way. Waits for room in line up to `timeout_ms` (0 for not at all,
// negative for ever). `HELIOSTAT_FULL` when there is none, `HELIOSTAT_TIMED_OUT` when there was none in
// time; then it is not in line.
//
// # Safety
// `function` is null or live; `payload` is valid for reading `bytes` bytes, or null and these 0.
heliostat_code heliostat_function_send(const heliostat_function *function,
                                       const void *payload,
                                       size_t bytes,
                                       int64_t timeout_ms);

// Gives a function back. Null is ignored.
//
// # Safety
// `function` is null or live, and not used again.
void heliostat_function_release(heliostat_function *function);

// Begins a call, whose reply is waited for later by `heliostat_pending_wait`. `*pending` is the caller's.
// The time is counted from now.
//
// # Safety
// `function` is null or live; `payload` is valid for reading `bytes` bytes, or null and these 0;
// `pending` is null or valid for writing.
heliostat_code heliostat_function_begin(const heliostat_function *function,
                                        const void *payload,
                                        size_t bytes,
                                        int64_t timeout_ms,
                                        heliostat_pending **pending);

// Waits up to `within_ms` (0 for not at all) and puts into `*has_ended` whether the call has ended: then
// `heliostat_pending_wait` does not wait.
//
// # Safety
// `pending` is null or live, `has_ended` null or valid for writing.
heliostat_code heliostat_pending_look(heliostat_pending *pending,
                                      uint32_t within_ms,
                                      int32_t *has_ended);

// Waits for the call's end and takes it back in any case. All else is as for `heliostat_function_call`.
//
// # Safety
// `pending` is null or live, and not used again; the rest as for `heliostat_function_call`.
heliostat_code heliostat_pending_wait(heliostat_pending *pending,
                                      void *reply,
                                      size_t room,
                                      size_t *reply_bytes,
                                      int32_t *may_have_run);

// Ends the call and takes it back in any case: `HELIOSTAT_CANCELLED`, or how it had ended before. A
// server that has received it goes on, and hears that nobody waits for its reply. All else is as for
// `heliostat_pending_wait`.
//
// # Safety
// As `heliostat_pending_wait`.
heliostat_code heliostat_pending_cancel(heliostat_pending *pending,
                                        void *reply,
                                        size_t room,
                                        size_t *reply_bytes,
                                        int32_t *may_have_run);

// Gives a call back without its end: it is cancelled. Null is ignored.
//
// # Safety
// `pending` is null or live, and not used again.
void heliostat_pending_release(heliostat_pending *pending);

// Calls `count` functions, of any nodes, with the same payload at once and waits for all of their
// replies, up to `timeout_ms`: each of `replies` says what became of the function at its place. The code
// is `HELIOSTAT_OK` also where some or all of them failed.
//
// # Safety
// `functions` is valid for reading `count` pointers, each null or live; `replies` for reading and
// writing as many, each with a `reply` that is valid for writing its `room`, or null and this 0; the
// payload as for `heliostat_function_call`. Where `count` is 0 both may be null.
heliostat_code heliostat_rpc_multicast(const heliostat_function *const *functions,
                                       heliostat_multicast_reply *replies,
                                       size_t count,
                                       const void *payload,
                                       size_t bytes,
                                       int64_t timeout_ms);

// Serves a function of this name from now on. `options` may be null. Where somebody serves it already,
// it carries what that one has said. `*service` is the caller's.
//
// # Safety
// `rpc` is null or live, `name` null or a C string, `options` null or readable, `service` null or valid
// for writing.
heliostat_code heliostat_rpc_serve(const heliostat_rpc *rpc,
                                   const char *name,
                                   const heliostat_service_options *options,
                                   heliostat_service **service);

// Serves it no more: what was received may still be answered. Null is ignored.
//
// # Safety
// `service` is null or live, and not used again.
void heliostat_service_end(heliostat_service *service);

// Waits for the next call, or message, up to `timeout_ms` (negative for ever). `HELIOSTAT_TIMED_OUT`
// when none came, `HELIOSTAT_ENDED` when this process does not serve it any more. `*call` is the
// caller's.
//
// # Safety
// `service` is null or live, `call` null or valid for writing.
heliostat_code heliostat_service_receive(const heliostat_service *service,
                                         int64_t timeout_ms,
                                         heliostat_call **call);

// Answers `*call` and waits for the next one, in one step: `*call` becomes that one, or null where none
// came (`HELIOSTAT_TIMED_OUT`), or the process does not serve it any more (`HELIOSTAT_ENDED`).
// `*was_heard`, unless null, becomes 0 where nobody waited for the answer.
//
// # Safety
// `service` is null or live; `call` is null or points to a live call; `reply` is valid for reading
// `bytes` bytes, or null and these 0; `was_heard` is null or valid for writing.
heliostat_code heliostat_service_reply_and_receive(const heliostat_service *service,
                                                   heliostat_call **call,
                                                   const void *reply,
                                                   size_t bytes,
                                                   int64_t timeout_ms,
                                                   int32_t *was_heard);

// A call's payload: `*payload` is good until the call is answered or dropped.
//
// # Safety
// `call` is null or live; `payload` and `bytes` are null or valid for writing.
heliostat_code heliostat_call_payload(const heliostat_call *call,
                                      const void **payload,
                                      size_t *bytes);

// Who calls: its user and its process, as the kernel has proved them to the control plane.
//
// # Safety
// `call` is null or live; `user` and `process` are null or valid for writing.
heliostat_code heliostat_call_caller(const heliostat_call *call, uint32_t *user, uint32_t *process);

// The node that a call comes from, by its number in the cluster; 0 where that is this one. Of another
// node `heliostat_call_caller` tells what that node's control plane says.
//
// # Safety
// `call` is null or live, `node` null or valid for writing.
heliostat_code heliostat_call_node(const heliostat_call *call,
                                   uint32_t *node);

// Answers a call, and takes it back in any case. `HELIOSTAT_PEER_GONE` when nobody waits any more.
//
// # Safety
// `call` is null or live, and not used again; `reply` is valid for reading `bytes` bytes, or null and
// these 0.
heliostat_code heliostat_call_reply(heliostat_call *call,
                                    const void *reply,
                                    size_t bytes);

// Says no to a call, and why, and takes it back in any case; with null, that it was dropped.
//
// # Safety
// `call` is null or live, and not used again; `why` is null or a C string.
heliostat_code heliostat_call_fail(heliostat_call *call, const char *why);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HELIOSTAT_RPC_H */
