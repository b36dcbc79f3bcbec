/* Holds kernel memory of one kind: says how many bytes that is at least, and waits for its input to
 * end. Each kind fills as much as it is told; what a limit stops ends with status 3.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

enum { PART = 4096 };
static char part[PART];

static long checked(long result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", what, strerror(errno));
        exit(3);
    }
    return result;
}

/* Messages that wait at the other end, written or sent as messages. */
static long fill_sockets(long wanted, int kind, int sends) {
    struct iovec one = {part, PART};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1};
    long had = 0;
    while (had < wanted) {
        int pair[2];
        checked(socketpair(AF_UNIX, kind | SOCK_NONBLOCK, 0, pair), "socketpair");
        for (;;) {
            long sent = sends ? sendmsg(pair[0], &message, 0) : write(pair[0], part, PART);
            if (sent < 0 && errno == EAGAIN)
                break;
            had += checked(sent, "send");
        }
    }
    return had;
}

static long streams(long wanted) { return fill_sockets(wanted, SOCK_STREAM, 0); }
static long messages(long wanted) { return fill_sockets(wanted, SOCK_STREAM, 1); }
static long datagrams(long wanted) { return fill_sockets(wanted, SOCK_DGRAM, 1); }

static long tcp(long wanted) {
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof own;
    int listener = (int)checked(socket(AF_INET, SOCK_STREAM, 0), "socket");
    own.sin_port = htons((unsigned short)atoi(getenv("PORT")));
    checked(bind(listener, (struct sockaddr *)&own, size), "bind");
    checked(listen(listener, 64), "listen");
    long had = 0;
    while (had < wanted) {
        int client = (int)checked(socket(AF_INET, SOCK_STREAM, 0), "socket");
        checked(connect(client, (struct sockaddr *)&own, size), "connect");
        checked(accept(listener, NULL, NULL), "accept");
        fcntl(client, F_SETFL, O_NONBLOCK);
        for (long sent; (sent = write(client, part, PART)) > 0;)
            had += sent;
    }
    return had;
}

static long pipes(long wanted) {
    long had = 0;
    while (had < wanted) {
        int ends[2];
        checked(pipe2(ends, O_NONBLOCK), "pipe");
        for (long sent; (sent = write(ends[1], part, PART)) > 0;)
            had += sent;
        if (errno != EAGAIN)
            checked(-1, "write");
    }
    return had;
}

/* struct file of each, wherever it is. */
enum { FILE_BYTES = 160 };

static long descriptors(long wanted) {
    for (long had = 0;; had += FILE_BYTES)
        if (had >= wanted)
            return had;
        else
            checked(open("/dev/null", O_RDONLY), "open");
}

/* Sent and closed: nobody has them in a table. */
static long in_flight(long wanted) {
    enum { EACH = 200 };
    int pair[2], files[EACH];
    char space[CMSG_SPACE(sizeof files)];
    struct iovec one = {part, 1};
    long had = 0;
    for (int turn = 0; had < wanted; turn++) {
        if (turn % 8 == 0)
            checked(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
        for (int i = 0; i < EACH; i++)
            files[i] = (int)checked(eventfd(0, 0), "eventfd");
        struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
        struct cmsghdr *control = CMSG_FIRSTHDR(&message);
        *control = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof files)};
        memcpy(CMSG_DATA(control), files, sizeof files);
        checked(sendmsg(pair[0], &message, 0), "sendmsg");
        for (int i = 0; i < EACH; i++)
            close(files[i]);
        had += EACH * FILE_BYTES;
    }
    return had;
}

static long memory_files(long wanted) {
    int file = (int)checked(memfd_create("held", 0), "memfd_create");
    for (long had = 0;; had += PART)
        if (had >= wanted)
            return had;
        else
            checked(write(file, part, PART), "write");
}

