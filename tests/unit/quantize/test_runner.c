/* Many sequences: a sequence's bits are those it has alone, in whatever company, chunks, threads;
 * pages are shared, copied, counted and given back. */
#include "choose/kv_levels.h"
#include "model/runner.h"
#include "num/elements/elements.h"
#include "requests.h"
#include "unit/model/arch_case.h"

enum { TOKENS = 90, WIDE = 64, USERS = 5 };

struct cases {
    struct rig r;
    size_t hidden;
};

static void open_case(struct cases *c, const char *name, unsigned threads)
{
    rig_open_arch(&c->r, name, threads);
    c->hidden = c->r.model->shape.hidden;
    assert_in_range(c->hidden, 1, WIDE);
}

static void close_case(struct cases *c)
{
    rig_close(&c->r);
}

/* User u's tokens. */
static void tokens_of(uint32_t u, int32_t ids[TOKENS])
{
    for (uint32_t i = 0; i < TOKENS; i++)
        ids[i] = (int32_t)((i * 31 + u * 17 + i * i * (u + 3)) % 80);
}

/* Those of other tokens than any user's. */
static void give_levels(const struct cases *c)
{
    struct pith_error err = {0};
    int32_t ids[2 * TOKENS];
    const struct pith_kv_levels_job job = {.backend = c->r.backend, .model = c->r.model};
    if (c->r.model->kv_levels) return;
    tokens_of(USERS, ids);
    tokens_of(USERS + 1, ids + TOKENS);
    assert_ok(pith_kv_levels_measure(&job, &(struct pith_kv_windows){ids, 2, TOKENS},
                                     &c->r.model->kv_levels, &err),
              err);
}

static struct pith_kv_format format_of(const struct cases *c, const char *name)
{
    struct pith_error err = {0};
    struct pith_kv_format f;
    assert_ok(pith_kv_parse(name, PITH_F32, c->r.model, &f, &err), err);
    if (pith_kv_needs_levels(&f, c->r.model->plans.layers)) give_levels(c);
    return f;
}

static void begin(const struct cases *c, struct pith_runner *r, struct pith_runner_options o)
{
    struct pith_error err = {0};
    if (o.context == 0) o.context = TOKENS;
    assert_ok(pith_runner_init(r, c->r.model, c->r.backend, &o, &err), err);
}

static uint32_t open_one(struct pith_runner *r)
{
    struct pith_error err = {0};
    uint32_t sequence;
    assert_ok(pith_runner_open(r, &sequence, &err), err);
    return sequence;
}

static void read_ids(struct pith_runner *r, uint32_t sequence, const int32_t *ids, size_t n,
                     float *x)
{
    struct pith_error err = {0};
    const struct pith_step_span span = {.sequence = sequence, .ids = ids, .n = n, .x = x};
    assert_ok(pith_runner_step(r, &span, 1, &err), err);
}

/* All rows of n tokens that are read alone and at once. */
static void alone(const struct cases *c, const char *kv, const int32_t *ids, size_t n, float *x)
{
    struct pith_runner r;
    begin(c, &r,
          (struct pith_runner_options){.sequences = 1, .rows = TOKENS, .format = format_of(c, kv)});
    read_ids(&r, open_one(&r), ids, n, x);
    pith_runner_free(&r);
}

