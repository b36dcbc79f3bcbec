/* The kernel's answers: what every other way is compared with. */
#include "ways.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t outcome(int64_t result)
{
    return result < 0 ? -errno : result;
}

static int64_t opens(const char *name, uint32_t flags, uint32_t mode)
{
    int how = (flags & 3) == 3 ? O_RDWR : flags & 2 ? O_WRONLY : O_RDONLY;
    how |= (flags & 16 ? O_CREAT : 0) | (flags & 32 ? O_EXCL : 0) | (flags & 64 ? O_TRUNC : 0) | (flags & 128 ? O_DIRECTORY : 0);
    return outcome(open(name, how | O_CLOEXEC, mode));
}
static int64_t closes(int64_t file) { return outcome(close((int)file)); }
static int64_t reads(int64_t file, uint64_t offset, void *into, uint64_t bytes)
{
    return outcome(pread((int)file, into, bytes, (off_t)offset));
}
static int64_t fetches(const char *name, uint64_t offset, void *into, uint64_t bytes)
{
    int64_t file = outcome(open(name, O_RDONLY | O_CLOEXEC)), result;
    if (file < 0)
        return file;
    result = outcome(pread((int)file, into, bytes, (off_t)offset));
    close((int)file);
    return result;
}
static int64_t writes(int64_t file, uint64_t offset, const void *from, uint64_t bytes)
{
    return outcome(pwrite((int)file, from, bytes, (off_t)offset));
}
static int64_t appends(int64_t file, const void *from, uint64_t bytes)
{
    struct stat status;
    fstat((int)file, &status);
    return outcome(pwrite((int)file, from, bytes, status.st_size));
}
static int64_t syncs(int64_t file) { return outcome(fsync((int)file)); }
static int64_t truncates(int64_t file, uint64_t length) { return outcome(ftruncate((int)file, (off_t)length)); }
static int64_t stats(int64_t file, struct seen *seen)
{
    struct stat status;
    int64_t result = outcome(fstat((int)file, &status));
    if (result == 0)
        *seen = (struct seen){S_ISDIR(status.st_mode) ? 0 : (uint64_t)status.st_size, status.st_mode};
    return result;
}
static int64_t makes(const char *name, uint32_t mode) { return outcome(mkdir(name, mode)); }
static int64_t removes(const char *name) { return outcome(rmdir(name)); }
static int64_t unlinks(const char *name) { return outcome(unlink(name)); }
static int64_t renames(const char *from, const char *to, uint32_t flags)
{
    return outcome(renameat2(AT_FDCWD, from, AT_FDCWD, to, flags ? RENAME_NOREPLACE : 0));
}
static int64_t lists(const char *name, char *into, uint64_t bytes)
{
    uint64_t used = 0;
    DIR *folder = opendir(name);
    if (!folder)
        return -errno;
    for (struct dirent *entry; (entry = readdir(folder));)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            used += (uint64_t)snprintf(into + used, bytes - used, "%s\n", entry->d_name);
    closedir(folder);
    return (int64_t)used;
}

static struct sockaddr_in at(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}
static int64_t listens(uint16_t *port)
{
    struct sockaddr_in address = at(*port);
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&address, length) || listen(fd, 16))
        return -errno;
    getsockname(fd, (struct sockaddr *)&address, &length);
    *port = ntohs(address.sin_port);
    return fd;
}
static int64_t connects(uint16_t port)
{
    struct sockaddr_in address = at(port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int64_t result = outcome(connect(fd, (struct sockaddr *)&address, sizeof address));
    if (result < 0)
        close(fd);
    return result < 0 ? result : fd;
}
static int64_t polls(int64_t fd, uint32_t wanted, uint32_t timeout_us)
{
    struct pollfd asked = {(int)fd, (short)((wanted & 1 ? POLLIN : 0) | (wanted & 2 ? POLLOUT : 0)), 0};
    int count = poll(&asked, 1, timeout_us ? (int)(timeout_us / 1000) : -1);
    if (count <= 0)
        return count ? -errno : -ETIMEDOUT;
    return (asked.revents & POLLIN ? 1 : 0) | (asked.revents & POLLOUT ? 2 : 0) | (asked.revents & (POLLERR | POLLHUP) ? 4 : 0);
}
static int64_t accepts(int64_t listener, uint32_t timeout_us)
{
    int64_t ready = timeout_us ? polls(listener, 1, timeout_us) : 1;
    return ready < 0 ? ready : outcome(accept((int)listener, 0, 0));
}
static int64_t sends(int64_t fd, const void *from, uint64_t bytes) { return outcome(send((int)fd, from, bytes, MSG_NOSIGNAL)); }
static int64_t receives(int64_t fd, void *into, uint64_t bytes, uint32_t timeout_us)
{
    int64_t ready = timeout_us ? polls(fd, 1, timeout_us) : 1;
    return ready < 0 ? ready : outcome(recv((int)fd, into, bytes, 0));
}
static int64_t shuts(int64_t fd, uint32_t how) { return outcome(shutdown((int)fd, how == 1 ? SHUT_RD : how == 2 ? SHUT_WR : SHUT_RDWR)); }

const struct way kernel_way = {
    "kernel", opens, closes, reads, fetches, writes, appends, syncs, truncates, stats, makes, removes, unlinks, renames, lists,
    listens, connects, accepts, sends, receives, polls, shuts, closes,
};
