/* Files by way of the control plane's server loops, which see more than a sealed program may.
 *
 * The policy lets the program delegate. It speaks docs/delegated.md and docs/ring.md itself, and asks
 * the loops for what it may not open: by names, by descriptors that give less, and while names change.
 */
#include "control.h"
#include <linux/futex.h>
#include <time.h>

enum { DELEGATE = 18, SHOW_FILE = 19, SHRINK = 2, WINDOW = 1 << 16, NAMES = 1 << 15, RINGS = 94208 };
enum { SUBMISSION_BYTES = 1 << 16, COMPLETION_AT = 69632, COMPLETION_BYTES = 1 << 14, DATA = 4096 };
enum { HEAD = 0x80, TAIL = 0x100, CONSUMER_BELL = 0x180, PRODUCER_BELL = 0x200 };
enum { READ = 1, WRITE = 2, APPEND = 3, OPEN = 5, CLOSE = 7, TRUNCATE = 9, MKDIR = 10, RMDIR = 11, UNLINK = 12, RENAME = 13,
       SYMLINK = 14, READDIR = 16, LOCK = 17 };
enum { TO_READ = 1, TO_WRITE = 2, TO_CREATE = 16, TO_EMPTY = 64, AS_FOLDER = 128, LOCK_ALONE_NOW = 2 + 4 };
enum { EXCHANGE = 2, SECONDS = 20 };

struct session {
    long socket;
    unsigned char *window, *rings;
    uint64_t head, tail, tag;
};

struct file { uint32_t index, generation; };
struct piece { uint64_t offset; uint32_t bytes, zero; };
struct operation {
    uint8_t kind, zero, pieces, zeroes;
    uint32_t timeout;
    struct file file;
    uint64_t offset, tag, argument;
    struct piece piece[2];
};
struct completion { uint64_t tag; int64_t result; uint32_t generation; uint8_t way, zero[3]; };

static void begin(struct session *session) {
    memset(session, 0, sizeof *session);
    session->socket = need(control(), "the control plane");
    need(greet(session->socket), "a session");
    int window = sealed_memory("window", WINDOW, "", 1, SHRINK), rings = -1;
    need(ask_with(session->socket, DELEGATE, "", 0, &window, 1, &rings), "delegated operations");
    session->window = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED, window, 0);
    session->rings = mmap(NULL, RINGS, PROT_READ | PROT_WRITE, MAP_SHARED, rings, 0);
    need(session->window == MAP_FAILED || session->rings == MAP_FAILED ? -ENOMEM : 0, "mapping the session");
}

static void ring_bell(unsigned char *bell) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n((uint32_t *)bell, __ATOMIC_RELAXED) && __atomic_exchange_n((uint32_t *)bell, 0, __ATOMIC_SEQ_CST))
        CALL(futex, bell, FUTEX_WAKE, INT32_MAX, 0L, 0L, 0L);
}

static uint64_t *word(unsigned char *ring, uint64_t position, uint64_t bytes) {
    return (uint64_t *)(ring + DATA + (position & (bytes - 1)));
}

static void submit(struct session *session, struct operation *operation) {
    operation->tag = ++session->tag;
    uint64_t length = offsetof(struct operation, piece) + operation->pieces * sizeof(struct piece);
    uint64_t span = 8 + length, at = session->head;
    uint64_t *header = word(session->rings, at, SUBMISSION_BYTES);
    *word(session->rings, at + span, SUBMISSION_BYTES) = 0;
    for (uint64_t done = 0; done < length; done += 8)
        *word(session->rings, at + 8 + done, SUBMISSION_BYTES) = ((uint64_t *)operation)[done / 8];
    uint64_t lap = at / 8 & ((1 << 30) - 1);
    __atomic_store_n(header, length | 1ull << 32 | lap << 34, __ATOMIC_RELEASE);
    session->head += span;
    __atomic_store_n((uint64_t *)(session->rings + HEAD), session->head, __ATOMIC_RELEASE);
    ring_bell(session->rings + CONSUMER_BELL);
}

