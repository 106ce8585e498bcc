/* Which relative errors of a linear are a warning, and which are refused: the one place. */
#include "quantize/site/error_limits.h"

#include "quantize/job.h"

#include <math.h>

/* Rounding to nearest leaves about 0.1 of weights in 4 bits, 0.2 in 3, 0.45 in 2; zeros (2:4) 0.35
 * of those that models have. Beyond a half, most of a matrix is not what it was. */
static const double warns_above = 0.3, fails_above = 0.5;
/* Where others make up for the error of one weight (zeros in each four, rounding that looks at the
 * inputs), weights go further from the original's than outputs do: refused is what is as far from
 * them as no weights at all, which would be 1. */
static const double fails_above_made_up = 0.99;
/* Where losses are measured at the outputs: a linear is reported for more than this share of their
 * sum, if that is so many times the mean share. */
static const double heavy_share = 0.15, heavy_times = 10;

enum pith_status pith_judge(const struct pith_job *job, const struct pith_choice *c, double error,
                            struct pith_error *err)
{
    const bool made_up = job->recipe.split->two_four || job->needs_round;
    const double usual = made_up ? fails_above_made_up : fails_above;
    const double allowed = job->options->allow_error > 0 ? job->options->allow_error : usual;
    if (error <= allowed) return PITH_OK;
    return pith_fail(err, PITH_NUMERIC,
                     "%s: would differ from the original by %.3g of it (relative error; %.3g is "
                     "allowed): take more bits or smaller groups, leave it alone with `ignore`, or "
                     "`allow_error` %.2g",
                     c->module, error, allowed, ceil(error * 20) / 20);
}

static double loss_of(const json_t *linear)
{
    return json_number_value(json_object_get(linear, "loss"));
}

/* Those that carry far more of the loss at the outputs than others. */
static json_t *heavy(const json_t *linears)
{
    const json_t *l;
    size_t i;
    double all = 0;
    json_t *list = json_array();
    json_array_foreach (linears, i, l) all += loss_of(l);
    const double usual = 1.0 / (double)(json_array_size(linears) + 1);
    const double limit = heavy_times * usual > heavy_share ? heavy_times * usual : heavy_share;
    json_array_foreach (linears, i, l)
        if (all > 0 && loss_of(l) >= limit * all && limit < 1)
            pith_json_add(&list, json_pack("{s:O, s:f, s:f}", "linear", json_object_get(l, "name"),
                                           "loss_share", loss_of(l) / all, "limit", limit));
    return list;
}

json_t *pith_judge_warnings(const json_t *linears, bool outputs)
{
    const json_t *l;
    size_t i;
    if (outputs) return heavy(linears);
    json_t *list = json_array();
    json_array_foreach (linears, i, l) {
        const double error = json_number_value(json_object_get(l, "relative_error"));
        if (error <= warns_above) continue;
        pith_json_add(&list, json_pack("{s:O, s:f, s:f}", "linear", json_object_get(l, "name"),
                                       "relative_error", error, "limit", warns_above));
    }
    return list;
}
