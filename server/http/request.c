/* Requests of HTTP as they come in: who may request what, bodies piece by piece, answers as they
 * are there. All in the connections' thread. */
#include "server/completion.h"
#include "server/http/origin.h"
#include "server/routes.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

static const struct http_route routes[] = {
#define ROUTE(method, path, handle, flags) {method, path, handle, flags},
#include "server/routes.def"
#undef ROUTE
};
enum { ROUTES = sizeof routes / sizeof routes[0] };

/* Whether the path is the route's, or begins with it where more may follow. */
static bool is_path(const struct http_route *route, const char *path)
{
    const size_t n = strlen(route->path);
    if (!(route->flags & ROUTE_MORE)) return strcmp(route->path, path) == 0;
    return strncmp(route->path, path, n) == 0 && path[n] != '\0';
}

/* The path of a route that is probably meant: with /v1 before it, or up to two letters more or less
 * at its end. NULL: none. */
static const char *route_meant(const char *path)
{
    char longer[256];
    snprintf(longer, sizeof longer, "/v1%.200s", path);
    for (size_t i = 0; i < ROUTES; i++) {
        const char *own = routes[i].path;
        const size_t n = strlen(path), most = strlen(own);
        if (is_path(&routes[i], longer)) return own;
        const bool part = n + 2 >= most && n <= most + 2; /* a slash, an s, a letter */
        if (n > 4 && part && strncmp(own, path, n < most ? n : most) == 0) return own;
    }
    return NULL;
}

const struct http_route *route_find(const char *method, const char *path, const char **others,
                                    struct refusal *r)
{
    const bool head = strcmp(method, "HEAD") == 0;
    *others = NULL;
    for (size_t i = 0; i < ROUTES; i++) {
        if (!is_path(&routes[i], path)) continue;
        if (strcmp(routes[i].method, head ? "GET" : method) == 0) return &routes[i];
        *others = strcmp(routes[i].method, "GET") == 0 ? "GET, HEAD" : routes[i].method;
    }
    if (*others) {
        (void)refuse(r, 405, NULL, "%.20s is not for %.200s; %s is", method, path, *others);
        return NULL;
    }
    const char *meant = route_meant(path);
    (void)refuse(r, 404, NULL, "there is no %.20s %.200s%s%s%s", method, path,
                 meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
    return NULL;
}

/* --- clients ---------------------------------------------------------------------------------- */

static const char *header(struct MHD_Connection *c, const char *name)
{
    return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

/* The address of the other side; its hash distinguishes clients without keys. */
static void note_peer(struct exchange *e, struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *a = info ? info->client_addr : NULL;
    snprintf(e->peer, sizeof e->peer, "local");
    if (a && a->sa_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)a)->sin_addr, e->peer,
                  sizeof e->peer);
    else if (a && a->sa_family == AF_INET6)
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, e->peer,
                  sizeof e->peer);
    e->client = 1469598103934665603u;
    for (const char *p = e->peer; *p; p++) e->client = (e->client ^ (uint8_t)*p) * 1099511628211u;
}

/* Clients give their key as OpenAI's do, as Anthropic's, or as Azure's. */
static bool check_caller(struct exchange *e, struct MHD_Connection *c, struct refusal *r)
{
    static const char bearer[] = "Bearer ";
    const struct server *s = e->server;
    const char *given = header(c, "Authorization");
    const bool bears = given && strncasecmp(given, bearer, sizeof bearer - 1) == 0;
    const char *const keys[] = {bears ? given + sizeof bearer - 1 : NULL, header(c, "x-api-key"),
                                header(c, "api-key")};
    bool any = given != NULL;
    if (!s->keys || (e->route->flags & ROUTE_OPEN)) return true;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (keys[i] && keys_allow(s->keys, keys[i], &e->client)) return true;
        any = any || keys[i];
    }
    return refuse(r, 401, NULL, "%s",
                  any ? "the API key is wrong"
                      : "an API key is needed: "
                        "Authorization: Bearer KEY");
}

static bool check_phase(const struct exchange *e, struct refusal *r)
{
    const int phase = atomic_load(&e->server->phase);
    if (phase == SERVER_READY || (e->route->flags & ROUTE_EARLY)) return true;
    (void)refuse(r, 503, NULL, phase == SERVER_LOADING ? "Loading model" : "the server ends");
    snprintf(r->code, sizeof r->code, phase == SERVER_LOADING ? "loading" : "draining");
    return false;
}