/* Users read on by unequal pieces in the same steps, `rows` of them computed at once. */
static void in_company(const struct cases *c, const char *kv, size_t rows, uint32_t seed)
{
    struct pith_error err = {0};
    struct pith_runner r;
    static float expected[USERS][TOKENS * WIDE], x[USERS][TOKENS * WIDE];
    int32_t ids[USERS][TOKENS];
    uint32_t sequence[USERS];
    size_t done[USERS] = {0}, all = 0;
    begin(
        c, &r,
        (struct pith_runner_options){.sequences = USERS, .rows = rows, .format = format_of(c, kv)});
    for (uint32_t u = 0; u < USERS; u++) {
        tokens_of(u, ids[u]);
        alone(c, kv, ids[u], TOKENS, expected[u]);
        sequence[u] = open_one(&r);
    }
    for (uint32_t step = seed; all < USERS * TOKENS; step++) {
        struct pith_step_span span[USERS];
        size_t spans = 0;
        for (uint32_t u = 0; u < USERS; u++) {
            const uint32_t who = (u + step) % USERS;
            size_t n = (step * 7 + who * 13) % 5 == 0 ? (step * 11 + who) % 40 : 1;
            if (n > TOKENS - done[who]) n = TOKENS - done[who];
            if ((step + who) % 4 == 0) continue;
            span[spans++] = (struct pith_step_span){.sequence = sequence[who],
                                                    .ids = ids[who] + done[who],
                                                    .n = n,
                                                    .x = x[who] + done[who] * c->hidden};
            done[who] += n;
            all += n;
        }
        assert_ok(pith_runner_step(&r, span, spans, &err), err);
    }
    for (uint32_t u = 0; u < USERS; u++) {
        assert_int_equal(pith_runner_length(&r, sequence[u]), TOKENS);
        if (memcmp(x[u], expected[u], TOKENS * c->hidden * sizeof(float)) != 0)
            fail_msg("%s, %s, %zu rows, user %u: other bits in company", c->r.dir, kv, rows, u);
    }
    pith_runner_free(&r);
}

/* Latents have one format and are not rotated; nor are heads whose size is no power of two. */
static bool can_have(const struct cases *c, const char *name, int *refused)
{
    struct pith_error err = {0};
    struct pith_kv_format f;
    const enum pith_status s = pith_kv_parse(name, PITH_F32, c->r.model, &f, &err);
    if (s != PITH_OK) assert_int_equal(s, PITH_UNSUPPORTED);
    *refused += s != PITH_OK;
    return s == PITH_OK;
}

static void company_does_not_matter(void **state)
{
    /* Of deepseek_v3's latents seven, of heads of 12 numbers six times two, of those without
       recurrent states two times eleven. */
    enum { REFUSED = 41 };
    int refused = 0;
    (void)state;
    static const char *const archs[] = {"llama",     "gemma2",      "mistral",          "gpt_oss",
                                        "llama4",    "deepseek_v3", "qwen3_next",       "mixtral",
                                        "gpt_neox",  "lfm2",        "granitemoehybrid", "cohere2",
                                        "qwen3_moe", "opt",         "gemma4_small"};
    static const char *const formats[] = {"f32",
                                          "bf16",
                                          "f16",
                                          "k=f16,v=int4:token,sink=4,recent=33",
                                          "int8:token",
                                          "k=fp8_e5m2:token,v=int4:g4:asym",
                                          "int4:token,rotate",
                                          "k=turbo3,v=turbo4",
                                          "int4:token,sink=4,recent=33",
                                          "kivi4",
                                          "k=kivi2,v=int8:token,sink=1",
                                          "kvquant3",
                                          "k=kvquant2,v=kivi4,recent=33",
                                          "f32,state=bf16",
                                          "bf16,state=fp8_e4m3"};
    for (size_t a = 0; a < PITH_COUNT(archs); a++)
        for (unsigned threads = 1; threads <= 3; threads += 2) {
            struct cases c;
            /* Rotations are chosen by the length of the context; places end at 64. */
            open_case(&c, archs[a], threads);
            if (c.r.model->shape.place.learned == 0)
                for (size_t f = 0; f < PITH_COUNT(formats); f++)
                    if (can_have(&c, formats[f], &refused))
                        in_company(&c, formats[f], threads == 1 ? 7 : 64, (uint32_t)(a + f));
            close_case(&c);
        }
    assert_int_equal(refused, 2 * REFUSED);
}

