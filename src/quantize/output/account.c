/* pith.json: what was done, to every tensor, and what it cost. */
#include "quantize/output/account.h"

#include "base/file.h"
#include "base/names.h"
#include "export/groups.h"
#include "io/dense.h"
#include "io/digest.h"
#include "model/remarks.h"
#include "quantize/output/ends.h"
#include "quantize/output/layout.h"
#include "quantize/output/seal.h"
#include "quantize/run.h"
#include "quantize/select.h"
#include "quantize/site/error_limits.h"

#include <string.h>

/* Everything that another run of the same job makes again, bit for bit, stands outside "timing". */
/* memory_expected is what --memory was compared with; peak_memory what was allocated; peak_mapped
 * the resident pages of mapped files (calibration's activations, the input); peak_resident the most
 * of both at once. */
static json_t *timing(const struct pith_run *r)
{
    json_t *j =
        json_pack("{s:f, s:I, s:I, s:I, s:I, s:i, s:s}", "seconds", pith_clock() - r->started,
                  "memory_expected_bytes", (json_int_t)r->job->expected, "peak_memory_bytes",
                  (json_int_t)r->peak_anonymous, "peak_mapped_bytes", (json_int_t)r->peak_mapped,
                  "peak_resident_bytes", (json_int_t)pith_memory_peak(), "threads",
                  (int)pith_pool_threads(pith_backend_pool(r->job->backend)), "cpu",
                  pith_backend_cpu(r->job->backend));
    const double search = r->frame->search;
    bool good = j &&
                (!(search > 0) || json_object_set_new(j, "seconds_search", json_real(search)) == 0);
    good = good && pith_phases_report(&r->phases, j);
    if (good && r->job->needs_round && !pith_job_learns(r->job) && !r->cal.between.data)
        good = json_object_set_new(j, "recomputed", json_true()) == 0;
    if (good && pith_pace_report(r, j)) return j;
    json_decref(j);
    return NULL;
}

json_t *pith_job_sources(const struct pith_job *job)
{
    const struct pith_quantize_options *o = job->options;
    json_t *sources = json_array();
    for (size_t i = 0; i < o->calib.count; i++) {
        pith_json_add(&sources, pith_json_name(pith_name_of_path(o->calib.item[i])));
    }
    if (o->calib.count == 0) pith_json_add(&sources, json_string("builtin"));
    return sources;
}

json_t *pith_job_offsets(const struct pith_calib_set *set)
{
    json_t *list = json_array();
    for (size_t w = 0, next; w < set->windows; w = next) {
        for (next = w + 1; next < set->windows; next++)
            if (set->at[next] != set->at[next - 1] + set->shows) break;
        pith_json_add(&list, json_pack("[I, I]", (json_int_t)set->at[w],
                                       (json_int_t)(set->at[next - 1] + set->shows)));
    }
    return list;
}

/* The part that judges (quantize/prediction.h). */
static json_t *judge_json(const struct pith_job *job)
{
    const struct pith_calib_set *set = &job->judge;
    return json_pack("{s:o, s:s, s:I, s:I, s:I, s:o}", "sources", pith_job_sources(job), "sha256",
                     set->sha256, "windows", (json_int_t)set->windows, "seq_len",
                     (json_int_t)set->length, "tokens", (json_int_t)(set->windows * set->length),
                     "offsets", pith_job_offsets(set));
}

