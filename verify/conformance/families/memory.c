/* Files in memory: mmap, mprotect, msync, munmap, mremap, and what changes beneath a mapping. */
#include "../case.h"

#include <sys/syscall.h>

enum { PAGE = 4096 };
#define MAP(length, protection, flags, fd, offset) mmap(NULL, length, protection, flags, fd, offset)

static char *volatile mapped;

static void kinds(void)
{
    int reader = DO(open("file", O_RDONLY)), writer = DO(open("file", O_WRONLY)), both = DO(open("file", O_RDWR));
    int dir = DO(open("dir", O_RDONLY)), path = DO(open("file", O_PATH)), append = DO(open("file", O_RDWR | O_APPEND));
    CALL_P(MAP(PAGE, PROT_READ, MAP_SHARED, reader, 0));
    CALL_P(MAP(PAGE, PROT_READ, MAP_PRIVATE, reader, 0));
    CALL_P(MAP(PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, reader, 0));
    CALL_P(MAP(PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, reader, 0));
    CALL_P(MAP(PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, reader, 0));
    CALL_P(MAP(PAGE, PROT_READ, MAP_SHARED, writer, 0));
    CALL_P(MAP(PAGE, PROT_WRITE, MAP_SHARED, writer, 0));
    CALL_P(MAP(PAGE, PROT_READ, MAP_PRIVATE, writer, 0));
    CALL_P(MAP(PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, both, 0));
    CALL_P(MAP(PAGE, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE, both, 0));
    CALL_P(MAP(PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, append, 0));
    CALL_P(MAP(PAGE, PROT_READ, MAP_SHARED, dir, 0));
    CALL_P(MAP(PAGE, PROT_READ, MAP_SHARED, path, 0));
    CALL_P(MAP(PAGE, PROT_READ, MAP_SHARED, -1, 0));
    CALL_P(MAP(PAGE, PROT_READ, MAP_SHARED, 999, 0));
    CALL_P(MAP(PAGE, PROT_READ, MAP_SHARED, reader, 1));
    CALL_P(MAP(0, PROT_READ, MAP_SHARED, reader, 0));
    CALL_P(MAP(PAGE, PROT_READ, 0, reader, 0));
    CALL_P(MAP(PAGE, PROT_READ, MAP_SHARED, reader, 16 * PAGE));
    CALL_P(MAP((size_t)-1, PROT_READ, MAP_SHARED, reader, 0));
    CALL_P(mmap((void *)PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, 999, 0));
    CALL_P(MAP(PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

static void shared(void)
{
    char bytes[16] = "";
    int fd = DO(open("file", O_RDWR));
    char *one = MAP(PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), *own = MAP(PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    SHOW("mapped", "%.10s", one);
    memcpy(one + 2, "MM", 2);
    CALL(pread(fd, bytes, 10, 0));
    SHOW("read", "%s", bytes);
    SHOW("private", "%.10s", own);
    memcpy(own, "PP", 2);
    DO(pwrite(fd, "WWWWWW", 6, 0));
    SHOW("mapped", "%.10s", one);
    SHOW("behind the end", "%d", one[100]);
    one[100] = 'x';
    DO(pwrite(fd, "", 1, 200));
    DO(pread(fd, bytes, 1, 100));
    CALL(close(fd));
    SHOW("still", "%.10s", one);
    CALL(msync(one, PAGE, MS_SYNC));
    CALL(msync(one, PAGE, MS_ASYNC));
    CALL(msync(one, PAGE, MS_SYNC | MS_ASYNC));
    CALL(msync(one + 1, PAGE, MS_SYNC));
    CALL(msync(one, PAGE, 64));
    CALL(munmap(one, PAGE));
    CALL(msync(one, PAGE, MS_SYNC));
    CALL(munmap(own + 1, PAGE));
    CALL(munmap(own, 0));
    show_file("file");
}

static void protection(void)
{
    int reader = DO(open("file", O_RDONLY));
    char *one = MAP(PAGE, PROT_READ, MAP_SHARED, reader, 0), *own = MAP(PAGE, PROT_READ, MAP_PRIVATE, reader, 0);
    CALL(mprotect(one, PAGE, PROT_READ | PROT_WRITE));
    CALL(mprotect(own, PAGE, PROT_READ | PROT_WRITE));
    CALL(mprotect(own + 1, PAGE, PROT_READ));
    CALL(mprotect(own, PAGE, 0x4000));
    CALL(mprotect(one, PAGE, PROT_NONE));
    CALL(munmap(one, PAGE));
    CALL(mprotect(one, PAGE, PROT_READ));
    CALL(madvise(own, PAGE, MADV_DONTNEED));
    CALL(madvise(own, PAGE, MADV_WILLNEED));
    CALL(madvise(own, PAGE, 999));
    CALL_P(mremap(own, PAGE, 2 * PAGE, MREMAP_MAYMOVE));
    CALL(mlock(nowhere(), 0));
}

static void touch_end(void)
{
    mapped[PAGE] = 1;
}

static void touch_shortened(void)
{
    DO(truncate("file", 0));
    mapped[0] = 1;
}

static void touch_read_only(void)
{
    mapped[0] = 1;
}

static void faults(void)
{
    int fd = DO(open("file", O_RDWR));
    mapped = MAP(2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    in_child("behind the last page", touch_end);
    in_child("shortened", touch_shortened);
    DO(ftruncate(fd, 10));
    mapped = MAP(PAGE, PROT_READ, MAP_SHARED, fd, 0);
    in_child("read only", touch_read_only);
    CALL(read(fd, mapped, 1));
}

static void child_writes(void)
{
    memcpy(mapped, "child", 5);
}

static void children(void)
{
    int fd = DO(open("file", O_RDWR));
    mapped = MAP(PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    in_child("child", child_writes);
    SHOW("shared", "%.10s", mapped);
    DO(rename("empty", "file"));
    SHOW("replaced", "%.10s", mapped);
    mapped = MAP(PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    in_child("child", child_writes);
    DO(pwrite(fd, "parent", 6, 0));
    SHOW("private", "%.10s", mapped);
}

static void without_a_name(void)
{
    char bytes[8] = "";
    int fd = CALL(memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    CALL(ftruncate(fd, PAGE));
    char *one = MAP(PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    memcpy(one, "memory", 6);
    CALL(pread(fd, bytes, 6, 0));
    SHOW("bytes", "%s", bytes);
    CALL(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
    CALL(ftruncate(fd, 0));
    CALL(ftruncate(fd, 2 * PAGE));
    CALL(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    CALL(fcntl(fd, F_GET_SEALS));
    CALL(fcntl(DO(open("file", O_RDWR)), F_GET_SEALS));
    CALL(memfd_create("memory", 0x8000));
    CALL(memfd_create(nowhere(), 0));
}

const struct part memory_parts[] = {
    {"kinds", kinds}, {"shared", shared}, {"protection", protection}, {"faults", faults},
    {"children", children}, {"without-a-name", without_a_name}, {0},
};
