/* Any bytes as what a hub answers: its list of files, headers, redirects, the files. A download of
 * them ends with all of a snapshot in the cache, or with a line that says why not, and nothing lies
 * beside the cache. The network is not used: the functions of libcurl are those below.
 *
 *     u8 choice: bit 0 a token, bit 1 two requests at a time, bit 2 files by a pattern, bit 3 http,
 *         bit 4 the same again, with the answers that are left
 *     the name of the model and a line end; then for each answer
 *     u8 status (a row of `statuses`), u8 how the transfer ends (a row of `results`),
 *     u16 length of the headers, which are lines, u16 length of the body; their bytes */
#include "folder.h"

#include "base/mem.h"
#include "hub/cache.h"
#include "hub/curl.h"
#include "hub/pull.h"

#include <signal.h>
#include <stdarg.h>
#include <strings.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TRANSFERS = 4, STEPS = 150, NAME_MOST = 300 };

static const long statuses[] = {200, 206, 302, 401, 403, 404, 429, 503, 307, 204};
static const CURLcode results[] = {CURLE_OK, CURLE_PARTIAL_FILE, CURLE_COULDNT_CONNECT,
                                   CURLE_PEER_FAILED_VERIFICATION};

static void must(bool truth)
{
    if (!truth) abort();
}

/* --- the input ----------------------------------------------------------------------------------
 */

static struct {
    const uint8_t *data;
    size_t size, at;
} in;

static unsigned take(unsigned bytes)
{
    unsigned v = 0;
    for (unsigned i = 0; i < bytes && in.at < in.size; i++)
        v |= (unsigned)in.data[in.at++] << 8 * i;
    return v;
}

/* A copy of exactly its size, so that a step too far is seen. */
static char *take_bytes(size_t *size)
{
    if (*size > in.size - in.at) *size = in.size - in.at;
    char *copy = malloc(*size ? *size : 1);
    must(copy != NULL);
    memcpy(copy, in.data + in.at, *size);
    in.at += *size;
    return copy;
}

/* --- libcurl ------------------------------------------------------------------------------------
 */

struct transfer {
    bool used, added, over;
    curl_write_callback header, body;
    void *header_to, *body_to, *own;
    long status;
    CURLcode result;
    char *redirect;
};

static struct {
    struct transfer transfer[TRANSFERS];
    CURLMsg message;
} curl;

static CURL *easy_init(void)
{
    for (size_t i = 0; i < TRANSFERS; i++) {
        struct transfer *t = &curl.transfer[i];
        if (t->used) continue;
        *t = (struct transfer){.used = true};
        return t;
    }
    return NULL;
}

static void easy_cleanup(CURL *easy)
{
    struct transfer *t = easy;
    must(t->used && !t->added);
    free(t->redirect);
    *t = (struct transfer){0};
}

static void easy_reset(CURL *easy)
{
    (void)easy;
}

static CURLcode easy_setopt(CURL *easy, CURLoption option, ...)
{
    struct transfer *t = easy;
    va_list v;
    va_start(v, option);
    if (option == CURLOPT_HEADERFUNCTION) t->header = va_arg(v, curl_write_callback);
    else if (option == CURLOPT_WRITEFUNCTION) t->body = va_arg(v, curl_write_callback);
    else if (option == CURLOPT_HEADERDATA) t->header_to = va_arg(v, void *);
    else if (option == CURLOPT_WRITEDATA) t->body_to = va_arg(v, void *);
    else if (option == CURLOPT_PRIVATE) t->own = va_arg(v, void *);
    va_end(v);
    return CURLE_OK;
}

static CURLcode easy_getinfo(CURL *easy, CURLINFO info, ...)
{
    struct transfer *t = easy;
    va_list v;
    va_start(v, info);
    if (info == CURLINFO_RESPONSE_CODE) *va_arg(v, long *) = t->status;
    else if (info == CURLINFO_REDIRECT_URL) *va_arg(v, char **) = t->redirect;
    else if (info == CURLINFO_PRIVATE) *va_arg(v, char **) = t->own;
    va_end(v);
    return CURLE_OK;
}

static const char *easy_strerror(CURLcode code)
{
    return code == CURLE_WRITE_ERROR ? "the answer was not taken" : "the transfer failed";
}

static CURLM *multi_init(void)
{
    return &curl;
}

static CURLMcode multi_cleanup(CURLM *multi)
{
    (void)multi;
    for (size_t i = 0; i < TRANSFERS; i++) must(!curl.transfer[i].used);
    return CURLM_OK;
}

static CURLMcode multi_add_handle(CURLM *multi, CURL *easy)
{
    struct transfer *t = easy;
    (void)multi;
    must(t->used && !t->added);
    t->added = true;
    t->over = false;
    return CURLM_OK;
}

