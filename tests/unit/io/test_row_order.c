/* Orders of rows, held against the reshapes of llama.cpp's converter, written out here. */
#include "test.h"

#include "base/mem.h"
#include "io/checkpoint.h"
#include "io/container/container.h"
#include "io/row_order.h"
#include "num/gguf/kmat.h"

#include <math.h>
#include <string.h>

static void moves_as(const struct pith_stow *o, uint64_t rows, const unsigned *place)
{
    assert_true(pith_stow_fits(o, rows));
    for (uint64_t r = 0; r < rows; r++) {
        assert_int_equal(pith_stow_place(o, r), place[r]);
        assert_int_equal(pith_stow_row(o, place[r]), r);
    }
}

/* conversion/llama.py: reshape(heads, 2, half, ...).swapaxes(1, 2). */
static void rows_turn_as_the_converter_turns_them(void **state)
{
    (void)state;
    enum { HEADS = 3, SIZE = 10, ROWS = HEADS * SIZE };
    uint8_t data[ROWS][2], out[ROWS][2];
    unsigned place[ROWS];
    const struct pith_stow o = pith_stow_interleaved(ROWS, HEADS);
    for (unsigned h = 0; h < HEADS; h++)
        for (unsigned half = 0; half < 2; half++)
            for (unsigned i = 0; i < SIZE / 2; i++) {
                const unsigned row = h * SIZE + half * (SIZE / 2) + i;
                place[row] = h * SIZE + i * 2 + half;
                data[place[row]][0] = data[place[row]][1] = (uint8_t)row;
            }
    moves_as(&o, ROWS, place);
    const struct pith_tensor t = {.dtype = PITH_U8,
                                  .dims = 2,
                                  .shape = {ROWS, 2},
                                  .bytes = sizeof data,
                                  .data = &data[0][0],
                                  .order = o};
    pith_tensor_straighten(&t, out);
    for (unsigned r = 0; r < ROWS; r++) assert_true(out[r][0] == r && out[r][1] == r);
    const struct pith_stow none = pith_stow_interleaved(7, 0), odd = pith_stow_interleaved(9, 3),
                           uneven = pith_stow_interleaved(ROWS, 4);
    assert_true(pith_stow_fits(&none, 7));
    assert_false(pith_stow_fits(&odd, 9) || pith_stow_fits(&uneven, ROWS));
}

/* conversion/qwen.py: view(heads, q + k + v + z), then all q, all k, all v, all z. */
static void parts_of_groups_stand_together(void **state)
{
    (void)state;
    enum { HEADS = 3, SUM = 2 + 2 + 4 + 4 };
    static const unsigned size[] = {2, 2, 4, 4};
    const struct pith_stow o = {
        .kind = PITH_STOW_PARTED, .groups = HEADS, .parts = 4, .size = {2, 2, 4, 4}};
    unsigned place[HEADS * SUM], at = 0;
    for (unsigned p = 0, before = 0; p < 4; before += size[p++])
        for (unsigned h = 0; h < HEADS; h++)
            for (unsigned i = 0; i < size[p]; i++) place[h * SUM + before + i] = at++;
    moves_as(&o, HEADS * SUM, place);
    assert_false(pith_stow_fits(&o, HEADS * SUM + 1));
}

/* conversion/deepseek.py: view(heads, nope + value, rank), split, k_b.transpose(1, 2). */
static void keys_of_a_latent_lie_transposed(void **state)
{
    (void)state;
    enum { HEADS = 3, NOPE = 4, VALUE = 2, RANK = 5, ROWS = HEADS * (NOPE + VALUE) };
    const struct pith_stow o = {
        .kind = PITH_STOW_LATENT, .groups = HEADS, .parts = 2, .size = {NOPE, VALUE}};
    const struct pith_stow_shape shape = {ROWS, RANK, sizeof(float)};
    float shown[ROWS][RANK], file[ROWS * RANK], back[ROWS][RANK];
    for (unsigned r = 0; r < ROWS; r++)
        for (unsigned c = 0; c < RANK; c++) shown[r][c] = (float)(r * RANK + c);
    pith_stow_apply(&o, &shape, (const uint8_t *)shown, (uint8_t *)file);
    unsigned at = 0;
    for (unsigned h = 0; h < HEADS; h++)
        for (unsigned c = 0; c < RANK; c++)
            for (unsigned j = 0; j < NOPE; j++)
                assert_true(file[at++] == shown[h * (NOPE + VALUE) + j][c]);
    for (unsigned h = 0; h < HEADS; h++)
        for (unsigned j = 0; j < VALUE; j++)
            for (unsigned c = 0; c < RANK; c++)
                assert_true(file[at++] == shown[h * (NOPE + VALUE) + NOPE + j][c]);
    pith_stow_undo(&o, &shape, (const uint8_t *)file, (uint8_t *)back);
    assert_memory_equal(shown, back, sizeof shown);
    const struct pith_tensor t = {.dtype = PITH_F32,
                                  .dims = 2,
                                  .shape = {ROWS, RANK},
                                  .bytes = sizeof file,
                                  .data = (const uint8_t *)file,
                                  .order = o};
    assert_true(pith_tensor_decode(&t, &back[0][0]));
    assert_memory_equal(shown, back, sizeof shown);
    assert_false(pith_stow_fits(&o, 2 * ROWS));
}

