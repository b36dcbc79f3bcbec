/* Operations on open files. */
#ifndef OPEN_FILES_H
#define OPEN_FILES_H

#include "act.h"

#include <sys/stat.h>

/* Opens a path into a slot of this process that is drawn. */
int open_one(struct process *process, const struct path *path, int dir, const char *text);
/* Reads, writes, maps, shortens, asks or closes an open file that is drawn. */
int use_one(struct process *process);

/* In act.c: compares errno and model, and status and model; 0 and a line when they differ. */
int agrees(struct process *process, const char *what, const char *text, int expected, int error);
int status_agrees(struct process *process, const char *what, int node, const struct stat *status);

#endif
