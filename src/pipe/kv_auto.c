#include "pipe/kv_auto.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/names.h"
#include "calib/corpus.h"
#include "eval/eval.h"
#include "pipe/kv_levels.h"
#include "plan/assign.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A candidate, and what stands for it where heads cannot be turned; NULL: nothing. */
static const struct {
    const char *name, *unturned;
} candidates[] = {
#define PITH_KV_CANDIDATE(name, unturned) {name, unturned},
#include "pipe/kv_auto.def"
#undef PITH_KV_CANDIDATE
};
enum { CANDIDATES = sizeof candidates / sizeof candidates[0] };

/* What is measured: on how much of the text that ships, in windows of how many positions at most.
 * Bits are counted at the length of these windows. */
enum { TOKENS = 2048, WINDOW = 2048, FILE_LIMIT = 16 << 20 };

/* The keys, the values, or (of latents) both of a layer. */
enum side { KEYS, VALUES, BOTH };
static const char *const side_names[] = {"k", "v", "kv"};

/* What was measured of a part. */
struct row {
    size_t candidate;
    bool near; /* queries see their own page in floats */
    double loss;
};
struct part {
    uint32_t layer;
    enum side side;
    struct row row[2 * CANDIDATES];
    size_t rows;
};

/* What a layer can be: a row of its keys and one of its values that are alike in `near`, or of
 * both. */
struct choice {
    const struct row *k, *v;
    uint64_t bytes; /* of p->context positions */
    double loss;
};
enum { CHOICES = 4 * CANDIDATES * CANDIDATES };

struct plan {
    const struct pith_kv_auto_job *job;
    const char *name[CANDIDATES];             /* NULL: the model's heads cannot be kept so */
    struct pith_kv_format format[CANDIDATES]; /* for keys and values alike */
    struct part *part; /* of a layer the keys and the values, one after the other, or both in one */
    size_t parts;
    size_t context;               /* where bits are counted, and of the windows */
    double numbers;               /* of a position, over all layers */
    struct pith_kv_format *layer; /* [layers] */
    char identity[PITH_SHA256_HEX];
    char *path;   /* of the record */
    bool levels;  /* formats that need levels of these weights are among them */
    json_t *file; /* the record, or NULL */
};

enum pith_status pith_kv_auto_parse(const char *name, double *bits, struct pith_error *err)
{
    const char *text = name ? pith_name_option(name, "auto") : NULL;
    char *end = NULL;
    *bits = 0;
    if (!text) return PITH_OK;
    const double x = strtod(text, &end);
    if (end == text || *end || !(x >= 1 && x <= 32))
        return pith_fail(err, PITH_ARG,
                         "KV cache \"%s\": auto:BITS, the mean bits of a number, such as auto:5.0",
                         name);
    *bits = x;
    return PITH_OK;
}

/* --- parts ------------------------------------------------------------------------------------ */

static void set_side(struct pith_kv_format *f, enum side side, const struct pith_kv_format *to)
{
    if (side != VALUES) f->k = to->k;
    if (side != KEYS) f->v = to->v;
}

static void set_row(const struct plan *p, struct pith_kv_format *f, enum side side,
                    const struct row *row)
{
    set_side(f, side, &p->format[row->candidate]);
    f->recent = row->near && !f->k.kivi ? 32 : 0; /* it goes without saying of keys by channel */
}

/* Those candidates that rows of the part can be kept in, each with and without the page at hand in
 * floats. */
static void add_part(struct plan *p, uint32_t layer, enum side side)
{
    struct part *part = &p->part[p->parts++];
    *part = (struct part){.layer = layer, .side = side};
    for (size_t c = 0; c < CANDIDATES; c++)
        for (int near = side != VALUES && p->format[c].k.kivi ? 1 : 0; near < 2; near++)
            if (p->name[c])
                part->row[part->rows++] = (struct row){.candidate = c, .near = near == 1};
}

/* Without what needs levels: those of a model that is still to be made are not known. */
static void drop_levels(struct plan *p)
{
    p->levels = false;
    for (size_t i = 0; i < p->parts; i++) {
        struct part *part = &p->part[i];
        size_t kept = 0;
        for (size_t k = 0; k < part->rows; k++)
            if (!pith_kv_needs_levels(&p->format[part->row[k].candidate], 1))
                part->row[kept++] = part->row[k];
        part->rows = kept;
    }
}

