/* tok/jinja: templates render as jinja2 does in the environment of transformers, on the values that
 * tests/golden/chat/make_chat.py made: small templates of a feature or two each, and those that
 * model families ship, over many conversations, where they are. */
#include "test.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "tok/jinja/jinja.h"

#include <time.h>

#define GOLDEN "tests/golden/chat/"

static json_t *load(const char *path)
{
    struct pith_error err = {0};
    json_t *j = NULL;
    assert_ok(pith_json_load(path, (size_t)16 << 20, &j, &err), err);
    return j;
}

static enum pith_status render(const char *text, size_t size, const struct pith_jinja_input *in,
                               struct pith_rendered *out, struct pith_error *err)
{
    struct pith_jinja *t = NULL;
    enum pith_status s = pith_jinja_new(text, size, &t, err);
    if (s == PITH_OK) s = pith_jinja_render(t, in, out, err);
    pith_jinja_free(t);
    return s;
}

/* What a message says behind "line N: ". */
static const char *said(const struct pith_error *err)
{
    const char *colon = strstr(err->text, ": ");
    return strncmp(err->text, "line ", 5) == 0 && colon ? colon + 2 : "";
}

static bool as_told(const json_t *c, enum pith_status s, const struct pith_rendered *r,
                    const struct pith_error *err)
{
    const json_t *text = json_object_get(c, "text"), *syntax = json_object_get(c, "syntax");
    if (text)
        return s == PITH_OK && r->size == json_string_length(text) &&
               memcmp(r->text, json_string_value(text), r->size) == 0;
    if (syntax) return s == PITH_FORMAT && atoi(err->text + 5) == json_integer_value(syntax);
    return s == PITH_FORMAT &&
           strcmp(said(err), json_string_value(json_object_get(c, "error"))) == 0;
}

static void test_small(void **state)
{
    (void)state;
    json_t *golden = load(GOLDEN "small.json");
    const json_t *cases = json_object_get(golden, "cases");
    const struct pith_jinja_input in = {.given = json_object_get(golden, "variables"),
                                        .now = json_integer_value(json_object_get(golden, "now"))};
    size_t wrong = 0;
    assert_true(json_array_size(cases) > 150);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i), *t = json_object_get(c, "template");
        struct pith_rendered r = {0};
        struct pith_error err = {0};
        const enum pith_status s =
            render(json_string_value(t), json_string_length(t), &in, &r, &err);
        if (!as_told(c, s, &r, &err)) {
            print_message("%s\n  gives \"%s\"\n", json_string_value(t), s ? err.text : r.text);
            wrong++;
        }
        pith_rendered_free(&r);
    }
    json_decref(golden);
    assert_int_equal(wrong, 0);
}

static bool family_as_told(const char *told, enum pith_status s, const struct pith_rendered *r,
                           const struct pith_error *err)
{
    char digest[PITH_SHA256_HEX];
    if (*told == '!') return s != PITH_OK && strcmp(said(err), told + 2) == 0;
    if (s != PITH_OK) return false;
    pith_sha256_hex(r->text, r->size, digest);
    return strncmp(digest, told, 16) == 0;
}

/* One file over all conversations: how many came out otherwise. */
static size_t check_family(const char *path, const json_t *golden, const json_t *told)
{
    const json_t *conversations = json_object_get(golden, "conversations");
    struct pith_error err = {0};
    char *text;
    size_t size, wrong = 0, at = 0;
    const char *name;
    json_t *conversation;
    assert_ok(pith_file_read(path, (size_t)4 << 20, &text, &size, &err), err);
    json_object_foreach ((json_t *)(uintptr_t)conversations, name, conversation) {
        json_t *given = json_loads(json_string_value(conversation), 0, NULL);
        const struct pith_jinja_input in = {
            .given = given, .now = json_integer_value(json_object_get(golden, "now"))};
        struct pith_rendered r = {0};
        err = (struct pith_error){0};
        const enum pith_status s = render(text, size, &in, &r, &err);
        if (!family_as_told(json_string_value(json_array_get(told, at++)), s, &r, &err)) {
            print_message("%s, conversation %s: \"%s\"\n", path, name, s ? err.text : r.text);
            wrong++;
        }
        pith_rendered_free(&r);
        json_decref(given);
    }
    pith_free(text);
    return wrong;
}

static void test_families(void **state)
{
    (void)state;
    char path[1024];
    snprintf(path, sizeof path, "%s/templates", test_data_dir());
    if (!pith_path_is_dir(path)) skip();
    json_t *golden = load(GOLDEN "families.json"), *told;
    size_t wrong = 0, count = 0;
    const char *name;
    json_object_foreach (json_object_get(golden, "templates"), name, told) {
        snprintf(path, sizeof path, "%s/templates/%s", test_data_dir(), name);
        wrong += check_family(path, golden, told);
        count++;
    }
    json_decref(golden);
    assert_int_equal(wrong, 0);
    assert_true(count >= 54);
}

