/* io/: experts in MXFP4 as gpt-oss stores them, against transformers' own reading. */
#include "base/mem.h"
#include "io/container/gptoss.h"
#include "test.h"

enum { EXPERTS = 2, ROWS = 6, COLS = 96 };

static void reads_what_transformers_reads(void **state)
{
    (void)state;
    static const struct pith_gptoss_part parts[] = {{0, 0, 1}, {1, 0, 1}, {0, 0, 2},
                                                    {1, 0, 2}, {0, 1, 2}, {1, 1, 2}};
    struct pith_safetensors st;
    struct pith_error err = {0};
    assert_ok(pith_safetensors_open("tests/golden/gptoss/gptoss.safetensors", &st, &err), err);
    const struct pith_tensor *blocks = &st.tensors[0], *scales = &st.tensors[1];
    for (size_t i = 0; i < st.count; i++) {
        if (strcmp(st.tensors[i].name, "blocks") == 0) blocks = &st.tensors[i];
        if (strcmp(st.tensors[i].name, "scales") == 0) scales = &st.tensors[i];
    }
    const float *want = NULL;
    for (size_t i = 0; i < st.count; i++)
        if (strcmp(st.tensors[i].name, "want") == 0)
            want = (const float *)(const void *)st.tensors[i].data;
    assert_non_null(want);
    float w[COLS];
    for (size_t i = 0; i < PITH_COUNT(parts); i++) {
        const struct pith_gptoss_part *p = &parts[i];
        struct pith_qmat q;
        assert_ok(pith_gptoss_load(blocks, scales, p, &q, &err), err);
        assert_int_equal(q.rows, ROWS / p->step);
        for (uint32_t r = 0; r < q.rows; r++) {
            const size_t row = p->first + (size_t)r * p->step;
            pith_qmat_decode(&q, r, 1, w);
            for (size_t c = 0; c < COLS; c++)
                assert_true(w[c] == want[((size_t)p->expert * COLS + c) * ROWS + row]);
        }
        pith_qmat_free(&q);
    }
    pith_safetensors_close(&st);
}

static void other_shapes_are_refused(void **state)
{
    (void)state;
    uint8_t data[EXPERTS * ROWS * 3 * 16] = {0}, bytes[EXPERTS * ROWS * 3] = {0};
    static char name[] = "t";
    const struct pith_tensor good_blocks = {.name = name,
                                            .dtype = PITH_U8,
                                            .dims = 4,
                                            .shape = {EXPERTS, ROWS, 3, 16},
                                            .bytes = sizeof data,
                                            .data = data},
                             good_scales = {.name = name,
                                            .dtype = PITH_U8,
                                            .dims = 3,
                                            .shape = {EXPERTS, ROWS, 3},
                                            .bytes = sizeof bytes,
                                            .data = bytes};
    static const struct pith_gptoss_part bad_parts[] = {{2, 0, 1}, {0, 0, 4}, {0, 2, 2}, {0, 0, 0}};
    struct pith_qmat q;
    for (size_t i = 0; i < 6 + PITH_COUNT(bad_parts); i++) {
        struct pith_tensor blocks = good_blocks, scales = good_scales;
        struct pith_gptoss_part part = {0, 0, 1};
        struct pith_error err = {0};
        memset(bytes, 0, sizeof bytes);
        switch (i) {
        case 0: blocks.dtype = PITH_I8; break;
        case 1: blocks.dims = 3; break;
        case 2: blocks.shape[3] = 15; break;
        case 3: scales.shape[1] = 5; break;
        case 4: scales.dims = 4; break;
        case 5: bytes[0] = 0xff; break;
        default: part = bad_parts[i - 6]; break;
        }
        assert_int_equal(pith_gptoss_load(&blocks, &scales, &part, &q, &err), PITH_FORMAT);
        assert_null(q.codes);
        assert_true(err.text[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_transformers_reads),
        cmocka_unit_test(other_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
