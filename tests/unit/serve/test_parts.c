/* The scheduler's parts against their definitions: stop texts however an answer is cut, counts,
 * guesses, turns of clients, how long steps take. */
#include "base/rng.h"
#include "serve/clients.h"
#include "serve/counts.h"
#include "serve/lookup.h"
#include "serve/pace.h"
#include "serve/stop_text.h"
#include "test.h"

#include <math.h>

/* --- stop texts ------------------------------------------------------------------------------- */

static const char *const stop_text[] = {"abab", "ba", "cc", "bcab"};
static const size_t stop_size[] = {4, 2, 2, 4};

/* The first place where one begins and stands whole in the text as it is known when it is whole:
 * what was told may not be taken back, so the one that is whole first decides. */
static int first_stop(const char *text, size_t stops, size_t *at)
{
    const size_t size = strlen(text);
    for (size_t end = 1; end <= size; end++) /* as if byte by byte */
        for (*at = 0; *at < end; ++*at)
            for (size_t i = 0; i < stops; i++)
                if (*at + stop_size[i] == end &&
                    memcmp(text + *at, stop_text[i], stop_size[i]) == 0)
                    return (int)i;
    *at = size;
    return -1;
}

static int push_all(const char *text, size_t stops, struct pith_rng *r, bool keep,
                    struct pith_str *out)
{
    const struct pith_stops list = {stop_text, stop_size, stops};
    struct pith_tail t = {0};
    const size_t size = strlen(text);
    int found = -1;
    for (size_t at = 0; at < size && found < 0;) {
        size_t n = r ? 1 + pith_rng_below(r, 3) : 1;
        if (n > size - at) n = size - at;
        found = pith_tail_push(&t, &list, keep, text + at, n, out);
        at += n;
    }
    if (found < 0) pith_tail_end(&t, out);
    pith_tail_free(&t);
    return found;
}

static void stops_are_found_wherever_they_begin(void **state)
{
    (void)state;
    struct pith_rng r;
    pith_rng_seed(&r, 3);
    for (int round = 0; round < 20000; round++) {
        char text[24];
        size_t at, n = pith_rng_below(&r, sizeof text);
        const size_t stops = pith_rng_below(&r, 5);
        for (size_t i = 0; i < n; i++) text[i] = (char)('a' + pith_rng_below(&r, 4));
        text[n] = '\0';
        struct pith_str out = {0};
        const int found = push_all(text, stops, NULL, false, &out);
        assert_int_equal(found, first_stop(text, stops, &at));
        assert_int_equal(out.len, at);
        assert_memory_equal(pith_str_text(&out), text, at);
        pith_str_clear(&out);
        const int kept = push_all(text, stops, NULL, true, &out);
        assert_int_equal(out.len, at + (kept >= 0 ? stop_size[kept] : 0));
        assert_memory_equal(pith_str_text(&out), text, out.len);
        pith_str_clear(&out);
        /* In larger pieces: none is missed, and what is told stands before a stop text. */
        const int cut = push_all(text, stops, &r, false, &out);
        assert_int_equal(cut >= 0, found >= 0);
        assert_memory_equal(pith_str_text(&out), text, out.len);
        if (cut >= 0) assert_memory_equal(text + out.len, stop_text[cut], stop_size[cut]);
        pith_str_free(&out);
    }
}

/* --- counts, guesses -------------------------------------------------------------------------- */

static void counts_are_those_of_a_table(void **state)
{
    (void)state;
    enum { IDS = 3000 };
    static uint32_t seen[IDS];
    struct pith_counts c = {0};
    struct pith_rng r;
    struct pith_error err = {0};
    pith_rng_seed(&r, 4);
    for (int i = 0; i < 9000; i++) {
        const int32_t id = (int32_t)pith_rng_below(&r, IDS);
        const bool answer = pith_rng_below(&r, 2);
        assert_ok(pith_counts_add(&c, id, answer, &err), err);
        if (seen[id] == 0) seen[id] = 1;
        seen[id] += answer;
    }
    size_t there = 0, used = 0;
    for (size_t i = 0; i < IDS; i++) there += seen[i] > 0;
    for (size_t i = 0; i < c.room; i++) {
        if (c.entry[i].id < 0) continue;
        used++;
        assert_int_equal(c.entry[i].answer + 1, seen[c.entry[i].id]);
    }
    assert_int_equal(used, there);
    assert_int_equal(c.used, there);
    pith_counts_free(&c);
}