/* The next completion. */
static struct completion completed(struct session *session) {
    unsigned char *ring = session->rings + COMPLETION_AT;
    struct completion done;
    time_t end = time(NULL) + SECONDS;
    while (!__atomic_load_n(word(ring, session->tail, COMPLETION_BYTES), __ATOMIC_ACQUIRE)) {
        if (time(NULL) > end)
            untried("the server loop does not answer");
        CALL(sched_yield);
    }
    for (size_t at = 0; at < sizeof done; at += 8)
        memcpy((char *)&done + at, word(ring, session->tail + 8 + at, COMPLETION_BYTES), 8);
    session->tail += 8 + sizeof done;
    __atomic_store_n((uint64_t *)(ring + TAIL), session->tail, __ATOMIC_RELEASE);
    ring_bell(ring + PRODUCER_BELL);
    return done;
}

static int64_t perform(struct session *session, struct operation operation, struct file *file) {
    submit(session, &operation);
    struct completion done = completed(session);
    if (file)
        *file = (struct file){(uint32_t)done.result, done.generation};
    return done.result;
}

/* An operation on up to two names. */
static int64_t names(struct session *session, uint8_t kind, const char *one, const char *other, uint64_t argument, struct file *file) {
    const char *const all[] = {one, other};
    struct operation operation = {.kind = kind, .argument = argument};
    uint64_t at = NAMES;
    for (int i = 0; i < 2 && all[i]; i++, operation.pieces++) {
        size_t length = strlen(all[i]);
        memcpy(session->window + at, all[i], length);
        operation.piece[i] = (struct piece){at, (uint32_t)length, 0};
        at += length;
    }
    return perform(session, operation, file);
}

static int64_t on(struct session *session, uint8_t kind, struct file file, uint64_t argument) {
    struct operation operation = {.kind = kind, .file = file, .argument = argument};
    if (kind == READ || kind == WRITE || kind == APPEND || kind == READDIR) {
        operation.pieces = 1;
        operation.piece[0] = (struct piece){0, kind == READ || kind == READDIR ? 4096 : 1, 0};
    }
    return perform(session, operation, NULL);
}

/* Has the loop open a descriptor anew. */
static int64_t show(struct session *session, long descriptor, struct file *file) {
    struct { uint64_t tag; uint32_t direct, buffered; } body = {++session->tag, 0, 0};
    int fd = (int)descriptor;
    long asked = descriptor < 0 ? descriptor : ask_with(session->socket, SHOW_FILE, &body, sizeof body, &fd, 1, NULL);
    if (asked < 0)
        return asked;
    struct completion done = completed(session);
    *file = (struct file){(uint32_t)done.result, done.generation};
    return done.result;
}

/* What a file that was opened holds must not be the secret. Closes it. */
static void must_not_read(struct session *session, int64_t opened, struct file file, const char *what) {
    if (opened < 0) {
        must_fail(opened, what);
        return;
    }
    memset(session->window, 0, 4096);
    int64_t length = on(session, READ, file, 0);
    must_not_hold((char *)session->window, length > 0 ? (size_t)length : 0, what);
    on(session, CLOSE, file, 0);
}

static void delegated_names(void) {
    struct session session;
    begin(&session);
    static const char *const ways[] = {"outside/secret", "rw/../outside/secret", "rw/planted", "rw/planted-folder/secret", "shown/secret",
                                       "data/looked/secret"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct file file;
        must_not_read(&session, names(&session, OPEN, at(ways[i]), NULL, TO_READ, &file), file, ways[i]);
    }
    struct file folder;
    must_fail(names(&session, OPEN, at("outside"), NULL, TO_READ | AS_FOLDER, &folder), "a folder outside opened");
    must_fail(names(&session, OPEN, at("outside/loose"), NULL, TO_WRITE | TO_EMPTY, NULL), "emptied");
    must_fail(names(&session, OPEN, at("outside/made"), NULL, TO_WRITE | TO_CREATE | 0600ull << 16, NULL), "made");
    must_fail(names(&session, OPEN, at("ro/note"), NULL, TO_WRITE, NULL), "written in a grant for reading");
    must_fail(names(&session, MKDIR, at("outside/folder"), NULL, 0700, NULL), "a folder made");
    must_fail(names(&session, RENAME, at("outside/loose"), at("rw/taken"), 0, NULL), "renamed");
    must_fail(names(&session, SYMLINK, "secret", at("outside/link"), 0, NULL), "a link made");
    must_fail(names(&session, UNLINK, at("outside/link-to-secret"), NULL, 0, NULL), "unlinked");
    must_fail(names(&session, RMDIR, at("outside/empty"), NULL, 0, NULL), "a folder removed");
    must_fail(names(&session, UNLINK, at("ro/note"), NULL, 0, NULL), "unlinked in a grant for reading");
    all_refused();
}

