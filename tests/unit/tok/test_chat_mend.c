/* tok/chat/mend: what agents send is written by templates that cannot take it as it stands, and
 * nothing is left out: tools, calls, results, system messages. Text that a template makes by itself
 * stays as it is. */
#include "test.h"

#include "base/mem.h"
#include "base/str.h"
#include "tok/chat/chat.h"
#include "tok/reply/reply.h"

#include <dirent.h>

#define EACH(body) "{% for m in messages %}" body "{% endfor %}"
#define CALLS(arguments)                                                                           \
    "{% for t in m.tool_calls or [] %}!{{ t.function.name }}{{ " arguments " }}{% endfor %}"

/* A line break behind a statement is none. */
#define END "{{ '\n' }}"

/* Content is added to text; nothing else is known. */
static const char plain[] = EACH("{{ m['role'] + ':' + m['content'] + '\n' }}");
/* Calls and tools are known, content is added to text. */
static const char knows[] =
    "{% if tools %}{{ tools | tojson }}{{ '\n' }}{% endif %}" EACH(
        "{{ m.role + ':' + m.content }}" CALLS("t.function.arguments | tojson") END);
/* Calls are seen where content is null alone, as texts. */
static const char only_null[] =
    "{% if tools %}{{ tools | tojson }}{{ '\n' }}{% endif %}" EACH(
        "{{ m.role }}:{% if m.content is none %}"
        "{% for t in m.tool_calls %}!{{ t.function.name + t.function.arguments }}{% endfor %}"
        "{% else %}{{ m.content + '' }}{% endif %}" END);
/* What is missing is printed as nothing by the template itself. */
static const char lax[] = "{% if tools %}{{ tools | tojson }}{{ '\n' }}{% endif %}" EACH(
    "{{ m.role }}:{{ m.content }}" CALLS("t.function.arguments | tojson") END);
static const char alternate[] =
    EACH("{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
         "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles') }}"
         "{% endif %}{{ m.role + ':' + m.content + '\n' }}");
static const char one_call[] =
    "{% if tools %}{{ tools | tojson }}{{ '\n' }}{% endif %}" EACH(
        "{% if m.tool_calls and m.tool_calls | length > 1 %}{{ raise_exception('one') }}{% endif %}"
        "{{ m.role }}:{{ m.content }}" CALLS("t.function.arguments | tojson") END);
static const char first_call[] =
    "{% if tools %}{{ tools | tojson }}{{ '\n' }}{% endif %}" EACH(
        "{{ m.role }}:{{ m.content }}{% if m.tool_calls %}!{{ m.tool_calls[0].function.name }}"
        "{{ m.tool_calls[0].function.arguments | tojson }}{% endif %}" END);
static const char nine[] =
    "{% if tools %}{{ tools | tojson }}{{ '\n' }}{% endif %}" EACH(
        "{% for t in m.tool_calls or [] %}{% if t.id | length != 9 %}{{ raise_exception('ids') }}"
        "{% endif %}!{{ t.function.name }}{{ t.function.arguments | tojson }}{% endfor %}"
        "{{ m.role }}:{{ m.content }}" END);
static const char parts[] =
    EACH("{{ m.role }}:{% for p in m.content %}{{ p.text }}{% endfor %}" END);
static const char strings[] =
    EACH("{{ m.role }}:{% if m.content is string %}{{ m.content }}{% endif %}" END);
static const char filled[] =
    EACH("{% if not m.content and not m.tool_calls %}{{ raise_exception('empty') }}{% endif %}"
         "{{ m.role + ':' + m.content + '\n' }}");
static const char described_tool[] =
    "{% for t in tools %}{{ t.function.name + t.function.description }}{{ '\n' }}{% endfor %}" EACH(
        "{{ m.role }}:{{ m.content }}" CALLS("t.function.arguments | tojson") END);
static const char other_variable[] =
    "{% if xml_tools %}{{ xml_tools | tojson }}{{ '\n' }}{% endif %}" EACH(
        "{{ m.role }}:{{ m.content }}" CALLS("t.function.arguments | tojson") END);