static void beginnings_are_shared(void **state)
{
    (void)state;
    struct cases c;
    struct pith_runner r;
    struct pith_error err = {0};
    int32_t ids[TOKENS];
    static float x[TOKENS * WIDE], y[TOKENS * WIDE], expected[TOKENS * WIDE];
    uint32_t fork[7];
    open_case(&c, "llama", 2);
    tokens_of(0, ids);
    /* 70 tokens are 3 pages; each fork needs one more when it goes on. */
    begin(&c, &r,
          (struct pith_runner_options){.sequences = 8,
                                       .rows = 32,
                                       .tokens = (3 + 7) * 32,
                                       .format = pith_kv_floats(PITH_F32)});
    const uint32_t first = open_one(&r);
    read_ids(&r, first, ids, 70, x);
    assert_int_equal(r.kv.group[0].unused, 7);
    for (size_t i = 0; i < PITH_COUNT(fork); i++)
        assert_ok(pith_runner_fork(&r, first, 70, &fork[i], &err), err);
    assert_int_equal(r.kv.group[0].unused, 7); /* nothing was copied */
    for (uint32_t i = 0; i < PITH_COUNT(fork); i++) {
        int32_t own[TOKENS];
        memcpy(own, ids, sizeof own);
        for (size_t k = 70; k < TOKENS; k++) own[k] = (int32_t)((k * 7 + i) % 80);
        read_ids(&r, fork[i], own + 70, 20, y);
        assert_int_equal(r.kv.group[0].unused, 6 - i);
        alone(&c, "f32", own, TOKENS, expected);
        assert_memory_equal(y, expected + 70 * c.hidden, 20 * c.hidden * sizeof *y);
    }
    /* The pool is used up, and the first still has what it had. */
    read_ids(&r, first, ids + 70, 20, y);
    alone(&c, "f32", ids, TOKENS, expected);
    assert_memory_equal(y, expected + 70 * c.hidden, 20 * c.hidden * sizeof *y);
    for (size_t i = 0; i < PITH_COUNT(fork); i++) pith_runner_close(&r, fork[i]);
    assert_int_equal(r.kv.group[0].unused, 7);
    pith_runner_close(&r, first);
    assert_int_equal(r.kv.group[0].unused, 10);
    pith_runner_free(&r);
    close_case(&c);
}

/* Forked, and rewound, at every position of two pages. */
static void any_place_will_do(const char *name, const char *kv, bool keep)
{
    struct cases c;
    struct pith_runner r;
    struct pith_error err = {0};
    int32_t ids[TOKENS], other[TOKENS];
    static float x[TOKENS * WIDE], y[TOKENS * WIDE], expected[TOKENS * WIDE];
    open_case(&c, name, 2);
    tokens_of(0, ids);
    begin(&c, &r,
          (struct pith_runner_options){
              .sequences = 3, .rows = 40, .keep = keep, .format = format_of(&c, kv)});
    const uint32_t first = open_one(&r), second = open_one(&r);
    read_ids(&r, first, ids, TOKENS, x);
    for (size_t at = 0; at <= 66; at += at < 30 || at > 34 ? 3 : 1) {
        uint32_t fork;
        tokens_of(1 + (uint32_t)at, other);
        memcpy(other, ids, at * sizeof *ids);
        alone(&c, kv, other, at + 9, expected);
        assert_ok(pith_runner_fork(&r, first, at, &fork, &err), err);
        read_ids(&r, fork, other + at, 9, y);
        assert_memory_equal(y, expected + at * c.hidden, 9 * c.hidden * sizeof *y);
        pith_runner_close(&r, fork);
        if (pith_runner_length(&r, second) > 0) pith_runner_rewind(&r, second, 0);
        read_ids(&r, second, ids, 80, y);
        pith_runner_rewind(&r, second, at);
        assert_int_equal(pith_runner_length(&r, second), at);
        read_ids(&r, second, other + at, 9, y);
        assert_memory_equal(y, expected + at * c.hidden, 9 * c.hidden * sizeof *y);
    }
    /* The one that was forked from has its own bits still. */
    alone(&c, kv, ids, TOKENS, expected);
    pith_runner_rewind(&r, first, 61);
    read_ids(&r, first, ids + 61, TOKENS - 61, y);
    assert_memory_equal(y, expected + 61 * c.hidden, (TOKENS - 61) * c.hidden * sizeof *y);
    pith_runner_free(&r);
    close_case(&c);
}