static void guesses_follow_the_newest_like_place(void **state)
{
    (void)state;
    const int32_t ids[] = {1, 2, 3, 9, 1, 2, 3, 7, 8, 5, 2, 3, 6, 1, 2, 3};
    int32_t guess[8];
    assert_int_equal(pith_lookup(ids, 16, 3, guess),
                     3); /* behind 1 2 3 at 4, not behind 2 3 at 10 */
    assert_memory_equal(guess, ((int32_t[]){7, 8, 5}), 3 * sizeof *guess);
    assert_int_equal(pith_lookup(ids + 8, 8, 8, guess), 4); /* 2 3, to the end of what is there */
    assert_memory_equal(guess, ((int32_t[]){6, 1, 2, 3}), 4 * sizeof *guess);
    assert_int_equal(pith_lookup((int32_t[]){1, 2, 3, 4}, 4, 8, guess), 0);
    assert_int_equal(pith_lookup(ids, 2, 8, guess), 0);
    assert_int_equal(pith_lookup((int32_t[]){4, 4, 4}, 3, 8, guess), 1);
}

/* --- turns ------------------------------------------------------------------------------------ */

static void clients_begin_no_lower_than_the_least_served(void **state)
{
    (void)state;
    struct pith_clients c = {0};
    struct pith_error err = {0};
    assert_ok(pith_clients_enter(&c, 7, &err), err);
    assert_ok(pith_clients_enter(&c, 7, &err), err);
    pith_clients_serve(&c, 7, 100);
    assert_ok(pith_clients_enter(&c, 8, &err), err);
    assert_true(pith_clients_served(&c, 8) >= 100);
    pith_clients_serve(&c, 8, 5);
    assert_ok(pith_clients_enter(&c, 9, &err), err);
    assert_true(pith_clients_served(&c, 9) <= 100 && pith_clients_served(&c, 9) >= 100);
    pith_clients_leave(&c, 7);
    assert_int_equal(c.count, 3);
    pith_clients_leave(&c, 7);
    assert_int_equal(c.count, 2);
    assert_true(pith_clients_served(&c, 8) > 104);
    pith_clients_free(&c);
}

/* --- pace ------------------------------------------------------------------------------------- */

static double takes(struct pith_step_load load)
{
    return 0.01 + 0.002 * load.rows + 1e-6 * load.pairs;
}

static void the_pace_is_learnt(void **state)
{
    (void)state;
    struct pith_pace p = {0};
    struct pith_rng r;
    pith_rng_seed(&r, 8);
    assert_true(pith_pace_rows(&p, 0, 512, 100) <= 64); /* little is known */
    for (int i = 0; i < 200; i++) {
        struct pith_step_load load = {0};
        for (size_t k = 1 + pith_rng_below(&r, 4); k > 0; k--)
            load = pith_load_add(load, pith_rng_below(&r, 20000), 1 + pith_rng_below(&r, 300));
        pith_pace_learn(&p, load, takes(load) * (0.95 + 0.1 * pith_rng_unit(&r)));
    }
    const struct pith_step_load shallow = pith_load_add((struct pith_step_load){0}, 0, 200),
                                deep = pith_load_add((struct pith_step_load){0}, 20000, 200);
    assert_true(fabs(pith_pace_seconds(&p, shallow) / takes(shallow) - 1) < 0.1);
    assert_true(fabs(pith_pace_seconds(&p, deep) / takes(deep) - 1) < 0.1);
    for (size_t depth = 0; depth <= 32768; depth = 2 * depth + 64) {
        const size_t n = pith_pace_rows(&p, depth, 4096, 0.1);
        const double without = takes((struct pith_step_load){0}),
                     with = takes(pith_load_add((struct pith_step_load){0}, depth, n)),
                     more = takes(pith_load_add((struct pith_step_load){0}, depth, n + 2));
        assert_true(with - without < 0.12 && more - without > 0.09);
    }
    assert_int_equal(pith_pace_rows(&p, 1 << 20, 4096, 1e-6), 1);
    assert_int_equal(pith_pace_rows(&p, 0, 5, 100), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stops_are_found_wherever_they_begin),
        cmocka_unit_test(counts_are_those_of_a_table),
        cmocka_unit_test(guesses_follow_the_newest_like_place),
        cmocka_unit_test(clients_begin_no_lower_than_the_least_served),
        cmocka_unit_test(the_pace_is_learnt),
    };
    return cmocka_run_group_tests_name("serve/parts", tests, NULL, NULL);
}
