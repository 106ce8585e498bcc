/* Clients that go away while the connections' thread does not look at their sockets, since they
 * wait for an answer; and those that stall. One thread: it hears of the former at once (epoll), and
 * looks for the latter each second. */
#define _GNU_SOURCE /* POLLRDHUP */
#include "server/http/exchange.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* A connection, from its start on. */
struct link {
    struct link *next, *before;
    int socket;
    double since; /* its start, or the end of its last request */
    bool busy;    /* in the middle of one */
    bool left;    /* the other side had closed it when it was last looked at */
};

static void insert(struct exchange *e)
{
    struct server *s = e->server;
    pthread_mutex_lock(&s->lock);
    e->next = s->exchanges;
    if (e->next) e->next->before = e;
    s->exchanges = e;
    pthread_mutex_unlock(&s->lock);
}

void watch_exchange(struct exchange *e)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.u64 = e->serial};
    struct link *l =
        MHD_get_connection_info(e->connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    insert(e); /* first: the client may be gone already, and is reported once */
    if (epoll_ctl(e->server->poll, EPOLL_CTL_ADD, e->socket, &event) < 0 && errno == EEXIST)
        (void)epoll_ctl(e->server->poll, EPOLL_CTL_MOD, e->socket, &event);
    if (!l) return;
    pthread_mutex_lock(&e->server->lock);
    l->busy = true;
    pthread_mutex_unlock(&e->server->lock);
}

void watch_idle(struct server *s, struct MHD_Connection *connection)
{
    struct link *l =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    if (!l) return;
    pthread_mutex_lock(&s->lock);
    l->busy = false;
    l->since = server_clock();
    pthread_mutex_unlock(&s->lock);
}

void http_connection(void *server, struct MHD_Connection *connection, void **state,
                     enum MHD_ConnectionNotificationCode code)
{
    struct server *s = server;
    struct link *l = *state;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *state = l = calloc(1, sizeof *l);
        if (!l) return;
        l->socket =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        l->since = server_clock();
        pthread_mutex_lock(&s->lock);
        l->next = s->links;
        if (l->next) l->next->before = l;
        s->links = l;
        pthread_mutex_unlock(&s->lock);
    } else if (l) {
        pthread_mutex_lock(&s->lock);
        if (l->before) l->before->next = l->next;
        else s->links = l->next;
        if (l->next) l->next->before = l->before;
        pthread_mutex_unlock(&s->lock);
        free(l);
    }
}

/* The exchange of that number, which stays; NULL when it is over. */
static struct exchange *find(struct server *s, uint64_t serial)
{
    pthread_mutex_lock(&s->lock);
    struct exchange *e = s->exchanges;
    while (e && e->serial != serial) e = e->next;
    if (e) exchange_hold(e);
    pthread_mutex_unlock(&s->lock);
    return e;
}

/* Nobody is there: what runs is cancelled, the connection is closed by its thread. */
static void leave(struct exchange *e)
{
    pthread_mutex_lock(&e->lock);
    const bool over = !e->connection;
    e->gone = true;
    exchange_wake(e);
    pthread_mutex_unlock(&e->lock);
    if (!over) exchange_abandon(e);
}

/* Whether its reader, or who sends it, makes no progress. */
static bool stalls(struct exchange *e, double now)
{
    const double patience = e->server->settings.patience;
    pthread_mutex_lock(&e->lock);
    const bool waits = e->connection && !e->suspended && (e->streaming || !e->whole);
    const bool late = now - e->progressed > patience ||
                      (!e->whole && now - e->began > 4 * patience);
    const bool stuck = waits && late;
    if (e->connection && (stuck || e->gone)) {
        e->gone = true;
        (void)shutdown(e->socket, SHUT_RDWR);
    }
    pthread_mutex_unlock(&e->lock);
    return stuck;
}

/* Whether the other side has closed a connection without a request. MHD does not hear of that when
 * the end comes together with the last bytes. */
static bool was_left(const struct link *l)
{
    struct pollfd p = {.fd = l->socket, .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0;
}

/* Shuts down connections without a request: idle for long, or closed by the other side and still
 * here a second later. Under the lock. */
static void sweep_idle(struct server *s, double now)
{
    for (struct link *l = s->links; l; l = l->next) {
        const bool before = l->left;
        l->left = !l->busy && was_left(l);
        if (!l->busy && ((before && l->left) || now - l->since > 2 * s->settings.patience))
            (void)shutdown(l->socket, SHUT_RDWR);
    }
}

/* Looks at all of them; those that stall are shut down, which their thread hears of. */
static void sweep(struct server *s)
{
    const double now = server_clock();
    enum { MOST = 64 };
    struct exchange *stuck[MOST];
    size_t n = 0;
    pthread_mutex_lock(&s->lock);
    for (struct exchange *e = s->exchanges; e && n < MOST; e = e->next) {
        if (!stalls(e, now)) continue;
        exchange_hold(e);
        stuck[n++] = e;
    }
    sweep_idle(s, now);
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < n; i++) {
        exchange_abandon(stuck[i]);
        exchange_drop(stuck[i]);
    }
}

static void *run(void *server)
{
    enum { MOST = 64, EACH = 1000 };
    struct server *s = server;
    struct epoll_event event[MOST];
    double next = server_clock() + 1;
    while (atomic_load(&s->phase) != SERVER_ENDING) {
        const int n = epoll_wait(s->poll, event, MOST, EACH / 4);
        for (int i = 0; i < n; i++) {
            struct exchange *e = find(s, event[i].data.u64);
            if (!e) continue;
            leave(e);
            exchange_drop(e);
        }
        if (server_clock() < next) continue;
        sweep(s);
        next = server_clock() + 1;
    }
    return NULL;
}

bool watch_start(struct server *s)
{
    s->poll = epoll_create1(EPOLL_CLOEXEC);
    s->watching = s->poll >= 0 && pthread_create(&s->watcher, NULL, run, s) == 0;
    return s->watching;
}

void watch_stop(struct server *s)
{
    if (s->watching) pthread_join(s->watcher, NULL);
    if (s->poll >= 0) close(s->poll);
    s->watching = false;
    s->poll = -1;
}
