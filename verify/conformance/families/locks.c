/* Locks: flock, records of processes, records of open file descriptions. */
#include "../case.h"

#include <sys/file.h>
#include <sys/time.h>

static int file;

static struct flock record(short type, short whence, off_t start, off_t length)
{
    return (struct flock){.l_type = type, .l_whence = whence, .l_start = start, .l_len = length};
}

static long locks(int fd, int how, short type, off_t start, off_t length)
{
    struct flock lock = record(type, SEEK_SET, start, length);
    return fcntl(fd, how, &lock);
}

/* What stands in the way, without its process. */
static void asks(int fd, int how, short type, off_t start, off_t length)
{
    struct flock lock = record(type, SEEK_SET, start, length);
    CALL(fcntl(fd, how, &lock));
    int is_parent = lock.l_pid == getppid();
    SHOW("in the way", "type %d whence %d start %ld length %ld pid %s", lock.l_type, lock.l_whence,
         (long)lock.l_start, (long)lock.l_len, lock.l_pid <= 0 ? (lock.l_pid ? "-1" : "0") : is_parent ? "parent" : "other");
}

static void child_flocks(void)
{
    int again = DO(open("file", O_RDONLY));
    CALL(flock(file, LOCK_EX | LOCK_NB));
    CALL(flock(again, LOCK_SH | LOCK_NB));
    CALL(flock(again, LOCK_EX | LOCK_NB));
    CALL(flock(file, LOCK_UN));
    CALL(flock(again, LOCK_EX | LOCK_NB));
}

static void whole_files(void)
{
    int dir = DO(open("dir", O_RDONLY)), path = DO(open("file", O_PATH));
    file = DO(open("file", O_RDONLY));
    CALL(flock(file, LOCK_EX));
    CALL(flock(file, LOCK_SH));
    CALL(flock(file, LOCK_EX | LOCK_NB));
    in_child("child", child_flocks);
    CALL(flock(file, LOCK_SH | LOCK_NB));
    CALL(flock(DO(open("file", O_RDONLY)), LOCK_SH | LOCK_NB));
    CALL(flock(file, LOCK_EX | LOCK_NB));
    CALL(flock(file, LOCK_UN));
    CALL(flock(file, LOCK_UN));
    CALL(flock(dir, LOCK_EX));
    CALL(flock(path, LOCK_EX));
    CALL(flock(file, 77));
    CALL(flock(file, 0));
    CALL(flock(-1, LOCK_SH));
    CALL(flock(999, LOCK_SH));
}

static void child_locks(void)
{
    asks(file, F_GETLK, F_WRLCK, 0, 0);
    asks(file, F_GETLK, F_RDLCK, 5, 1);
    asks(file, F_GETLK, F_RDLCK, 100, 1);
    CALL(locks(file, F_SETLK, F_WRLCK, 0, 1));
    CALL(locks(file, F_SETLK, F_RDLCK, 20, 10));
    CALL(locks(file, F_SETLK, F_WRLCK, 1000, 0));
    CALL(locks(file, F_OFD_SETLK, F_WRLCK, 0, 1));
}

static void records(void)
{
    struct flock here = record(F_WRLCK, SEEK_CUR, -2, 4), odd = record(F_WRLCK, 9, 0, 0), early = record(F_WRLCK, SEEK_SET, -1, 1);
    struct flock back = record(F_RDLCK, SEEK_END, 0, -3), kind = record(77, SEEK_SET, 0, 0);
    int reader = DO(open("file", O_RDONLY)), writer = DO(open("file", O_WRONLY)), path = DO(open("file", O_PATH));
    file = DO(open("file", O_RDWR));
    CALL(locks(file, F_SETLK, F_WRLCK, 0, 10));
    CALL(locks(file, F_SETLK, F_RDLCK, 20, 10));
    CALL(locks(file, F_SETLK, F_UNLCK, 3, 2));
    in_child("child", child_locks);
    asks(file, F_GETLK, F_WRLCK, 0, 0);
    CALL(locks(reader, F_SETLK, F_WRLCK, 0, 1));
    CALL(locks(writer, F_SETLK, F_RDLCK, 0, 1));
    CALL(locks(path, F_SETLK, F_RDLCK, 0, 1));
    CALL(locks(-1, F_SETLK, F_RDLCK, 0, 1));
    CALL(lseek(file, 5, SEEK_SET));
    CALL(fcntl(file, F_SETLK, &here));
    CALL(fcntl(file, F_SETLK, &odd));
    CALL(fcntl(file, F_SETLK, &early));
    CALL(fcntl(file, F_SETLK, &back));
    CALL(fcntl(file, F_SETLK, &kind));
    CALL(fcntl(file, F_SETLK, nowhere()));
    CALL(fcntl(file, F_GETLK, nowhere()));
    in_child("child", child_locks);
    /* A process's records of a file go with its first descriptor of it. */
    close(reader);
    in_child("child", child_locks);
}

