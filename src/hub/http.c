#include "hub/http.h"

#include "base/mem.h"
#include "base/str.h"
#include "hub/curl.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { ORIGIN_MOST = 300 };

struct pith_http {
    struct pith_curl curl;
    CURLM *multi;
    char *authorization; /* the header's line, or NULL */
    char origin[ORIGIN_MOST];
};

/* "https://host:443"; false for what is no address of http or https, or has a password in it. */
static bool origin_of(const struct pith_curl *curl, const char *address, char out[ORIGIN_MOST])
{
    char *scheme = NULL, *host = NULL, *port = NULL;
    CURLU *u = curl->url();
    bool good = u && curl->url_set(u, CURLUPART_URL, address, CURLU_DISALLOW_USER) == CURLUE_OK &&
                curl->url_get(u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                curl->url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
                curl->url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK;
    good = good && (strcasecmp(scheme, "http") == 0 || strcasecmp(scheme, "https") == 0);
    if (good)
        good = snprintf(out, ORIGIN_MOST, "%s://%s:%s", scheme, host, port) < (int)ORIGIN_MOST;
    if (scheme) curl->free(scheme);
    if (host) curl->free(host);
    if (port) curl->free(port);
    if (u) curl->url_cleanup(u);
    for (char *p = out; good && *p; p++) *p = (char)tolower((unsigned char)*p);
    return good;
}

static enum pith_status set_token(struct pith_http *h, const char *token, struct pith_error *err)
{
    struct pith_str s = {0};
    if (!token || !*token) return PITH_OK;
    for (const char *p = token; *p; p++)
        if (*p <= ' ' || *p > '~')
            return pith_fail(err, PITH_FORMAT, "the token has characters that no token has");
    pith_str_printf(&s, "Authorization: Bearer %s", token);
    h->authorization = pith_str_take(&s);
    return h->authorization ? PITH_OK : pith_fail_nomem(err, "a token");
}

enum pith_status pith_http_new(const char *endpoint, const char *token, struct pith_http **out,
                               struct pith_error *err)
{
    struct pith_http *h = pith_zalloc(1, sizeof *h);
    *out = NULL;
    if (!h) return pith_fail_nomem(err, "a client of the hub");
    enum pith_status s = pith_curl_load(&h->curl, err);
    if (s == PITH_OK && !origin_of(&h->curl, endpoint, h->origin))
        s = pith_fail(err, PITH_FORMAT,
                      "%s: no address of a hub; it begins with https:// and has no password",
                      endpoint);
    if (s == PITH_OK) s = set_token(h, token, err);
    if (s == PITH_OK && !(h->multi = h->curl.multi_init()))
        s = pith_fail_nomem(err, "a client of the hub");
    if (s == PITH_OK) *out = h;
    else pith_http_free(h);
    return s;
}

void pith_http_free(struct pith_http *http)
{
    if (!http) return;
    if (http->multi) http->curl.multi_cleanup(http->multi);
    pith_free(http->authorization);
    pith_free(http);
}

bool pith_http_has_token(const struct pith_http *http)
{
    return http->authorization != NULL;
}

/* --- answers ---------------------------------------------------------------------------------- */

static bool end_early(struct pith_http_call *c, enum pith_http_end end, const char *why)
{
    c->end = end;
    snprintf(c->message, sizeof c->message, "%s", why);
    return false;
}

/* A header's value without blanks around it, as far as it fits. */
static void keep(char *to, size_t most, const char *value, size_t size)
{
    while (size > 0 && isspace((unsigned char)*value)) value++, size--;
    while (size > 0 && isspace((unsigned char)value[size - 1])) size--;
    if (size >= most) size = 0;
    memcpy(to, value, size);
    to[size] = '\0';
}

/* W/"etag" and "etag" without their marks. */
static void keep_etag(struct pith_http_call *c, const char *text)
{
    if (strncmp(text, "W/", 2) == 0) text += 2;
    if (*text == '"') text++;
    snprintf(c->linked_etag, sizeof c->linked_etag, "%.*s", (int)strcspn(text, "\""), text);
}

/* <address>; rel="next", perhaps among others. */
static void keep_next(struct pith_http_call *c, const char *text)
{
    for (const char *p = strchr(text, '<'); p; p = strchr(p, '<')) {
        const size_t n = strcspn(p + 1, ">");
        const char *after = p + 1 + n;
        const size_t tail = strcspn(after, ",");
        const char *rel = strstr(after, "rel=\"next\"");
        if (*after == '>' && rel && rel < after + tail && n < sizeof c->next)
            snprintf(c->next, sizeof c->next, "%.*s", (int)n, p + 1);
        p = after;
    }
}

/* "bytes 0-99/1000". */
static void keep_range(struct pith_http_call *c, const char *text)
{
    char *end;
    if (strncasecmp(text, "bytes ", 6) != 0) return;
    c->range_from = strtoull(text + 6, &end, 10);
    const char *slash = strchr(end, '/');
    c->range_total = slash ? strtoull(slash + 1, NULL, 10) : 0;
    c->has_range = true;
}

/* "api";r=0;t=55: seconds until more requests are allowed. */
static void keep_rate(struct pith_http_call *c, const char *text)
{
    const char *t = strstr(text, ";t=");
    if (t && c->retry_after < 0) c->retry_after = (double)strtoul(t + 3, NULL, 10);
}

static void new_answer(struct pith_http_call *c)
{
    c->retry_after = -1;
    c->code[0] = c->message[0] = c->next[0] = '\0';
    c->has_range = false;
}

static size_t on_header(char *line, size_t one, size_t size, void *ctx)
{
    struct pith_http_call *c = ctx;
    char value[sizeof c->next];
    const char *colon = memchr(line, ':', size);
    (void)one;
    if (size >= 5 && memcmp(line, "HTTP/", 5) == 0) new_answer(c);
    if (!colon) return size;
    const size_t n = (size_t)(colon - line);
    if (size - n >= sizeof value) {
        end_early(c, PITH_HTTP_WRONG, "a header of the answer is too long");
        return 0;
    }
    keep(value, sizeof value, colon + 1, size - n - 1);
#define IS(name) (n == sizeof(name) - 1 && strncasecmp(line, name, n) == 0)
    if (IS("x-linked-etag")) keep_etag(c, value);
    else if (IS("x-error-code")) keep(c->code, sizeof c->code, value, strlen(value));
    else if (IS("x-error-message")) keep(c->message, sizeof c->message, value, strlen(value));
    else if (IS("link")) keep_next(c, value);
    else if (IS("content-range")) keep_range(c, value);
    else if (IS("ratelimit")) keep_rate(c, value);
    else if (IS("retry-after") && isdigit((unsigned char)value[0]))
        c->retry_after = (double)strtoul(value, NULL, 10);
#undef IS
    return size;
}

/* Whether the body that begins is the requested one. */
static bool begin_body(struct pith_http_call *c)
{
    c->begun = true;
    if (!c->ranged) return true;
    if (c->status == 206) {
        if (c->has_range && c->range_from == c->from && c->range_total == c->total) return true;
        return end_early(c, PITH_HTTP_WRONG,
                         "another range came than was requested, or the file has another length "
                         "than the hub says");
    }
    if (c->from == 0 && c->to == c->total) return true;
    return end_early(c, PITH_HTTP_WHOLE, "the server knows no ranges");
}

static size_t on_body(char *data, size_t one, size_t size, void *ctx)
{
    struct pith_http_call *c = ctx;
    (void)one;
    c->http->curl.easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &c->status);
    if (c->status < 200 || c->status > 299) return size; /* text of a refusal */
    if (!c->begun && !begin_body(c)) return 0;
    if (c->take(c->ctx, data, size, &c->err) == PITH_OK) return size;
    c->end = PITH_HTTP_TAKER;
    return 0;
}

