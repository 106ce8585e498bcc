/* Every row of backend/cache/kv.def: names lead back to it, and caches of it hold what was stored,
 * near what its bits allow, and are attended to with the same bits on every setup, for one query
 * and for many. */
#include "backend/cache/pages.h"
#include "base/json.h"
#include "paired.h"

#include <ctype.h>

static void names_lead_to_rows(void **state)
{
    (void)state;
    size_t count, tried = 0, kinds = 0;
    char names[PITH_KV_NAMES];
    const struct pith_kv_row *row = pith_kv_rows(&count);
    pith_kv_row_names(NULL, names);
    for (size_t i = 0; i < count; i++) {
        char upper[32];
        size_t n = strlen(row[i].name);
        assert_in_range(n, 1, sizeof upper - 1);
        for (size_t c = 0; c <= n; c++) upper[c] = (char)toupper((unsigned char)row[i].name[c]);
        if (row[i].tried) assert_ptr_equal(pith_kv_candidate(tried++), &row[i]);
        assert_ptr_equal(pith_kv_row_find(upper), row[i].kind ? &row[i] : NULL);
        if (!row[i].kind) continue;
        kinds++;
        assert_int_equal(strncmp(row[i].name, row[i].kind->name, strlen(row[i].kind->name)), 0);
        assert_non_null(strstr(names, row[i].kind->name));
        for (size_t k = 0; k < i; k++)
            assert_true(row[k].kind != row[i].kind || row[k].bits < row[i].bits);
    }
    assert_true(kinds >= 8 && tried == PITH_KV_CANDIDATES && tried <= count);
    assert_null(pith_kv_candidate(tried));
    assert_null(pith_kv_row_find("turbo"));
}

static bool every_page(const struct pith_kv_kind *kind)
{
    return kind->least_recent > 0;
}

static void names_of_some(void **state)
{
    (void)state;
    char names[PITH_KV_NAMES];
    pith_kv_row_names(every_page, names);
    assert_string_equal(names, "kivi2 or kivi4");
    pith_kv_row_names(NULL, names);
    assert_int_equal(strncmp(names, "turbo2 to turbo4, kivi2 or kivi4, kvquant2 to kvquant4", 54),
                     0);
}

/* A cache of a row, with what calibration would give, beside its floats. */
struct pair {
    struct pith_row_code code[2];
    float level[2][PITH_ROW_LEVELS], *middle, *range;
    struct pith_cache cache, floats;
};

/* False where heads of so many numbers are not kept so. */
static bool pair_open(struct pair *p, const struct pith_kv_row *row, const struct shape *c)
{
    const size_t pages = pith_cache_pages(c->start + c->n), numbers = c->kv_heads * c->dim;
    struct pith_error err = {0};
    struct pith_cache_side side[2] = {{.dim = c->dim}, {.dim = c->dim}};
    *p = (struct pair){0};
    for (int i = 0; i < 2; i++) {
        const struct pith_kv_heads heads = {
            .bits = row->bits, .cols = (uint32_t)c->dim, .keys = i == 0};
        const enum pith_status s = row->kind->code(&heads, p->level[i], &p->code[i], &err);
        if (s == PITH_UNSUPPORTED) return false;
        assert_ok(s, err);
        assert_int_equal(p->code[i].bits, row->bits);
        assert_ptr_equal(p->code[i].kind, row->kind);
        side[i].code = &p->code[i];
    }
    p->middle = floats(numbers), p->range = floats(numbers);
    for (size_t i = 0; i < numbers; i++) p->range[i] = 2.2f;
    if (row->kind->needs & PITH_KV_LEVELS) {
        const float last = (float)((1u << row->bits) - 1);
        for (unsigned i = 0; i < 1u << row->bits; i++)
            p->level[0][i] = p->level[1][i] = 2 * (float)i / last - 1;
        p->code[0].level = p->code[1].level = p->level[0];
        p->code[1].beyond = 3.2f;
        side[0].middle = p->middle, side[0].range = p->range;
    }
    p->cache = (struct pith_cache){.kv_heads = c->kv_heads, .k = side[0], .v = side[1]};
    paired_open(&p->cache, &p->floats, pages);
    return true;
}

