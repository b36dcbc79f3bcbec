/* /proc and /dev: other processes' memory, roots and descriptors, the kernel's switches.
 *
 * Sources: CVE-2019-5736 (runc overwritten by /proc/self/exe), CVE-2016-9962 (runc's own
 * descriptors reached from inside), CVE-2022-0492 and the many core_pattern escapes.
 */
#include "attack.h"
#include <sys/sysmacros.h>

static char path[128];

static const char *of(long process, const char *name) {
    snprintf(path, sizeof path, "/proc/%ld/%s", process, name);
    return path;
}

static void read_memory(long process, long address, const char *what) {
    char bytes[64] = "";
    long memory = CALL(openat, AT_FDCWD, of(process, "mem"), O_RDWR);
    if (memory < 0)
        memory = CALL(openat, AT_FDCWD, of(process, "mem"), O_RDONLY);
    if (memory >= 0 && CALL(pread64, memory, bytes, sizeof bytes, address) > 0)
        escaped("%s", what);
    must_fail(memory, what);
}

static void proc_memory_of_victim(void) {
    read_memory(given("VICTIM"), given("VICTIM_WORD"), "the victim's memory was opened");
    all_refused();
}

static void proc_files_of(long process) {
    static const char *const names[] = {"environ", "maps", "auxv", "stack", "syscall", "pagemap", "io", "cmdline",
                                        "cwd/secret", "root/etc/passwd", "cwd/outside/secret", "status", "fdinfo/0",
                                        "task", "fd", "ns/mnt", "map_files", "stat", "mountinfo", "attr/current"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        must_fail(CALL(openat, AT_FDCWD, of(process, names[i]), O_RDONLY), path);
    static const char *const switches[] = {"oom_score_adj", "comm", "clear_refs", "coredump_filter", "timerslack_ns"};
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++)
        must_fail(CALL(openat, AT_FDCWD, of(process, switches[i]), O_WRONLY), path);
    char target[256];
    must_fail(CALL(readlink, of(process, "exe"), target, sizeof target), "the link to its program");
    must_fail(CALL(readlink, of(process, "cwd"), target, sizeof target), "the link to its working folder");
}

static void proc_files_of_victim(void) {
    proc_files_of(given("VICTIM"));
    all_refused();
}

static void proc_files_of_parent(void) {
    long parent = CALL(getppid);
    read_memory(parent, given("VICTIM_WORD"), "the parent's memory was opened");
    proc_files_of(parent);
    all_refused();
}

static void proc_descriptors_of_others(void) {
    long others[] = {given("VICTIM"), CALL(getppid), 1};
    char name[32];
    for (int i = 0; i < 3; i++)
        for (int number = 0; number < 40; number++) {
            snprintf(name, sizeof name, "fd/%d", number);
            must_fail(CALL(openat, AT_FDCWD, of(others[i], name), O_RDONLY | O_NONBLOCK), path);
        }
    all_refused();
}

static void proc_list_of_processes(void) {
    char entries[65536];
    snprintf(path, sizeof path, "%ld", given("VICTIM"));
    long folder = CALL(openat, AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY);
    for (long length = 1; folder >= 0 && length > 0;) {
        length = CALL(getdents64, folder, entries, sizeof entries);
        for (long i = 0; i < length; i += *(unsigned short *)(entries + i + 16))
            if (!strcmp(entries + i + 19, path))
                escaped("/proc lists the victim");
    }
    struct stat status;
    must_fail(CALL(stat, of(given("VICTIM"), ""), &status), "the victim's folder");
    all_refused();
}

static void proc_own_root(void) {
    static const char *const ways[] = {"self/root", "thread-self/root", "self/task/%ld/root", "%ld/root", "self/cwd/../..",
                                       "self/cwd/../../..", "self/../1/root", "1/root", "self/./root/../root", "1/cwd"};
    char form[64], whole[768];
    need(CALL(chdir, at("rw")), "chdir");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        snprintf(form, sizeof form, "/proc/%s%%s", ways[i]);
        if (strstr(form, "%ld"))
            snprintf(whole, sizeof whole, form, CALL(gettid), at("outside/secret"));
        else
            snprintf(whole, sizeof whole, form, at("outside/secret"));
        must_not_show(CALL(openat, AT_FDCWD, whole, O_RDONLY), whole);
    }
    must_not_show(CALL(openat, AT_FDCWD, "/proc/self/cwd/../outside/secret", O_RDONLY), "self/cwd/..");
    long folder = CALL(openat, AT_FDCWD, "/proc/self/root", O_PATH);
    must_not_show(folder < 0 ? folder : CALL(openat, folder, at("outside/secret") + 1, O_RDONLY), "from self/root");
    all_refused();
}

