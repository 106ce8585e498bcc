/* tok/jinja/value.h: what a chat template computes with. Values are Python's as far as templates
 * see them; strings know which of their bytes came from the conversation, so that what a user typed
 * never becomes a special token. All of a rendering lives in one pool that has a ceiling. */
#ifndef PITH_TOK_JINJA_VALUE_H
#define PITH_TOK_JINJA_VALUE_H

#include "base/json.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory that goes at once. Start with {.most = bytes}. */
struct pith_jchunk;
struct pith_jpool {
    struct pith_jchunk *last;
    size_t used, most;
    bool full; /* the ceiling was met, not the machine's memory */
};
/* Gives all of it back. */
void pith_jpool_free(struct pith_jpool *p);

enum pith_jkind {
    PITH_J_MISSING, /* an argument that was not given */
    PITH_J_UNDEFINED,
    PITH_J_NONE,
    PITH_J_BOOL,
    PITH_J_INT,
    PITH_J_FLOAT,
    PITH_J_BIG, /* an integer of more than 64 bits: its digits; templates can print it */
    PITH_J_STRING,
    PITH_J_LIST,
    PITH_J_TUPLE,
    PITH_J_RANGE,
    PITH_J_VIEW, /* a dict's keys(), values(), items() */
    PITH_J_ITERATOR,
    PITH_J_DICT,
    PITH_J_NAMESPACE, /* a dict whose members templates set */
    PITH_J_LOOP,
    PITH_J_MACRO,
    PITH_J_CALLABLE
};

/* UTF-8; never changed once made. */
struct pith_jstr {
    const char *s;
    size_t len;
    const uint8_t *marks; /* of each byte: 1 when it came from the conversation; NULL: all alike */
    bool marked;          /* when marks is NULL: they all did */
    bool safe;            /* by the filter safe: what is added to it is escaped */
};

struct pith_jlist;
struct pith_jdict;
struct pith_jloop;
struct pith_jmacro;
struct pith_jcallable;
struct pith_jv {
    enum pith_jkind kind;
    union {
        bool b;
        int64_t i;
        double d;
        const struct pith_jstr *s; /* of UNDEFINED: what to say of its use; of BIG: digits */
        struct pith_jlist *list;   /* LIST to ITERATOR */
        struct pith_jdict *dict;   /* DICT and NAMESPACE */
        struct pith_jloop *loop;
        const struct pith_jmacro *macro;
        const struct pith_jcallable *call;
    } u;
};

struct pith_jlist {
    struct pith_jv *item;
    size_t count, cap;
    const char *view; /* "dict_items" */
};

struct pith_jpair {
    struct pith_jv key, value;
};
struct pith_jdict { /* in the order of insertion */
    struct pith_jpair *pair;
    size_t count, cap;
};

/* A rendering under way. */
struct pith_jscope;
struct pith_jbuf;
struct pith_jrun {
    struct pith_jpool pool;
    enum pith_status status; /* the first failure; what is computed afterwards is not used */
    struct pith_error *err;
    uint64_t steps, most_steps;
    uint32_t depth;
    int line;
    int64_t now; /* seconds since 1970, for strftime_now */
    struct pith_jscope *scope;
    struct pith_jbuf *out;
    int flow; /* enum of exec.c */
};

/* Records a failure at the template's line that is being run; gives an undefined value. */
struct pith_jv pith_jfail(struct pith_jrun *r, const char *fmt, ...) PITH_PRINTF(2, 3);
/* The same when memory is out. */
struct pith_jv pith_jnomem(struct pith_jrun *r);
/* Counts work; false, and a failure, when it has been too much. */
bool pith_jstep(struct pith_jrun *r, uint64_t n);
/* Deeper by one, until r->depth is counted down again; false, and a failure, when too deep. */
bool pith_jdeeper(struct pith_jrun *r);
/* From the run's pool; NULL, and a failure, when there is no room. */
void *pith_jtake(struct pith_jrun *r, size_t count, size_t size);

/* Text being put together, in the run's pool; start with {.r = r}. */
struct pith_jbuf {
    struct pith_jrun *r;
    char *s;
    uint8_t *marks; /* NULL until a byte is marked */
    size_t len, cap;
};
/* Appends bytes, of the template or (marked) of the conversation. */
void pith_jbuf_add(struct pith_jbuf *b, const char *s, size_t n, bool marked);
void pith_jbuf_puts(struct pith_jbuf *b, const char *s);
/* Appends n bytes of a string from `at` on, as they are marked. */
void pith_jbuf_part(struct pith_jbuf *b, const struct pith_jstr *s, size_t at, size_t n);
void pith_jbuf_str(struct pith_jbuf *b, const struct pith_jstr *s);
/* The text as a string; the buffer may not be added to afterwards. */
struct pith_jv pith_jbuf_value(struct pith_jbuf *b);