static void find_candidates(struct plan *p)
{
    const struct pith_model *m = p->job->model;
    for (size_t c = 0; c < CANDIDATES; c++) {
        const char *const names[] = {candidates[c].name, candidates[c].unturned};
        for (size_t i = 0; i < PITH_COUNT(names) && names[i] && !p->name[c]; i++) {
            struct pith_error ignored = {0};
            if (pith_kv_parse(names[i], PITH_F32, m, &p->format[c], &ignored) == PITH_OK)
                p->name[c] = names[i];
        }
    }
}

static enum pith_status find_parts(struct plan *p, struct pith_error *err)
{
    const struct pith_model *m = p->job->model;
    const struct pith_kv_format plain = pith_kv_floats(PITH_F32);
    p->context = m->shape.max_position < WINDOW ? m->shape.max_position : WINDOW;
    find_candidates(p);
    p->levels = true;
    p->part = pith_alloc(2 * (size_t)m->plans.layers, sizeof *p->part);
    p->layer = pith_alloc(m->plans.layers, sizeof *p->layer);
    if (!p->part || !p->layer) return pith_fail_nomem(err, "the layers of a KV cache");
    for (uint32_t i = 0; i < m->plans.layers; i++) {
        const struct pith_state_spec *s = &pith_plan(&m->plans, i)->state;
        if (!(pith_kv_position_bytes(&plain, s) > 0)) continue;
        p->numbers += pith_kv_numbers(s);
        if (s->kind == PITH_STATE_LATENT) add_part(p, i, BOTH);
        else {
            add_part(p, i, KEYS);
            add_part(p, i, VALUES);
        }
    }
    if (p->parts && p->part[0].rows) return PITH_OK;
    return pith_fail(err, PITH_ARG, "%s keeps no keys and values that --kv auto could choose for",
                     m->checkpoint->dir);
}

static void free_plan(struct plan *p)
{
    pith_free(p->layer);
    pith_free(p->part);
    pith_free(p->path);
    json_decref(p->file);
}

/* --- measuring -------------------------------------------------------------------------------- */

/* The KL of one part in one candidate, everything else in float32. */
static enum pith_status measure_one(struct plan *p, struct pith_text_job *text, struct part *part,
                                    size_t i, struct pith_error *err)
{
    const uint32_t layers = p->job->model->plans.layers;
    struct pith_text_result r;
    for (uint32_t k = 0; k < layers; k++) p->layer[k] = pith_kv_floats(PITH_F32);
    set_row(p, &p->layer[part->layer], part->side, &part->row[i]);
    text->kv = (struct pith_kv_format){.layer = p->layer};
    PITH_TRY(pith_eval_text(text, &r, err));
    part->row[i].loss = r.kld_mean;
    return PITH_OK;
}

static enum pith_status measure_parts(struct plan *p, const struct pith_calib_set *set,
                                      struct pith_error *err)
{
    const struct pith_kv_levels_job levels = {.backend = p->job->backend,
                                              .model = p->job->model,
                                              .tokenizer = p->job->tokenizer,
                                              .progress = p->job->progress};
    struct pith_kept_text kept = {.most = (size_t)256 << 20};
    struct pith_text_result ignored;
    struct pith_text_job text = {.backend = p->job->backend,
                                 .model = p->job->model,
                                 .kv = pith_kv_floats(PITH_F32),
                                 .ids = set->ids,
                                 .count = set->windows * set->length,
                                 .bos = -1,
                                 .convention = PITH_CONVENTION_GPTQ,
                                 .context = set->length,
                                 .kept = &kept};
    enum pith_status s = PITH_OK;
    for (size_t c = 0; c < CANDIDATES && s == PITH_OK; c++)
        if (p->name[c] && p->levels && pith_kv_needs_levels(&p->format[c], 1))
            s = pith_kv_levels_need(&levels, err);
    if (s == PITH_OK) s = pith_eval_text(&text, &ignored, err);
    text.baseline = p->job->model;
    for (size_t i = 0; i < p->parts && s == PITH_OK; i++) {
        s = pith_progress_step(p->job->progress, "measuring the KV cache by layer", (double)i,
                               (double)p->parts, err);
        for (size_t k = 0; k < p->part[i].rows && s == PITH_OK; k++)
            s = measure_one(p, &text, &p->part[i], k, err);
    }
    pith_kept_text_free(&kept);
    return s;
}

