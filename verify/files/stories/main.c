/* What mapped reads must not change: one short story a case, told on standard output.
 *
 * stories NAME PATH OTHER      two files of 40,000 bytes that nobody else uses
 *
 * Each story reads a file often enough to have it mapped (`warm`), then does what reaches past the
 * mapping: locks, leases, shared descriptors, children, writers. It runs plainly and under
 * Heliostat, and both must say the same.
 */
#include "story.h"

#include <sys/wait.h>

const char *path, *other;
char room[LENGTH + 1];

long say(const char *what, long result)
{
    int error = errno;
    printf("%s %ld%s%s\n", what, result, result < 0 ? " " : "", result < 0 ? strerrorname_np(error) : "");
    fflush(stdout);
    errno = error;
    return result;
}

int opened(const char *name, int flags)
{
    int fd = open(name, flags);
    if (fd < 0) {
        perror(name);
        exit(2);
    }
    return fd;
}

void warm(int fd)
{
    for (int turn = 0; turn < 1500; turn++)
        if (pread(fd, room, 64, turn % 1000) < 0)
            perror("pread");
    off_t here = lseek(fd, 0, SEEK_CUR);
    for (int turn = 0; turn < 100; turn++)
        if (read(fd, room, 10) < 0)
            perror("read");
    lseek(fd, here, SEEK_SET);
}

int warmed(const char *name)
{
    int fd = opened(name, O_RDONLY);
    warm(fd);
    return fd;
}

void say_reads(const char *what, int fd, size_t bytes)
{
    memset(room, 0, sizeof room);
    long got = read(fd, room, bytes);
    printf("%s reads %ld: %.8s, now at %ld\n", what, got, room, (long)lseek(fd, 0, SEEK_CUR));
    fflush(stdout);
}

void wait_for(pid_t child)
{
    int status = -1;
    waitpid(child, &status, 0);
    printf("child ended with %d\n", status);
    fflush(stdout);
}

static int tell(const struct story *among, const char *name)
{
    for (; among->name; among++)
        if (strcmp(among->name, name) == 0) {
            among->tell();
            return 1;
        }
    return 0;
}

int main(int count, char **words)
{
    if (count != 4)
        return 2;
    path = words[2];
    other = words[3];
    signal(SIGIO, SIG_IGN);
    const struct story *all[] = {lock_stories, descriptor_stories, offset_stories, content_stories};
    for (size_t at = 0; at < sizeof all / sizeof *all; at++)
        if (tell(all[at], words[1]))
            return 0;
    return 2;
}
