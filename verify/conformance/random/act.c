/* Operations on names: each draws its arguments, asks the model, asks the system, and compares. */
#include "act.h"

#include "open_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A path as it is given to a call: by name from the current folder, by an absolute name, or from
 * the descriptor of the top. */
struct given {
    int dir;
    struct path path;
    char text[1100];
};

uint32_t drawn(struct shared *shared, uint32_t below)
{
    uint64_t x = shared->chance;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    shared->chance = x;
    return (uint32_t)((x >> 16) % below);
}

static struct path draw_path(struct shared *shared, int from_top)
{
    struct path path = {.from_top = from_top};
    path.count = 1 + drawn(shared, 8) / 3;
    for (int part = 0; part < path.count; part++)
        path.names[part] = drawn(shared, NAMES);
    return path;
}

static void give(const struct process *process, uint32_t form, struct given *given)
{
    char relative[32];
    path_text(&given->path, relative);
    given->dir = form == 2 ? process->top : AT_FDCWD;
    snprintf(given->text, sizeof given->text, "%s%s%s", form == 1 ? process->tree : "", form == 1 ? "/" : "", relative);
}

static struct given draw(struct process *process)
{
    struct given given = {.path = draw_path(process->shared, 0)};
    give(process, drawn(process->shared, 3), &given);
    return given;
}

int agrees(struct process *process, const char *what, const char *text, int expected, int error)
{
    struct shared *shared = process->shared;
    for (const char *at = what; *at; at++)
        shared->log = (shared->log ^ (uint8_t)*at) * 0x100000001b3;
    shared->log = (shared->log ^ (uint64_t)(error + 1)) * 0x100000001b3;
    if (expected == error)
        return 1;
    printf("operation %lu, process %d, %s %s: %s, expected %s\n", (unsigned long)shared->done, process->number, what, text,
           error ? strerrorname_np(error) : "success", expected ? strerrorname_np(expected) : "success");
    return 0;
}

static int outcome(long result)
{
    return result < 0 ? errno : 0;
}

static int makes_folder(struct process *process)
{
    struct model *model = &process->shared->model;
    struct given at = draw(process);
    struct place place = model_find(model, &at.path, 0);
    int expected = place.error ? place.error : place.node != NONE ? EEXIST : 0;
    if (!expected && model_make(model, &place, FOLDER, 0755) == NONE)
        return 1;
    return agrees(process, "mkdir", at.text, expected, outcome(mkdirat(at.dir, at.text, 0755)));
}

static int makes_link(struct process *process)
{
    char target[1100], relative[32];
    struct model *model = &process->shared->model;
    struct given at = draw(process);
    struct path to = draw_path(process->shared, drawn(process->shared, 2));
    struct place place = model_find(model, &at.path, 0);
    int expected = place.error ? place.error : place.node != NONE ? EEXIST : 0;
    if (!expected) {
        int node = model_make(model, &place, LINK, 0777);
        if (node == NONE)
            return 1;
        model->nodes[node].target = to;
    }
    path_text(&to, relative);
    snprintf(target, sizeof target, "%s%s%s", to.from_top ? process->tree : "", to.from_top ? "/" : "", relative);
    return agrees(process, "symlink", at.text, expected, outcome(symlinkat(target, at.dir, at.text)));
}

static int removes(struct process *process)
{
    struct model *model = &process->shared->model;
    struct given at = draw(process);
    struct place place = model_find(model, &at.path, 0);
    int is_folder = place.node != NONE && model->nodes[place.node].kind == FOLDER;
    int asks_folder = drawn(process->shared, 4) ? is_folder : !is_folder;
    int expected = place.error ? place.error : place.node == NONE ? ENOENT : 0;
    if (!expected && asks_folder != is_folder)
        expected = is_folder ? EISDIR : ENOTDIR;
    if (!expected && is_folder && !model_is_empty(model, place.node))
        expected = ENOTEMPTY;
    if (!expected)
        model_unlink(model, &place);
    return agrees(process, "unlink", at.text, expected, outcome(unlinkat(at.dir, at.text, asks_folder ? AT_REMOVEDIR : 0)));
}

static int renames(struct process *process)
{
    struct given from = draw(process), to = draw(process);
    int expected = model_rename(&process->shared->model, &from.path, &to.path);
    return agrees(process, "rename", from.text, expected, outcome(renameat(from.dir, from.text, to.dir, to.text)));
}

static int links(struct process *process)
{
    struct given from = draw(process), to = draw(process);
    int expected = model_link(&process->shared->model, &from.path, &to.path);
    return agrees(process, "link", from.text, expected, outcome(linkat(from.dir, from.text, to.dir, to.text, 0)));
}

int status_agrees(struct process *process, const char *what, int node, const struct stat *status)
{
    const struct node *known = &process->shared->model.nodes[node];
    static const mode_t kinds[] = {0, S_IFREG, S_IFDIR, S_IFLNK};
    int same = status->st_mode == (kinds[known->kind] | known->mode);
    if (known->kind == FILE_)
        same &= status->st_size == known->size && status->st_nlink == (nlink_t)known->links;
    if (!same)
        printf("operation %lu, %s: mode %o size %ld links %ld, expected %o %u %d\n", (unsigned long)process->shared->done, what,
               status->st_mode, (long)status->st_size, (long)status->st_nlink, known->mode, known->size, known->links);
    return same;
}

