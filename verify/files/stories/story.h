/* What the stories share: how they read, and how they say what came of it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { LENGTH = 40000 };

/* Two files of LENGTH bytes that nobody else uses, and room for what is read. */
extern const char *path, *other;
extern char room[LENGTH + 1];

struct story {
    const char *name;
    void (*tell)(void);
};
#define STORY(name) {#name, name}

/* Each ends with a story without a name. */
extern const struct story lock_stories[], descriptor_stories[], offset_stories[], content_stories[];

/* Says what a call answered, with its error where it failed. */
long say(const char *what, long result);
/* Ends the program where that fails. */
int opened(const char *name, int flags);
/* Reads until a mapping is worth it, and longer; the offset stays where it was. */
void warm(int fd);
/* Opened for reading, and warm. */
int warmed(const char *name);
void say_reads(const char *what, int fd, size_t bytes);
void wait_for(pid_t child);
