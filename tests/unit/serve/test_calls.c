/* serve/grammar/calls: answers that are calls between marks, one or several, or else of another
 * form. */
#include "test.h"

#include "grammars.h"

static bool takes_text(struct pith_grammar *g, const char *text)
{
    return takes(g, text, strlen(text));
}

#define CALL                                                                                       \
    "\"call\": \"{\\\"type\\\": \\\"object\\\", \\\"properties\\\": {\\\"n\\\": {\\\"const\\\": "  \
    "1}}, \\\"required\\\": [\\\"n\\\"], \\\"additionalProperties\\\": false}\""
#define MARKS ", \"open\": \"<a>\", \"close\": \"</a>\""
#define ONE "<a>{\"n\":1}</a>"

static void test_forms(void **state)
{
    (void)state;
    static const struct {
        const char *text, *good[4], *bad[6];
    } rows[] = {
        {"{" CALL "}", {"{\"n\":1}"}, {"", ONE, "{\"n\":2}", "{\"n\":1}\n{\"n\":1}"}},
        {"{" CALL MARKS "}",
         {ONE, "<a>{\"n\": 1}</a>"},
         {"", "{\"n\":1}", "<a></a>", ONE ONE, ONE "\n" ONE, "<a>{\"n\":1}"}},
        {"{" CALL MARKS ", \"many\": true}",
         {ONE, ONE "\n" ONE, ONE "\n" ONE "\n" ONE},
         {"", ONE ONE, ONE "\n", "{\"n\":1}"}},
        {"{" CALL MARKS ", \"else\": {\"kind\": \"schema\", \"text\": \"{\\\"enum\\\": [7]}\"}}",
         {ONE, "7"},
         {"", "8", ONE "7", ONE "\n" ONE, "7" ONE}},
        {"{" CALL MARKS ", \"many\": true, \"else\": {\"kind\": \"json\"}}",
         {ONE, ONE "\n" ONE, "{}", "{\"n\":2}"},
         {"", "7", ONE "{}", "{}" ONE}},
        {"{" CALL MARKS ", \"else\": {\"kind\": \"expression\", \"text\": \"x+\"}}",
         {ONE, "x", "xxx"},
         {"", "{}", "y", ONE "x"}},
    };
    struct pith_vocab_bytes *v = bytes_alone();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pith_error err = {0};
        struct pith_grammar *g = NULL;
        assert_ok(pith_grammar_open(v, PITH_CALLS, rows[i].text, &g, &err), err);
        for (size_t k = 0; k < 4 && rows[i].good[k]; k++)
            if (!takes_text(g, rows[i].good[k])) fail_msg("%zu refuses %s", i, rows[i].good[k]);
        for (size_t k = 0; k < 6 && rows[i].bad[k]; k++)
            if (takes_text(g, rows[i].bad[k])) fail_msg("%zu takes %s", i, rows[i].bad[k]);
        pith_grammar_close(g);
    }
    pith_vocab_bytes_close(v);
}

static void test_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum pith_status status;
    } rows[] = {
        {"", PITH_FORMAT},
        {"[]", PITH_FORMAT},
        {"{}", PITH_FORMAT},
        {"{\"call\": 1}", PITH_FORMAT},
        {"{\"call\": \"{\"}", PITH_FORMAT},
        {"{" CALL ", \"else\": {}}", PITH_FORMAT},
        {"{" CALL ", \"else\": {\"kind\": \"poem\"}}", PITH_FORMAT},
        {"{" CALL ", \"else\": {\"kind\": \"schema\"}}", PITH_ARG},
        {"{" CALL ", \"else\": {\"kind\": \"expression\", \"text\": \"(\"}}", PITH_FORMAT},
    };
    struct pith_vocab_bytes *v = bytes_alone();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pith_grammar *g = NULL;
        const enum pith_status s = pith_grammar_open(v, PITH_CALLS, rows[i].text, &g, NULL);
        if (s != rows[i].status) fail_msg("%s: %d", rows[i].text, (int)s);
    }
    pith_vocab_bytes_close(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
