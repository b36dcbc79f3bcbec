/* Connections to the control plane, by docs/control-protocol.md, byte by byte. */
#ifndef CONTROL_H
#define CONTROL_H
#include "attack.h"

enum { REQUEST = 128, REPLY = 544 };

/* A connection that has not greeted; -errno. */
long control(void);
/* One request with `count` descriptors, and its reply's kind; a refusal is -EACCES. A descriptor
 * that comes with the reply goes to `*fd`, where that is not null. */
long ask_with(long socket, unsigned kind, const void *body, size_t length, const int *fds, size_t count, int *fd);
/* A session. */
long greet(long socket);
/* Memory of so many bytes that begins so, sealed as the control plane wants windows and regions. */
int sealed_memory(const char *name, size_t bytes, const void *head, size_t head_bytes, int seals);
#endif