static void child_describes(void)
{
    int again = DO(open("file", O_RDWR));
    asks(again, F_OFD_GETLK, F_WRLCK, 0, 0);
    CALL(locks(again, F_OFD_SETLK, F_WRLCK, 0, 1));
    CALL(locks(file, F_OFD_SETLK, F_WRLCK, 0, 100));
    asks(again, F_GETLK, F_WRLCK, 50, 1);
    CALL(locks(again, F_SETLK, F_RDLCK, 50, 1));
}

static void descriptions(void)
{
    struct flock owned = record(F_WRLCK, SEEK_SET, 0, 1);
    file = DO(open("file", O_RDWR));
    CALL(locks(file, F_OFD_SETLK, F_WRLCK, 0, 10));
    CALL(locks(file, F_OFD_SETLK, F_RDLCK, 20, 10));
    in_child("child", child_describes);
    close(DO(open("file", O_RDONLY)));
    in_child("child", child_describes);
    owned.l_pid = getpid();
    CALL(fcntl(file, F_OFD_SETLK, &owned));
    CALL(locks(file, F_OFD_SETLK, F_UNLCK, 0, 0));
    CALL(locks(file, F_SETLK, F_WRLCK, 0, 10));
    in_child("child", child_describes);
}

/* The child holds a record until it is killed; the parent waits for it. */
static void waiting(void)
{
    int ends[2], tried[2];
    char byte;
    DO(pipe(ends));
    DO(pipe(tried));
    file = DO(open("file", O_RDWR));
    pid_t child = fork();
    if (child == 0) {
        DO(locks(file, F_SETLK, F_WRLCK, 0, 1));
        DO(flock(DO(open("empty", O_RDWR)), LOCK_EX));
        DO(write(ends[1], "x", 1));
        DO(read(tried[0], &byte, 1));
        usleep(100000);
        _exit(0);
    }
    DO(read(ends[0], &byte, 1));
    CALL(locks(file, F_SETLK, F_WRLCK, 0, 1));
    DO(write(tried[1], "x", 1));
    CALL(locks(file, F_SETLKW, F_WRLCK, 0, 1));
    CALL(flock(DO(open("empty", O_RDWR)), LOCK_EX));
    CALL(waitpid(child, NULL, 0) == child);
}

static void do_nothing(int number)
{
    (void)number;
}

static void interrupted(void)
{
    struct sigaction action = {.sa_handler = do_nothing};
    struct itimerval each_second = {{1, 0}, {1, 0}};
    int other = DO(open("file", O_RDWR));
    file = DO(open("file", O_RDWR));
    DO(flock(other, LOCK_EX));
    DO(locks(other, F_OFD_SETLK, F_WRLCK, 0, 0));
    sigaction(SIGALRM, &action, NULL);
    /* Again and again: the first may come before the call on a busy machine. */
    setitimer(ITIMER_REAL, &each_second, NULL);
    CALL(flock(file, LOCK_EX));
    CALL(locks(file, F_OFD_SETLKW, F_WRLCK, 0, 0));
    alarm(60);
}

static void posix_calls(void)
{
    file = DO(open("file", O_RDWR));
    CALL(lockf(file, F_LOCK, 5));
    CALL(lockf(file, F_TEST, 0));
    in_child("child", child_locks);
    CALL(lockf(file, F_ULOCK, 5));
    CALL(lockf(file, 9, 5));
    CALL(lockf(-1, F_LOCK, 5));
}

const struct part locks_parts[] = {
    {"whole-files", whole_files}, {"records", records}, {"descriptions", descriptions},
    {"waiting", waiting}, {"interrupted", interrupted},
    {"posix-calls", posix_calls}, {0},
};
