/* Several processes change one tree by turns, at random; after each step the tree is the model's.
 *
 *   walk begin STATE SEED OPERATIONS      writes the state of a new run
 *   walk take STATE TREE FIRST COUNT      takes part as processes FIRST to FIRST+COUNT-1
 *   walk end STATE                        prints what was done
 *
 * All parts share STATE by mapping it. Whose turn it is goes round through FIFOs, STATE.0 to STATE.3,
 * one for each of the four processes. One part is run plainly: it is the outside world of those that
 * are sealed.
 */
#include "act.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 4, STEPS_MAX = 40 };

static int turns[PROCESSES];

static struct shared *mapped(const char *path)
{
    int fd = open(path, O_RDWR);
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || shared == MAP_FAILED) {
        perror(path);
        exit(2);
    }
    close(fd);
    return shared;
}

/* Open at both ends in every process, so that nobody waits for somebody who has not come yet. */
static void open_turns(const char *state)
{
    char name[1100];
    for (int process = 0; process < PROCESSES; process++) {
        snprintf(name, sizeof name, "%s.%d", state, process);
        if ((mkfifo(name, 0666) != 0 && errno != EEXIST) || (turns[process] = open(name, O_RDWR | O_CLOEXEC)) < 0) {
            perror(name);
            exit(2);
        }
    }
}

static int begin(const char *path, const char *seed, const char *operations)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || fchmod(fd, 0666) != 0 || ftruncate(fd, sizeof(struct shared)) != 0)
        return 2;
    struct shared *shared = mapped(path);
    shared->chance = strtoull(seed, NULL, 10) * 0x9e3779b97f4a7c15 + 1;
    shared->wanted = strtoull(operations, NULL, 10);
    for (int process = 0; process < PROCESSES_MAX; process++)
        for (int slot = 0; slot < SLOTS; slot++)
            shared->slots[process][slot].node = NONE;
    model_begin(&shared->model);
    umask(0);
    open_turns(path);
    return 0;
}

static void pass(int to, char what)
{
    if (write(turns[to], &what, 1) != 1)
        exit(3);
}

/* Takes turns until the run is over; 0 when this process met a difference. */
static int take_turns(struct process *process)
{
    struct shared *shared = process->shared;
    char what;
    for (;;) {
        if (read(turns[process->number], &what, 1) != 1 || what == 'e')
            return !shared->failed;
        for (int left = 1 + drawn(shared, STEPS_MAX); left > 0 && !shared->failed; left--, shared->done++)
            shared->failed = !act(process);
        fflush(stdout);
        if (shared->failed || shared->done >= shared->wanted)
            break;
        pass(drawn(shared, PROCESSES), 't');
    }
    for (int other = 0; other < PROCESSES; other++)
        pass(other, 'e');
    return !shared->failed;
}

static int take(const char *state, const char *tree, int first, int count)
{
    struct process process = {.shared = mapped(state), .number = first};
    int ends_well = 1, status;
    umask(0);
    open_turns(state);
    snprintf(process.tree, sizeof process.tree, "%s", tree);
    if (chdir(tree) != 0 || (process.top = open(".", O_PATH | O_CLOEXEC)) < 0)
        return 2;
    for (int more = 1; more < count; more++)
        if (fork() == 0) {
            process.number = first + more;
            exit(take_turns(&process) ? 0 : 1);
        }
    ends_well = take_turns(&process);
    while (wait(&status) > 0)
        ends_well &= status == 0;
    return ends_well ? 0 : 1;
}

static int end(const char *path)
{
    struct shared *shared = mapped(path);
    printf("%lu operations, log %016lx, %d nodes, %s\n", (unsigned long)shared->done, (unsigned long)shared->log, shared->model.used,
           shared->failed ? "DIFFERENT" : "as the model");
    return shared->failed;
}

int main(int count, char **words)
{
    if (count == 5 && strcmp(words[1], "begin") == 0)
        return begin(words[2], words[3], words[4]);
    if (count == 6 && strcmp(words[1], "take") == 0)
        return take(words[2], words[3], atoi(words[4]), atoi(words[5]));
    if (count == 3 && strcmp(words[1], "end") == 0)
        return end(words[2]);
    return 2;
}
