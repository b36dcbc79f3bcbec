/* The same operations by the kernel and by the lean interface: results, or minus an errno. */
#ifndef WAYS_H
#define WAYS_H

#include <stdint.h>

enum { NAMES_MAX = 64, BUFFER_BYTES = 1 << 16 };

/* What does not differ from run to run of a file's facts. */
struct seen {
    uint64_t size;
    uint32_t mode;
};

struct way {
    const char *name;
    /* flags are the header's; a number for the file is the result. */
    int64_t (*open)(const char *name, uint32_t flags, uint32_t mode);
    int64_t (*close)(int64_t file);
    int64_t (*read)(int64_t file, uint64_t offset, void *into, uint64_t bytes);
    /* Open, read and close in one. */
    int64_t (*fetch)(const char *name, uint64_t offset, void *into, uint64_t bytes);
    int64_t (*write)(int64_t file, uint64_t offset, const void *from, uint64_t bytes);
    int64_t (*append)(int64_t file, const void *from, uint64_t bytes);
    int64_t (*fsync)(int64_t file);
    int64_t (*truncate)(int64_t file, uint64_t length);
    int64_t (*stat)(int64_t file, struct seen *seen);
    int64_t (*mkdir)(const char *name, uint32_t mode);
    int64_t (*rmdir)(const char *name);
    int64_t (*unlink)(const char *name);
    int64_t (*rename)(const char *from, const char *to, uint32_t flags);
    /* Names of a folder, one a line, in any order: bytes. */
    int64_t (*list)(const char *name, char *into, uint64_t bytes);
    /* Sockets: a port of 127.0.0.1; 0 for any, which is put there. */
    int64_t (*listen)(uint16_t *port);
    int64_t (*connect)(uint16_t port);
    int64_t (*accept)(int64_t listener, uint32_t timeout_us);
    int64_t (*send)(int64_t socket, const void *from, uint64_t bytes);
    int64_t (*receive)(int64_t socket, void *into, uint64_t bytes, uint32_t timeout_us);
    /* What is ready of wanted: 1 in, 2 out, 4 ended. */
    int64_t (*poll)(int64_t socket, uint32_t wanted, uint32_t timeout_us);
    int64_t (*shutdown)(int64_t socket, uint32_t how);
    int64_t (*close_socket)(int64_t socket);
};

extern const struct way kernel_way, lean_way;
/* Attaches the lean way; whether a warp asks, or a block, or one thread. */
int lean_begin(int by_warps, int by_blocks);
/* Runs a body by one thread, or by all lanes of a warp alike; whether this lane prints. */
void lean_run(void (*body)(void));
int lean_prints(void);
/* What is only the warps': each lane's own operations. Prints lines that every way prints alike. */
void each_lane(const struct way *way, const char *folder);
/* The same of blocks. */
void each_block(const struct way *way, const char *folder);

/* Numbers for objects of the lean way. */
void cases(const struct way *way, const char *folder, uint64_t seed);
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
