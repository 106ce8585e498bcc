/* Listening sockets; and what systemd expects of a service, without its library. */
#include "server/http/listen.h"

#include "server/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { FIRST_PASSED = 3, WAITING = 1024 };

static enum pith_status failed(struct pith_error *err, enum pith_status s, const char *host,
                               unsigned port, const char *what)
{
    err->status = s;
    snprintf(err->text, sizeof err->text, "%s port %u: %s", host, port, what);
    return s;
}

/* A socket of systemd's, -1: none, -2: more than one. */
static int passed_socket(void)
{
    const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    int listens = 0;
    socklen_t size = sizeof listens;
    if (!pid || !count || strtol(pid, NULL, 10) != (long)getpid()) return -1;
    const long n = strtol(count, NULL, 10);
    if (n != 1) return n > 1 ? -2 : -1;
    if (getsockopt(FIRST_PASSED, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) < 0 || !listens)
        return -1;
    fcntl(FIRST_PASSED, F_SETFD, FD_CLOEXEC);
    fcntl(FIRST_PASSED, F_SETFL, fcntl(FIRST_PASSED, F_GETFL) | O_NONBLOCK);
    return FIRST_PASSED;
}

static int open_one(const struct addrinfo *a)
{
    const int on = 1;
    const int s = socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s < 0) return -1;
    (void)setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(s, a->ai_addr, a->ai_addrlen) == 0 && listen(s, WAITING) == 0) return s;
    const int why = errno;
    close(s);
    errno = why;
    return -1;
}

/* What to do about an error of a socket; "": nothing is known. */
static const char *hint_of(int why)
{
    static const struct {
        int why;
        const char *hint;
    } rows[] = {{EADDRINUSE, ": --port takes another, 0 any that is free"},
                {EADDRNOTAVAIL, ": --host takes an address of this machine"},
                {EACCES, ": ports below 1024 are not for everybody"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].why == why) return rows[i].hint;
    return "";
}

enum pith_status listen_open(const char *host, unsigned port, int *out, struct pith_error *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *list = NULL;
    char number[16];
    *out = passed_socket();
    if (*out >= 0) return PITH_OK;
    if (*out == -2)
        return failed(err, PITH_ARG, host, port, "systemd hands over more than one socket");
    snprintf(number, sizeof number, "%u", port);
    const int rc = getaddrinfo(host, number, &hints, &list);
    if (rc != 0) return failed(err, PITH_IO, host, port, gai_strerror(rc));
    for (const struct addrinfo *a = list; a && *out < 0; a = a->ai_next) *out = open_one(a);
    const int why = errno;
    freeaddrinfo(list);
    if (*out >= 0) return PITH_OK;
    char text[160];
    snprintf(text, sizeof text, "%s%s", strerror(why), hint_of(why));
    return failed(err, PITH_IO, host, port, text);
}

void listen_address(int socket, char *text, size_t room, bool *reachable)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
        struct sockaddr_un local;
        struct sockaddr_storage most;
    } a = {0};
    socklen_t size = sizeof a;
    char host[64] = "";
    *reachable = false;
    if (getsockname(socket, &a.any, &size) < 0) size = 0;
    if (a.any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &a.four.sin_addr, host, sizeof host);
        *reachable = ntohl(a.four.sin_addr.s_addr) >> 24 != 127;
        snprintf(text, room, "%s:%u", host, (unsigned)ntohs(a.four.sin_port));
    } else if (a.any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &a.six.sin6_addr, host, sizeof host);
        *reachable = !IN6_IS_ADDR_LOOPBACK(&a.six.sin6_addr);
        snprintf(text, room, "[%s]:%u", host, (unsigned)ntohs(a.six.sin6_port));
    } else {
        snprintf(text, room, "a local socket");
    }
}

void server_notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof a.sun_path) return;
    memcpy(a.sun_path, path, strlen(path));
    if (path[0] == '@') a.sun_path[0] = '\0';
    const int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (s < 0) return;
    const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    (void)sendto(s, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&a, size);
    close(s);
}
