/* How often the verdict on harm is wrong: a model that is changed in a known way is measured over a
 * whole text, which says what is true; then parts of the text of many lengths are judged alone, as
 * if each were all the text there was: passages as they stand (windows that follow each other), and
 * samples (windows from anywhere).
 *
 *     bench_harm CONTEXT MODEL TEXT...
 *
 * For each text and change: what is true. Then, over all of them and for each number of windows,
 * how many parts were judged rightly, too low, too high, none though harmed (missed), harmed though
 * not (false alarm), unresolved; and how often the interval of KL held the whole text's KL. */
#include "backend/backend.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "eval/eval.h"
#include "eval/harm.h"
#include "eval/speed/regrid.h"
#include "tok/tokenizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A change: a grid for the cache, or for the weights, or bytes as activations. */
struct change {
    const char *name, *kv, *weights;
    bool fast;
};
static const struct change changes[] = {
    {"cache bf16", "bf16", NULL, false},
    {"cache int8:token", "int8:token", NULL, false},
    {"cache int6:token", "int6:token", NULL, false},
    {"cache int5:token", "int5:token", NULL, false},
    {"cache int4:token", "int4:token", NULL, false},
    {"cache int2:token", "int2:token", NULL, false},
    {"int8:channel", NULL, "int8:channel", false},
    {"int8:channel, fast", NULL, "int8:channel", true},
    {"int5:g128", NULL, "int5:g128", false},
    {"int4:g128", NULL, "int4:g128", false},
    {"nvfp4", NULL, "nvfp4", false},
    {"int3:g128", NULL, "int3:g128", false},
};

enum { LENGTHS = 7, MOST_TOKENS = 49152, MOST_WINDOWS = 4096 };
static const size_t lengths[LENGTHS] = {1, 2, 4, 8, 16, 32, 64};

enum answer { RIGHT, LOW, HIGH, MISSED, ALARM, UNRESOLVED, ANSWERS };

struct tally {
    size_t trials, answer[ANSWERS], intervals, held;
};

/* Every position of a whole text. */
struct seen {
    struct pith_position *all;
    size_t count;
};

struct bench {
    struct pith_backend *backend, *fast;
    const char *path;
    struct pith_tokenizer *tokenizer;
    struct pith_model *model;
    size_t context;
    struct seen seen;
    struct pith_cached_text cached; /* what the model made of the text at work */
    size_t order[MOST_WINDOWS];
    struct tally none[2][LENGTHS], harmed[2][LENGTHS]; /* passages, samples */
};

static void die(const struct pith_error *err)
{
    fprintf(stderr, "bench_harm: %s\n", err->text);
    exit(1);
}

static void see(void *ctx, const struct pith_position *p)
{
    struct seen *s = ctx;
    s->all[s->count++] = *p;
}

/* The verdict on windows order[first] .. order[first + n - 1] of what was seen. */
static struct pith_harm_result judge(const struct bench *b, size_t first, size_t n, double *kld)
{
    struct pith_error err = {0};
    const size_t scored = b->context - 1, pieces = pith_stretches_of(n, scored);
    struct pith_stretches s;
    struct pith_harm_result out;
    double base = 0, sum = 0;
    if (pith_stretches_init(&s, n * pieces, &err) != PITH_OK) die(&err);
    for (size_t i = 0; i < n * scored; i++) {
        const size_t window = b->order[first + i / scored];
        const struct pith_position *p = &b->seen.all[window * scored + i % scored];
        pith_stretches_add(&s, i / scored * pieces + i % scored * pieces / scored, p);
        base += p->base_nll / (double)(n * scored);
        sum += p->kld / (double)(n * scored);
    }
    if (pith_harm_judge(&s, base, &out, &err) != PITH_OK) die(&err);
    pith_stretches_free(&s);
    *kld = sum;
    return out;
}