static void proc_switches(void) {
    static const char *const names[] = {"sys/kernel/core_pattern", "sys/kernel/hostname", "sys/kernel/modprobe",
                                        "sys/kernel/randomize_va_space", "sys/vm/drop_caches", "sys/fs/file-max",
                                        "sys/vm/overcommit_memory", "sys/net/ipv4/ip_forward", "sysrq-trigger",
                                        "self/uid_map", "self/gid_map", "self/setgroups", "self/loginuid", "self/attr/exec",
                                        "irq/default_smp_affinity", "self/oom_adj"};
    char whole[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(whole, sizeof whole, "/proc/%s", names[i]);
        must_fail(CALL(openat, AT_FDCWD, whole, O_WRONLY), whole);
    }
    must_fail(CALL(openat, AT_FDCWD, "/sys/fs/cgroup/cgroup.procs", O_WRONLY), "a control group");
    must_fail(CALL(openat, AT_FDCWD, "/sys/fs/cgroup/memory/release_agent", O_WRONLY), "a release agent");
    must_fail(CALL(openat, AT_FDCWD, "/sys/kernel/uevent_helper", O_WRONLY), "the helper of uevents");
    must_fail(CALL(openat, AT_FDCWD, "/proc/self/uid_map", O_RDWR), "its own map of users");
    all_refused();
}

static void proc_of_the_kernel(void) {
    static const char *const names[] = {"/proc/kcore", "/proc/kmsg", "/proc/kallsyms", "/proc/keys", "/proc/timer_list",
                                        "/proc/slabinfo", "/proc/1/environ", "/proc/sys/kernel/random/boot_id/..",
                                        "/proc/net/tcp", "/proc/net/unix", "/proc/sysvipc/shm", "/proc/locks"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        must_fail(CALL(openat, AT_FDCWD, names[i], O_RDONLY), names[i]);
    all_refused();
}

static void devices(void) {
    static const char *const names[] = {"/dev/mem", "/dev/kmsg", "/dev/port", "/dev/vda", "/dev/sda", "/dev/fuse",
                                        "/dev/kvm", "/dev/net/tun", "/dev/console", "/dev/tty0", "/dev/ptmx",
                                        "/dev/vcs", "/dev/loop-control", "/dev/userfaultfd", "/dev/mqueue"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        must_fail(CALL(openat, AT_FDCWD, names[i], O_RDWR | O_NONBLOCK), names[i]);
    all_refused();
}

static void device_made(void) {
    must_fail(CALL(mknod, at("rw/kmsg"), S_IFCHR | 0600, makedev(1, 11)), "a character device");
    must_fail(CALL(mknod, at("rw/disk"), S_IFBLK | 0600, makedev(254, 0)), "a block device");
    must_fail(CALL(mknodat, AT_FDCWD, at("rw/null"), S_IFCHR | 0600, makedev(1, 3)), "even a harmless one");
    must_fail(CALL(openat, AT_FDCWD, at("rw/kmsg"), O_RDONLY | O_NONBLOCK), "opened");
    all_refused();
}

/* CVE-2019-5736: the program file that runs, reached by /proc and opened for writing as soon as
 * it runs no more. The tool stands in a read-only grant, as a container runtime's binary does. */
static void run_tool(void) {
    char *words[] = {(char *)at("ro/tool"), NULL}, *none[] = {NULL};
    CALL(execve, words[0], words, none);
    CALL(exit_group, 99);
}

static void program_overwritten(void) {
    long tool = open_path(at("ro/tool"));
    if (in_child(run_tool) == 99)
        untried("the tool does not run");
    snprintf(path, sizeof path, "/proc/self/fd/%ld", tool);
    for (int i = 0; i < 20; i++)
        must_fail(CALL(openat, AT_FDCWD, path, O_WRONLY), "a program file was opened for writing");
    must_fail(CALL(openat, AT_FDCWD, of(CALL(getppid), "exe"), O_RDWR), "the parent's program file");
    must_fail(CALL(openat, AT_FDCWD, "/proc/self/exe", O_RDWR), "its own program file");
    all_refused();
}

/* A mapped file has one more name, which opens it anew. */
static void map_files(void) {
    long file = need(CALL(openat, AT_FDCWD, at("ro/public"), O_RDONLY), "a granted file");
    char *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, (int)file, 0);
    snprintf(path, sizeof path, "/proc/self/map_files/%lx-%lx", (long)page, (long)page + 4096);
    must_fail(CALL(openat, AT_FDCWD, path, O_RDWR), "opened for writing by its mapping");
    must_fail(CALL(truncate, path, 0L), "truncated by its mapping");
    all_refused();
}

const struct attack proc_attacks[] = {
    ATTACK(proc_memory_of_victim, ANYONE),
    ATTACK(proc_files_of_victim, ANYONE),
    ATTACK(proc_files_of_parent, ANYONE),
    ATTACK(proc_descriptors_of_others, ANYONE),
    ATTACK(proc_list_of_processes, ANYONE),
    ATTACK(proc_own_root, ANYONE),
    ATTACK(proc_switches, ROOT),
    ATTACK(proc_of_the_kernel, ANYONE),
    ATTACK(devices, ANYONE),
    ATTACK(device_made, ROOT),
    ATTACK(program_overwritten, ANYONE),
    ATTACK(map_files, ROOT),
    {0},
};