static const char bare[] = "{% for t in tools or [] %}{{ t.name }}{{ '\n' }}{% endfor %}" EACH(
    "{{ m.role }}:{{ m.content }}" END);
static const char developers[] =
    EACH("{% if m.role == 'developer' %}D{{ m.content }}{% else %}{{ m.role + m.content }}"
         "{% endif %}" END);
static const char last_system[] =
    "{% if messages[0].role == 'system' %}S{{ messages[0].content + '\n' }}{% endif %}" EACH(
        "{% if m.role != 'system' %}{{ m.role + ':' + m.content + '\n' }}{% endif %}");

#define USER "{\"role\": \"user\", \"content\": \"hi\"}"
#define SYSTEM "{\"role\": \"system\", \"content\": \"be\"}"
#define ONE(id, name)                                                                              \
    "{\"id\": \"" id "\", \"type\": \"function\", \"function\": {\"name\": \"" name                \
    "\", \"arguments\": {\"a\": 1}}}"
#define CALLING(content)                                                                           \
    "{\"role\": \"assistant\"" content ", \"tool_calls\": [" ONE("c1", "f") "]}"
#define RESULT(id, text)                                                                           \
    "{\"role\": \"tool\", \"tool_call_id\": \"" id "\", \"content\": \"" text "\"}"
#define TOOL                                                                                       \
    "{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": "         \
    "\"object\", \"properties\": {}}}}"
#define MESSAGES(list) "{\"messages\": [" list "]}"
#define TOOLS(list) "{\"messages\": [" list "], \"tools\": [" TOOL "]}"
#define NULL_CONTENT ", \"content\": null"
#define DESCRIPTION                                                                                \
    "# Tools\n\nYou can call these functions:\n\n{\"name\": \"f\", \"parameters\": "               \
    "{\"type\": \"object\", \"properties\": {}}}\n\nTo call one, write\n\n"                        \
    "<tool_call>\n{\"name\": \"NAME\", \"arguments\": {\"KEY\": \"VALUE\"}}\n"                     \
    "</tool_call>\n\nfor each call, and end your answer there. Results come "                      \
    "between <tool_response> and </tool_response>."
#define SAID_CALL "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>"
#define SAID_RESULT(text) "<tool_response>\n" text "\n</tool_response>"

