/* Streams of events and what is in them: src/traffic/sse.c, chunk.c. */
#include "tests/test.h"
#include "traffic/chunk.h"
#include "traffic/sse.h"

/* What came, as text: "[data]" an event, "!" before one named error. */
static enum pith_status note(void *ctx, const struct pith_sse_event *e, struct pith_error *err)
{
    struct pith_str *s = ctx;
    if (e->size == 4 && memcmp(e->data, "stop", 4) == 0)
        return pith_fail(err, PITH_MISMATCH, "stopped");
    pith_str_puts(s, e->error ? "![" : "[");
    pith_str_append(s, e->data, e->size);
    pith_str_putc(s, ']');
    return PITH_OK;
}

/* Pushes a stream in pieces: up to `cut`, then one of `piece` bytes after the other. */
static char *read_cut(const char *text, size_t size, size_t cut, size_t piece)
{
    struct pith_str told = {0};
    struct pith_sse s = {.take = note, .ctx = &told};
    struct pith_error err = {0};
    if (cut > 0) assert_ok(pith_sse_push(&s, text, cut, &err), err);
    for (size_t at = cut; at < size; at += piece) {
        const size_t n = size - at < piece ? size - at : piece;
        char *copy = malloc(n); /* of exactly its size: a step too far is seen */
        memcpy(copy, text + at, n);
        assert_ok(pith_sse_push(&s, copy, n, &err), err);
        free(copy);
    }
    assert_ok(pith_sse_end(&s, &err), err);
    pith_sse_free(&s);
    char *out = strdup(pith_str_text(&told));
    pith_str_free(&told);
    return out;
}

static const struct {
    const char *stream, *told;
} streams[] = {
    {"data: a\n\ndata: b\n\n", "[a][b]"},
    {"data: a\r\n\r\ndata:b\r\n\r\n", "[a][b]"},
    {"data: a\r\rdata:  b\r\r", "[a][ b]"},
    {"\xef\xbb\xbf"
     "data: a\n\n",
     "[a]"},
    {"data: a\ndata: b\ndata\ndata: c\n\n", "[a\nb\n\nc]"},
    {": ping\n\n:\ndata: a\n: more\n\n\n\n", "[a]"},
    {"event: error\ndata: {}\n\ndata: b\n\n", "![{}][b]"},
    {"error: {\"code\":500}\n\n", "![{\"code\":500}]"},
    {"id: 7\nretry: 10\nevent: x\ndata: a\n\nevent: y\n\n", "[a]"},
    {"data: a\n\ndata: unfinished", "[a][unfinished]"},
    {"data: a\n\ndata: unfinished\n", "[a][unfinished]"},
    {"data:\n\n", "[]"},
    {"nonsense\n\nx: y\n\n\n", ""},
    {"", ""},
    {"\r\n\n\r\r\n", ""},
    {"dataa: x\ndat: y\nDATA: z\n\n", ""},
};

/* However a stream is cut in two, or into bytes, the same comes out. */
static void events_do_not_depend_on_cuts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {
        const char *text = streams[i].stream;
        const size_t size = strlen(text);
        for (size_t cut = 0; cut <= size; cut++)
            for (size_t piece = 1; piece <= 3; piece += 2) {
                char *got = read_cut(text, size, cut, piece == 1 && cut ? size + 1 : piece);
                if (strcmp(got, streams[i].told) != 0)
                    fail_msg("stream %zu cut at %zu: %s", i, cut, got);
                free(got);
            }
    }
}

static void a_stream_may_hold_any_byte(void **state)
{
    (void)state;
    char *got = read_cut("data: a\0b\n\n", 11, 0, 1);
    assert_memory_equal(got, "[a", 3); /* as far as strdup() goes */
    free(got);
}

static void an_event_has_an_end(void **state)
{
    (void)state;
    struct pith_str told = {0};
    struct pith_sse s = {.take = note, .ctx = &told};
    struct pith_error err = {0};
    char line[4096];
    enum pith_status status = PITH_OK;
    size_t bytes = 0;
    memset(line, 'x', sizeof line);
    memcpy(line, "data: ", 6);
    for (; status == PITH_OK && bytes < (size_t)2 * PITH_SSE_MOST; bytes += sizeof line)
        status = pith_sse_push(&s, line, sizeof line, &err);
    assert_int_equal(status, PITH_FORMAT);
    assert_true(bytes <= PITH_SSE_MOST + 2 * sizeof line);
    pith_sse_reset(&s);
    /* The same in many lines. */
    line[sizeof line - 1] = '\n';
    for (status = PITH_OK, bytes = 0; status == PITH_OK && bytes < (size_t)2 * PITH_SSE_MOST;
         bytes += sizeof line)
        status = pith_sse_push(&s, line, sizeof line, &err);
    assert_int_equal(status, PITH_FORMAT);
    pith_sse_reset(&s);
    err = (struct pith_error){0};
    assert_ok(pith_sse_push(&s, "data: after\n\n", 13, &err), err);
    assert_string_equal(pith_str_text(&told), "[after]");
    assert_int_equal(pith_sse_push(&s, "data: stop\n\ndata: x\n\n", 21, &err), PITH_MISMATCH);
    pith_sse_free(&s);
    pith_str_free(&told);
}

