/* quant/round/gptq.c against the authors' implementation on the same Hessian and grid. */
#include "oracle.h"

static enum pith_act_order order_of(const char *text)
{
    if (strcmp(text, "none") == 0) return PITH_ORDER_NONE;
    return strcmp(text, "static") == 0 ? PITH_ORDER_STATIC : PITH_ORDER_GROUP;
}

static void check_case(const json_t *c, FILE *codes)
{
    uint64_t state = count_of(c, "seed");
    struct problem p = {.rows = count_of(c, "rows"), .cols = count_of(c, "cols")};
    const size_t n = (size_t)p.rows * p.cols;
    p.tokens = 2 * p.cols;
    p.w = oracle_weights(&state, p.rows, p.cols);
    p.x = oracle_inputs(&state, p.tokens, p.cols);
    p.h = malloc((size_t)p.cols * p.cols * sizeof *p.h);
    fill_hessian(&p);
    p.stats = (struct pith_stats){.dim = p.cols, .tokens = p.tokens, .hessian = p.h};

    uint8_t *want = malloc(n), *got = malloc(n);
    assert_int_equal(fread(want, 1, n, codes), n);
    struct pith_error err = {0};
    struct pith_qmat q;
    struct pith_round_report report;
    assert_ok(run_rounder("gptq", &p, text_of(c, "grid"), order_of(text_of(c, "order")), 2, &q,
                          &report, &err),
              err);
    size_t same = 0;
    for (uint32_t r = 0; r < p.rows; r++) pith_qmat_get_codes(&q, r, got + (size_t)r * p.cols);
    for (size_t i = 0; i < n; i++) same += want[i] == got[i];
    const double loss = json_real_value(json_object_get(c, "loss"));
    print_message("%-18s %-6s loss %.6g, reference %.6g (%+.3f%%), %.3f%% of codes equal\n",
                  text_of(c, "grid"), text_of(c, "order"), report.loss, loss,
                  100.0 * (report.loss / loss - 1.0), 100.0 * (double)same / (double)n);
    assert_true(fabs(report.loss - loss) <= 0.02 * loss);
    assert_true((double)same >= 0.98 * (double)n);
    free(want), free(got);
    pith_qmat_free(&q);
    free_problem(&p);
}

static void losses_are_the_reference_implementations(void **state)
{
    (void)state;
    json_t *golden = load_golden("gptq.json");
    FILE *codes = fopen("tests/golden/quant/gptq.codes", "rb");
    assert_non_null(codes);
    size_t i;
    json_t *c;
    json_array_foreach (json_object_get(golden, "cases"), i, c) check_case(c, codes);
    assert_int_equal(i, 14);
    fclose(codes);
    json_decref(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_the_reference_implementations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