static int asks(struct process *process)
{
    struct stat status;
    int node, follow = drawn(process->shared, 2);
    struct given at = draw(process);
    int expected = model_node(&process->shared->model, &at.path, follow, &node);
    int error = outcome(fstatat(at.dir, at.text, &status, follow ? 0 : AT_SYMLINK_NOFOLLOW));
    return agrees(process, follow ? "stat" : "lstat", at.text, expected, error)
        && (error || status_agrees(process, at.text, node, &status));
}

static int reads_link(struct process *process)
{
    char target[1100], relative[32], expects[1100];
    int node;
    struct given at = draw(process);
    struct model *model = &process->shared->model;
    int expected = model_node(model, &at.path, 0, &node);
    if (!expected && model->nodes[node].kind != LINK)
        expected = EINVAL;
    ssize_t length = readlinkat(at.dir, at.text, target, sizeof target - 1);
    if (!agrees(process, "readlink", at.text, expected, outcome(length)) || length < 0)
        return length < 0 && expected;
    target[length] = 0;
    const struct path *to = &model->nodes[node].target;
    path_text(to, relative);
    snprintf(expects, sizeof expects, "%s%s%s", to->from_top ? process->tree : "", to->from_top ? "/" : "", relative);
    return strcmp(target, expects) == 0 || !printf("readlink %s: %s, expected %s\n", at.text, target, expects);
}

static int sets_mode(struct process *process)
{
    int node;
    struct given at = draw(process);
    struct model *model = &process->shared->model;
    mode_t mode = 0600 | drawn(process->shared, 0100);
    int expected = model_node(model, &at.path, 1, &node);
    if (!expected) {
        if (model->nodes[node].kind == FOLDER)
            mode |= 0700;
        model->nodes[node].mode = mode;
    }
    return agrees(process, "chmod", at.text, expected, outcome(fchmodat(at.dir, at.text, mode, 0)));
}

static int shortens(struct process *process)
{
    int node;
    struct given at = draw(process);
    struct model *model = &process->shared->model;
    uint32_t size = drawn(process->shared, BYTES_MAX);
    int expected = model_node(model, &at.path, 1, &node);
    if (!expected && model->nodes[node].kind == FOLDER)
        expected = EISDIR;
    if (!expected)
        model_resize(&model->nodes[node], size);
    give(process, drawn(process->shared, 2), &at);
    return agrees(process, "truncate", at.text, expected, outcome(truncate(at.text, size)));
}

/* The names of a folder are those of the model, whatever their order. */
static int lists(struct process *process)
{
    int node, names = 0, expected_names = 0;
    struct given at = draw(process);
    struct model *model = &process->shared->model;
    int expected = model_node(model, &at.path, 1, &node);
    if (!expected && model->nodes[node].kind != FOLDER)
        expected = ENOTDIR;
    int fd = openat(at.dir, at.text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!agrees(process, "readdir", at.text, expected, outcome(fd)) || fd < 0)
        return fd < 0 && expected;
    DIR *folder = fdopendir(fd);
    for (struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.')
            names |= entry->d_name[1] ? 1 << 30 : 1 << (entry->d_name[0] - 'a');
    closedir(folder);
    for (int name = 0; name < NAMES; name++)
        expected_names |= (model->nodes[node].entries[name] != NONE) << name;
    return names == expected_names || !printf("readdir %s: %x, expected %x\n", at.text, names, expected_names);
}

static int opens(struct process *process)
{
    struct given at = draw(process);
    return open_one(process, &at.path, at.dir, at.text);
}

/* A child asks for itself, from what it has inherited. */
static int child_asks(struct process *process)
{
    int status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int ends_well = asks(process) && use_one(process);
        fflush(stdout);
        _exit(ends_well ? 0 : 1);
    }
    waitpid(child, &status, 0);
    return status == 0;
}

int act(struct process *process)
{
    static const struct {
        int (*run)(struct process *);
        int weight;
    } rows[] = {
        {use_one, 320}, {opens, 90}, {asks, 90}, {makes_folder, 40}, {makes_link, 20}, {removes, 110}, {renames, 70},
        {links, 30}, {reads_link, 25}, {sets_mode, 30}, {shortens, 30}, {lists, 30}, {child_asks, 1},
    };
    int total = 0, which = 0;
    for (size_t at = 0; at < sizeof rows / sizeof *rows; at++)
        total += rows[at].weight;
    int left = drawn(process->shared, total);
    while (left >= rows[which].weight)
        left -= rows[which++].weight;
    /* Room is kept in the table, so that creation goes on. */
    if (process->shared->model.used > NODES * 3 / 4 && drawn(process->shared, 2))
        return removes(process);
    return rows[which].run(process);
}
