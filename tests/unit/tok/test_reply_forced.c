/* tok/reply/forced: calls that a constraint makes are told while they come, however they are cut,
 * and as far as they are where they end too early. */
#include "test.h"

#include "base/mem.h"
#include "base/str.h"
#include "tok/reply/reply.h"

static const char one_tool[] = "[{\"type\": \"function\", \"function\": {\"name\": \"look\"}}]",
                  two_tools[] = "[{\"type\": \"function\", \"function\": {\"name\": \"look\"}}, "
                                "{\"type\": \"function\", \"function\": {\"name\": \"lock\"}}]";

/* What was told: contents as they are, calls as "number name(arguments)". */
struct heard {
    struct pith_str content, calls;
    size_t pieces; /* of arguments */
    size_t ids;
};

static void hear(void *ctx, const struct pith_reply_delta *d)
{
    struct heard *h = ctx;
    if (d->kind != PITH_REPLY_CALL) {
        pith_str_append(&h->content, d->text, d->size);
        return;
    }
    if (d->name) pith_str_printf(&h->calls, "[%zu %s]", d->call, d->name);
    h->ids += d->id != NULL;
    h->pieces += d->size > 0;
    pith_str_append(&h->calls, d->text, d->size);
}

/* cut: bytes of a piece. */
static void split(const char *template, const struct pith_reply_options *how, const char *text,
                  size_t size, size_t cut, struct heard *h)
{
    struct pith_error err = {0};
    struct pith_reply *r = NULL;
    struct pith_reply_format *f = NULL;
    struct pith_chat *c = NULL;
    struct pith_reply_options o = *how;
    *h = (struct heard){.pieces = 0};
    o.delta = hear;
    o.ctx = h;
    assert_ok(pith_chat_from(template, strlen(template), NULL, &c, &err), err);
    assert_ok(pith_reply_format_of_chat(c, &f, &err), err);
    assert_ok(pith_reply_new(f, &o, &r, &err), err);
    for (size_t at = 0; at < size; at += cut)
        assert_ok(pith_reply_add(r, text + at, size - at < cut ? size - at : cut, &err), err);
    assert_ok(pith_reply_finish(r, &err), err);
    assert_int_equal(pith_reply_reported(r), h->ids);
    pith_reply_free(r);
    pith_reply_format_free(f);
    pith_chat_close(c);
}

static void forget(struct heard *h)
{
    pith_str_free(&h->content);
    pith_str_free(&h->calls);
}

static const char described[] = "{{ messages }}",
                  hermes[] = "{{ tools | tojson }}<tool_call></tool_call>{{ messages }}",
                  mistral[] = "{{ tools | tojson }}[TOOL_CALLS]{{ messages }}";