static const struct {
    const char *template, *conversation, *text; /* NULL: the template's own failure stays */
} cases[] = {
    /* content that is null or missing, with calls and without */
    {plain, MESSAGES(USER ", {\"role\": \"assistant\", \"content\": null}"),
     "user:hi\nassistant:\n"},
    {plain, MESSAGES(USER ", {\"role\": \"assistant\"}, " USER), "user:hi\nassistant:\nuser:hi\n"},
    {knows, MESSAGES(USER ", " CALLING(NULL_CONTENT) ", " RESULT("c1", "ok")),
     "user:hi\nassistant:!f{\"a\": 1}\ntool:ok\n"},
    {knows, MESSAGES(USER ", " CALLING("") ", " RESULT("c1", "ok")),
     "user:hi\nassistant:!f{\"a\": 1}\ntool:ok\n"},
    {only_null, MESSAGES(USER ", " CALLING("")), "user:hi\nassistant:!f{\"a\": 1}\n"},
    {only_null, MESSAGES(USER ", " CALLING(", \"content\": \"\"")),
     "user:hi\nassistant:!f{\"a\": 1}\n"},
    {only_null, MESSAGES(USER ", " CALLING(", \"content\": \"so\"")),
     "user:hi\nassistant:so\n" SAID_CALL "\n"},
    {lax, MESSAGES(USER ", " CALLING("") ", {\"role\": \"assistant\"}"),
     "user:hi\nassistant:!f{\"a\": 1}\nassistant:\n"},
    {filled, MESSAGES(USER ", {\"role\": \"assistant\", \"content\": \"\"}, " USER),
     "user:hi\nuser:hi\n"},
    /* calls and results that it does not know */
    {plain, MESSAGES(USER ", " CALLING(NULL_CONTENT) ", " RESULT("c1", "ok")),
     "user:hi\nassistant:" SAID_CALL "\ntool:ok\n"},
    {alternate,
     MESSAGES(USER ", " CALLING("") ", " RESULT("c1", "ok") ", " RESULT("c2", "no") ", " USER),
     "user:hi\nassistant:" SAID_CALL "\nuser:" SAID_RESULT("ok") "\n" SAID_RESULT(
         "no") "\n\nhi\n"},
    {one_call,
     MESSAGES(USER ", {\"role\": \"assistant\", \"tool_calls\": [" ONE("c1", "f") ", " ONE(
         "c2", "g") "]}, " RESULT("c2", "two") ", " RESULT("c1", "one")),
     "user:hi\nassistant:!f{\"a\": 1}\ntool:one\nassistant:!g{\"a\": 1}\ntool:two\n"},
    {first_call,
     MESSAGES(USER ", {\"role\": \"assistant\", \"tool_calls\": [" ONE("c1", "f") ", " ONE(
         "c2", "g") "]}, " RESULT("c1", "one") ", " RESULT("c2", "two")),
     "user:hi\nassistant:!f{\"a\": 1}\ntool:one\nassistant:!g{\"a\": 1}\ntool:two\n"},
    {nine, MESSAGES(USER ", " CALLING("") ", " RESULT("c1", "ok")),
     "user:hi\n!f{\"a\": 1}assistant:\ntool:ok\n"},
    /* tools that it does not know */
    {plain, TOOLS(USER), "system:" DESCRIPTION "\nuser:hi\n"},
    {plain, TOOLS(SYSTEM ", " USER), "system:be\n\n" DESCRIPTION "\nuser:hi\n"},
    {alternate, TOOLS(SYSTEM ", " USER), "user:be\n\n" DESCRIPTION "\n\nhi\n"},
    {plain, TOOLS(USER ", " CALLING(", \"content\": \"so\"") ", " RESULT("c1", "ok")),
     "system:" DESCRIPTION "\nuser:hi\nassistant:so\n" SAID_CALL "\nuser:" SAID_RESULT("ok") "\n"},
    {lax, TOOLS(USER), "[" TOOL "]\nuser:hi\n"},
    {other_variable, TOOLS(USER), "[" TOOL "]\nuser:hi\n"},
    {bare, TOOLS(USER), "f\nuser:hi\n"},
    {described_tool, TOOLS(USER), "f\nuser:hi\n"},
    {described_tool, MESSAGES(USER), "user:hi\n"},
    /* roles */
    {plain, MESSAGES("{\"role\": \"developer\", \"content\": \"be\"}, " USER),
     "system:be\nuser:hi\n"},
    {developers, MESSAGES("{\"role\": \"developer\", \"content\": \"be\"}, " USER),
     "Dbe\nuserhi\n"},
    {plain, MESSAGES(USER ", {\"role\": \"function\", \"name\": \"f\", \"content\": \"ok\"}"),
     "user:hi\ntool:ok\n"},
    {alternate, MESSAGES(SYSTEM ", " USER), "user:be\n\nhi\n"},
    {alternate, MESSAGES(USER ", " USER), "user:hi\n\nhi\n"},
    {last_system, MESSAGES(SYSTEM ", " USER ", " SYSTEM), "Sbe\nuser:hi\nuser:be\n"},
    /* parts */
    {plain,
     MESSAGES("{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, "
              "{\"type\": \"text\", \"text\": \"b\"}]}"),
     "user:a\nb\n"},
    {strings,
     MESSAGES("{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}]}"),
     "user:a\n"},
    {parts, MESSAGES(USER), "user:hi\n"},
    /* nothing helps */
    {alternate, MESSAGES("{\"role\": \"assistant\", \"content\": \"a\"}"), NULL},
};

