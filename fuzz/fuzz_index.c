/* Fuzzes the reader of model.safetensors.index.json. What it accepts is sorted, names plain files,
 * and reads back the same when written out again. */
#include "base/file.h"
#include "base/str.h"
#include "io/hf_index.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
    if (!condition) abort();
}

static void check(const struct pith_index *x)
{
    must(x->count > 0 && x->file_count > 0 && x->file_count <= x->count);
    for (size_t i = 0; i < x->count; i++) {
        must(i == 0 || strcmp(x->entries[i - 1].tensor, x->entries[i].tensor) < 0);
        must(x->entries[i].file < x->file_count);
        must(strcmp(x->files[x->entries[i].file], x->entries[i].file_name) == 0);
    }
    for (size_t i = 0; i < x->file_count; i++) {
        must(pith_path_is_plain(x->files[i]));
        must(i == 0 || strcmp(x->files[i - 1], x->files[i]) < 0);
    }
}

static void put_quoted(struct pith_str *s, const char *text)
{
    pith_str_putc(s, '"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') pith_str_putc(s, '\\');
        pith_str_putc(s, *text);
    }
    pith_str_putc(s, '"');
}

static void write_and_read_again(const struct pith_index *x)
{
    struct pith_str s = {0};
    for (size_t i = x->count; i-- > 0;) {
        pith_str_puts(&s, s.len ? "," : "{\"weight_map\":{");
        put_quoted(&s, x->entries[i].tensor);
        pith_str_putc(&s, ':');
        put_quoted(&s, x->entries[i].file_name);
    }
    pith_str_puts(&s, "}}");
    struct pith_index y;
    must(pith_index_parse(s.data, s.len, &y, NULL) == PITH_OK);
    must(y.count == x->count && y.file_count == x->file_count);
    for (size_t i = 0; i < y.count; i++) {
        must(strcmp(y.entries[i].tensor, x->entries[i].tensor) == 0);
        must(y.entries[i].file == x->entries[i].file);
    }
    pith_index_free(&y);
    pith_str_free(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pith_index x;
    struct pith_error err = {0};
    const enum pith_status s = pith_index_parse((const char *)data, size, &x, &err);
    if (s != PITH_OK) {
        must(err.status == s && err.text[0] != '\0');
        return 0;
    }
    check(&x);
    write_and_read_again(&x);
    pith_index_free(&x);
    return 0;
}
