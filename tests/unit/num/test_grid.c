/* num/grid: the text of grids. */
#include "base/mem.h"
#include "base/rng.h"
#include "num/grid.h"
#include "test.h"

static void assert_same(const struct pith_grid *a, const struct pith_grid *b)
{
    assert_ptr_equal(a->format, b->format);
    assert_int_equal(a->granularity, b->granularity);
    assert_int_equal(a->group, b->group);
    assert_int_equal(a->asym, b->asym);
    assert_int_equal(a->mse, b->mse);
    assert_int_equal(a->is_static, b->is_static);
    assert_int_equal(a->double_quant, b->double_quant);
    assert_int_equal(a->hqq, b->hqq);
    assert_int_equal(a->even, b->even);
    assert_int_equal(a->ceil, b->ceil);
}

/* Text, and the canonical text of what it means. */
static void texts_are_understood(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"int4:g128", "int4:g128"},
        {"int4:g128:asym", "int4:g128:asym"},
        {"INT4:ASYM:G128", "int4:g128:asym"},
        {"int3:g64:mse", "int3:g64:mse"},
        {"int8", "int8:channel"},
        {"int8:channel", "int8:channel"},
        {"int8:token", "int8:token"},
        {"int4:token:asym", "int4:token:asym"},
        {"int8:tensor:static", "int8:tensor:static"},
        {"int4:g2", "int4:g2"},
        {"int4:g65536:dq:mse:asym", "int4:g65536:asym:mse:dq"},
        {"fp8", "fp8_e4m3:channel"},
        {"fp8_e4m3:tensor", "fp8_e4m3:tensor"},
        {"fp8_e5m2", "fp8_e5m2:channel"},
        {"fp8_e4m3:block128", "fp8_e4m3:block128"},
        {"fp4_e2m1:g16", "fp4_e2m1:g16"},
        {"fp6_e3m2", "fp6_e3m2:channel"},
        {"mxfp8", "mxfp8"},
        {"mxfp6", "mxfp6_e2m3"},
        {"mxfp4:g32", "mxfp4"},
        {"mxfp4:mse", "mxfp4:mse"},
        {"nvfp4", "nvfp4"},
        {"nvfp4:static", "nvfp4:static"},
        {"nf4", "nf4:g64"},
        {"nf4:g64:dq", "nf4:g64:dq"},
        {"int4:hqq:asym:g64", "int4:g64:asym:hqq"},
        {"mxfp4:even", "mxfp4:even"},
        {"mxfp8:ceil", "mxfp8:ceil"},
        {"bnb_fp4:dq", "bnb_fp4:g64:dq"},
        {"codebook3", "codebook3:channel"},
        {"codebook4:channel", "codebook4:channel"},
        {"trellis3", "trellis3:channel"},
        {"trellis:3", "trellis3:channel"},
        {"trellis:3:channel", "trellis3:channel"},
        {"trellis:8:mul1", "trellis8:channel"},
        {"trellis:1:mcg", "trellis1_mcg:channel"},
        {"Trellis:4:3INST:channel", "trellis4_3inst:channel"},
        {"trellis:2:mul2", "trellis2_mul2:channel"},
        {"bf16", "bf16"},
        {"float16", "f16"},
        {"none", "none"},
        {"NONE", "none"},
    };
    for (size_t i = 0; i < PITH_COUNT(rows); i++) {
        struct pith_error err = {0};
        struct pith_grid g;
        char text[PITH_GRID_TEXT];
        assert_ok(pith_grid_parse(rows[i][0], &g, &err), err);
        pith_grid_format(&g, text);
        assert_string_equal(text, rows[i][1]);
    }
}