static void forks_and_rewinds_at_every_place(void **state)
{
    (void)state;
    any_place_will_do("llama", "f32", false);
    any_place_will_do("llama", "bf16", false);
    any_place_will_do("gemma2", "int8:token", false);
    any_place_will_do("gemma2", "f32", true);
    any_place_will_do("mistral", "f32", false);
    any_place_will_do("llama", "int4:token,sink=4,recent=33", false);
    any_place_will_do("llama", "int4:token,recent=1", false);
    any_place_will_do("gemma2", "k=int4:token,v=f32,sink=40", false);
    any_place_will_do("qwen3_next", "int4:token,recent=1", false);
    any_place_will_do("gemma2", "int4:token,recent=20", true);
    any_place_will_do("deepseek_v3", "int8:token,sink=1,recent=1", false);
    any_place_will_do("llama", "kivi2", false);
    any_place_will_do("llama", "kivi4,sink=1,recent=40", false);
    any_place_will_do("gemma2", "k=kivi4,v=f32", false);
    any_place_will_do("mistral", "k=kivi2,v=kivi4", true);
    any_place_will_do("qwen3_next", "kivi4", false);
    any_place_will_do("llama", "kvquant2", false);
    any_place_will_do("llama", "kvquant4,recent=20", false);
    any_place_will_do("gemma2", "k=kvquant3,v=f32", false);
    any_place_will_do("mistral", "k=kivi4,v=kvquant2,sink=40", true);
    any_place_will_do("qwen3_next", "kvquant4", false);
    any_place_will_do("gemma4_small", "kvquant4", false);
    any_place_will_do("deepseek_v3", "kivi2", false);
    any_place_will_do("deepseek_v3", "kivi4,sink=1,recent=40", true);
    any_place_will_do("llama", "f16", false);
    any_place_will_do("gemma2", "k=kivi4,v=f16,recent=33", false);
    any_place_will_do("deepseek_v3", "f16", false);
    any_place_will_do("deepseek_v3", "bf16", false);
    any_place_will_do("qwen3_next", "f32", false);
    any_place_will_do("qwen3_5", "bf16", false);
    any_place_will_do("lfm2", "f32", false);
    any_place_will_do("granitemoehybrid", "f32", false);
    any_place_will_do("qwen3_next", "bf16,state=bf16", false);
    any_place_will_do("lfm2", "f32,state=bf16", false);
    any_place_will_do("qwen3_next", "int8:token,state=fp8_e4m3", false);
    any_place_will_do("granitemoehybrid", "f32,state=fp8_e5m2", false);
    any_place_will_do("granitemoehybrid", "int4:token,recent=1,state=bf16", false);
    any_place_will_do("gemma4_small", "f32", false);
    any_place_will_do("gemma4_small", "int4:token,sink=4,recent=33", false);
}

/* Rows before `same` see nothing but floats, those behind it see codes. */
static void sees_floats(const struct cases *c, const char *kv, const char *floats, size_t same)
{
    static float x[TOKENS * WIDE], y[TOKENS * WIDE];
    int32_t ids[TOKENS];
    tokens_of(0, ids);
    alone(c, floats, ids, TOKENS, x);
    alone(c, kv, ids, TOKENS, y);
    if (memcmp(x, y, same * c->hidden * sizeof *x) != 0) fail_msg("%s: codes are seen", kv);
    for (size_t i = same; i < TOKENS; i++)
        if (memcmp(x + i * c->hidden, y + i * c->hidden, c->hidden * sizeof *x) == 0)
            fail_msg("%s: token %zu sees no codes", kv, i);
}