/* Descriptors that give less than a file that is opened anew could. */
static void delegated_descriptors(void) {
    struct session session;
    struct file file;
    begin(&session);
    // One that gives all: the attack proves nothing where this does not work.
    long own = own_file("rw/delegated", "own\n");
    need(show(&session, own, &file), "a file of one's own shown");
    need(on(&session, READ, file, 0), "and read");
    for (int i = 0; i < 2; i++) {
        const char *looked = i ? "shown/secret" : "data/looked/secret";
        long by_path = CALL(openat, AT_FDCWD, at(looked), O_PATH);
        must_not_read(&session, show(&session, by_path, &file), file, looked);
    }
    // Standard errors lead into a log that holds the secret, and were opened for appending.
    must_not_read(&session, show(&session, 2, &file), file, "the log read");
    long granted = need(CALL(openat, AT_FDCWD, at("ro/public"), O_RDONLY), "a granted file");
    need(show(&session, granted, &file), "and shown");
    must_fail(on(&session, WRITE, file, 0), "written by a descriptor for reading");
    must_fail(on(&session, APPEND, file, 0), "appended by a descriptor for reading");
    must_fail(on(&session, TRUNCATE, file, 0), "emptied by a descriptor for reading");
    must_fail(on(&session, LOCK, file, LOCK_ALONE_NOW), "others kept waiting by a descriptor for reading");
    static const char *const others[] = {"/dev/null", "/proc/self/mem", "/proc/self/maps", "/dev/tty"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        must_fail(show(&session, CALL(openat, AT_FDCWD, others[i], O_RDONLY), &file), others[i]);
    all_refused();
}

static void exchange(void) {
    for (;;)
        CALL(renameat2, AT_FDCWD, at("rw/turncoat"), AT_FDCWD, at("rw/coat"), EXCHANGE);
}

/* What the supervisor opens is what is shown, whatever the name means by then. */
static void delegated_race(void) {
    struct session session;
    struct file file;
    begin(&session);
    own_file("rw/turncoat", "harmless\n");
    need(CALL(symlink, at("outside/secret"), at("rw/coat")), "symlink");
    beside(exchange);
    while (racing()) {
        long opened = CALL(openat, AT_FDCWD, at("rw/turncoat"), O_RDONLY);
        must_not_read(&session, show(&session, opened, &file), file, "the link won");
        must_not_read(&session, names(&session, OPEN, at("rw/turncoat"), NULL, TO_READ, &file), file, "the link won by its name");
        CALL(close, opened);
    }
    all_refused();
}

static struct session inherited;
static volatile long *told;

static void in_inheritor(void) {
    struct file file;
    told[0] = names(&inherited, OPEN, at("outside/secret"), NULL, TO_READ, &file);
    told[1] = names(&inherited, UNLINK, at("outside/link-to-secret"), NULL, 0, NULL);
}

/* The session goes on in a child, by the memory and the socket that it has inherited. */
static void delegated_inherited(void) {
    begin(&inherited);
    // What fork copies of shared memory is shared.
    told = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (in_child(in_inheritor))
        untried("the child was ended");
    must_fail(told[0], "the secret opened by a child");
    must_fail(told[1], "unlinked by a child");
    all_refused();
}

const struct attack delegated_attacks[] = {
    ATTACK(delegated_names, ANYONE),
    ATTACK(delegated_descriptors, ANYONE),
    ATTACK(delegated_race, ANYONE),
    ATTACK(delegated_inherited, ANYONE),
    {0},
};
