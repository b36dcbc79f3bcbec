// Drives logs and queues from C, a command a line; test_languages.py tells the commands.
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heliostat.h"

enum { LINE_BYTES = 8192, PATIENCE_MS = 60000 };

static heliostat_log *log_open_now;
static heliostat_queue *queue_open_now;

static const char *word_of(int code) {
  switch (code) {
    case HELIOSTAT_ENDED: return "ended";
    case HELIOSTAT_FULL: return "full";
    case HELIOSTAT_TOO_LARGE: return "too_large";
    case HELIOSTAT_STALE: return "stale";
    case HELIOSTAT_INVALID: return "invalid";
    case HELIOSTAT_CORRUPT: return "corrupt";
    case HELIOSTAT_DEVICE: return "device";
    case HELIOSTAT_IN_USE: return "in_use";
    case HELIOSTAT_DENIED: return "denied";
    case HELIOSTAT_NOT_FOUND: return "not_found";
    case HELIOSTAT_TAKEN: return "taken";
    case HELIOSTAT_FOREIGN: return "foreign";
    case HELIOSTAT_UNSUPPORTED: return "unsupported";
    case HELIOSTAT_WRONG_DEVICE: return "wrong_device";
    case HELIOSTAT_TIMED_OUT: return "timed_out";
    case HELIOSTAT_NULL: return "ended";  // nothing is open
    default: return "system";
  }
}

static void say(int code) {
  if (code == HELIOSTAT_OK) printf("ok\n");
  else printf("error %s\n", word_of(code));
}

static void say_position(int code, heliostat_position at) {
  if (code == HELIOSTAT_OK) printf("ok %" PRIu64 ":%" PRIu64 "\n", at.at, at.sequence);
  else say(code);
}

static heliostat_position position_of(const char *word) {
  heliostat_position at = {0, 0};
  sscanf(word, "%" SCNu64 ":%" SCNu64, &at.at, &at.sequence);
  return at;
}

// Ends with the reader; prints its entries, or why there is none.
static void say_entries(int code, heliostat_log_reader *reader, int checks_end) {
  char text[1 << 16] = "";
  size_t used = 0;
  const void *payload;
  size_t bytes;
  while (code == HELIOSTAT_OK) {
    code = heliostat_log_reader_next(reader, &payload, &bytes, NULL, NULL);
    if (code != HELIOSTAT_OK) break;
    int room = (int)(sizeof text - used);
    used += (size_t)snprintf(text + used, (size_t)room, "%s%.*s", used > 0 ? "," : "", (int)bytes, (const char *)payload);
  }
  if (code == HELIOSTAT_EMPTY) code = checks_end ? heliostat_log_reader_check_end(reader) : HELIOSTAT_OK;
  heliostat_log_reader_close(reader);
  if (code == HELIOSTAT_OK) printf(used > 0 ? "ok %s\n" : "ok\n", text);
  else say(code);
}

struct outcome {
  pthread_mutex_t lock;
  pthread_cond_t rung;
  int is_there, code;
};

static void hear(void *context, int32_t code, heliostat_position position) {
  struct outcome *outcome = context;
  (void)position;
  pthread_mutex_lock(&outcome->lock);
  outcome->is_there = 1;
  outcome->code = code;
  pthread_cond_signal(&outcome->rung);
  pthread_mutex_unlock(&outcome->lock);
}

// Appends, or pushes where a queue is open.
static void append_then(const char *text) {
  struct outcome outcome = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};
  heliostat_position at;
  int code = queue_open_now != NULL ? heliostat_queue_push_then(queue_open_now, text, strlen(text), hear, &outcome, &at)
                                    : heliostat_log_append_then(log_open_now, text, strlen(text), hear, &outcome, &at);
  if (code != HELIOSTAT_OK) {
    say(code);
    return;
  }
  pthread_mutex_lock(&outcome.lock);
  while (!outcome.is_there) pthread_cond_wait(&outcome.rung, &outcome.lock);
  pthread_mutex_unlock(&outcome.lock);
  say_position(outcome.code, at);
}

