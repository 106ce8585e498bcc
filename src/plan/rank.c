/* Which row of a plan comes first, and why. */
#include "plan/search.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A row loses half of its worth by a KL of so much, of the small model by which rows are compared:
 * what usual 4 bits lose (awq+gptq: 0.181 there and 0.349 on Gemma, their geometric mean). Models
 * of few parameters stay unquantized where they fit. */
static const double half_worth = 0.25, half_worth_small = 0.001;
static const double small_model = 3e9;

static double number(const json_t *j, const char *key)
{
    const json_t *v = json_object_get(j, key);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

double pith_plan_kld(const json_t *row)
{
    return number(json_object_get(row, "quality"), "kld");
}

/* What SmolLM2-135M-Instruct loses by so many bits a weight or more: `w8a8`, `q4_k_m` (whose rows
 * fall back to more bits there), `gptq`, `gptq int3` and `gptq int2` (docs/techniques.md). */
static const struct {
    double bits, kld;
} by_bits[] = {{7, 0.0323}, {5, 0.0359}, {3.9, 0.326}, {2.9, 2.34}, {0, 6.48}};

/* By which rows are compared: all measured on the same model, or by their bits. */
static double guess_kld(const json_t *row)
{
    const double known = number(json_object_get(row, "quality"), "likened"),
                 bits = number(row, "bits_per_weight");
    size_t i = 0;
    if (isfinite(known)) return known;
    while (i + 1 < PITH_COUNT(by_bits) && !(bits >= by_bits[i].bits)) i++;
    return by_bits[i].kld;
}

static double devices_of(const json_t *pool)
{
    return number(pool, "count") * number(pool, "groups");
}

/* What is bought: tokens for money where many are served and prices are known, tokens a second
 * else: of as many devices as one group of them has. NaN without a time. */
double pith_plan_gain(const json_t *row)
{
    const json_t *pools = json_object_get(row, "pools");
    const json_t *answer = json_object_get(pools, "decode");
    const double all = devices_of(answer) + devices_of(json_object_get(pools, "prefill"));
    const double rate = number(row, "tokens_per_second"),
                 cost = number(row, "cost_per_million_tokens");
    if (isfinite(cost) && cost > 0) return 1 / cost;
    return pools ? rate * number(answer, "count") / all : rate;
}

struct ranked {
    json_t *row; /* borrowed */
    double score, bytes;
};

/* The best first; of equals the fewer bytes. */
static int order(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static double score_of(const struct pith_plan_search *p, const json_t *row)
{
    const double half = (double)p->census.all < small_model ? half_worth_small : half_worth;
    const double worth = 1 / (1 + guess_kld(row) / half), speed = pith_plan_gain(row);
    return isfinite(speed) ? speed * worth : worth;
}

/* --- why -------------------------------------------------------------------------------------- */

static void add_quality(const struct pith_plan_search *p, const json_t *row, struct pith_str *s)
{
    const double kld = pith_plan_kld(row);
    const json_t *quality = json_object_get(row, "quality");
    const size_t start = s->len;
    const char *recipe = json_string_value(json_object_get(row, "recipe")),
               *source = json_string_value(json_object_get(quality, "source"));
    if (strcmp(recipe, "none") == 0) pith_str_puts(s, "weights as they are");
    else if (strcmp(recipe, "stored") == 0) pith_str_puts(s, "weights as they are stored");
    if (kld > 0) {
        pith_str_printf(s, "%sKL %.4f: harm %s (%s)", s->len > start ? "; " : "", kld, p->harm(kld),
                        source ? source : "");
    } else if (s->len == start) pith_str_printf(s, "loss %s", source ? source : "not measured");
}

/* Groups that fell back, and what each of several devices holds. */
static void add_sizes(const json_t *row, struct pith_str *s)
{
    const json_t *groups = json_object_get(row, "groups"), *g;
    const double count = number(row, "count");
    size_t i;
    if (groups) pith_str_puts(s, "; groups of ");
    json_array_foreach (groups, i, g)
        pith_str_printf(s, "%s%lld", i ? " and " : "", (long long)json_integer_value(g));
    if (groups) pith_str_puts(s, ", as rows allow");
    if (count > 1)
        pith_str_printf(s, "; %.2f GB on each of %.0f devices", number(row, "device_bytes") * 1e-9,
                        count);
}

static void add_room(const json_t *row, struct pith_str *s)
{
    const double users = number(row, "max_users"), context = number(row, "max_context");
    if (!isfinite(users)) return;
    pith_str_printf(s, "; room for %.0f users of this context, or a context of %.0f", users,
                    context);
}

static void add_speed(const json_t *row, const json_t *plain, struct pith_str *s)
{
    const double rate = number(row, "tokens_per_second"),
                 other = plain ? number(plain, "tokens_per_second") : (double)NAN;
    const char *bound = json_string_value(json_object_get(row, "bound"));
    if (!isfinite(rate)) return;
    pith_str_printf(s, "; bound by %s", bound ? bound : "memory");
    if (isfinite(other) && plain != row)
        pith_str_printf(s, ", %.2f times as fast as in 16 bits", rate / other);
}

/* The caches' way to the devices, and what it is in place of. */
static void add_split(const json_t *row, struct pith_str *s)
{
    const json_t *p = json_object_get(row, "pools"), *o = json_object_get(row, "offload");
    const double read = number(json_object_get(p, "prefill"), "groups"),
                 answer = number(json_object_get(p, "decode"), "groups");
    if (p)
        pith_str_printf(s,
                        "; prompts are read by %.0f group%s of %.0f device%s for %.0f that "
                        "answer%s, busy %.0f%% of the time; %.3g GB of cache a prompt over the "
                        "link, %.3g s",
                        read, read > 1 ? "s" : "", number(json_object_get(p, "prefill"), "count"),
                        number(json_object_get(p, "prefill"), "count") > 1 ? "s" : "", answer,
                        answer > 1 ? "" : "s", 100 * number(p, "busy"),
                        number(p, "sent_bytes") * 1e-9, number(p, "send_seconds"));
    if (o)
        pith_str_printf(s,
                        "; %.0f users at work, %.0f more in the host's memory: a cache is back in "
                        "%.3g s, where reading the prompt takes %.3g",
                        number(o, "users_at_work"), number(o, "users_in_host"),
                        number(o, "fetch_seconds"), number(o, "read_seconds"));
}

static bool same(const json_t *a, const json_t *b, const char *key)
{
    return json_equal(json_object_get(a, key), json_object_get(b, key));
}

/* Prompts are read at the same place, and the host takes part alike. */
static bool split_alike(const json_t *a, const json_t *b)
{
    const json_t *x = json_object_get(a, "pools"), *y = json_object_get(b, "pools");
    const bool off = json_object_get(a, "offload") != NULL;
    if (!x != !y || off != (json_object_get(b, "offload") != NULL)) return false;
    return !x || same(json_object_get(x, "prefill"), json_object_get(y, "prefill"), "hardware");
}

/* The row in 16 bits of the same place and demand, or NULL. */
static const json_t *plain_of(const json_t *rows, const json_t *row)
{
    static const char *const keys[] = {"kv", "engine", "hardware", "count", "context", "users"};
    const json_t *r;
    size_t i;
    json_array_foreach (rows, i, r) {
        bool all = strcmp(json_string_value(json_object_get(r, "recipe")), "none") == 0 &&
                   split_alike(r, row);
        for (size_t k = 0; k < PITH_COUNT(keys) && all; k++) all = same(r, row, keys[k]);
        if (all) return r;
    }
    return NULL;
}

/* Why weights are best not quantized, where they are: the row is the first, and others fit too. */
static void add_advice(const struct pith_plan_search *p, const json_t *row, size_t place,
                       struct pith_str *s)
{
    const char *bound = json_string_value(json_object_get(row, "bound"));
    if (place > 0 || strcmp(json_string_value(json_object_get(row, "recipe")), "none") != 0) return;
    pith_str_puts(s, "do not quantize: it fits");
    if ((double)p->census.all < small_model)
        pith_str_puts(s, ", and models under 3 billion parameters lose more than larger ones");
    else if (bound && strcmp(bound, "arithmetic") == 0)
        pith_str_puts(s, ", and arithmetic is the limit, which fewer bytes of weights do not move");
    pith_str_puts(s, "; ");
}

static enum pith_status explain(const struct pith_plan_search *p, struct pith_error *err)
{
    json_t *row;
    size_t i;
    json_array_foreach (p->rows, i, row) {
        struct pith_str s = {0};
        add_advice(p, row, i, &s);
        add_quality(p, row, &s);
        add_sizes(row, &s);
        add_room(row, &s);
        add_speed(row, plain_of(p->rows, row), &s);
        add_split(row, &s);
        const int failed =
            s.failed ? -1 : json_object_set_new(row, "reason", json_string(pith_str_text(&s)));
        pith_str_free(&s);
        if (failed) return pith_fail_nomem(err, "a plan");
    }
    return PITH_OK;
}

enum pith_status pith_plan_rank(struct pith_plan_search *p, struct pith_error *err)
{
    const size_t count = json_array_size(p->rows);
    struct ranked *list = pith_alloc(count ? count : 1, sizeof *list);
    json_t *sorted = json_array();
    if (!list || !sorted) {
        pith_free(list);
        json_decref(sorted);
        return pith_fail_nomem(err, "a plan");
    }
    for (size_t i = 0; i < count; i++) {
        json_t *row = json_array_get(p->rows, i);
        list[i] = (struct ranked){row, score_of(p, row), number(row, "total_bytes")};
    }
    qsort(list, count, sizeof *list, order);
    int failed = 0;
    for (size_t i = 0; i < count; i++) failed |= json_array_append(sorted, list[i].row);
    pith_free(list);
    json_decref(p->rows);
    p->rows = sorted;
    if (failed) return pith_fail_nomem(err, "a plan");
    return explain(p, err);
}