/* Which positions are seen in floats; and that no others are kept so. */
static void sinks_and_the_newest_are_floats(void **state)
{
    (void)state;
    struct cases c;
    struct pith_runner r;
    int32_t ids[TOKENS];
    float x[WIDE];
    open_case(&c, "llama", 1);
    sees_floats(&c, "int4:token,recent=90", "bf16", TOKENS);
    sees_floats(&c, "int4:token,sink=90", "bf16", TOKENS);
    sees_floats(&c, "k=int4:token,v=f32,sink=1,recent=64", "k=bf16,v=f32", TOKENS);
    sees_floats(&c, "int4:token,recent=1", "bf16", 32);
    sees_floats(&c, "int4:token,recent=33", "bf16", 64);
    sees_floats(&c, "int4:token,sink=33", "bf16", 64);
    sees_floats(&c, "int4:token,sink=4,recent=32", "bf16", 64);
    sees_floats(&c, "bf16,recent=32", "bf16", TOKENS);
    sees_floats(&c, "f16,sink=1,recent=32", "f16", TOKENS);
    sees_floats(&c, "k=f16,v=int4:token,recent=33", "k=f16,v=bf16", 64);
    sees_floats(&c, "kivi4", "bf16", 32);
    sees_floats(&c, "k=kivi2,v=bf16", "bf16", 32);
    sees_floats(&c, "k=bf16,v=kivi4", "bf16", 0);
    sees_floats(&c, "kivi2,sink=1,recent=33", "bf16", TOKENS);
    sees_floats(&c, "kvquant4", "bf16", 32);
    sees_floats(&c, "k=bf16,v=kvquant2,sink=33", "bf16", 64);
    tokens_of(0, ids);
    begin(&c, &r,
          (struct pith_runner_options){
              .sequences = 2, .rows = 1, .format = format_of(&c, "int4:token,sink=4,recent=20")});
    const struct pith_kv_group *g = &r.kv.group[PITH_KV_PLAIN];
    assert_int_equal(g->pages, 2 * 3); /* a sequence's: its context has no more */
    const uint32_t one = open_one(&r);
    for (size_t i = 0; i < TOKENS; i++) {
        read_ids(&r, one, ids + i, 1, x);
        const size_t next = (i + 1) / 32; /* is not there before it is begun */
        assert_int_equal(g->pages - g->unused, 1 + (next > 0 && (i + 1) % 32 != 0));
    }
    pith_runner_close(&r, one);
    assert_int_equal(g->unused, g->pages);
    pith_runner_free(&r);
    close_case(&c);
}

/* Keys by channel in the second layer alone: the first sees no floats for it, and a token at a time
 * gives the bits of all at once. */
static void layers_have_their_own_newest(void **state)
{
    (void)state;
    struct cases c;
    struct pith_runner r;
    struct pith_error err = {0};
    struct pith_kv_format f;
    int32_t ids[TOKENS];
    static float all[TOKENS * WIDE], x[TOKENS * WIDE];
    const char *item[] = {"1=k=kivi4"};
    const struct pith_kv_wish wish = {.name = "int8:token", .layers = {item, 1}};
    open_case(&c, "llama", 1);
    tokens_of(0, ids);
    assert_ok(pith_kv_choose(&wish, PITH_F32, c.r.model, &f, &err), err);
    assert_int_equal(pith_kv_recent(pith_kv_of(&f, 0)), 0);
    assert_int_equal(pith_kv_most_recent(&f, c.r.model->shape.layers), 1);
    begin(&c, &r, (struct pith_runner_options){.sequences = 2, .rows = TOKENS, .format = f});
    assert_true(r.kv.plain_bytes[0] == 0 && r.kv.plain_bytes[1] > 0);
    read_ids(&r, open_one(&r), ids, TOKENS, all);
    const uint32_t other = open_one(&r);
    for (size_t i = 0; i < TOKENS; i++) read_ids(&r, other, ids + i, 1, x + i * c.hidden);
    assert_memory_equal(x, all, TOKENS * c.hidden * sizeof *x);
    pith_runner_free(&r);
    pith_kv_format_free(&f);
    close_case(&c);
}

