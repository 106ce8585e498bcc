/* The checks of a finished checkpoint, from its files alone. */
#include "verify/verify.h"

#include "base/file.h"
#include "base/grow.h"
#include "base/mem.h"
#include "base/str.h"
#include "export/tokens.h"
#include "io/digest.h"
#include "model/config/config.h"
#include "model/remarks.h"
#include "model/same_model.h"
#include "quantize/output/work_folder.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

/* Names from damaged files may be no UTF-8, and a line must not get lost for that. */
static void add_line(struct pith_verification *v, json_t *list, const char *fmt, va_list ap)
{
    struct pith_str s = {0};
    pith_str_vprintf(&s, fmt, ap);
    json_t *line = pith_json_name(pith_str_text(&s));
    if (json_array_append_new(list, line) != 0 || s.failed) v->failed = true;
    pith_str_free(&s);
}

void pith_problem(struct pith_verification *v, const char *fmt, ...)
{
    va_list ap;
    if (v->elsewhere) return;
    va_start(ap, fmt);
    add_line(v, v->problems, fmt, ap);
    va_end(ap);
}

void pith_fault(struct pith_verification *v, const char *where, const struct pith_error *why)
{
    if (why->status == PITH_NOMEM) v->failed = true;
    else pith_problem(v, "%s%s%s", where ? where : "", where ? ": " : "", why->text);
}

void pith_note(struct pith_verification *v, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add_line(v, v->notes, fmt, ap);
    va_end(ap);
}

void pith_checked(struct pith_verification *v, size_t before, const char *fmt, ...)
{
    struct pith_check *all = pith_grow(v->check, v->checks, &v->check_cap, 16, sizeof *all);
    struct pith_str s = {0};
    va_list ap;
    va_start(ap, fmt);
    pith_str_vprintf(&s, fmt, ap);
    va_end(ap);
    char *what = pith_str_take(&s);
    v->failed |= !all || !what;
    if (all) v->check = all;
    if (all) v->check[v->checks++] = (struct pith_check){what, pith_problems(v) == before};
    else pith_free(what);
}

enum pith_status pith_verify_tick(struct pith_verification *v, const char *what,
                                  struct pith_error *err)
{
    v->done += 1;
    return pith_progress_step(&v->options->progress, what, v->done, v->total, err);
}

int64_t pith_account_version(const json_t *account)
{
    const json_t *version = json_object_get(account, "account");
    return version ? json_integer_value(version) : 1;
}

/* --- stored tensors --------------------------------------------------------------------------- */

/* Of version 1 without the dtype and the shape. */
static bool digest(const struct pith_verification *v, const struct pith_tensor *t,
                   char hex[PITH_SHA256_HEX])
{
    return pith_account_version(v->account) < 2 ? pith_sha256_hex(t->data, (size_t)t->bytes, hex)
                                                : pith_tensor_digest(t, hex);
}

/* Which of the account's stored tensors were met. */
struct seen {
    bool *there;  /* [checkpoint->count + checkpoint->whole_count] */
    json_t *lost; /* names of those that no file has */
    size_t count; /* of different names */
};

/* The number of a tensor of the files: those that are shown as such, then those in slices. */
static size_t number_of(const struct pith_checkpoint *c, const struct pith_tensor *t)
{
    const bool whole = c->whole_count > 0 && t >= c->wholes && t < c->wholes + c->whole_count;
    return whole ? c->count + (size_t)(t - c->wholes) : (size_t)(t - c->tensors);
}

/* Whether it was met already; it then is. */
static bool met(struct pith_verification *v, struct seen *seen, const char *name,
                const struct pith_tensor *t)
{
    bool *there = t ? &seen->there[number_of(v->checkpoint, t)] : NULL;
    const bool was = there ? *there : json_object_get(seen->lost, name) != NULL;
    if (there) *there = true;
    else if (json_object_set_new(seen->lost, name, json_true()) != 0) v->failed = true;
    seen->count += !was;
    return was;
}

