/* Lists of modules: names, classes and regular expressions, whatever their order and number. */
#include "base/mem.h"
#include "io/container/module_match.h"
#include "test.h"

static enum pith_match_rank rank_of(json_t *list, const char *module)
{
    struct pith_error err = {0};
    struct pith_patterns p;
    enum pith_match_rank rank;
    assert_ok(pith_patterns_new(list, "a test", &p, &err), err);
    assert_ok(pith_patterns_match(&p, module, &rank, &err), err);
    pith_patterns_free(&p);
    json_decref(list);
    return rank;
}

static void test_ranks(void **state)
{
    (void)state;
    const char *const at = "model.layers.3.mlp.up_proj";
    assert_int_equal(rank_of(json_array(), at), PITH_MATCH_NONE);
    assert_int_equal(rank_of(json_pack("[s]", "Linear"), at), PITH_MATCH_CLASS);
    assert_int_equal(rank_of(json_pack("[s]", "Linear"), "embed_tokens"), PITH_MATCH_NONE);
    assert_int_equal(rank_of(json_pack("[sss]", "zz", "Linear", "re:.*up_proj"), at),
                     PITH_MATCH_REGEX);
    assert_int_equal(rank_of(json_pack("[ssss]", "zz", at, "re:.*", "a"), at), PITH_MATCH_NAME);
    assert_int_equal(rank_of(json_pack("[ss]", "model.layers.3.mlp", "up_proj"), at),
                     PITH_MATCH_NONE);
}

/* What a pattern begins with is compared first: only where it is what every match begins with. */
static void test_beginnings(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *module;
        bool matches;
    } cases[] = {
        {"re:^model\\.layers\\.3\\.mlp\\.up_proj$", "model.layers.3.mlp.up_proj", true},
        {"re:^model\\.layers\\.3\\.mlp\\.up_proj$", "model.layers.33.mlp.up_proj", false},
        {"re:model\\.layers\\.\\d+\\.mlp", "model.layers.33.mlp.up_proj", true},
        {"re:^ab?c", "ac", true},
        {"re:^ab*c", "ac", true},
        {"re:^ab{0,1}c", "ac", true},
        {"re:^a\\.?c", "ac", true},
        {"re:^ab|cd", "cd", true},
        {"re:^a(b|c)d", "acd", true},
        {"re:^a(b|c)d", "bcd", false},
        {"re:^a[(]b|cd", "cd", true},
        {"re:^a\\Q(\\Eb|cd", "cd", true},
        {"re:^a\\(b|cd", "cd", true},
        {"re:(?i)^AB", "ab", true},
        {"re:^model", "mode", false},
        {"re:^", "anything", true},
        {"re:", "anything", true},
        {"re:^mlp", "model.mlp", false},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++)
        if (rank_of(json_pack("[s]", cases[i].pattern), cases[i].module) !=
            (cases[i].matches ? PITH_MATCH_REGEX : PITH_MATCH_NONE))
            fail_msg("%s and %s", cases[i].pattern, cases[i].module);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_beginnings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
