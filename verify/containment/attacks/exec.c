/* Running what was not granted: by every way in which the kernel finds a program.
 *
 * The kernel reads the path of execve(2) itself, after the supervisor has judged it, and opens
 * interpreters without asking anybody. The tool outside ends with status 77, the granted one
 * with 7; a program of one's own may run, since it runs under the same fence.
 */
#include "attack.h"
#include <elf.h>

enum { OUTSIDE = 77, GRANTED = 7, FAILED = 99 };

static char *program;
static long program_folder = AT_FDCWD;
static int program_flags;
static char *none[] = {NULL};

static void run_program(void) {
    char *words[] = {program, NULL};
    if (program_flags || program_folder != AT_FDCWD)
        CALL(execveat, program_folder, program, words, none, program_flags);
    else
        CALL(execve, program, words, none);
    CALL(exit_group, FAILED);
}

static void must_not_run(const char *path, const char *what) {
    program = (char *)path;
    must_fail(in_child(run_program) == OUTSIDE ? 0 : -EACCES, what);
    program_folder = AT_FDCWD;
    program_flags = 0;
}

static void exec_outside(void) {
    must_not_run(at("outside/tool"), "by its path");
    must_not_run(at("rw/../outside/tool"), "with dots");
    need(CALL(symlink, at("outside/tool"), at("rw/tool-link")), "symlink");
    must_not_run(at("rw/tool-link"), "by a link");
    need(CALL(chdir, at("rw")), "chdir");
    must_not_run("../outside/tool", "relative");
    program_folder = need(CALL(openat, AT_FDCWD, at("rw"), O_RDONLY | O_DIRECTORY), "the grant");
    must_not_run("../outside/tool", "relative to a descriptor");
    program_folder = CALL(openat, AT_FDCWD, at("outside/tool"), O_PATH);
    program_flags = AT_EMPTY_PATH;
    must_not_run("", "by its descriptor");
    must_not_run("/proc/self/root/../outside/tool", "by /proc");
    all_refused();
}

static void exec_loader_given_program(void) {
    char *words[] = {"/lib64/ld-linux-x86-64.so.2", (char *)at("outside/dynamic-tool"), NULL};
    pid_t child = fork();
    if (child == 0) {
        CALL(execve, words[0], words, none);
        CALL(exit_group, FAILED);
    }
    int status = 0;
    waitpid(child, &status, 0);
    must_fail(WEXITSTATUS(status) == OUTSIDE ? 0 : -EACCES, "the loader was told to run it");
    all_refused();
}

/* "#!": the kernel opens the interpreter, whatever the supervisor thought of the script. */
static void exec_script(void) {
    char line[256];
    snprintf(line, sizeof line, "#!%s\n", at("outside/tool"));
    CALL(close, own_file("rw/script", line));
    need(CALL(chmod, at("rw/script"), 0755), "chmod");
    must_not_run(at("rw/script"), "by the first line of a script");
    snprintf(line, sizeof line, "#!%s\n", at("rw/script"));
    CALL(close, own_file("rw/script2", line));
    need(CALL(chmod, at("rw/script2"), 0755), "chmod");
    must_not_run(at("rw/script2"), "by the first line of a script's interpreter");
    all_refused();
}

/* An ELF file that names a program outside as its loader. */
static void exec_interpreter(void) {
    struct { Elf64_Ehdr head; Elf64_Phdr parts[2]; char path[256]; } file = {0};
    memcpy(file.head.e_ident, "\177ELF\2\1\1", 7);
    file.head = (Elf64_Ehdr){.e_type = ET_EXEC, .e_machine = EM_X86_64, .e_version = 1, .e_entry = 0x10000000,
                             .e_phoff = sizeof file.head, .e_ehsize = sizeof file.head,
                             .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 2};
    memcpy(file.head.e_ident, "\177ELF\2\1\1", 7);
    snprintf(file.path, sizeof file.path, "%s", at("outside/tool"));
    file.parts[0] = (Elf64_Phdr){.p_type = PT_INTERP, .p_offset = offsetof(__typeof__(file), path),
                                 .p_filesz = strlen(file.path) + 1, .p_memsz = strlen(file.path) + 1, .p_align = 1};
    file.parts[1] = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = 0x10000000,
                                 .p_filesz = sizeof file, .p_memsz = sizeof file, .p_align = 4096};
    long made = need(CALL(openat, AT_FDCWD, at("rw/made"), O_CREAT | O_WRONLY, 0755), "a program of one's own");
    need(CALL(write, made, &file, sizeof file), "writing it");
    CALL(close, made);
    must_not_run(at("rw/made"), "as the loader that an ELF file names");
    all_refused();
}

/* The path lies in memory that a thread of the parent rewrites while the child calls exec. */
static char *shared;
static char good[256], bad[256];

static void flip_program(void) {
    for (;;) {
        memcpy(shared, bad, sizeof bad);
        memcpy(shared, good, sizeof good);
    }
}