static bool check_size(const struct exchange *e, struct MHD_Connection *c, struct refusal *r)
{
    const char *length = header(c, "Content-Length");
    const size_t most = e->server->settings.body;
    if (!length || strtoull(length, NULL, 10) <= most) return true;
    return refuse(r, 413, NULL, "the body is larger than %zu bytes", most);
}

/* Bodies are taken as they are. */
static bool check_coding(const struct exchange *e, struct MHD_Connection *c, struct refusal *r)
{
    const char *coding = header(c, "Content-Encoding");
    if (!coding || !*coding || strcasecmp(coding, "identity") == 0 ||
        strcmp(e->route->method, "GET") == 0)
        return true;
    return refuse(r, 415, NULL, "a body in %.40s is not taken: send it as it is", coding);
}

/* The client's own number of the request, or one that is made. */
static void name_request(struct exchange *e, struct MHD_Connection *c)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "-_.:/+=@";
    const char *given = header(c, "x-request-id");
    const size_t n = given ? strlen(given) : 0;
    uint64_t number[2] = {0};
    if (n > 0 && n < sizeof e->name && strspn(given, letters) == n) {
        memcpy(e->name, given, n + 1);
        return;
    }
    if (getrandom(number, sizeof number, GRND_NONBLOCK) < 0) number[0] = e->serial;
    snprintf(e->name, sizeof e->name, "req_%016llx%016llx", (unsigned long long)number[0],
             (unsigned long long)number[1]);
}

/* --- the exchange ----------------------------------------------------------------------------- */

static struct exchange *begin(struct server *s, struct MHD_Connection *c, const char *url,
                              const char *method)
{
    struct exchange *e = calloc(1, sizeof *e);
    struct refusal r = {0};
    if (!e) return NULL;
    pthread_mutex_init(&e->lock, NULL);
    e->references = 1;
    e->server = s;
    e->connection = c;
    e->serial = atomic_fetch_add(&s->serial, 1) + 1;
    e->began = e->progressed = server_clock();
    e->head = strcmp(method, "HEAD") == 0;
    e->socket = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    snprintf(e->method, sizeof e->method, "%s", method);
    snprintf(e->path, sizeof e->path, "%s", url);
    note_peer(e, c);
    name_request(e, c);
    watch_exchange(e);
    const bool may = origin_check(s, c, &r);
    if (may && s->settings.cors && strcmp(method, "OPTIONS") == 0)
        exchange_answer(e, 204, NULL, &(struct buffer){0});
    else if (!may || !(e->route = route_find(method, url, &e->methods, &r)) ||
             !check_caller(e, c, &r) || !check_phase(e, &r) || !check_size(e, c, &r) ||
             !check_coding(e, c, &r))
        exchange_refuse(e, &r);
    else if ((e->route->flags & ROUTE_MORE) && !(e->rest = strdup(url + strlen(e->route->path))))
        exchange_json(e, 503, NULL);
    return e;
}

static void receive(struct exchange *e, const char *bytes, size_t size)
{
    struct server *s = e->server;
    struct refusal r = {0};
    pthread_mutex_lock(&e->lock);
    e->progressed = server_clock();
    pthread_mutex_unlock(&e->lock);
    if (e->answered) return;
    if (e->body.size + size > s->settings.body)
        (void)refuse(&r, 413, NULL, "the body is larger than %zu bytes", s->settings.body);
    else if (atomic_fetch_add(&s->body_bytes, size) + size > s->settings.body_bytes) {
        atomic_fetch_sub(&s->body_bytes, size);
        (void)refuse(&r, 503, NULL, "too many large requests at once");
    } else {
        buffer_add(&e->body, bytes, size);
        if (e->body.failed) (void)refuse_failure(&r, PITH_NOMEM, NULL);
    }
    if (r.status) exchange_refuse(e, &r);
}

/* The connection waits from here on, unless its client has gone already. */
static bool suspend(struct exchange *e)
{
    pthread_mutex_lock(&e->lock);
    const bool gone = e->gone;
    if (!gone) {
        e->suspended = true;
        MHD_suspend_connection(e->connection);
    }
    pthread_mutex_unlock(&e->lock);
    return !gone;
}