static void check_stored(struct pith_verification *v, const json_t *stored, struct seen *seen)
{
    const char *name = json_string_value(json_object_get(stored, "name"));
    const char *want = json_string_value(json_object_get(stored, "sha256"));
    char hex[PITH_SHA256_HEX];
    if (!name || !want) {
        pith_problem(v, "pith.json: a stored tensor without name or hash");
        return;
    }
    const struct pith_tensor *t = pith_checkpoint_find_stored(v->checkpoint, name);
    if (met(v, seen, name, t)) pith_problem(v, "%s: is in pith.json twice", name);
    if (!t) pith_problem(v, "%s: missing", name);
    else if ((uint64_t)json_integer_value(json_object_get(stored, "bytes")) != t->bytes)
        pith_problem(v, "%s: has %zu bytes, and pith.json says something else", name, t->bytes);
    else if (v->elsewhere) return;
    else if (!digest(v, t, hex)) v->failed = true;
    else if (strcmp(hex, want) != 0)
        pith_problem(v, "%s: its bytes are not those that pith wrote, or its dtype or shape is not",
                     name);
    if (t) pith_checkpoint_release(v->checkpoint, t);
}

/* What there is in addition to the linears: one tensor of that name, of finite values. */
static void check_other(struct pith_verification *v, const json_t *entry)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    const char *action = json_string_value(json_object_get(entry, "action"));
    const json_t *stored = json_array_get(json_object_get(entry, "stored"), 0);
    const char *stored_name = json_string_value(json_object_get(stored, "name"));
    struct pith_error err = {0};
    const bool known = action &&
                       (strcmp(action, "copied") == 0 || strcmp(action, "rescaled") == 0 ||
                        strcmp(action, "rotated") == 0 || strcmp(action, "pruned") == 0 ||
                        strcmp(action, "decoded") == 0 || strcmp(action, "added") == 0 ||
                        strcmp(action, "trained") == 0);
    if (!name || !known || !stored_name || strcmp(name, stored_name) != 0) {
        pith_problem(v, "pith.json: a tensor's entry lacks its name, action or stored tensor");
        return;
    }
    const struct pith_tensor *t = pith_checkpoint_find_stored(v->checkpoint, name);
    if (!t) return;
    if (strcmp(action, "added") != 0) v->others += pith_tensor_elements(t);
    if (!v->elsewhere && pith_tensor_check_finite(t, &err) != PITH_OK) pith_fault(v, NULL, &err);
}

/* A rank's entries are a run of both lists with about as many bytes as the others'. */
static void choose_rank(struct pith_verification *v, const json_t *entry)
{
    struct pith_ranks *r = pith_backend_ranks(v->backend);
    const unsigned count = pith_ranks_count(r);
    const double share = (double)v->checkpoint->bytes / count;
    const json_t *stored;
    size_t k;
    v->elsewhere = (unsigned)fmin(v->passed / fmax(share, 1), count - 1) != pith_ranks_own(r);
    json_array_foreach (json_object_get(entry, "stored"), k, stored) {
        const char *name = json_string_value(json_object_get(stored, "name"));
        const struct pith_tensor *t = name ? pith_checkpoint_find_stored(v->checkpoint, name)
                                           : NULL;
        if (t) v->passed += (double)t->bytes;
    }
}

static enum pith_status check_list(struct pith_verification *v, struct pith_entries *list,
                                   struct seen *seen, struct pith_error *err)
{
    for (size_t i = 0; i < list->count; i++) {
        json_t *entry = pith_verify_entry(v, list, i);
        const json_t *stored;
        size_t k;
        choose_rank(v, entry);
        json_array_foreach (json_object_get(entry, "stored"), k, stored)
            check_stored(v, stored, seen);
        if (list == &v->file.tensors) check_other(v, entry);
        json_decref(entry);
        PITH_TRY(pith_verify_tick(v, "checking hashes", err));
    }
    return PITH_OK;
}

