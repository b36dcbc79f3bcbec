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

// This process's access to remote procedure calls. Threads may share it.
typedef struct heliostat_rpc heliostat_rpc;

// A function that this process serves. Threads may share it, but for its end.
typedef struct heliostat_service heliostat_service;

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

// Calls a function and waits for its reply, up to `timeout_ms` (negative for ever). The reply is put
// into `reply`, which has room for `room` bytes, and its length into `*reply_bytes`: of a longer reply
// the beginning, and `HELIOSTAT_TOO_LARGE`. `*may_have_run`, unless null, becomes 0 where the function
// certainly did not run, and 1 otherwise.
//
// `HELIOSTAT_STALE` when nobody serves it, `HELIOSTAT_TIMED_OUT`, `HELIOSTAT_PEER_GONE` when the server
// or the control plane has ended, `HELIOSTAT_FAILED` when the function says no; the last message says
// why, of the function's no the function's own words.
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