/* A table of a page for each 2 MiB of which one page is read. */
static long page_tables(long wanted) {
    const long step = 2L << 20, count = wanted / 4096;
    volatile char *at = mmap(NULL, (size_t)(count * step), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    checked(at == MAP_FAILED ? -1 : 0, "mmap");
    madvise((void *)at, (size_t)(count * step), MADV_NOHUGEPAGE);
    for (long i = 0; i < count; i++)
        (void)at[i * step];
    return wanted;
}

/* Events that nobody reads, each with a long name. */
static long watched_events(long wanted) {
    char name[256];
    enum { EVENT_BYTES = 200, EVENTS_MAX = 16000 };
    long had = 0;
    while (had < wanted) {
        int watch = (int)checked(inotify_init1(0), "inotify_init1");
        checked(inotify_add_watch(watch, ".", IN_CREATE | IN_DELETE), "inotify_add_watch");
        for (int i = 0; i < EVENTS_MAX / 2 && had < wanted; i++, had += 2 * EVENT_BYTES) {
            snprintf(name, sizeof name, "%0200d", i);
            checked(mkdir(name, 0700), "mkdir");
            checked(rmdir(name), "rmdir");
        }
    }
    return had;
}

/* Each watched descriptor is an entry of more than 128 bytes. */
static long epoll(long wanted) {
    enum { ENTRY_BYTES = 128, FILES = 500 };
    int files[FILES];
    struct epoll_event event = {.events = EPOLLIN};
    for (int i = 0; i < FILES; i++)
        files[i] = (int)checked(eventfd(0, 0), "eventfd");
    for (long had = 0;;) {
        int waiter = (int)checked(epoll_create1(0), "epoll_create1");
        for (int i = 0; i < FILES; i++, had += ENTRY_BYTES)
            checked(epoll_ctl(waiter, EPOLL_CTL_ADD, files[i], &event), "epoll_ctl");
        if (had >= wanted)
            return had;
    }
}

static long timers(long wanted) {
    enum { TIMER_BYTES = 200 };
    struct sigevent quiet = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    for (long had = 0; had < wanted; had += TIMER_BYTES) {
        int number;
        checked(syscall(SYS_timer_create, CLOCK_MONOTONIC, &quiet, &number), "timer_create");
    }
    return wanted;
}

/* Files in memory, each with many locks of one byte: byte by byte, so that none is joined to another. */
static long locks(long wanted) {
    enum { EACH = 500, LOCK_BYTES = 192 };
    for (long had = 0;;) {
        int file = (int)checked(memfd_create("locked", 0), "memfd_create");
        for (int i = 0; i < EACH; i++, had += LOCK_BYTES) {
            struct flock lock = {.l_type = F_WRLCK, .l_start = 2L * (EACH - i), .l_len = 1};
            if (had >= wanted)
                return had;
            checked(fcntl(file, i % 2 ? F_SETLK : F_OFD_SETLK, &lock), "fcntl");
        }
    }
}

/* Locks whose setters have ended: the table of descriptors that owns them lives on. */
static char stack[65536];
static int set_locks(void *file) {
    for (int i = 0; i < 500; i++) {
        struct flock lock = {.l_type = F_WRLCK, .l_start = 2L * (500 - i), .l_len = 1};
        if (fcntl(*(int *)file, F_SETLK, &lock) < 0)
            return 3;
    }
    return 0;
}

static long orphaned_locks(long wanted) {
    for (long had = 0; had < wanted; had += 500L * 192) {
        int file = (int)checked(memfd_create("locked", 0), "memfd_create"), status;
        int child = (int)checked(clone(set_locks, stack + sizeof stack, CLONE_FILES | CLONE_VM | SIGCHLD, &file), "clone");
        checked(waitpid(child, &status, 0), "waitpid");
        errno = ENOLCK;
        checked(status ? -1 : 0, "a child that locks");
    }
    return wanted;
}

/* Pages of a file in memory, every other one with a policy of its own. */
static long policies(long wanted) {
    enum { WINDOW = 40000, POLICY_BYTES = 336 };
    int file = (int)checked(memfd_create("bound", 0), "memfd_create");
    unsigned long nodes = 1;
    for (long had = 0, at = 0;; at += WINDOW * 4096L) {
        checked(ftruncate(file, at + WINDOW * 4096L), "ftruncate");
        char *window = mmap(NULL, WINDOW * 4096L, PROT_READ, MAP_SHARED, file, at);
        checked(window == MAP_FAILED ? -1 : 0, "mmap");
        for (int i = 0; i < WINDOW; i += 2, had += POLICY_BYTES)
            if (had >= wanted)
                return had;
            else
                checked(syscall(SYS_mbind, window + i * 4096L, 4096L, 2L /* MPOL_BIND */, &nodes, 64L, 0L), "mbind");
        munmap(window, WINDOW * 4096L);
    }
}

/* Access lists as long as the kernel takes them, each of a file in memory. */
static long access_lists(long wanted) {
    enum { ENTRIES = 8191, LIST_BYTES = 4 + 8 * ENTRIES };
    struct entry { unsigned short tag, mode; unsigned who; };
    static struct { unsigned version; struct entry all[ENTRIES]; } list;
    list.version = 2;
    for (int i = 0; i < ENTRIES; i++)
        list.all[i] = (struct entry){2 /* ACL_USER */, 6, (unsigned)i};
    list.all[0].tag = 1, list.all[ENTRIES - 3].tag = 4, list.all[ENTRIES - 2].tag = 0x10, list.all[ENTRIES - 1].tag = 0x20;
    for (long had = 0; had < wanted; had += LIST_BYTES) {
        int file = (int)checked(memfd_create("listed", 0), "memfd_create");
        checked(fsetxattr(file, "system.posix_acl_access", &list, LIST_BYTES, 0), "fsetxattr");
    }
    return wanted;
}

/* Extended attributes of a file in memory. */
static long attributes(long wanted) {
    static char value[60000];
    char name[64];
    int file = (int)checked(open("/dev/shm/held", O_RDWR | O_CREAT | O_EXCL, 0600), "open");
    unlink("/dev/shm/held");
    for (long had = 0, i = 0; had < wanted; had += sizeof value, i++) {
        snprintf(name, sizeof name, "user.attribute%ld", i);
        checked(fsetxattr(file, name, value, sizeof value, 0), "fsetxattr");
    }
    return wanted;
}

static long segments(long wanted) {
    int segment = (int)checked(shmget(IPC_PRIVATE, (size_t)wanted, 0600), "shmget");
    char *at = shmat(segment, NULL, 0);
    checked(at == (char *)-1 ? -1 : 0, "shmat");
    memset(at, 1, (size_t)wanted);
    return wanted;
}

static long letters(long wanted) {
    static struct { long kind; char text[2048]; } letter = {.kind = 1};
    for (long had = 0; had < wanted;) {
        int queue = (int)checked(msgget(IPC_PRIVATE, 0600), "msgget");
        for (; msgsnd(queue, &letter, sizeof letter.text, IPC_NOWAIT) == 0; had += sizeof letter.text)
            continue;
    }
    return wanted;
}

static long semaphores(long wanted) {
    enum { EACH = 16000, SEMAPHORE_BYTES = 64 };
    for (long had = 0; had < wanted; had += EACH * SEMAPHORE_BYTES)
        checked(semget(IPC_PRIVATE, EACH, 0600), "semget");
    return wanted;
}

/* Filters of its own, which take effect for one process each. */
static long filters(long wanted) {
    enum { LENGTH = 3000, FILTER_BYTES = 8 * LENGTH };
    static struct sock_filter code[LENGTH];
    struct sock_fprog whole = {LENGTH, code};
    for (int i = 0; i < LENGTH; i++)
        code[i] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0x7fff0000U);
    for (long had = 0; had < wanted; had += FILTER_BYTES * 4)
        if (checked(fork(), "fork") == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (int i = 0; i < 4; i++)
                checked(syscall(SYS_seccomp, 1L, 0L, &whole), "seccomp");
            pause();
        }
    sleep(1);
    return wanted;
}

static const struct kind {
    const char *name;
    long (*hold)(long wanted);
} kinds[] = {
    {"streams", streams},         {"messages", messages},       {"datagrams", datagrams}, {"tcp", tcp},
    {"pipes", pipes},             {"descriptors", descriptors}, {"in_flight", in_flight}, {"memory_files", memory_files},
    {"page_tables", page_tables}, {"events", watched_events},   {"epoll", epoll},         {"timers", timers},
    {"attributes", attributes},   {"segments", segments},       {"letters", letters},     {"semaphores", semaphores},
    {"filters", filters},         {"locks", locks},             {"policies", policies},   {"access_lists", access_lists},
    {"orphaned_locks", orphaned_locks},
};

int main(int count, char **words) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (count > 2 && strcmp(kinds[i].name, words[1]) == 0) {
            printf("begins %d\n", getpid());
            fflush(stdout);
            if (getchar() != '\n')
                return 1;
            printf("holds %ld\n", kinds[i].hold(atol(words[2])));
            fflush(stdout);
            getchar();
            return 0;
        }
    return 1;
}
