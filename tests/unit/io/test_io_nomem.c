/* io/: whichever of pith's requests for memory fails, opening and laying out say so and leak
 * nothing.
 *
 * Only requests made from this program's own code fail. Those of jansson do not: version 2.14
 * writes past its token buffer when that cannot grow (valgrind shows it with json_loadb alone). */
#include "folder.h"
#include "io/checkpoint.h"
#include "io/hf_files.h"
#include "sanitized.h"

#if !SANITIZED
/* These stand before the C library's own. The n-th request from arming on fails; live counts what
 * is not freed. The tests are single-threaded. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void __libc_free(void *p);

static long countdown = -1, live;

/* Where the program's code begins and ends, as the linker says. */
extern const char __executable_start, etext;

static int fails(const void *caller)
{
    const uintptr_t at = (uintptr_t)caller;
    if (at < (uintptr_t)&__executable_start || at >= (uintptr_t)&etext) return 0;
    return countdown >= 0 && countdown-- == 0;
}

void *malloc(size_t size)
{
    void *p = fails(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
    live += p != NULL;
    return p;
}

void *calloc(size_t count, size_t size)
{
    void *p = fails(__builtin_return_address(0)) ? NULL : __libc_calloc(count, size);
    live += p != NULL;
    return p;
}

void *realloc(void *old, size_t size)
{
    if (fails(__builtin_return_address(0))) return NULL;
    void *p = __libc_realloc(old, size);
    live += p != NULL && !old;
    return p;
}

void free(void *p)
{
    live -= p != NULL;
    __libc_free(p);
}

static enum pith_status open_checkpoint(const char *dir, struct pith_error *err)
{
    struct pith_checkpoint *c;
    PITH_TRY(pith_checkpoint_open(dir, &c, err));
    pith_checkpoint_close(c);
    return PITH_OK;
}

static enum pith_status list_side_files(const char *dir, struct pith_error *err)
{
    char **names;
    size_t count;
    PITH_TRY(pith_checkpoint_side_files(dir, &names, &count, err));
    pith_names_free(names, count);
    return PITH_OK;
}

static enum pith_status lay_out(const char *dir, struct pith_error *err)
{
    (void)dir;
    static const uint64_t shape[] = {4};
    struct pith_layout l = {0};
    char name[8] = "t000";
    enum pith_status s = PITH_OK;
    for (int i = 0; i < 130 && s == PITH_OK; i++) {
        snprintf(name, sizeof name, "t%d", i);
        s = pith_layout_add(&l, name, PITH_F32, 1, shape, err);
    }
    if (s == PITH_OK) s = pith_layout_finish(&l, 100, err);
    if (s == PITH_OK) {
        char *index = pith_layout_index(&l);
        if (!index) s = pith_fail_nomem(err, "the index");
        pith_free(index);
    }
    pith_layout_free(&l);
    return s;
}

/* Fails request 0, 1, 2, ... until the call makes it through undisturbed. */
static void try_all(enum pith_status (*call)(const char *, struct pith_error *), const char *dir)
{
    long n = 0;
    for (bool disturbed = true; disturbed; n++) {
        struct pith_error err = {0};
        const long before = live;
        countdown = n;
        const enum pith_status s = call(dir, &err);
        disturbed = countdown < 0;
        countdown = -1;
        const long after = live;
        if (s != (disturbed ? PITH_NOMEM : PITH_OK))
            fail_msg("request %ld: status %d, %s", n, (int)s, err.text);
        if (after != before) fail_msg("request %ld: %ld blocks leaked", n, after - before);
    }
    assert_true(n > 5);
}

static void every_request_may_fail(void **state)
{
    (void)state;
    char *dir = test_temp_dir();
    folder_text(dir, "config.json", "{\"quantization_config\":{\"bits\":4,\"x\":[1,2.5]}}");
    folder_tensors(dir, "s1.safetensors", "a c");
    folder_tensors(dir, "s2.safetensors", "b0 b1 b2 b3 b4 b5 b6 b7 b8 b9 ba bb bc bd be bf bg bh");
    folder_text(
        dir, "model.safetensors.index.json",
        "{\"metadata\":{},\"weight_map\":{\"a\":\"s1.safetensors\",\"b0\":\"s2.safetensors\"}}");
    folder_text(dir, "tokenizer.json", "{}");
    try_all(open_checkpoint, dir);
    try_all(list_side_files, dir);
    try_all(lay_out, dir);
    folder_remove(dir);
}
#else
static void every_request_may_fail(void **state)
{
    (void)state;
    skip(); /* the sanitizer has its own malloc */
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_request_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
