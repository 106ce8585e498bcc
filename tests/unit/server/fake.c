/* The service of fake.h: a thread for each request. Token i of an answer is the letter 'a' + i %
 * 26, ids are bytes, log-probabilities are -(i + 1) / 8; a prompt is told where echo asks for it.
 */
#include "unit/server/fake.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct fake_wish fake_wish;

struct pith_service {
    atomic_bool drains;
};

struct fake_request {
    struct pith_request q;
    struct fake_wish wish;
    char *text;
    size_t size;
    uint64_t id;
    atomic_bool cancelled;
    struct fake_request *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_request *all;
static uint64_t ids;
static size_t cancelled, running, threads;
static char conversation[4096];

size_t fake_cancelled(void)
{
    pthread_mutex_lock(&lock);
    const size_t n = cancelled;
    pthread_mutex_unlock(&lock);
    return n;
}

size_t fake_running(void)
{
    pthread_mutex_lock(&lock);
    const size_t n = running;
    pthread_mutex_unlock(&lock);
    return n;
}

const char *fake_conversation(void)
{
    return conversation;
}

static struct pith_event_token token_of(const struct fake_request *r, size_t i, bool first,
                                        struct pith_alternative top[20])
{
    struct pith_event_token t = {.id = (int32_t)('a' + i % 26),
                                 .logprob = (float)-(double)(i + 1) / 8};
    const int tops = r->q.logprobs > 0 ? r->q.logprobs : 0;
    for (int k = 0; k < tops; k++)
        top[k] = (struct pith_alternative){k == 0 ? t.id : 'A' + k, t.logprob - (float)k};
    if (r->q.logprobs < 0 || first) t.logprob = NAN;
    else t.top = top, t.tops = (size_t)tops;
    return t;
}

static void tell(struct fake_request *r, struct pith_event e)
{
    e.request = r->id;
    r->q.event(r->q.ctx, &e);
}

static void tell_prompt(struct fake_request *r)
{
    struct pith_event_token *token = calloc(r->size + 1, sizeof *token);
    size_t *offset = calloc(r->size + 1, sizeof *offset);
    struct pith_alternative top[20];
    for (size_t i = 0; i < r->size; i++) {
        token[i] = token_of(r, i, i == 0, top);
        token[i].id = (unsigned char)r->text[i];
        token[i].tops = 0;
        offset[i] = i;
    }
    tell(r, (struct pith_event){.kind = PITH_EVENT_PROMPT,
                                .text = r->text,
                                .text_size = r->size,
                                .token = token,
                                .offset = offset,
                                .tokens = r->size});
    free(token);
    free(offset);
}

/* One choice; what it ended with. */
static const char *tell_choice(struct fake_request *r, uint32_t choice)
{
    const char *say = r->wish.say;
    const size_t wanted = say ? strlen(say) : r->q.max_tokens ? r->q.max_tokens : 40;
    const size_t most = r->q.prompt_only ? 0 : wanted;
    const size_t fat = r->wish.fat ? r->wish.fat : 1;
    char *text = malloc(fat);
    const char *finish = "length";
    for (size_t i = 0; i < most; i++) {
        const struct timespec t = {.tv_nsec = (long)(r->wish.pause * 1e9)};
        if (t.tv_nsec) nanosleep(&t, NULL);
        if (r->cancelled) finish = "cancelled";
        if (r->q.stop.count && r->q.stop.item[0][0] == (char)('a' + i % 26)) finish = "stop";
        if (strcmp(finish, "length") != 0) break;
        if (r->wish.fail_after && i == r->wish.fail_after) {
            finish = NULL;
            break;
        }
        struct pith_alternative top[20];
        const struct pith_event_token token = token_of(r, i, false, top);
        memset(text, say ? say[i] : 'a' + (int)(i % 26), fat);
        tell(r, (struct pith_event){.kind = PITH_EVENT_TEXT,
                                    .choice = choice,
                                    .text = text,
                                    .text_size = r->wish.mute ? 0 : fat,
                                    .token = &token,
                                    .offset = &i,
                                    .tokens = 1});
    }
    free(text);
    if (finish && say && strcmp(finish, "length") == 0) finish = "stop";
    if (finish)
        tell(r, (struct pith_event){
                    .kind = PITH_EVENT_CHOICE, .choice = choice, .finish = finish, .stop_id = -1});
    return finish;
}

static void *run(void *request)
{
    struct fake_request *r = request;
    const struct pith_error err = {PITH_NUMERIC, "numbers went wrong"};
    const char *finish = "";
    if (r->q.echo || r->q.prompt_logprobs >= 0) tell_prompt(r);
    for (uint32_t i = 0; finish && i < r->q.n; i++) finish = tell_choice(r, i);
    pthread_mutex_lock(&lock);
    running--;
    struct fake_request **at = &all;
    while (*at != r) at = &(*at)->next;
    *at = r->next;
    pthread_mutex_unlock(&lock);
    const struct pith_usage usage = {.prompt = r->size, .cached = 1, .generated = 7, .first = 0.01};
    if (finish) tell(r, (struct pith_event){.kind = PITH_EVENT_END, .usage = usage});
    else
        tell(r,
             (struct pith_event){.kind = PITH_EVENT_FAILED, .error = &err, .status = err.status});
    free(r->text);
    free(r);
    pthread_mutex_lock(&lock);
    threads--;
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* --- the calls of engine.h -------------------------------------------------------------------- */

void pith_service_defaults_sized(struct pith_service_options *o, size_t size)
{
    memset(o, 0, size);
    o->size = size;
}

void pith_request_defaults_sized(struct pith_request *q, size_t size)
{
    memset(q, 0, size);
    q->size = size;
    q->n = 1;
    q->logprobs = q->prompt_logprobs = -1;
}

enum pith_status pith_service_open(struct pith_engine *engine,
                                   const struct pith_service_options *options,
                                   struct pith_service **out, struct pith_error *err)
{
    (void)engine, (void)options, (void)err;
    *out = calloc(1, sizeof **out);
    return *out ? PITH_OK : PITH_NOMEM;
}

void pith_service_drain(struct pith_service *service)
{
    service->drains = true;
}

void pith_service_close(struct pith_service **service)
{
    const struct timespec t = {.tv_nsec = 5000000};
    if (!*service) return;
    pthread_mutex_lock(&lock);
    for (struct fake_request *r = all; r; r = r->next) r->cancelled = true;
    pthread_mutex_unlock(&lock);
    for (size_t left = 1; left > 0;) {
        nanosleep(&t, NULL);
        pthread_mutex_lock(&lock);
        left = threads;
        pthread_mutex_unlock(&lock);
    }
    free(*service);
    *service = NULL;
}

enum pith_status pith_submit(struct pith_service *service, const struct pith_request *q,
                             uint64_t *id, struct pith_error *err)
{
    pthread_t thread;
    if (service->drains) return PITH_CLOSED;
    if (fake_wish.refuse != PITH_OK) {
        snprintf(err->text, sizeof err->text, "refused on demand");
        return fake_wish.refuse;
    }
    struct fake_request *r = calloc(1, sizeof *r);
    r->q = *q;
    r->wish = fake_wish;
    const char *text = q->ids ? NULL : q->text ? q->text : q->conversation;
    r->size = q->ids ? q->id_count : q->text ? q->text_size : strlen(text);
    r->text = malloc(r->size + 1);
    for (size_t i = 0; i < r->size; i++) r->text[i] = text ? text[i] : (char)q->ids[i];
    if (q->conversation) snprintf(conversation, sizeof conversation, "%s", q->conversation);
    pthread_mutex_lock(&lock);
    *id = r->id = ++ids;
    r->next = all;
    all = r;
    running++;
    threads++;
    pthread_mutex_unlock(&lock);
    if (pthread_create(&thread, NULL, run, r) != 0) abort();
    pthread_detach(thread);
    return PITH_OK;
}

void pith_cancel(struct pith_service *service, uint64_t id)
{
    (void)service;
    pthread_mutex_lock(&lock);
    for (struct fake_request *r = all; r; r = r->next)
        if (r->id == id && !r->cancelled) {
            r->cancelled = true;
            cancelled++;
        }
    pthread_mutex_unlock(&lock);
}

static enum pith_status copy(const char *text, size_t size, char **out, size_t *out_size)
{
    *out = malloc(size + 1);
    if (size) memcpy(*out, text, size);
    (*out)[size] = '\0';
    if (out_size) *out_size = size;
    return PITH_OK;
}

enum pith_status pith_service_encode(struct pith_service *service, const struct pith_input_text *in,
                                     char **out, struct pith_error *err)
{
    char *list = malloc(in->size * 4 + 16);
    size_t n = (size_t)sprintf(list, in->special ? "[1" : "[");
    (void)service, (void)err;
    for (size_t i = 0; i < in->size; i++)
        n += (size_t)sprintf(list + n, "%s%d", n > 1 ? "," : "", (unsigned char)in->text[i]);
    sprintf(list + n, "]");
    *out = list;
    return PITH_OK;
}

enum pith_status pith_service_decode(struct pith_service *service, const struct pith_input_text *in,
                                     char **text, size_t *size, struct pith_error *err)
{
    char *bytes = malloc(in->count + 1);
    (void)service, (void)err;
    for (size_t i = 0; i < in->count; i++) bytes[i] = (char)in->ids[i];
    const enum pith_status s = copy(bytes, in->count, text, size);
    free(bytes);
    return s;
}

enum pith_status pith_service_token(struct pith_service *service, int32_t id, char **bytes,
                                    size_t *size, struct pith_error *err)
{
    const struct pith_input_text in = {.ids = &id, .count = 1};
    return pith_service_decode(service, &in, bytes, size, err);
}

enum pith_status pith_service_tokenizer(struct pith_service *service, char **json,
                                        struct pith_error *err)
{
    static const char text[] = "{\"eos_token\": \"</s>\"}";
    (void)service, (void)err;
    return copy(text, strlen(text), json, NULL);
}

enum pith_status pith_service_render(struct pith_service *service, const char *given, char **prompt,
                                     size_t *size, struct pith_error *err)
{
    (void)service, (void)err;
    return copy(given, strlen(given), prompt, size);
}

enum pith_status pith_service_embed(struct pith_service *service, const struct pith_input_text *in,
                                    float **out, size_t *width, struct pith_error *err)
{
    (void)service, (void)err;
    *width = 3;
    *out = malloc(3 * sizeof **out);
    for (size_t i = 0; i < 3; i++) (*out)[i] = (float)in->ids[0] + (float)(in->count * i);
    return PITH_OK;
}

void pith_service_state(struct pith_service *service, struct pith_service_state *out)
{
    (void)service;
    *out = (struct pith_service_state){
        .size = out->size, .running = fake_running(), .context = 1000, .vocab = 256, .pages = 4};
}