static struct pith_chat *read_template(const char *text)
{
    struct pith_error err = {0};
    struct pith_chat *c = NULL;
    assert_ok(pith_chat_from(text, strlen(text), NULL, &c, &err), err);
    return c;
}

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pith_error err = {0};
        struct pith_rendered out = {0};
        struct pith_chat *c = read_template(cases[i].template);
        json_t *j = json_loads(cases[i].conversation, 0, NULL);
        assert_non_null(j);
        const enum pith_status s = pith_chat_render(c, j, 1, &out, &err);
        if (cases[i].text && (s != PITH_OK || strcmp(out.text, cases[i].text) != 0))
            fail_msg("case %zu: '%s' is\n%s%s\nnot\n%s", i, cases[i].conversation,
                     out.text ? out.text : "", err.text, cases[i].text);
        if (!cases[i].text) {
            assert_int_equal(s, PITH_FORMAT);
            assert_non_null(strstr(err.text, "roles"));
        }
        pith_rendered_free(&out);
        json_decref(j);
        pith_chat_close(c);
    }
}

/* A number of more digits than a type holds is an object to those who do not look twice. */
static void test_digits(void **state)
{
    (void)state;
    static const char given[] =
        "[{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": \"f\","
        " \"arguments\": 66666666666666666666666666666666}}]}]";
    struct pith_error err = {0};
    struct pith_rendered out = {0};
    struct pith_chat *c = read_template("{{ messages[0].nobody.has }}");
    json_t *j = NULL;
    assert_ok(pith_json_parse(given, sizeof given - 1, "given", &j, &err), err);
    assert_int_equal(pith_chat_render(c, j, 1, &out, &err), PITH_FORMAT);
    pith_rendered_free(&out);
    json_decref(j);
    pith_chat_close(c);
}

static void test_roles(void **state)
{
    (void)state;
    static const struct {
        const char *conversation, *says; /* NULL: its roles are good */
    } rows[] = {
        {"[{\"role\": \"critic\"}, {\"role\": \"tool\"}]", NULL},
        {"[{\"content\": \"a\"}, {\"role\": null}, {\"role\": 1}]", NULL},
        {"{\"messages\": [{\"role\": \"foo\"}]}", "messages[0]: there is no role 'foo'; "},
        {"[{\"role\": \"user\"}, {\"role\": \"\"}]", "messages[1]: there is no role ''; "},
        {"[{\"role\": \"crit\"}]", "messages[0]: there is no role 'crit'; "},
    };
    struct pith_chat *c = read_template("{% if m.role == 'critic' or m.role == '' %}{% endif %}");
    for (size_t i = 0; i < PITH_COUNT(rows); i++) {
        struct pith_error err = {0};
        json_t *given = json_loads(rows[i].conversation, 0, NULL);
        const enum pith_status s = pith_chat_roles(c, given, &err);
        assert_int_equal(s, rows[i].says ? PITH_FORMAT : PITH_OK);
        assert_non_null(strstr(err.text, rows[i].says ? rows[i].says : ""));
        json_decref(given);
    }
    pith_chat_close(c);
}

