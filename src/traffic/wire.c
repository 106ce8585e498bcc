#include "traffic/wire.h"

#include "base/mem.h"
#include "base/str.h"
#include "hub/curl.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct pith_wire {
    struct pith_curl curl;
    CURLM *multi;
    struct curl_slist *headers; /* of every request with a body; those of GET are among them */
    struct pith_str root;       /* without "/v1" and without a slash at its end */
    struct pith_str base;       /* with "/v1" */
    char *ca_file;
    long timeout_ms;
};

/* --- opening ---------------------------------------------------------------------------------- */

static bool is_address(const struct pith_curl *curl, const char *address)
{
    char *scheme = NULL;
    CURLU *u = curl->url();
    bool good = u && curl->url_set(u, CURLUPART_URL, address, CURLU_DISALLOW_USER) == CURLUE_OK &&
                curl->url_get(u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK;
    good = good && (strcasecmp(scheme, "http") == 0 || strcasecmp(scheme, "https") == 0);
    if (scheme) curl->free(scheme);
    if (u) curl->url_cleanup(u);
    return good && !strpbrk(address, "?# \t\r\n");
}

static enum pith_status set_address(struct pith_wire *w, const char *url, struct pith_error *err)
{
    size_t n = strlen(url);
    if (!strstr(url, "://") || !is_address(&w->curl, url))
        return pith_fail(err, PITH_ARG,
                         "%s: no address of a server; one looks like http://127.0.0.1:8080", url);
    while (n > 0 && url[n - 1] == '/') n--;
    pith_str_append(&w->base, url, n);
    const bool versioned = n > 3 && memcmp(url + n - 3, "/v1", 3) == 0;
    if (!versioned) pith_str_puts(&w->base, "/v1");
    pith_str_append(&w->root, url, versioned ? n - 3 : n);
    return w->base.failed || w->root.failed ? pith_fail_nomem(err, "an address") : PITH_OK;
}

static enum pith_status add_header(struct pith_wire *w, const char *line, struct pith_error *err)
{
    struct curl_slist *more = w->curl.slist_append(w->headers, line);
    if (!more) return pith_fail_nomem(err, "a request's headers");
    w->headers = more;
    return PITH_OK;
}

static enum pith_status set_headers(struct pith_wire *w, const char *key, struct pith_error *err)
{
    struct pith_str s = {0};
    PITH_TRY(add_header(w, "Content-Type: application/json", err));
    PITH_TRY(add_header(w, "Accept: text/event-stream, application/json", err));
    PITH_TRY(add_header(w, "Expect:", err));
    if (!key || !*key) return PITH_OK;
    for (const char *p = key; *p; p++)
        if (*p <= ' ' || *p > '~')
            return pith_fail(err, PITH_ARG, "the key has characters that no key has");
    pith_str_printf(&s, "Authorization: Bearer %s", key);
    const enum pith_status status = s.failed ? pith_fail_nomem(err, "a key")
                                             : add_header(w, pith_str_text(&s), err);
    pith_str_free(&s);
    return status;
}

enum pith_status pith_wire_open(const struct pith_wire_options *options, struct pith_wire **out,
                                struct pith_error *err)
{
    struct pith_wire *w = pith_zalloc(1, sizeof *w);
    *out = NULL;
    if (!w) return pith_fail_nomem(err, "a client");
    enum pith_status s = pith_curl_load(&w->curl, err);
    if (s == PITH_OK) s = set_address(w, options->url, err);
    if (s == PITH_OK) s = set_headers(w, options->key, err);
    if (s == PITH_OK && options->ca_file && !(w->ca_file = pith_strdup(options->ca_file)))
        s = pith_fail_nomem(err, "a client");
    if (s == PITH_OK && !(w->multi = w->curl.multi_init())) s = pith_fail_nomem(err, "a client");
    w->timeout_ms = (long)(options->timeout * 1e3);
    if (s == PITH_OK) *out = w;
    else pith_wire_close(w);
    return s;
}

void pith_wire_close(struct pith_wire *wire)
{
    if (!wire) return;
    if (wire->multi) wire->curl.multi_cleanup(wire->multi);
    if (wire->headers) wire->curl.slist_free_all(wire->headers);
    pith_str_free(&wire->root);
    pith_str_free(&wire->base);
    pith_free(wire->ca_file);
    pith_free(wire);
}

/* --- answers ---------------------------------------------------------------------------------- */

/* Whether a header's line has that name; *value is what stands behind it. */
static bool is_header(const char *line, size_t size, const char *name, const char **value)
{
    const size_t n = strlen(name);
    if (size <= n || strncasecmp(line, name, n) != 0 || line[n] != ':') return false;
    *value = line + n + 1;
    while (*value < line + size && (**value == ' ' || **value == '\t')) ++*value;
    return true;
}

static size_t on_header(char *data, size_t one, size_t size, void *ctx)
{
    static const char stream[] = "text/event-stream";
    struct pith_call *c = ctx;
    char line[256]; /* with a NUL; what is longer is of no interest */
    const char *value;
    const size_t n = size < sizeof line - 1 ? size : sizeof line - 1;
    (void)one;
    memcpy(line, data, n);
    line[n] = '\0';
    if (strncmp(line, "HTTP/", 5) == 0) {
        c->stream = false;
        c->retry_after = -1;
    } else if (is_header(line, n, "content-type", &value)) {
        c->stream = strncasecmp(value, stream, sizeof stream - 1) == 0;
    } else if (is_header(line, n, "retry-after", &value) && isdigit((unsigned char)*value)) {
        c->retry_after = (double)strtoul(value, NULL, 10);
    }
    return size;
}

static size_t on_body(char *data, size_t one, size_t size, void *ctx)
{
    struct pith_call *c = ctx;
    (void)one;
    if (c->status == 0) c->wire->curl.easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &c->status);
    return c->take(c, data, size) ? size : 0;
}

