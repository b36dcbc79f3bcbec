/* Files by delegated operations of the C library, one step a word: what each came to, a line each.
 *
 * read NAME, write NAME TEXT, make NAME TEXT, append NAME TEXT, list NAME, mkdir NAME, unlink NAME,
 * rename OLD NEW, new OLD NEW (replacing nothing), link TARGET NAME, follow NAME, alone NAME (a lock),
 * raw NAME (unlinked by an operation of the ring itself), fork NAME (read by a child that is this program anew),
 * ways NAME (by which way 256 KiB come, as they are asked for). */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heliostat.h"

enum { PLACE = 64 * 1024, LARGE = 256 * 1024, PATIENCE_MS = 20000 };
static const heliostat_piece SCRATCH = {.offset = 0, .bytes = 16384};
static heliostat_delegated *session;
static uint8_t *window;

static int said(const char *what, int code) {
  printf("%s: %s\n", what, code == HELIOSTAT_OK ? "done" : heliostat_last_message());
  return code == HELIOSTAT_OK;
}

static heliostat_completion completed(heliostat_operation operation) {
  size_t submitted = 0;
  heliostat_completion completion = {.result = -1};
  if (heliostat_delegated_submit(session, &operation, 1, &submitted) == HELIOSTAT_OK)
    heliostat_delegated_wait(session, PATIENCE_MS, &completion);
  return completion;
}

static int64_t done(heliostat_operation operation) { return completed(operation).result; }

static int64_t with_piece(int kind, heliostat_file file, uint32_t bytes) {
  heliostat_piece piece = {.offset = PLACE, .bytes = bytes};
  return done((heliostat_operation){.kind = kind, .file = file, .pieces = &piece, .pieces_count = 1});
}

static void file_step(const char *verb, const char *name, const char *text) {
  int reads = !strcmp(verb, "read"), makes = !strcmp(verb, "make"), appends = !strcmp(verb, "append");
  uint32_t access = reads ? HELIOSTAT_READ : HELIOSTAT_WRITE;
  if (makes) access |= HELIOSTAT_CREATE | HELIOSTAT_EXCLUSIVE | 0640 * HELIOSTAT_MODE;
  heliostat_file file;
  int code = heliostat_delegated_open(session, name, access, SCRATCH, &file);
  if (code != HELIOSTAT_OK) {
    said(verb, code);
    return;
  }
  if (!reads) memcpy(window + PLACE, text, strlen(text));
  int kind = reads ? HELIOSTAT_KIND_READ : appends ? HELIOSTAT_KIND_APPEND : HELIOSTAT_KIND_WRITE;
  int64_t count = with_piece(kind, file, reads ? 4096 : (uint32_t)strlen(text));
  printf("%s: %lld", verb, (long long)count);
  if (reads && count > 0) printf(" %.*s", (int)count, (const char *)window + PLACE);
  puts("");
  done((heliostat_operation){.kind = HELIOSTAT_KIND_CLOSE, .file = file});
}

static void list(const char *name) {
  heliostat_file folder;
  if (!said("list", heliostat_delegated_open(session, name, HELIOSTAT_READ | HELIOSTAT_DIRECTORY, SCRATCH, &folder))) return;
  int64_t bytes = with_piece(HELIOSTAT_KIND_READDIR, folder, PLACE);
  heliostat_entry entry;
  for (size_t at = 0; bytes > 0 && heliostat_entry_next(window + PLACE, (size_t)bytes, &at, &entry) == HELIOSTAT_OK;)
    printf("  %.*s\n", (int)entry.name_bytes, (const char *)entry.name);
}

static void follow(const char *name) {
  size_t bytes = 0;
  int code = heliostat_delegated_readlink(session, name, SCRATCH, &bytes);
  if (said("follow", code)) printf("  %.*s\n", (int)bytes, (const char *)window);
}

static void alone(const char *name) {
  heliostat_file file;
  if (said("alone", heliostat_delegated_open(session, name, HELIOSTAT_READ, SCRATCH, &file)))
    said("  locked", heliostat_delegated_lock(session, file, HELIOSTAT_LOCK_ALONE, 0));
}