json_t *pith_account_calibration(const struct pith_job *job)
{
    const struct pith_quantize_options *o = job->options;
    if (!pith_job_calibrates(job)) return json_null();
    json_t *sources = pith_job_sources(job);
    json_t *j = json_pack("{s:o, s:s, s:s, s:I, s:I, s:I, s:I}", "sources", sources, "mode",
                          job->fast ? "fast" : "exact", "sha256", job->calib.sha256, "windows",
                          (json_int_t)job->calib.windows, "seq_len", (json_int_t)job->calib.length,
                          "tokens", (json_int_t)(job->calib.windows * job->calib.length), "seed",
                          (json_int_t)o->seed);
    json_t *requested = json_pack("{s:I, s:I, s:I}", "tokens_asked", (json_int_t)o->calib_tokens,
                                  "tokens_available", (json_int_t)job->calib.available,
                                  "seq_len_asked", (json_int_t)o->seq_len);
    if (!requested || !j || json_object_update(j, requested) != 0) {
        json_decref(j);
        j = NULL;
    }
    json_decref(requested);
    if (job->judge.windows) {
        pith_json_set(&j, "offsets", pith_job_offsets(&job->calib));
        pith_json_set(&j, "held_out", judge_json(job));
    }
    if (j && job->calib.rendered + job->calib.joined)
        pith_json_set(&j, "messages", json_string(job->calib.joined ? "joined" : "template"));
    if (j && job->calib.crlf) {
        pith_json_set(&j, "crlf_lines", json_integer((json_int_t)job->calib.crlf));
        pith_json_set(&j, "crlf", json_string(o->crlf ? o->crlf : "keep"));
    }
    return j;
}

json_t *pith_account_joined(const struct pith_run *r, const char *key)
{
    json_t *all = json_array(), *unit;
    size_t i;
    json_array_foreach (r->journal.units, i, unit) {
        const json_t *part = json_object_get(unit, key), *entry;
        size_t k;
        json_array_foreach (part, k, entry)
            pith_json_add(&all, json_incref((json_t *)(uintptr_t)entry));
    }
    return all;
}

/* How the experts of a mixture were calibrated, and how many tokens took each. */
static json_t *experts(const struct pith_run *r)
{
    return json_pack("{s:s, s:i, s:o}", "rule", pith_experts_rule_name(r->job->experts), "few",
                     PITH_EXPERTS_FEW, "layers", pith_account_joined(r, "experts"));
}

double pith_account_weights(const json_t *linear)
{
    const json_t *shape = json_object_get(linear, "shape");
    return (double)json_integer_value(json_array_get(shape, 0)) *
           (double)json_integer_value(json_array_get(shape, 1));
}

static double quantized_bits(const struct pith_run *r, uint64_t *weights)
{
    const json_t *unit, *entry;
    size_t i, k;
    double bits = 0;
    *weights = 0;
    json_array_foreach (r->journal.units, i, unit) {
        json_array_foreach (json_object_get(unit, "linears"), k, entry) {
            const double n = pith_account_weights(entry);
            bits += n * json_real_value(json_object_get(entry, "bits_per_weight"));
            *weights += (uint64_t)n;
        }
    }
    return bits;
}

/* Of the model, whatever the input holds it in. */
static uint64_t count_parameters(const struct pith_job *job)
{
    const struct pith_checkpoint *in = job->model->checkpoint;
    uint64_t parameters = 0;
    for (size_t i = 0; i < in->count; i++) {
        const struct pith_choice *c = pith_job_tensor_choice(job, in->tensors[i].name);
        if (pith_job_leaves_out(job, in->tensors[i].name)) continue;
        if (!c || !c->stored.format) parameters += pith_tensor_elements(&in->tensors[i]);
    }
    for (size_t i = 0; i < job->choice_count + PITH_END_COUNT; i++)
        if (job->choices[i].stored.format)
            parameters += (uint64_t)job->choices[i].rows * job->choices[i].cols;
    char head[PITH_END_NAME];
    pith_end_tensor(job->model, PITH_END_HEAD, head);
    if (pith_job_unties(job) && !pith_checkpoint_find(in, head))
        parameters += (uint64_t)job->model->shape.vocab * pith_shape_embed(&job->model->shape);
    return parameters;
}

