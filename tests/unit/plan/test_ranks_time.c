/* plan/ranks_time: seconds and bytes worked out by hand. */
#include "plan/time/ranks_time.h"
#include "test.h"

#include <string.h>

static void is_near(double got, double want)
{
    if (!(got > want - 1e-9 && got < want + 1e-9)) fail_msg("%.12f, not %.12f", got, want);
}

/* 8,000 bits a second: a millisecond a byte; and 10 ms under way. */
static struct pith_crew crew_of(unsigned ranks)
{
    return (struct pith_crew){.ranks = ranks, .cable = {8000, 0.01}};
}

static void links_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double bits, delay;
    } good[] = {{"10G", 10e9, 50e-6},     {"10G,50", 10e9, 50e-6}, {"2.5g,0", 2.5e9, 0},
                {"100M,1000", 1e8, 1e-3}, {"8000", 8000, 50e-6},   {"1T,0.5", 1e12, 5e-7}};
    static const char *const bad[] = {"",       "G",     "0",   "-1G",   "10G,", "10G,-1", "10GB",
                                      "10G,5u", "0x1p4", "nan", "1e999", "10 G", ",50",    "inf"};
    struct pith_cable c;
    struct pith_error err = {0};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_ok(pith_cable_parse(good[i].text, &c, &err), err);
        is_near(c.bits / good[i].bits, 1);
        is_near(c.delay * 1e6, good[i].delay * 1e6);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (pith_cable_parse(bad[i], &c, &err) != PITH_ARG) fail_msg("'%s' is taken", bad[i]);
}

static void windows_are_whole(void **state)
{
    (void)state;
    struct pith_crew c = crew_of(4);
    pith_crew_windows(&c, 10, 10); /* 3, 3, 2, 2 of them */
    is_near(c.seconds[PITH_CREW_DIVIDED], 3);
    pith_crew_windows(&c, 10, 0);
    is_near(pith_crew_seconds(&c), 3);
}

/* Short messages go down a tree of as many levels as there are doublings, 10 + 100 ms each. Of long
 * ones a half goes down, a quarter, ...; then parts to all, one, two, ... at a time; what is over
 * 64 KiB is under way three times. */
static void shares_go_to_all(void **state)
{
    (void)state;
    static const struct {
        unsigned ranks;
        uint64_t bytes;
        double seconds;
    } of[] = {{1, 100, 0},
              {2, 100, 0.11},
              {2, 100000, 100.03},
              {4, 100, 2 * 0.11},
              {4, 65536, 2 * 65.546},
              {4, 100000, 2 * (50.01 + 25.01)},
              {4, 200000, 2 * (100.03 + 50.01)},
              {5, 100, 3 * 0.11},
              {5, 65540, 4 * 13.118 + 2 * 26.226},
              {64, 100, 6 * 0.11},
              {64, 131072, 2 * (6 * 0.01 + 129.024)}};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        struct pith_crew c = crew_of(of[i].ranks);
        pith_crew_share(&c, of[i].ranks - 1, of[i].bytes);
        is_near(pith_crew_seconds(&c), of[i].seconds);
        for (unsigned k = 0; k < of[i].ranks; k++)
            assert_int_equal(c.received[k], k + 1 < of[i].ranks ? of[i].bytes : 0);
        pith_crew_share(&c, 0, 0); /* no message */
        is_near(pith_crew_seconds(&c), of[i].seconds);
    }
}

/* What all tell at once: two rounds among 4 ranks, in the second two ranks' parts, the most that
 * are neighbours. */
static void parts_go_to_all(void **state)
{
    (void)state;
    const uint64_t bytes[] = {100, 0, 300, 50};
    struct pith_crew c = crew_of(4);
    for (int again = 0; again < 2; again++)
        for (unsigned k = 0; k < 4; k++) pith_crew_told(&c, k, bytes[k]);
    is_near(pith_crew_seconds(&c), 2 * (0.01 + 0.3 + 0.01 + 0.35));
    for (unsigned k = 0; k < 4; k++) assert_int_equal(c.received[k], 2 * (450 - bytes[k]));
    struct pith_crew two = crew_of(2); /* both ways at once, in pieces */
    for (unsigned k = 0; k < 2; k++) pith_crew_told(&two, k, 100000 + 500 * k);
    is_near(pith_crew_seconds(&two), 100.51);
    struct pith_crew alone = crew_of(1);
    pith_crew_told(&alone, 0, 100);
    is_near(pith_crew_seconds(&alone), 0);
}

