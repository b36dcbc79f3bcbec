/* System V and POSIX objects, which have names of their own beside the file system's. */
#include "attack.h"
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

static void shared_memory(void) {
    long id = CALL(shmget, given("SHM_KEY"), 0L, 0);
    must_fail(id, "shmget of an outsider's segment");
    if (id < 0)
        id = given("SHM_ID");
    char *memory = (char *)CALL(shmat, id, 0L, SHM_RDONLY);
    if ((unsigned long)memory < -4096UL)
        must_not_hold(memory, 64, "shmat");
    must_fail((unsigned long)memory < -4096UL ? 0 : (long)memory, "shmat by its number");
    struct shmid_ds status;
    must_fail(CALL(shmctl, id, IPC_STAT, &status), "IPC_STAT");
    must_fail(CALL(shmctl, 0L, SHM_STAT_ANY, &status), "SHM_STAT_ANY");
    must_fail(CALL(shmctl, id, IPC_SET, &status), "IPC_SET");
    must_fail(CALL(shmctl, id, IPC_RMID, 0L), "IPC_RMID");
    for (long other = 0; other < 64; other++) {
        memory = (char *)CALL(shmat, other, 0L, SHM_RDONLY);
        if ((unsigned long)memory < -4096UL) {
            must_not_hold(memory, 64, "shmat by any number");
            must_fail(0, "a segment that lay about");
        }
    }
    /* Allowed where it is in a namespace of their own: the testbed sees whether anybody finds it. */
    CALL(shmget, 0x1234567L, 4096L, IPC_CREAT | 0666);
    all_refused();
}

static void semaphores(void) {
    struct sembuf down = {0, -1, IPC_NOWAIT};
    long id = CALL(semget, given("SEM_KEY"), 0L, 0);
    must_fail(id, "semget of an outsider's set");
    must_fail(CALL(semop, given("SEM_ID"), &down, 1L), "semop by its number");
    must_fail(CALL(semtimedop, given("SEM_ID"), &down, 1L, 0L), "semtimedop by its number");
    must_fail(CALL(semctl, given("SEM_ID"), 0L, SETVAL, 7L), "semctl");
    must_fail(CALL(semctl, given("SEM_ID"), 0L, IPC_RMID, 0L), "IPC_RMID");
    CALL(semget, 0x1234567L, 1L, IPC_CREAT | 0666);
    all_refused();
}

static void message_queues(void) {
    struct { long type; char text[64]; } letter = {1, "attack"};
    must_fail(CALL(msgget, given("MSG_KEY"), 0), "msgget of an outsider's queue");
    must_fail(CALL(msgrcv, given("MSG_ID"), &letter, 64L, 0L, IPC_NOWAIT), "msgrcv by its number");
    must_fail(CALL(msgsnd, given("MSG_ID"), &letter, 6L, IPC_NOWAIT), "msgsnd by its number");
    must_fail(CALL(msgctl, given("MSG_ID"), IPC_RMID, 0L), "IPC_RMID");
    CALL(msgget, 0x1234567L, IPC_CREAT | 0666);
    all_refused();
}

static void posix_queues(void) {
    char text[8192];
    long past[2] = {0, 0}; /* when to give up waiting: at once */
    long queue = CALL(mq_open, getenv("QUEUE"), O_RDWR | O_NONBLOCK, 0, 0L);
    must_fail(queue, "mq_open of an outsider's queue");
    must_fail(queue < 0 ? queue : CALL(mq_timedreceive, queue, text, sizeof text, 0L, past), "mq_receive");
    must_fail(CALL(mq_unlink, getenv("QUEUE")), "mq_unlink");
    struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = 8};
    /* Allowed in a namespace of their own, and left: the testbed sees whether anybody finds it. */
    long made = CALL(mq_open, "heliostat-attack", O_CREAT | O_RDWR, 0666, &attributes);
    for (long number = 0; number < 64; number++)
        if (number != made)
            must_fail(CALL(mq_timedreceive, number, text, sizeof text, 0L, past), "a queue that lay about");
    all_refused();
}

static void posix_shared_memory(void) {
    char path[128];
    snprintf(path, sizeof path, "/dev/shm/%s", getenv("SHM_NAME"));
    must_not_show(CALL(openat, AT_FDCWD, path, O_RDONLY), "an outsider's file in /dev/shm");
    must_fail(CALL(openat, AT_FDCWD, path, O_WRONLY), "an outsider's file in /dev/shm, for writing");
    must_fail(CALL(unlink, path), "an outsider's file in /dev/shm unlinked");
    snprintf(path, sizeof path, "/dev/shm/%s-more", getenv("SHM_NAME"));
    char names[32768];
    long folder = CALL(openat, AT_FDCWD, "/dev/shm", O_RDONLY | O_DIRECTORY);
    long length = folder < 0 ? folder : CALL(getdents64, folder, names, sizeof names);
    must_fail(length > 0 && memmem(names, length, getenv("SHM_NAME"), strlen(getenv("SHM_NAME"))) ? 0 : -ENOENT,
              "an outsider's name in the list of /dev/shm");
    /* Allowed in a folder of their own, and left: the testbed sees whether anybody finds it. */
    CALL(openat, AT_FDCWD, path, O_CREAT | O_RDWR, 0666);
    all_refused();
}

const struct attack ipc_attacks[] = {
    ATTACK(shared_memory, ANYONE),
    ATTACK(semaphores, ANYONE),
    ATTACK(message_queues, ANYONE),
    ATTACK(posix_queues, ANYONE),
    ATTACK(posix_shared_memory, ANYONE),
    {0},
};
