/* report/page.h: a report is a tree of others; whatever stands in it, a page comes of it or a
 * message, and nothing of it is taken for HTML. */
#include "report/page.h"
#include "base/mem.h"

#include "test.h"

static const struct {
    const char *name;
    pith_page_fn *fn;
    bool refuses; /* what is no such report */
} pages[] = {{"compare", pith_page_compare, false},
             {"inspect", pith_page_inspect, false},
             {"sensitivity", pith_page_sensitivity, true},
             {"traffic", pith_page_traffic, false}};

static void is_whole(const struct pith_str *out, const char *name)
{
    const char *text = pith_str_text(out);
    if (strncmp(text, "<!doctype html>", 15) != 0 || !strstr(text, "</html>"))
        fail_msg("%s: no whole page", name);
}

/* A tree for each page: PITH_OK and a whole page, or PITH_FORMAT and nothing. */
static void try_all(const char *tree)
{
    json_t *j = json_loads(tree, JSON_DECODE_ANY, NULL);
    assert_non_null(j);
    for (size_t i = 0; i < PITH_COUNT(pages); i++) {
        struct pith_str out = {0};
        struct pith_error err = {0};
        const enum pith_status s = pages[i].fn(j, &out, &err);
        if (s == PITH_OK) is_whole(&out, pages[i].name);
        else if (!pages[i].refuses || s != PITH_FORMAT || out.len)
            fail_msg("%s of %s: status %d", pages[i].name, tree, (int)s);
        pith_str_free(&out);
    }
    json_decref(j);
}

static void any_tree_makes_a_page(void **state)
{
    (void)state;
    static const char *const trees[] = {"{}",
                                        "[]",
                                        "null",
                                        "\"a\"",
                                        "{\"models\": 5, \"tensors\": {}, \"rows\": null}",
                                        "{\"models\": [null, 1, [], {\"texts\": [7, {}]}]}",
                                        "{\"models\": [{\"texts\": [{\"kld_histogram\": {}}]}]}",
                                        "{\"linears\": [{}, {\"name\": 3}], \"tensors\": []}",
                                        "{\"tensors\": [[], {\"shape\": [1, 2], \"std\": \"x\"}]}",
                                        "{\"levels\": [{}, null, {\"histograms\": 1}]}"};
    for (size_t i = 0; i < PITH_COUNT(trees); i++) try_all(trees[i]);
}

/* A name from a model is text, whatever it looks like. */
static void names_are_escaped(void **state)
{
    (void)state;
    json_t *j = json_loads("{\"models\": [{\"name\": \"<script>x\", \"texts\": [{\"text\": "
                           "\"<script>y\", \"perplexity\": 5}]}], \"linears\": [], \"tensors\": "
                           "[{\"name\": \"<script>z\", \"shape\": [4, 4], \"std\": 1, \"min\": -1, "
                           "\"max\": 1, \"mean\": 0, \"kurtosis\": 3, \"outliers\": 0}]}",
                           0, NULL);
    assert_non_null(j);
    for (size_t i = 0; i < 2; i++) {
        struct pith_str out = {0};
        assert_int_equal(pages[i].fn(j, &out, NULL), PITH_OK);
        assert_non_null(strstr(pith_str_text(&out), "&lt;script&gt;"));
        assert_null(strstr(pith_str_text(&out), "<script>x"));
        assert_null(strstr(pith_str_text(&out), "<script>y"));
        assert_null(strstr(pith_str_text(&out), "<script>z"));
        pith_str_free(&out);
    }
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_tree_makes_a_page),
        cmocka_unit_test(names_are_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
