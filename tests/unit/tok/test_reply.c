/* tok/reply: answers are split into what their format says, however they come in pieces. */
#include "test.h"

#include "base/mem.h"
#include "base/str.h"
#include "tok/chat/chat.h"
#include "tok/reply/reply.h"

#include <ctype.h>
#include <dirent.h>
#include <time.h>

#include "golden/reply/answers.h"

/* What was told, as one text each. */
struct heard {
    struct pith_str content, reasoning, calls;
};

static void hear(void *ctx, const struct pith_reply_delta *d)
{
    struct heard *h = ctx;
    if (d->kind == PITH_REPLY_CONTENT) pith_str_append(&h->content, d->text, d->size);
    if (d->kind == PITH_REPLY_REASONING) pith_str_append(&h->reasoning, d->text, d->size);
    if (d->kind != PITH_REPLY_CALL) return;
    if (d->name)
        pith_str_printf(&h->calls, "%s%zu %s %s ", d->call ? "\n" : "", d->call, d->id, d->name);
    pith_str_append(&h->calls, d->text, d->size);
}

static void forget(struct heard *h)
{
    pith_str_free(&h->content);
    pith_str_free(&h->reasoning);
    pith_str_free(&h->calls);
}

static const char tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"look\", \"description\": \"d\", "
    "\"parameters\": {\"type\": \"object\", \"required\": [\"city\"], \"properties\": {"
    "\"city\": {\"type\": \"string\", \"description\": \"d\"}, "
    "\"days\": {\"type\": \"integer\", \"description\": \"d\"}, "
    "\"metric\": {\"type\": \"boolean\", \"description\": \"d\"}, "
    "\"list\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}, \"description\": \"d\"}, "
    "\"maybe\": {\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"null\"}], \"type\": [\"string\", "
    "\"null\"], \"description\": \"d\"}, "
    "\"some\": {\"type\": [\"number\", \"null\"], \"description\": \"d\"}}}}}]";

/* An answer in pieces that end at `cut` and at its end; cut SIZE_MAX: byte by byte. */
static void split(const struct pith_reply_format *f, const struct answer *a, size_t cut,
                  struct heard *h)
{
    struct pith_error err = {0};
    struct pith_reply *r = NULL;
    const size_t size = strlen(a->text);
    const struct pith_reply_options o = {.tools = a->no_tools ? NULL : tools,
                                         .prompt = a->prompt,
                                         .prompt_size = a->prompt ? strlen(a->prompt) : 0,
                                         .seed = 7,
                                         .delta = hear,
                                         .ctx = h};
    assert_ok(pith_reply_new(f, &o, &r, &err), err);
    for (size_t at = 0; at < size;) {
        const size_t to = cut == SIZE_MAX ? at + 1 : at < cut && cut < size ? cut : size;
        assert_ok(pith_reply_add(r, a->text + at, to - at, &err), err);
        at = to;
    }
    assert_ok(pith_reply_finish(r, &err), err);
    pith_reply_free(r);
}

static struct pith_reply_format *format(const char *template)
{
    struct pith_error err = {0};
    struct pith_reply_format *f = NULL;
    assert_ok(pith_reply_format_of(template, NULL, "<|endoftext|>", &f, &err), err);
    return f;
}

/* Calls without their ids, which depend on the seed. */
static char *without_ids(const char *calls)
{
    struct pith_str s = {0};
    for (const char *p = calls; *p;) {
        const char *id = strchr(p, ' '), *name = strchr(id + 1, ' '), *end = strchr(p, '\n');
        if (!end) end = p + strlen(p);
        pith_str_append(&s, name + 1, (size_t)(end - name - 1));
        pith_str_putc(&s, '\n');
        p = *end ? end + 1 : end;
    }
    if (s.len) s.data[--s.len] = '\0';
    return pith_str_take(&s);
}

