#include "tok/post.h"

#include "base/mem.h"
#include "tok/component.h"
#include "tok/kind.h"
#include "tok/vocab.h"

#include <string.h>

static const char what[] = "post_processor";

/* More ids than this around a text are refused. */
#define MAX_IDS 1024

static enum pith_status push_json(struct pith_ids *ids, const json_t *id, struct pith_error *err)
{
    if (!json_is_integer(id) || json_integer_value(id) < 0 ||
        json_integer_value(id) > PITH_VOCAB_ID_MAX || ids->count >= MAX_IDS)
        return pith_fail(err, PITH_FORMAT, "%s: bad token id", what);
    if (!pith_ids_push(ids, (int32_t)json_integer_value(id))) return pith_fail_nomem(err, what);
    return PITH_OK;
}

/* Puts `outer` before (or behind) what is there already. */
static enum pith_status wrap(struct pith_ids *ids, struct pith_ids *outer, bool front,
                             struct pith_error *err)
{
    struct pith_ids *first = front ? outer : ids, *second = front ? ids : outer;
    if (first->count + second->count > MAX_IDS)
        return pith_fail(err, PITH_FORMAT, "%s: more than %d ids around a text", what, MAX_IDS);
    for (size_t i = 0; i < second->count; i++)
        if (!pith_ids_push(first, second->id[i])) return pith_fail_nomem(err, what);
    if (front) {
        const struct pith_ids swap = *ids;
        *ids = *outer;
        *outer = swap;
    }
    return PITH_OK;
}

/* One {"SpecialToken": {"id": name}} of a template. */
static enum pith_status special_piece(const json_t *piece, const json_t *tokens,
                                      struct pith_ids *ids, struct pith_error *err)
{
    const char *name = json_string_value(json_object_get(piece, "id"));
    const json_t *list = name ? json_object_get(json_object_get(tokens, name), "ids") : NULL;
    if (!json_is_array(list))
        return pith_fail(err, PITH_FORMAT, "%s: the template names an unknown special token", what);
    for (size_t i = 0; i < json_array_size(list); i++)
        PITH_TRY(push_json(ids, json_array_get(list, i), err));
    return PITH_OK;
}

static enum pith_status fill_template(const json_t *json, struct pith_ids *before,
                                      struct pith_ids *after, struct pith_error *err)
{
    const json_t *single = json_object_get(json, "single");
    const json_t *tokens = json_object_get(json, "special_tokens");
    if (!json_is_array(single))
        return pith_fail(err, PITH_FORMAT, "%s: no \"single\" template", what);
    size_t texts = 0;
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *item = json_array_get(single, i);
        const json_t *special = json_object_get(item, "SpecialToken");
        if (special) {
            PITH_TRY(special_piece(special, tokens, texts ? after : before, err));
            continue;
        }
        const char *id =
            json_string_value(json_object_get(json_object_get(item, "Sequence"), "id"));
        if (!id || strcmp(id, "A") != 0)
            return pith_fail(err, PITH_FORMAT, "%s: bad piece in the template", what);
        texts++;
    }
    if (texts != 1)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: a template with the text %zu times is not supported", what, texts);
    return PITH_OK;
}

typedef enum pith_status fill_fn(const json_t *json, struct pith_ids *before,
                                 struct pith_ids *after, struct pith_error *err);

/* {"cls": [text, id], "sep": [text, id]}: one id before, one behind. */
static enum pith_status fill_bert(const json_t *json, struct pith_ids *before,
                                  struct pith_ids *after, struct pith_error *err)
{
    PITH_TRY(push_json(before, json_array_get(json_object_get(json, "cls"), 1), err));
    return push_json(after, json_array_get(json_object_get(json, "sep"), 1), err);
}

/* Only moves offsets, which are not stored here. */
static enum pith_status fill_nothing(const json_t *json, struct pith_ids *before,
                                     struct pith_ids *after, struct pith_error *err)
{
    (void)json;
    (void)before;
    (void)after;
    (void)err;
    return PITH_OK;
}

static const struct {
    const char *name;
    fill_fn *fill;
} components[] = {
    {"TemplateProcessing", fill_template},
    {"ByteLevel", fill_nothing},
    {"BertProcessing", fill_bert},
    {"RobertaProcessing", fill_bert},
};

static enum pith_status apply(fill_fn *fill, const json_t *json, struct pith_ids *before,
                              struct pith_ids *after, struct pith_error *err)
{
    struct pith_ids b = {0}, a = {0};
    enum pith_status s = fill(json, &b, &a, err);
    if (s == PITH_OK) s = wrap(before, &b, true, err);
    if (s == PITH_OK) s = wrap(after, &a, false, err);
    pith_ids_free(&b);
    pith_ids_free(&a);
    return s;
}

static enum pith_status read_nested(const json_t *json, int depth, struct pith_ids *before,
                                    struct pith_ids *after, struct pith_error *err)
{
    const char *type;
    PITH_TRY(pith_component_type(json, what, &type, err));
    for (size_t i = 0; i < PITH_COUNT(components); i++)
        if (strcmp(components[i].name, type) == 0)
            return apply(components[i].fill, json, before, after, err);
    if (strcmp(type, "Sequence") != 0) return pith_component_unsupported(what, type, err);
    const json_t *list = json_object_get(json, "processors");
    if (!json_is_array(list) || depth == PITH_COMPONENT_DEPTH)
        return pith_fail(err, PITH_FORMAT, "%s: Sequence without a list, or nested too deep", what);
    for (size_t i = 0; i < json_array_size(list); i++)
        PITH_TRY(read_nested(json_array_get(list, i), depth + 1, before, after, err));
    return PITH_OK;
}

enum pith_status pith_post_read(const json_t *json, struct pith_ids *before, struct pith_ids *after,
                                struct pith_error *err)
{
    if (!json || json_is_null(json)) return PITH_OK;
    return read_nested(json, 0, before, after, err);
}
