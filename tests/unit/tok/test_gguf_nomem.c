/* tok/, io/: whichever of pith's requests for memory fails while a GGUF file is opened, its
 * matrices or its tokenizer read, that is said and nothing leaks. */
#include "io/container/container.h"
#include "requests.h"
#include "test.h"
#include "tok/tokenizer.h"

#define FILES "fuzz/corpus/gguf/"

static enum pith_status open_file(void *path, struct pith_error *err)
{
    struct pith_checkpoint *c;
    PITH_TRY(pith_checkpoint_open(path, &c, err));
    pith_checkpoint_close(c);
    return PITH_OK;
}

static enum pith_status load_matrices(void *path, struct pith_error *err)
{
    const struct pith_container *gguf = pith_container_find("gguf");
    struct pith_checkpoint *c;
    PITH_TRY(pith_checkpoint_open(path, &c, err));
    enum pith_status s = PITH_OK;
    for (int layer = 0; layer < 7 && s == PITH_OK; layer++) {
        struct pith_qmat q;
        bool found = false;
        char module[64];
        snprintf(module, sizeof module, "model.layers.%d.mlp.up_proj", layer);
        s = gguf->load(NULL, c, module, 2, 32, &q, &found, err);
        if (s == PITH_OK && found) pith_qmat_free(&q);
    }
    pith_checkpoint_close(c);
    return s;
}

static enum pith_status read_tokenizer(void *path, struct pith_error *err)
{
    struct pith_tokenizer *t;
    struct pith_ids ids = {0};
    PITH_TRY(pith_tokenizer_open(path, &t, err));
    const enum pith_status s = pith_tokenizer_encode(t, "ab <s> a", 8, true, &ids, err);
    pith_ids_free(&ids);
    pith_tokenizer_close(t);
    return s;
}

static void every_request_may_fail(void **state)
{
    (void)state;
    need_requests();
    char llama[] = FILES "llama", types[] = FILES "types", freqs[] = FILES "freqs",
         spm[] = FILES "spm";
    assert_true(fail_each_request(open_file, llama, false) > 10);
    assert_true(fail_each_request(open_file, freqs, false) > 10);
    assert_true(fail_each_request(load_matrices, types, false) > 10);
    /* PCRE2 works without compiled code, too. */
    assert_true(fail_each_request(read_tokenizer, llama, true) > 10);
    assert_true(fail_each_request(read_tokenizer, spm, true) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_request_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
