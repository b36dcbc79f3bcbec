/* Descriptors that one thread or child has for itself, shares, or uses again. */
#include "story.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

struct pair {
    int fd;
    volatile int step;
};

static void await_step(struct pair *pair, int step)
{
    while (pair->step != step)
        usleep(500);
}

static void *with_own_descriptors(void *given)
{
    struct pair *pair = given;
    say("unshare", unshare(CLONE_FILES));
    close(pair->fd);
    say("same number", opened(other, O_RDONLY) == pair->fd);
    warm(pair->fd);
    pair->step = 1;
    await_step(pair, 2);
    say_reads("the thread", pair->fd, 100);
    return NULL;
}

static void thread_with_own_descriptors(void)
{
    struct pair pair = {warmed(path), 0};
    pthread_t thread;
    pthread_create(&thread, NULL, with_own_descriptors, &pair);
    await_step(&pair, 1);
    say_reads("main", pair.fd, 100);
    warm(pair.fd);
    pair.step = 2;
    pthread_join(thread, NULL);
    say_reads("main", pair.fd, 100);
}

static int exchange(void *given)
{
    int fd = *(int *)given;
    close(fd);
    return opened(other, O_RDONLY) == fd ? 0 : 1;
}

/* A child with our descriptors: what it closes and opens is closed and opened here. */
static void child_with_our_descriptors(int flags)
{
    static char stack[1 << 16];
    int fd = warmed(path);
    wait_for(clone(exchange, stack + sizeof stack, flags | SIGCHLD, &fd));
    say_reads("parent", fd, 100);
    warm(fd);
    say_reads("parent", fd, 100);
}

static void child_on_another_stack(void)
{
    child_with_our_descriptors(0);
}

static void child_with_descriptors(void)
{
    child_with_our_descriptors(CLONE_FILES);
}

static void child_with_descriptors_and_memory(void)
{
    child_with_our_descriptors(CLONE_FILES | CLONE_VM);
}

static void numbers_used_again(void)
{
    int fd = warmed(path);
    int second = warmed(other);
    say("dup2", dup2(second, fd) == fd);
    say_reads("the number", fd, 10);
    say_reads("shared offset", second, 10);
    close(fd);
    int ends[2];
    say("pipe", pipe(ends));
    say("write", write(ends[1], "through a pipe", 14));
    say_reads("whatever has the number", fd, 100);
    close_range(second, second, 0);
    say("closed", read(second, room, 1));
    say("again", opened(path, O_RDONLY) == second);
    warm(second);
    say_reads("the file", second, 10);
}

static void *with_child_that_waits(void *given)
{
    struct pair *pair = given;
    pid_t child = vfork();
    if (child == 0) {
        pair->step = 1;
        await_step(pair, 2);
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    wait_for(child);
    return NULL;
}

/* Of a number that was used again meanwhile, a child of vfork has the file before. */
static void number_that_a_child_has_from_before(void)
{
    struct pair pair = {opened(path, O_RDONLY | O_CLOEXEC), 0};
    pthread_t thread;
    warm(pair.fd);
    pthread_create(&thread, NULL, with_child_that_waits, &pair);
    await_step(&pair, 1);
    close(pair.fd);
    say("same number", opened(other, O_RDONLY | O_CLOEXEC) == pair.fd);
    warm(pair.fd);
    say_reads("before the exec", pair.fd, 100);
    pair.step = 2;
    pthread_join(thread, NULL);
    say_reads("after it", pair.fd, 100);
    say("at", lseek(pair.fd, 0, SEEK_CUR));
}

const struct story descriptor_stories[] = {
    STORY(thread_with_own_descriptors),
    STORY(child_on_another_stack),
    STORY(child_with_descriptors),
    STORY(child_with_descriptors_and_memory),
    STORY(numbers_used_again),
    STORY(number_that_a_child_has_from_before),
    {NULL, NULL},
};