static enum pith_status check_tensors(struct pith_verification *v, struct pith_error *err)
{
    const struct pith_checkpoint *c = v->checkpoint;
    const size_t before = pith_problems(v), count = c->count + c->whole_count;
    struct seen seen = {.there = pith_zalloc(count, sizeof *seen.there), .lost = json_object()};
    enum pith_status s = seen.there && seen.lost ? PITH_OK : pith_fail_nomem(err, "the report");
    if (s == PITH_OK) s = check_list(v, &v->file.linears, &seen, err);
    if (s == PITH_OK) s = check_list(v, &v->file.tensors, &seen, err);
    if (s == PITH_OK) s = pith_verify_share(v, before, err);
    for (size_t i = 0; i < count && s == PITH_OK; i++) {
        const struct pith_tensor *t = i < c->count ? &c->tensors[i] : &c->wholes[i - c->count];
        if (!seen.there[i] && !t->slice)
            pith_problem(v, "%s: not accounted for in pith.json", t->name);
    }
    if (s == PITH_OK)
        pith_checked(v, before, "%zu stored tensors: present, none unknown, hashes as recorded",
                     seen.count);
    pith_free(seen.there);
    json_decref(seen.lost);
    return s;
}

/* --- figures ---------------------------------------------------------------------------------- */

/* Figures near 10, with nine digits. */
static const double figure_slack = 1e-6;

static void check_number(struct pith_verification *v, const json_t *in, const char *key, double is)
{
    const json_t *stated = json_object_get(in, key);
    if (!json_is_number(stated) || fabs(json_number_value(stated) - is) > is * 1e-9 + figure_slack)
        pith_problem(v, "pith.json: \"%s\" should be %.9g", key, is);
}

static void check_text(struct pith_verification *v, const char *key, const char *is)
{
    const char *stated = json_string_value(json_object_get(v->account, key));
    if (!stated || strcmp(stated, is) != 0)
        pith_problem(v, "pith.json: \"%s\" should be \"%s\"", key, is);
}

static const char *container_name(const struct pith_model *m)
{
    if (m->container) return m->container->name;
    return m->checkpoint->file_form ? m->checkpoint->file_form : "none";
}

static void check_architecture(struct pith_verification *v)
{
    const char *stated = json_string_value(json_object_get(v->account, "architecture"));
    if (stated && pith_arch_alike(v->checkpoint, stated, v->model->arch->name)) return;
    check_text(v, "architecture", v->model->arch->name);
}

/* The totals that pith.json states, taken again. */
static void check_figures(struct pith_verification *v)
{
    const size_t before = pith_problems(v);
    const json_t *sizes = json_object_get(v->account, "sizes");
    const double bytes = (double)v->checkpoint->bytes;
    const double parameters = (double)(v->sums.weights + v->others);
    check_architecture(v);
    check_text(v, "container", container_name(v->model));
    check_number(v, sizes, "output_bytes", bytes);
    check_number(v, sizes, "parameters", parameters);
    check_number(v, sizes, "quantized_parameters", (double)v->sums.weights);
    if (v->original) check_number(v, sizes, "input_bytes", (double)v->original->checkpoint->bytes);
    check_number(v, v->account, "bits_per_weight",
                 v->sums.weights ? v->sums.bits / (double)v->sums.weights : 0);
    check_number(v, v->account, "bits_per_parameter",
                 8 * bytes / (parameters > 0 ? parameters : 1));
    pith_checked(v, before, "sizes and bits per weight: as recorded");
}

/* --- engines ---------------------------------------------------------------------------------- */

static enum pith_status check_engines(struct pith_verification *v, struct pith_error *err)
{
    for (size_t i = 0; i < v->options->targets.count; i++) {
        const size_t before = pith_problems(v);
        PITH_TRY(pith_preflight_tokens(v->model, v->options->targets.item[i], v->problems, err));
        PITH_TRY(pith_preflight_model(v->model, v->options->targets.item[i], v->problems, v->notes,
                                      err));
        pith_checked(v, before, "loading rules of %s", v->options->targets.item[i]);
    }
    return PITH_OK;
}

/* --- the whole -------------------------------------------------------------------------------- */