static void test_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < PITH_COUNT(answers); i++) {
        const struct answer *a = &answers[i];
        struct pith_reply_format *f = format(a->template);
        struct heard h = {0};
        split(f, a, 0, &h);
        char *calls = without_ids(pith_str_text(&h.calls));
        if (strcmp(pith_reply_format_row(f), a->row) != 0)
            fail_msg("'%s' is %s", a->template, pith_reply_format_row(f));
        if (strcmp(pith_str_text(&h.content), a->content) != 0)
            fail_msg("%s, '%s': content '%s'", a->row, a->text, pith_str_text(&h.content));
        if (strcmp(pith_str_text(&h.reasoning), a->reasoning) != 0)
            fail_msg("%s, '%s': reasoning '%s'", a->row, a->text, pith_str_text(&h.reasoning));
        if (strcmp(calls ? calls : "", a->calls) != 0)
            fail_msg("%s, '%s': calls '%s'", a->row, a->text, calls);
        pith_free(calls);
        forget(&h);
        pith_reply_format_free(f);
    }
}

static void same(const struct answer *a, const struct heard *x, const struct heard *y, size_t cut)
{
    if (strcmp(pith_str_text(&x->content), pith_str_text(&y->content)) != 0 ||
        strcmp(pith_str_text(&x->reasoning), pith_str_text(&y->reasoning)) != 0 ||
        strcmp(pith_str_text(&x->calls), pith_str_text(&y->calls)) != 0)
        fail_msg("%s, '%s' cut at %zu: '%s' '%s' '%s'", a->row, a->text, cut,
                 pith_str_text(&y->content), pith_str_text(&y->reasoning),
                 pith_str_text(&y->calls));
}

static void test_cuts(void **state)
{
    (void)state;
    for (size_t i = 0; i < PITH_COUNT(answers); i++) {
        struct pith_reply_format *f = format(answers[i].template);
        /* Each beginning of it is an answer too. */
        char *text = strdup(answers[i].text);
        for (size_t size = strlen(text); size > 0; size--) {
            struct answer a = answers[i];
            struct heard whole = {0};
            text[size] = '\0';
            a.text = text;
            split(f, &a, 0, &whole);
            for (size_t cut = size < strlen(answers[i].text) ? size : 1; cut <= size; cut++) {
                struct heard h = {0};
                split(f, &a, cut < size ? cut : SIZE_MAX, &h);
                same(&a, &whole, &h, cut);
                forget(&h);
            }
            forget(&whole);
        }
        free(text);
        pith_reply_format_free(f);
    }
}

/* Where no tools were offered and nothing is thought, an answer is its text. */
static void test_nothing_lost(void **state)
{
    (void)state;
    for (size_t i = 0; i < PITH_COUNT(answers); i++) {
        struct answer a = answers[i];
        struct pith_error err = {0};
        struct pith_reply_format *f = NULL;
        assert_ok(pith_reply_format_of("", NULL, NULL, &f, &err), err);
        struct heard h = {0};
        split(f, &a, SIZE_MAX, &h);
        assert_int_equal(h.content.len, strlen(a.text));
        assert_memory_equal(pith_str_text(&h.content), a.text, h.content.len);
        assert_int_equal(h.calls.len, 0);
        forget(&h);
        pith_reply_format_free(f);
    }
}

/* Ids come from the seed alone, and have the form that the family wants. */
static void test_ids(void **state)
{
    (void)state;
    static const char *const templates[] = {"<tool_call></tool_call>", "[TOOL_CALLS]"},
                             *const texts[] = {
                                 "<tool_call>{\"name\": \"a\"}\n{\"name\": \"b\"}</tool_call>",
                                 "[TOOL_CALLS][{\"name\": \"a\"}, {\"name\": \"b\"}]"};
    for (int i = 0; i < 2; i++) {
        struct pith_reply_format *f = format(templates[i]);
        const struct answer a = {.text = texts[i]};
        struct heard h[2] = {0};
        char first[64], second[64];
        for (int k = 0; k < 2; k++) split(f, &a, k ? 5 : 0, &h[k]);
        assert_string_equal(pith_str_text(&h[0].calls), pith_str_text(&h[1].calls));
        assert_int_equal(sscanf(h[0].calls.data, "0 %63s a {}\n1 %63s b {}", first, second), 2);
        assert_string_not_equal(first, second);
        assert_int_equal(strlen(first), i ? 9 : 29);
        if (!i) assert_memory_equal(first, "call_", 5);
        for (const char *p = first + (i ? 0 : 5); *p; p++) assert_true(isalnum(*p));
        for (int k = 0; k < 2; k++) forget(&h[k]);
        pith_reply_format_free(f);
    }
}