/* What is true: the level that the means of the whole text reach. */
static enum pith_harm truth(const struct bench *b, double *kld, double *delta)
{
    static const double limits[][2] = {
#define PITH_HARM_LEVEL(id, name, kld, loss) {kld, loss},
#include "eval/harms.def"
#undef PITH_HARM_LEVEL
    };
    const double n = (double)b->seen.count;
    enum pith_harm h = PITH_HARM_NONE;
    double base = 0;
    *kld = *delta = 0;
    for (size_t i = 0; i < b->seen.count; i++) {
        *kld += b->seen.all[i].kld / n;
        *delta += (b->seen.all[i].nll - b->seen.all[i].base_nll) / n;
        base += b->seen.all[i].base_nll / n;
    }
    const double scale = fmin(base / 2, 1);
    for (size_t i = 0; i < PITH_COUNT(limits); i++)
        if (*kld >= limits[i][0] * scale && *delta >= limits[i][1] * scale)
            h = (enum pith_harm)(i + 1);
    if (h == PITH_HARM_NONE && (*kld >= limits[0][0] * scale || *delta >= limits[0][0] * scale))
        h = PITH_HARM_UNRESOLVED;
    return h;
}

static enum answer answer_of(enum pith_harm said, enum pith_harm is)
{
    if (said == PITH_HARM_UNRESOLVED) return UNRESOLVED;
    if (said == is) return RIGHT;
    if (said == PITH_HARM_NONE) return MISSED;
    if (is == PITH_HARM_NONE) return ALARM;
    return said < is ? LOW : HIGH;
}

static void add(struct tally *t, enum answer a, bool interval, bool held)
{
    t->trials++;
    t->answer[a]++;
    t->intervals += interval;
    t->held += held;
}

static void print_tally(const char *what, size_t windows, const struct tally *t)
{
    const double one = 100 / fmax((double)t->trials, 1);
    printf("| %s | %zu | %zu | %.1f | %.1f | %.2f | %.2f | %.2f | %.1f | %.1f of %zu |\n", what,
           windows, t->trials, one * (double)t->answer[RIGHT], one * (double)t->answer[LOW],
           one * (double)t->answer[HIGH], one * (double)t->answer[MISSED],
           one * (double)t->answer[ALARM], one * (double)t->answer[UNRESOLVED],
           100 * (double)t->held / fmax((double)t->intervals, 1), t->intervals);
}

static void judge_parts(struct bench *b, enum pith_harm is, double kld, int sampled)
{
    const size_t windows = b->seen.count / (b->context - 1);
    struct pith_rng rng;
    double own;
    pith_rng_seed(&rng, 1);
    for (size_t i = 0; i < windows; i++) b->order[i] = i;
    for (size_t i = windows; sampled && i > 1; i--) {
        const size_t k = (size_t)pith_rng_below(&rng, i), was = b->order[k];
        b->order[k] = b->order[i - 1];
        b->order[i - 1] = was;
    }
    for (size_t l = 0; l < LENGTHS; l++)
        for (size_t w = 0; w + lengths[l] <= windows; w += lengths[l]) {
            const struct pith_harm_result h = judge(b, w, lengths[l], &own);
            const bool interval = isfinite(h.kld_ci95.lo);
            add(is == PITH_HARM_NONE ? &b->none[sampled][l] : &b->harmed[sampled][l],
                answer_of(h.harm, is), interval,
                interval && h.kld_ci95.lo <= kld && kld <= h.kld_ci95.hi);
        }
}

static void judge_all(struct bench *b, const char *name)
{
    double kld, delta;
    const enum pith_harm is = truth(b, &kld, &delta);
    printf("| %s | %.5f | %+.5f | %s |\n", name, kld, delta,
           is == PITH_HARM_UNRESOLVED ? "the two differ: left out" : pith_harm_name(is));
    fflush(stdout);
    if (is == PITH_HARM_UNRESOLVED) return; /* no answer is right */
    for (int sampled = 0; sampled < 2; sampled++) judge_parts(b, is, kld, sampled);
}

