/* The rules of a tree: resolution, creation, removal, renaming, as Linux has them. */
#include "model.h"

#include <errno.h>
#include <string.h>

enum { LINKS_IN_A_ROW_MAX = 40 };

void model_begin(struct model *model)
{
    memset(model, 0, sizeof *model);
    struct node *top = &model->nodes[0];
    top->kind = FOLDER;
    top->mode = 0755;
    top->links = 1;
    top->parent = NONE;
    memset(top->entries, 0xff, sizeof top->entries);
    model->used = 1;
}

static struct place walk(const struct model *model, int start, const struct path *path, int follow, int *links);

/* Where a link found in `folder` leads. */
static struct place through(const struct model *model, int folder, int link, int *links)
{
    if (++*links > LINKS_IN_A_ROW_MAX)
        return (struct place){ELOOP, NONE, 0, NONE};
    return walk(model, folder, &model->nodes[link].target, 1, links);
}

static struct place walk(const struct model *model, int start, const struct path *path, int follow, int *links)
{
    int at = path->from_top ? 0 : start;
    for (int part = 0;; part++) {
        int is_last = part == path->count - 1;
        int next = model->nodes[at].entries[path->names[part]];
        struct place here = {0, at, path->names[part], next};
        if (next != NONE && model->nodes[next].kind == LINK && (!is_last || follow)) {
            here = through(model, at, next, links);
            if (here.error || is_last)
                return here;
        } else if (is_last) {
            return here;
        }
        if (here.node == NONE)
            return (struct place){ENOENT, NONE, 0, NONE};
        if (model->nodes[here.node].kind != FOLDER)
            return (struct place){ENOTDIR, NONE, 0, NONE};
        at = here.node;
    }
}

struct place model_find(const struct model *model, const struct path *path, int follow)
{
    int links = 0;
    return walk(model, 0, path, follow, &links);
}

int model_node(const struct model *model, const struct path *path, int follow, int *node)
{
    struct place place = model_find(model, path, follow);
    *node = place.node;
    return place.error ? place.error : place.node == NONE ? ENOENT : 0;
}

int model_make(struct model *model, const struct place *place, enum kind kind, uint16_t mode)
{
    int node = 1;
    while (node < NODES && model->nodes[node].kind != FREE)
        node++;
    if (node == NODES)
        return NONE;
    struct node *made = &model->nodes[node];
    memset(made, 0, sizeof *made);
    made->kind = kind;
    made->mode = mode;
    made->links = 1;
    made->parent = place->folder;
    memset(made->entries, 0xff, sizeof made->entries);
    model->nodes[place->folder].entries[place->name] = node;
    model->used++;
    return node;
}

void model_release(struct model *model, int node)
{
    if (model->nodes[node].links == 0 && model->nodes[node].opens == 0) {
        model->nodes[node].kind = FREE;
        model->used--;
    }
}

void model_unlink(struct model *model, const struct place *place)
{
    model->nodes[place->folder].entries[place->name] = NONE;
    model->nodes[place->node].links--;
    model_release(model, place->node);
}

int model_is_empty(const struct model *model, int folder)
{
    for (int name = 0; name < NAMES; name++)
        if (model->nodes[folder].entries[name] != NONE)
            return 0;
    return 1;
}

/* Is `folder` the node itself or below it? */
static int is_below(const struct model *model, int folder, int node)
{
    for (; folder != NONE; folder = model->nodes[folder].parent)
        if (folder == node)
            return 1;
    return 0;
}

static int may_replace(const struct model *model, const struct place *from, const struct place *to)
{
    int moves_folder = model->nodes[from->node].kind == FOLDER;
    if (is_below(model, to->folder, from->node))
        return EINVAL;
    if (to->node == NONE)
        return 0;
    if (is_below(model, from->folder, to->node))
        return ENOTEMPTY;
    if (moves_folder != (model->nodes[to->node].kind == FOLDER))
        return moves_folder ? ENOTDIR : EISDIR;
    return moves_folder && !model_is_empty(model, to->node) ? ENOTEMPTY : 0;
}

int model_rename(struct model *model, const struct path *from, const struct path *to)
{
    struct place old = model_find(model, from, 0), new = model_find(model, to, 0);
    if (old.error || new.error)
        return old.error ? old.error : new.error;
    if (old.node == NONE)
        return ENOENT;
    if (old.node == new.node)
        return 0;
    int error = may_replace(model, &old, &new);
    if (error)
        return error;
    if (new.node != NONE)
        model_unlink(model, &new);
    model->nodes[old.folder].entries[old.name] = NONE;
    model->nodes[new.folder].entries[new.name] = old.node;
    model->nodes[old.node].parent = new.folder;
    return 0;
}

int model_link(struct model *model, const struct path *from, const struct path *to)
{
    int node, error = model_node(model, from, 0, &node);
    if (error)
        return error;
    struct place new = model_find(model, to, 0);
    if (new.error)
        return new.error;
    if (new.node != NONE)
        return EEXIST;
    if (model->nodes[node].kind == FOLDER)
        return EPERM;
    model->nodes[node].links++;
    model->nodes[new.folder].entries[new.name] = node;
    return 0;
}

void model_resize(struct node *file, uint32_t size)
{
    if (size < file->size)
        memset(file->bytes + size, 0, file->size - size);
    file->size = size;
}

void path_text(const struct path *path, char *text)
{
    for (int part = 0; part < path->count; part++) {
        *text++ = 'a' + path->names[part];
        *text++ = part == path->count - 1 ? 0 : '/';
    }
}
