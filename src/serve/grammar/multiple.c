/* Multiples of a step as automata: what remains to write, and its remainder when it is
 * divided by the step, are a node. */
#include "serve/grammar/multiple.h"

#include "base/integer.h"
#include "base/mem.h"

#include <string.h>

/* Nodes of one number of digits, at most: steps that leave more over are refused. */
enum { MOST_RESTS = 1 << 14 };

static uint64_t power(int digits)
{
    uint64_t p = 1;
    while (digits-- > 0) p *= 10;
    return p;
}

enum pith_status pith_step_read(const json_t *number, struct pith_number_step *out,
                                struct pith_error *err)
{
    struct pith_bound b;
    PITH_TRY(pith_bound_read(number, false, &b, err));
    const int places = (int)strlen(b.fraction);
    if (b.huge || places > PITH_STEP_PLACES || b.whole >= power(PITH_NUMBER_WHOLE - places))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "schema: a \"multipleOf\" of more than %d digits, or %d behind the point",
                         PITH_NUMBER_WHOLE, PITH_STEP_PLACES);
    *out = (struct pith_number_step){b.whole, places};
    for (int i = 0; i < places; i++)
        out->units = out->units * 10 + (uint64_t)(b.fraction[i] - '0');
    return PITH_OK;
}

/* The step in units of 10^-places, of which it has no more than that. */
static bool rescale(struct pith_number_step *s, int places)
{
    const uint64_t by = power(places - s->places);
    if (s->units > UINT64_MAX / by) return false;
    *s = (struct pith_number_step){s->units * by, places};
    return true;
}

enum pith_status pith_step_both(struct pith_number_step *a, const struct pith_number_step *b,
                                struct pith_error *err)
{
    struct pith_number_step x = *a, y = *b;
    const int places = x.places > y.places ? x.places : y.places;
    bool fits = rescale(&x, places) && rescale(&y, places);
    if (fits && x.units) {
        const uint64_t by = y.units / pith_common_divisor(x.units, y.units);
        fits = x.units < power(PITH_NUMBER_WHOLE) / by;
        y.units = x.units * by;
    }
    *a = y;
    return fits ? PITH_OK
                : pith_fail(err, PITH_UNSUPPORTED,
                            "schema: \"multipleOf\" of steps that meet too far away");
}

bool pith_step_has(const struct pith_number_step *s, const struct pith_bound *value)
{
    const size_t places = strlen(value->fraction);
    if (value->huge || places > (size_t)s->places) return false;
    uint64_t rest = value->whole % s->units;
    for (size_t i = 0; i < (size_t)s->places; i++)
        rest = (rest * 10 + (i < places ? (uint64_t)(value->fraction[i] - '0') : 0)) % s->units;
    return rest == 0;
}

/* --- the automaton ---------------------------------------------------------------------------- */

struct walk {
    struct pith_net *net;
    uint64_t step;
    int point;      /* digits behind the point */
    uint32_t *node; /* by what remains to write: 0: not made yet */
    size_t first[PITH_NUMBER_WHOLE + 1]; /* in node: of so many digits */
    uint64_t unit[PITH_NUMBER_WHOLE + 1]; /* rests are multiples of it */
    uint32_t to;
};

static const uint32_t dead = UINT32_MAX; /* no node: nothing can be written */

/* Places for each rest of numbers of `digits` digits; their number. */
static size_t lay_out(struct walk *w, int digits)
{
    size_t count = 0;
    for (int left = 0; left <= digits; left++) {
        const uint64_t p = power(left), unit = pith_common_divisor(w->step, p),
                       rests = w->step / unit;
        w->first[left] = count;
        w->unit[left] = unit;
        if (rests > MOST_RESTS && p / unit > MOST_RESTS) return MOST_RESTS + 1;
        count += (size_t)(rests < p / unit ? rests : p / unit);
        if (count > MOST_RESTS) return count;
    }
    return count;
}

/* Where the digits go on of which so many remain: behind the point, where it stands here. */
static uint32_t place(struct walk *w, uint32_t from, int left)
{
    if (left == 0 || left != w->point) return from;
    const uint32_t behind = pith_net_add(w->net);
    pith_net_bytes(w->net, from, '.', '.', behind);
    return behind;
}

/* What the digits behind one must leave over, `left` of them. */
static uint64_t after(const struct walk *w, uint64_t rest, uint64_t digit, int left)
{
    const uint64_t d = digit * power(left) % w->step;
    return rest >= d ? rest - d : rest + (w->step - d);
}

/* The node from which any `left` digits lead on that leave over a rest. */
static uint32_t any_digits(struct walk *w, uint64_t rest, int left)
{
    if (rest >= power(left) || w->net->failed != PITH_OK) return dead;
    if (left == 0) return w->to;
    uint32_t *known = &w->node[w->first[left] + rest / w->unit[left]];
    if (*known) return *known;
    const uint32_t node = pith_net_add(w->net), from = place(w, node, left);
    *known = node;
    uint8_t first = '0';
    uint32_t to = any_digits(w, after(w, rest, 0, left - 1), left - 1);
    for (uint8_t d = 1; d <= 10; d++) { /* digits that lead to the same are one edge */
        const uint32_t next = d < 10 ? any_digits(w, after(w, rest, d, left - 1), left - 1) : dead;
        if (next == to && d < 10) continue;
        if (to != dead) pith_net_bytes(w->net, from, first, (uint8_t)('0' + d - 1), to);
        first = (uint8_t)('0' + d);
        to = next;
    }
    return node;
}