static CURLMcode multi_remove_handle(CURLM *multi, CURL *easy)
{
    (void)multi;
    ((struct transfer *)easy)->added = false;
    return CURLM_OK;
}

/* One line of a header, its end included. */
static bool give_header(struct transfer *t, const char *line, size_t size)
{
    static const char name[] = "location:";
    char *copy = malloc(size);
    must(copy != NULL);
    memcpy(copy, line, size);
    const bool taken = t->header(copy, 1, size, t->header_to) == size;
    const bool is = size > sizeof name && strncasecmp(copy, name, sizeof name - 1) == 0;
    if (is && t->status >= 300 && t->status <= 399) {
        free(t->redirect);
        t->redirect = strndup(copy + sizeof name, size - sizeof name - 1);
    }
    free(copy);
    return taken;
}

/* The next answer of the input, all at once. */
static void answer(struct transfer *t)
{
    static char first[] = "HTTP/1.1 200\r\n";
    t->status = statuses[take(1) % (sizeof statuses / sizeof statuses[0])];
    t->result = results[take(1) % (sizeof results / sizeof results[0])];
    size_t head = take(2), body = take(2);
    char *const headers = take_bytes(&head), *const bytes = take_bytes(&body);
    free(t->redirect);
    t->redirect = NULL;
    bool taken = give_header(t, first, sizeof first - 1);
    for (size_t at = 0; taken && at < head;) {
        const char *stop = memchr(headers + at, '\n', head - at);
        const size_t n = stop ? (size_t)(stop - headers) - at + 1 : head - at;
        taken = give_header(t, headers + at, n);
        at += n;
    }
    for (size_t at = 0, half = body / 2; taken && at < body; half = body - half) {
        taken = half == 0 || t->body(bytes + at, 1, half, t->body_to) == half;
        at += half;
    }
    if (!taken) t->result = CURLE_WRITE_ERROR;
    free(headers);
    free(bytes);
    t->over = true;
}

static CURLMcode multi_perform(CURLM *multi, int *running)
{
    (void)multi;
    *running = 0;
    for (size_t i = 0; i < TRANSFERS; i++)
        if (curl.transfer[i].added && !curl.transfer[i].over) answer(&curl.transfer[i]);
    return CURLM_OK;
}

/* A file is compared by another thread meanwhile. */
static CURLMcode multi_poll(CURLM *multi, struct curl_waitfd *extra, unsigned count, int ms,
                            int *events)
{
    (void)multi, (void)extra, (void)count, (void)ms, (void)events;
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    return CURLM_OK;
}

static CURLMsg *multi_info_read(CURLM *multi, int *left)
{
    (void)multi;
    *left = 0;
    for (size_t i = 0; i < TRANSFERS; i++) {
        struct transfer *t = &curl.transfer[i];
        if (!t->added || !t->over) continue;
        curl.message = (CURLMsg){.msg = CURLMSG_DONE, .easy_handle = t, .data.result = t->result};
        t->over = false; /* told once */
        t->added = false;
        return &curl.message;
    }
    return NULL;
}

static struct curl_slist *slist_append(struct curl_slist *list, const char *text)
{
    struct curl_slist *s = malloc(sizeof *s);
    must(s != NULL && list == NULL && text != NULL);
    s->data = NULL;
    s->next = NULL;
    return s;
}

static void slist_free_all(struct curl_slist *list)
{
    free(list);
}

struct Curl_URL {
    char scheme[16], host[200], port[8];
};

static CURLU *url(void)
{
    return calloc(1, sizeof(CURLU));
}

static void url_cleanup(CURLU *u)
{
    free(u);
}

static CURLUcode url_set(CURLU *u, CURLUPart part, const char *text, unsigned flags)
{
    (void)part, (void)flags;
    const char *host = strstr(text, "://");
    if (!host || (size_t)(host - text) >= sizeof u->scheme) return CURLUE_MALFORMED_INPUT;
    memcpy(u->scheme, text, (size_t)(host - text));
    host += 3;
    const size_t all = strcspn(host, "/?#"), n = strcspn(host, ":/?#@");
    if (n < all && host[n] == '@') return CURLUE_USER_NOT_ALLOWED;
    if (n == 0 || n >= sizeof u->host || all - n >= sizeof u->port) return CURLUE_MALFORMED_INPUT;
    memcpy(u->host, host, n);
    if (all > n + 1) memcpy(u->port, host + n + 1, all - n - 1);
    else (void)strcpy(u->port, strcasecmp(u->scheme, "https") == 0 ? "443" : "80");
    return CURLUE_OK;
}

