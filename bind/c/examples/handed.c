// A consumer in another process that attaches by descriptors alone: no name, no control plane.
//
// Producer and consumer share a socket. The producer sends table and pool, the consumer its page of
// pins and an end of its bell, and is told when it is let in. Prints what the consumer read.
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "heliostat.h"

enum { CELLS = 10000, VERSIONS = 3, PATIENCE_MS = 20000 };

// Sends two descriptors, or receives them; 0 when it went well.
static int pass(int peer, int fds[2], int is_sent) {
  char byte = '.';
  union {
    char bytes[CMSG_SPACE(2 * sizeof(int))];
    struct cmsghdr align;
  } control = {{0}};
  struct iovec part = {&byte, 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
  if (is_sent) {
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(2 * sizeof(int));
    memcpy(CMSG_DATA(head), fds, 2 * sizeof(int));
    return sendmsg(peer, &message, 0) != 1;
  }
  if (recvmsg(peer, &message, MSG_CMSG_CLOEXEC) != 1 || CMSG_FIRSTHDR(&message) == NULL) return 1;
  memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&message)), 2 * sizeof(int));
  return 0;
}

// Shows the producer what it wants of a consumer, and waits until that is let in.
static int32_t announce(void *context, int32_t pins, int32_t bell) {
  int peer = *(int *)context, fds[2] = {pins, bell};
  char answer;
  return pass(peer, fds, 1) || read(peer, &answer, 1) != 1;
}

static int consume(int peer) {
  heliostat_attachment *reader = NULL;
  heliostat_snapshot *snapshot = NULL;
  const uint8_t *bytes = NULL;
  int fds[2];
  if (pass(peer, fds, 0)) return 1;
  CHECK(heliostat_attach_by(fds[0], fds[1], announce, &peer, &reader));
  close(fds[0]);
  close(fds[1]);
  for (uint64_t number = 1; number <= VERSIONS; number++) {
    CHECK(heliostat_attachment_wait(reader, number - 1, PATIENCE_MS));
    CHECK(heliostat_snapshot_take(reader, number, &snapshot));
    CHECK(heliostat_snapshot_bytes(snapshot, &bytes, NULL, NULL));
    printf("%g ", ((const double *)bytes)[CELLS - 1]);
    heliostat_snapshot_release(snapshot);
    if (write(peer, "!", 1) != 1) return 1;
  }
  // The producer ends without a word; its end of the bell says so.
  int is_over = heliostat_attachment_wait(reader, VERSIONS, PATIENCE_MS) == HELIOSTAT_ENDED;
  heliostat_detach(reader);
  puts(is_over ? "over" : "late");
  return !is_over;
}

static int produce(int peer, double *cells) {
  heliostat_region *region = NULL;
  int fds[2];
  char answer;
  CHECK(heliostat_region_create((const uint8_t *)cells, CELLS * sizeof(double), NULL, &region));
  CHECK(heliostat_region_descriptors(region, &fds[0], &fds[1]));
  if (pass(peer, fds, 1) || pass(peer, fds, 0)) return 1;
  CHECK(heliostat_region_admit(region, fds[0], fds[1]));
  close(fds[0]);
  close(fds[1]);
  if (write(peer, "!", 1) != 1) return 1;
  for (int version = 1; version <= VERSIONS; version++) {
    for (int at = 0; at < CELLS; at++) cells[at] = version / 2.0;
    CHECK(heliostat_region_declare(region, 0, CELLS * sizeof(double)));
    CHECK(heliostat_region_publish(region, NULL));
    if (read(peer, &answer, 1) != 1) return 1;
  }
  heliostat_region_destroy(region);
  return 0;
}

int main(void) {
  static double cells[CELLS];
  int ends[2], status = 0;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends)) return 1;
  fflush(stdout);
  pid_t consumer = fork();
  if (consumer == 0) {
    close(ends[0]);
    return consume(ends[1]);
  }
  close(ends[1]);
  int failed = produce(ends[0], cells);
  waitpid(consumer, &status, 0);
  return failed || status;
}
