/* tok/reply: whichever request for memory fails, of pith or of jansson, splitting an answer says so
 * and leaks nothing; it never tells another answer. */
#include "requests.h"

#include "base/mem.h"
#include "base/str.h"
#include "test.h"
#include "tok/reply/reply.h"

static const struct {
    const char *template, *text;
} cases[] = {
    {"<tool_call></tool_call></think>", "<think>a\n</think> b\n<tool_call>[{\"name\": \"f\", "
                                        "\"arguments\": \"{}\"}, {\"name\": \"g\"}]"
                                        "</tool_call> <|im_end|>"},
    {"<tool_call><function=<parameter=",
     "<tool_call><function=f><parameter=a>1</parameter><parameter=b>x</parameter></function>"
     "</tool_call>"},
    {"[TOOL_CALLS]", "[TOOL_CALLS]f[CALL_ID]abc[ARGS]{\"a\": [1]} <tail"},
    {"<|channel|><|message|>", "<|channel|>analysis<|message|>a <|end|><|start|>assistant "
                               "to=functions.f<|channel|>commentary "
                               "json<|message|>{}<|call|>"},
};
static const char tools[] =
    "[{\"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"type\": "
    "\"integer\"}}}}}]";

struct heard {
    char text[512];
    size_t size;
};

static void hear(void *ctx, const struct pith_reply_delta *d)
{
    struct heard *h = ctx;
    const int n = snprintf(h->text + h->size, sizeof h->text - h->size, "%d%s%.*s", (int)d->kind,
                           d->name ? d->name : "", (int)d->size, d->text);
    assert_true(n > 0 && h->size + (size_t)n < sizeof h->text);
    h->size += (size_t)n;
}

struct job {
    size_t number;
    struct heard whole; /* with all memory */
};

static enum pith_status push_all(struct pith_reply *r, const char *text, struct pith_error *err)
{
    for (const char *p = text; *p; p++) PITH_TRY(pith_reply_add(r, p, 1, err));
    return pith_reply_finish(r, err);
}

static enum pith_status run(void *ctx, struct pith_error *err)
{
    struct job *j = ctx;
    struct pith_reply_format *f = NULL;
    struct pith_reply *r = NULL;
    struct heard h = {.size = 0};
    const struct pith_reply_options o = {.tools = tools, .delta = hear, .ctx = &h};
    PITH_TRY(pith_reply_format_of(cases[j->number].template, NULL, "</s>", &f, err));
    enum pith_status s = pith_reply_new(f, &o, &r, err);
    if (s == PITH_OK) s = push_all(r, cases[j->number].text, err);
    if (j->whole.size == 0) j->whole = h;
    assert_true(h.size <= j->whole.size);
    assert_memory_equal(h.text, j->whole.text, h.size);
    if (s == PITH_OK) assert_int_equal(h.size, j->whole.size);
    pith_reply_free(r);
    pith_reply_format_free(f);
    return s;
}

static void every_request_may_fail(void **state)
{
    (void)state;
    need_requests();
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct job j = {.number = i};
        /* A call that is read again when more of it is there may do without. */
        try_each_request(run, &j, true);
        assert_true(j.whole.size > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