/* The rotations that pith.json has, as the quantizer made them. */
static enum pith_status open_basis(struct pith_verification *v, struct pith_error *err)
{
    const json_t *j = json_object_get(v->account, "basis");
    const struct pith_shape *s = &v->original->shape;
    const char *where = "pith.json: \"basis\"";
    int64_t stream = 0, head = 0, o = 0, down = 0, seed = 0;
    if (!j || json_is_null(j)) return PITH_OK;
    if (!json_is_object(j)) return pith_fail(err, PITH_FORMAT, "%s is not an object", where);
    PITH_TRY(pith_json_get_int(j, "stream", 0, s->hidden, &stream, where, err));
    PITH_TRY(pith_json_get_int(j, "head", 0, s->head_dim, &head, where, err));
    PITH_TRY(pith_json_get_int(j, "o", 0, s->heads * s->head_dim, &o, where, err));
    PITH_TRY(pith_json_get_int(j, "down", 0, s->ffn, &down, where, err));
    PITH_TRY(pith_json_get_int(j, "seed", INT64_MIN, INT64_MAX, &seed, where, err));
    struct pith_basis_plan plan = pith_basis_widths(v->original);
    plan.stream = (uint32_t)stream;
    plan.head = (uint32_t)head;
    plan.o = (uint32_t)o;
    plan.down = (uint32_t)down;
    plan.seed = (uint64_t)seed;
    enum pith_status st = pith_basis_init(&v->basis, &plan, err);
    if (st == PITH_OK) st = pith_rotate_check(&v->basis, v->original, err);
    if (st == PITH_ARG) return pith_fail_as(err, PITH_FORMAT, where); /* as a file says */
    return st == PITH_OK ? st : pith_fail_in(err, st, where);
}

/* Without an account there must be something else to hold the checkpoint against. */
static enum pith_status open_account(struct pith_verification *v, struct pith_error *err)
{
    const struct pith_verify_options *o = v->options;
    char *path = pith_account_path(o->model);
    if (!path) return pith_fail_nomem(err, "names");
    enum pith_status s = PITH_OK;
    if (pith_path_exists(path)) s = pith_account_open(path, &v->file, err);
    else if (pith_path_exists(o->model) && !o->against && o->targets.count == 0)
        s = pith_fail(err, PITH_IO,
                      "%s: no pith.json there: name the original (`against`) or engines (`targets`)"
                      " to judge it by",
                      o->model);
    v->account = v->file.head;
    pith_free(path);
    return s;
}

/* The original, with the adapter merged that was merged into it before. */
static enum pith_status open_original(struct pith_verification *v, struct pith_error *err)
{
    const struct pith_verify_options *o = v->options;
    const json_t *was = json_object_get(v->account, "adapter");
    json_t *is = NULL;
    char *room = pith_path_parent(o->model);
    if (!room) return pith_fail_nomem(err, o->model);
    const struct pith_merge_into merge = {
        .adapter = o->adapter, .room = room, .pool = pith_backend_pool(v->backend), .account = &is};
    /* What a conversion copied are codes; all else starts from what they stand for. */
    const bool codes = json_object_get(v->account, "converted_from") != NULL &&
                       !json_is_true(json_object_get(v->account, "dense"));
    const enum pith_status s = codes
                                   ? pith_model_open_with(o->against, &merge, &v->original, err)
                                   : pith_model_open_source(o->against, &merge, &v->original, err);
    if (s == PITH_OK && was && !is)
        pith_problem(v, "pith.json: an adapter was merged into the original (`adapter` names it)");
    else if (s == PITH_OK && is && v->account && !was)
        pith_problem(v, "pith.json: no adapter was merged into the original");
    else if (s == PITH_OK && is && was && !json_equal(is, was))
        pith_problem(v, "pith.json: another adapter was merged into the original");
    json_decref(is);
    pith_free(room);
    return s;
}

static enum pith_status open_all(struct pith_verification *v, struct pith_error *err)
{
    const struct pith_verify_options *o = v->options;
    PITH_TRY(open_account(v, err));
    PITH_TRY(pith_checkpoint_open(o->model, &v->checkpoint, err));
    if (!o->against) return PITH_OK;
    PITH_TRY(open_original(v, err));
    return open_basis(v, err);
}

json_t *pith_verify_entry(struct pith_verification *v, struct pith_entries *list, size_t i)
{
    struct pith_error why = {0};
    json_t *entry = NULL;
    if (pith_entries_get(list, i, &entry, &why) != PITH_OK) pith_fault(v, "pith.json", &why);
    return entry;
}

static json_t *find(struct pith_verification *v, struct pith_entries *list, const char *name,
                    bool meet)
{
    struct pith_error why = {0};
    struct pith_entry *row;
    json_t *entry;
    if (pith_entries_find(list, name, &row, &entry, &why) != PITH_OK)
        pith_fault(v, "pith.json", &why);
    if (row && meet) row->met = true;
    return entry;
}