static void append_heard(const char *text) {
  int descriptor = -1;
  heliostat_position at;
  int code = heliostat_log_descriptor(log_open_now, &descriptor);
  if (code == HELIOSTAT_OK) code = heliostat_log_append(log_open_now, text, strlen(text), &at);
  while (code == HELIOSTAT_OK && heliostat_log_wait(log_open_now, at, 0) == HELIOSTAT_TIMED_OUT) {
    struct pollfd entry = {.fd = descriptor, .events = POLLIN};
    if (poll(&entry, 1, PATIENCE_MS) != 1) code = HELIOSTAT_TIMED_OUT;
    else code = heliostat_log_drain(log_open_now);
  }
  say_position(code, at);
}

static void append_long(const char *bytes) {
  size_t count = (size_t)strtoul(bytes, NULL, 10);
  char *payload = malloc(count);
  heliostat_position at;
  if (payload == NULL) exit(3);
  memset(payload, 'x', count);
  int code = heliostat_log_append_sync(log_open_now, payload, count, &at);
  free(payload);
  say_position(code, at);
}

static void flood(const char *prefix) {
  char text[64];
  int code = HELIOSTAT_OK;
  for (uint64_t number = 0; code == HELIOSTAT_OK; number++) {
    int bytes = snprintf(text, sizeof text, "%s%" PRIu64, prefix, number);
    code = heliostat_log_append_sync(log_open_now, text, (size_t)bytes, NULL);
    if (code == HELIOSTAT_OK) printf("%" PRIu64 "\n", number);
  }
  say(code);
}

static void pop(void) {
  heliostat_queue_item *item = NULL;
  const void *payload;
  size_t bytes;
  heliostat_position at;
  int code = heliostat_queue_pop(queue_open_now, 0, &item, &payload, &bytes, &at);
  if (code == HELIOSTAT_EMPTY) printf("ok none\n");
  else if (code != HELIOSTAT_OK) say(code);
  else printf("ok %" PRIu64 ":%" PRIu64 " %.*s\n", at.at, at.sequence, (int)bytes, (const char *)payload);
  heliostat_queue_item_release(item);
}

// What was taken and is not acknowledged.
struct held {
  heliostat_queue_item *item;
  const void *payload;
  size_t bytes;
  heliostat_position at;
};

// Takes one more; with an empty queue there is no item.
static int take(struct held *held) {
  held->item = NULL;
  int code = heliostat_queue_pop(queue_open_now, 0, &held->item, &held->payload, &held->bytes, &held->at);
  return code == HELIOSTAT_EMPTY ? HELIOSTAT_OK : code;
}

static int finish(struct held *held) {
  if (held->item == NULL) return HELIOSTAT_OK;
  int code = heliostat_queue_acknowledge_sync(queue_open_now, held->at);
  if (code == HELIOSTAT_OK) printf("done %.*s\n", (int)held->bytes, (const char *)held->payload);
  heliostat_queue_item_release(held->item);
  held->item = NULL;
  return code;
}

static void churn(const char *prefix) {
  struct held held = {NULL, NULL, 0, {0, 0}}, taken, next;
  char text[64];
  int code = HELIOSTAT_OK;
  for (uint64_t number = 0; code == HELIOSTAT_OK; number++) {
    int bytes = snprintf(text, sizeof text, "%s%" PRIu64, prefix, number);
    code = heliostat_queue_push_sync(queue_open_now, text, (size_t)bytes, NULL);
    if (code != HELIOSTAT_OK) break;
    printf("pushed %s\n", text);
    code = take(held.item == NULL ? &held : &taken);
    if (number % 2 == 0 || code != HELIOSTAT_OK) continue;
    if ((code = take(&next)) != HELIOSTAT_OK) break;
    if ((code = finish(&taken)) != HELIOSTAT_OK) break;
    if ((code = finish(&next)) != HELIOSTAT_OK) break;
    code = finish(&held);
  }
  say(code);
}

static void close_all(void) {
  int code = heliostat_queue_close(queue_open_now);
  if (code == HELIOSTAT_OK) code = heliostat_log_close(log_open_now);
  queue_open_now = NULL;
  log_open_now = NULL;
  say(code);
}

