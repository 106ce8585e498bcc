#include "export/preflight.h"

#include "base/mem.h"
#include "base/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Each is one file export/engine_<name>.c. */
extern const struct pith_target_engine pith_engine_vllm, pith_engine_sglang, pith_engine_trtllm,
    pith_engine_transformers, pith_engine_llamacpp, pith_engine_pith;

static const struct pith_target_engine *const rows[] = {
    &pith_engine_vllm,         &pith_engine_sglang,   &pith_engine_trtllm,
    &pith_engine_transformers, &pith_engine_llamacpp, &pith_engine_pith,
};

const struct pith_target_engine *const *pith_engines(size_t *count)
{
    *count = PITH_COUNT(rows);
    return rows;
}

const struct pith_target_engine *pith_engine_find(const char *name)
{
    for (size_t i = 0; i < PITH_COUNT(rows); i++)
        if (pith_name_equal(rows[i]->name, name)) return rows[i];
    return NULL;
}

bool pith_engine_fuses(const struct pith_target_engine *e, const struct pith_container *c)
{
    for (size_t i = 0; i < e->count; i++)
        if (e->rules[i].fused && strcmp(e->rules[i].container, c->name) == 0) return true;
    return false;
}

static const char *engine_name(size_t i)
{
    return i < PITH_COUNT(rows) ? rows[i]->name : NULL;
}

static enum pith_status read_ranks(const char *text, const char *value, struct pith_target *out,
                                   struct pith_error *err)
{
    char *end;
    const unsigned long tp = strtoul(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end || tp < 1 || tp > 1024)
        return pith_fail(err, PITH_ARG, "\"%.60s\": tp is a number from 1 to 1024", text);
    if (tp > 1 && !out->engine->ranks)
        return pith_fail(err, PITH_ARG, "\"%.60s\": %s does not split a model over ranks", text,
                         out->engine->name);
    out->tp = (unsigned)tp;
    return PITH_OK;
}

static enum pith_status read_part(const char *text, const char *part, struct pith_target *out,
                                  struct pith_error *err)
{
    if (strncasecmp(part, "tp=", 3) == 0) return read_ranks(text, part + 3, out, err);
    if (strncasecmp(part, "gpu=", 4) == 0) return pith_hardware_get(part + 4, &out->gpu, err);
    return pith_fail(err, PITH_ARG, "\"%.60s\": after the engine come :tp=N, :gpu=NAME or nothing",
                     text);
}

enum pith_status pith_target_parse(const char *text, struct pith_target *out,
                                   struct pith_error *err)
{
    enum { PART = 64 };
    char part[PART];
    size_t n = strcspn(text, ":");
    (void)snprintf(part, sizeof part, "%.*s", n < PART ? (int)n : PART - 1, text);
    *out = (struct pith_target){.engine = pith_engine_find(part), .tp = 1};
    if (!out->engine) return pith_fail_name(err, "engine", part, engine_name);
    for (const char *at = text + n; *at; at += n) {
        n = strcspn(++at, ":");
        (void)snprintf(part, sizeof part, "%.*s", n < PART ? (int)n : PART - 1, at);
        PITH_TRY(read_part(text, part, out, err));
    }
    return PITH_OK;
}
