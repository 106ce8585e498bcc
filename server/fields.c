/* The fields of requests, walked for each body. */
#include "server/fields.h"

#include "server/buffer.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { MOST_FIELDS = 256, MOST_IGNORED = 16, LONGEST = 40 };

enum {
    CHAT = FIELD_CHAT,
    TEXT = FIELD_TEXT,
    EMBED = FIELD_EMBED,
    ENCODE = FIELD_ENCODE,
    DECODE = FIELD_DECODE,
    RENDER = FIELD_RENDER,
    ANSWERS = CHAT | TEXT,
    PROMPTS = CHAT | ENCODE | RENDER,
    EVERY = CHAT | TEXT | EMBED | ENCODE | DECODE | RENDER
};

static const struct field {
    const char *name;
    unsigned taken, refused; /* by routes */
    const char *neutral;     /* members of a JSON list: values without an effect, null aside */
    const char *gate;        /* of no effect where this field is neutral; "" */
    const char *hint;
} fields[] = {
#define FIELD(name, taken, refused, neutral, gate, hint)                                           \
    {name, taken, refused, neutral, gate, hint},
#include "server/fields.def"
#undef FIELD
};
enum { FIELDS = sizeof fields / sizeof fields[0] };

static const struct field *find(const char *name)
{
    for (size_t i = 0; i < FIELDS; i++)
        if (strcmp(fields[i].name, name) == 0) return &fields[i];
    return NULL;
}

/* 1 and 1.0 are one value. */
static bool is_same(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) {
        const double x = json_number_value(a), y = json_number_value(b);
        return !(x < y) && !(x > y);
    }
    return json_equal(a, b);
}

/* Whether the value has no effect. */
static bool is_neutral(const struct field *f, const json_t *value)
{
    char text[160];
    bool same = json_is_null(value);
    snprintf(text, sizeof text, "[%s]", f->neutral);
    json_t *list = same ? NULL : json_loads(text, 0, NULL);
    for (size_t i = 0; !same && i < json_array_size(list); i++)
        same = is_same(json_array_get(list, i), value);
    json_decref(list);
    return same;
}

/* Whether the field that it belongs to is there and has no effect. 1 is so for factors. */
static bool is_shut(const struct field *f, const json_t *body)
{
    const struct field *gate = f->gate[0] ? find(f->gate) : NULL;
    const json_t *value = gate ? json_object_get(body, f->gate) : NULL;
    if (!value) return false;
    if (gate->taken && json_is_number(value))
        return json_number_value(value) >= 1 && json_number_value(value) <= 1;
    return is_neutral(gate, value);
}

/* --- names that were meant otherwise ---------------------------------------------------------- */

/* Letters that are typed: case, '_' and '-' aside. */
static size_t plain(const char *name, char out[LONGEST + 1])
{
    size_t n = 0;
    for (; *name; name++) {
        if (*name == '_' || *name == '-') continue;
        if (n == LONGEST) return LONGEST + 1;
        out[n++] = *name >= 'A' && *name <= 'Z' ? (char)(*name - 'A' + 'a') : *name;
    }
    out[n] = '\0';
    return n;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Letters more, less or other, and neighbours exchanged, that lead from one to the other. */
static size_t edits(const char *a, size_t an, const char *b, size_t bn)
{
    size_t row[3][LONGEST + 1];
    for (size_t j = 0; j <= bn; j++) row[0][j] = j;
    for (size_t i = 1; i <= an; i++) {
        size_t *now = row[i % 3];
        const size_t *last = row[(i + 2) % 3], *older = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= bn; j++) {
            now[j] = least(last[j - 1] + (a[i - 1] != b[j - 1]), least(last[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], older[j - 2] + 1);
        }
    }
    return row[an % 3][bn];
}

/* The field that an unknown name is nearly that of: one edit for four letters, two for nine. */
static const char *meant(const char *name)
{
    char a[LONGEST + 1], b[LONGEST + 1];
    const size_t an = plain(name, a);
    const char *best = NULL;
    size_t nearest = an >= 9 ? 3 : an >= 4 ? 2 : 1;
    for (size_t i = 0; an <= LONGEST && i < FIELDS; i++) {
        const size_t bn = plain(fields[i].name, b);
        const size_t apart = an > bn ? an - bn : bn - an;
        if (apart >= nearest || bn > LONGEST) continue;
        const size_t n = edits(a, an, b, bn);
        if (n >= nearest) continue;
        nearest = n;
        best = fields[i].name;
    }
    return best;
}

/* --- a body ----------------------------------------------------------------------------------- */

static bool refuse_field(const struct field *f, struct refusal *r)
{
    return refuse(r, 400, f->name, "'%s' is not supported here and would change the answer%s%s",
                  f->name, f->hint[0] ? ": " : "", f->hint);
}

/* For the log. */
static void note(json_t **ignored, const char *name)
{
    if (!*ignored) *ignored = json_array();
    if (json_array_size(*ignored) < MOST_IGNORED)
        json_array_append_new(*ignored, json_any_text(name, strnlen(name, LONGEST)));
}

bool fields_check(const json_t *body, enum field_route route, json_t **ignored, struct refusal *r)
{
    const char *name;
    json_t *value;
    *ignored = NULL;
    if (json_object_size(body) > MOST_FIELDS)
        return refuse(r, 400, NULL, "the body has more than %d fields", MOST_FIELDS);
    json_object_foreach ((json_t *)(uintptr_t)body, name, value) {
        const struct field *f = find(name);
        const char *near = f ? NULL : meant(name);
        bool good = true;
        if (near)
            good =
                refuse(r, 400, name, "there is no field '%.64s'; did you mean '%s'?", name, near);
        else if (!f) note(ignored, name);
        else if ((f->refused & route) && !is_neutral(f, value) && !is_shut(f, body))
            good = refuse_field(f, r);
        if (good) continue;
        json_decref(*ignored);
        *ignored = NULL;
        return false;
    }
    return true;
}

bool fields_within(const json_t *object, const char *path, const char *const *names, size_t count,
                   struct refusal *r)
{
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)object, name, value) {
        char whole[64];
        size_t i = 0;
        while (i < count && strcmp(names[i], name) != 0) i++;
        if (i < count || json_is_null(value) || json_is_false(value)) continue;
        snprintf(whole, sizeof whole, "%s.%.32s", path, name);
        return refuse(r, 400, whole, "'%s' is not supported", whole);
    }
    return true;
}
