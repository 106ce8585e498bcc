#include "eval/eval.h"

#include "base/mem.h"
#include "base/names.h"

#include <string.h>

struct request {
    size_t count, context, stride;
};

/* Window i but for bos_first; false: there is no such window. */
typedef bool window_fn(const struct request *r, size_t i, struct pith_window *w);

struct convention {
    const char *name;
    window_fn *window;
    size_t least_context;
    enum pith_bos bos;
    bool partial; /* a text shorter than a window is one window */
};

static bool gptq_window(const struct request *r, size_t i, struct pith_window *w)
{
    if (i >= r->count / r->context) return false;
    *w = (struct pith_window){i * r->context, r->context, 1, (double)(r->context - 1), false};
    return true;
}

/* llama.cpp takes the logits at positions context/2 .. context-2, which predict one position
 * later. */
static bool llamacpp_window(const struct request *r, size_t i, struct pith_window *w)
{
    if (i >= r->count / r->context) return false;
    const size_t from = r->context / 2 + 1;
    *w = (struct pith_window){i * r->context, r->context, from, (double)(r->context - from), false};
    return true;
}

/* The loop in Hugging Face's documentation, including its arithmetic: the labels of `fresh` new
 * tokens stay, the model drops the window's first label, and the mean over the rest is always
 * weighted by fresh - 1, also where the dropped label was none of the fresh ones. Equality needs
 * the same weight. A window of weight 0 (one fresh token at the very end) has no effect and is
 * omitted; with a stride of 1 all but the first would be such, so that is refused. */
static bool hf_window(const struct request *r, size_t i, struct pith_window *w)
{
    const size_t last = r->count > r->context ? (r->count - r->context + r->stride - 1) / r->stride
                                              : 0;
    if (i > last) return false;
    const size_t begin = i * r->stride;
    const size_t end = r->count - begin < r->context ? r->count : begin + r->context;
    const size_t seen = i == 0 ? 0 : begin - r->stride + r->context;
    const size_t fresh = end - seen;
    if (fresh < 2) return false;
    const size_t from = seen > begin ? seen - begin : 1;
    *w = (struct pith_window){begin, end - begin, from, (double)(fresh - 1), false};
    return true;
}

static const struct convention conventions[] = {
    [PITH_CONVENTION_GPTQ] = {"gptq", gptq_window, 2, PITH_BOS_OF_TEXT, false},
    [PITH_CONVENTION_HF] = {"hf", hf_window, 2, PITH_BOS_OF_TEXT, true},
    [PITH_CONVENTION_LLAMACPP] = {"llama.cpp", llamacpp_window, 3, PITH_BOS_ALWAYS, false},
    [PITH_CONVENTION_BOS] = {"bos", gptq_window, 2, PITH_BOS_IF_ADDED, false},
};

enum pith_bos pith_convention_bos(enum pith_convention c)
{
    return conventions[c].bos;
}

const char *pith_convention_name(enum pith_convention c)
{
    return conventions[c].name;
}

bool pith_convention_find(const char *name, enum pith_convention *out)
{
    for (size_t i = 0; i < PITH_COUNT(conventions); i++) {
        if (pith_name_equal(conventions[i].name, name)) {
            *out = (enum pith_convention)i;
            return true;
        }
    }
    return false;
}

enum pith_status pith_convention_check(enum pith_convention c, size_t context, size_t stride,
                                       struct pith_error *err)
{
    const struct convention *v = &conventions[c];
    if (context < v->least_context)
        return pith_fail(err, PITH_ARG,
                         "a context of %zu tokens leaves nothing to score; %s needs %zu", context,
                         v->name, v->least_context);
    if (v->partial && (stride < 2 || stride > context))
        return pith_fail(err, PITH_ARG, "stride %zu is not within 2..%zu (the context)", stride,
                         context);
    return PITH_OK;
}

static enum pith_status check(enum pith_convention c, const struct request *r,
                              struct pith_error *err)
{
    const struct convention *v = &conventions[c];
    PITH_TRY(pith_convention_check(c, r->context, r->stride, err));
    if (r->count < (v->partial ? 2 : r->context))
        return pith_fail(
            err, PITH_ARG,
            "the text has %zu tokens, fewer than one window of %zu: take a longer text or a "
            "shorter context",
            r->count, v->partial ? 2 : r->context);
    return PITH_OK;
}

enum pith_status pith_windows_make(enum pith_convention c, size_t count, size_t context,
                                   size_t stride, struct pith_window **out, size_t *windows,
                                   struct pith_error *err)
{
    const struct request r = {count, context, stride};
    PITH_TRY(check(c, &r, err));
    struct pith_window w;
    size_t n = 0;
    while (conventions[c].window(&r, n, &w)) n++;
    struct pith_window *all = pith_alloc(n, sizeof *all);
    if (!all) return pith_fail_nomem(err, "the windows of a text");
    for (size_t i = 0; i < n; i++) {
        conventions[c].window(&r, i, &all[i]);
        all[i].bos_first = conventions[c].bos != PITH_BOS_OF_TEXT;
    }
    *out = all;
    *windows = n;
    return PITH_OK;
}