static inline struct pith_jv pith_jnone(void)
{
    return (struct pith_jv){.kind = PITH_J_NONE};
}
static inline struct pith_jv pith_jbool(bool b)
{
    return (struct pith_jv){.kind = PITH_J_BOOL, .u.b = b};
}
static inline struct pith_jv pith_jint(int64_t i)
{
    return (struct pith_jv){.kind = PITH_J_INT, .u.i = i};
}
static inline struct pith_jv pith_jfloat(double d)
{
    return (struct pith_jv){.kind = PITH_J_FLOAT, .u.d = d};
}
/* An undefined value with the message where it is used; the text is copied. */
struct pith_jv pith_jundefined(struct pith_jrun *r, const char *fmt, ...) PITH_PRINTF(2, 3);
/* A string of those bytes, which are not copied. */
struct pith_jv pith_jtext(struct pith_jrun *r, const char *s, size_t n, bool marked);
/* n bytes of a string from `at` on. */
struct pith_jv pith_jslice(struct pith_jrun *r, const struct pith_jstr *s, size_t at, size_t n);
/* An empty list of that kind (LIST to ITERATOR), an empty dict or namespace. */
struct pith_jv pith_jlist_new(struct pith_jrun *r, enum pith_jkind kind);
struct pith_jv pith_jdict_new(struct pith_jrun *r, enum pith_jkind kind);
/* Appends; false after a failure. */
bool pith_jlist_add(struct pith_jrun *r, struct pith_jlist *l, struct pith_jv v);
/* A tuple of two. */
struct pith_jv pith_jpair_of(struct pith_jrun *r, struct pith_jv a, struct pith_jv b);
/* Sets a member; false after a failure. */
bool pith_jdict_set(struct pith_jrun *r, struct pith_jdict *d, struct pith_jv key,
                    struct pith_jv value);
/* The member's place, NULL when there is none. */
struct pith_jpair *pith_jdict_find(struct pith_jrun *r, const struct pith_jdict *d,
                                   struct pith_jv key);
/* The same by a name. */
struct pith_jpair *pith_jdict_get(struct pith_jrun *r, const struct pith_jdict *d,
                                  const char *name);

/* JSON as a value; strings are marked, keys too, but for a "role" that is a plain word. */
struct pith_jv pith_jfrom_json(struct pith_jrun *r, const json_t *j, bool marked);

static inline bool pith_jis_list(struct pith_jv v)
{
    return v.kind >= PITH_J_LIST && v.kind <= PITH_J_ITERATOR;
}
static inline bool pith_jis_number(struct pith_jv v)
{
    return v.kind == PITH_J_BOOL || v.kind == PITH_J_INT || v.kind == PITH_J_FLOAT;
}
/* The number that a bool, an int or a float is. */
double pith_jreal(struct pith_jv v);
/* The same of a bool or an int; false for others. */
bool pith_jinteger(struct pith_jv v, int64_t *out);
/* Whether a string is that text. */
bool pith_jis(const struct pith_jstr *s, const char *text);
bool pith_jtrue(struct pith_jv v);
/* "dict", "str", as Python names types. */
const char *pith_jtype(struct pith_jv v);
bool pith_jequal(struct pith_jrun *r, struct pith_jv a, struct pith_jv b);
/* Below 0, 0, above; a failure for values that have no order. */
int pith_jcompare(struct pith_jrun *r, struct pith_jv a, struct pith_jv b);
/* Whether a value is in a list, a dict's keys or a string. */
bool pith_jcontains(struct pith_jrun *r, struct pith_jv in, struct pith_jv what);
/* The number of items or characters; -1 and a failure for what has none. */
int64_t pith_jlength(struct pith_jrun *r, struct pith_jv v);
/* The items of anything that can be iterated, as a new list; NULL and a failure else. An
 * iterator is empty afterwards. */
struct pith_jlist *pith_jitems(struct pith_jrun *r, struct pith_jv v);
/* Characters of a string, and where in it character number `at` (at most that many) begins. */
size_t pith_jchars(const struct pith_jstr *s);
size_t pith_joffset(const struct pith_jstr *s, size_t at);
/* obj.name and obj[key] as the sandbox of jinja2 finds them; undefined when there is none. */
struct pith_jv pith_jattr(struct pith_jrun *r, struct pith_jv obj, const struct pith_jstr *name);
struct pith_jv pith_jitem(struct pith_jrun *r, struct pith_jv obj, struct pith_jv key);

#endif
