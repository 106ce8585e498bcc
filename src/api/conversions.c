/* Which container can hold which grid with its codes: pith_convert_holds() asked of every grid that
 * some container takes, for a matrix whose sides suit all. */
#include "api/conversions.h"

#include "io/container.h"
#include "num/recode.h"
#include "pipe/job.h"

#include <string.h>

enum { SIDE = 4096 };

/* What inputs may be rounded to beside weights; some containers hold grids only so. */
static const char *const inputs[] = {
    "none",  "int8:token", "fp8_e4m3:token", "fp8_e4m3:g128", "fp8_e4m3:tensor:static",
    "mxfp8", "mxfp4",      "nvfp4:static"};

static struct pith_container_opts opts_of(const char *acts)
{
    struct pith_container_opts o = {.model_dtype = PITH_BF16};
    (void)pith_grid_parse(acts, &o.acts, NULL);
    return o;
}

/* NULL when the container does not take that grid, whatever the inputs. */
static const char *inputs_for(const struct pith_container *c, const struct pith_grid *g)
{
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        const struct pith_container_opts o = opts_of(inputs[i]);
        if (c->accepts(g, SIDE, SIDE, &o, NULL) == PITH_OK) return inputs[i];
    }
    return NULL;
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

static json_t *cell(const struct pith_container *to, const struct pith_grid *g)
{
    size_t count;
    const struct pith_container *const *all = pith_containers(&count);
    struct pith_grid held;
    bool any = false, stay = true;
    char text[PITH_GRID_TEXT + 24] = "anew";
    for (size_t i = 0; i < count; i++) {
        const char *acts = inputs_for(all[i], g);
        if (!acts || all[i] == to) continue;
        struct pith_container_opts o = opts_of(acts);
        const struct pith_convert_case x = {g, SIDE, SIDE, &o};
        bool holds = pith_convert_holds(to, &x, &held);
        /* Weights alone are what is asked: where the inputs stand in the way, without them. */
        for (size_t k = 0; !holds && k < sizeof inputs / sizeof *inputs; k++) {
            o = opts_of(inputs[k]);
            holds = pith_convert_holds(to, &x, &held);
        }
        if (!holds) continue;
        any = true;
        stay = stay && scales_stay(all[i], to, g, &held);
        pith_grid_format(&held, text);
    }
    if (inputs_for(to, g) && !any) return json_string("itself");
    if (any && !stay) strcat(text, " *");
    return json_string(text);
}

/* Whether some container takes the grid. */
static bool taken(const struct pith_grid *g)
{
    size_t count;
    const struct pith_container *const *all = pith_containers(&count);
    for (size_t i = 0; i < count; i++)
        if (inputs_for(all[i], g)) return true;
    return false;
}

static json_t *row_of(const struct pith_grid *g)
{
    size_t count;
    const struct pith_container *const *all = pith_containers(&count);
    char text[PITH_GRID_TEXT];
    pith_grid_format(g, text);
    json_t *row = json_pack("{s:s}", "grid", text);
    for (size_t i = 0; i < count; i++)
        if (all[i]->pack) pith_json_set(&row, all[i]->name, cell(all[i], g)); /* it is written */
    return row;
}

json_t *pith_conversions(void)
{
    static const char *const shapes[] = {
        "", ":tensor", ":g128", ":g128:asym", ":g128:asym:hqq", ":block128", ":dq"};
    size_t count;
    const struct pith_format *f = pith_formats(&count);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            char text[64];
            struct pith_grid g;
            strcpy(text, f[i].name);
            strcat(text, shapes[k]);
            if (pith_grid_parse(text, &g, NULL) == PITH_OK && taken(&g))
                pith_json_add(&list, row_of(&g));
        }
    return list;
}