/* ---- bounds ---- */

static void ends_in(const char *template, enum pith_status status, const char *why)
{
    struct pith_rendered r = {0};
    struct pith_error err = {0};
    const clock_t start = clock();
    const enum pith_status s =
        render(template, strlen(template), &(struct pith_jinja_input){0}, &r, &err);
    if (s != status || !strstr(err.text, why))
        fail_msg("%.80s: status %d: %s", template, (int)s, err.text);
    /* Seconds even where a sanitizer slows it down. */
    assert_true((clock() - start) / CLOCKS_PER_SEC < 60);
}

static void test_bounds(void **state)
{
    (void)state;
    ends_in("{{ range(10**9) }}", PITH_FORMAT, "Range too big");
    ends_in("{% set l = [1] %}{% for i in range(99999) %}{% for j in range(99999) %}"
            "{% endfor %}{% endfor %}",
            PITH_LIMIT, "");
    ends_in("{% set l = [1] %}{% for i in range(99) %}{% set _ = l.extend(l) %}{% endfor %}",
            PITH_LIMIT, "");
    ends_in("{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(99) %}"
            "{% set ns.s = ns.s + ns.s %}{% endfor %}",
            PITH_LIMIT, "MiB");
    ends_in("{{ 'x' * 10**15 }}", PITH_LIMIT, "");
    ends_in("{{ [1] * 10**15 }}", PITH_LIMIT, "");
    ends_in("{{ 'x'.ljust(10**15) }}", PITH_LIMIT, "");
    ends_in("{{ 'x'|center(10**15) }}", PITH_LIMIT, "");
    ends_in("{% for i in range(99999) %}{% for i in range(99) %}{{ 'x' * 9999 }}{% endfor %}"
            "{% endfor %}",
            PITH_LIMIT, "");
    ends_in("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", PITH_LIMIT, "recursion");
    ends_in("{% set l = [] %}{% set _ = l.append(l) %}{{ l }}", PITH_LIMIT, "recursion");
    ends_in("{% set l = [] %}{% set _ = l.append(l) %}{{ l|tojson }}", PITH_LIMIT, "recursion");
    ends_in("{% set l = [] %}{% set _ = l.append(l) %}{% set k = [] %}{% set _ = k.append(k) %}"
            "{{ l == k }}",
            PITH_LIMIT, "recursion");
    ends_in("{{ 2 ** 70 }}", PITH_FORMAT, "64 bits");
    ends_in("{{ 9223372036854775807 + 1 }}", PITH_FORMAT, "too large");
    ends_in("{% set ns = namespace(a='a' * 100000) %}{% for i in range(9999) %}"
            "{{ (ns.a + 'b').find('a' * 50000 + 'c') }}{% endfor %}",
            PITH_LIMIT, "steps");
}

/* With less memory than a template takes, wherever it runs out, that is said. */
static void test_little_memory(void **state)
{
    (void)state;
    json_t *golden = load(GOLDEN "small.json");
    const json_t *cases = json_object_get(golden, "cases");
    const size_t step = test_thorough() ? 16 : 400;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i), *text = json_object_get(c, "template");
        struct pith_error err = {0};
        struct pith_jinja *t = NULL;
        if (pith_jinja_new(json_string_value(text), json_string_length(text), &t, &err) != PITH_OK)
            continue;
        enum pith_status s = PITH_LIMIT;
        for (size_t memory = 16 + i % step; s == PITH_LIMIT && memory < 1 << 20; memory += step) {
            const struct pith_jinja_input in = {
                .given = json_object_get(golden, "variables"),
                .now = json_integer_value(json_object_get(golden, "now")),
                .memory = memory};
            struct pith_rendered r = {0};
            err = (struct pith_error){0};
            s = pith_jinja_render(t, &in, &r, &err);
            if (s == PITH_LIMIT) assert_non_null(strstr(err.text, "line "));
            else if (!as_told(c, s, &r, &err))
                fail_msg("%s: \"%s\"", json_string_value(text), s ? err.text : r.text);
            pith_rendered_free(&r);
        }
        pith_jinja_free(t);
    }
    json_decref(golden);
}

