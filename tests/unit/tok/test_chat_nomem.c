/* tok/chat: whichever request for memory fails, opening a template and rendering a conversation
 * that is changed for it say so and leak nothing; they never give another text. */
#include "requests.h"

#include "base/mem.h"
#include "test.h"
#include "tok/chat/chat.h"

#define EACH(body) "{% for m in messages %}" body "{% endfor %}"

static const struct {
    const char *template, *conversation;
} cases[] = {
    {EACH("{{ m.role + ':' + m.content }}"),
     "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
     "\"tool_calls\": [{\"id\": \"c\", \"function\": {\"name\": \"f\", \"arguments\": {}}}]}, "
     "{\"role\": \"tool\", \"content\": \"b\"}, {\"role\": \"tool\", \"content\": \"c\"}], "
     "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]}"},
    {"{{ tools | tojson }}" EACH(
         "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles') }}"
         "{% endif %}{% for t in m.tool_calls or [] %}{{ t.function.name + t.function.arguments }}"
         "{% if t.id | length != 9 %}{{ raise_exception('ids') }}{% endif %}{% endfor %}"
         "{{ m.role + ':' + m.content }}"),
     "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", "
     "\"content\": [{\"type\": \"text\", \"text\": \"a\"}]}, {\"role\": \"assistant\", "
     "\"tool_calls\": [{\"id\": \"c\", \"function\": {\"name\": \"f\", \"arguments\": {}}}, "
     "{\"id\": \"d\", \"function\": {\"name\": \"g\", \"arguments\": {}}}]}, {\"role\": \"tool\", "
     "\"tool_call_id\": \"d\", \"content\": \"b\"}]}"},
};

struct job {
    size_t number;
    char whole[1024]; /* with all memory */
};

static enum pith_status run(void *ctx, struct pith_error *err)
{
    struct job *j = ctx;
    struct pith_chat *c = NULL;
    struct pith_rendered out = {0};
    const char *text = cases[j->number].template;
    PITH_TRY(pith_chat_from(text, strlen(text), NULL, &c, err));
    json_t *given = json_loads(cases[j->number].conversation, 0, NULL);
    enum pith_status s = given ? pith_chat_render(c, given, 1, &out, err) : PITH_NOMEM;
    json_decref(given);
    if (s == PITH_OK && !j->whole[0]) snprintf(j->whole, sizeof j->whole, "%s", out.text);
    if (s == PITH_OK) assert_string_equal(out.text, j->whole);
    pith_rendered_free(&out);
    pith_chat_close(c);
    return s;
}

static void every_request_may_fail(void **state)
{
    (void)state;
    need_requests();
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct job j = {.number = i};
        try_each_request(run, &j, false);
        assert_true(j.whole[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