/* --- calls ------------------------------------------------------------------------------------ */

/* What is the same for each request of a handle. */
static void prepare(struct pith_call *c)
{
    const struct pith_wire *w = c->wire;
    const struct pith_curl *curl = &w->curl;
    curl->easy_setopt(c->easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl->easy_setopt(c->easy, CURLOPT_NOSIGNAL, 1L);
    curl->easy_setopt(c->easy, CURLOPT_PROXY, "");
    curl->easy_setopt(c->easy, CURLOPT_CONNECTTIMEOUT, 15L);
    curl->easy_setopt(c->easy, CURLOPT_TIMEOUT_MS, w->timeout_ms);
    curl->easy_setopt(c->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl->easy_setopt(c->easy, CURLOPT_USERAGENT, "pith/" PITH_VERSION);
    curl->easy_setopt(c->easy, CURLOPT_HTTPHEADER, w->headers);
    curl->easy_setopt(c->easy, CURLOPT_HEADERFUNCTION, on_header);
    curl->easy_setopt(c->easy, CURLOPT_HEADERDATA, c);
    curl->easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, on_body);
    curl->easy_setopt(c->easy, CURLOPT_WRITEDATA, c);
    curl->easy_setopt(c->easy, CURLOPT_PRIVATE, c);
    if (w->ca_file) curl->easy_setopt(c->easy, CURLOPT_CAINFO, w->ca_file);
}

static bool set_request(struct pith_call *c)
{
    const struct pith_wire *w = c->wire;
    const struct pith_curl *curl = &w->curl;
    const bool rooted = strncmp(c->path, "//", 2) == 0;
    struct pith_str url = {0};
    pith_str_puts(&url, pith_str_text(rooted ? &w->root : &w->base));
    pith_str_puts(&url, rooted ? c->path + 1 : c->path);
    bool good = !url.failed && curl->easy_setopt(c->easy, CURLOPT_URL, url.data) == CURLE_OK;
    pith_str_free(&url);
    if (c->body) {
        curl->easy_setopt(c->easy, CURLOPT_POST, 1L);
        curl->easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->size);
        curl->easy_setopt(c->easy, CURLOPT_POSTFIELDS, c->body);
    } else {
        curl->easy_setopt(c->easy, CURLOPT_HTTPGET, 1L);
    }
    return good;
}

enum pith_status pith_call_start(struct pith_wire *wire, struct pith_call *call,
                                 struct pith_error *err)
{
    call->wire = wire;
    call->over = call->stream = false;
    call->end = PITH_CALL_DONE;
    call->status = 0;
    call->retry_after = -1;
    call->message[0] = '\0';
    if (!call->easy) {
        call->easy = wire->curl.easy_init();
        if (!call->easy) return pith_fail_nomem(err, "a request");
        prepare(call);
    }
    if (!set_request(call) || wire->curl.multi_add_handle(wire->multi, call->easy) != CURLM_OK)
        return pith_fail_nomem(err, "a request");
    call->added = true;
    return PITH_OK;
}

void pith_call_close(struct pith_call *call)
{
    const struct pith_wire *w = call->wire;
    if (!call->easy) return;
    if (call->added) w->curl.multi_remove_handle(w->multi, call->easy);
    w->curl.easy_cleanup(call->easy);
    call->easy = NULL;
    call->added = false;
}

static enum pith_call_end end_of(CURLcode result)
{
    switch (result) {
    case CURLE_OK: return PITH_CALL_DONE;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT: return PITH_CALL_NOBODY;
    case CURLE_OPERATION_TIMEDOUT: return PITH_CALL_LATE;
    case CURLE_WRITE_ERROR: return PITH_CALL_REFUSED;
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_PEER_FAILED_VERIFICATION: return PITH_CALL_UNTRUSTED;
    default: return PITH_CALL_CUT;
    }
}

static void finish(struct pith_wire *w, const CURLMsg *m)
{
    char *own = NULL;
    const CURLcode result = m->data.result;
    CURL *easy = m->easy_handle; /* the message goes with the handle */
    w->curl.easy_getinfo(easy, CURLINFO_PRIVATE, &own);
    struct pith_call *c = (struct pith_call *)(void *)own;
    if (c->status == 0) w->curl.easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &c->status);
    c->end = end_of(result);
    if (c->end != PITH_CALL_DONE && c->end != PITH_CALL_REFUSED)
        (void)snprintf(c->message, sizeof c->message, "%s", w->curl.easy_strerror(result));
    w->curl.multi_remove_handle(w->multi, easy);
    c->added = false;
    c->over = true;
}

static enum pith_status fail_multi(CURLMcode code, struct pith_error *err)
{
    if (code == CURLM_OUT_OF_MEMORY) return pith_fail_nomem(err, "requests");
    return pith_fail(err, PITH_IO, "libcurl failed with status %d", (int)code);
}

enum pith_status pith_wire_move(struct pith_wire *wire, int ms, struct pith_error *err)
{
    int running = 0, left = 0, events = 0;
    bool ended = false;
    CURLMcode code = wire->curl.multi_perform(wire->multi, &running);
    if (code != CURLM_OK) return fail_multi(code, err);
    for (const CURLMsg *m; (m = wire->curl.multi_info_read(wire->multi, &left)) != NULL;) {
        if (m->msg != CURLMSG_DONE) continue;
        finish(wire, m);
        ended = true;
    }
    if (ended) return PITH_OK; /* there may be something to start */
    code = wire->curl.multi_poll(wire->multi, NULL, 0, ms, &events);
    return code == CURLM_OK ? PITH_OK : fail_multi(code, err);
}
