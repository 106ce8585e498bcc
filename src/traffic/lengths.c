#include "traffic/lengths.h"

#include "base/mem.h"

#include <pith/names.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* No prompt or answer is longer. */
#define LENGTH_MOST 16777216.0

/* --- drawing ---------------------------------------------------------------------------------- */

static double draw_fixed(const struct pith_lengths *lengths, struct pith_rng *rng)
{
    (void)rng;
    return lengths->number[0];
}

static double draw_uniform(const struct pith_lengths *lengths, struct pith_rng *rng)
{
    const double low = lengths->number[0], high = lengths->number[1];
    return low + (double)pith_rng_below(rng, (uint64_t)(high - low) + 1);
}

static double draw_normal(const struct pith_lengths *lengths, struct pith_rng *rng)
{
    return lengths->number[0] + lengths->number[1] * pith_rng_normal(rng);
}

static double draw_lognormal(const struct pith_lengths *lengths, struct pith_rng *rng)
{
    return lengths->number[0] * exp(lengths->number[1] * pith_rng_normal(rng));
}

static double gap_poisson(struct pith_rng *rng)
{
    return -log1p(-pith_rng_unit(rng));
}

static double draw_exponential(const struct pith_lengths *lengths, struct pith_rng *rng)
{
    return lengths->number[0] * gap_poisson(rng);
}

static double draw_either(const struct pith_lengths *lengths, struct pith_rng *rng)
{
    return lengths->number[pith_rng_below(rng, lengths->numbers)];
}

size_t pith_lengths_draw(const struct pith_lengths *lengths, struct pith_rng *rng)
{
    const double x = round(lengths->kind->draw(lengths, rng));
    return (size_t)fmin(fmax(x, lengths->least), lengths->most);
}

/* --- gaps ------------------------------------------------------------------------------------- */

static double gap_even(struct pith_rng *rng)
{
    (void)rng;
    return 1;
}

/* A gamma variable of shape 1/4 and mean 1: Marsaglia and Tsang (2000), "A simple method for
 * generating gamma variables", for shape 5/4, times u^4 to come down to 1/4. */
static double gap_bursts(struct pith_rng *rng)
{
    const double shape = 0.25, d = shape + 1 - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        const double x = pith_rng_normal(rng), root = 1 + c * x, v = root * root * root;
        const double u = 1 - pith_rng_unit(rng);
        if (v > 0 && log(u) < 0.5 * x * x + d - d * v + d * log(v))
            return d * v * pow(1 - pith_rng_unit(rng), 1 / shape) / shape;
    }
}

static const struct pith_arrivals arrivals[] = {
    {"poisson", "each on its own, as from many people", gap_poisson},
    {"even", "at equal distances", gap_even},
    {"bursts", "gaps of a gamma distribution of shape 1/4: four times Poisson's variance",
     gap_bursts},
};

const struct pith_arrivals *pith_arrivals_find(const char *name)
{
    for (size_t i = 0; i < PITH_COUNT(arrivals); i++)
        if (pith_name_equal(arrivals[i].name, name)) return &arrivals[i];
    return NULL;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* A number that ends at one of `stops` or at the end of the text, from 0 to the longest length. */
static bool take_number(const char **text, const char *stops, double *out)
{
    char *end;
    if ((**text < '0' || **text > '9') && **text != '.') return false;
    const double x = strtod(*text, &end);
    if (end == *text || (*end && !strchr(stops, *end)) || !(x >= 0 && x <= LENGTH_MOST))
        return false;
    *text = end;
    *out = x;
    return true;
}

/* The number that stands for itself: "256", "8k". */
static bool take_first(const char **text, double *out)
{
    char number[32] = "";
    uint64_t n;
    const size_t size = strcspn(*text, ",");
    if (size >= sizeof number) return false;
    memcpy(number, *text, size);
    if (!pith_number_parse(number, &n) || (double)n > LENGTH_MOST) return false;
    *text += size;
    *out = (double)n;
    return true;
}

/* ",min=N,max=N" at the end. */
static bool take_cuts(const char *text, struct pith_lengths *out)
{
    while (*text == ',') {
        double *const cut = strncmp(text, ",min=", 5) == 0   ? &out->least
                            : strncmp(text, ",max=", 5) == 0 ? &out->most
                                                             : NULL;
        text += 5;
        if (!cut || !take_number(&text, ",", cut)) return false;
    }
    return !*text && out->least >= 1 && out->most >= out->least;
}

static const struct pith_lengths_kind kinds[] = {
    {"fixed", 1, 1, "N", "always N", draw_fixed},
    {"uniform", 2, 2, "LOW:HIGH", "each from LOW to HIGH alike", draw_uniform},
    {"normal", 2, 2, "MEAN:DEVIATION", "a bell around MEAN", draw_normal},
    {"lognormal", 2, 2, "MEDIAN:SIGMA", "as people write: half below MEDIAN, few far above",
     draw_lognormal},
    {"exponential", 1, 1, "MEAN", "many short ones, few long ones", draw_exponential},
    {"either", 2, 8, "N:N...", "one of these, each as often", draw_either},
};

static const struct pith_lengths_kind *kind_of(const char *text, size_t size)
{
    char name[24] = "";
    if (size < sizeof name) memcpy(name, text, size);
    for (size_t i = 0; i < PITH_COUNT(kinds); i++)
        if (pith_name_equal(kinds[i].name, name)) return &kinds[i];
    return NULL;
}

static enum pith_status fail_kind(const char *text, const char *option, struct pith_error *err)
{
    const char *names[16], *near;
    char name[64] = "";
    const size_t size = strcspn(text, ":,");
    memcpy(name, text, size < sizeof name ? size : sizeof name - 1);
    for (size_t i = 0; i < PITH_COUNT(kinds); i++) names[i] = kinds[i].name;
    near = pith_name_nearest(name, names, PITH_COUNT(kinds));
    return pith_fail(
        err, PITH_ARG, "%s %.64s: no distribution of lengths%s%s%s; one is a number, or %s:%s",
        option, text, near ? "; did you mean " : "", near ? near : "", near ? "?" : "",
        near ? near : "uniform", near ? kind_of(near, strlen(near))->numbers : "LOW:HIGH");
}

enum pith_status pith_lengths_parse(const char *text, const char *option, struct pith_lengths *out,
                                    struct pith_error *err)
{
    const size_t size = strcspn(text, ":,");
    const bool bare = *text >= '0' && *text <= '9';
    const struct pith_lengths_kind *kind = bare ? &kinds[0] : kind_of(text, size);
    const char *at = bare ? text : text + size;
    *out = (struct pith_lengths){.kind = kind, .least = 1, .most = LENGTH_MOST};
    if (!kind) return fail_kind(text, option, err);
    bool good = bare ? take_first(&at, &out->number[out->numbers++]) : true;
    while (good && *at == ':') {
        at++;
        good = out->numbers < PITH_LENGTHS_NUMBERS &&
               take_number(&at, ":,", &out->number[out->numbers++]);
    }
    good = good && out->numbers >= kind->least && out->numbers <= kind->most && take_cuts(at, out);
    if (good && kind->draw == draw_uniform) good = out->number[0] <= out->number[1];
    if (good && kind->draw != draw_normal) good = out->number[0] > 0;
    if (good) return PITH_OK;
    return pith_fail(err, PITH_ARG, "%s %.64s: %s takes %s, then perhaps ,min=N and ,max=N", option,
                     text, kind->name, kind->numbers);
}
