/* Operators with two sides. */
#include "tok/jinja/print.h"
#include "tok/jinja/run.h"
#include "tok/jinja/text.h"

#include <math.h>
#include <string.h>

static struct pith_jv unsupported(struct pith_jrun *r, const char *op, struct pith_jv a,
                                  struct pith_jv b)
{
    if (a.kind == PITH_J_UNDEFINED) return pith_jmisused(r, a);
    if (b.kind == PITH_J_UNDEFINED) return pith_jmisused(r, b);
    return pith_jfail(r, "unsupported operand type(s) for %s: '%s' and '%s'", op, pith_jtype(a),
                      pith_jtype(b));
}

static struct pith_jv too_large(struct pith_jrun *r)
{
    return pith_jfail(r, "a number does not fit into 64 bits");
}

/* Both as strings in one; of two of which one is safe, the other is escaped. */
static struct pith_jv add_text(struct pith_jrun *r, struct pith_jv a, struct pith_jv b)
{
    const bool safe = a.u.s->safe || b.u.s->safe;
    if (safe && !a.u.s->safe) a = pith_jescape(r, a.u.s);
    if (safe && !b.u.s->safe) b = pith_jescape(r, b.u.s);
    if (r->status != PITH_OK) return a;
    struct pith_jbuf out = {.r = r};
    pith_jbuf_str(&out, a.u.s);
    pith_jbuf_str(&out, b.u.s);
    struct pith_jv v = pith_jbuf_value(&out);
    if (safe && v.kind == PITH_J_STRING) {
        struct pith_jstr *s = pith_jtake(r, 1, sizeof *s);
        if (!s) return v;
        *s = *v.u.s;
        s->safe = true;
        v.u.s = s;
    }
    return v;
}

static struct pith_jv add_lists(struct pith_jrun *r, struct pith_jv a, struct pith_jv b)
{
    const struct pith_jv l = pith_jlist_new(r, a.kind);
    for (size_t i = 0; r->status == PITH_OK && i < a.u.list->count; i++)
        pith_jlist_add(r, l.u.list, a.u.list->item[i]);
    for (size_t i = 0; r->status == PITH_OK && i < b.u.list->count; i++)
        pith_jlist_add(r, l.u.list, b.u.list->item[i]);
    return l;
}

static struct pith_jv add(struct pith_jrun *r, struct pith_jv a, struct pith_jv b)
{
    int64_t i, j, sum;
    if (a.kind == PITH_J_STRING && b.kind == PITH_J_STRING) return add_text(r, a, b);
    if (pith_jinteger(a, &i) && pith_jinteger(b, &j))
        return __builtin_add_overflow(i, j, &sum) ? too_large(r) : pith_jint(sum);
    if (pith_jis_number(a) && pith_jis_number(b)) return pith_jfloat(pith_jreal(a) + pith_jreal(b));
    if (a.kind == b.kind && (a.kind == PITH_J_LIST || a.kind == PITH_J_TUPLE))
        return add_lists(r, a, b);
    if ((a.kind == PITH_J_STRING || a.kind == PITH_J_LIST || a.kind == PITH_J_TUPLE) &&
        b.kind != PITH_J_UNDEFINED)
        return pith_jfail(r, "can only concatenate %s (not \"%s\") to %s", pith_jtype(a),
                          pith_jtype(b), pith_jtype(a));
    return unsupported(r, "+", a, b);
}

static struct pith_jv repeat(struct pith_jrun *r, struct pith_jv of, int64_t times)
{
    if (of.kind == PITH_J_STRING) {
        struct pith_jbuf b = {.r = r};
        for (int64_t i = 0; i < times && of.u.s->len && pith_jstep(r, 1); i++)
            pith_jbuf_str(&b, of.u.s);
        return pith_jbuf_value(&b);
    }
    const struct pith_jv l = pith_jlist_new(r, of.kind);
    for (int64_t i = 0; i < times && r->status == PITH_OK && of.u.list->count; i++)
        for (size_t j = 0; j < of.u.list->count && r->status == PITH_OK; j++)
            pith_jlist_add(r, l.u.list, of.u.list->item[j]);
    return l;
}

