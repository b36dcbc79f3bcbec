/* What a small tree of files must be: the file system as a table, in memory that processes share.
 *
 * A path is a list of names out of six, from the top down; links point to such paths, from their
 * own folder or from the top. Every node has a number; 0 is the top. A file lives as long as a name
 * or an open descriptor leads to it.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stdint.h>
#include <sys/types.h>

enum { NODES = 400, NAMES = 6, PARTS_MAX = 4, BYTES_MAX = 16384, NONE = -1 };
enum kind { FREE, FILE_, FOLDER, LINK };

struct path {
    uint8_t count, from_top, names[PARTS_MAX];
};

struct node {
    uint8_t kind;
    uint16_t mode;
    int16_t links, opens, parent;
    int16_t entries[NAMES]; /* of a folder */
    struct path target;     /* of a link */
    uint32_t size;
    uint8_t bytes[BYTES_MAX]; /* of a file; zero behind its size */
};

struct model {
    struct node nodes[NODES];
    int used;
};

/* Where a path leads: the folder and the name of its last part, and the node, NONE if there is none. */
struct place {
    int error, folder, name, node;
};

void model_begin(struct model *model);
/* Follows every link, the last one only if `follow`. A path that leads nowhere: ENOENT in `error`
 * only if its folder is not there either. */
struct place model_find(const struct model *model, const struct path *path, int follow);
/* The same for a path that has to lead to something: 0, or the errno. */
int model_node(const struct model *model, const struct path *path, int follow, int *node);
/* A new node under that name, NONE when the table is full. */
int model_make(struct model *model, const struct place *place, enum kind kind, uint16_t mode);
void model_unlink(struct model *model, const struct place *place);
/* Frees a node to which nothing leads any more. */
void model_release(struct model *model, int node);
int model_is_empty(const struct model *model, int folder);
/* 0, or the errno of a rename. */
int model_rename(struct model *model, const struct path *from, const struct path *to);
int model_link(struct model *model, const struct path *from, const struct path *to);
void model_resize(struct node *file, uint32_t size);
/* The path as text, relative to the top. */
void path_text(const struct path *path, char *text);

#endif
