/* Which container can hold which grid with its codes: pith_convert_holds() for every grid that some
 * container takes, and a matrix whose sides suit all. */
#include "quantize/conversions.h"

#include "io/container/container.h"
#include "num/recode.h"
#include "quantize/convert.h"
#include "quantize/job.h"

#include <assert.h>
#include <string.h>

enum { SIDE = 4096 };

/* What inputs may be rounded to with quantized weights; some containers hold grids only so. */
static const char *const inputs[] = {
    "none",  "int8:token", "fp8_e4m3:token", "fp8_e4m3:g128", "fp8_e4m3:tensor:static",
    "mxfp8", "mxfp4",      "nvfp4:static"};

enum { INPUTS = sizeof inputs / sizeof *inputs, CONTAINERS_MAX = 64 };

/* One grid, and the options of inputs that each container needs for it. */
struct request {
    struct pith_container_opts opts[INPUTS];
    const struct pith_grid *grid;
    size_t
        with[CONTAINERS_MAX]; /* by container: of the inputs; INPUTS: it does not take the grid */
};

static void start(struct request *q)
{
    for (size_t i = 0; i < INPUTS; i++) {
        q->opts[i] = (struct pith_container_opts){.model_dtype = PITH_BF16};
        (void)pith_grid_parse(inputs[i], &q->opts[i].acts, NULL);
    }
}

/* False when no container takes the grid. */
static bool find_targets(struct request *q, const struct pith_grid *g)
{
    size_t count;
    const struct pith_container *const *all = pith_containers(&count);
    bool taken = false;
    q->grid = g;
    assert(count <= CONTAINERS_MAX);
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (k < INPUTS && all[i]->accepts(g, SIDE, SIDE, &q->opts[k], NULL) != PITH_OK) k++;
        q->with[i] = k;
        taken |= k < INPUTS;
    }
    return taken;
}

/* Tries weights alone first; where the inputs prevent that, with each rounding of inputs. */
static bool holds_from(const struct request *q, size_t from, const struct pith_container *to,
                       struct pith_grid *stored)
{
    for (size_t k = 0; k <= INPUTS; k++) {
        if (k && k - 1 == q->with[from]) continue;
        const struct pith_container_opts *o = &q->opts[k ? k - 1 : q->with[from]];
        const struct pith_convert_case x = {q->grid, SIDE, SIDE, o};
        if (pith_convert_holds(to, &x, stored)) return true;
    }
    return false;
}

/* Whether halves, or whatever the target's scales are, hold those of a BF16 model's checkpoint. */
static bool scales_stay(const struct pith_container *from, const struct pith_container *to,
                        const struct pith_grid *a, const struct pith_grid *b)
{
    const bool minimums = b->format->kind == PITH_KIND_GGUF && !pith_grid_equal(a, b);
    const bool own = a->format->kind == PITH_KIND_GGUF || a->format->kind == PITH_KIND_BLOCK;
    if (pith_grid_equal(a, b) && own) return true;
    if (minimums || own || to->stated_scale) return false;
    const enum pith_dtype x = from->scale_dtype(a, PITH_BF16), y = to->scale_dtype(b, PITH_BF16);
    return x == y || y == PITH_F32;
}

static void set_cell(struct pith_report *r, const struct request *q, size_t target)
{
    size_t count;
    const struct pith_container *const *all = pith_containers(&count), *to = all[target];
    struct pith_grid stored;
    bool any = false, stay = true;
    char text[PITH_GRID_TEXT + 24] = "anew";
    for (size_t i = 0; i < count; i++) {
        if (q->with[i] == INPUTS || i == target || !holds_from(q, i, to, &stored)) continue;
        any = true;
        stay = stay && scales_stay(all[i], to, q->grid, &stored);
        pith_grid_format(&stored, text);
    }
    if (q->with[target] < INPUTS && !any) strcpy(text, "itself");
    if (any && !stay) strcat(text, " *");
    pith_report_set(r, to->name, pith_words(text));
}

static void add_grid(struct pith_report *r, const struct request *q)
{
    size_t count;
    const struct pith_container *const *all = pith_containers(&count);
    char text[PITH_GRID_TEXT];
    pith_grid_format(q->grid, text);
    pith_report_open(r, "");
    pith_report_set(r, "grid", pith_words(text));
    for (size_t i = 0; i < count; i++)
        if (all[i]->pack) set_cell(r, q, i); /* it is written */
    pith_report_close(r);
}

void pith_conversions(struct pith_report *r)
{
    static const char *const shapes[] = {
        "", ":tensor", ":g128", ":g128:asym", ":g128:asym:hqq", ":block128", ":dq"};
    size_t count;
    const struct pith_format *f = pith_formats(&count);
    struct request q;
    start(&q);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            char text[64];
            struct pith_grid g, usual;
            strcpy(text, f[i].name);
            strcat(text, shapes[k]);
            if (pith_grid_parse(text, &g, NULL) != PITH_OK || !find_targets(&q, &g)) continue;
            const bool again = k > 0 && pith_grid_parse(f[i].name, &usual, NULL) == PITH_OK &&
                               pith_grid_equal(&g, &usual); /* a block of that width */
            if (!again) add_grid(r, &q);
        }
}
