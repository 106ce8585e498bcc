/* What a run says of its account: parts that few models have. */
#include "quantize/output/summary.h"

#include <pith/context.h>

#include "test.h"

#include <string.h>

static char *text_of(const char *account, bool convert)
{
    struct pith_error err = {0};
    json_t *j;
    char *text;
    const struct pith_quantize_options o = {.out = "out", .requantize = true, .weights = "int8"};
    const struct pith_job job = {.options = &o, .convert = convert};
    assert_ok(pith_json_parse(account, strlen(account), "an account", &j, &err), err);
    struct pith_report *r = pith_account_report(&job, j);
    assert_non_null(r);
    const struct pith_report_form form = {0};
    assert_ok(pith_report_write(r, &form, &text, &err), err);
    assert_non_null(pith_report_remark(r));
    assert_non_null(strstr(pith_report_remark(r),
                           convert ? "`weights=int8` did nothing" : "`requantize` does nothing"));
    pith_report_free(&r);
    return text;
}

static void has(const char *text, const char *line)
{
    if (!strstr(text, line)) fail_msg("no '%s' in:\n%s", line, text);
}

static void test_quantized(void **state)
{
    (void)state;
    char *text = text_of(
        "{\"recipe\": {\"name\": \"q\", \"split\": \"none\", \"weights\": \"int4\"},"
        " \"calibration\": {\"tokens\": 64, \"tokens_asked\": 70, \"tokens_available\": 99,"
        " \"seq_len\": 32, \"seq_len_asked\": 40, \"sources\": [\"builtin\", \"a.txt\"],"
        " \"messages\": \"joined\"},"
        " \"experts\": {\"rule\": \"pooled\", \"few\": 9, \"layers\":"
        " [{\"layer\": 0, \"tokens\": [9, 8]}, {\"layer\": 2, \"tokens\": [7, 6]}]},"
        " \"groups\": [{\"grid\": \"int4:g32\", \"wanted\": \"int4:g128\", \"linears\": 1,"
        " \"columns\": [96]}],"
        " \"linears\": [{\"name\": \"a\", \"shape\": [1, 96], \"grid\": \"int8\","
        " \"wanted\": \"q6_k\", \"loss\": 1, \"loss_nearest\": 2},"
        " {\"name\": \"b\", \"shape\": [1, 96], \"grid\": \"int8\", \"loss\": 3, \"damp\": 0.1,"
        " \"loss_nearest\": 4}],"
        " \"losses\": \"outputs\","
        " \"warnings\": [{\"linear\": \"b\", \"loss_share\": 0.75, \"limit\": 0.5}]}",
        false);
    has(text, "out: every tensor accounted for");
    has(text, "  recipe           q: weights int4\n");
    has(text, "64 tokens in windows of 32 of the text that ships, a.txt\n");
    has(text,
        "1 of 2 linears have more inputs (up to 96) than calibration has tokens (64): rounding");
    has(text, "conversations joined by blank lines: no chat template\n");
    has(text, "70 were wanted: whole windows are read; `seq_len` is their length\n");
    has(text, "windows of 40 were wanted: the model's context is 32\n");
    has(text,
        "4, calibrated by the rule pooled; warning: 3 were taken by fewer than 9 tokens of the"
        " text: layer 0: 1 (8); layer 2: 0 (7), 1 (6)\n");
    has(text, "1 of 2 linears, whose rows are no whole blocks (96 weights), by llama.cpp's rule:"
              " int8 instead of q6_k (a)\n");
    has(text, "int4:g32 instead of int4:g128 in 1 of 2 linears, since its groups do not divide rows"
              " of 96\n");
    has(text, "  sum of losses    4 (rounding to nearest: 6)\n");
    has(text, "    loss 3          (75% of all) error 0.0000  b\n"
              "    loss 1          (25% of all) error 0.0000  a\n");
    has(text, "  warning          b carries 75% of the loss at the outputs\n");
    pith_text_free(text);
}

static void test_converted(void **state)
{
    (void)state;
    char *text =
        text_of("{\"converted_from\": \"gptq\", \"container\": \"awq\", \"linears\":"
                " [{\"name\": \"a\", \"conversion\": \"exact\"},"
                " {\"name\": \"b\", \"conversion\": \"scales rounded\", \"grid\": \"int4\","
                " \"largest_change\": 0.01}]}",
                true);
    assert_string_equal(
        text, "out: converted from gptq to awq, every tensor accounted for and read back\n"
              "  lossless         1 of 2 linears stand for the same weights to the bit\n"
              "  scales rounded   1 keep their codes (int4); a weight moves by 1% of its group's"
              " range at most, b\n");
    pith_text_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantized),
        cmocka_unit_test(test_converted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
