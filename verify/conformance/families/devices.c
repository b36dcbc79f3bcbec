/* /dev/null and its neighbours, /proc/self. */
#include "../case.h"

static char bytes[8192];

static int zeros(ssize_t count)
{
    for (ssize_t at = 0; at < count; at++)
        if (bytes[at])
            return 0;
    return 1;
}

static void devices(void)
{
    struct stat status;
    int null = CALL(open("/dev/null", O_RDWR | O_CREAT | O_TRUNC, 0600));
    CALL(read(null, bytes, 10));
    CALL(write(null, bytes, 10));
    CALL(lseek(null, 100, SEEK_SET));
    CALL(ftruncate(null, 0));
    CALL(fsync(null));
    CALL(fstat(null, &status));
    SHOW("kind", "%o %lx", status.st_mode, (long)status.st_rdev);
    int zero = CALL(open("/dev/zero", O_RDWR));
    CALL(read(zero, bytes, 4096));
    SHOW("zeros", "%d", zeros(4096));
    CALL_P(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, zero, 0));
    int full = CALL(open("/dev/full", O_RDWR));
    CALL(write(full, bytes, 10));
    CALL(read(full, bytes, 10));
    int random = CALL(open("/dev/urandom", O_RDONLY));
    CALL(read(random, bytes, 64));
    SHOW("zeros", "%d", zeros(64));
    CALL(read(DO(open("/dev/random", O_RDONLY)), bytes, 8));
    CALL(open("/dev/null", O_RDONLY | O_DIRECTORY));
    CALL(open("/dev/null/", O_RDONLY));
    CALL(open("/dev/missing-device", O_RDONLY));
    CALL(open("/dev/null", O_CREAT | O_EXCL | O_RDWR, 0600));
    CALL(access("/dev/null", R_OK | W_OK));
    CALL(access("/dev/null", X_OK));
    CALL_P(opendir("/dev/null"));
    CALL(readlink("/dev/stdin", bytes, 100) > 0);
}

/* The number behind a line's head in a file of /proc, or -1. */
static long field(const char *path, const char *head)
{
    FILE *file = fopen(path, "r");
    long value = -1;
    while (file && fgets(bytes, sizeof bytes, file))
        if (strncmp(bytes, head, strlen(head)) == 0)
            value = strtol(bytes + strlen(head), NULL, 10);
    if (file)
        fclose(file);
    return value;
}

static void itself(void)
{
    char path[64], text[PATH_MAX] = "";
    struct stat status;
    SHOW("pid", "%d", field("/proc/self/status", "Pid:") == getpid());
    SHOW("parent", "%d", field("/proc/self/status", "PPid:") == getppid());
    SHOW("threads", "%ld", field("/proc/self/status", "Threads:"));
    SHOW("user", "%d", field("/proc/self/status", "Uid:") == (long)getuid());
    snprintf(path, sizeof path, "/proc/%d/status", getpid());
    SHOW("by number", "%d", field(path, "Pid:") == getpid());
    CALL(readlink("/proc/self", text, sizeof text) > 0);
    SHOW("self", "%d", atoi(text) == getpid());
    memset(text, 0, sizeof text);
    CALL(readlink("/proc/self/exe", text, sizeof text) > 0);
    SHOW("program", "%d", strcmp(text, program) == 0);
    memset(text, 0, sizeof text);
    CALL(readlink("/proc/self/cwd", text, sizeof text) > 0);
    SHOW("cwd", "%d", strcmp(text, here) == 0);
    DO(chdir("dir"));
    memset(text, 0, sizeof text);
    CALL(readlink("/proc/self/cwd", text, sizeof text) > 0);
    SHOW("cwd", "%s", text + strlen(here));
    CALL(access("/proc/self/cwd/inner", R_OK));
    CALL(open("/proc/self/cwd/../file", O_RDONLY) >= 0);
    CALL(open("/proc/self/maps", O_RDONLY) >= 0);
    CALL(open("/proc/self/exe", O_RDONLY) >= 0);
    CALL(open("/proc/self/comm", O_RDWR) >= 0);
    CALL(open("/proc/self/stat", O_RDONLY) >= 0);
    CALL(open("/proc/self/cmdline", O_RDONLY) >= 0);
    CALL(open("/proc/self/missing", O_RDONLY));
    CALL(mkdir("/proc/self/new", 0700));
    CALL(unlink("/proc/self/status"));
    CALL(stat("/proc/self/fd", &status));
    SHOW("fd", "%o", status.st_mode & S_IFMT);
    CALL_P(opendir("/proc/self/task"));
    CALL_P(opendir("/proc/self/fd"));
    CALL(open("/proc/meminfo", O_RDONLY) >= 0);
    CALL(open("/proc/cpuinfo", O_RDONLY) >= 0);
    CALL(open("/proc/sys/kernel/osrelease", O_RDONLY) >= 0);
    CALL(open("/proc/999999999/status", O_RDONLY));
}

static void standard(void)
{
    struct stat status;
    for (int fd = 0; fd < 3; fd++) {
        CALL(fstat(fd, &status));
        CALL(fcntl(fd, F_GETFD));
    }
    CALL(read(0, bytes, 1));
    CALL(open("/dev/stdin", O_RDONLY) >= 0);
    CALL(open("/dev/stdout", O_WRONLY) >= 0);
    CALL(open("/dev/stderr", O_WRONLY) >= 0);
}

const struct part devices_parts[] = {
    {"devices", devices}, {"itself", itself}, {"standard", standard}, {0},
};
