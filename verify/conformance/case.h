/* Cases: one call each; its own text is its name, its answer one line.
 *
 * A family is a C file with a table of parts. A part runs in a process and a folder of its own,
 * in which `fixture` has made what the drawing in case.c shows. Nothing that a part prints may
 * differ from run to run: no addresses, times, inode or process numbers.
 */
#ifndef CASE_H
#define CASE_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

struct part {
    const char *name;
    void (*run)(void);
};

/* Prints the call's text, its result and its errno; its value is the result. */
#define CALL(...) (errno = 0, told(#__VA_ARGS__, (long)(__VA_ARGS__)))
/* The same for a call whose success is a pointer: 0 or -1. */
#define CALL_P(...) (errno = 0, told_pointer(#__VA_ARGS__, (const void *)(__VA_ARGS__)))
/* Prints something else that is worth comparing. */
#define SHOW(what, ...) shown(what, __VA_ARGS__)
/* What has to succeed for the following cases to mean something. */
#define DO(...) needed(#__VA_ARGS__, (long)(__VA_ARGS__))

long told(const char *text, long result);
long told_pointer(const char *text, const void *result);
void shown(const char *what, const char *format, ...) __attribute__((format(printf, 2, 3)));
long needed(const char *text, long result);

/* Makes the usual files in the current folder. */
void fixture(void);
/* Replaces a file's content. */
void put(const char *path, const char *content);
/* Prints a file's size and content (its first bytes). */
void show_file(const char *path);
/* Prints what does not change from run to run of a file's status. */
void show_status(const char *what, const struct stat *status);
/* Prints the sorted names of a folder. */
void show_names(const char *path);
/* Runs `body` in a child and prints how it ended. */
void in_child(const char *what, void (*body)(void));
/* The address of a page that nothing may touch. */
void *nowhere(void);
/* The name of an errno, "-" for none. */
const char *error_name(int error);
/* The absolute path of this program. */
extern char program[];
/* The folder of the part that runs, absolute. */
extern char here[];

#endif
