/* Bodies of requests. What a body may hold is bounded before it is parsed: its size by the reader
 * of the connection, its depth here, so that no parser recurses further than is meant. */
#include "server/body.h"

#include <pith/json.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Whether brackets outside of texts lie at most BODY_DEPTH deep. */
static bool is_flat(const char *text, size_t size)
{
    size_t depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        const char c = text[i];
        if (quoted && c == '\\') i++;
        else if (c == '"') quoted = !quoted;
        else if (!quoted && (c == '[' || c == '{') && ++depth > BODY_DEPTH) return false;
        else if (!quoted && (c == ']' || c == '}') && depth > 0) depth--;
    }
    return true;
}

json_t *body_read(const char *text, size_t size, struct refusal *r)
{
    struct pith_error err = {0};
    json_t *body = NULL;
    if (!is_flat(text, size)) {
        (void)refuse(r, 400, NULL, "the body nests deeper than %d", BODY_DEPTH);
        return NULL;
    }
    const enum pith_status s = pith_tree_read(text, size, "the body", &body, &err);
    if (s == PITH_NOMEM) {
        (void)refuse_failure(r, s, NULL);
    } else if (s != PITH_OK) {
        (void)refuse(r, 400, NULL, "%s", err.text);
    } else if (!json_is_object(body) || pith_tree_number(body)) {
        json_decref(body);
        body = NULL;
        (void)refuse(r, 400, NULL, "the body must be a JSON object");
    }
    return body;
}

const json_t *body_get(const json_t *body, const char *name)
{
    const json_t *j = json_object_get(body, name);
    return json_is_null(j) ? NULL : j;
}

bool body_flag(const json_t *body, const char *name, bool missing, bool *out, struct refusal *r)
{
    const json_t *j = body_get(body, name);
    if (j && !json_is_boolean(j)) return refuse(r, 400, name, "'%s' must be true or false", name);
    *out = j ? json_is_true(j) : missing;
    return true;
}

bool body_whole(const json_t *value, json_int_t *out)
{
    const double most = 9007199254740992.0; /* up to which doubles are exact */
    const double x = json_real_value(value);
    const char *long_one = value ? pith_tree_number(value) : NULL;
    const bool minus = long_one && long_one[0] == '-';
    *out = long_one ? minus ? INT64_MIN : INT64_MAX : json_integer_value(value);
    if (long_one) return long_one[strspn(long_one + minus, "0123456789") + minus] == '\0';
    if (json_is_integer(value)) return true;
    if (!json_is_real(value) || !(fabs(x) <= most) || x < trunc(x) || x > trunc(x)) return false;
    *out = (json_int_t)x;
    return true;
}

bool body_model(const json_t *body, const char *name, const char *model, struct refusal *r)
{
    const json_t *j = body_get(body, "model");
    const char *given = json_string_value(j);
    if (!j) return true;
    if (!given) return refuse(r, 400, "model", "'model' must be a text");
    if (!name || strcmp(given, name) == 0 || (model && strcmp(given, model) == 0)) return true;
    return refuse_model(r, given, name);
}

bool body_ids(const json_t *list, const char *name, int32_t **out, size_t *count, struct refusal *r)
{
    const size_t n = json_array_size(list);
    *out = NULL;
    *count = 0;
    if (!json_is_array(list)) return refuse(r, 400, name, "'%s' must be a list of ids", name);
    if (n == 0) return true;
    int32_t *ids = malloc(n * sizeof *ids);
    if (!ids) return refuse_failure(r, PITH_NOMEM, NULL);
    for (size_t i = 0; i < n; i++) {
        const json_t *j = json_array_get(list, i);
        const json_int_t id = json_is_integer(j) ? json_integer_value(j) : -1;
        if (id < 0 || id > INT32_MAX) {
            free(ids);
            return refuse(r, 400, name, "'%s': element %zu is no token id", name, i);
        }
        ids[i] = (int32_t)id;
    }
    *out = ids;
    *count = n;
    return true;
}

static bool read_input(const json_t *j, const char *name, struct body_input *in, struct refusal *r)
{
    if (json_is_string(j)) {
        in->text = json_string_value(j);
        in->text_size = json_string_length(j);
        return true;
    }
    if (json_is_array(j) && json_array_size(j) == 0)
        return refuse(r, 400, name, "'%s' holds an empty list", name);
    return body_ids(j, name, &in->ids, &in->id_count, r);
}

bool body_inputs(const json_t *body, const char *name, size_t most, struct body_input **out,
                 size_t *count, struct refusal *r)
{
    const json_t *j = body_get(body, name);
    const json_t *head = json_array_get(j, 0);
    const bool several = json_is_array(j) && !json_is_integer(head);
    const size_t n = several ? json_array_size(j) : 1;
    *out = NULL;
    *count = 0;
    if (!json_is_string(j) && !json_is_array(j))
        return refuse(r, 400, name, "'%s' must be a text, a list of token ids, or a list of those",
                      name);
    if (n == 0) return refuse(r, 400, name, "'%s' is an empty list", name);
    if (n > most)
        return refuse(r, 400, name, "'%s' holds %zu inputs; at most %zu are taken", name, n, most);
    *out = calloc(n, sizeof **out);
    if (!*out) return refuse_failure(r, PITH_NOMEM, NULL);
    *count = n;
    for (size_t i = 0; i < n; i++)
        if (!read_input(several ? json_array_get(j, i) : j, name, &(*out)[i], r)) return false;
    return true;
}

void body_inputs_free(struct body_input *input, size_t count)
{
    for (size_t i = 0; input && i < count; i++) free(input[i].ids);
    free(input);
}
