/* Any bytes as text from outside that is no task: calibration text, plain or in JSON lines, and
 * prompts. It is refused with a line, or gives windows of ids that the model has; prompts are
 * continued, the first ones.
 *
 *     u8 choice ('0' to '5'): below 3 which of the names, 3 added: line ends become LF
 *     the rest: the file */
#include "folder.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "calib/corpus.h"
#include "eval/task/prompts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TEXT, LINES, PROMPTS, NAMES };
static const char *const names[NAMES] = {"text.txt", "lines.jsonl", "prompts"};

static void must(bool truth)
{
    if (!truth) abort();
}

/* Made once: a model of 64 channels with a byte-level tokenizer. */
static struct pith_prompts_job tiny;

static void prepare(void)
{
    static const char dir[] = "tests/golden/eval/tiny";
    struct pith_pool *pool;
    struct pith_tokenizer *tokenizer;
    must(pith_pool_new(1, &pool, NULL) == PITH_OK);
    must(pith_backend_new(pool, PITH_CPU_ALL, &tiny.backend, NULL) == PITH_OK);
    must(pith_model_open(dir, &tiny.model, NULL) == PITH_OK);
    must(pith_tokenizer_open(dir, &tokenizer, NULL) == PITH_OK);
    tiny.baseline = tiny.model;
    tiny.tokenizer = tokenizer;
}

/* Two prompts are enough. */
static int stop_soon(void *ctx, const char *what, double done, double total)
{
    (void)ctx, (void)what, (void)total;
    return done >= 2;
}

static enum pith_status calibrate(const char *path, bool lf, struct pith_error *err)
{
    const struct pith_calib_options o = {
        .paths = &path, .path_count = 1, .tokens = 64, .seq_len = 8, .lf = lf};
    struct pith_calib_set set = {0};
    const enum pith_status s = pith_calib_load(&o, tiny.tokenizer, &set, err);
    if (s == PITH_OK) must(set.windows >= 1 && set.windows <= 8 && set.length == 8);
    for (size_t i = 0; i < set.windows * set.length; i++)
        must(set.ids[i] >= 0 && (size_t)set.ids[i] < pith_tokenizer_vocab(tiny.tokenizer));
    pith_calib_free(&set);
    return s;
}

static enum pith_status prompt(const char *path, struct pith_error *err)
{
    const struct pith_progress progress = {.fn = stop_soon};
    struct pith_prompts_job job = tiny;
    struct pith_prompts_result result;
    job.path = path;
    job.progress = &progress;
    const enum pith_status s = pith_eval_prompts(&job, &result, err);
    if (s == PITH_OK) must(result.prompts >= 1 && result.same == result.prompts);
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    if (!tiny.model) prepare();
    const unsigned kind = data[0] % NAMES;
    char path[128];
    struct pith_error err = {0};
    (void)snprintf(path, sizeof path, "%s/%s", folder(), names[kind]);
    folder_put(names[kind], data + 1, size - 1);
    const enum pith_status s = kind == PROMPTS ? prompt(path, &err)
                                               : calibrate(path, data[0] / NAMES % 2, &err);
    must(s == PITH_OK || err.text[0] != '\0');
    return 0;
}
