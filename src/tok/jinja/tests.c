/* What stands behind "is". */
#include "tok/jinja/functions.h"
#include "tok/jinja/print.h"
#include "tok/jinja/text.h"

#define ARG0 (a->pos[0])
#define TEST(fn, holds)                                                                            \
    JINJA_FN(fn)                                                                                   \
    {                                                                                              \
        (void)r, (void)a, (void)self;                                                              \
        return pith_jbool(holds);                                                                  \
    }

static bool cased(struct pith_jrun *r, struct pith_jv v, bool upper)
{
    static const struct pith_jargs none;
    const struct pith_jv s = pith_jstring(r, v);
    if (r->status != PITH_OK) return false;
    const struct pith_jv is = upper ? pith_jm_isupper(r, s, &none) : pith_jm_islower(r, s, &none);
    return pith_jtrue(is);
}

static bool remainder_is(struct pith_jrun *r, struct pith_jv v, struct pith_jv by, int64_t rest)
{
    const struct pith_jv m = pith_jbinary(r, '%', v, by);
    return r->status == PITH_OK && pith_jequal(r, m, pith_jint(rest));
}

/* As id() has it: of one kind, and the same thing. */
static bool same_thing(struct pith_jrun *r, struct pith_jv x, struct pith_jv y)
{
    if (x.kind != y.kind) return false;
    if (x.kind < PITH_J_STRING) return pith_jequal(r, x, y);
    return x.u.s == y.u.s || (x.kind == PITH_J_STRING && pith_jequal(r, x, y));
}

static bool iterable(struct pith_jv v)
{
    return v.kind == PITH_J_STRING || v.kind == PITH_J_UNDEFINED || v.kind == PITH_J_DICT ||
           v.kind == PITH_J_LOOP || pith_jis_list(v);
}

static bool sequence(struct pith_jv v)
{
    return v.kind == PITH_J_STRING || v.kind == PITH_J_DICT || v.kind == PITH_J_UNDEFINED ||
           (v.kind >= PITH_J_LIST && v.kind <= PITH_J_RANGE);
}

static bool named(struct pith_jv v, const struct pith_jrow *(*row)(const struct pith_jstr *))
{
    return v.kind == PITH_J_STRING && row(v.u.s);
}

TEST(pith_jt_eq, pith_jequal(r, self, ARG0))
TEST(pith_jt_ne, !pith_jequal(r, self, ARG0))
TEST(pith_jt_lt, pith_jcompare(r, self, ARG0) < 0)
TEST(pith_jt_le, pith_jcompare(r, self, ARG0) <= 0)
TEST(pith_jt_gt, pith_jcompare(r, self, ARG0) > 0)
TEST(pith_jt_ge, pith_jcompare(r, self, ARG0) >= 0)
TEST(pith_jt_in, pith_jcontains(r, ARG0, self))
TEST(pith_jt_sameas, same_thing(r, self, ARG0))
TEST(pith_jt_divisibleby, remainder_is(r, self, ARG0, 0))
TEST(pith_jt_even, remainder_is(r, self, pith_jint(2), 0))
TEST(pith_jt_odd, remainder_is(r, self, pith_jint(2), 1))
TEST(pith_jt_boolean, self.kind == PITH_J_BOOL)
TEST(pith_jt_true, self.kind == PITH_J_BOOL && self.u.b)
TEST(pith_jt_false, self.kind == PITH_J_BOOL && !self.u.b)
TEST(pith_jt_callable, self.kind == PITH_J_CALLABLE || self.kind == PITH_J_MACRO)
TEST(pith_jt_defined, self.kind != PITH_J_UNDEFINED)
TEST(pith_jt_undefined, self.kind == PITH_J_UNDEFINED)
TEST(pith_jt_none, self.kind == PITH_J_NONE)
TEST(pith_jt_integer, self.kind == PITH_J_INT || self.kind == PITH_J_BIG)
TEST(pith_jt_float, self.kind == PITH_J_FLOAT)
TEST(pith_jt_number, pith_jis_number(self) || self.kind == PITH_J_BIG)
TEST(pith_jt_string, self.kind == PITH_J_STRING)
TEST(pith_jt_mapping, self.kind == PITH_J_DICT)
TEST(pith_jt_iterable, iterable(self))
TEST(pith_jt_sequence, sequence(self))
TEST(pith_jt_lower, cased(r, self, false))
TEST(pith_jt_upper, cased(r, self, true))
TEST(pith_jt_filter, named(self, pith_jfilter_row))
TEST(pith_jt_test, named(self, pith_jtest_row))
