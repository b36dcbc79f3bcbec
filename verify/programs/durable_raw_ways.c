/* Ways out after an fdatasync(2) that Python has no word for: durable_raw_ways WAY FILE FOLDER.
 *
 * A child that was forked before watches for what its parent does, and notes in FOLDER/seen when it saw
 * that. The parent writes into FILE and flushes it, notes at FILE's end when that returned and how long it
 * took, and then acts. With WAY "list" it prints the names of all ways. */
#include "durable_raw_acts.h"

/* Order: what is written while a flush is under way, and rests on it. The parent itself notes when it went on. */
static int noting;
static void note(double at) {
    char line[64];
    int length = snprintf(line, sizeof line, "%.9f\n", at);
    if (write(noting, line, length) != length) _exit(4);
}
static void act_overwrite(void) {
    check(pwrite(log_file, "!", 1, 0), "pwrite");
    note(now());
}
static void act_overwrite_here(void) {
    check(write(log_file, "!", 1), "write");
    note(now());
}
static void act_second(void) {
    check(write(second_log, "!", 1), "write");
    note(now());
}

/* Things after which a flush is waited for: the act is done before the flush. */
static void ready_vmsplice(void) {
    int more[2];
    check(pipe(more), "pipe");
    page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page[0] = '?';
    struct iovec it = {page, 1};
    check(vmsplice(more[1], &it, 1, 0), "vmsplice");
}
static void ready_zero_copy(void) {
    int one = 1, it = check(socket(AF_INET, SOCK_STREAM, 0), "socket");
    check(setsockopt(it, SOL_SOCKET, 60, &one, 4), "SO_ZEROCOPY");
}
static void ready_fault(void) { check(syscall(SYS_userfaultfd, O_CLOEXEC | 1), "userfaultfd"); }
static void ready_code(void) {
    page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
static void ready_code_later(void) {
    page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(mprotect(page, 4096, PROT_READ | PROT_EXEC), "mprotect");
}
static void ready_ring(void) {
    struct io_uring_params is;
    memset(&is, 0, sizeof is);
    check(syscall(SYS_io_uring_setup, 1, &is), "io_uring");
}
static void ready_aio(void) {
    unsigned long it = 0;
    check(syscall(SYS_io_setup, 1, &it), "io_setup");
}
static void ready_shared(void) { page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); }
static void ready_memfd(void) {
    int it = check(memfd_create("m", 0), "memfd");
    check(ftruncate(it, 4096), "ftruncate");
    page = mmap(0, 4096, PROT_READ, MAP_SHARED, it, 0);
}
static void ready_device(void) {
    int it = check(open("/dev/zero", O_RDONLY), "zero");
    page = mmap(0, 4096, PROT_READ, MAP_PRIVATE, it, 0);
}