/* --- what an event says ------------------------------------------------------------------------
 */

static const struct {
    const char *json;
    bool token, text, finished;
    int prompt, answer, cached;
    const char *error;
} chunks[] = {
    {"{\"choices\":[{\"text\":\"a\",\"finish_reason\":null}]}", true, true, false, -1, -1, -1, ""},
    {"{\"choices\":[{\"text\":\"\",\"finish_reason\":null}]}", true, false, false, -1, -1, -1, ""},
    {"{\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}", false, false, true, -1, -1, -1,
     ""},
    {"{\"choices\":[{\"text\":\"z\",\"finish_reason\":\"stop\"}]}", true, true, true, -1, -1, -1,
     ""},
    {"{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}", false, false, false,
     -1, -1, -1, ""},
    {"{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":null}}]}", false, false, false,
     -1, -1, -1, ""},
    {"{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"x\"}}]}", true, true, false,
     -1, -1, -1, ""},
    {"{\"choices\":[{\"delta\":{\"content\":\"\"}}]}", true, false, false, -1, -1, -1, ""},
    {"{\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}", true, true, false, -1, -1, -1,
     ""},
    {"{\"choices\":[{\"delta\":{\"reasoning\":\"hm\"}}]}", true, true, false, -1, -1, -1, ""},
    {"{\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"arguments\":\"{\"}}]}}]}", true,
     true, false, -1, -1, -1, ""},
    {"{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":null}", false, false, true,
     -1, -1, -1, ""},
    {"{\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":7,"
     "\"prompt_tokens_details\":{\"cached_tokens\":3}}}",
     false, false, false, 5, 7, 3, ""},
    {"{\"usage\":{\"prompt_tokens\":-5,\"completion_tokens\":\"7\"}}", false, false, false, -1, -1,
     -1, ""},
    {"{\"error\":{\"message\":\"no\",\"code\":500}}", false, false, false, -1, -1, -1, "no"},
    {"{\"error\":\"no\"}", false, false, false, -1, -1, -1, "no"},
    {"{\"error\":{}}", false, false, false, -1, -1, -1, "an error without a message"},
    {"{\"error\":null}", false, false, false, -1, -1, -1, ""},
    {"{\"object\":\"error\",\"message\":\"old\"}", false, false, false, -1, -1, -1, "old"},
    {"{\"choices\":7}", false, false, false, -1, -1, -1, ""},
    {"{\"choices\":[7,null,[],{\"text\":7,\"delta\":[]}]}", false, false, false, -1, -1, -1, ""},
    {"{}", false, false, false, -1, -1, -1, ""},
};

static void chunks_are_told_apart(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        struct pith_chunk c;
        struct pith_error err = {0};
        assert_ok(pith_chunk_read(chunks[i].json, strlen(chunks[i].json), &c, &err), err);
        const bool same = c.token == chunks[i].token && c.text == chunks[i].text &&
                          c.finished == chunks[i].finished && !c.done &&
                          c.used.prompt == chunks[i].prompt && c.used.answer == chunks[i].answer &&
                          c.used.cached == chunks[i].cached &&
                          strcmp(c.error, chunks[i].error) == 0;
        if (!same)
            fail_msg("%s: token %d, text %d, finished %d, usage %d %d %d, error %s", chunks[i].json,
                     c.token, c.text, c.finished, (int)c.used.prompt, (int)c.used.answer,
                     (int)c.used.cached, c.error);
    }
}

static void what_is_no_object_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "[", "7", "[]", "{\"a\":}", "<html>", "[DONE", "null"};
    struct pith_chunk c;
    struct pith_error err = {0};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct pith_error why = {0};
        assert_int_equal(pith_chunk_read(bad[i], strlen(bad[i]), &c, &why), PITH_FORMAT);
    }
    assert_ok(pith_chunk_read("[DONE]", 6, &c, &err), err);
    assert_true(c.done);
    assert_ok(pith_chunk_read("[DONE] \n", 8, &c, &err), err);
    assert_true(c.done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_do_not_depend_on_cuts),
        cmocka_unit_test(a_stream_may_hold_any_byte),
        cmocka_unit_test(an_event_has_an_end),
        cmocka_unit_test(chunks_are_told_apart),
        cmocka_unit_test(what_is_no_object_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