static const struct {
    const char *template;
    int forced, single;
    const char *text, *calls, *content;
} rows[] = {
    {described, 1, 0, "<tool_call>\n{\"name\":\"look\",\"arguments\":{\"a\":[1]}}\n</tool_call>",
     "[0 look]{\"a\":[1]}", ""},
    {described, 1, 0, "{\"name\": \"look\", \"arguments\": {\"a\": \"}\\\"{\"}}",
     "[0 look]{\"a\": \"}\\\"{\"}", ""},
    {described, 1, 0,
     "<tool_call>\n{\"name\":\"look\",\"arguments\":{}}\n</tool_call>\n"
     "<tool_call>\n{\"name\":\"lock\",\"arguments\":{\"b\":{}}}\n</tool_call>",
     "[0 look]{}[1 lock]{\"b\":{}}", ""},
    {described, 1, 1,
     "<tool_call>\n{\"name\":\"look\",\"arguments\":{}}\n</tool_call>\n"
     "<tool_call>\n{\"name\":\"lock\",\"arguments\":{\"b\":{}}}\n</tool_call>",
     "[0 look]{}", ""},
    {hermes, 1, 0, "{\"name\":\"look\",\"arguments\":{\"a\":12345678901234567890}}",
     "[0 look]{\"a\":12345678901234567890}", ""},
    {mistral, 1, 0, "{\"name\":\"look\",\"arguments\":{\"a\":1,\"a\":2}}",
     "[0 look]{\"a\":1,\"a\":2}", ""},
    /* not as the constraint makes it, and still a call; or none */
    {hermes, 1, 0, "{\"arguments\": {\"a\": 1}, \"name\": \"look\"}", "[0 look]{\"a\": 1}", ""},
    {hermes, 1, 0, "So it is.", "", "So it is."},
    {hermes, 1, 0, "{\"name\": \"lo\\u006fk\", \"arguments\": {}}", "[0 look]{}", ""},
    /* calls, or else something */
    {hermes, 2, 0, "<tool_call>\n{\"name\":\"look\",\"arguments\":{\"a\":1}}\n</tool_call>",
     "[0 look]{\"a\":1}", ""},
    {hermes, 2, 0, "{\"name\":\"look\",\"arguments\":{\"a\":1}}", "",
     "{\"name\":\"look\",\"arguments\":{\"a\":1}}"},
    {hermes, 2, 0, "{\"t\":\"<tool_call>{\\\"name\\\"}</tool_call>\"}", "",
     "{\"t\":\"<tool_call>{\\\"name\\\"}</tool_call>\"}"},
    {mistral, 2, 0, "[TOOL_CALLS]\n{\"name\":\"look\",\"arguments\":{\"a\":1}}",
     "[0 look]{\"a\":1}", ""},
    {mistral, 2, 0, "[1,2]", "", "[1,2]"},
    {described, 2, 1,
     "<tool_call>\n{\"name\":\"look\",\"arguments\":{}}\n</tool_call>\n"
     "<tool_call>\n{\"name\":\"lock\",\"arguments\":{}}\n</tool_call>",
     "[0 look]{}", ""},
    /* not forced: one call alone */
    {hermes, 0, 1,
     "Well.<tool_call>{\"name\": \"look\", \"arguments\": {}}</tool_call>"
     "<tool_call>{\"name\": \"lock\", \"arguments\": {}}</tool_call>",
     "[0 look]{}", "Well."},
    {hermes, 0, 0,
     "<tool_call>{\"name\": \"look\", \"arguments\": {\"a\": 12345678901234567890}}</tool_call>"
     "<tool_call>{\"name\": \"lock\", \"arguments\": {}}</tool_call>",
     "[0 look]{\"a\": 12345678901234567890}[1 lock]{}", ""},
    {described, 0, 0,
     "Well.\n<tool_call>\n{\"name\": \"look\", \"arguments\": {\"a\": 1}}\n</tool_call>",
     "[0 look]{\"a\": 1}", "Well."},
};

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const size_t size = strlen(rows[i].text);
        for (size_t cut = 1; cut <= size; cut++) {
            const struct pith_reply_options o = {
                .tools = two_tools, .forced = rows[i].forced, .single = rows[i].single};
            struct heard h;
            split(rows[i].template, &o, rows[i].text, size, cut, &h);
            if (strcmp(pith_str_text(&h.calls), rows[i].calls) != 0 ||
                strcmp(pith_str_text(&h.content), rows[i].content) != 0)
                fail_msg("row %zu, cut %zu: calls '%s', content '%s'", i, cut,
                         pith_str_text(&h.calls), pith_str_text(&h.content));
            forget(&h);
        }
    }
}

/* Whatever there is of it, the answer is a call. */
static void test_ends(void **state)
{
    (void)state;
    static const char text[] =
        "<tool_call>\n{\"name\":\"look\",\"arguments\":{\"city\":\"a}b\"}}\n</tool_call>";
    static const char arguments[] = "{\"city\":\"a}b\"}";
    const size_t begin = (size_t)(strstr(text, "{\"city") - text);
    const size_t name = (size_t)(strstr(text, "look") - text);
    for (size_t size = 1; size < sizeof text; size++) {
        const char *const lists[] = {one_tool, two_tools};
        for (size_t k = 0; k < 2; k++) {
            const struct pith_reply_options o = {.tools = lists[k], .forced = 1};
            struct heard h;
            char wanted[64];
            const size_t there = size <= begin ? 0 : size - begin;
            const size_t most = sizeof arguments - 1;
            const size_t known = size <= name ? 0 : size - name;
            /* "lo" may become either of two. */
            const char *whole = k == 0 || known > 2 ? "look" : "";
            snprintf(wanted, sizeof wanted, "[0 %s%.*s]%.*s", whole,
                     *whole ? 0 : (int)known, "look", (int)(there < most ? there : most),
                     arguments);
            split(described, &o, text, size, 1, &h);
            if (strcmp(pith_str_text(&h.calls), wanted) != 0 || h.content.len != 0)
                fail_msg("%zu bytes, %zu tools: calls '%s' for '%s', content '%s'", size, k + 1,
                         pith_str_text(&h.calls), wanted, pith_str_text(&h.content));
            if (size + 1 == sizeof text) assert_true(h.pieces > 5);
            forget(&h);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