/* The request is whole: it is answered here, or (true) by a worker while the connection waits. */
static bool start(struct exchange *e)
{
    enum { MOST_SLOW = 64 };
    struct server *s = e->server;
    const bool slow = e->route->flags & ROUTE_SLOW;
    struct refusal r = {0};
    if (strcmp(e->route->method, "GET") == 0) {
        e->route->handle(e);
        return false;
    }
    if (!check_phase(e, &r)) {
        exchange_refuse(e, &r);
        return false;
    }
    if (slow && workers_waiting(s->slow) >= MOST_SLOW) {
        (void)refuse(&r, 429, NULL, "too many requests wait already");
        exchange_refuse(e, &r);
        return false;
    }
    pthread_mutex_lock(&s->lock);
    e->serving = true;
    s->serving++;
    pthread_mutex_unlock(&s->lock);
    if (!suspend(e)) return false;
    e->work = e->route->handle;
    if (workers_give(slow ? s->slow : s->workers, e)) return true;
    (void)refuse(&r, 503, NULL, "the server ends");
    exchange_refuse(e, &r);
    return true;
}

/* --- the answer ------------------------------------------------------------------------------- */

static void add_headers(const struct exchange *e, struct MHD_Response *response)
{
    if (e->type) MHD_add_response_header(response, "Content-Type", e->type);
    MHD_add_response_header(response, "Cache-Control", e->streaming ? "no-cache" : "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (e->retry[0]) MHD_add_response_header(response, "Retry-After", e->retry);
    if (e->status == 401) MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    if (e->csp[0]) {
        MHD_add_response_header(response, "Content-Security-Policy", e->csp);
        MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    }
    MHD_add_response_header(response, "X-Request-Id", e->name);
    if (e->status == 405 && e->methods) MHD_add_response_header(response, "Allow", e->methods);
    if (e->status == 415) MHD_add_response_header(response, "Accept-Encoding", "identity");
    origin_headers(e->server, e->connection, response);
}

/* A stream holds the exchange until MHD has no more use for the response. */
static void let_go(void *exchange)
{
    exchange_drop(exchange);
}

static enum MHD_Result answer(struct exchange *e)
{
    enum { BLOCK = 16384 };
    struct MHD_Response *response;
    e->sent = true;
    if (e->streaming) {
        exchange_hold(e);
        response =
            MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, completion_read, e, let_go);
        if (!response) exchange_drop(e);
    } else {
        response = MHD_create_response_from_buffer(e->size, e->text, MHD_RESPMEM_PERSISTENT);
    }
    if (!response) return MHD_NO;
    add_headers(e, response);
    const enum MHD_Result done = MHD_queue_response(e->connection, e->status, response);
    MHD_destroy_response(response);
    return done;
}

enum MHD_Result http_request(void *server, struct MHD_Connection *connection, const char *url,
                             const char *method, const char *version, const char *upload,
                             size_t *upload_size, void **state)
{
    struct exchange *e = *state;
    (void)version;
    if (!e) {
        *state = e = begin(server, connection, url, method);
        if (!e) return MHD_NO;
        /* A refusal does not wait for the body; MHD closes the connection behind it. */
        return e->answered ? answer(e) : MHD_YES;
    }
    if (*upload_size > 0) {
        receive(e, upload, *upload_size);
        *upload_size = 0;
        return MHD_YES;
    }
    if (e->sent) return MHD_YES;
    if (!e->whole) {
        pthread_mutex_lock(&e->lock);
        e->whole = true;
        const bool refused = e->answered;
        pthread_mutex_unlock(&e->lock);
        /* MHD keeps a connection that it suspended until it is resumed, even one that is closed
         * here: what became of it is for the next call, which comes after that. */
        if (!refused && start(e)) return MHD_YES;
    }
    pthread_mutex_lock(&e->lock);
    const bool gone = e->gone, waits = e->suspended, answered = e->answered;
    pthread_mutex_unlock(&e->lock);
    if (gone) return MHD_NO;
    return waits || !answered ? MHD_YES : answer(e);
}

void http_completed(void *server, struct MHD_Connection *connection, void **state,
                    enum MHD_RequestTerminationCode code)
{
    struct server *s = server;
    struct exchange *e = *state;
    if (!e) return;
    *state = NULL;
    watch_idle(s, connection);
    pthread_mutex_lock(&e->lock);
    e->connection = NULL;
    e->gone = code != MHD_REQUEST_TERMINATED_COMPLETED_OK;
    pthread_mutex_unlock(&e->lock);
    pthread_mutex_lock(&s->lock);
    if (e->before) e->before->next = e->next;
    else s->exchanges = e->next;
    if (e->next) e->next->before = e->before;
    if (e->serving) s->serving--;
    pthread_mutex_unlock(&s->lock);
    atomic_fetch_sub(&s->body_bytes, e->body.size);
    exchange_abandon(e);
    metrics_answer(s->metrics, e->gone ? 499 : e->status);
    if (s->settings.log) log_exchange(e);
    exchange_drop(e);
}