static void perform_on_queue(const char *command, const char *word) {
  heliostat_position at = {0, 0};
  if (strcmp(command, "push") == 0) {
    int code = heliostat_queue_push_sync(queue_open_now, word, strlen(word), &at);
    say_position(code, at);
  } else if (strcmp(command, "push_then") == 0) append_then(word);
  else if (strcmp(command, "wait") == 0) say(heliostat_queue_wait(queue_open_now, position_of(word), PATIENCE_MS));
  else if (strcmp(command, "churn") == 0) churn(word);
  else if (strcmp(command, "pop") == 0) pop();
  else if (strcmp(command, "acknowledge") == 0) say(heliostat_queue_acknowledge(queue_open_now, position_of(word)));
  else if (strcmp(command, "acknowledge_sync") == 0) say(heliostat_queue_acknowledge_sync(queue_open_now, position_of(word)));
  else if (strcmp(command, "give_back") == 0) say(heliostat_queue_give_back(queue_open_now, position_of(word)));
  else printf("error command\n");
}

static void perform_on_log(const char *command, const char *word) {
  heliostat_position at = {0, 0}, end = {0, 0};
  heliostat_log_reader *reader = NULL;
  int code;
  if (strcmp(command, "append") == 0) {
    code = heliostat_log_append(log_open_now, word, strlen(word), &at);
    say_position(code, at);
  } else if (strcmp(command, "append_sync") == 0) {
    code = heliostat_log_append_sync(log_open_now, word, strlen(word), &at);
    say_position(code, at);
  } else if (strcmp(command, "append_long") == 0) append_long(word);
  else if (strcmp(command, "append_then") == 0) append_then(word);
  else if (strcmp(command, "append_heard") == 0) append_heard(word);
  else if (strcmp(command, "wait") == 0) say(heliostat_log_wait(log_open_now, position_of(word), PATIENCE_MS));
  else if (strcmp(command, "sync") == 0) say(heliostat_log_sync(log_open_now));
  else if (strcmp(command, "checkpoint") == 0) say(heliostat_log_checkpoint(log_open_now));
  else if (strcmp(command, "trim") == 0) say(heliostat_log_trim(log_open_now, position_of(word)));
  else if (strcmp(command, "flood") == 0) flood(word);
  else if (strcmp(command, "range") == 0) {
    code = heliostat_log_range(log_open_now, &at, &end);
    if (code != HELIOSTAT_OK) say(code);
    else printf("ok %" PRIu64 ":%" PRIu64 " %" PRIu64 ":%" PRIu64 "\n", at.at, at.sequence, end.at, end.sequence);
  } else if (strcmp(command, "read") == 0) {
    at = position_of(word);
    code = heliostat_log_read(log_open_now, *word == '\0' ? NULL : &at, &reader);
    say_entries(code, reader, 0);
  } else printf("error command\n");
}

int main(void) {
  char line[LINE_BYTES];
  setvbuf(stdout, NULL, _IOLBF, 0);
  while (fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    const char *command = strtok(line, " ");
    const char *place = strtok(NULL, " ");
    const char *bytes = strtok(NULL, " ");
    const char *word = place == NULL ? "" : place;
    if (command == NULL) continue;
    uint64_t size = bytes == NULL ? 0 : strtoull(bytes, NULL, 10);
    heliostat_log_reader *reader = NULL;
    if (strcmp(command, "create") == 0) say(heliostat_log_create(word, size, &log_open_now));
    else if (strcmp(command, "open") == 0) say(heliostat_log_open(word, &log_open_now));
    else if (strcmp(command, "create_queue") == 0) say(heliostat_queue_create(word, size, &queue_open_now));
    else if (strcmp(command, "open_queue") == 0) say(heliostat_queue_open(word, &queue_open_now));
    else if (strcmp(command, "close") == 0) close_all();
    else if (strcmp(command, "beside") == 0) {
      int code = heliostat_log_read_beside(word, &reader);
      say_entries(code, reader, 1);
    } else if (queue_open_now != NULL) perform_on_queue(command, word);
    else perform_on_log(command, word);
  }
  return 0;
}