struct span {
    uint64_t lo, hi;
};

/* `left` digits from lo to hi that leave over a rest. Only the outermost digits keep a bound, so
 * the recursion is two paths. */
static void digits_between(struct walk *w, uint32_t from, uint64_t rest, int left, struct span s)
{
    if (left == 0) {
        if (rest == 0) pith_net_empty(w->net, from, w->to);
        return;
    }
    const uint64_t p = power(left - 1);
    from = place(w, from, left);
    for (uint64_t d = s.lo / p; d <= s.hi / p; d++) {
        const struct span of = {d == s.lo / p ? s.lo % p : 0, d == s.hi / p ? s.hi % p : p - 1};
        const uint64_t then = after(w, rest, d, left - 1);
        const uint8_t byte = (uint8_t)('0' + d);
        if (of.lo == 0 && of.hi == p - 1) {
            const uint32_t to = any_digits(w, then, left - 1);
            if (to != dead) pith_net_bytes(w->net, from, byte, byte, to);
        } else {
            const uint32_t to = pith_net_add(w->net);
            pith_net_bytes(w->net, from, byte, byte, to);
            digits_between(w, to, then, left - 1, of);
        }
    }
}

/* Digits of what is written: with a point no more than a double has, as readers have it. */
static int most_digits(int places)
{
    return places ? 15 : PITH_NUMBER_WHOLE;
}

/* Sizes in units of 10^-places between bounds, of so many digits at most; false: none. */
static bool units_between(const struct pith_bound *lo, const struct pith_bound *hi, int places,
                          struct span *out)
{
    const uint64_t end = power(most_digits(places));
    const struct pith_bound *const bound[2] = {lo, hi};
    uint64_t units[2] = {0, end};
    bool more[2] = {false, false}; /* the bound is behind these units */
    for (int i = 0; i < 2; i++) {
        const struct pith_bound *b = bound[i];
        const int digits = (int)strlen(b->fraction);
        if (!b->set) continue;
        units[i] = end;
        if (b->huge || b->whole >= end / power(places)) continue;
        units[i] = b->whole;
        for (int k = 0; k < places; k++)
            units[i] = units[i] * 10 + (k < digits ? (uint64_t)(b->fraction[k] - '0') : 0);
        more[i] = digits > places;
    }
    out->lo = units[0] + (more[0] || lo->exclusive);
    if (units[1] == end) out->hi = end - 1;
    else if (hi->exclusive && !more[1] && units[1]-- == 0) return false;
    else out->hi = units[1];
    return out->lo <= out->hi;
}

static int digits_of(uint64_t n)
{
    int digits = 1;
    for (; n >= 10; n /= 10) digits++;
    return digits;
}

/* The step of those multiples that have no more digits behind the point, in units of 10^-places. */
static uint64_t step_at(const struct pith_number_step *s, int places)
{
    return s->units / pith_common_divisor(s->units, power(s->places - places));
}

/* Digits behind the point of what is written, at most. */
static int most_places(const struct pith_number_set *what)
{
    return what->integer ? 0 : what->step.places;
}

/* Multiples written with `places` digits behind the point. */
static void with_places(struct pith_net *n, uint32_t from, const struct pith_number_step *step,
                        struct span s, int places, uint32_t to)
{
    struct walk w = {.net = n, .step = step_at(step, places), .point = places, .to = to};
    const int most = digits_of(s.hi) > places ? digits_of(s.hi) : places + 1;
    const size_t count = lay_out(&w, most);
    w.node = count > MOST_RESTS ? NULL : pith_zalloc(count, sizeof *w.node);
    if (!w.node) n->failed = count > MOST_RESTS ? PITH_LIMIT : PITH_NOMEM;
    for (int digits = places + 1; digits <= most && n->failed == PITH_OK; digits++) {
        const uint64_t least = digits == places + 1 ? 0 : power(digits - 1),
                       last = power(digits) - 1;
        const struct span of = {s.lo > least ? s.lo : least, s.hi < last ? s.hi : last};
        if (of.lo <= of.hi) digits_between(&w, from, 0, digits, of);
    }
    pith_free(w.node);
}

void pith_net_multiples(struct pith_net *n, uint32_t from, const struct pith_number_set *what,
                        const struct pith_bound *lo, const struct pith_bound *hi, uint32_t to)
{
    for (int i = 0; i <= most_places(what) && n->failed == PITH_OK; i++) {
        struct span s;
        if (units_between(lo, hi, i, &s)) with_places(n, from, &what->step, s, i, to);
    }
}

bool pith_multiples_fit(const struct pith_number_set *what)
{
    const struct pith_bound *lo = &what->lo, *hi = &what->hi;
    const bool open = !lo->set || !hi->set || lo->huge || hi->huge;
    const uint64_t whole = open ? 0 : lo->whole > hi->whole ? lo->whole : hi->whole;
    for (int i = 0; i <= most_places(what); i++) {
        struct walk w = {.step = step_at(&what->step, i), .point = i};
        const int most = most_digits(i), digits = open ? most : digits_of(whole) + i;
        if (lay_out(&w, digits < most ? digits : most) > MOST_RESTS) return false;
    }
    return true;
}