/* An answer that begins a call in every line is told whole, and takes no time that grows with the
 * square of its length. */
static void test_calls_without_end(void **state)
{
    (void)state;
    static const char *const hostile[][3] = {
        {"<tool_call></tool_call>", "<tool_call>{", "]"},
        {"<tool_call></tool_call>", "<tool_call>{\"a\":\"", ""},
        {"<tool_call></tool_call>", "<tool_call> \n", "x"},
        {"<tool_call><function=<parameter=", "<tool_call><function=a><parameter=b>",
         "</parameter>x"},
        {"<tool_call><arg_key>", "<tool_call>a<arg_key>b</arg_key><arg_value>", ""},
        {"[TOOL_CALLS]", "[TOOL_CALLS]a{", ""},
        {"<|channel|><|message|>", "<|start|>a to=functions.b<|message|>{\"", ""},
        {"<|channel|><|message|>", "<|start|>", "x"},
    };
    for (size_t i = 0; i < PITH_COUNT(hostile); i++) {
        struct pith_reply_format *f = format(hostile[i][0]);
        struct pith_str text = {0};
        struct heard h = {0};
        struct pith_error err = {0};
        struct pith_reply *r = NULL;
        const struct pith_reply_options o = {.tools = tools, .delta = hear, .ctx = &h};
        while (text.len < 1 << 20) pith_str_puts(&text, hostile[i][1]);
        pith_str_puts(&text, hostile[i][2]);
        assert_ok(pith_reply_new(f, &o, &r, &err), err);
        const clock_t start = clock();
        for (size_t at = 0; at < text.len; at += 5)
            assert_ok(
                pith_reply_add(r, text.data + at, text.len - at < 5 ? text.len - at : 5, &err),
                err);
        assert_ok(pith_reply_finish(r, &err), err);
        const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
        if (seconds > 20) fail_msg("%s: %.1f s", hostile[i][1], seconds);
        if (getenv("PITH_TEST_TELL")) print_message("%s: %.2f s\n", hostile[i][1], seconds);
        assert_int_equal(h.calls.len, 0);
        assert_int_equal(h.content.len, text.len);
        assert_memory_equal(h.content.data, text.data, text.len);
        pith_reply_free(r);
        pith_reply_format_free(f);
        pith_str_free(&text);
        forget(&h);
    }
}

/* ---- templates write the calls of earlier turns as models shall write them ---- */

static char *render(const struct pith_chat *c, const char *messages, bool open)
{
    struct pith_error err = {0};
    struct pith_rendered out = {0};
    json_t *j = json_pack("{s:o, s:o, s:b}", "messages", json_loads(messages, 0, NULL), "tools",
                          json_loads(tools, 0, NULL), "add_generation_prompt", (int)open);
    assert_non_null(j);
    const enum pith_status s = pith_chat_render(c, j, 1753700000, &out, &err);
    json_decref(j);
    char *text = s == PITH_OK ? strdup(out.text) : NULL;
    if (!text && getenv("PITH_TEST_TELL")) print_message("%s\n", err.text);
    pith_rendered_free(&out);
    return text;
}

#define USER "{\"role\": \"user\", \"content\": \"Weather?\"}"
static const char asked[] = "[" USER "]";
/* With the ids that templates want: Mistral's and Kimi's. */
static const char said[] =
    "[" USER ", {\"role\": \"assistant\", \"content\": %s, \"tool_calls\": [{\"id\": \"%s\", "
    "\"type\": \"function\", \"function\": {\"name\": \"look\", \"arguments\": {\"city\": "
    "\"<a>\\n\\\"\u00fc\", \"days\": 3, \"metric\": false, \"list\": [1, [2, 3]]}}}]}]";