static void pair_close(struct pair *p)
{
    pith_free(p->cache.memory), pith_free(p->floats.memory);
    pith_free(p->middle), pith_free(p->range);
}

/* Of normal numbers a uniform grid of b bits loses about 2.4 / 4^b of their squares; heads of few
 * numbers may be less lucky. */
static void holds_what_was_stored(struct pair *p, struct pith_backend *b, const float *k,
                                  const float *v, size_t tokens)
{
    const size_t dim = p->cache.k.dim, heads = p->cache.kv_heads;
    const double most = 4 / pow(4, p->code[0].bits) + 1e-6;
    double error[2] = {0}, square[2] = {0};
    float both[2 * 256];
    for (size_t t = 0; t < tokens / 32 * 32; t++)
        for (size_t i = 0; i < heads * dim; i++) {
            const float *x[2] = {k + t * heads * dim + i, v + t * heads * dim + i};
            if (i % dim == 0)
                pith_cache_read(b, &p->cache, &(struct pith_cache_span){.n = tokens}, t, i / dim,
                                both);
            for (int s = 0; s < 2; s++) {
                const double d = (double)(*x[s] - both[(size_t)s * dim + i % dim]);
                error[s] += d * d;
                square[s] += (double)*x[s] * (double)*x[s];
            }
        }
    for (int s = 0; s < 2; s++)
        if (!(error[s] <= most * square[s]))
            fail_msg("side %d of %u bits: %g of squares, at most %g", s, p->code[s].bits,
                     error[s] / square[s], most);
}

/* Rows that are encoded one by one are in a page what they are alone. */
static void holds_rows(struct pair *p, struct pith_backend *b, const float *k, const float *v,
                       size_t tokens)
{
    const size_t dim = p->cache.k.dim, rows = tokens * p->cache.kv_heads;
    float both[2 * 256], back[256];
    for (size_t i = 0; i < rows; i++)
        for (int side = 0; side < 2; side++) {
            const struct pith_row_code *r = &p->code[side];
            struct pith_row_scale of[256];
            uint8_t codes[256], bytes[8];
            if (!r->encode) continue;
            pith_row_encode(r, 1.0f, (side ? v : k) + i * dim, codes, of);
            for (uint32_t g = 0; g < r->groups; g++) {
                pith_row_scale_put(r, 1.0f, &of[g], bytes);
                of[g] = pith_row_scale_get(r, 1.0f, bytes);
            }
            pith_row_decode(r, codes, of, back);
            pith_cache_read(b, &p->cache, &(struct pith_cache_span){.n = tokens},
                            i / p->cache.kv_heads, i % p->cache.kv_heads, both);
            assert_same(both + (side ? dim : 0), back, dim, side ? "a value" : "a key", i);
        }
}

static void attends(struct setups *s, const struct pith_kv_row *row, const struct shape *c)
{
    const size_t tokens = c->start + c->n, count = c->n * c->heads * c->dim;
    const size_t numbers = tokens * c->kv_heads * c->dim;
    float *q = normals(count, 1), *k = normals(numbers, 2), *v = normals(numbers, 3);
    float *first = floats(count), *out = floats(count);
    struct pair p;
    for (size_t i = 0; i < s->count && pair_open(&p, row, c); i++, pair_close(&p)) {
        const struct pith_cache_span span = {.start = c->start, .n = c->n};
        paired_fill(s->backend[i], &p.cache, &p.floats, k, v,
                    &(struct pith_cache_span){.n = tokens});
        if (i == 0 && c->dim >= 32) holds_what_was_stored(&p, s->backend[i], k, v, tokens);
        holds_rows(&p, s->backend[i], k, v, tokens);
        const struct pith_attention a = {.span = &span,
                                         .spans = 1,
                                         .heads = c->heads,
                                         .scale = 1 / sqrtf((float)c->dim),
                                         .cache = &p.cache,
                                         .plain = &p.floats,
                                         .sink = row->kind->least_sink,
                                         .recent = row->kind->least_recent,
                                         .q = q};
        paired_attend(s, i, a, first, out);
    }
    pith_free(out), pith_free(first), pith_free(v), pith_free(k), pith_free(q);
}