static void raw(const char *name) {
  memcpy(window + PLACE, name, strlen(name));
  printf("raw: %lld\n", (long long)with_piece(HELIOSTAT_KIND_UNLINK, (heliostat_file){0}, (uint32_t)strlen(name)));
}

/* The way that a read of a file takes which was opened or shown with an access. */
static void way_of(const char *how, int code, heliostat_file file) {
  if (code != HELIOSTAT_OK) {
    said(how, code);
    return;
  }
  heliostat_piece piece = {.offset = PLACE, .bytes = LARGE};
  heliostat_operation read = {.kind = HELIOSTAT_KIND_READ, .file = file, .pieces = &piece, .pieces_count = 1};
  heliostat_completion completion = completed(read);
  printf("%s: %lld by way %u\n", how, (long long)completion.result, completion.way);
}

static void ways(const char *name) {
  int descriptor = open(name, O_RDONLY);
  heliostat_file file = {0};
  way_of("any", heliostat_delegated_show(session, descriptor, 0, &file), file);
  way_of("direct", heliostat_delegated_show(session, descriptor, HELIOSTAT_DIRECT, &file), file);
  way_of("buffered", heliostat_delegated_show(session, descriptor, HELIOSTAT_BUFFERED, &file), file);
  way_of("named", heliostat_delegated_open(session, name, HELIOSTAT_READ | HELIOSTAT_BUFFERED, SCRATCH, &file), file);
  way_of("both", heliostat_delegated_show(session, descriptor, HELIOSTAT_DIRECT | HELIOSTAT_BUFFERED, &file), file);
  way_of("other", heliostat_delegated_show(session, descriptor, HELIOSTAT_READ, &file), file);
  close(descriptor);
}

static int begin(void) {
  int code = heliostat_delegated_start(PLACE + LARGE, &session);
  if (code != HELIOSTAT_OK || heliostat_delegated_window(session, &window, NULL) != HELIOSTAT_OK) {
    printf("start: %d %s\n", code, heliostat_last_message());
    return 0;
  }
  return 1;
}

/* A child that executes this program again has a session of its own, under the same policy. */
static void in_child(const char *own, const char *name) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    execl(own, own, "read", name, (char *)NULL);
    _exit(127);
  }
  waitpid(child, NULL, 0);
}

int main(int count, char **words) {
  if (!begin()) return 1;
  for (int at = 1; at + 1 < count; at += 2) {
    const char *verb = words[at], *name = words[at + 1], *more = at + 2 < count ? words[at + 2] : "";
    int takes_two = 1;
    if (!strcmp(verb, "rename") || !strcmp(verb, "new"))
      said(verb, heliostat_delegated_rename(session, name, more, *verb == 'n' ? HELIOSTAT_NOREPLACE : 0, SCRATCH));
    else if (!strcmp(verb, "link"))
      said(verb, heliostat_delegated_symlink(session, name, more, SCRATCH));
    else if (!strcmp(verb, "write") || !strcmp(verb, "make") || !strcmp(verb, "append"))
      file_step(verb, name, more);
    else
      takes_two = 0;
    at += takes_two;
    if (!strcmp(verb, "read")) file_step(verb, name, "");
    if (!strcmp(verb, "list")) list(name);
    if (!strcmp(verb, "mkdir")) said(verb, heliostat_delegated_mkdir(session, name, 0750, SCRATCH));
    if (!strcmp(verb, "unlink")) said(verb, heliostat_delegated_unlink(session, name, SCRATCH));
    if (!strcmp(verb, "follow")) follow(name);
    if (!strcmp(verb, "alone")) alone(name);
    if (!strcmp(verb, "raw")) raw(name);
    if (!strcmp(verb, "fork")) in_child(words[0], name);
    if (!strcmp(verb, "ways")) ways(name);
  }
  heliostat_delegated_end(session);
  return 0;
}