static void exec_rewritten(void) {
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snprintf(good, sizeof good, "%s", at("ro/tool"));
    snprintf(bad, sizeof bad, "%s", at("outside/tool"));
    memcpy(shared, good, sizeof good);
    beside(flip_program);
    int ran = 0;
    while (racing()) {
        program = shared;
        int status = in_child(run_program);
        ran += status == GRANTED;
        must_fail(status == OUTSIDE ? 0 : -EACCES, "rewritten during exec");
    }
    need(ran ? 0 : -ENOEXEC, "the granted tool ran meanwhile");
    all_refused();
}

static void swap_tool(void) {
    for (;;)
        CALL(renameat2, AT_FDCWD, at("rw/tool"), AT_FDCWD, at("rw/spare"), 2);
}

static void exec_swapped(void) {
    need(CALL(symlink, at("ro/tool"), at("rw/tool")), "symlink");
    need(CALL(symlink, at("outside/tool"), at("rw/spare")), "symlink");
    beside(swap_tool);
    while (racing())
        must_not_run(at("rw/tool"), "swapped during exec");
    all_refused();
}

/* A program without a path. It may run, for it is fenced as its maker is; it must be fenced. */
static void run_memory(void) {
    char *words[] = {"again", "plainly", NULL};
    char testbed[320], race[] = "RACE_MS=10", prove[] = "PROVE=1";
    snprintf(testbed, sizeof testbed, "TESTBED=%s", getenv("TESTBED"));
    char *environment[] = {testbed, race, getenv("PROVE") ? prove : NULL, NULL};
    CALL(execveat, program_folder, "", words, environment, AT_EMPTY_PATH);
    CALL(exit_group, FAILED);
}

static void exec_memory(void) {
    long self = need(CALL(openat, AT_FDCWD, getenv("ATTACKER"), O_RDONLY), "its own program file");
    program_folder = need(CALL(memfd_create, "program", 0), "memfd_create");
    while (CALL(sendfile, program_folder, self, 0L, 1L << 20) > 0)
        continue;
    int status = in_child(run_memory);
    must_fail(status == 1 ? 0 : -EACCES, "a program in memory was not fenced");
    all_refused();
}

/* A set-user-id program of root's in a read-only grant, which tells its effective user. To root
 * itself it gives nothing. */
static void run_privileged(void) {
    char *words[] = {(char *)at("ro/set-user-id"), NULL};
    CALL(execve, words[0], words, none);
    CALL(exit_group, FAILED);
}

static void exec_privileged(void) {
    must_fail(in_child(run_privileged) == 70 ? 0 : -EPERM, "it ran as another user");
    all_refused();
}

static void crash(void) {
    struct rlimit64 { uint64_t soft, hard; } all = {~0ul, ~0ul};
    CALL(prlimit64, 0L, 4L /* CORE */, &all, 0L);
    CALL(prctl, 4L /* PR_SET_DUMPABLE */, 1L, 0L, 0L, 0L);
    CALL(chdir, at("ro"));
    signal(SIGSEGV, SIG_DFL);
    *(volatile int *)8 = 1;
}

/* The kernel itself writes a core file into the working folder, and asks no supervisor. */
static void core_dumped(void) {
    char numbered[64];
    pid_t child = fork();
    if (child == 0)
        crash();
    int status = 0;
    waitpid(child, &status, 0);
    snprintf(numbered, sizeof numbered, "ro/core.%d", child);
    must_fail(CALL(openat, AT_FDCWD, at("ro/core"), O_RDONLY), "a core file in a read-only grant");
    must_fail(CALL(openat, AT_FDCWD, at(numbered), O_RDONLY), "a core file in a read-only grant");
    must_fail(WCOREDUMP(status) ? 0 : -EPERM, "a core file somewhere");
    all_refused();
}

/* With a limit of 0 the kernel gives a core to the program that core_pattern names, root's, outside
 * (CVE-2025-5054, CVE-2025-4598); with one of a byte it does not. */
static void core_to_handler(void) {
    struct rlimit64 { uint64_t soft, hard; } none = {0, 0}, found = {0, 0};
    CALL(prlimit64, 0L, 4L /* CORE */, &none, 0L);
    CALL(prlimit64, CALL(getpid), 4L, &none, &found);
    CALL(prlimit64, 0L, 4L | 1L << 32, &none, 0L);
    CALL(setrlimit, 4L, &none);
    if (fork() == 0) {
        CALL(prlimit64, CALL(getppid), 4L, &none, 0L);
        CALL(exit_group, 0L);
    }
    wait(NULL);
    need(CALL(getrlimit, 4L, &found), "the limit");
    must_fail(found.soft == 0 ? 0 : -EPERM, "a limit of 0 for core files");
    all_refused();
}

const struct attack exec_attacks[] = {
    ATTACK(exec_outside, ANYONE),
    ATTACK(exec_loader_given_program, ANYONE),
    ATTACK(exec_script, ANYONE),
    ATTACK(exec_interpreter, ANYONE),
    ATTACK(exec_rewritten, ANYONE),
    ATTACK(exec_swapped, ANYONE),
    ATTACK(exec_memory, ANYONE),
    ATTACK(exec_privileged, ORDINARY),
    ATTACK(core_dumped, ANYONE),
    ATTACK(core_to_handler, ANYONE),
    {0},
};