/* Bytes of a part alone: of the layer without the other side's, which is in float32. */
static uint64_t bytes_of_row(const struct plan *p, const struct part *part, const struct row *row)
{
    const struct pith_state_spec *s = &pith_plan(&p->job->model->plans, part->layer)->state;
    const double other = part->side == KEYS ? s->value : part->side == VALUES ? s->key : 0;
    struct pith_kv_format f = pith_kv_floats(PITH_F32);
    set_row(p, &f, part->side, row);
    const double plain = 32.0 * ((row->near ? 1 : 0) + (pith_kv_sink(&f) ? 1 : 0));
    return (uint64_t)(pith_kv_bytes_of(&f, s, (double)p->context, false) -
                      sizeof(float) * s->heads * other * ((double)p->context + plain));
}

static json_t *row_of(const struct plan *p, const struct part *part, size_t i)
{
    const struct row *row = &part->row[i];
    char module[256];
    pith_plan_name(&p->job->model->plans, part->layer, side_names[part->side], module,
                   sizeof module);
    return json_pack("{s:s, s:s, s:i, s:I, s:f}", "part", module, "grid", p->name[row->candidate],
                     "recent", row->near ? 32 : 0, "bytes", (json_int_t)bytes_of_row(p, part, row),
                     "kld", row->loss);
}

static enum pith_status measure(struct plan *p, struct pith_error *err)
{
    const struct pith_calib_options o = {.tokens = TOKENS, .seq_len = p->context};
    struct pith_calib_set set;
    if (!p->job->tokenizer)
        return pith_fail(err, PITH_ARG,
                         "%s is not there, or is of other weights: pith eval --kv auto:%g makes it",
                         p->path, p->job->bits);
    PITH_TRY(pith_calib_load(&o, p->job->tokenizer, &set, err));
    const enum pith_mode mode = pith_backend_mode(p->job->backend);
    enum pith_status s = pith_backend_set_mode(p->job->backend, PITH_MODE_EXACT, err);
    if (s == PITH_OK) s = measure_parts(p, &set, err);
    (void)pith_backend_set_mode(p->job->backend, mode, NULL);
    json_t *rows = json_array();
    for (size_t i = 0; i < p->parts && s == PITH_OK; i++)
        for (size_t k = 0; k < p->part[i].rows; k++)
            pith_json_add(&rows, row_of(p, &p->part[i], k));
    json_decref(p->file);
    p->file = json_pack("{s:i, s:s, s:s, s:I, s:I, s:I, s:b, s:o, s:[]}", "kv_auto", 1,
                        "checkpoint", p->identity, "text_sha256", set.sha256, "tokens",
                        (json_int_t)(set.windows * set.length), "context", (json_int_t)set.length,
                        "numbers", (json_int_t)(p->numbers * (double)p->context), "levels",
                        p->levels, "rows", rows, "assignments");
    pith_calib_free(&set);
    if (s == PITH_OK && !p->file) s = pith_fail_nomem(err, p->path);
    return s;
}

/* --- the record ------------------------------------------------------------------------------- */

static enum pith_status name_record(struct plan *p, struct pith_error *err)
{
    const struct pith_checkpoint *c = p->job->model->checkpoint;
    if (!pith_checkpoint_identity(c, p->identity)) return pith_fail_nomem(err, "a checkpoint");
    p->path = pith_checkpoint_beside(c, "kv.json");
    return p->path ? PITH_OK : pith_fail_nomem(err, "a file's name");
}

/* Losses from the rows of a record: those of all options, or it is of another version. */
static bool take_rows(struct plan *p)
{
    const json_t *rows = json_object_get(p->file, "rows");
    size_t at = 0;
    for (size_t i = 0; i < p->parts; i++)
        for (size_t k = 0; k < p->part[i].rows; k++) {
            const json_t *row = json_array_get(rows, at++), *kld = json_object_get(row, "kld");
            const char *grid = json_string_value(json_object_get(row, "grid"));
            json_t *want = row_of(p, &p->part[i], k);
            const bool same =
                want && grid && json_is_number(kld) &&
                json_equal(json_object_get(row, "part"), json_object_get(want, "part")) &&
                json_equal(json_object_get(row, "grid"), json_object_get(want, "grid")) &&
                json_equal(json_object_get(row, "recent"), json_object_get(want, "recent")) &&
                json_equal(json_object_get(row, "bytes"), json_object_get(want, "bytes"));
            json_decref(want);
            if (!same || !(json_number_value(kld) >= 0)) return false;
            p->part[i].row[k].loss = json_number_value(kld);
        }
    return at > 0 && json_array_size(rows) == at &&
           json_is_array(json_object_get(p->file, "assignments"));
}