static void caches_are_attended_to(void **state)
{
    (void)state;
    struct setups s;
    size_t count;
    const struct pith_kv_row *row = pith_kv_rows(&count);
    setups_open(&s);
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; row[i].kind && c < PITH_COUNT(paired_shapes); c++)
            attends(&s, &row[i], &paired_shapes[c]);
    setups_close(&s);
}

/* Latents: values are the first numbers of keys, whose rotary part is in floats. */
enum { VALUE = 64, ROTARY = 16, KEY = VALUE + ROTARY, HEADS = 3, LATENTS = 75 };

static void latent_naive(struct pith_backend *b, const struct pith_cache *c, const float *q,
                         double out[VALUE])
{
    double most = -INFINITY, sum = 0, score[LATENTS];
    float both[KEY + VALUE];
    const struct pith_cache_span all = {.n = LATENTS};
    for (size_t e = 0; e < VALUE; e++) out[e] = 0;
    for (size_t t = 0; t < LATENTS; t++) {
        pith_cache_read(b, c, &all, t, 0, both);
        assert_memory_equal(both, both + KEY, VALUE * sizeof *both);
        score[t] = 0;
        for (size_t e = 0; e < KEY; e++) score[t] += (double)q[e] * (double)both[e];
        most = fmax(most, score[t]);
    }
    for (size_t t = 0; t < LATENTS; t++) {
        pith_cache_read(b, c, &all, t, 0, both);
        const double w = exp(score[t] - most);
        sum += w;
        for (size_t e = 0; e < VALUE; e++) out[e] += w * (double)both[e];
    }
    for (size_t e = 0; e < VALUE; e++) out[e] /= sum;
}

/* The last query of all, and by itself, on one setup. */
static void one_latent(struct pith_backend *b, const struct pith_kv_row *row, size_t setup,
                       float first[HEADS * VALUE])
{
    struct pith_error err = {0};
    struct pith_row_code code;
    float level[PITH_ROW_LEVELS], out[LATENTS * HEADS * VALUE];
    float *k = normals((size_t)LATENTS * KEY, 5), *q = normals((size_t)LATENTS * HEADS * KEY, 6);
    const struct pith_kv_heads heads = {.bits = row->bits, .cols = VALUE, .keys = true};
    assert_ok(row->kind->code(&heads, level, &code, &err), err);
    struct pith_cache c = {.kv_heads = 1,
                           .k = {.code = &code, .dim = KEY, .plain = ROTARY},
                           .v = {.code = &code, .dim = VALUE},
                           .joined = true};
    assert_true(pith_cache_layout(&c));
    c.memory = pith_alloc_aligned(pith_cache_pages(LATENTS), c.page_bytes);
    assert_non_null(c.memory);
    struct pith_cache_span span = {.n = LATENTS};
    pith_cache_store(b, &c, &span, k, NULL);
    struct pith_attention a = {
        .span = &span, .spans = 1, .heads = HEADS, .scale = 1, .cache = &c, .q = q, .out = out};
    const size_t last = (LATENTS - 1) * HEADS;
    pith_attention(b, &a);
    if (setup == 0) memcpy(first, out + last * VALUE, HEADS * VALUE * sizeof *first);
    assert_same(out + last * VALUE, first, HEADS * VALUE, row->name, setup);
    for (size_t h = 0; setup == 0 && h < HEADS; h++) {
        double exact[VALUE];
        latent_naive(b, &c, q + (last + h) * KEY, exact);
        for (size_t e = 0; e < VALUE; e++)
            assert_true(fabs((double)first[h * VALUE + e] - exact[e]) < 2e-5);
    }
    span = (struct pith_cache_span){.start = LATENTS - 1, .n = 1};
    a.q = q + last * KEY;
    pith_attention(b, &a);
    assert_same(out, first, HEADS * VALUE, row->name, setup);
    pith_free(c.memory), pith_free(q), pith_free(k);
}

