/* What differs, most harm first. */
#include "verify/diff_report.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How parts stand in the text: in this order, the worst of the first two first. */
enum rank {
    RANK_LOSS,     /* differs, and the loss is known */
    RANK_DISTANCE, /* differs */
    RANK_MOVED,    /* differs by a transform: there is no distance to show */
    RANK_EQUAL
};

static enum rank rank_of(const struct pith_diff_part *p)
{
    if (p->equal) return RANK_EQUAL;
    if (!isnan(p->loss)) return RANK_LOSS;
    return (p->rescaled || p->rotated) && isnan(p->relative) ? RANK_MOVED : RANK_DISTANCE;
}

/* What has no number is not finite: worse than all that have one. */
static double key_of(const struct pith_diff_part *p, enum rank rank)
{
    const double x = rank == RANK_LOSS ? p->loss : rank == RANK_DISTANCE ? p->relative : 0;
    return isnan(x) ? (double)INFINITY : x;
}

static int compare(const void *a, const void *b)
{
    const struct pith_diff_part *x = *(const struct pith_diff_part *const *)a,
                                *y = *(const struct pith_diff_part *const *)b;
    const enum rank of_x = rank_of(x), of_y = rank_of(y);
    const double key_x = key_of(x, of_x), key_y = key_of(y, of_y);
    if (of_x != of_y) return of_x < of_y ? -1 : 1;
    if (key_x != key_y) return key_x < key_y ? 1 : -1;
    return x < y ? -1 : 1;
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void set_part(struct pith_report *r, const struct pith_diff_part *p)
{
    pith_report_open(r, "");
    pith_report_set(r, "name", pith_words(p->name));
    pith_report_set(r, "a", pith_words(p->a));
    pith_report_set(r, "b", pith_words(p->b));
    pith_report_set(r, "equal", pith_yes(p->equal));
    if (p->rotated) pith_report_set(r, "rotated", pith_yes(true));
    if (p->rescaled) pith_report_set(r, "rescaled", pith_yes(true));
    if (!isnan(p->relative)) pith_report_set(r, "relative_difference", pith_real(p->relative, 6));
    if (!isnan(p->largest)) pith_report_set(r, "largest_difference", pith_real(p->largest, 6));
    if (!isnan(p->loss)) pith_report_set(r, "loss", pith_real(p->loss, 6));
    pith_report_close(r);
}

static void set_all(struct pith_report *r, const struct pith_diff_found *f)
{
    pith_report_set(r, "equal", pith_yes(f->equal == f->count));
    pith_report_set(r, "a", pith_words(f->a));
    pith_report_set(r, "b", pith_words(f->b));
    pith_report_set(r, "container_a", pith_words(f->container_a));
    pith_report_set(r, "container_b", pith_words(f->container_b));
    pith_report_set(r, "parts_equal", pith_count(f->equal));
    pith_report_set(r, "parts_different", pith_count(f->count - f->equal));
    pith_report_set(r, "config_differs", pith_tree(json_incref(f->config)));
    pith_report_list(r, "parts");
    for (size_t i = 0; i < f->count; i++) set_part(r, &f->part[i]);
    pith_report_close(r);
}

/* --- text ------------------------------------------------------------------------------------- */

static const char *form_of(const char *container)
{
    return strcmp(container, "none") == 0 ? "not quantized" : container;
}

static void say_models(struct pith_report *r, const struct pith_diff_found *f)
{
    struct pith_str keys = {0};
    const json_t *key;
    size_t i;
    pith_report_line(r, &(struct pith_line){.wrap = PITH_WRAP_TERMINAL, .indent = 2},
                     "%.400s (%s) and %.400s (%s): %zu parts equal to the bit, %zu different", f->a,
                     form_of(f->container_a), f->b, form_of(f->container_b), f->equal,
                     f->count - f->equal);
    json_array_foreach (f->config, i, key)
        pith_str_printf(&keys, "%s%s", i ? ", " : "config.json differs in ",
                        json_string_value(key));
    if (i) pith_report_line(r, &(struct pith_line){0}, "%s", pith_str_text(&keys));
    if (keys.failed) r->failed = true;
    pith_str_free(&keys);
}

static void put_number(struct pith_table *t, const char *format, double x)
{
    char text[48] = "";
    if (!isnan(x)) snprintf(text, sizeof text, format, x);
    pith_table_text(t, text);
}

static void put_part(struct pith_table *t, const struct pith_diff_part *p, bool losses)
{
    pith_table_row(t);
    pith_table_text(t, p->name);
    pith_table_text(t, p->a);
    pith_table_text(t, p->b);
    if (losses) put_number(t, "%.4g", p->loss);
    put_number(t, "%.6f", p->relative);
    if (p->rescaled || p->rotated) pith_table_text(t, p->rescaled ? "rescaled" : "rotated");
    else put_number(t, "%.4g", p->largest);
}

static void add_rows(struct pith_report *r, struct pith_diff_part *const *part, size_t count,
                     enum pith_detail detail)
{
    const bool losses = count && rank_of(part[0]) == RANK_LOSS;
    if (count == 0) return;
    pith_report_line(r, &(struct pith_line){.detail = detail}, "most harm first, by %s",
                     losses ? "the loss at the output in pith.json"
                            : "relative difference");
    struct pith_table *t = pith_report_add_table(r, detail);
    pith_table_column(t, "part", NULL, PITH_CELL_TEXT);
    pith_table_column(t, "a", NULL, PITH_CELL_TEXT);
    pith_table_column(t, "b", NULL, PITH_CELL_TEXT);
    if (losses) pith_table_column(t, "loss", NULL, PITH_CELL_NUMBER);
    pith_table_column(t, "relative", NULL, PITH_CELL_NUMBER);
    pith_table_column(t, "largest", NULL, PITH_CELL_NUMBER);
    for (size_t i = 0; i < count; i++) put_part(t, part[i], losses);
}

/* The parts that differ, most harm first; those without a loss behind those that have one. */
static void say_parts(struct pith_report *r, const struct pith_diff_found *f,
                      struct pith_diff_part *const *part)
{
    enum { MOST = 10 };
    size_t ranked = 0, moved = 0;
    for (size_t i = 0; i < f->count; i++) {
        ranked += rank_of(part[i]) < RANK_MOVED;
        moved += rank_of(part[i]) == RANK_MOVED;
    }
    const size_t shown = ranked < MOST ? ranked : MOST, more = ranked - shown + moved;
    add_rows(r, part, f->count, PITH_DETAIL_WHOLE);
    add_rows(r, part, shown, PITH_DETAIL_PART);
    if (more)
        pith_report_line(r, &(struct pith_line){.detail = PITH_DETAIL_PART, .fields = true},
                         "... and %zu more: `all` lists them", more);
    if (moved && part[ranked]->rotated)
        pith_report_line(
            r, &(struct pith_line){0}, "%s",
            "one of the two is in another basis, as its pith.json says: no part has a distance");
}

enum pith_status pith_diff_write(const struct pith_diff_found *f, struct pith_report **report,
                                 struct pith_error *err)
{
    struct pith_diff_part **part = pith_alloc(f->count, sizeof(struct pith_diff_part *));
    struct pith_report *r = part ? pith_report_new() : NULL;
    if (r) {
        for (size_t i = 0; i < f->count; i++) part[i] = &f->part[i];
        qsort(part, f->count, sizeof(struct pith_diff_part *), compare);
        set_all(r, f);
        say_models(r, f);
        say_parts(r, f, part);
        pith_report_judge(r, f->equal == f->count);
    }
    pith_free(part);
    *report = r;
    return r ? PITH_OK : pith_fail_nomem(err, "the report");
}
