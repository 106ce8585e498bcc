/* A golden file's tensors as a checkpoint, which a test may change. */
#ifndef PITH_TEST_GOLDEN_FILE_H
#define PITH_TEST_GOLDEN_FILE_H

#include "folder.h"
#include "io/container/container.h"

enum { GOLDEN_MOST = 160 };
struct golden_file {
    struct pith_safetensors st;
    struct pith_checkpoint c;
    struct pith_tensor tensors[GOLDEN_MOST];
};

static inline void golden_open(struct golden_file *f, const char *path)
{
    struct pith_error err = {0};
    assert_ok(pith_safetensors_open(path, &f->st, &err), err);
    assert_true(f->st.count <= GOLDEN_MOST);
    for (size_t i = 0; i < f->st.count; i++) {
        f->tensors[i] = f->st.tensors[i];
        uint8_t *copy = malloc(f->tensors[i].bytes);
        f->tensors[i].data = memcpy(copy, f->st.tensors[i].data, f->tensors[i].bytes);
    }
    f->c = (struct pith_checkpoint){.dir = (char *)(uintptr_t) "golden",
                                    .files = &f->st,
                                    .file_count = 1,
                                    .tensors = f->tensors,
                                    .count = f->st.count};
}

static inline void golden_close(struct golden_file *f)
{
    for (size_t i = 0; i < f->st.count; i++) free((void *)(uintptr_t)f->tensors[i].data);
    pith_safetensors_close(&f->st);
}

static inline struct pith_tensor *golden_tensor(struct golden_file *f, const char *name)
{
    for (size_t i = 0; i < f->c.count; i++)
        if (strcmp(f->tensors[i].name, name) == 0) return &f->tensors[i];
    fail_msg("%s: not there", name);
    return NULL;
}

/* The tensors of a packed module are those of the file, to the byte. */
static inline void golden_packed(struct golden_file *f, const char *module,
                                 const struct pith_packed_set *set)
{
    char name[64];
    for (unsigned i = 0; i < set->count; i++) {
        snprintf(name, sizeof name, "%s%s", module, set->item[i].suffix);
        const struct pith_tensor *t = golden_tensor(f, name);
        assert_int_equal(t->dtype, set->item[i].dtype);
        assert_int_equal(t->dims, set->item[i].dims);
        assert_memory_equal(t->shape, set->item[i].shape, t->dims * sizeof t->shape[0]);
        assert_memory_equal(t->data, set->item[i].data, t->bytes);
    }
}

#endif