enum { KEYS = 2, EACH = 3, HEADS_OF_VALUES = KEYS * EACH };

/* conversion/qwen.py, _reorder_v_heads(): [keys, each, size] becomes [each, keys, size]. */
static void heads_of_values_lie_tiled(void **state)
{
    (void)state;
    enum { SKIP = 4, SIZE = 2, ROWS = SKIP + HEADS_OF_VALUES * SIZE };
    const struct pith_stow o = {
        .kind = PITH_STOW_PARTED, .groups = KEYS, .parts = EACH, .even = SIZE, .skip = SKIP};
    unsigned place[ROWS], at = 0;
    for (; at < SKIP; at++) place[at] = at;
    for (unsigned e = 0; e < EACH; e++)
        for (unsigned k = 0; k < KEYS; k++)
            for (unsigned i = 0; i < SIZE; i++) place[SKIP + (k * EACH + e) * SIZE + i] = at++;
    moves_as(&o, ROWS, place);
    assert_false(pith_stow_fits(&o, SKIP - 1) || pith_stow_fits(&o, ROWS + SIZE));

    enum { COLS = HEADS_OF_VALUES * SIZE };
    const struct pith_stow across = {.kind = PITH_STOW_ACROSS, .groups = KEYS, .parts = EACH};
    uint16_t shown[2][COLS], file[2][COLS], back[2][COLS];
    for (unsigned i = 0; i < 2 * COLS; i++) shown[i / COLS][i % COLS] = (uint16_t)(i + 1);
    const struct pith_stow_shape shape = {2, COLS, sizeof shown[0][0]};
    pith_stow_apply(&across, &shape, (const uint8_t *)shown, (uint8_t *)file);
    for (unsigned r = 0; r < 2; r++)
        for (unsigned c = 0; c < COLS; c++)
            assert_int_equal(file[r][place[SKIP + c] - SKIP], shown[r][c]);
    pith_stow_undo(&across, &shape, (const uint8_t *)file, (uint8_t *)back);
    assert_memory_equal(shown, back, sizeof shown);
}

/* A block of 256 weights has heads that are shown apart: its columns say which group they are of.
 */
static void blocks_may_reach_over_heads(void **state)
{
    (void)state;
    enum { ROWS = 3, SIZE = 128, COLS = HEADS_OF_VALUES * SIZE, BYTES = 144 };
    const struct pith_kquant *t = pith_kquant_find("q4_k");
    uint8_t blocks[ROWS * COLS / 256 * BYTES];
    assert_true(t && t->bytes == BYTES && t->elements == 256);
    for (unsigned i = 0; i < sizeof blocks; i++) blocks[i] = (uint8_t)(i * 37 % 61);
    struct pith_tensor tensor = {
        .name = "m.Q4_K",
        .dtype = PITH_U8,
        .dims = 2,
        .shape = {ROWS, COLS / 256 * BYTES},
        .bytes = sizeof blocks,
        .data = blocks,
        .order = {.kind = PITH_STOW_ACROSS, .groups = KEYS, .parts = EACH}};
    const struct pith_checkpoint c = {.tensors = &tensor, .count = 1};
    struct pith_qmat straight, q;
    struct pith_error err = {0};
    bool found = false;
    float file[ROWS * COLS], shown[ROWS * COLS];
    assert_int_equal(pith_kmat_unpack(t, blocks, ROWS, COLS, 1, &straight, &err), PITH_OK);
    assert_int_equal(pith_container_find("gguf")->load(NULL, &c, "m", ROWS, COLS, &q, &found, &err),
                     PITH_OK);
    assert_true(found);
    pith_qmat_decode(&straight, 0, ROWS, file);
    pith_qmat_decode(&q, 0, ROWS, shown);
    for (unsigned r = 0; r < ROWS; r++)
        for (unsigned k = 0; k < KEYS; k++)
            for (unsigned e = 0; e < EACH; e++)
                assert_memory_equal(shown + r * COLS + (k * EACH + e) * SIZE,
                                    file + r * COLS + (e * KEYS + k) * SIZE, SIZE * sizeof *file);
    pith_qmat_free(&straight);
    pith_qmat_free(&q);
}

static void numbers_are_stored_as_said(void **state)
{
    (void)state;
    float x[] = {-2, 0.25f, 3}, y[3];
    memcpy(y, x, sizeof x);
    pith_stored_apply(PITH_AS_PLUS_ONE, y, 3);
    assert_true(y[0] == -1 && y[1] == 1.25f && y[2] == 4);
    pith_stored_undo(PITH_AS_PLUS_ONE, y, 3);
    assert_memory_equal(x, y, sizeof x);
    pith_stored_apply(PITH_AS_MINUS_EXP, y, 3);
    assert_true(y[1] == (float)-exp(0.25));
    pith_stored_undo(PITH_AS_MINUS_EXP, y, 3);
    for (int i = 0; i < 3; i++) assert_true(fabsf(y[i] - x[i]) < 1e-6f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_turn_as_the_converter_turns_them),
        cmocka_unit_test(parts_of_groups_stand_together),
        cmocka_unit_test(keys_of_a_latent_lie_transposed),
        cmocka_unit_test(heads_of_values_lie_tiled),
        cmocka_unit_test(blocks_may_reach_over_heads),
        cmocka_unit_test(numbers_are_stored_as_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