/* Reads what is recorded of these weights; p->file stays NULL when there is nothing. */
static enum pith_status read_record(struct plan *p, struct pith_error *err)
{
    const char *of = NULL;
    if (!pith_path_exists(p->path)) return PITH_OK;
    PITH_TRY(pith_json_load(p->path, FILE_LIMIT, &p->file, err));
    PITH_TRY(pith_json_get_str(p->file, "checkpoint", &of, p->path, err));
    const bool same = of && strcmp(of, p->identity) == 0;
    if (same && json_is_false(json_object_get(p->file, "levels"))) drop_levels(p);
    if (same && take_rows(p)) return PITH_OK;
    json_decref(p->file);
    p->file = NULL;
    return PITH_OK;
}

/* The layers of an assignment that is recorded for these bits. */
static enum pith_status take_layers(struct plan *p, bool *found, struct pith_error *err)
{
    const json_t *a;
    size_t i;
    *found = false;
    json_array_foreach (json_object_get(p->file, "assignments"), i, a) {
        const json_t *names = json_object_get(a, "layers");
        if (json_number_value(json_object_get(a, "budget")) != p->job->bits) continue;
        for (uint32_t k = 0; k < p->job->model->plans.layers; k++) {
            const char *name = json_string_value(json_array_get(names, k));
            if (!name) name = "f32"; /* it keeps nothing */
            PITH_TRY(pith_fail_in(
                err, pith_kv_parse(name, PITH_F32, p->job->model, &p->layer[k], err), p->path));
        }
        const struct pith_kv_format f = {.layer = p->layer};
        if (pith_kv_bits(&p->job->model->plans, &f, p->context) > p->job->bits)
            return pith_fail(err, PITH_FORMAT, "%s: layers of more than %g bits", p->path,
                             p->job->bits);
        *found = true;
        return PITH_OK;
    }
    return PITH_OK;
}

/* Adds p->layer to the assignments of p->file, as the one for that budget. */
static enum pith_status note(struct plan *p, double budget, double loss, struct pith_error *err)
{
    const struct pith_plans *plans = &p->job->model->plans;
    const struct pith_kv_format f = {.layer = p->layer};
    json_t *layers = json_array();
    for (uint32_t i = 0; i < plans->layers; i++) {
        char name[PITH_KV_TEXT];
        pith_kv_name(&p->layer[i], name);
        const bool kept = pith_kv_position_bytes(&p->layer[i], &pith_plan(plans, i)->state) > 0;
        pith_json_add(&layers, kept ? json_string(name) : json_null());
    }
    json_t *list = json_object_get(p->file, "assignments");
    if (json_array_append_new(list, json_pack("{s:f, s:f, s:f, s:o}", "budget", budget, "bits",
                                              pith_kv_bits(plans, &f, p->context), "kld_sum", loss,
                                              "layers", layers)) != 0)
        return pith_fail_nomem(err, "the KV cache's record");
    return PITH_OK;
}

static enum pith_status keep(struct plan *p, double loss, struct pith_error *err)
{
    PITH_TRY(note(p, p->job->bits, loss, err));
    return pith_json_save(p->path, p->file, err);
}

/* --- choosing --------------------------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b)
{
    const struct choice *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return x->loss < y->loss ? -1 : x->loss > y->loss;
}

static struct choice choice_of(const struct plan *p, const struct part *part, const struct row *k,
                               const struct row *v, struct pith_kv_format *f)
{
    const struct pith_state_spec *s = &pith_plan(&p->job->model->plans, part->layer)->state;
    *f = pith_kv_floats(PITH_F32);
    if (v) set_row(p, f, VALUES, v);
    set_row(p, f, v ? KEYS : BOTH, k);
    return (struct choice){
        .k = k,
        .v = v,
        .bytes = (uint64_t)ceil(pith_kv_bytes_of(f, s, (double)p->context, false)),
        .loss = k->loss + (v ? v->loss : 0)};
}

/* What a layer can be, smallest first, without what is larger and loses as much; how many. Of the
 * same bytes and loss the first rows. */