/* Nested and long source: refused or run, never a crash. */
static void test_nesting(void **state)
{
    (void)state;
    static const char *const part[][3] = {{"{{ ", "(", "1"},      {"{{ ", "[", "1"},
                                          {"{{ ", "not ", "1"},   {"{{ ", "-", "1"},
                                          {"", "{% if 1 %}", ""}, {"{{ 1", "+1", " }}"},
                                          {"{{ a", ".a", " }}"},  {"{{ 1", "|string", " }}"}};
    for (size_t i = 0; i < PITH_COUNT(part); i++) {
        struct pith_str s = {0};
        struct pith_rendered r = {0};
        struct pith_error err = {0};
        pith_str_puts(&s, part[i][0]);
        for (int n = 0; n < 100000; n++) pith_str_puts(&s, part[i][1]);
        pith_str_puts(&s, part[i][2]);
        assert_int_not_equal(render(s.data, s.len, &(struct pith_jinja_input){0}, &r, &err),
                             PITH_OK);
        assert_non_null(strstr(err.text, "line 1: "));
        pith_str_free(&s);
    }
}

/* ---- marks ---- */

/* Renders with {"u": "<us>er", "l": [...], "d": {...}} given and {"own": "OWN"}; what is marked
 * stands between [ and ]. */
static void marks_are(const char *template, const char *wanted)
{
    struct pith_rendered r = {0};
    struct pith_error err = {0};
    struct pith_str shown = {0};
    json_t *given =
        json_pack("{s:s, s:[s,s], s:{s:s}}", "u", "<us>er", "l", "a", "b", "d", "k", "v");
    json_t *own = json_pack("{s:s}", "own", "OWN");
    const struct pith_jinja_input in = {.own = own, .given = given};
    assert_ok(render(template, strlen(template), &in, &r, &err), err);
    for (size_t i = 0; i < r.size; i++) {
        const bool now = r.marks && r.marks[i], before = i && r.marks && r.marks[i - 1];
        if (now != before) pith_str_putc(&shown, now ? '[' : ']');
        pith_str_putc(&shown, r.text[i]);
    }
    if (r.size && r.marks && r.marks[r.size - 1]) pith_str_putc(&shown, ']');
    assert_string_equal(pith_str_text(&shown), wanted);
    pith_str_free(&shown);
    pith_rendered_free(&r);
    json_decref(given);
    json_decref(own);
}

static void test_marks(void **state)
{
    (void)state;
    marks_are("a{{ u }}b{{ own }}", "a[<us>er]bOWN");
    marks_are("{{ '<' + u + '>' }}", "<[<us>er]>");
    marks_are("{{ ('<' ~ u ~ '>')[1:-1] }}", "[<us>er]");
    marks_are("{{ ('ab' + u)[1:4] }}", "b[<u]");
    marks_are("{{ u | upper }}{{ u.title() }}", "[<US>ER<Us>Er]");
    marks_are("{{ (' ' + u + ' ') | trim }}", "[<us>er]");
    marks_are("{{ u.split('>')[0] }}>", "[<us]>");
    marks_are("{{ u.replace('us', 'US') }}", "[<]US[>er]");
    marks_are("{{ 'a-b'.replace('-', u) }}", "a[<us>er]b");
    marks_are("{{ l | join('-') }}", "[a]-[b]");
    marks_are("{{ l }}{{ d | tojson }}", "['[a]', '[b]']{\"[k]\": \"[v]\"}");
    marks_are("{{ ['x\n', u] | tojson }}", "[\"x\\n\", \"[<us>er]\"]");
    marks_are("{% set t %}<{{ u }}>{% endset %}{{ t }}", "<[<us>er]>");
    marks_are("{% macro m(x) %}({{ x }}){% endmacro %}{{ m(u) }}", "([<us>er])");
    marks_are("{{ '%s!' % u }}{{ '{}?'.format(u) }}", "[<us>er]![<us>er]?");
    marks_are("{% for c in u %}{{ c }}.{% endfor %}", "[<].[u].[s].[>].[e].[r].");
    marks_are("{{ u | reverse }}{{ 'ab' | reverse }}", "[re>su<]ba");
    marks_are("{{ u | indent }}{{ ('x\n' + u) | indent(1) }}", "[<us>er]x\n [<us>er]");
    marks_are("{{ ('{\"a\": \"' + u + '\"}') | from_json }}", "{'[a]': '[<us>er]'}");
    marks_are("{% if u == '<us>er' %}{{ own }}{% endif %}", "OWN");
}

int main(void)
{
    setenv("TZ", "UTC", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),  cmocka_unit_test(test_families),
        cmocka_unit_test(test_bounds), cmocka_unit_test(test_nesting),
        cmocka_unit_test(test_marks),  cmocka_unit_test(test_little_memory),
    };
    return cmocka_run_group_tests_name("jinja", tests, NULL, NULL);
}
