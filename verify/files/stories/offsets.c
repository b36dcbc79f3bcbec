/* One offset, shared by threads, children, other programs and calls of the kernel. */
#include "story.h"

#include <pthread.h>
#include <sys/mman.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>

extern char **environ;

static void offset_in_a_child(void)
{
    int fd = warmed(path);
    lseek(fd, 500, SEEK_SET);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        say_reads("child", fd, 100);
        warm(fd);
        say_reads("child", fd, 100);
        _exit(0);
    }
    wait_for(child);
    say_reads("parent", fd, 100);
}

/* The program that is started reads from its standard input. */
static void offset_in_another_program(void)
{
    int fd = warmed(path);
    lseek(fd, LENGTH - 70, SEEK_SET);
    say_reads("before", fd, 10);
    fflush(stdout);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, 0);
    char *words[] = {"head", "-c", "20", NULL};
    pid_t child = -1;
    int answer = posix_spawnp(&child, "head", &actions, NULL, words, environ);
    wait_for(child);
    say("spawn", answer);
    say_reads("after", fd, 100);
    lseek(fd, LENGTH - 30, SEEK_SET);
    fflush(stdout);
    dup2(fd, 0);
    execlp("cat", "cat", NULL);
}

static void offset_in_calls(void)
{
    int fd = warmed(path), ends[2], copy = opened(other, O_RDWR);
    say("pipe", pipe(ends));
    lseek(fd, 100, SEEK_SET);
    say("sendfile", sendfile(ends[1], fd, NULL, 50));
    say_reads("after sendfile", fd, 10);
    say("splice", splice(fd, NULL, ends[1], NULL, 50, 0));
    say_reads("after splice", fd, 10);
    say("copy", copy_file_range(fd, NULL, copy, NULL, 50, 0));
    say_reads("after copy", fd, 10);
    off_t at = 7;
    say("sendfile at", sendfile(ends[1], fd, &at, 50));
    say("its offset", at);
    int left = 0;
    say("ioctl", ioctl(fd, FIONREAD, &left));
    say("left", left);
    say("readahead", readahead(fd, 0, LENGTH));
    say("advice", posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
    say_reads("after advice", fd, 10);
}

static void offsets_far_away(void)
{
    static const int64_t places[] = {
        LENGTH - 1, LENGTH, LENGTH + 1, 1LL << 46, (1LL << 46) + 1, 1LL << 61, 1LL << 62, INT64_MAX, INT64_MIN, -1,
    };
    int fd = warmed(path);
    for (size_t at = 0; at < sizeof places / sizeof *places; at++) {
        say("seek", lseek(fd, places[at], SEEK_SET));
        say("at", lseek(fd, 0, SEEK_CUR));
        say("read", read(fd, room, 10));
        say("pread", pread(fd, room, 10, places[at]));
        say("further", lseek(fd, places[at], SEEK_CUR));
        say("from the end", lseek(fd, places[at], SEEK_END));
        lseek(fd, 3, SEEK_SET);
        say("data", lseek(fd, places[at], SEEK_DATA));
    }
}

enum { READERS = 4, RECORD = 8 };

static void *read_records(void *given)
{
    const int *fd = given;
    char record[RECORD];
    intptr_t seen = 0;
    while (read(*fd, record, RECORD) == RECORD)
        seen++;
    return (void *)seen;
}

static void threads_share_an_offset(void)
{
    int fd = warmed(path);
    pthread_t threads[READERS];
    intptr_t sum = 0;
    for (int at = 0; at < READERS; at++)
        pthread_create(&threads[at], NULL, read_records, &fd);
    for (int at = 0; at < READERS; at++) {
        void *seen;
        pthread_join(threads[at], &seen);
        sum += (intptr_t)seen;
    }
    say("records", sum);
    say("at", lseek(fd, 0, SEEK_CUR));
}

/* Reads on and on, and says in the other file how far it has come. */
static void *read_on(void *given)
{
    int fd = *(const int *)given, counts = opened(other, O_RDWR);
    volatile long *come = mmap(NULL, sizeof *come, PROT_READ | PROT_WRITE, MAP_SHARED, counts, 0);
    char record[RECORD];
    for (*come = 0;;)
        if (read(fd, record, RECORD) == RECORD)
            *come += RECORD;
        else
            *come = lseek(fd, 0, SEEK_SET);
    return NULL;
}

enum { KEPT = 77 };

/* What the new image finds: the offset where the reader was, or one record further. */
static void offset_after_exec(void)
{
    long come = 0, here = say("at the end", lseek(KEPT, 0, SEEK_CUR) < 0) ? 0 : lseek(KEPT, 0, SEEK_CUR);
    say("count", pread(opened(other, O_RDONLY), &come, sizeof come, 0));
    long further = (here - come + LENGTH) % LENGTH;
    say("the reader's", (here == 0 && come > LENGTH) || further == 0 || further == RECORD);
}

static void exec_beside_a_reader(void)
{
    int fd = dup2(warmed(path), KEPT);
    pthread_t reader;
    pthread_create(&reader, NULL, read_on, &fd);
    usleep(20000);
    say("failed", execl("/no/such/program", "none", NULL));
    usleep(20000);
    execl("/proc/self/exe", "stories", "offset_after_exec", path, other, NULL);
    say("exec", -1);
}

const struct story offset_stories[] = {
    STORY(offset_after_exec),
    STORY(exec_beside_a_reader),
    STORY(offset_in_a_child),
    STORY(offset_in_another_program),
    STORY(offset_in_calls),
    STORY(offsets_far_away),
    STORY(threads_share_an_offset),
    {NULL, NULL},
};
