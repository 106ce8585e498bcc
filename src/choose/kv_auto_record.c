#include "choose/kv_auto_record.h"

#include <math.h>
#include <string.h>

json_t *pith_kv_cost_json(const struct pith_kv_cost *row)
{
    return json_pack("{s:s, s:s, s:i, s:I, s:f, s:f}", "part", row->part, "grid", row->grid,
                     "recent", row->recent, "bytes", (json_int_t)row->bytes, "kld", row->kld,
                     "kld_capped", row->capped);
}

static bool is_text(const json_t *from, const char *key, const char *text)
{
    const char *there = json_string_value(json_object_get(from, key));
    return there && strcmp(there, text) == 0;
}

static bool is_whole(const json_t *from, const char *key, uint64_t x)
{
    const json_t *there = json_object_get(from, key);
    return json_is_integer(there) && json_integer_value(there) == (json_int_t)x;
}

bool pith_kv_cost_take(const json_t *from, struct pith_kv_cost *row)
{
    const json_t *kld = json_object_get(from, "kld"), *capped = json_object_get(from, "kld_capped");
    row->kld = json_number_value(kld);
    row->capped = json_number_value(capped);
    return json_is_number(kld) && row->kld >= 0 && json_is_number(capped) && row->capped >= 0 &&
           is_text(from, "part", row->part) && is_text(from, "grid", row->grid) &&
           is_whole(from, "recent", (uint64_t)row->recent) && is_whole(from, "bytes", row->bytes);
}

json_t *pith_kv_rows_json(const struct pith_kv_rows_source *of, json_t *rows)
{
    return json_pack("{s:i, s:s, s:s, s:I, s:I, s:I, s:b, s:b, s:o, s:[]}", "kv_auto", 1,
                     "checkpoint", of->checkpoint, "text_sha256", of->text_sha256, "tokens",
                     (json_int_t)of->tokens, "context", (json_int_t)of->context, "numbers",
                     (json_int_t)of->numbers, "levels", of->levels, "shared", of->shared, "rows",
                     rows, "assignments");
}

enum pith_status pith_kv_assignment_add(json_t *record, const struct pith_kv_assignment *a,
                                        json_t *layers, struct pith_error *err)
{
    const struct pith_refined *whole = a->losses.whole;
    json_t *one = json_pack("{s:f, s:f, s:f, s:o}", "budget", a->budget, "bits", a->bits, "kld_sum",
                            a->losses.sum, "layers", layers);
    if (whole) {
        pith_json_set(&one, "kld_capped", json_real(whole->loss));
        pith_json_set(&one, "kld_capped_first", json_real(whole->first));
        pith_json_set(&one, "measured", json_integer((json_int_t)whole->measured));
        pith_json_set(&one, "tokens", json_integer((json_int_t)a->losses.tokens));
        if (isfinite(whole->start))
            pith_json_set(&one, "kld_capped_uniform", json_real(whole->start));
    }
    return json_array_append_new(json_object_get(record, "assignments"), one) == 0
               ? PITH_OK
               : pith_fail_nomem(err, "the KV cache's record");
}

bool pith_kv_assignment_find(const json_t *record, double budget, const json_t **layers)
{
    const json_t *a;
    size_t i;
    json_array_foreach (json_object_get(record, "assignments"), i, a)
        if (json_number_value(json_object_get(a, "budget")) == budget) {
            *layers = json_object_get(a, "layers");
            return true;
        }
    return false;
}