json_t *pith_verify_meet(struct pith_verification *v, struct pith_entries *list, const char *name)
{
    return find(v, list, name, true);
}

bool pith_verify_has(struct pith_verification *v, struct pith_entries *list, const char *name)
{
    json_t *entry = find(v, list, name, false);
    json_decref(entry);
    return entry != NULL;
}

/* The account's lists are some, and their entries' names differ. */
static void check_names(struct pith_verification *v, struct pith_entries *list, const char *key)
{
    const json_t *is = json_object_get(v->account, key);
    if (v->account && !json_is_array(is)) pith_problem(v, "pith.json: \"%s\" is not a list", key);
    if (json_array_size(is) > 0) pith_problem(v, "pith.json: \"%s\" is spelt in another way", key);
    for (size_t i = 0; i < list->count; i++) {
        if (list->rows[i].fault == PITH_ENTRY_GOOD) continue;
        json_t *entry = pith_verify_entry(v, list, i);
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (!name) pith_problem(v, "pith.json: an entry of \"%s\" has no name", key);
        else pith_problem(v, "%s: is in pith.json twice", name);
        json_decref(entry);
    }
}

/* What the account says of the files, before anything is believed that they say. */
static enum pith_status check_account(struct pith_verification *v, struct pith_error *err)
{
    if (!v->account) {
        pith_note(v, "no pith.json: what was meant to be is not known");
        return PITH_OK;
    }
    check_names(v, &v->file.linears, "linears");
    check_names(v, &v->file.tensors, "tensors");
    PITH_TRY(pith_verify_files(v, err));
    return check_tensors(v, err);
}

static void note_misspelt(void *ctx, const char *object, const char *key, const char *near)
{
    pith_note(ctx, "config.json: %s%s\"%s\" is no key that is read; did you mean \"%s\"?", object,
              *object ? ": " : "", key, near);
}

/* What was read otherwise than files, names and lists say. */
static void note_reading(struct pith_verification *v)
{
    struct pith_error why = {0};
    json_t *list = NULL;
    const json_t *line;
    size_t i;
    if (pith_model_remarks(v->checkpoint, v->model, &list, &why) != PITH_OK)
        pith_fault(v, NULL, &why);
    json_array_foreach (list, i, line) pith_note(v, "%s", json_string_value(line));
    json_decref(list);
}

/* What an original says, and engines. */
static enum pith_status check_model(struct pith_verification *v, struct pith_error *err)
{
    if (v->original && !pith_verify_shape(v)) return pith_verify_agree(v, err);
    if (v->original) PITH_TRY(pith_verify_tokens(v, err));
    PITH_TRY(pith_verify_agree(v, err));
    if (v->account) {
        PITH_TRY(pith_verify_linears(v, err));
        check_figures(v);
        if (v->original) PITH_TRY(pith_verify_tensors(v, err));
    } else if (v->original) {
        PITH_TRY(pith_verify_unaccounted(v, err));
    }
    return check_engines(v, err);
}

static enum pith_status check_all(struct pith_verification *v, struct pith_error *err)
{
    struct pith_error why = {0};
    v->total = (double)(v->file.linears.count + v->file.tensors.count) * 1.5;
    PITH_TRY(pith_verify_agree(v, err));
    PITH_TRY(check_account(v, err));
    const size_t before = pith_problems(v);
    if (pith_model_open_from(v->checkpoint, &v->model, &why) != PITH_OK) pith_fault(v, NULL, &why);
    pith_checked(v, before, "config and shapes: the model can be loaded");
    pith_config_misspelt(v->checkpoint->config, note_misspelt, v);
    note_reading(v);
    PITH_TRY(pith_verify_agree(v, err));
    return v->model ? check_model(v, err) : PITH_OK;
}

/* The first problems, and how many more there are. */
static void add_problems(struct pith_report *r, const json_t *problems)
{
    enum { SHOWN = 20 };
    const json_t *line;
    size_t i;
    json_array_foreach (problems, i, line) {
        if (i == SHOWN) {
            pith_report_line(r, &(struct pith_line){.lead = "  ", .fields = true},
                             "... and %zu more (`json` lists all)", json_array_size(problems) - i);
            return;
        }
        pith_report_line(
            r,
            &(struct pith_line){
                .lead = "  problem: ", .wrap = PITH_WRAP_TERMINAL, .indent = 4, .fields = true},
            "%s", json_string_value(line));
    }
}

