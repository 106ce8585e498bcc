/* base/: whichever of pith's requests for memory fails, reading and writing JSON says so and leaks
 * nothing. */
#include "base/json.h"
#include "base/mem.h"
#include "requests.h"
#include "test.h"

#include <string.h>

/* A name and strings with escapes that outgrow the first room, numbers of many digits, NaN and an
 * infinity that come again, members that come twice, lists within each other. */
static void make_text(struct pith_str *s)
{
    pith_str_puts(s, "\xef\xbb\xbf{\"a\": 1, \"a\": [NaN, NaN, Infinity, -Infinity, 1e999]");
    pith_str_puts(s, ", \"\\u0041");
    for (int i = 0; i < 100; i++) pith_str_puts(s, "name");
    pith_str_puts(s, "\": \"");
    for (int i = 0; i < 300; i++) pith_str_puts(s, "\\n\\ud83d\\ude00\\ud800");
    pith_str_puts(s, "\", \"big\": 1");
    for (int i = 0; i < 300; i++) pith_str_putc(s, '0');
    pith_str_puts(s, ", \"real\": 0.");
    for (int i = 0; i < 100; i++) pith_str_putc(s, '1');
    pith_str_puts(s, ", \"within\": [[[{\"x\\u0000\": null, \"y\": true}]]]}");
}

static enum pith_status read_text(void *text, struct pith_error *err)
{
    const struct pith_str *s = text;
    json_t *j = NULL;
    PITH_TRY(pith_json_parse(s->data, s->len, "text", &j, err));
    json_decref(j);
    return PITH_OK;
}

static enum pith_status write_tree(void *tree, struct pith_error *err)
{
    char *text;
    size_t size;
    struct pith_str sorted = {0};
    PITH_TRY(pith_json_text("text", tree, &text, &size, err));
    pith_free(text);
    pith_json_dump(tree, JSON_SORT_KEYS, &sorted);
    const enum pith_status s = sorted.failed ? pith_fail_nomem(err, "text") : PITH_OK;
    pith_str_free(&sorted);
    return s;
}

static void every_request_may_fail(void **state)
{
    (void)state;
    need_requests();
    struct pith_error err = {0};
    struct pith_str text = {0};
    json_t *tree = NULL;
    make_text(&text);
    assert_false(text.failed);
    assert_ok(pith_json_parse(text.data, text.len, "text", &tree, &err), err);
    assert_true(fail_each_request(read_text, &text, false) > 4);
    assert_true(fail_each_request(write_tree, tree, false) > 4);
    json_decref(tree);
    pith_str_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_request_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