static size_t list_choices(const struct plan *p, const struct part *part, struct choice *out)
{
    const struct part *values = part->side == KEYS ? part + 1 : NULL;
    struct pith_kv_format f;
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < part->rows; i++)
        for (size_t k = 0; k < (values ? values->rows : 1); k++) {
            const struct row *v = values ? &values->row[k] : NULL;
            if (!v || v->near == part->row[i].near)
                out[n++] = choice_of(p, part, &part->row[i], v, &f);
        }
    qsort(out, n, sizeof *out, by_bytes);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || out[i].loss < out[kept - 1].loss) out[kept++] = out[i];
    return kept;
}

/* A layer's choices, as an assignment takes them. */
struct layer_choices {
    const struct part *part;
    struct choice *choice;
    struct pith_assign_option *option;
};

static enum pith_status fill_choices(const struct plan *p, struct layer_choices *l, size_t *count,
                                     struct pith_error *err)
{
    struct choice *all = pith_alloc(CHOICES, sizeof *all);
    if (!all) return pith_fail_nomem(err, "an assignment");
    *count = list_choices(p, l->part, all);
    l->choice = pith_alloc(*count, sizeof *l->choice);
    l->option = pith_alloc(*count, sizeof *l->option);
    const bool done = l->choice && l->option;
    for (size_t i = 0; i < *count && done; i++) {
        l->choice[i] = all[i];
        l->option[i] = (struct pith_assign_option){all[i].bytes, all[i].loss};
    }
    pith_free(all);
    return done ? PITH_OK : pith_fail_nomem(err, "an assignment");
}

/* What is best of these layers within the budget, into p->layer. */
static enum pith_status assign(struct plan *p, const struct layer_choices *l,
                               const struct pith_assign *a, double *loss, struct pith_error *err)
{
    struct pith_assigned got = {0};
    struct pith_error why = {0};
    size_t *chosen = pith_alloc(a->parts, sizeof *chosen);
    if (!chosen) return pith_fail_nomem(err, "an assignment");
    enum pith_status s = pith_assign(a, chosen, &got, &why);
    if (s == PITH_LIMIT)
        s = pith_fail(err, s, "--kv auto:%g: the smallest formats take more bits a number",
                      p->job->bits);
    else if (s != PITH_OK) s = pith_fail(err, s, "%s", why.text);
    for (size_t i = 0; i < a->parts && s == PITH_OK; i++) {
        const struct choice *c = &l[i].choice[chosen[i]];
        (void)choice_of(p, l[i].part, c->k, c->v, &p->layer[l[i].part->layer]);
    }
    pith_free(chosen);
    *loss = got.loss;
    return s;
}

static enum pith_status solve(struct plan *p, struct pith_error *err)
{
    struct pith_assign_part *parts = pith_zalloc(p->parts, sizeof *parts);
    struct layer_choices *l = pith_zalloc(p->parts, sizeof *l);
    struct pith_assign a = {
        .part = parts, .budget = (uint64_t)(p->job->bits / 8 * p->numbers * (double)p->context)};
    double loss = 0;
    enum pith_status s = parts && l ? PITH_OK : pith_fail_nomem(err, "an assignment");
    for (uint32_t i = 0; i < p->job->model->plans.layers; i++)
        p->layer[i] = pith_kv_floats(PITH_F32);
    for (size_t i = 0; i < p->parts && s == PITH_OK; i++) {
        if (p->part[i].side == VALUES) continue;
        l[a.parts].part = &p->part[i];
        s = fill_choices(p, &l[a.parts], &parts[a.parts].options, err);
        parts[a.parts].option = l[a.parts].option;
        a.parts++;
    }
    if (s == PITH_OK) s = assign(p, l, &a, &loss, err);
    for (size_t i = 0; l && i < a.parts; i++) {
        pith_free(l[i].choice);
        pith_free(l[i].option);
    }
    pith_free(parts);
    pith_free(l);
    return s == PITH_OK ? keep(p, loss, err) : s;
}