static void windows_give_pages_back(void **state)
{
    (void)state;
    struct cases c;
    struct pith_runner r;
    int32_t ids[TOKENS];
    float x[WIDE];
    open_case(&c, "gemma2", 1); /* one layer with a window of 7, one without */
    tokens_of(0, ids);
    begin(&c, &r,
          (struct pith_runner_options){
              .sequences = 2, .rows = 1, .format = pith_kv_floats(PITH_F32)});
    assert_int_equal(r.kv.group[0].window, 0);
    assert_int_equal(r.kv.group[1].window, 7);
    const uint32_t one = open_one(&r);
    for (size_t i = 0; i < TOKENS; i++) {
        read_ids(&r, one, ids + i, 1, x);
        assert_int_equal(r.kv.group[0].pages - r.kv.group[0].unused, i / 32 + 1);
        assert_int_equal(r.kv.group[1].pages - r.kv.group[1].unused,
                         i / 32 + 1 - (i < 6 ? 0 : (i - 5) / 32));
    }
    pith_runner_free(&r);
    close_case(&c);
}

/* The second of three spans finds no page, in the middle of a step of several parts. */
static void fill_pool(const char *arch, const char *kv)
{
    struct cases c;
    struct pith_runner r;
    struct pith_error err = {0};
    int32_t ids[3][TOKENS];
    static float x[3][TOKENS * WIDE], expected[TOKENS * WIDE];
    struct pith_step_span span[3];
    open_case(&c, arch, 1);
    begin(&c, &r,
          (struct pith_runner_options){
              .sequences = 3, .rows = 16, .tokens = 5 * 32, .format = format_of(&c, kv)});
    for (uint32_t u = 0; u < 3; u++) {
        tokens_of(u, ids[u]);
        span[u] = (struct pith_step_span){open_one(&r), ids[u], 20 + u, x[u]};
    }
    assert_ok(pith_runner_step(&r, span, 3, &err), err);
    const uint32_t unused = r.kv.group[0].unused, floats = r.kv.group[PITH_KV_PLAIN].unused;
    for (uint32_t u = 0; u < 3; u++) span[u].ids = ids[u] + 20 + u, span[u].n = TOKENS - 20 - u;
    assert_int_equal(pith_runner_step(&r, span, 3, &err), PITH_LIMIT);
    assert_non_null(strstr(err.text, "pages of 32 tokens"));
    assert_int_equal(r.kv.group[0].unused, unused);
    assert_int_equal(r.kv.group[PITH_KV_PLAIN].unused, floats);
    for (uint32_t u = 0; u < 3; u++) {
        assert_int_equal(pith_runner_length(&r, span[u].sequence), 20 + u);
        read_ids(&r, span[u].sequence, ids[u] + 20 + u, 5, x[u]);
        alone(&c, kv, ids[u], 25 + u, expected);
        assert_memory_equal(x[u], expected + (20 + u) * c.hidden, 5 * c.hidden * sizeof(float));
    }
    pith_runner_free(&r);
    close_case(&c);
}

static void a_full_pool_changes_nothing(void **state)
{
    (void)state;
    fill_pool("llama", "f32");
    fill_pool("gemma2", "f32");
    fill_pool("qwen3_next", "f32");
    fill_pool("llama", "int4:token,sink=4,recent=33");
    fill_pool("llama", "kivi4");
    fill_pool("llama", "kvquant3");
}

/* Prompts in parts and single tokens in the same steps, over the ends of pages. */
static void count_requests(const char *arch, const char *kv)
{
    struct cases c;
    struct pith_runner r;
    struct pith_error err = {0};
    int32_t ids[3][TOKENS];
    static float x[3][TOKENS * WIDE];
    struct pith_step_span span[3];
    open_case(&c, arch, 3);
    begin(&c, &r,
          (struct pith_runner_options){.sequences = 3, .rows = 16, .format = format_of(&c, kv)});
    for (uint32_t u = 0; u < 3; u++) {
        tokens_of(u, ids[u]);
        span[u] = (struct pith_step_span){.sequence = open_one(&r), .x = x[u]};
    }
    const long before = atomic_load(&requests);
    for (size_t step = 0, at = 0; at < TOKENS; step++) {
        const size_t n = step % 2 ? 1 : at + 21 < TOKENS ? 21 : TOKENS - at;
        for (uint32_t u = 0; u < 3; u++) span[u].ids = ids[u] + at, span[u].n = n;
        assert_ok(pith_runner_step(&r, span, 3, &err), err);
        at += n;
    }
    assert_int_equal(atomic_load(&requests), before);
    assert_true(!PITH_REQUESTS || (before > 0 && atomic_load(&countdown) < 0));
    pith_runner_free(&r);
    close_case(&c);
}

