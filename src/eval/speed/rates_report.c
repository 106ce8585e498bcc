#include "eval/speed/rates_report.h"

#include "eval/speed/rates.h"
#include "model/kv/kv.h"
#include "report/report.h"

static const size_t rate_rows[] = {1, 2, 4, 8, 16, 64, 256, 512};
enum { RATES = sizeof rate_rows / sizeof rate_rows[0] };

static void add_rate(struct pith_report *r, const char *kind, const char *name,
                     const double *seconds)
{
    pith_report_open(r, "");
    pith_report_set(r, kind, pith_words(name));
    pith_report_list(r, "rows");
    for (size_t i = 0; i < RATES; i++) pith_report_set(r, "", pith_count(rate_rows[i]));
    pith_report_close(r);
    pith_report_list(r, "seconds");
    for (size_t i = 0; i < RATES; i++) pith_report_set(r, "", pith_real(seconds[i], 6));
    pith_report_close(r);
    pith_report_close(r);
}

/* Matrices in 16 bits are part of any model: its head. */
static enum pith_status measure_matrices(struct pith_backend *be, const struct pith_list *grids,
                                         struct pith_report *kernels, struct pith_error *err)
{
    double seconds[RATES];
    const struct pith_grid none = {0};
    PITH_TRY(pith_rate_matrix(be, &none, rate_rows, RATES, seconds, err));
    add_rate(kernels, "grid", "none", seconds);
    for (size_t i = 0; i < grids->count; i++) {
        struct pith_grid g;
        char name[PITH_GRID_TEXT];
        PITH_TRY(pith_grid_parse(grids->item[i], &g, err));
        if (!g.format) continue;
        pith_grid_format(&g, name);
        PITH_TRY(pith_rate_matrix(be, &g, rate_rows, RATES, seconds, err));
        add_rate(kernels, "grid", name, seconds);
    }
    return PITH_OK;
}

static enum pith_status measure_caches(struct pith_backend *be, const struct pith_list *caches,
                                       struct pith_report *kernels, struct pith_error *err)
{
    static const char *const usual[] = {"bf16"};
    const struct pith_list those = caches->count ? *caches : (struct pith_list){usual, 1};
    for (size_t i = 0; i < those.count; i++) {
        double seconds[RATES];
        struct pith_kv_format f;
        char name[PITH_KV_TEXT];
        PITH_TRY(pith_kv_parse(those.item[i], PITH_BF16, NULL, &f, err));
        pith_kv_name(&f, name);
        pith_kv_format_free(&f);
        PITH_TRY(pith_rate_cache(be, those.item[i], rate_rows, RATES, seconds, err));
        add_rate(kernels, "cache", name, seconds);
    }
    return PITH_OK;
}

static enum pith_status measure_rest(struct pith_backend *be, struct pith_report *kernels,
                                     struct pith_error *err)
{
    double seconds[RATES];
    PITH_TRY(pith_rate_rest(be, rate_rows, RATES, seconds, err));
    add_rate(kernels, "rest", "layer", seconds);
    return PITH_OK;
}

enum pith_status pith_rates_report(struct pith_backend *be, const struct pith_list *weights,
                                   const struct pith_list *caches, json_t **kernels,
                                   struct pith_error *err)
{
    struct pith_report *r = pith_report_new();
    *kernels = NULL;
    if (!r) return pith_fail_nomem(err, "kernels");
    pith_report_listed(r);
    enum pith_status s = measure_matrices(be, weights, r, err);
    if (s == PITH_OK) s = measure_caches(be, caches, r, err);
    if (s == PITH_OK) s = measure_rest(be, r, err);
    if (s == PITH_OK && !(*kernels = pith_report_tree(r))) s = pith_fail_nomem(err, "kernels");
    pith_report_free(&r);
    return s;
}
