/* tok/: whichever of pith's requests for memory fails, opening, encoding and decoding say so and
 * leak nothing.
 *
 * Only requests made from this program's own code fail. Those of jansson do not: version 2.14
 * writes past its token buffer when that cannot grow. */
#include "vectors.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#ifndef SANITIZED
/* These stand before the C library's own. The n-th request from arming on fails; live counts what
 * is not freed. The test is single-threaded. */
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

static enum pith_status use(const struct pith_tokenizer *t, struct pith_ids *ids,
                            struct pith_str *text, struct pith_str *streamed,
                            struct pith_error *err)
{
    static const char in[] =
        "Hello wordy 12 caf\xc3\xa9 e\xcc\x81\xcc\xa3 <tool> \xf0\x9f\x98\x80\xff [X] ab";
    PITH_TRY(pith_tokenizer_encode(t, in, sizeof in - 1, true, ids, err));
    PITH_TRY(pith_tokenizer_decode(t, ids->id, ids->count, true, text, err));
    struct pith_stream stream = {0};
    enum pith_status s = PITH_OK;
    for (size_t i = 0; s == PITH_OK && i < ids->count; i++)
        s = pith_stream_push(t, &stream, ids->id[i], streamed, err);
    pith_stream_end(&stream, streamed);
    return s == PITH_OK && streamed->failed ? pith_fail(err, PITH_NOMEM, "stream") : s;
}

static enum pith_status run(struct bytes model, bool spm, struct pith_error *err)
{
    struct pith_tokenizer *t = NULL;
    if (spm) PITH_TRY(pith_tokenizer_from_spm((const uint8_t *)model.data, model.size, &t, err));
    else PITH_TRY(pith_tokenizer_from_json(model.data, model.size, &t, err));
    struct pith_ids ids = {0};
    struct pith_str text = {0}, streamed = {0};
    const enum pith_status s = use(t, &ids, &text, &streamed, err);
    pith_ids_free(&ids);
    pith_str_free(&text);
    pith_str_free(&streamed);
    pith_tokenizer_close(t);
    return s;
}

static void try_all(const char *name)
{
    struct pith_error err = {0};
    struct pith_map map;
    char path[256];
    snprintf(path, sizeof path, "fuzz/corpus/%s", name);
    assert_ok(pith_map_open(path, &map, &err), err);
    const struct bytes model = {(const char *)map.data, map.size};
    const bool spm = strstr(name, "spm/") != NULL;
    assert_ok(run(model, spm, &err), err);
    bool disturbed = true;
    for (long n = 0; disturbed; n++) {
        err = (struct pith_error){0};
        const long before = live;
        countdown = n;
        const enum pith_status s = run(model, spm, &err);
        disturbed = countdown < 0;
        countdown = -1;
        if (live != before) fail_msg("%s: request %ld fails, %ld leak", name, n, live - before);
        /* Some requests may fail without harm: PCRE2 then works without compiled code. */
        if (s != PITH_OK && (s != PITH_NOMEM || !disturbed))
            fail_msg("%s: request %ld fails: status %d: %s", name, n, (int)s, err.text);
        assert_true(n < 100000);
    }
    pith_map_close(&map);
}

static void every_request_may_fail(void **state)
{
    (void)state;
    static const char *const names[] = {
        "tokenizer_json/llama3",   "tokenizer_json/llama2",    "tokenizer_json/clip",
        "tokenizer_json/prefixed", "tokenizer_json/behaviors", "tokenizer_json/metaspace",
        "tokenizer_spm/spm_rules", "tokenizer_spm/spm_unused", "tokenizer_spm/spm_user",
    };
    for (size_t i = 0; i < PITH_COUNT(names); i++) try_all(names[i]);
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
