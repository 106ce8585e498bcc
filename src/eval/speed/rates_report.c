#include "eval/speed/rates_report.h"

#include "eval/speed/rates.h"
#include "model/kv/kv.h"

static const size_t rate_rows[] = {1, 2, 4, 8, 16, 64, 256, 512};
enum { RATES = sizeof rate_rows / sizeof rate_rows[0] };

static void add_rate(json_t **kernels, const char *kind, const char *name, const double *seconds)
{
    json_t *rows = json_array(), *list = json_array();
    for (size_t i = 0; i < RATES; i++) {
        pith_json_add(&rows, json_integer((json_int_t)rate_rows[i]));
        pith_json_add(&list, json_real(seconds[i]));
    }
    pith_json_add(kernels, json_pack("{s:s, s:o, s:o}", kind, name, "rows", rows, "seconds", list));
}

/* Matrices in 16 bits are part of any model: its head. */
static enum pith_status measure_matrices(struct pith_backend *be, const struct pith_list *grids,
                                         json_t **kernels, struct pith_error *err)
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
                                       json_t **kernels, struct pith_error *err)
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

static enum pith_status measure_rest(struct pith_backend *be, json_t **kernels,
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
    json_t *list = json_array();
    enum pith_status s = measure_matrices(be, weights, &list, err);
    if (s == PITH_OK) s = measure_caches(be, caches, &list, err);
    if (s == PITH_OK) s = measure_rest(be, &list, err);
    if (s == PITH_OK && !list) s = pith_fail_nomem(err, "kernels");
    if (s != PITH_OK) {
        json_decref(list);
        list = NULL;
    }
    *kernels = list;
    return s;
}