static void measure(struct bench *b, const struct change *c, const struct pith_ids *ids)
{
    struct pith_error err = {0};
    struct pith_model *other;
    struct pith_backend *be = c && c->fast ? b->fast : b->backend;
    struct pith_kv_format kv;
    struct pith_grid grid;
    struct pith_text_result result;
    if (pith_model_open(b->path, &other, &err) != PITH_OK) die(&err);
    if (pith_model_load_blocks(other, NULL, &err) != PITH_OK) die(&err);
    if (c && c->weights &&
        (pith_grid_parse(c->weights, &grid, &err) != PITH_OK ||
         pith_model_regrid(other, pith_backend_pool(be), &grid, NULL, &err) != PITH_OK))
        die(&err);
    if (pith_kv_parse(c ? c->kv : NULL, PITH_F32, other, &kv, &err) != PITH_OK) die(&err);
    if (pith_model_pack(other, be, &err) != PITH_OK) die(&err);
    b->seen.count = 0;
    const struct pith_text_job job = {.backend = be,
                                      .model = other,
                                      .baseline = c ? b->model : NULL,
                                      .kv = kv,
                                      .ids = ids->id,
                                      .count = ids->count,
                                      .bos = -1,
                                      .convention = PITH_CONVENTION_GPTQ,
                                      .context = b->context,
                                      .cached = &b->cached,
                                      .watch = {see, &b->seen}};
    if (pith_eval_text(&job, &result, &err) != PITH_OK) die(&err);
    if (c) judge_all(b, c->name);
    pith_model_close(other);
}

static void read_text(struct bench *b, const char *path)
{
    struct pith_error err = {0};
    struct pith_ids ids = {0};
    char *text;
    size_t size;
    if (pith_file_read(path, (size_t)64 << 20, &text, &size, &err) != PITH_OK) die(&err);
    if (pith_tokenizer_encode(b->tokenizer, text, size, false, &ids, &err) != PITH_OK) die(&err);
    if (ids.count > MOST_TOKENS) ids.count = MOST_TOKENS;
    const char *slash = strrchr(path, '/');
    printf("\n%s of %s, %zu tokens\n\n| change | KL | loss | truly |\n|---|---:|---:|---|\n",
           slash ? slash + 1 : path, b->path, ids.count);
    b->cached = (struct pith_cached_text){.most = (size_t)1 << 30};
    b->seen.all = pith_alloc(ids.count, sizeof *b->seen.all);
    if (!b->seen.all) exit(1);
    measure(b, NULL, &ids);
    for (size_t i = 0; i < PITH_COUNT(changes); i++) measure(b, &changes[i], &ids);
    pith_cached_text_free(&b->cached);
    pith_free(b->seen.all);
    pith_free(text);
    pith_ids_free(&ids);
}

static void print_sums(const struct bench *b)
{
    static const char *const names[2][2] = {{"passage, not harmed", "sample, not harmed"},
                                            {"passage, harmed", "sample, harmed"}};
    printf("\n| part | windows of %zu | trials | right %% | too low %% | too high %% | missed %% | "
           "false alarm %% | unresolved %% | KL held %% |\n"
           "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
           b->context);
    for (int harmed = 0; harmed < 2; harmed++)
        for (int sampled = 0; sampled < 2; sampled++)
            for (size_t l = 0; l < LENGTHS; l++)
                print_tally(names[harmed][sampled], lengths[l],
                            harmed ? &b->harmed[sampled][l] : &b->none[sampled][l]);
}

int main(int argc, char **argv)
{
    struct pith_error err = {0};
    static struct bench b;
    struct pith_pool *pool;
    if (argc < 4) {
        fprintf(stderr, "usage: %s CONTEXT MODEL TEXT...\n", argv[0]);
        return 2;
    }
    b.context = strtoull(argv[1], NULL, 10);
    b.path = argv[2];
    if (pith_pool_new(2, &pool, &err) != PITH_OK ||
        pith_backend_new(pool, PITH_CPU_ALL, &b.backend, &err) != PITH_OK ||
        pith_backend_new(pool, PITH_CPU_ALL, &b.fast, &err) != PITH_OK ||
        pith_backend_set_mode(b.fast, PITH_MODE_FAST, &err) != PITH_OK ||
        pith_model_open(b.path, &b.model, &err) != PITH_OK ||
        pith_tokenizer_open(b.path, &b.tokenizer, &err) != PITH_OK)
        die(&err);
    for (int i = 3; i < argc; i++) read_text(&b, argv[i]);
    print_sums(&b);
    pith_tokenizer_close(b.tokenizer);
    pith_model_close(b.model);
    pith_backend_free(b.fast);
    pith_backend_free(b.backend);
    pith_pool_free(pool);
    return 0;
}