static const char wanted[] =
    "{\"city\": \"<a>\\n\\\"\u00fc\", \"days\": 3, \"metric\": false, \"list\": [1, [2, 3]]}";

static struct pith_chat *read_chat(const char *path)
{
    struct pith_error err = {0};
    struct pith_chat *c = NULL;
    static char text[1 << 20];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t size = fread(text, 1, sizeof text, f);
    fclose(f);
    json_t *own = json_pack("{s:s, s:s}", "bos_token", "<s>", "eos_token", "</s>");
    const enum pith_status s = pith_chat_from(text, size, own, &c, &err);
    json_decref(own);
    return s == PITH_OK ? c : NULL;
}

/* Whether the call that a template writes is read; -1: it writes none behind its prompt. */
static int comes_back(const struct pith_chat *c, const char *file, const char *id,
                      const char *content)
{
    struct pith_error err = {0};
    struct pith_reply_format *f = NULL;
    struct heard h = {0};
    char messages[2048];
    snprintf(messages, sizeof messages, said, content, id);
    char *prompt = render(c, asked, true), *whole = render(c, messages, false);
    /* What opens an answer may be written otherwise later: an empty thought is left out. */
    size_t from = 0;
    while (prompt && whole && prompt[from] && prompt[from] == whole[from]) from++;
    /* Not within a mark. */
    for (size_t back = from; back > 0 && !strchr(">]", whole[back - 1]); back--)
        if (strchr("<[", whole[back - 1])) from = back - 1;
    int good = -1;
    assert_ok(pith_reply_format_of_chat(c, &f, &err), err);
    if (prompt && whole && strstr(whole + from, "look") && pith_reply_format_marked(f) &&
        strcmp(pith_reply_format_row(f), "plain") != 0) {
        struct answer a = {.text = whole + from, .prompt = NULL};
        split(f, &a, 0, &h);
        const char *arguments = strstr(pith_str_text(&h.calls), " look ");
        json_t *x = arguments ? json_loads(arguments + 6, 0, NULL) : NULL,
               *y = json_loads(wanted, 0, NULL);
        assert_non_null(y);
        good = json_equal(x, y);
        if (!good)
            print_message("%s (%s): '%s' is '%s', '%s'\n", file, pith_reply_format_row(f), a.text,
                          pith_str_text(&h.content), pith_str_text(&h.calls));
        json_decref(x);
        json_decref(y);
    }
    forget(&h);
    pith_reply_format_free(f);
    free(prompt);
    free(whole);
    return good;
}

static void test_templates(void **state)
{
    (void)state;
    char path[1024];
    snprintf(path, sizeof path, "%s/templates", test_data_dir());
    DIR *dir = opendir(path);
    if (!dir) skip();
    const struct dirent *e;
    size_t good = 0, bad = 0;
    while ((e = readdir(dir)) != NULL) {
        if (!strstr(e->d_name, ".jinja")) continue;
        snprintf(path, sizeof path, "%s/templates/%s", test_data_dir(), e->d_name);
        struct pith_chat *c = read_chat(path);
        assert_non_null(c);
        const char *id = strstr(e->d_name, "Kimi") ? "functions.look:0" : "abcDEF123";
        int r = comes_back(c, e->d_name, id, "\"\"");
        if (r < 0) r = comes_back(c, e->d_name, id, "null");
        if (getenv("PITH_TEST_TELL")) print_message("%s: %d\n", e->d_name, r);
        good += r == 1;
        bad += r == 0;
        pith_chat_close(c);
    }
    closedir(dir);
    assert_int_equal(bad, 0);
    assert_true(good >= 33);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),           cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_nothing_lost),      cmocka_unit_test(test_ids),
        cmocka_unit_test(test_calls_without_end), cmocka_unit_test(test_templates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
