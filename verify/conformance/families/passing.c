/* Descriptors in messages: what arrives shares its offset with what was sent. */
#include "../case.h"

#include <sys/socket.h>

static void passed(void)
{
    int ends[2], fd = DO(open("file", O_RDONLY));
    char byte = 'x', room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    DO(lseek(fd, 4, SEEK_SET));
    CALL(sendmsg(ends[0], &message, 0));
    close(fd);
    CALL(recvmsg(ends[1], &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT));
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    CALL(lseek(fd, 0, SEEK_CUR));
    CALL(fcntl(fd, F_GETFD));
    CALL(read(fd, &byte, 1));
    SHOW("byte", "%c", byte);
}

const struct part passing_parts[] = {
    {"passed", passed}, {0},
};