static json_t *sizes(const struct pith_run *r, uint64_t *weights, double *bits)
{
    const struct pith_checkpoint *in = r->job->model->checkpoint;
    const uint64_t parameters = count_parameters(r->job);
    *bits = quantized_bits(r, weights);
    return json_pack("{s:I, s:I, s:I, s:I}", "input_bytes", (json_int_t)in->bytes, "output_bytes",
                     (json_int_t)r->job->layout.total_bytes, "parameters", (json_int_t)parameters,
                     "quantized_parameters", (json_int_t)*weights);
}

/* What pith_basis_init() needs to do it again. */
static json_t *basis(const struct pith_job *job)
{
    const struct pith_basis_plan *p = &job->basis_plan;
    if (!pith_job_rotates(job)) return json_null();
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "stream", (json_int_t)p->stream, "head",
                     (json_int_t)p->head, "o", (json_int_t)p->o, "down", (json_int_t)p->down,
                     "seed", (json_int_t)p->seed);
}

const char *pith_account_container(const struct pith_job *job)
{
    return job->quantizes || job->container->file ? job->container->name : "none";
}

/* Tensors of the input that have no place in the output, and why, if there are any. */
static void add_omitted(const struct pith_job *job, json_t **account)
{
    const struct pith_checkpoint *in = job->model->checkpoint;
    json_t *omitted = json_object();
    for (size_t i = 0; i < in->count; i++)
        if (pith_job_leaves_out(job, in->tensors[i].name)) {
            const bool computed = pith_plan_buffer(&job->model->plans, in->tensors[i].name);
            pith_json_set(&omitted, in->tensors[i].name,
                          json_string(computed ? "computed" : "not read"));
        }
    pith_json_set_some(account, "left_out", omitted);
}

/* The entry of a list for those two grids, made when it is not there; NULL when memory is out. */
static json_t *groups_entry(json_t *list, const json_t *linear)
{
    static const char *const keys[] = {"wanted", "grid"};
    json_t *entry;
    size_t i;
    json_array_foreach (list, i, entry)
        if (json_equal(json_object_get(entry, keys[0]), json_object_get(linear, keys[0])) &&
            json_equal(json_object_get(entry, keys[1]), json_object_get(linear, keys[1])))
            return entry;
    entry = json_pack("{s:O, s:O, s:i, s:[]}", keys[0], json_object_get(linear, keys[0]), keys[1],
                      json_object_get(linear, keys[1]), "linears", 0, "columns");
    return json_array_append_new(list, entry) == 0 ? entry : NULL;
}