/* --- requests --------------------------------------------------------------------------------- */

static void leave(struct pith_http_call *c)
{
    struct pith_http *h = c->http;
    if (!h) return;
    if (c->easy) {
        h->curl.multi_remove_handle(h->multi, c->easy);
        h->curl.easy_cleanup(c->easy);
    }
    if (c->headers) h->curl.slist_free_all(c->headers);
    c->easy = c->headers = NULL;
    c->http = NULL;
}

void pith_http_stop(struct pith_http_call *call)
{
    leave(call);
}

/* Lets the token go along when the address is the endpoint's own. */
static bool set_headers(struct pith_http_call *c, const char *origin)
{
    struct pith_http *h = c->http;
    if (c->headers) h->curl.slist_free_all(c->headers);
    c->headers = NULL;
    if (h->authorization && strcmp(origin, h->origin) == 0) {
        c->headers = h->curl.slist_append(NULL, h->authorization);
        if (!c->headers) return false;
    }
    return h->curl.easy_setopt(c->easy, CURLOPT_HTTPHEADER, c->headers) == CURLE_OK;
}

static void set_options(struct pith_http_call *c)
{
    const struct pith_curl *curl = &c->http->curl;
    char range[64];
    curl->easy_setopt(c->easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl->easy_setopt(c->easy, CURLOPT_NOSIGNAL, 1L);
    curl->easy_setopt(c->easy, CURLOPT_CONNECTTIMEOUT, 15L);
    curl->easy_setopt(c->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl->easy_setopt(c->easy, CURLOPT_LOW_SPEED_TIME, 30L);
    curl->easy_setopt(c->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl->easy_setopt(c->easy, CURLOPT_BUFFERSIZE, 256L * 1024);
    curl->easy_setopt(c->easy, CURLOPT_USERAGENT, "pith/" PITH_VERSION);
    curl->easy_setopt(c->easy, CURLOPT_HEADERFUNCTION, on_header);
    curl->easy_setopt(c->easy, CURLOPT_HEADERDATA, c);
    curl->easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, on_body);
    curl->easy_setopt(c->easy, CURLOPT_WRITEDATA, c);
    curl->easy_setopt(c->easy, CURLOPT_PRIVATE, c);
    if (!c->ranged || (c->from == 0 && c->to == c->total)) return;
    snprintf(range, sizeof range, "%llu-%llu", (unsigned long long)c->from,
             (unsigned long long)c->to - 1);
    curl->easy_setopt(c->easy, CURLOPT_RANGE, range);
}

/* Sets out for an address; false with c's message when it may not. */
static bool go(struct pith_http_call *c, const char *url)
{
    struct pith_http *h = c->http;
    char origin[ORIGIN_MOST];
    if (!origin_of(&h->curl, url, origin))
        return end_early(c, PITH_HTTP_WRONG, "redirected to what is no address of http or https");
    const bool secure = strncmp(origin, "https:", 6) == 0;
    if (c->secure && !secure)
        return end_early(c, PITH_HTTP_WRONG, "redirected from https to http");
    c->secure = secure;
    if (h->curl.easy_setopt(c->easy, CURLOPT_URL, url) == CURLE_OK && set_headers(c, origin) &&
        h->curl.multi_add_handle(h->multi, c->easy) == CURLM_OK)
        return true;
    return end_early(c, PITH_HTTP_CUT, "out of memory");
}

enum pith_status pith_http_start(struct pith_http *http, struct pith_http_call *call,
                                 struct pith_error *err)
{
    call->http = http;
    call->over = call->begun = false;
    call->secure = strncmp(http->origin, "https:", 6) == 0;
    call->hops = 0;
    call->status = 0;
    call->end = PITH_HTTP_DONE;
    call->linked_etag[0] = '\0';
    call->err = (struct pith_error){0};
    call->headers = NULL;
    call->easy = http->curl.easy_init();
    new_answer(call);
    if (!call->easy) return pith_fail_nomem(err, "a request");
    set_options(call);
    if (!go(call, call->url)) {
        leave(call);
        call->over = true;
    }
    return PITH_OK;
}

/* The next address of a redirect; true when the call goes on. */
static bool follow(struct pith_http_call *c)
{
    const struct pith_curl *curl = &c->http->curl;
    char *to = NULL;
    curl->easy_getinfo(c->easy, CURLINFO_REDIRECT_URL, &to);
    if (!to) return end_early(c, PITH_HTTP_WRONG, "a redirect to nowhere");
    if (++c->hops > PITH_HTTP_HOPS) return end_early(c, PITH_HTTP_WRONG, "too many redirects");
    char *copy = pith_strdup(to);
    if (!copy) return end_early(c, PITH_HTTP_CUT, "out of memory");
    curl->multi_remove_handle(c->http->multi, c->easy);
    const bool gone = go(c, copy);
    pith_free(copy);
    return gone;
}

static enum pith_http_end end_of(CURLcode result)
{
    switch (result) {
    case CURLE_PEER_FAILED_VERIFICATION: return PITH_HTTP_WRONG;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT: return PITH_HTTP_NOBODY;
    default: return PITH_HTTP_CUT;
    }
}

/* One transfer came to its end. */
static void finish(struct pith_http_call *c, CURLcode result)
{
    const struct pith_curl *curl = &c->http->curl;
    const bool stopped = c->end != PITH_HTTP_DONE;
    curl->easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &c->status);
    if (!stopped && result != CURLE_OK) {
        end_early(c, end_of(result), curl->easy_strerror(result));
    } else if (!stopped && c->status >= 300 && c->status <= 399) {
        if (follow(c)) return;
    } else if (!stopped && (c->status < 200 || c->status > 299)) {
        c->end = PITH_HTTP_REFUSED;
    }
    leave(c);
    c->over = true;
}

/* Takes note of what came to its end; false when nothing did. */
static bool collect(struct pith_http *http)
{
    const struct pith_curl *curl = &http->curl;
    CURLMsg *m;
    int left;
    bool any = false;
    while ((m = curl->multi_info_read(http->multi, &left))) {
        struct pith_http_call *c = NULL;
        const CURLcode result = m->data.result;
        if (m->msg != CURLMSG_DONE) continue;
        curl->easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)(void *)&c);
        finish(c, result);
        any = true;
    }
    return any;
}

enum pith_status pith_http_wait(struct pith_http *http, int ms, struct pith_error *err)
{
    const struct pith_curl *curl = &http->curl;
    int running;
    CURLMcode code = curl->multi_perform(http->multi, &running);
    if (code == CURLM_OK && !collect(http)) {
        code = curl->multi_poll(http->multi, NULL, 0, ms, NULL);
        if (code == CURLM_OK) code = curl->multi_perform(http->multi, &running);
        if (code == CURLM_OK) collect(http);
    }
    return code == CURLM_OK ? PITH_OK : pith_fail(err, PITH_IO, "libcurl failed (%d)", (int)code);
}

void pith_http_quote(struct pith_str *out, const char *text, bool slashes)
{
    for (const char *p = text; *p; p++) {
        const unsigned char b = (unsigned char)*p;
        if ((b < 0x80 && isalnum(b)) || strchr("-._~", b) || (slashes && b == '/'))
            pith_str_putc(out, *p);
        else pith_str_printf(out, "%%%02X", b);
    }
}