static void a_step_asks_for_no_memory(void **state)
{
    (void)state;
    static const char *const formats[] = {
        "bf16", "f16", "int8:token", "int4:token,sink=4,recent=33", "kivi4", "kvquant3"};
    for (size_t f = 0; f < PITH_COUNT(formats); f++) count_requests("llama", formats[f]);
    count_requests("qwen3_next", "f32,state=bf16");
    count_requests("deepseek_v3", "bf16");
    count_requests("gemma2", "int8:token");
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    struct cases c;
    struct pith_runner r;
    struct pith_error err = {0};
    int32_t ids[TOKENS], bad[2] = {3, 4000};
    static float x[TOKENS * WIDE];
    uint32_t one, other;
    open_case(&c, "llama", 1);
    tokens_of(0, ids);
    struct pith_runner_options o = {.sequences = 0, .context = 8, .rows = 8};
    o.format = pith_kv_floats(PITH_F32);
    assert_int_equal(pith_runner_init(&r, c.r.model, c.r.backend, &o, &err), PITH_ARG);
    begin(&c, &r,
          (struct pith_runner_options){
              .sequences = 2, .context = 40, .rows = 8, .format = pith_kv_floats(PITH_F32)});
    one = open_one(&r);
    other = open_one(&r);
    err = (struct pith_error){0};
    assert_int_equal(pith_runner_open(&r, &(uint32_t){0}, &err), PITH_LIMIT);
    struct pith_step_span span[2] = {{one, ids, 5, x}, {one, ids, 5, x + 5 * c.hidden}};
    err = (struct pith_error){0};
    assert_int_equal(pith_runner_step(&r, span, 2, &err), PITH_ARG);
    span[1] = (struct pith_step_span){other, bad, 2, x + 5 * c.hidden};
    err = (struct pith_error){0};
    assert_int_equal(pith_runner_step(&r, span, 2, &err), PITH_ARG);
    span[1] = (struct pith_step_span){other, ids, 41, x + 5 * c.hidden};
    err = (struct pith_error){0};
    assert_int_equal(pith_runner_step(&r, span, 2, &err), PITH_LIMIT);
    pith_runner_close(&r, other);
    err = (struct pith_error){0};
    assert_int_equal(pith_runner_step(&r, span, 2, &err), PITH_ARG);
    assert_int_equal(pith_runner_length(&r, one), 0);
    pith_runner_free(&r);
    close_case(&c);
}

/* A number in the form that a cache's name says. */
static float rounded_to(const char *form, float x)
{
    if (strcmp(form, "bf16") == 0) return pith_bf16_to_f32(pith_f32_to_bf16(x));
    if (strcmp(form, "fp8_e4m3") == 0) return pith_fp8_e4m3_decode(pith_fp8_e4m3_encode(x));
    return pith_fp8_e5m2_decode(pith_fp8_e5m2_encode(x));
}

/* States in 16 or 8 bits are those in float32 that are rounded after each token, in a half or a
 * quarter of the bytes. */