json_t *pith_account_groups(const json_t *linears)
{
    json_t *list = json_array(), *entry;
    const json_t *l, *n;
    size_t i, k;
    json_array_foreach (linears, i, l) {
        const char *wanted = json_string_value(json_object_get(l, "wanted"));
        struct pith_grid g;
        if (!wanted || pith_grid_parse(wanted, &g, NULL) != PITH_OK || !pith_groups_vary(&g))
            continue;
        json_t *cols = json_array_get(json_object_get(l, "shape"), 1);
        entry = groups_entry(list, l);
        json_int_t count = json_integer_value(json_object_get(entry, "linears")) + 1;
        bool there = json_integer_value(cols) % g.group == 0;
        json_array_foreach (json_object_get(entry, "columns"), k, n) there |= json_equal(n, cols);
        if (!there) json_array_append(json_object_get(entry, "columns"), cols);
        if (!entry || json_object_set_new(entry, "linears", json_integer(count)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* The engines of --for, and how the GPUs named there run the model. */
static json_t *engines(const struct pith_job *job)
{
    const struct pith_list *targets = &job->options->targets;
    const struct pith_offer offer = pith_job_offer(job);
    json_t *list = json_array();
    for (size_t i = 0; i < targets->count; i++) {
        struct pith_target t;
        struct pith_error ignored = {0};
        json_t *notes = json_array();
        if (pith_target_parse(targets->item[i], &t, &ignored) != PITH_OK || !notes ||
            pith_target_natives(&t, &offer, false, notes, &ignored) != PITH_OK) {
            json_decref(notes);
            json_decref(list);
            return NULL;
        }
        pith_json_add(&list, json_pack("{s:s, s:o}", "engine", targets->item[i], "notes", notes));
    }
    return list;
}

static void add_remarks(const struct pith_job *job, json_t **account)
{
    json_t *list = NULL;
    const struct pith_model *m = job->model;
    (void)pith_model_remarks(m->checkpoint, m, &list, NULL);
    pith_json_set_some(account, "remarks", list);
}

json_t *pith_run_account(const struct pith_run *r)
{
    uint64_t weights;
    double bits;
    json_t *size = sizes(r, &weights, &bits);
    const double parameters = (double)json_integer_value(json_object_get(size, "parameters"));
    json_t *account = json_pack(
        "{s:s, s:i, s:s, s:s, s:o, s:s, s:f, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "pith",
        pith_version(), "account", PITH_ACCOUNT_VERSION, "job", r->job->fingerprint, "architecture",
        r->job->model->arch->name, "recipe", pith_job_recipe_json(r->job), "container",
        pith_account_container(r->job), "bits_per_weight", weights ? bits / (double)weights : 0.0,
        "bits_per_parameter",
        8.0 * (double)r->job->layout.total_bytes / (parameters > 0 ? parameters : 1), "sizes", size,
        "calibration", pith_account_calibration(r->job), "basis", basis(r->job), "linears",
        pith_account_joined(r, "linears"), "transforms", pith_account_joined(r, "transforms"),
        "tensors", pith_account_joined(r, "tensors"), "timing", timing(r));
    if (account && r->job->needs_round & PITH_NEED_GUIDED)
        pith_json_set(&account, "guide", pith_guiding_account(r->job));
    if (account && pith_job_learns(r->job))
        pith_json_set(&account, "blocks", pith_account_joined(r, "blocks"));
    if (account && r->job->model->shape.moe.experts && pith_job_calibrates(r->job))
        pith_json_set(&account, "experts", experts(r));
    /* What "loss" of a linear is: the squared error of its output, or of its weights. A rounder of
     * whole blocks knows the block's alone. */
    const bool outputs = (r->job->needs_round & PITH_NEED_HESSIAN) && !pith_job_learns(r->job);
    if (account) pith_json_set(&account, "losses", json_string(outputs ? "outputs" : "weights"));
    if (account)
        pith_json_set(&account, "warnings",
                      pith_judge_warnings(json_object_get(account, "linears"), outputs));
    if (account && r->job->quantizes && r->job->options->targets.count)
        pith_json_set(&account, "engines", engines(r->job));
    if (account && pith_job_falls(r->job))
        pith_json_set(&account, "groups", pith_account_groups(json_object_get(account, "linears")));
    const struct pith_container *stored = r->job->model->checkpoint->dense
                                              ? pith_dense_container(r->job->model->checkpoint)
                                              : r->job->model->container;
    const char *from = stored ? stored->name : "none";
    if (account) add_omitted(r->job, &account);
    if (account) add_remarks(r->job, &account);
    if (account && r->job->adapter)
        pith_json_set(&account, "adapter", json_incref(r->job->adapter));
    if (account && r->job->convert) pith_json_set(&account, "converted_from", json_string(from));
    if (account && r->job->dense) pith_json_set(&account, "dense", json_true());
    if (account && stored && !r->job->convert)
        pith_json_set(&account, "quantized_from", json_string(from));
    return account;
}

enum pith_status pith_account_files(const struct pith_run *r, json_t *account,
                                    struct pith_error *err)
{
    json_t *files;
    PITH_TRY(pith_checkpoint_digest(r->out.written, &files, err));
    return json_object_set_new(account, "files", files) == 0 ? PITH_OK
                                                             : pith_fail_nomem(err, "pith.json");
}
