/* A static program in C: files, folders, threads, children, pipes and signals by libc.
 *
 * Prints what it saw; nothing printed depends on time or process numbers. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void files(void) {
    mkdir("c", 0755);
    for (int i = 0; i < 100; i++) {
        char name[32];
        snprintf(name, sizeof name, "c/f%d", i);
        FILE *file = fopen(name, "w");
        fprintf(file, "%0*d", i, 1);
        fclose(file);
    }
    long sum = 0, count = 0;
    struct stat st;
    DIR *folder = opendir("c");
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        fstatat(dirfd(folder), entry->d_name, &st, 0);
        sum += st.st_size, count++;
    }
    closedir(folder);
    printf("files %ld bytes %ld\n", count, sum);
    int fd = open("c/f99", O_RDWR);
    char *map = mmap(NULL, 99, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    memcpy(map, "mapped", 6);
    char back[7] = {0};
    pread(fd, back, 6, 0);
    printf("%s\n", back);
    munmap(map, 99), close(fd);
    rename("c/f1", "c/g1"), symlink("g1", "c/s1"), link("c/g1", "c/h1");
    printf("%d %d %d\n", access("c/s1", R_OK), lstat("c/f1", &st) ? errno : 0, rmdir("c") ? errno : 0);
    printf("%d %d\n", open("/etc/passwd", O_RDONLY) >= 0, open("c/none/x", O_RDONLY) < 0 ? errno : 0);
}

static void *one(void *argument) {
    char name[32];
    for (long i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "t%ld.%ld", (long)argument, i);
        int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);
        if (fd < 0 || write(fd, name, strlen(name)) < 0) return (void *)1;
        close(fd);
        if (unlink(name)) return (void *)2;
    }
    return NULL;
}

static void threads(void) {
    pthread_t all[8];
    long bad = 0;
    for (long i = 0; i < 8; i++) pthread_create(&all[i], NULL, one, (void *)i);
    for (int i = 0; i < 8; i++) {
        void *result;
        pthread_join(all[i], &result);
        bad += (long)result;
    }
    printf("threads %ld\n", bad);
}

static volatile sig_atomic_t seen;
static void on_signal(int number) { seen = number; }

static void children(void) {
    extern char **environ;
    char *words[] = {"sh", "-c", "cat; exit 7", NULL};
    int pipes[2], status;
    pid_t pid;
    posix_spawn_file_actions_t actions;
    pipe(pipes);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipes[0], 0);
    posix_spawn_file_actions_addclose(&actions, pipes[1]);
    fflush(stdout);
    posix_spawnp(&pid, "sh", &actions, NULL, words, environ);
    write(pipes[1], "to the child\n", 13), close(pipes[1]);
    waitpid(pid, &status, 0);
    printf("child %d\n", WEXITSTATUS(status));
    signal(SIGUSR1, on_signal);
    if ((pid = fork()) == 0) kill(getppid(), SIGUSR1), _exit(3);
    waitpid(pid, &status, 0);
    printf("signal %d status %d\n", seen == SIGUSR1, WEXITSTATUS(status));
    if ((pid = fork()) == 0) pause(), _exit(0);
    kill(pid, SIGKILL), waitpid(pid, &status, 0);
    printf("killed by %d\n", WTERMSIG(status));
    FILE *shell = popen("echo popen", "r");
    char line[32] = "";
    fgets(line, sizeof line, shell);
    printf("%s%d\n", line, WEXITSTATUS(pclose(shell)));
}

int main(int count, char **words) {
    files(), threads(), children();
    for (int i = 1; i < count; i++) printf("word %s\n", words[i]);
    return 21;
}
