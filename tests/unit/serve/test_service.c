/* The service: what a request gets is the same, to the bit, alone and in company, with a prefix
 * that was kept and without, before and after its pages were taken away; ends, stops, failures. */
#include "test.h"

#include <jansson.h>
#include <math.h>
#include <pith/engine.h>
#include <pthread.h>
#include <stdlib.h>

#define MODEL "models/probe"
enum { MOST_TOKENS = 256, MOST_TEXT = 4096 };

/* What was told of one request. */
struct heard {
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool ended;
    char text[MOST_TEXT], prompt[MOST_TEXT], finish[16], failure[1024];
    size_t text_size, tokens, prompt_tokens, choices, told; /* events with tokens */
    int32_t id[MOST_TOKENS];
    float logprob[MOST_TOKENS], top[MOST_TOKENS], prompt_logprob[MOST_TOKENS];
    struct pith_usage usage;
    int stop;
    uint32_t choice;              /* the one that is listened to */
    struct pith_service *cancels; /* at the first text */
};

static struct pith_context *context;
static struct pith_engine *engine;

static int open_engine(void **state)
{
    (void)state;
    struct pith_error err = {0};
    assert_ok(pith_context_new(2, NULL, &context, &err), err);
    assert_ok(pith_engine_open(context, MODEL, &engine, &err), err);
    return 0;
}

static int close_engine(void **state)
{
    (void)state;
    pith_engine_close(&engine);
    pith_context_free(&context);
    return 0;
}

static void hear_tokens(struct heard *h, const struct pith_event *e)
{
    for (size_t i = 0; i < e->tokens && h->tokens < MOST_TOKENS; i++) {
        h->id[h->tokens] = e->token[i].id;
        h->logprob[h->tokens] = e->token[i].logprob;
        h->top[h->tokens++] = e->token[i].tops ? e->token[i].top[0].logprob : 0;
    }
}

static void on_event(void *ctx, const struct pith_event *e)
{
    struct heard *h = ctx;
    pthread_mutex_lock(&h->lock);
    switch (e->kind) {
    case PITH_EVENT_PROMPT:
        memcpy(h->prompt, e->text, e->text_size);
        h->prompt_tokens = e->tokens;
        for (size_t i = 0; i < e->tokens; i++) h->prompt_logprob[i] = e->token[i].logprob;
        break;
    case PITH_EVENT_TEXT:
        if (e->choice == h->choice) {
            memcpy(h->text + h->text_size, e->text, e->text_size);
            h->text_size += e->text_size;
            h->told += e->tokens > 0;
            hear_tokens(h, e);
        }
        if (h->cancels) pith_cancel(h->cancels, e->request);
        break;
    case PITH_EVENT_CHOICE:
        h->choices++;
        if (e->choice == h->choice) {
            snprintf(h->finish, sizeof h->finish, "%s", e->finish);
            h->stop = e->stop != NULL;
        }
        break;
    case PITH_EVENT_FAILED:
        snprintf(h->failure, sizeof h->failure, "%s", e->error->text);
        h->ended = true;
        pthread_cond_signal(&h->over);
        break;
    case PITH_EVENT_END:
        h->usage = e->usage;
        h->ended = true;
        pthread_cond_signal(&h->over);
    }
    pthread_mutex_unlock(&h->lock);
}

static struct heard *listen_to(struct pith_request *r)
{
    struct heard *h = calloc(1, sizeof *h);
    assert_non_null(h);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->over, NULL);
    r->event = on_event;
    r->ctx = h;
    return h;
}

static void wait_for(struct heard *h)
{
    pthread_mutex_lock(&h->lock);
    while (!h->ended) pthread_cond_wait(&h->over, &h->lock);
    pthread_mutex_unlock(&h->lock);
    if (h->failure[0]) print_message("%s\n", h->failure);
    assert_int_equal(h->failure[0], 0);
}

