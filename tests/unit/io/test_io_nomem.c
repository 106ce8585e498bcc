/* io/: whichever of pith's requests for memory fails, opening and laying out say so and leak
 * nothing. */
#include "folder.h"
#include "io/checkpoint.h"
#include "io/hf_files.h"
#include "requests.h"

static enum pith_status open_checkpoint(void *dir, struct pith_error *err)
{
    struct pith_checkpoint *c;
    PITH_TRY(pith_checkpoint_open(dir, &c, err));
    pith_checkpoint_close(c);
    return PITH_OK;
}

static enum pith_status list_side_files(void *dir, struct pith_error *err)
{
    char **names;
    size_t count;
    PITH_TRY(pith_checkpoint_side_files(dir, &names, &count, err));
    pith_names_free(names, count);
    return PITH_OK;
}

static enum pith_status lay_out(void *dir, struct pith_error *err)
{
    (void)dir;
    static const uint64_t shape[] = {4};
    struct pith_layout l = {0};
    char name[16] = "t000";
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

static void every_request_may_fail(void **state)
{
    (void)state;
    need_requests();
    char *dir = test_temp_dir();
    folder_text(dir, "config.json", "{\"quantization_config\":{\"bits\":4,\"x\":[1,2.5]}}");
    folder_tensors(dir, "s1.safetensors", "a c");
    folder_tensors(dir, "s2.safetensors", "b0 b1 b2 b3 b4 b5 b6 b7 b8 b9 ba bb bc bd be bf bg bh");
    folder_text(
        dir, "model.safetensors.index.json",
        "{\"metadata\":{},\"weight_map\":{\"a\":\"s1.safetensors\",\"b0\":\"s2.safetensors\"}}");
    folder_text(dir, "tokenizer.json", "{}");
    assert_true(fail_each_request(open_checkpoint, dir, false) > 4);
    assert_true(fail_each_request(list_side_files, dir, false) > 4);
    assert_true(fail_each_request(lay_out, dir, false) > 4);
    folder_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_request_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