static void latents_are_attended_to(void **state)
{
    (void)state;
    struct setups s;
    size_t count;
    const struct pith_kv_row *row = pith_kv_rows(&count);
    setups_open(&s);
    for (size_t i = 0; i < count; i++) {
        float first[HEADS * VALUE];
        if (!row[i].kind || row[i].kind->needs || row[i].kind->least_recent) continue;
        for (size_t k = 0; k < s.count; k++) one_latent(s.backend[k], &row[i], k, first);
    }
    setups_close(&s);
}

/* --- a kind with levels of its own ------------------------------------------------------------ */

static const struct pith_kv_kind even_kind;

/* Groups of 32 times their largest magnitude; even levels from -1 to 1. */
static void even_encode(const struct pith_row_code *r, float scale, const float *x, uint8_t *codes,
                        struct pith_row_scale *of)
{
    const float last = (float)((1u << r->bits) - 1);
    (void)scale;
    for (uint32_t c = 0; c < r->cols; c += r->width) {
        float most = 0;
        for (uint32_t i = c; i < c + r->width; i++) most = fmaxf(most, fabsf(x[i]));
        for (uint32_t i = c; i < c + r->width; i++)
            codes[i] = (uint8_t)roundf((most > 0 ? x[i] / most + 1 : 1) / 2 * last);
        of[c / r->width] = (struct pith_row_scale){.scale = most};
    }
}

static enum pith_status even_code(const struct pith_kv_heads *heads, float *level,
                                  struct pith_row_code *out, struct pith_error *err)
{
    const float last = (float)((1u << heads->bits) - 1);
    if (heads->cols % 32 != 0) return pith_fail(err, PITH_UNSUPPORTED, "%u columns", heads->cols);
    for (unsigned i = 0; i < 1u << heads->bits; i++) level[i] = 2 * (float)i / last - 1;
    *out = (struct pith_row_code){.encode = even_encode,
                                  .kind = &even_kind,
                                  .cols = heads->cols,
                                  .width = 32,
                                  .groups = heads->cols / 32,
                                  .bits = heads->bits,
                                  .scale = PITH_F16,
                                  .scale_bytes = 2,
                                  .level = level};
    return PITH_OK;
}

static const struct pith_kv_kind even_kind = {
    .name = "even",
    .code = even_code,
    .page_bytes = pith_coded_page_bytes,
    .store = pith_coded_store,
    .key_tile = pith_coded_key_tile,
    .value_tile = pith_coded_value_tile,
    .scores = pith_coded_scores,
    .values = pith_coded_values,
};

/* The functions of coded pages read a kind's own table of any width. */
static void own_levels_of_any_width(void **state)
{
    (void)state;
    struct setups s;
    setups_open(&s);
    for (unsigned bits = 2; bits <= 8; bits++) {
        const struct pith_kv_row row = {.name = "even", .kind = &even_kind, .bits = bits};
        float first[HEADS * VALUE];
        for (size_t c = 0; c < PITH_COUNT(paired_shapes); c++) attends(&s, &row, &paired_shapes[c]);
        for (size_t k = 0; k < s.count; k++) one_latent(s.backend[k], &row, k, first);
    }
    setups_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_lead_to_rows),
        cmocka_unit_test(names_of_some),
        cmocka_unit_test(caches_are_attended_to),
        cmocka_unit_test(latents_are_attended_to),
        cmocka_unit_test(own_levels_of_any_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
