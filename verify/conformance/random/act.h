/* Operations: drawn, made, and compared with what the model says. */
#ifndef ACT_H
#define ACT_H

#include "model.h"

enum { PROCESSES_MAX = 8, SLOTS = 6 };

/* An open file of one process. */
struct slot {
    int16_t node; /* NONE: closed */
    uint8_t reads, writes, appends;
    uint32_t offset;
};

/* What all processes share. */
struct shared {
    uint64_t chance, log, done, wanted;
    int failed;
    struct slot slots[PROCESSES_MAX][SLOTS];
    struct model model;
};

/* This process: its number, its real descriptors and its view of what is shared. */
struct process {
    struct shared *shared;
    int number, top, fds[SLOTS];
    char tree[1024];
};

/* A number below `below`, the next of the seed's. */
uint32_t drawn(struct shared *shared, uint32_t below);
/* Draws one operation and makes it; 0 when the answer was another than the model's, and said why. */
int act(struct process *process);

#endif
