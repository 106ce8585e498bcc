/* tok/chat/templates: which templates a folder or a file has, by what names, and that those at
 * fault are named by their file. */
#include "folders.h"

#include "io/gguf/gguf.h"
#include "io/hf_files.h"
#include "tok/chat/chat.h"
#include "tok/chat/templates.h"

#define INNER PITH_TEMPLATES_DIR "/"

struct file {
    const char *name, *text;
};

static char *make_folder(const struct file *file, size_t count)
{
    struct pith_error err = {0};
    char *dir = test_temp_dir(), *inner = pith_path_join(dir, PITH_TEMPLATES_DIR);
    assert_ok(pith_dir_make(inner, &err), err);
    pith_free(inner);
    for (size_t i = 0; i < count && file[i].name; i++)
        folder_text(dir, file[i].name, file[i].text);
    return dir;
}

/* "NAME:TEXT,NAME:TEXT" in the order of the names. */
static void assert_texts(const struct pith_templates *t, const char *want)
{
    struct pith_str s = {0};
    char *all = json_dumps(t->text, JSON_SORT_KEYS | JSON_COMPACT);
    for (const char *p = all; *p; p++)
        if (!strchr("{}\"", *p)) pith_str_putc(&s, *p);
    assert_string_equal(pith_str_text(&s), want);
    assert_int_equal(json_object_size(t->text), json_object_size(t->where));
    pith_str_free(&s);
    free(all);
}

static const struct {
    struct file file[4];
    const char *texts, *says; /* NULL: the files are good */
} rows[] = {
    {{{"config.json", "{}"}}, "", NULL},
    {{{"chat_template.jinja", "a"},
      {INNER "b.jinja", "b"},
      {INNER "default.jinja", "c"},
      {INNER "d.txt", "d"}},
     "b:b,default:a",
     NULL},
    {{{"chat_template.jinja", "a"}, {"chat_template.json", "{\"chat_template\":\"b\"}"}},
     "default:a",
     NULL},
    {{{INNER "b.jinja", "b"}}, "", NULL}, /* which stand beside another */
    {{{"chat_template.json", "{\"chat_template\":{\"default\":\"a\",\"rag\":\"b\"}}"},
      {"tokenizer_config.json", "{\"chat_template\":\"c\"}"}},
     "default:a,rag:b",
     NULL},
    {{{"chat_template.json", "{\"chat_template\":null}"},
      {"tokenizer_config.json", "{\"chat_template\":[{\"name\":\"x\",\"template\":\"a\"},"
                                "{\"name\":\"x\",\"template\":\"b\"}]}"}},
     "x:a",
     NULL},
    {{{"tokenizer_config.json", "{\"chat_template\":[{\"name\":\"x\"}]}"}},
     NULL,
     "tokenizer_config.json: chat_template: entry 0 has no"},
    {{{"chat_template.json", "{\"chat_template\":{\"x\":1}}"}},
     NULL,
     "chat_template.json: chat_template: \"x\" is not a text"},
    {{{"chat_template.json", "{\"chat_template\":1}"}}, NULL, "neither a text nor a list"},
    {{{"chat_template.jinja", "a"}, {INNER "b.jinja", "\xff"}},
     NULL,
     INNER "b.jinja: is not UTF-8"},
    {{{"chat_template.jinja", "a"}, {INNER "\xff.jinja", "b"}},
     NULL,
     INNER "\xff.jinja: is not UTF-8"},
};

static void folders_have_named_templates(void **state)
{
    (void)state;
    for (size_t i = 0; i < PITH_COUNT(rows); i++) {
        struct pith_error err = {0};
        struct pith_templates t;
        char *dir = make_folder(rows[i].file, PITH_COUNT(rows[i].file));
        const enum pith_status s = pith_templates_read(dir, &t, &err);
        if (rows[i].says) {
            assert_int_equal(s, PITH_FORMAT);
            assert_non_null(strstr(err.text, rows[i].says));
        } else {
            assert_ok(s, err);
            assert_texts(&t, rows[i].texts);
            pith_templates_free(&t);
        }
        folder_remove(dir);
    }
}

/* The file of the template that is broken, not of the usual one. */
static void a_broken_template_is_named(void **state)
{
    (void)state;
    static const struct file files[] = {{"chat_template.jinja", "a"},
                                        {INNER "tool_use.jinja", "{% if %}"}};
    struct pith_error err = {0};
    struct pith_chat *c = NULL;
    char *dir = make_folder(files, PITH_COUNT(files));
    assert_int_equal(pith_chat_open(dir, NULL, &c, &err), PITH_FORMAT);
    assert_non_null(strstr(err.text, INNER "tool_use.jinja: "));
    folder_remove(dir);
}

/* The key without a name is the usual template, wherever it stands. */
static void files_have_named_templates(void **state)
{
    (void)state;
    static const char *const keys[][2] = {{"tokenizer.chat_template.default", "b"},
                                          {"tokenizer.chat_template.rag", "c"},
                                          {"tokenizer.chat_template", "a"},
                                          {"tokenizer.chat_templates", "d"}};
    struct pith_error err = {0};
    struct pith_gguf_keys k = {0};
    struct pith_templates t;
    struct pith_gguf g;
    for (size_t i = 0; i < PITH_COUNT(keys); i++) pith_gguf_put_text(&k, keys[i][0], keys[i][1]);
    struct pith_str file = gguf_of(&k);
    assert_ok(pith_gguf_parse((const uint8_t *)file.data, file.len, "m.gguf", &g, &err), err);
    assert_ok(pith_templates_of(&g, &t, &err), err);
    assert_texts(&t, "default:a,rag:c");
    pith_templates_free(&t);
    pith_gguf_close(&g);
    pith_gguf_keys_free(&k);
    pith_str_free(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(folders_have_named_templates),
                                       cmocka_unit_test(a_broken_template_is_named),
                                       cmocka_unit_test(files_have_named_templates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
