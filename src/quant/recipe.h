/* quant/recipe.h: a recipe names one choice for each of the four stages; a technique's famous
 * name is one row of quant/recipes.def. A recipe file is the same as JSON. */
#ifndef PITH_QUANT_RECIPE_H
#define PITH_QUANT_RECIPE_H

#include "base/json.h"
#include "num/grid.h"
#include "quant/round.h"
#include "quant/split.h"
#include "quant/transform.h"

/* "smooth:0.5" is the transform smooth with the option 0.5. */
#define PITH_OPTION_TEXT 24

struct pith_recipe {
    char name[64];
    const struct pith_transform *transform;
    const struct pith_split *split;
    char transform_option[PITH_OPTION_TEXT], split_option[PITH_OPTION_TEXT]; /* "" or "0.5" */
    double transform_value, split_value; /* what they mean, 0 without an option */
    struct pith_grid weights, acts, kv;  /* format NULL: none */
    char mixture; /* 's', 'm', 'l': linears by GGUF's mixture of that name around `weights`; or 0 */
    const struct pith_rounder *round;
    struct pith_round_options round_options;
    bool clip;          /* awq: the clip search */
    char container[32]; /* the container that the recipe's users load */
};

/* One row of the table that `pith recipes` prints. */
struct pith_recipe_row {
    const char *name, *summary;
#define PITH_STAGE(key, title, usual, values, what) const char *key; /* NULL: `usual` */
#include "quant/recipe_keys.def"
#undef PITH_STAGE
    const char *container; /* NULL: compressed-tensors */
};
const struct pith_recipe_row *pith_recipe_rows(size_t *count);
static inline const char *pith_recipe_row_container(const struct pith_recipe_row *row)
{
    return row->container ? row->container : "compressed-tensors";
}

/* A key of a recipe file (recipe_keys.def, and name, base, container). */
struct pith_recipe_key {
    const char *key, *values; /* "0 to 1" */
    char usual[24];           /* what it is when nobody says, or "" */
    const char *who, *what;   /* which method looks at it, or ""; what it is */
    bool stage;
};
/* Row i, or false when there are no more. */
bool pith_recipe_key(size_t i, struct pith_recipe_key *out);

/* A named recipe, or a JSON file (a name that contains '/' or ends in ".json"): an object with any
 * of the keys of pith_recipe_key(); "base" is a named recipe to start from (without it: rtn); null
 * is as if the key were missing, unknown keys are refused. A file without a name is called
 * "custom". PITH_ARG for an unknown name; PITH_FORMAT (or PITH_UNSUPPORTED) names the file, the key
 * and what would be right. */
enum pith_status pith_recipe_load(const char *name_or_path, struct pith_recipe *out,
                                  struct pith_error *err);
/* The same from a file's bytes; `where` names it in messages. */
enum pith_status pith_recipe_parse(const char *text, size_t size, const char *where,
                                   struct pith_recipe *out, struct pith_error *err);
/* The grid of one linear, as the key "linears" has it: format NULL for "none" and for floats of 16
 * bits. PITH_ARG, PITH_UNSUPPORTED for a grid of weights that nothing here can fit. */
enum pith_status pith_recipe_linear(const char *text, struct pith_grid *out,
                                    struct pith_error *err);
/* What a file says in addition to the recipe: an object with those of "linears" and "predicted"
 * that it has, a new reference; NULL for a named recipe. */
enum pith_status pith_recipe_more(const char *name_or_path, json_t **out, struct pith_error *err);
/* The recipe in full, as such a JSON object (new reference; NULL when memory is out). */
json_t *pith_recipe_json(const struct pith_recipe *r);
/* Sets one stage from its command-line text; `stage` is "weights", "acts", "kv", "transform",
 * "split", "round". "none" empties any grid. PITH_ARG lists what there is; PITH_UNSUPPORTED for
 * a grid of weights that nothing here can fit. Weights on one of GGUF's types may end in ":s", ":m"
 * or ":l", the mixture (export/mixture.h). On failure r is unchanged. */
enum pith_status pith_recipe_set(struct pith_recipe *r, const char *stage, const char *text,
                                 struct pith_error *err);

#endif