/* --- a menu ----------------------------------------------------------------------------------- */

static enum pith_status fill_menu_part(const struct plan *p, const struct part *part,
                                       struct pith_kv_menu_part *out, struct pith_error *err)
{
    struct choice *all = pith_alloc(CHOICES, sizeof *all);
    if (!all) return pith_fail_nomem(err, "a layer's caches");
    out->layer = part->layer;
    out->options = list_choices(p, part, all);
    out->option = pith_alloc(out->options, sizeof *out->option);
    for (size_t i = 0; i < out->options && out->option; i++) {
        struct pith_kv_format f;
        (void)choice_of(p, part, all[i].k, all[i].v, &f);
        out->option[i] = (struct pith_kv_option){all[i].bytes, all[i].loss, f};
    }
    pith_free(all);
    return out->option ? PITH_OK : pith_fail_nomem(err, "a layer's caches");
}

void pith_kv_menu_free(struct pith_kv_menu *menu)
{
    for (size_t i = 0; menu->part && i < menu->parts; i++) pith_free(menu->part[i].option);
    pith_free(menu->part);
    json_decref(menu->record);
    *menu = (struct pith_kv_menu){0};
}

enum pith_status pith_kv_auto_menu(const struct pith_kv_auto_job *job, size_t positions,
                                   struct pith_kv_menu *out, struct pith_error *err)
{
    struct plan p = {.job = job};
    *out = (struct pith_kv_menu){0};
    enum pith_status s = find_parts(&p, err);
    if (s == PITH_OK) drop_levels(&p);
    if (s == PITH_OK) s = name_record(&p, err);
    if (s == PITH_OK) s = measure(&p, err);
    if (s == PITH_OK && !(out->part = pith_zalloc(p.parts, sizeof *out->part)))
        s = pith_fail_nomem(err, "caches");
    p.context = positions;
    for (size_t i = 0; i < p.parts && s == PITH_OK; i++)
        if (p.part[i].side != VALUES)
            s = fill_menu_part(&p, &p.part[i], &out->part[out->parts++], err);
    if (s == PITH_OK) out->record = json_incref(p.file);
    else pith_kv_menu_free(out);
    free_plan(&p);
    return s;
}

enum pith_status pith_kv_menu_choose(struct pith_kv_menu *menu, const struct pith_kv_auto_job *job,
                                     const size_t *chosen, double *bits, struct pith_error *err)
{
    const struct pith_plans *plans = &job->model->plans;
    struct plan p = {.job = job, .file = menu->record};
    const json_int_t context = json_integer_value(json_object_get(menu->record, "context"));
    double loss = 0;
    p.context = (size_t)context;
    p.layer = pith_alloc(plans->layers, sizeof *p.layer);
    if (!p.layer) return pith_fail_nomem(err, "the layers of a KV cache");
    for (uint32_t i = 0; i < plans->layers; i++) p.layer[i] = pith_kv_floats(PITH_F32);
    for (size_t i = 0; i < menu->parts; i++) {
        p.layer[menu->part[i].layer] = menu->part[i].option[chosen[i]].format;
        loss += menu->part[i].option[chosen[i]].loss;
    }
    const struct pith_kv_format f = {.layer = p.layer};
    *bits = ceil(100 * pith_kv_bits(plans, &f, p.context) - 1e-9) / 100;
    const enum pith_status s = note(&p, *bits, loss, err);
    pith_free(p.layer);
    return s;
}

enum pith_status pith_kv_auto(const struct pith_kv_auto_job *job, struct pith_kv_format *out,
                              struct pith_error *err)
{
    struct plan p = {.job = job};
    bool found = false;
    *out = (struct pith_kv_format){0};
    enum pith_status s = find_parts(&p, err);
    if (s == PITH_OK) s = name_record(&p, err);
    if (s == PITH_OK) s = read_record(&p, err);
    if (s == PITH_OK && p.file) s = take_layers(&p, &found, err);
    if (s == PITH_OK && !p.file) s = measure(&p, err);
    if (s == PITH_OK && !found) s = solve(&p, err);
    if (s == PITH_OK) {
        out->layer = p.layer;
        p.layer = NULL;
    }
    free_plan(&p);
    return s;
}