static void forget(struct heard *h)
{
    pthread_cond_destroy(&h->over);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

static struct pith_request ask(const char *text, size_t tokens)
{
    struct pith_request r;
    pith_request_defaults(&r);
    r.text = text;
    r.text_size = strlen(text);
    r.max_tokens = tokens;
    r.logprobs = 2;
    return r;
}

static struct heard *submit(struct pith_service *v, struct pith_request *r)
{
    struct pith_error err = {0};
    struct heard *h = listen_to(r);
    assert_ok(pith_submit(v, r, NULL, &err), err);
    return h;
}

static struct pith_service *start(const struct pith_service_options *o)
{
    struct pith_error err = {0};
    struct pith_service *v = NULL;
    assert_ok(pith_service_open(engine, o, &v, &err), err);
    return v;
}

static void assert_same(const struct heard *a, const struct heard *b)
{
    assert_int_equal(a->tokens, b->tokens);
    assert_memory_equal(a->id, b->id, a->tokens * sizeof *a->id);
    assert_memory_equal(a->logprob, b->logprob, a->tokens * sizeof *a->logprob);
    assert_memory_equal(a->top, b->top, a->tokens * sizeof *a->top);
    assert_int_equal(a->text_size, b->text_size);
    assert_memory_equal(a->text, b->text, a->text_size);
    assert_string_equal(a->finish, b->finish);
}

static const char *const stories[] = {
    "The lighthouse keeper climbed the stairs and",
    "Knit one row, then",
    "In the year of the great flood the people of the valley carried their bread and their lamps "
    "up "
    "the hill, and there they waited, and the water rose, and nobody said a word until the morning",
    "He said that",
    "A list of things to bring: bread, salt, a lamp, bread, salt, a lamp, bread, salt,",
};

/* One request of each kind of drawing. */
static struct pith_request kind_of(size_t i)
{
    struct pith_request r = ask(stories[i % 5], 24);
    if (i % 3 == 1) r.temperature = 0.8f, r.top_p = 0.9f, r.seed = i;
    if (i % 3 == 2) r.temperature = 1.2f, r.min_p = 0.05f, r.repetition = 1.2f, r.seed = i;
    if (i % 4 == 3) r.frequency = 0.5f, r.presence = 0.3f;
    r.client = i % 4;
    return r;
}

enum { MANY = 32 };

static void alone(struct heard *out[MANY])
{
    struct pith_service_options o;
    pith_service_defaults(&o);
    o.no_prefix_cache = 1;
    struct pith_service *v = start(&o);
    for (size_t i = 0; i < MANY; i++) {
        struct pith_request r = kind_of(i);
        wait_for(out[i] = submit(v, &r));
        assert_int_equal(out[i]->usage.cached, 0);
    }
    pith_service_close(&v);
}

/* All at once in a service of few pages, so that answers are sent back; then again, with what was
 * kept. Returns how many were sent back. */
static uint64_t together(const struct pith_service_options *o, struct heard *const expected[MANY],
                         bool hits)
{
    struct pith_service *v = start(o);
    struct pith_service_state state = {.size = sizeof state};
    size_t cached = 0;
    for (int round = 0; round < 2; round++) {
        struct heard *h[MANY];
        for (size_t i = 0; i < MANY; i++) {
            struct pith_request r = kind_of(i);
            if (i % 5 == 4) r.lookup = 4;
            h[i] = submit(v, &r);
        }
        for (size_t i = 0; i < MANY; i++) {
            wait_for(h[i]);
            assert_same(expected[i], h[i]);
            cached += h[i]->usage.cached;
            forget(h[i]);
        }
    }
    pith_service_state(v, &state);
    pith_service_close(&v);
    assert_true(!hits || cached > 0);
    return state.preempted;
}

static void bits_are_the_same_in_company(void **state)
{
    (void)state;
    struct heard *expected[MANY];
    struct pith_service_options o;
    alone(expected);
    pith_service_defaults(&o);
    o.sequences = 40;
    (void)together(&o, expected, true);
    o.context = 96; /* and pages for few of them */
    o.tokens = 320;
    assert_true(together(&o, expected, false) > 0);
    o.batch = 40; /* prompts in pieces */
    o.pace = 1e-6;
    (void)together(&o, expected, false);
    for (size_t i = 0; i < MANY; i++) forget(expected[i]);
}

/* A long beginning that is asked for again is not computed again. */
static void a_prefix_is_kept(void **state)
{
    (void)state;
    char text[1200] = "";
    struct pith_service_options o;
    pith_service_defaults(&o);
    struct pith_service *v = start(&o);
    for (size_t i = 0; strlen(text) < 1000; i++)
        snprintf(text + strlen(text), 64, "Line %zu of the letter. ", i);
    struct pith_request r = ask(text, 8);
    struct heard *first = submit(v, &r);
    wait_for(first);
    struct heard *again = submit(v, &r);
    wait_for(again);
    assert_same(first, again);
    assert_int_equal(first->usage.cached, 0);
    assert_int_equal(again->usage.cached, again->usage.prompt - 1);
    char other[1300];
    snprintf(other, sizeof other, "%.500sBut now something else.", text);
    r = ask(other, 8);
    struct heard *fork = submit(v, &r);
    wait_for(fork);
    assert_true(fork->usage.cached > 32 && fork->usage.cached < fork->usage.prompt);
    forget(first);
    forget(again);
    forget(fork);
    pith_service_close(&v);
}

static void choices_and_the_best_of_them(void **state)
{
    (void)state;
    struct pith_service_options o;
    pith_service_defaults(&o);
    struct pith_service *v = start(&o);
    struct heard *h[4], *best;
    double mean[4];
    size_t found = 4;
    for (uint32_t i = 0; i < 4; i++) {
        struct pith_request r = ask(stories[0], 12);
        r.temperature = 1;
        r.seed = 5;
        r.n = 4;
        h[i] = listen_to(&r);
        h[i]->choice = i;
        struct pith_error err = {0};
        assert_ok(pith_submit(v, &r, NULL, &err), err);
        wait_for(h[i]);
        assert_int_equal(h[i]->choices, 4);
        assert_int_equal(h[i]->usage.generated, 48);
        mean[i] = 0;
        for (size_t k = 0; k < h[i]->tokens; k++) mean[i] += (double)h[i]->logprob[k];
        for (uint32_t k = 0; k < i; k++) assert_string_not_equal(h[i]->text, h[k]->text);
    }
    struct pith_request r = ask(stories[0], 12);
    r.temperature = 1;
    r.seed = 5;
    r.best_of = 4;
    best = submit(v, &r);
    wait_for(best);
    assert_int_equal(best->choices, 1);
    for (size_t i = 0; i < 4; i++)
        if (strcmp(h[i]->text, best->text) == 0) found = i;
    assert_true(found < 4);
    for (size_t i = 0; i < 4; i++) assert_true(mean[found] >= mean[i]);
    for (size_t i = 0; i < 4; i++) forget(h[i]);
    forget(best);
    pith_service_close(&v);
}

/* Stop texts end an answer wherever they begin, and are not part of it. */
static void stop_texts(void **state)
{
    (void)state;
    struct pith_service_options o;
    pith_service_defaults(&o);
    struct pith_service *v = start(&o);
    struct pith_request r = ask(stories[2], 24);
    struct heard *whole = submit(v, &r);
    wait_for(whole);
    for (size_t at = 3; at + 5 < whole->text_size; at += 7) {
        char stop[6] = "";
        memcpy(stop, whole->text + at, 5);
        const char *list[] = {"never said", stop};
        r.stop = (struct pith_list){list, 2};
        struct heard *h = submit(v, &r);
        wait_for(h);
        const char *where = strstr(whole->text, stop);
        assert_int_equal(h->text_size, (size_t)(where - whole->text));
        assert_memory_equal(h->text, whole->text, h->text_size);
        assert_string_equal(h->finish, "stop");
        assert_true(h->stop);
        forget(h);
    }
    forget(whole);
    pith_service_close(&v);
}

/* Scores of a prompt are those that answers are told, and do not depend on how it was cut. */
/* Each token is told when it is there, also one whose text is held back: here the whole answer, as
 * the beginning of a text that would end it. */
static void tokens_are_told_without_text(void **state)
{
    (void)state;
    struct pith_service_options o;
    pith_service_defaults(&o);
    struct pith_service *v = start(&o);
    struct pith_request r = ask(stories[2], 12);
    struct heard *whole = submit(v, &r);
    wait_for(whole);
    char stop[4096];
    assert_true(whole->text_size < 4000);
    snprintf(stop, sizeof stop, "%.*s and never more", (int)whole->text_size, whole->text);
    const char *list[] = {stop};
    r.logprobs = -1;
    r.stop = (struct pith_list){list, 1};
    struct heard *h = submit(v, &r);
    wait_for(h);
    assert_int_equal(h->told, 12);
    assert_int_equal(h->text_size, whole->text_size);
    forget(h);
    forget(whole);
    pith_service_close(&v);
}

static void prompts_are_scored(void **state)
{
    (void)state;
    struct pith_service_options o;
    pith_service_defaults(&o);
    for (int cut = 0; cut < 2; cut++) {
        o.batch = cut ? 64 : 512;
        struct pith_service *v = start(&o);
        struct pith_request r = ask(stories[1], 20);
        struct heard *h = submit(v, &r);
        wait_for(h);
        char text[2 * MOST_TEXT];
        int32_t ids[MOST_TOKENS];
        snprintf(text, sizeof text, "%s%s", stories[1], h->text);
        struct pith_error err = {0};
        char *list = NULL;
        const struct pith_input_text in = {
            .text = stories[1], .size = strlen(stories[1]), .special = 1};
        assert_ok(pith_service_encode(v, &in, &list, &err), err);
        size_t n = 0;
        for (const char *p = list; *p && *p != ']'; p = strpbrk(p + 1, ",]"))
            ids[n++] = (int32_t)strtol(p + 1, NULL, 10);
        pith_text_free(list);
        memcpy(ids + n, h->id, h->tokens * sizeof *ids);
        struct pith_request again = ask("", 1);
        again.ids = ids;
        again.id_count = n + h->tokens;
        again.prompt_logprobs = 0;
        again.echo = 1;
        struct heard *told = submit(v, &again);
        wait_for(told);
        assert_int_equal(told->prompt_tokens, n + h->tokens);
        assert_true(isnan(told->prompt_logprob[0]));
        assert_memory_equal(told->prompt_logprob + n, h->logprob, h->tokens * sizeof(float));
        assert_string_equal(told->prompt, text);
        forget(h);
        forget(told);
        pith_service_close(&v);
    }
}

/* A prompt that fills the context is scored, to the same bits; one more token is too many, and so
 * is an answer. */
static void whole_contexts_are_scored(void **state)
{
    (void)state;
    enum { CONTEXT = 64 };
    struct pith_service_options o;
    struct pith_error err = {0};
    int32_t ids[CONTEXT + 1];
    uint64_t id;
    pith_service_defaults(&o);
    o.context = CONTEXT;
    for (int i = 0; i <= CONTEXT; i++) ids[i] = 300 + 7 * i;
    struct pith_service *v = start(&o);
    struct pith_request r = ask("", 0);
    r.ids = ids;
    r.id_count = CONTEXT;
    r.prompt_logprobs = 0;
    r.prompt_only = 1;
    struct heard *h = submit(v, &r);
    wait_for(h);
    assert_int_equal(h->prompt_tokens, CONTEXT);
    assert_int_equal(h->tokens, 0);
    assert_int_equal(h->usage.generated, 0);
    assert_string_equal(h->finish, "length");
    assert_string_equal(h->prompt, "");
    r.prompt_only = 0;
    r.max_tokens = 1;
    assert_int_equal(pith_submit(v, &r, &id, &err), PITH_LENGTH);
    assert_non_null(strstr(err.text, "maximum context length is 64 tokens"));
    r.id_count = CONTEXT - 1;
    struct heard *shorter = submit(v, &r);
    wait_for(shorter);
    assert_memory_equal(shorter->prompt_logprob + 1, h->prompt_logprob + 1,
                        (CONTEXT - 2) * sizeof(float));
    r.prompt_only = 1;
    r.id_count = CONTEXT + 1;
    assert_int_equal(pith_submit(v, &r, &id, &err), PITH_LENGTH);
    forget(shorter);
    forget(h);
    pith_service_close(&v);
}

static void cancelled_late_and_refused(void **state)
{
    (void)state;
    struct pith_service_options o;
    pith_service_defaults(&o);
    o.queue = 1;
    o.sequences = 1;
    struct pith_service *v = start(&o);
    struct pith_error err = {0};
    struct pith_request r = ask(stories[0], 200);
    r.ignore_end = 1;
    struct heard *h = listen_to(&r);
    h->cancels = v;
    assert_ok(pith_submit(v, &r, NULL, &err), err);
    wait_for(h);
    assert_string_equal(h->finish, "cancelled");
    assert_true(h->tokens < 200);
    forget(h);

    r = ask(stories[0], 0);
    r.ignore_end = 1;
    r.deadline = 0.05;
    h = submit(v, &r);
    wait_for(h);
    assert_string_equal(h->finish, "deadline");
    forget(h);

    r = ask("", 4);
    r.text_size = 0;
    r.bare = 1;
    assert_int_equal(pith_submit(v, &r, NULL, NULL), PITH_ARG);
    r = ask("\xff", 4);
    assert_int_equal(pith_submit(v, &r, NULL, NULL), PITH_FORMAT);
    r = ask("a", 1u << 30);
    assert_int_equal(pith_submit(v, &r, NULL, NULL), PITH_LENGTH);
    r = ask("a", 4);
    r.ids = (const int32_t[]){1, 1 << 30};
    r.id_count = 2;
    assert_int_equal(pith_submit(v, &r, NULL, NULL), PITH_ARG);
    r = ask("a", 4);
    r.temperature = NAN;
    assert_int_equal(pith_submit(v, &r, NULL, NULL), PITH_ARG);
    pith_service_drain(v);
    r = ask("a", 4);
    assert_int_equal(pith_submit(v, &r, NULL, NULL), PITH_CLOSED);
    pith_service_close(&v);
}

static void a_full_queue(void **state)
{
    (void)state;
    struct pith_service_options o;
    pith_service_defaults(&o);
    o.queue = 2;
    o.sequences = 1;
    struct pith_service *v = start(&o);
    struct heard *h[8] = {0};
    size_t busy = 0;
    for (size_t i = 0; i < 8; i++) {
        struct pith_request r = ask(stories[0], 100);
        r.ignore_end = 1;
        h[i] = listen_to(&r);
        const enum pith_status s = pith_submit(v, &r, NULL, NULL);
        assert_true(s == PITH_OK || s == PITH_BUSY);
        h[i]->ended = s == PITH_BUSY;
        busy += s == PITH_BUSY;
    }
    assert_int_equal(busy, 5); /* one place, and two that wait */
    pith_service_close(&v); /* what runs and waits is told its end */
    for (size_t i = 0; i < 8; i++) {
        assert_true(h[i]->ended);
        forget(h[i]);
    }
}

/* An idle service takes as many at once as it has places, and the queue beside them; a request of
 * several choices takes as many places. */
static void free_places_are_no_queue(void **state)
{
    (void)state;
    struct pith_service_options o;
    pith_service_defaults(&o);
    o.queue = 1;
    o.sequences = 4;
    struct pith_service *v = start(&o);
    struct heard *h[5] = {0};
    for (size_t i = 0; i < 5; i++) {
        struct pith_request r = ask(stories[0], 100);
        r.ignore_end = 1;
        r.n = i == 0 ? 2 : 1;
        h[i] = listen_to(&r);
        const enum pith_status s = pith_submit(v, &r, NULL, NULL);
        assert_int_equal(s, i < 4 ? PITH_OK : PITH_BUSY);
        h[i]->ended = s == PITH_BUSY;
    }
    pith_service_close(&v);
    for (size_t i = 0; i < 5; i++) forget(h[i]);
}

static void answers_have_the_form_that_was_asked_for(void **state)
{
    (void)state;
    static const char schema[] =
        "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\", \"maxLength\": "
        "12},"
        " \"kind\": {\"enum\": [\"lamp\", \"rope\"]}, \"count\": {\"type\": \"integer\","
        " \"minimum\": 3, \"maximum\": 40}}, \"required\": [\"name\", \"kind\", \"count\"],"
        " \"additionalProperties\": false}";
    struct pith_service_options o;
    pith_service_defaults(&o);
    struct pith_service *v = start(&o);
    struct heard *h[16];
    for (size_t i = 0; i < 16; i++) {
        struct pith_request r = ask(stories[i % 5], 200);
        r.temperature = 1.5f;
        r.seed = i / 4;
        r.lookup = i % 2 ? 3 : 0; /* which changes nothing */
        r.constraint = i / 2 % 2 ? PITH_SCHEMA : PITH_EXPRESSION;
        r.constraint_text = i / 2 % 2 ? schema : "(yes|no) [0-9]{3}";
        if (i % 2) r.text = stories[(i - 1) % 5], r.text_size = strlen(r.text);
        h[i] = submit(v, &r);
    }
    for (size_t i = 0; i < 16; i++) {
        wait_for(h[i]);
        assert_string_equal(h[i]->finish, "stop");
        if (i % 2) assert_same(h[i - 1], h[i]);
        if (i / 2 % 2) {
            json_t *j = json_loads(h[i]->text, 0, NULL);
            const char *name = json_string_value(json_object_get(j, "name")),
                       *kind = json_string_value(json_object_get(j, "kind"));
            const json_int_t count = json_integer_value(json_object_get(j, "count"));
            assert_true(name && kind && json_object_size(j) == 3);
            assert_true(strcmp(kind, "lamp") == 0 || strcmp(kind, "rope") == 0);
            assert_true(count >= 3 && count <= 40);
            json_decref(j);
        } else {
            const size_t n = h[i]->text[0] == 'y' ? 3 : 2;
            assert_int_equal(h[i]->text_size, n + 4);
            assert_true(strncmp(h[i]->text, "yes ", 4) == 0 || strncmp(h[i]->text, "no ", 3) == 0);
            assert_int_equal(strspn(h[i]->text + n + 1, "0123456789"), 3);
        }
    }
    for (size_t i = 0; i < 16; i++) forget(h[i]);
    struct pith_request r = ask("a", 8);
    r.constraint = PITH_EXPRESSION;
    r.constraint_text = "(a";
    assert_int_equal(pith_submit(v, &r, NULL, NULL), PITH_FORMAT);
    pith_service_close(&v);
}

/* One request of a client goes before the many that another sent earlier. */
static void a_client_with_few_is_not_kept_out(void **state)
{
    (void)state;
    enum { FLOOD = 12 };
    struct pith_service_options o;
    pith_service_defaults(&o);
    o.sequences = 2;
    struct pith_service *v = start(&o);
    struct heard *h[FLOOD];
    struct pith_request r = ask(stories[0], 60);
    r.ignore_end = 1;
    r.client = 1;
    for (size_t i = 0; i < FLOOD; i++) h[i] = submit(v, &r);
    r.client = 2;
    struct heard *few = submit(v, &r);
    for (size_t i = 0; i < FLOOD; i++) wait_for(h[i]);
    wait_for(few);
    assert_true(few->usage.seconds < h[FLOOD / 2]->usage.seconds);
    for (size_t i = 0; i < FLOOD; i++) forget(h[i]);
    forget(few);
    pith_service_close(&v);
}

static void an_embedding_is_the_same_however_cut(void **state)
{
    (void)state;
    float *first = NULL, *x = NULL;
    size_t width = 0;
    const int32_t ids[] = {5, 60, 7, 80, 9, 100, 11, 12, 130, 14, 15, 16, 17, 18};
    for (size_t batch = 64; batch <= 512; batch *= 8) {
        struct pith_service_options o;
        pith_service_defaults(&o);
        o.batch = batch;
        o.sequences = 4;
        struct pith_service *v = start(&o);
        struct pith_error err = {0};
        double square = 0;
        const struct pith_input_text in = {.ids = ids, .count = 14, .normal = 1};
        assert_ok(pith_service_embed(v, &in, &x, &width, &err), err);
        for (size_t i = 0; i < width; i++) square += (double)x[i] * (double)x[i];
        assert_float_equal(square, 1, 1e-5);
        if (first) assert_memory_equal(first, x, width * sizeof *x);
        if (first) pith_text_free((char *)x);
        else first = x;
        pith_service_close(&v);
    }
    pith_text_free((char *)first);
}

static void a_ceiling_on_memory(void **state)
{
    (void)state;
    struct pith_service_options o;
    pith_service_defaults(&o);
    o.memory = 1 << 20;
    struct pith_service *v = NULL;
    struct pith_error err = {0};
    assert_int_equal(pith_service_open(engine, &o, &v, &err), PITH_LIMIT);
    assert_non_null(strstr(err.text, "would"));
    assert_null(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_the_same_in_company),
        cmocka_unit_test(a_prefix_is_kept),
        cmocka_unit_test(choices_and_the_best_of_them),
        cmocka_unit_test(stop_texts),
        cmocka_unit_test(tokens_are_told_without_text),
        cmocka_unit_test(prompts_are_scored),
        cmocka_unit_test(whole_contexts_are_scored),
        cmocka_unit_test(cancelled_late_and_refused),
        cmocka_unit_test(a_full_queue),
        cmocka_unit_test(free_places_are_no_queue),
        cmocka_unit_test(answers_have_the_form_that_was_asked_for),
        cmocka_unit_test(a_client_with_few_is_not_kept_out),
        cmocka_unit_test(an_embedding_is_the_same_however_cut),
        cmocka_unit_test(a_ceiling_on_memory),
    };
    return cmocka_run_group_tests_name("serve/service", tests, open_engine, close_engine);
}
