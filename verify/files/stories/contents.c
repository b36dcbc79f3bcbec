/* What is read: odd arguments, writers, names that change, buffers that are not there. */
#include "story.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>

static void odd_arguments(void)
{
    int fd = warmed(path);
    struct iovec none[3] = {{NULL, 0}, {room, 5}, {NULL, 0}};
    struct iovec negative[2] = {{room, 5}, {room, (size_t)-1}};
    say("no bytes", read(fd, NULL, 0));
    say("too many", read(fd, room, (size_t)-1));
    say("nowhere", read(fd, (void *)8, 10));
    say("empty pieces", readv(fd, none, 3));
    say("negative piece", readv(fd, negative, 2));
    say("no pieces", readv(fd, none, 0));
    say("negative count", readv(fd, none, -1));
    say("too many pieces", readv(fd, none, 5000));
    say("pieces nowhere", preadv(fd, (void *)8, 2, 0));
    say("not waiting", preadv2(fd, none, 3, 10, RWF_NOWAIT));
    say("as if read", preadv2(fd, none, 3, -1, 0));
    say("unknown flag", preadv2(fd, none, 3, 0, 1 << 30));
    say("at", lseek(fd, 0, SEEK_CUR));
    say("odd whence", lseek(fd, 0, 77));
    say("write", write(fd, room, 1));
    say("cut", ftruncate(fd, 0));
    say("appending", fcntl(fd, F_SETFL, O_APPEND));
    say("flags", fcntl(fd, F_GETFL) & (O_APPEND | O_NONBLOCK));
    say_reads("then", fd, 10);
}

/* Who has all memory locked that is mapped from now on does not mean the files it reads. */
static void all_memory_locked(void)
{
    say("lock", mlockall(MCL_FUTURE));
    int fd = warmed(path);
    say_reads("then", fd, 10);
    char line[4200];
    int is_mapped = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        is_mapped |= strstr(line, path) != NULL;
    fclose(maps);
    say("mapped, and so locked", is_mapped);
    say("unlock", munlockall());
    warm(fd);
    say_reads("unlocked", fd, 10);
}

static void writers_of_the_same_process(void)
{
    int fd = warmed(path), writer = opened(path, O_RDWR);
    say("pwrite", pwrite(writer, "NEW", 3, 0));
    say_reads("after pwrite", fd, 8);
    char *memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, writer, 0);
    close(writer);
    warm(fd);
    memcpy(memory + 8, "MAPPED", 6);
    say_reads("after a store", fd, 8);
    munmap(memory, LENGTH);
    warm(fd);
    writer = opened(path, O_WRONLY | O_APPEND);
    say("append", write(writer, "END", 3));
    close(writer);
    lseek(fd, LENGTH - 2, SEEK_SET);
    say_reads("after append", fd, 100);
    warm(fd);
    say("truncate", truncate(path, 5000));
    lseek(fd, 4990, SEEK_SET);
    say_reads("after truncate", fd, 100);
    warm(fd);
    writer = opened(path, O_RDWR);
    say("hole", fallocate(writer, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
    close(writer);
    lseek(fd, 4090, SEEK_SET);
    say_reads("after a hole", fd, 100);
    say("zeros", pread(fd, room, 4096, 0) == 4096 && !memchr(room, 'a', 4096));
}

static void names_come_and_go(void)
{
    int fd = warmed(path);
    char link_name[4096];
    snprintf(link_name, sizeof link_name, "%s.link", path);
    say("link", link(path, link_name));
    say("rename", rename(other, path));
    say_reads("the old file", fd, 10);
    int fresh = warmed(path);
    say_reads("the new file", fresh, 10);
    say("unlink", unlink(link_name));
    warm(fd);
    say_reads("the unlinked file", fd, 10);
    struct stat status;
    say("stat", fstat(fd, &status));
    say("links", status.st_nlink);
}

static volatile sig_atomic_t faults;

static void count_fault(int number)
{
    (void)number;
    faults++;
}

static void buffers_that_are_not_there(void)
{
    signal(SIGSEGV, count_fault);
    int fd = warmed(path);
    char *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(memory + 4096, 4096, PROT_READ);
    say("half", read(fd, memory + 4000, 200));
    say("at", lseek(fd, 0, SEEK_CUR));
    say("none", read(fd, memory + 4096, 200));
    say("at", lseek(fd, 0, SEEK_CUR));
    struct iovec parts[2] = {{memory, 50}, {memory + 4096, 50}};
    say("second piece", readv(fd, parts, 2));
    say("at", lseek(fd, 0, SEEK_CUR));
    say("faults", faults);
    signal(SIGSEGV, SIG_DFL);
    struct sigaction action;
    sigaction(SIGSEGV, NULL, &action);
    say("default", action.sa_handler == SIG_DFL);
}

static void buffered_streams(void)
{
    FILE *stream = fopen(path, "r");
    for (int turn = 0; turn < 3000; turn++) {
        fseek(stream, turn * 7 % 30000, SEEK_SET);
        if (fgetc(stream) == EOF)
            perror("fgetc");
    }
    say("at", ftell(stream));
    say("seek", fseek(stream, -5, SEEK_END));
    say("bytes", fread(room, 1, 100, stream));
    say("end", feof(stream) != 0);
    say("back", ungetc('x', stream));
    say("at", ftell(stream));
    say("close", fclose(stream));
}

static void sets_a_fault_handler(int number)
{
    struct sigaction fallback = {.sa_handler = SIG_DFL};
    (void)number;
    sigaction(SIGSEGV, &fallback, NULL);
}

/* sigaction(2) may be called in a handler, whatever the handler has interrupted. */
static void handlers_that_set_handlers(void)
{
    int fd = warmed(path), count = 0;
    struct sigaction action = {.sa_handler = sets_a_fault_handler, .sa_flags = SA_RESTART};
    struct sigaction fallback = {.sa_handler = SIG_DFL};
    struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int round = 0; round < 300000; round++)
        count += sigaction(SIGBUS, &fallback, NULL) == 0;
    setitimer(ITIMER_REAL, &never, NULL);
    say("set", count);
    say_reads("then", fd, 10);
}

/* The room below a stack that grows is left free for it. */
static void stacks_that_grow(void)
{
    enum { WHOLE = 16 << 20, USED = 4 << 20, PAGE = 4096 };
    int access = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *begin = mmap(NULL, WHOLE, PROT_NONE, flags, -1, 0);
    munmap(begin, WHOLE);
    volatile char *top = mmap(begin + WHOLE - PAGE, PAGE, access, flags | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
    char *hole;
    while ((hole = mmap(NULL, LENGTH, PROT_NONE, flags, -1, 0)) > top)
        ;
    munmap(hole, LENGTH);
    int fd = warmed(path), another = warmed(other);
    for (long down = 0; down < USED; down += PAGE)
        top[-down] = 1;
    say_reads("grown", fd, 10);
    say("onto it", pread(another, (char *)top - USED - PAGE, 100, 0));
    printf("%.8s\n", (char *)top - USED - PAGE);
}

const struct story content_stories[] = {
    STORY(odd_arguments),
    STORY(all_memory_locked),
    STORY(writers_of_the_same_process),
    STORY(names_come_and_go),
    STORY(buffers_that_are_not_there),
    STORY(buffered_streams),
    STORY(handlers_that_set_handlers),
    STORY(stacks_that_grow),
    {NULL, NULL},
};