/* Text, and the words that the message must have. */
static void nonsense_is_refused_with_a_reason(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"", "starts with a format"},
        {":int4", "starts with a format"},
        {"trellis", "1 to 8 bits must follow"},
        {"trellis:9", "1 to 8 bits must follow"},
        {"trellis:16", "1 to 8 bits must follow"},
        {"trellis::mcg", "1 to 8 bits must follow"},
        {"trellis:3:mul3", "expected tensor, channel"},
        {"trellis:3:mcg:mul2", "expected tensor, channel"},
        {"int44", "did you mean int4?"},
        {"what", "there are f32 f16 bf16"},
        {"what", "nvfp4"},
        {"int9", "no such format"},
        {"int1:g64", "no such format"},
        {"fp4:g64", "bnb_fp4"},
        {"codebook5:channel", "no such format"},
        {"codebook4:g128", "only channel"},
        {"codebook4:tensor", "only channel"},
        {"codebook3:mse", "only channel"},
        {"codebook3:asym", "only integer"},
        {" int4", "no such format"},
        {"int4 :g128", "no such format"},
        {"e8m0:g32", "format of scales"},
        {"int4:", "a colon too many"},
        {"int4::asym", "a colon too many"},
        {"int4:g0", "2 to 65536"},
        {"int4:g1", "2 to 65536"},
        {"int4:g", "2 to 65536"},
        {"int4:g65537", "2 to 65536"},
        {"int4:g99999999999999999999999", "2 to 65536"},
        {"int4:g4294967424", "2 to 65536"},
        {"int4:g-128", "2 to 65536"},
        {"int4:g+128", "2 to 65536"},
        {"int4:g0128", "2 to 65536"},
        {"int4:g128x", "2 to 65536"},
        {"int4:g 128", "2 to 65536"},
        {"int4:g12.8", "2 to 65536"},
        {"int4:block", "2 to 65536"},
        {"int4:block0", "2 to 65536"},
        {"int4:g128:channel", "second granularity"},
        {"int4:g128:g128", "second granularity"},
        {"int4:asym:asym", "twice"},
        {"int4:asymm", "did you mean asym?"},
        {"int4:128", "expected tensor"},
        {"int4:sym", "did you mean asym?"},
        {"int4:tensors", "did you mean tensor?"},
        {"int4:none", "expected tensor"},
        {"int4:gggggggggggggggggggggggggggggggggggggggggggggggggggggggggg128", "too long"},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "starts with"},
        {"fp8_e4m3:asym", "only integer"},
        {"nf4:g64:asym", "only integer"},
        {"mxfp4:asym", "only integer"},
        {"nvfp4:asym", "only integer"},
        {"bf16:g128", "nothing may follow"},
        {"f32:tensor", "nothing may follow"},
        {"f16:asym", "nothing may follow"},
        {"bf16:mse", "nothing may follow"},
        {"bf16:dq", "nothing may follow"},
        {"none:g128", "nothing may follow"},
        {"none:", "nothing may follow"},
        {"mxfp4:g64", "cover 32 inputs"},
        {"mxfp8:channel", "cover 32 inputs"},
        {"nvfp4:g32", "cover 16 inputs"},
        {"nvfp4:token", "cover 16 inputs"},
        {"nvfp4:dq", "dq is not"},
        {"mxfp4:static", "cannot be static"},
        {"int8:token:static", "from that token"},
        {"int8:dq", "add a group"},
        {"nf4:tensor:dq", "add a group"},
        {"fp8_e4m3:block128:dq", "add a group"},
        {"int4:g64:hqq", "write asym"},
        {"int4:g64:asym:mse:hqq", "not mse"},
        {"nf4:hqq", "zero points of integers"},
        {"bf16:hqq", "zero points of integers"},
        {"int8:even", "mx formats only"},
        {"nvfp4:ceil", "mx formats only"},
        {"mxfp4:even:ceil", "one of"},
        {"mxfp4:mse:even", "one of"},
        {"int4:\033[31m", "?[31m"},
    };
    for (size_t i = 0; i < PITH_COUNT(rows); i++) {
        struct pith_error err = {0};
        struct pith_grid g;
        assert_int_equal(pith_grid_parse(rows[i][0], &g, &err), PITH_ARG);
        assert_int_equal(err.status, PITH_ARG);
        if (!strstr(err.text, rows[i][1])) fail_msg("%s: %s", rows[i][0], err.text);
        assert_null(g.format);
        assert_int_equal(pith_grid_parse(rows[i][0], &g, NULL), PITH_ARG);
    }
}

/* Every format x every granularity x every set of flags: what is accepted comes back from its
 * text, and the text itself is a fixed point. */
static void every_grid_comes_back(void **state)
{
    (void)state;
    static const char *const where[] = {"",       ":tensor",   ":channel", ":token", ":g2", ":g16",
                                        ":g32",   ":g128",     ":g65536",  ":block16", ":block128"};
    static const char *const flags[] = {":asym", ":mse",  ":static", ":dq",
                                        ":hqq",  ":even", ":ceil"};
    size_t count, accepted = 0;
    const struct pith_format *formats = pith_formats(&count);
    for (size_t f = 0; f < count; f++)
        for (size_t w = 0; w < PITH_COUNT(where); w++)
            for (unsigned set = 0; set < 1u << PITH_COUNT(flags); set++) {
                char text[128], once[PITH_GRID_TEXT], twice[PITH_GRID_TEXT];
                int used = snprintf(text, sizeof text, "%s%s", formats[f].name, where[w]);
                for (unsigned k = 0; k < PITH_COUNT(flags); k++)
                    if (set >> k & 1)
                        used += snprintf(text + used, sizeof text - (size_t)used, "%s", flags[k]);
                struct pith_error err = {0};
                struct pith_grid a, b;
                if (pith_grid_parse(text, &a, &err) != PITH_OK) continue;
                accepted++;
                pith_grid_format(&a, once);
                assert_ok(pith_grid_parse(once, &b, &err), err);
                assert_same(&a, &b);
                pith_grid_format(&b, twice);
                assert_string_equal(once, twice);
                const bool implied = !where[w][0] || a.format->kind == PITH_KIND_BLOCK ||
                                     a.format->kind == PITH_KIND_GGUF;
                if (!implied) assert_string_equal(once, text);
            }
    assert_true(accepted > 1000);
}

/* Random bytes and random edits of good text: no crash, and what is accepted comes back. */
static void random_text_is_harmless(void **state)
{
    (void)state;
    static const char alphabet[] = "int4fp8_e3m2:g1260asymqdblockt\x01\xff ";
    struct pith_rng rng;
    pith_rng_seed(&rng, 3);
    for (int i = 0; i < 50000; i++) {
        char text[96] = "int4:g128:asym";
        if (i % 2) memset(text, 0, sizeof text);
        const size_t edits = (size_t)pith_rng_below(&rng, i % 2 ? 95 : 4);
        for (size_t k = 0; k < edits; k++) {
            const size_t at = i % 2 ? k : (size_t)pith_rng_below(&rng, 15);
            text[at] = alphabet[pith_rng_below(&rng, sizeof alphabet - 1)];
        }
        struct pith_error err = {0};
        struct pith_grid a, b;
        char back[PITH_GRID_TEXT];
        if (pith_grid_parse(text, &a, &err) != PITH_OK) continue;
        pith_grid_format(&a, back);
        assert_ok(pith_grid_parse(back, &b, &err), err);
        assert_same(&a, &b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_understood),
        cmocka_unit_test(nonsense_is_refused_with_a_reason),
        cmocka_unit_test(every_grid_comes_back),
        cmocka_unit_test(random_text_is_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