struct way {
    const char *name;
    void (*make)(void), (*ready)(void), (*watch)(void), (*act)(void);
};
static const struct way ways[] = {
    {"seen_raw_write", 0, 0, watch_pipe, act_raw_write},
    {"seen_write_by_number", 0, 0, watch_pipe, act_number_only},
    {"seen_tee", 0, 0, watch_pipe, act_tee},
    {"seen_closed", 0, 0, watch_pair, act_closed},
    {"seen_closed_by_dup", 0, 0, watch_pair, act_closed_by_dup},
    {"seen_closed_by_range", 0, 0, watch_pair, act_closed_by_range},
    {"seen_end_of_thread", 0, 0, watch_pair, act_exit_of_thread},
    {"seen_end_by_number", 0, 0, watch_pair, act_exit_by_libc},
    {"seen_event", make_event, 0, watch_made, act_event},
    {"seen_timer", make_timer, 0, watch_made, act_timer},
    {"seen_set", make_set, 0, watch_set, act_set},
    {"seen_messages", make_messages, 0, watch_messages, act_messages},
    {"seen_semaphore", make_semaphore, 0, watch_semaphore, act_semaphore},
    {"seen_mqueue", make_mqueue, 0, watch_mqueue, act_mqueue},
    {"seen_signal_queued", make_signal, 0, watch_signal, act_queued},
    {"seen_signal_by_pidfd", make_signal, 0, watch_signal, act_pidfd},
    {"seen_memory_written", 0, 0, watch_word, act_memory},
    {"seen_limit", 0, 0, watch_limit, act_limit},
    {"seen_priority", 0, 0, watch_priority, act_priority},
    {"seen_end_by_mask", make_pending, ready_pending, watch_pair, act_pending},
    {"seen_handler", 0, ready_handler, watch_pipe, act_handler},
    {"seen_handler_once", 0, ready_handler_once, watch_pipe, act_handler},
    {"seen_handler_nested", 0, ready_handler_nested, watch_pipe, act_handler},
    {"seen_offset", make_other, 0, watch_offset, act_offset},
    {"seen_record_lock", make_other, ready_record, watch_record, act_record},
    {"seen_unmapped", make_other, ready_mapped, watch_mapped, act_unmapped},
    {"seen_mapped_over", make_other, ready_mapped, watch_mapped, act_mapped_over},
    {"seen_remapped", make_other, ready_mapped, watch_mapped, act_remapped},
    {"seen_read_at", make_watched, 0, watch_made, act_read_at},
    {"seen_read", make_watched, 0, watch_made, act_read},
    {"seen_taken", 0, ready_taken, watch_taken, act_taken},
    {"seen_times", make_watched, 0, watch_made, act_times},
    {"seen_listed", make_watched, 0, watch_made, act_listed},
    {"order_overwrite", 0, 0, 0, act_overwrite},
    {"order_overwrite_here", 0, 0, 0, act_overwrite_here},
    {"order_second", 0, 0, 0, act_second},
    {"waits_vmsplice", 0, ready_vmsplice, 0, 0},
    {"waits_zero_copy", 0, ready_zero_copy, 0, 0},
    {"waits_fault", 0, ready_fault, 0, 0},
    {"waits_code", 0, ready_code, 0, 0},
    {"waits_code_later", 0, ready_code_later, 0, 0},
    {"waits_ring", 0, ready_ring, 0, 0},
    {"waits_aio", 0, ready_aio, 0, 0},
    {"waits_shared", 0, ready_shared, 0, 0},
    {"waits_memfd", 0, ready_memfd, 0, 0},
    {"waits_device", 0, ready_device, 0, 0},
};

static void watch(const struct way *way) {
    close(ends[1]);
    close(pair[0]);
    if (way->watch) {
        way->watch();
        note(now());
    }
    _exit(0);
}

/* Behind all that the file holds: such a write does not wait. */
static void tell(double ended, double began) {
    char line[64];
    int length = snprintf(line, sizeof line, "%.9f %.9f\n", ended, ended - began);
    check(pwrite(log_file, line, length, FILLER), "told");
}

static void act(const struct way *way, const char *name) {
    char filler[FILLER];
    memset(filler, 'x', FILLER - 1);
    filler[FILLER - 1] = '\n';
    second_log = check(open(path("second.durable"), O_RDWR | O_CREAT, 0600), "second");
    log_file = check(open(name, O_RDWR | O_CREAT, 0600), "log");
    check(write(log_file, filler, FILLER), "write");
    if (way->act == act_overwrite_here) lseek(log_file, 0, SEEK_SET);
    if (way->act == act_second) {
        check(write(second_log, "?", 1), "write");
        check(fdatasync(second_log), "fdatasync");
    }
    if (way->act == act_handler) alarm_soon();
    double began = now();
    check(fdatasync(log_file), "fdatasync");
    double ended = now();
    if (strncmp(way->name, "order", 5)) tell(ended, began);
    if (way->act) way->act();
    if (!strncmp(way->name, "order", 5)) tell(ended, began);
}

int main(int count, char **words) {
    if (count == 2) {
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
            puts(ways[i].name);
        return 0;
    }
    const struct way *way = ways;
    while (strcmp(way->name, words[1]))
        way++;
    folder = words[3];
    noting = check(open(path("seen"), O_WRONLY | O_CREAT | O_APPEND, 0600), "seen");
    check(pipe(ends), "pipe");
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "pair");
    if (way->make) way->make();
    if (way->watch && (child = fork()) == 0) watch(way);
    close(pair[1]);
    if (way->ready) way->ready();
    usleep(100000);
    act(way, words[2]);
    if (child) waitpid(child, 0, 0);
    /* Somebody asks for an explanation first. */
    char byte;
    if (!strncmp(way->name, "waits", 5)) (void)!read(0, &byte, 1);
    return 0;
}