static void rounds_states(const char *arch, const char *form, size_t width)
{
    static float expected[TOKENS * WIDE], plain[TOKENS * WIDE], x[TOKENS * WIDE];
    char kv[32];
    snprintf(kv, sizeof kv, "f32,state=%s", form);
    struct cases c;
    struct pith_runner r;
    int32_t ids[TOKENS];
    open_case(&c, arch, 2);
    tokens_of(3, ids);
    struct pith_runner_options o = {
        .sequences = 1, .rows = TOKENS, .context = TOKENS, .format = format_of(&c, "f32")};
    const uint64_t all = pith_runner_bytes(c.r.model, &o);
    begin(&c, &r, o);
    const uint32_t one = open_one(&r);
    const size_t numbers = r.kv.state_at[r.kv.layers];
    float *states = (float *)(void *)r.kv.state;
    for (size_t t = 0; t < TOKENS; t++) {
        read_ids(&r, one, ids + t, 1, expected + t * c.hidden);
        for (size_t i = 0; i < numbers; i++) states[i] = rounded_to(form, states[i]);
    }
    pith_runner_free(&r);
    alone(&c, kv, ids, TOKENS, x);
    assert_memory_equal(x, expected, TOKENS * c.hidden * sizeof *x);
    alone(&c, "f32", ids, TOKENS, plain);
    assert_memory_not_equal(x, plain, TOKENS * c.hidden * sizeof *x);
    o.format = format_of(&c, kv);
    begin(&c, &r, o);
    /* A state and its copy are so much smaller; the largest layer's lies opened beside. */
    size_t largest = 0;
    for (uint32_t i = 0; i < r.kv.layers; i++)
        if (r.kv.state_at[i + 1] - r.kv.state_at[i] > largest)
            largest = r.kv.state_at[i + 1] - r.kv.state_at[i];
    const int64_t saved = (int64_t)(2 * (4 - width) * numbers) - (int64_t)(largest * sizeof(float));
    const int64_t got = (int64_t)all - (int64_t)pith_runner_bytes(c.r.model, &o);
    assert_true(got >= saved - 256 && got <= saved + 256); /* what aligns */
    pith_runner_free(&r);
    close_case(&c);
}

static void states_are_rounded_after_each_token(void **state)
{
    static const char *const archs[] = {"qwen3_next", "lfm2", "granitemoehybrid"};
    (void)state;
    for (size_t a = 0; a < PITH_COUNT(archs); a++) {
        rounds_states(archs[a], "bf16", 2);
        rounds_states(archs[a], "fp8_e4m3", 1);
        rounds_states(archs[a], "fp8_e5m2", 1);
    }
}

/* A page of a latent has its numbers once, in columns of 32: they are its values too. */
static void latents_are_kept_once(void **state)
{
    (void)state;
    struct cases c;
    open_case(&c, "deepseek_v3", 1);
    const struct pith_plans *plans = &c.r.model->plans;
    const struct pith_kv_format f32 = format_of(&c, "f32"), bf16 = format_of(&c, "bf16"),
                                int8 = format_of(&c, "int8:token");
    size_t latents = 0;
    for (uint32_t i = 0; i < plans->layers; i++) {
        const struct pith_state_spec *s = &pith_plan(plans, i)->state;
        if (s->kind != PITH_STATE_LATENT) continue;
        const size_t wide = (s->key + 15) / 16 * 16, rotary = s->key - s->value;
        /* Codes, a scale, and the rotary part in 16 bits, in whole lines of 64 bytes. */
        const size_t page = (32 * (s->value + 4 + 2 * rotary) + 63) / 64 * 64;
        latents++;
        assert_true(pith_kv_position_bytes(&f32, s) == 4.0 * (double)wide);
        assert_true(pith_kv_position_bytes(&bf16, s) == 2.0 * (double)wide);
        assert_true(pith_kv_position_bytes(&int8, s) == (double)page / 32);
    }
    assert_int_equal(latents, plans->layers);
    assert_true(pith_kv_bits(plans, &f32, 0) >= 32 && pith_kv_bits(plans, &f32, 0) < 48);
    close_case(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(company_does_not_matter),
        cmocka_unit_test(beginnings_are_shared),
        cmocka_unit_test(forks_and_rewinds_at_every_place),
        cmocka_unit_test(sinks_and_the_newest_are_floats),
        cmocka_unit_test(layers_have_their_own_newest),
        cmocka_unit_test(windows_give_pages_back),
        cmocka_unit_test(a_full_pool_changes_nothing),
        cmocka_unit_test(a_step_asks_for_no_memory),
        cmocka_unit_test(states_are_rounded_after_each_token),
        cmocka_unit_test(latents_are_kept_once),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
