/* plan/hardware/natives: what engines compute natively on which device, row by row of what tables
 * advise. */
#include "plan/hardware/natives.h"
#include "test.h"

#include <string.h>

struct row {
    const char *engine, *container, *weights, *acts, *hardware;
    enum pith_native want;
    const char *said;
};

static const struct row rows[] = {
    {"vllm", "compressed-tensors", "fp8_e4m3:channel", "fp8_e4m3:token", "h100-sxm",
     PITH_NATIVE_YES, ""},
    {"vllm", "compressed-tensors", "fp8_e4m3:channel", "fp8_e4m3:token", "l4", PITH_NATIVE_YES, ""},
    {"vllm", "compressed-tensors", "fp8_e4m3:channel", "fp8_e4m3:token", "a100-sxm4-80",
     PITH_NATIVE_LESS, "Marlin"},
    {"trtllm", "compressed-tensors", "fp8_e4m3:channel", "fp8_e4m3:token", "a100-sxm4-80",
     PITH_NATIVE_REFUSED, "compute capability 8.0"},
    {"vllm", "compressed-tensors", "int8:channel", "int8:token", "t4", PITH_NATIVE_YES, ""},
    {"vllm", "compressed-tensors", "int8:channel", "int8:token", "b200-sxm", PITH_NATIVE_REFUSED,
     "up to 9.9"},
    {"vllm", "compressed-tensors", "nvfp4", "nvfp4:static", "b200-sxm", PITH_NATIVE_YES, ""},
    {"vllm", "compressed-tensors", "nvfp4", "nvfp4:static", "h100-sxm", PITH_NATIVE_LESS, "W4A16"},
    {"trtllm", "compressed-tensors", "nvfp4", "nvfp4:static", "h100-sxm", PITH_NATIVE_REFUSED,
     "from 10.0"},
    {"vllm", "compressed-tensors", "int4:g128", "none", "t4", PITH_NATIVE_YES, ""},
    {"vllm", "awq", "int4:g128:asym", "none", "v100-sxm2-16", PITH_NATIVE_REFUSED, "from 7.5"},
    {"vllm", "gptq", "int4:g128", "none", "v100-sxm2-16", PITH_NATIVE_YES, ""},
    {"transformers", "compressed-tensors", "int8:channel", "int8:token", "h100-sxm",
     PITH_NATIVE_LESS, "rounds inputs"},
    {"vllm", "compressed-tensors", "fp8_e4m3:channel", "fp8_e4m3:token", "mi300x", PITH_NATIVE_YES,
     ""},
    {"vllm", "compressed-tensors", "fp8_e4m3:channel", "fp8_e4m3:tensor:static", "mi300x",
     PITH_NATIVE_YES, ""},
    {"other", "compressed-tensors", "fp8_e4m3:channel", "fp8_e4m3:tensor:static", "mi300x",
     PITH_NATIVE_LESS, "without a negative zero"},
    {"vllm", "compressed-tensors", "nvfp4", "nvfp4:static", "mi300x", PITH_NATIVE_LESS,
     "no fp4 units"},
};

static void what_tables_advise(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *r = &rows[i];
        struct pith_error err = {0};
        struct pith_native_case c = {.engine = r->engine, .container = r->container};
        char why[PITH_NATIVE_WHY];
        assert_ok(pith_hardware_get(r->hardware, &c.hardware, &err), err);
        assert_ok(pith_grid_parse(r->weights, &c.weights, &err), err);
        if (strcmp(r->acts, "none") != 0) assert_ok(pith_grid_parse(r->acts, &c.acts, &err), err);
        const enum pith_native got = pith_native_ask(&c, why);
        if (got != r->want || !strstr(why, r->said) || (got == PITH_NATIVE_YES) != !*why)
            fail_msg("row %zu: %s on %s: %d, \"%s\"", i, r->acts, r->hardware, (int)got, why);
    }
}

static void names_of_hardware(void **state)
{
    (void)state;
    struct pith_error err = {0};
    const struct pith_hardware *h;
    assert_ok(pith_hardware_get("H100", &h, &err), err);
    assert_string_equal(h->name, "h100-sxm");
    assert_int_equal(pith_hardware_get("h10", &h, &err), PITH_ARG);
    assert_null(pith_hardware_find(""));
    for (size_t i = 0; i < pith_hardware_count(); i++) {
        h = pith_hardware_at(i);
        assert_true((h->capability > 0) == (strcmp(h->vendor, "NVIDIA") == 0 && !h->cpu));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_tables_advise),
        cmocka_unit_test(names_of_hardware),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