static void add_checks(struct pith_report *r, const struct pith_verification *v)
{
    for (size_t i = 0; i < v->checks; i++)
        pith_report_line(r,
                         &(struct pith_line){.lead = v->check[i].good ? "  ok  " : "  NO  ",
                                             .wrap = PITH_WRAP_TERMINAL,
                                             .indent = 6,
                                             .fields = true},
                         "%s", v->check[i].what);
}

static void add_notes(struct pith_report *r, const json_t *notes)
{
    const json_t *line;
    size_t i;
    json_array_foreach (notes, i, line)
        pith_report_line(
            r,
            &(struct pith_line){
                .lead = "  note: ", .wrap = PITH_WRAP_TERMINAL, .indent = 4, .fields = true},
            "%s", json_string_value(line));
}

static void fill_report(const struct pith_verification *v, struct pith_report *r)
{
    static const char worst[] = ": NOT as it should be";
    const bool good = pith_problems(v) == 0;
    const char *verdict = !good                 ? worst
                          : v->account          ? ": verified"
                          : v->options->against ? ": fits the original"
                                                : ": can be loaded";
    pith_report_judge(r, good);
    pith_report_set(r, "ok", pith_yes(good));
    pith_report_set(r, "model", pith_words(v->options->model));
    pith_report_set(r, "accounted", pith_yes(v->account != NULL));
    pith_report_list(r, "checks");
    for (size_t i = 0; i < v->checks; i++) {
        pith_report_open(r, "");
        pith_report_set(r, "what", pith_words(v->check[i].what));
        pith_report_set(r, "ok", pith_yes(v->check[i].good));
        pith_report_close(r);
    }
    pith_report_close(r);
    pith_report_set(r, "notes", pith_tree(json_incref(v->notes)));
    pith_report_set(r, "problems", pith_tree(json_incref(v->problems)));
    pith_report_line(r, &(struct pith_line){.strong = v->options->model, .reserve = sizeof worst},
                     "%s", verdict);
    add_checks(r, v);
    add_notes(r, v->notes);
    add_problems(r, v->problems);
}

static enum pith_status make_report(const struct pith_verification *v, struct pith_report **report,
                                    struct pith_error *err)
{
    if (v->failed) return pith_fail_nomem(err, "the report");
    *report = pith_report_new();
    if (!*report) return pith_fail_nomem(err, "the report");
    fill_report(v, *report);
    if (pith_problems(v) == 0) return PITH_OK;
    return pith_fail(err, PITH_MISMATCH, "%s", json_string_value(json_array_get(v->problems, 0)));
}

static void close_all(struct pith_verification *v)
{
    if (v->model) pith_model_close(v->model); /* it has the checkpoint */
    else pith_checkpoint_close(v->checkpoint);
    pith_model_close(v->original);
    pith_basis_free(&v->basis);
    pith_account_close(&v->file);
    for (size_t i = 0; i < v->checks; i++) pith_free(v->check[i].what);
    pith_free(v->check);
    json_decref(v->problems);
    json_decref(v->notes);
}

enum pith_status pith_verify_model(struct pith_backend *be, const struct pith_verify_options *o,
                                   struct pith_report **report, struct pith_error *err)
{
    struct pith_verification v = {
        .options = o,
        .backend = be,
        .problems = json_array(),
        .notes = json_array(),
    };
    const bool good = v.problems && v.notes;
    enum pith_status s = good ? open_all(&v, err) : pith_fail_nomem(err, "the report");
    if (s == PITH_OK) s = check_all(&v, err);
    s = pith_checkpoint_settle(v.checkpoint, false, s, err);
    if (v.original) s = pith_checkpoint_settle(v.original->checkpoint, false, s, err);
    if (v.account && s == PITH_OK) s = pith_map_check(&v.file.map, v.file.path, false, err);
    s = pith_verify_end(&v, s, err);
    if (s == PITH_OK) s = make_report(&v, report, err);
    close_all(&v);
    return s;
}