static CURLUcode url_get(const CURLU *u, CURLUPart part, char **text, unsigned flags)
{
    (void)flags;
    *text = strdup(part == CURLUPART_SCHEME ? u->scheme
                   : part == CURLUPART_HOST ? u->host
                                            : u->port);
    return *text ? CURLUE_OK : CURLUE_OUT_OF_MEMORY;
}

static CURLcode global_init(long flags)
{
    (void)flags;
    return CURLE_OK;
}

enum pith_status pith_curl_load(struct pith_curl *out, struct pith_error *err)
{
    (void)err;
#define OURS(result, name, parameters) .name = name,
    *out = (struct pith_curl){PITH_CURL_CALLS(OURS)};
#undef OURS
    return PITH_OK;
}

/* --- a download ---------------------------------------------------------------------------------
 */

/* What is tried again later is not waited for. */
static int stop_soon(void *ctx, const char *what, double done, double total)
{
    (void)what, (void)done, (void)total;
    return ++*(unsigned *)ctx > STEPS;
}

static bool take_name(struct pith_hub_name *name)
{
    char text[NAME_MOST];
    size_t n = 0;
    struct pith_error err = {0};
    while (in.at < in.size && in.data[in.at] != '\n' && n + 1 < sizeof text)
        text[n++] = (char)in.data[in.at++];
    text[n] = '\0';
    in.at += in.at < in.size;
    const bool is = pith_hub_name_is(text);
    must((pith_hub_name_parse(text, name, &err) == PITH_OK) == is && (is || err.text[0]));
    return is;
}

struct download {
    const char *cache;
    const struct pith_hub_name *name;
};

/* What came is found; a file that came is there. */
static enum pith_status check_pulled(void *ctx, const struct pith_pulled *pulled,
                                     struct pith_error *failed)
{
    const struct download *d = ctx;
    struct pith_error err = {0};
    char *path = NULL, *title;
    (void)failed;
    must(pith_path_is_dir(pulled->path));
    title = pith_hub_title(pulled->path);
    must(title != NULL && strstr(title, d->name->repo) != NULL);
    if (pith_hub_find_model(d->cache, d->name, &path, &err) != PITH_OK) must(err.text[0] != '\0');
    for (size_t i = 0; i < pulled->count; i++) {
        char *file = pith_path_join(pulled->path, pulled->file[i].name);
        must(file != NULL && pith_path_exists(file));
        pith_free(file);
    }
    pith_free(title);
    pith_free(path);
    return PITH_OK;
}

static void remove_folder(const char *path)
{
    char **names;
    size_t count;
    must(pith_dir_list(path, &names, &count, NULL) == PITH_OK);
    for (size_t i = 0; i < count; i++) {
        char *inner = pith_path_join(path, names[i]);
        must(inner != NULL);
        if (pith_path_is_dir(inner)) remove_folder(inner);
        else must(pith_unlink(inner, NULL) == PITH_OK);
        pith_free(inner);
    }
    pith_names_free(names, count);
    must(rmdir(path) == 0);
}

static void download(const struct pith_pull *pull, const struct pith_hub_name *name)
{
    struct pith_error err = {0};
    struct download d = {pull->cache, name};
    struct pith_pull p = *pull;
    p.done = check_pulled;
    p.done_ctx = &d;
    must(pith_pull_model(&p, name, &err) == PITH_OK || err.text[0] != '\0');
}

/* A hub may name a length that would fill the memory that the folder lies in. */
static void limit_files(void)
{
    static bool done;
    if (done) return;
    done = true;
    (void)signal(SIGXFSZ, SIG_IGN);
    must(setrlimit(RLIMIT_FSIZE, &(struct rlimit){1 << 22, 1 << 22}) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const patterns[] = {"*.json", "a/*"};
    char cache[128], **left;
    unsigned steps = 0;
    size_t count = 0;
    struct pith_hub_name name;
    in.data = data;
    in.size = size;
    in.at = 0;
    const unsigned choice = take(1);
    if (!take_name(&name)) return 0;
    limit_files();
    (void)snprintf(cache, sizeof cache, "%s/cache", folder());
    const struct pith_progress progress = {.fn = stop_soon, .ctx = &steps};
    const struct pith_pull pull = {.cache = cache,
                                   .endpoint = choice & 8 ? "http://hub" : "https://hub",
                                   .token = choice & 1 ? "hf_token" : NULL,
                                   .files = patterns,
                                   .file_count = choice & 4 ? 2 : 0,
                                   .jobs = choice & 2 ? 2 : 1,
                                   .progress = &progress};
    download(&pull, &name);
    steps = 0;
    if (choice & 16) download(&pull, &name);
    must(pith_dir_list(folder(), &left, &count, NULL) == PITH_OK && count <= 1);
    pith_names_free(left, count);
    if (count) remove_folder(cache);
    return 0;
}