static void a_message_goes_to_one(void **state)
{
    (void)state;
    struct pith_crew c = crew_of(4);
    pith_crew_pass(&c, 2, 100);
    pith_crew_pass(&c, 2, 0); /* no message */
    is_near(pith_crew_seconds(&c), 0.11);
    for (unsigned k = 0; k < 4; k++) assert_int_equal(c.received[k], k == 2 ? 100 : 0);
}

/* 12 s over 6 panels of 50 bytes: 60 ms each. */
static void sums_go_along(void **state)
{
    (void)state;
    struct pith_crew one = crew_of(1), two = crew_of(2), four = crew_of(4);
    pith_crew_relay(&one, 12, 300, 6);
    is_near(pith_crew_seconds(&one), 12);
    assert_int_equal(one.received[0], 0);
    pith_crew_relay(&two, 12, 300, 6); /* 7 steps of 1 s and a message */
    is_near(two.seconds[PITH_CREW_DIVIDED], 6);
    is_near(two.seconds[PITH_CREW_RELAY], 1);
    is_near(two.seconds[PITH_CREW_LINK], 7 * 0.06);
    pith_crew_relay(&four, 12, 300, 6); /* 9 steps of 0.5 s and two messages */
    is_near(four.seconds[PITH_CREW_DIVIDED], 3);
    is_near(four.seconds[PITH_CREW_RELAY], 1.5);
    is_near(four.seconds[PITH_CREW_LINK], 18 * 0.06);
    assert_int_equal(four.received[0], 0);
    for (int k = 1; k < 4; k++) assert_int_equal(four.received[k], 300);
    assert_int_equal(pith_crew_received(&four), 300);
}

static void they_wait_for_the_last(void **state)
{
    (void)state;
    struct pith_crew c = crew_of(2);
    pith_crew_work(&c, 0, 4, 1);
    pith_crew_work(&c, 1, 2, 0.5);
    pith_crew_work(&c, 1, 1, 0);
    pith_crew_meet(&c); /* 5 s, of which 3.5 are an even share */
    is_near(c.seconds[PITH_CREW_DIVIDED], 3.5);
    is_near(c.seconds[PITH_CREW_REPEATED], 1.5);
    pith_crew_meet(&c); /* nothing since */
    is_near(pith_crew_seconds(&c), 5);
}

static void what_is_in_the_way(void **state)
{
    (void)state;
    struct pith_crew c = crew_of(8);
    assert_int_equal(pith_crew_limit(&c), PITH_CREW_DIVIDED);
    pith_crew_add(&c, PITH_CREW_DIVIDED, 2);
    pith_crew_add(&c, PITH_CREW_LINK, 1.5);
    assert_int_equal(pith_crew_limit(&c), PITH_CREW_DIVIDED);
    pith_crew_add(&c, PITH_CREW_FIRST, 3);
    assert_int_equal(pith_crew_limit(&c), PITH_CREW_FIRST);
    pith_crew_add(&c, PITH_CREW_LINK, 2);
    assert_int_equal(pith_crew_limit(&c), PITH_CREW_LINK);
    assert_string_equal(pith_crew_key(PITH_CREW_LINK), "link");
    assert_string_equal(pith_crew_limit_name(PITH_CREW_DIVIDED), "");
    assert_string_equal(pith_crew_limit_name(PITH_CREW_FIRST), "rank 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_are_read),         cmocka_unit_test(windows_are_whole),
        cmocka_unit_test(shares_go_to_all),       cmocka_unit_test(sums_go_along),
        cmocka_unit_test(they_wait_for_the_last), cmocka_unit_test(what_is_in_the_way),
        cmocka_unit_test(parts_go_to_all),        cmocka_unit_test(a_message_goes_to_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
