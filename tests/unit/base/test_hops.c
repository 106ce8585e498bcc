/* base/ranks/hops: whoever begins and however many there are, everyone has all bytes at the end,
 * each once, and nobody sends what it does not have. */
#include "base/ranks/hops.h"

#include "base/ranks/ranks.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 70 };

static unsigned depth_of(unsigned ranks)
{
    unsigned depth = 0;
    while (1u << depth < ranks) depth++;
    return depth;
}

/* What each has: has[rank][byte]. */
static void begin_with(const struct pith_hops *s, char *has, size_t bytes)
{
    memset(has, 0, s->ranks * bytes);
    if (!s->own) memset(has + s->from * bytes, 1, bytes);
    for (unsigned k = 0; s->own && k < s->ranks; k++) {
        const size_t from = s->edges ? s->edges[k]
                                     : pith_ranks_cut(s->ranks, k, s->items) * s->size;
        const size_t end = s->edges ? s->edges[k + 1]
                                    : pith_ranks_cut(s->ranks, k + 1, s->items) * s->size;
        memset(has + k * bytes + from, 1, end - from);
    }
}

/* One round, all at once; returns the most bytes that came to one. */
static size_t make_round(const struct pith_hops *s, unsigned round, char *has, size_t bytes)
{
    size_t most = 0;
    unsigned sent[MOST] = {0};
    char *next = malloc(s->ranks * bytes);
    memcpy(next, has, s->ranks * bytes);
    for (unsigned k = 0; k < s->ranks; k++) {
        struct pith_hop in, out;
        pith_hops_in(s, round, k, &in);
        size_t came = 0;
        for (int i = 0; i < 2; i++)
            for (size_t b = in.run[i].first; b < in.run[i].end; b++, came++) {
                if (next[k * bytes + b]) fail_msg("%u of %u has byte %zu", k, s->ranks, b);
                if (!has[in.from * bytes + b]) fail_msg("%u has no byte %zu", in.from, b);
                next[k * bytes + b] = 1;
            }
        most = came > most ? came : most;
        if (came == 0) continue;
        if (sent[in.from]++) fail_msg("%u sends to two", in.from);
        pith_hops_out(s, round, in.from, &out);
        assert_int_equal(out.from, k);
        assert_memory_equal(out.run, in.run, sizeof in.run);
    }
    for (unsigned k = 0; k < s->ranks; k++) { /* and nothing goes that nobody waits for */
        struct pith_hop out;
        pith_hops_out(s, round, k, &out);
        if (sent[k] == 0 &&
            (out.run[0].first < out.run[0].end || out.run[1].first < out.run[1].end))
            fail_msg("%u sends to %u, which does not wait", k, out.from);
    }
    memcpy(has, next, s->ranks * bytes);
    free(next);
    return most;
}

static void is_spread(const struct pith_hops *s, unsigned rounds, size_t most)
{
    const size_t bytes = pith_hops_bytes(s);
    char *has = malloc(s->ranks * bytes + 1);
    size_t all = 0;
    begin_with(s, has, bytes);
    assert_int_equal(pith_hops_rounds(s), rounds);
    for (unsigned i = 0; i < rounds; i++) all += make_round(s, i, has, bytes);
    for (size_t i = 0; i < s->ranks * bytes; i++)
        if (!has[i]) fail_msg("%zu of %u has no byte %zu", i / bytes, s->ranks, i % bytes);
    if (all > most)
        fail_msg("%u ranks: %zu bytes one after the other, not %zu", s->ranks, all, most);
    free(has);
}

/* Few bytes go down D times; of many, a link never has more than two times all, and a part a round.
 */
static void test_from_one(void **state)
{
    (void)state;
    for (unsigned ranks = 1; ranks < MOST; ranks++)
        for (unsigned from = 0; from < ranks; from += ranks < 10 ? 1 : 13) {
            const unsigned d = depth_of(ranks);
            is_spread(&(struct pith_hops){.ranks = ranks, .from = from, .items = 3, .size = 1}, d,
                      3 * d);
            if (ranks < 3 || from % 3 != 1) continue;
            const size_t many = 65537;
            is_spread(&(struct pith_hops){.ranks = ranks, .from = from, .items = many, .size = 1},
                      2 * d, 2 * many + 2 * d);
        }
    is_spread(&(struct pith_hops){.ranks = 2, .from = 1, .items = 1000, .size = 100}, 1, 100000);
    is_spread(&(struct pith_hops){.ranks = 5, .from = 1, .items = 65536, .size = 1}, 3, 3 * 65536);
}

static void test_of_all(void **state)
{
    (void)state;
    for (unsigned ranks = 1; ranks < MOST; ranks++) {
        const unsigned d = depth_of(ranks);
        for (size_t items = 0; items < 2 * MOST; items += 13)
            is_spread(&(struct pith_hops){.ranks = ranks, .own = true, .items = items, .size = 3},
                      d, 3 * (items + ranks));
        size_t edges[MOST + 1] = {0}; /* parts of 0 to 6 bytes */
        for (unsigned k = 0; k < ranks; k++) edges[k + 1] = edges[k] + k * 5 % 7;
        is_spread(&(struct pith_hops){.ranks = ranks, .own = true, .edges = edges}, d, 6 * ranks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_from_one),
                                       cmocka_unit_test(test_of_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