static void test_form(void **state)
{
    (void)state;
    const struct {
        const char *template, *form;
    } rows[] = {{plain, "described"},
                {lax, "plain"},
                {"{{ tools | tojson }}<tool_call></tool_call>{{ messages }}", "hermes"},
                {"<tool_call></tool_call>{{ messages }}", "described"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pith_error err = {0};
        struct pith_reply_format *f = NULL;
        struct pith_chat *c = read_template(rows[i].template);
        assert_ok(pith_reply_format_of_chat(c, &f, &err), err);
        assert_string_equal(pith_reply_format_row(f), rows[i].form);
        pith_reply_format_free(f);
        pith_chat_close(c);
    }
}

/* ---- the templates of model families, where they are there ---- */

#define FAMILY_TOOL                                                                                \
    "{\"type\": \"function\", \"function\": {\"name\": \"look_up\", \"parameters\": {\"type\": "   \
    "\"object\", \"properties\": {\"city\": {\"type\": \"string\"}}}}}"
#define FAMILY_CALL(content)                                                                       \
    USER ", {\"role\": \"assistant\"" content                                                      \
         ", \"tool_calls\": [{\"id\": \"call_a\", \"type\": \"function\", \"function\": "          \
         "{\"name\": \"look_up\", \"arguments\": {\"city\": \"Rome\"}}}]}, " RESULT("call_a",      \
                                                                                    "nineteen")

static const struct {
    const char *conversation, *words[3]; /* that must be in the text */
} sent[] = {
    {"{\"messages\": [" USER "], \"tools\": [" FAMILY_TOOL "]}", {"look_up", "city", "hi"}},
    {MESSAGES(SYSTEM ", " USER), {"be", "hi"}},
    {MESSAGES("{\"role\": \"developer\", \"content\": \"briefly\"}, " USER), {"briefly", "hi"}},
    {MESSAGES(USER ", {\"role\": \"assistant\", \"content\": null}, " USER), {"hi"}},
    {MESSAGES(USER ", {\"role\": \"assistant\"}, " USER), {"hi"}},
    {MESSAGES(FAMILY_CALL("")), {"look_up", "Rome", "nineteen"}},
    {MESSAGES(FAMILY_CALL(NULL_CONTENT)), {"look_up", "Rome", "nineteen"}},
    {MESSAGES(FAMILY_CALL(", \"content\": \"\"")), {"look_up", "Rome", "nineteen"}},
    {MESSAGES(FAMILY_CALL(NULL_CONTENT) ", " USER), {"look_up", "Rome", "nineteen"}},
    {"{\"messages\": [" FAMILY_CALL(NULL_CONTENT) "], \"tools\": [" FAMILY_TOOL "]}",
     {"look_up", "Rome", "nineteen"}},
    {"{\"messages\": [" SYSTEM ", " FAMILY_CALL("") "], \"tools\": [" FAMILY_TOOL "]}",
     {"look_up", "Rome", "nineteen"}},
};

static size_t check_family(const char *path, const char *name)
{
    static char text[1 << 20];
    struct pith_chat *c = NULL;
    struct pith_error err = {0};
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t size = fread(text, 1, sizeof text, f);
    fclose(f);
    json_t *own = json_pack("{s:s, s:s}", "bos_token", "<s>", "eos_token", "</s>");
    assert_ok(pith_chat_from(text, size, own, &c, &err), err);
    json_decref(own);
    for (size_t i = 0; i < sizeof sent / sizeof sent[0]; i++) {
        struct pith_rendered out = {0};
        json_t *j = json_loads(sent[i].conversation, 0, NULL);
        assert_non_null(j);
        json_object_set_new(j, "add_generation_prompt", json_true());
        if (pith_chat_render(c, j, 1753700000, &out, &err) != PITH_OK)
            fail_msg("%s: %s: %s", name, sent[i].conversation, err.text);
        for (size_t k = 0; k < 3 && sent[i].words[k]; k++)
            if (!strstr(out.text, sent[i].words[k]))
                fail_msg("%s: %s: no '%s' in\n%s", name, sent[i].conversation, sent[i].words[k],
                         out.text);
        if (strstr(out.text, "None") && !strstr(text, "None"))
            fail_msg("%s: %s: None in\n%s", name, sent[i].conversation, out.text);
        pith_rendered_free(&out);
        json_decref(j);
    }
    pith_chat_close(c);
    return sizeof sent / sizeof sent[0];
}

static void test_families(void **state)
{
    (void)state;
    char path[1024];
    size_t rendered = 0;
    snprintf(path, sizeof path, "%s/templates", test_data_dir());
    DIR *dir = opendir(path);
    if (!dir) skip();
    const struct dirent *e;
    while ((e = readdir(dir)) != NULL) {
        if (!strstr(e->d_name, ".jinja")) continue;
        snprintf(path, sizeof path, "%s/templates/%s", test_data_dir(), e->d_name);
        rendered += check_family(path, e->d_name);
    }
    closedir(dir);
    assert_true(rendered >= 54 * sizeof sent / sizeof sent[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_digits),
        cmocka_unit_test(test_roles),
        cmocka_unit_test(test_form),
        cmocka_unit_test(test_families),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