static struct pith_jv times(struct pith_jrun *r, struct pith_jv a, struct pith_jv b)
{
    int64_t i, j, product;
    const bool sequence = a.kind == PITH_J_STRING || a.kind == PITH_J_LIST ||
                          a.kind == PITH_J_TUPLE;
    if (pith_jinteger(a, &i) && pith_jinteger(b, &j))
        return __builtin_mul_overflow(i, j, &product) ? too_large(r) : pith_jint(product);
    if (pith_jis_number(a) && pith_jis_number(b)) return pith_jfloat(pith_jreal(a) * pith_jreal(b));
    if (sequence && pith_jinteger(b, &j)) return repeat(r, a, j);
    if (pith_jinteger(a, &i) &&
        (b.kind == PITH_J_STRING || b.kind == PITH_J_LIST || b.kind == PITH_J_TUPLE))
        return repeat(r, b, i);
    return unsupported(r, "*", a, b);
}

/* Towards minus infinity, as Python divides. */
static struct pith_jv whole(struct pith_jrun *r, int op, int64_t i, int64_t j)
{
    if (j == 0) return pith_jfail(r, op == '%' ? "integer modulo by zero" : "division by zero");
    if (j == -1) return op == '%' ? pith_jint(0) : i == INT64_MIN ? too_large(r) : pith_jint(-i);
    const int64_t rest = i % j, fix = rest != 0 && (rest < 0) != (j < 0);
    return pith_jint(op == '%' ? rest + (fix ? j : 0) : i / j - fix);
}

static struct pith_jv power(struct pith_jrun *r, struct pith_jv a, struct pith_jv b)
{
    int64_t i, j, p = 1;
    if (!pith_jis_number(a) || !pith_jis_number(b)) return unsupported(r, "** or pow()", a, b);
    if (!pith_jinteger(a, &i) || !pith_jinteger(b, &j) || j < 0)
        return pith_jfloat(pow(pith_jreal(a), pith_jreal(b)));
    if (i == 0 || i == 1) return pith_jint(j == 0 ? 1 : i);
    if (j > 64) return i == -1 ? pith_jint(j % 2 ? -1 : 1) : too_large(r);
    for (; j > 0; j--)
        if (__builtin_mul_overflow(p, i, &p)) return too_large(r);
    return pith_jint(p);
}

static struct pith_jv divide(struct pith_jrun *r, int op, struct pith_jv a, struct pith_jv b)
{
    static const char *const names[] = {"/", "//", "%"};
    int64_t i, j;
    if (op == '%' && a.kind == PITH_J_STRING) return pith_jpercent(r, a.u.s, b);
    if (!pith_jis_number(a) || !pith_jis_number(b))
        return unsupported(r, names[op == '/' ? 0 : op == '%' ? 2 : 1], a, b);
    const double x = pith_jreal(a), y = pith_jreal(b);
    if (op != '/' && pith_jinteger(a, &i) && pith_jinteger(b, &j)) return whole(r, op, i, j);
    if (y == 0)
        return pith_jfail(r, op == '/' ? "division by zero" : "float floor division by zero");
    if (op == '/') return pith_jfloat(x / y);
    const double rest = x - y * floor(x / y);
    return pith_jfloat(op == '%' ? rest : floor(x / y));
}

static struct pith_jv minus(struct pith_jrun *r, struct pith_jv a, struct pith_jv b)
{
    int64_t i, j, d;
    if (pith_jinteger(a, &i) && pith_jinteger(b, &j))
        return __builtin_sub_overflow(i, j, &d) ? too_large(r) : pith_jint(d);
    if (pith_jis_number(a) && pith_jis_number(b)) return pith_jfloat(pith_jreal(a) - pith_jreal(b));
    return unsupported(r, "-", a, b);
}

struct pith_jv pith_jbinary(struct pith_jrun *r, int op, struct pith_jv a, struct pith_jv b)
{
    if (r->status != PITH_OK) return a;
    if (op == '+') return add(r, a, b);
    if (op == '-') return minus(r, a, b);
    if (op == '*') return times(r, a, b);
    if (op == PITH_JOP('*', '*')) return power(r, a, b);
    return divide(r, op, a, b);
}
