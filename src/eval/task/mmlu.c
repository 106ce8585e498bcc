/* MMLU as its authors publish it: a file of comma-separated values for each subject. */
#include "eval/task/questions.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

static const char TEST_END[] = "_test.csv", DEV_END[] = "_dev.csv";

static const struct {
    const char *name, *category;
} subjects[] = {
#define MMLU_SUBJECT(name, category) {#name, #category},
#include "eval/task/mmlu.def"
#undef MMLU_SUBJECT
};

static const char *find_category(const char *name)
{
    for (size_t i = 0; i < PITH_COUNT(subjects); i++)
        if (strcmp(subjects[i].name, name) == 0) return subjects[i].category;
    return NULL;
}

/* "The following are multiple choice questions (with answers) about high school biology." */
static void introduce(struct pith_subject *s, struct pith_str *text)
{
    s->intro.at = text->len;
    pith_str_puts(text, "The following are multiple choice questions (with answers) about ");
    for (const char *c = s->name; *c; c++) pith_str_putc(text, *c == '_' ? ' ' : *c);
    pith_str_puts(text, ".\n\n");
    s->intro.size = text->len - s->intro.at;
}

static enum pith_status read_file(const struct pith_task_form *form, const char *path, size_t limit,
                                  struct pith_questions *out, struct pith_error *err)
{
    struct pith_task_text t;
    PITH_TRY(pith_task_text_open(path, &t, err));
    struct pith_records r = {.path = path, .text = t.text, .size = t.size, .cut = form->cut};
    struct pith_asking a = {.form = form, .out = out};
    const enum pith_status s = pith_questions_read(&r, &a, limit, err);
    pith_records_free(&r);
    return pith_task_text_finish(&t, path, s, err);
}

/* The questions of `test`, and with shots the examples of `dev`. */
static enum pith_status add_subject(struct pith_task_source *out, const struct pith_task_wish *wish,
                                    const char *name, const char *test, const char *dev,
                                    struct pith_error *err)
{
    struct pith_subject *s = pith_subject_add(out, err);
    if (!s) return PITH_NOMEM;
    snprintf(s->name, sizeof s->name, "%s", name);
    s->category = find_category(s->name);
    introduce(s, &out->questions.text);
    s->first = out->questions.count;
    s->pool = out->examples.count;
    PITH_TRY(read_file(out->form, test, wish->limit, &out->questions, err));
    s->count = out->questions.count - s->first;
    if (wish->shots) PITH_TRY(read_file(out->form, dev, 0, &out->examples, err));
    s->pool_count = out->examples.count - s->pool;
    return PITH_OK;
}

/* The subject in a file name: "anatomy" of "anatomy_test.csv"; false for another name. */
static bool name_subject(const char *file, char *name, size_t size)
{
    const size_t n = strlen(file), end = sizeof TEST_END - 1;
    if (n <= end || strcmp(file + n - end, TEST_END) != 0 || n - end >= size) return false;
    memcpy(name, file, n - end);
    name[n - end] = '\0';
    return true;
}

/* FOLDER/test/NAME_test.csv has its examples in FOLDER/dev/NAME_dev.csv. */
static enum pith_status read_named(struct pith_task_source *out, const struct pith_task_wish *wish,
                                   const char *folder, const char *file, struct pith_error *err)
{
    char name[64];
    struct pith_str test = {0}, dev = {0};
    if (!name_subject(file, name, sizeof name)) return PITH_OK;
    pith_str_printf(&test, "%s/%s", folder, file);
    pith_str_printf(&dev, "%s/../dev/%s%s", folder, name, DEV_END);
    const enum pith_status s = test.failed || dev.failed
                                   ? pith_fail_nomem(err, file)
                                   : add_subject(out, wish, name, test.data, dev.data, err);
    pith_str_free(&test);
    pith_str_free(&dev);
    return s;
}

static enum pith_status read_folder(struct pith_task_source *out, const struct pith_task_wish *wish,
                                    const char *folder, struct pith_error *err)
{
    char **names;
    size_t count;
    if (!pith_path_is_dir(folder))
        return pith_fail(err, PITH_FORMAT,
                         "%s: a folder without test/, so not MMLU's; other tasks are files",
                         wish->path);
    PITH_TRY(pith_dir_list(folder, &names, &count, err));
    enum pith_status s = PITH_OK;
    for (size_t i = 0; i < count && s == PITH_OK; i++)
        s = read_named(out, wish, folder, names[i], err);
    pith_names_free(names, count);
    if (s == PITH_OK && out->subjects == 0)
        s = pith_fail(err, PITH_FORMAT, "%s: no file here ends in %s", folder, TEST_END);
    return s;
}

/* One file, which need not be named as those of the folder. */
static enum pith_status read_single(struct pith_task_source *out, const struct pith_task_wish *wish,
                                    struct pith_error *err)
{
    const char *slash = strrchr(wish->path, '/'), *file = slash ? slash + 1 : wish->path;
    char name[64];
    struct pith_str folder = {0};
    enum pith_status s;
    pith_str_append(&folder, wish->path, slash ? (size_t)(slash - wish->path) : 0);
    if (!slash) pith_str_putc(&folder, '.');
    if (folder.failed) s = pith_fail_nomem(err, wish->path);
    else if (name_subject(file, name, sizeof name))
        s = read_named(out, wish, folder.data, file, err);
    else
        s = pith_fail(err, PITH_FORMAT,
                      "%s: MMLU's subject comes from the name of its file: NAME%s", wish->path,
                      TEST_END);
    pith_str_free(&folder);
    return s;
}

enum pith_status pith_mmlu_read(const struct pith_task_wish *wish, bool folder,
                                struct pith_task_source *out, struct pith_error *err)
{
    if (!folder) return read_single(out, wish, err);
    char *test = pith_path_join(wish->path, "test");
    if (!test) return pith_fail_nomem(err, wish->path);
    const enum pith_status s = read_folder(out, wish, test, err);
    pith_free(test);
    return s;
}
