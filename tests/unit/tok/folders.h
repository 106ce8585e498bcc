/* tests/unit/tok/folders.h: folders of a tokenizer's files, and rows of golden vectors for them:
 * texts, the ids they become, with those around them, and what decoding these shows. */
#ifndef PITH_TEST_TOK_FOLDERS_H
#define PITH_TEST_TOK_FOLDERS_H

#include "base/json.h"
#include "folder.h"
#include "io/gguf/gguf.h"
#include "tok/kind.h"

/* A new folder with files, {NAME: JSON}. */
static inline char *new_folder(const json_t *files)
{
    struct pith_error err = {0};
    const char *name;
    json_t *content;
    char *dir = test_temp_dir();
    json_object_foreach ((json_t *)(uintptr_t)files, name, content) {
        char *path = pith_path_join(dir, name);
        assert_ok(pith_json_save(path, content, &err), err);
        pith_free(path);
    }
    return dir;
}

/* A GGUF file of keys without tensors; pith_str_free() it. */
static inline struct pith_str gguf_of(const struct pith_gguf_keys *k)
{
    const uint32_t version = 3;
    const uint64_t tensors = 0;
    struct pith_str file = {0};
    pith_str_puts(&file, "GGUF");
    pith_str_append(&file, (const char *)&version, sizeof version);
    pith_str_append(&file, (const char *)&tensors, sizeof tensors);
    pith_str_append(&file, (const char *)&k->count, sizeof k->count);
    pith_str_append(&file, k->bytes.data, k->bytes.len);
    return file;
}

static inline void check_text(const struct pith_tokenizer *t, const json_t *row, const char *text,
                              size_t i)
{
    struct pith_error err = {0};
    struct pith_ids ids = {0};
    struct pith_str shown = {0};
    const char *name = json_string_value(json_object_get(row, "name")),
               *back = json_string_value(json_array_get(json_object_get(row, "shown"), i));
    const json_t *want = json_array_get(json_object_get(row, "ids"), i);
    assert_ok(pith_tokenizer_encode(t, text, strlen(text), true, &ids, &err), err);
    for (size_t k = 0; k < ids.count || k < json_array_size(want); k++)
        if (k >= ids.count || ids.id[k] != json_integer_value(json_array_get(want, k)))
            fail_msg("%s, \"%s\": token %zu of %zu is another one", name, text, k, ids.count);
    assert_ok(pith_tokenizer_decode(t, ids.id, ids.count, true, &shown, &err), err);
    if (strcmp(pith_str_text(&shown), back) != 0)
        fail_msg("%s, \"%s\": '%s', not '%s'", name, text, pith_str_text(&shown), back);
    pith_ids_free(&ids);
    pith_str_free(&shown);
}

/* The ids of a row's texts, by the tokenizer of a folder. */
static inline void check_texts(const struct pith_tokenizer *t, const json_t *row,
                               const json_t *texts)
{
    const json_t *text;
    size_t i;
    assert_true(json_array_size(texts) > 0);
    assert_int_equal(json_array_size(texts), json_array_size(json_object_get(row, "ids")));
    json_array_foreach (texts, i, text) check_text(t, row, json_string_value(text), i);
}

#endif
