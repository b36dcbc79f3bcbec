/* Locks and leases: the program's own, and what others meet. */
#include "story.h"

#include <sys/file.h>
#include <sys/wait.h>

/* Which lock another process meets. */
static void say_lock(int kind)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct flock wanted = {.l_type = kind, .l_whence = SEEK_SET, .l_len = 10};
        int fd = opened(path, O_RDWR);
        int answer = fcntl(fd, F_GETLK, &wanted);
        printf("answer %d, lock %d\n", answer, wanted.l_type);
        fflush(stdout);
        _exit(0);
    }
    wait_for(child);
}

static void lock(int fd, int command, int kind)
{
    struct flock wanted = {.l_type = kind, .l_whence = SEEK_SET, .l_len = 10};
    say("lock", fcntl(fd, command, &wanted));
}

static void record_lock_before(void)
{
    int fd = opened(path, O_RDONLY);
    lock(fd, F_SETLK, F_RDLCK);
    warm(fd);
    say_lock(F_WRLCK);
    lock(fd, F_SETLK, F_UNLCK);
    say_lock(F_WRLCK);
}

static void record_lock_through_another_descriptor(void)
{
    int locked = opened(path, O_RDWR);
    lock(locked, F_SETLK, F_WRLCK);
    int fd = opened(path, O_RDONLY);
    warm(fd);
    say_lock(F_WRLCK);
}

static void record_lock_after(void)
{
    int fd = warmed(path);
    lock(fd, F_SETLK, F_RDLCK);
    warm(fd);
    say_lock(F_WRLCK);
}

static void record_lock_after_a_writer(void)
{
    int fd = warmed(path);
    lock(fd, F_SETLK, F_RDLCK);
    close(fd == 9 ? -1 : dup2(opened(other, O_RDONLY), 9));
    say_lock(F_WRLCK);
    warm(fd);
    say_lock(F_WRLCK);
}

static void description_lock(void)
{
    int fd = warmed(path);
    lock(fd, F_OFD_SETLK, F_RDLCK);
    warm(fd);
    say_lock(F_WRLCK);
    say("flock", flock(fd, LOCK_EX | LOCK_NB));
    warm(fd);
    int second = opened(path, O_RDONLY);
    say("second flock", flock(second, LOCK_SH | LOCK_NB));
    close(fd);
    say("second flock", flock(second, LOCK_SH | LOCK_NB));
}

static void own_read_lease(void)
{
    int fd = warmed(path);
    say("lease", fcntl(fd, F_SETLEASE, F_RDLCK));
    warm(fd);
    say("is", fcntl(fd, F_GETLEASE));
}

static void own_write_lease_before(void)
{
    int fd = opened(path, O_RDONLY);
    say("lease", fcntl(fd, F_SETLEASE, F_WRLCK));
    warm(fd);
    say("is", fcntl(fd, F_GETLEASE));
}

static void own_write_lease_after(void)
{
    int fd = warmed(path);
    say("lease", fcntl(fd, F_SETLEASE, F_WRLCK));
    warm(fd);
    say("is", fcntl(fd, F_GETLEASE));
}

static void writer_who_does_not_wait(void)
{
    int fd = warmed(path);
    int writer = say("writer", open(path, O_WRONLY | O_NONBLOCK)) < 0 ? -1 : 1;
    warm(fd);
    int cutter = open(path, O_RDWR | O_TRUNC | O_NONBLOCK);
    printf("%d %d\n", writer > 0, cutter > 0);
    say_reads("after the cut", fd, 100);
}

const struct story lock_stories[] = {
    STORY(record_lock_before),
    STORY(record_lock_through_another_descriptor),
    STORY(record_lock_after),
    STORY(record_lock_after_a_writer),
    STORY(description_lock),
    STORY(own_read_lease),
    STORY(own_write_lease_before),
    STORY(own_write_lease_after),
    STORY(writer_who_does_not_wait),
    {NULL, NULL},
};
