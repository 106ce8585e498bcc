/* Names of models on the hub, and what lies in its cache: src/hub. */
#include "base/mem.h"
#include "hub/cache.h"
#include "hub/name.h"
#include "tests/test.h"

#include <string.h>

static void names_are_told_from_paths(void **state)
{
    (void)state;
    static const char *const good[] = {"org/name", "meta-llama/Llama-3.2-1B", "a/b@main",
                                       "a/b@refs/pr/1", "a_b/c.d@v1.0", "0/1"};
    static const char *const bad[] = {"",       "name",     "/name",  "org/",      "./name",
                                      "../up",  "a/b/c",    "a/b@",   "a/b@../x",  "a/b@/x",
                                      "a--b/c", "a/b..c",   "-a/b",   "a/.b",      "a/b@x//y",
                                      "a b/c",  "a/b@x\ny", "~/name", "a/b@x\\y", "a\xc3\xa9/b"};
    for (size_t i = 0; i < PITH_COUNT(good); i++) assert_true(pith_hub_name_is(good[i]));
    for (size_t i = 0; i < PITH_COUNT(bad); i++) assert_false(pith_hub_name_is(bad[i]));
    char longest[400];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    longest[3] = '/';
    assert_false(pith_hub_name_is(longest));
}

static void a_name_is_taken_apart(void **state)
{
    (void)state;
    struct pith_hub_name n;
    struct pith_error err = {0};
    assert_int_equal(pith_hub_name_parse("org/name", &n, &err), PITH_OK);
    assert_string_equal(n.repo, "org/name");
    assert_string_equal(n.revision, "main");
    assert_int_equal(pith_hub_name_parse("org/name@refs/pr/1", &n, &err), PITH_OK);
    assert_string_equal(n.revision, "refs/pr/1");
    assert_int_equal(pith_hub_name_parse("name", &n, &err), PITH_ARG);
}

static void paths_that_lead_out_are_not_safe(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "a/b.c", "..a/b..", ".hidden", "a/...", "-x"};
    static const char *const bad[] = {"",     "/a",     "a/",   "..",    "a/../b", ".",
                                      "a//b", "a\\..b", "a\nb", "a/./b", "../a"};
    for (size_t i = 0; i < PITH_COUNT(good); i++) assert_true(pith_hub_path_is_safe(good[i]));
    for (size_t i = 0; i < PITH_COUNT(bad); i++) assert_false(pith_hub_path_is_safe(bad[i]));
    char deep[200] = "a";
    for (size_t i = 0; i < 40; i++) strcat(deep, "/a");
    assert_false(pith_hub_path_is_safe(deep));
}

static void a_snapshot_is_called_by_its_name(void **state)
{
    (void)state;
    static const char c[] = "0123456789abcdef0123456789abcdef01234567";
    char path[200];
    static const struct {
        const char *before, *after, *title;
    } cases[] = {
        {"/x/models--org--na-me/snapshots/", "",
         "0123456789abcdef0123456789abcdef01234567/org/na-me"},
        {"models--o--n/snapshots/", "/a.gguf",
         "0123456789abcdef0123456789abcdef01234567/o/n/a.gguf"},
        {"/x/models--org/snapshots/", "", NULL},
        {"/x/models--org--n/blobs/", "", NULL},
        {"/x/amodels--org--n/snapshots/", "", NULL},
        {"/x/models--org--n/snapshots/0", "", NULL},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        snprintf(path, sizeof path, "%s%s%s", cases[i].before, c, cases[i].after);
        char *title = pith_hub_title(path);
        assert_string_equal(title, cases[i].title ? cases[i].title : path);
        pith_free(title);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_told_from_paths),
        cmocka_unit_test(a_name_is_taken_apart),
        cmocka_unit_test(paths_that_lead_out_are_not_safe),
        cmocka_unit_test(a_snapshot_is_called_by_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
