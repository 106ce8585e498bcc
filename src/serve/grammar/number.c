#include "serve/grammar/number.h"

#include "base/json.h"
#include "serve/grammar/multiple.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Digits of a bound, the point behind digits[0..point). */
struct decimal {
    char digits[PITH_BOUND_FRACTION + 64];
    int count, point;
};

static void shortest(double value, char *text, size_t size)
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, size, "%.*e", digits - 1, value);
        if (strtod(text, NULL) == value) return;
    }
}

/* Reads what %e writes, without its sign. */
static void read_scientific(const char *text, struct decimal *d)
{
    *d = (struct decimal){.count = 0};
    for (; *text && *text != 'e'; text++)
        if (*text >= '0' && *text <= '9') d->digits[d->count++] = *text;
    while (d->count > 1 && d->digits[d->count - 1] == '0') d->count--;
    d->point = 1 + (*text ? (int)strtol(text + 1, NULL, 10) : 0);
}

static enum pith_status read_real(double value, struct pith_bound *out, struct pith_error *err)
{
    char text[64];
    struct decimal d;
    out->negative = value < 0;
    shortest(value < 0 ? -value : value, text, sizeof text);
    read_scientific(text, &d);
    if (value == 0) return PITH_OK;
    out->huge = d.point > PITH_NUMBER_WHOLE;
    if (out->huge) return PITH_OK;
    if (d.count - d.point > PITH_BOUND_FRACTION)
        return pith_fail(err, PITH_UNSUPPORTED, "a bound with more than %d digits behind the point",
                         PITH_BOUND_FRACTION);
    for (int i = 0; i < d.point; i++)
        out->whole = out->whole * 10 + (i < d.count ? (uint64_t)(d.digits[i] - '0') : 0);
    int n = 0;
    for (int i = d.point; i < d.count; i++) out->fraction[n++] = i < 0 ? '0' : d.digits[i];
    return PITH_OK;
}

enum pith_status pith_bound_read(const json_t *number, bool exclusive, struct pith_bound *out,
                                 struct pith_error *err)
{
    *out = (struct pith_bound){.set = true, .exclusive = exclusive};
    const char *marked = pith_json_marked_text(number);
    if (marked && strcmp(marked, "NaN") == 0)
        return pith_fail(err, PITH_FORMAT, "schema: a bound is NaN");
    if (marked) {
        out->negative = marked[0] == '-';
        out->huge = true;
        return PITH_OK;
    }
    if (json_is_real(number)) return read_real(json_real_value(number), out, err);
    const json_int_t value = json_integer_value(number);
    out->negative = value < 0;
    out->whole = value < 0 ? (uint64_t) - (value + 1) + 1 : (uint64_t)value;
    out->huge = out->whole >= 1000000000000000000u;
    return PITH_OK;
}

static int compare_size(const struct pith_bound *a, const struct pith_bound *b)
{
    if (a->huge != b->huge) return a->huge ? 1 : -1;
    if (a->whole != b->whole) return a->whole < b->whole ? -1 : 1;
    return strcmp(a->fraction, b->fraction);
}

int pith_bound_compare(const struct pith_bound *a, const struct pith_bound *b)
{
    int c = a->negative != b->negative ? (a->negative ? -1 : 1) : compare_size(a, b);
    if (a->negative && b->negative) c = -c;
    return c ? c : (int)a->exclusive - (int)b->exclusive;
}

/* --- whole numbers ---------------------------------------------------------------------------- */

static uint32_t digit(struct pith_net *n, uint32_t from, char lo, char hi)
{
    const uint32_t to = pith_net_add(n);
    pith_net_bytes(n, from, (uint8_t)lo, (uint8_t)hi, to);
    return to;
}

/* min..max digits more. */
static void some_digits(struct pith_net *n, uint32_t from, int min, int max, uint32_t to)
{
    for (int i = 0; i <= max; i++) {
        if (i >= min) pith_net_empty(n, from, to);
        if (i < max) from = digit(n, from, '0', '9');
    }
}

static bool all_are(const char *text, int count, char c)
{
    for (int i = 0; i < count; i++)
        if (text[i] != c) return false;
    return true;
}

/* Numbers of `count` digits from lo to hi. */
static void same_length(struct pith_net *n, uint32_t from, const char *lo, const char *hi,
                        int count, uint32_t to)
{
    if (count == 0) {
        pith_net_empty(n, from, to);
        return;
    }
    char first = lo[0], last = hi[0];
    char nines[20], zeros[20];
    memset(nines, '9', sizeof nines);
    memset(zeros, '0', sizeof zeros);
    if (first == last) {
        same_length(n, digit(n, from, first, last), lo + 1, hi + 1, count - 1, to);
        return;
    }
    if (!all_are(lo + 1, count - 1, '0')) {
        same_length(n, digit(n, from, first, first), lo + 1, nines, count - 1, to);
        first++;
    }
    if (!all_are(hi + 1, count - 1, '9')) {
        same_length(n, digit(n, from, last, last), zeros, hi + 1, count - 1, to);
        last--;
    }
    if (first <= last) some_digits(n, digit(n, from, first, last), count - 1, count - 1, to);
}

/* Whole numbers from lo to hi, of PITH_NUMBER_WHOLE digits at most. */
static void whole_between(struct pith_net *n, uint32_t from, uint64_t lo, uint64_t hi, uint32_t to)
{
    uint64_t first = 0, last = 9; /* of this many digits */
    for (int count = 1; count <= PITH_NUMBER_WHOLE; count++) {
        char a[24], b[24];
        const uint64_t x = lo > first ? lo : first, y = hi < last ? hi : last;
        if (x <= y) {
            snprintf(a, sizeof a, "%llu", (unsigned long long)x);
            snprintf(b, sizeof b, "%llu", (unsigned long long)y);
            same_length(n, from, a, b, count, to);
        }
        first = last + 1;
        last = last * 10 + 9;
    }
}

/* --- sizes: numbers without a sign ------------------------------------------------------------ */

struct fraction {
    const struct pith_bound *lo, *hi; /* NULL: no bound on this side */
    int most;                         /* digits */
};

static char digit_of(const struct pith_bound *b, int at)
{
    const int len = (int)strlen(b->fraction);
    return at < len ? b->fraction[at] : '0';
}

/* Whether the digits so far, which are those of the bounds where these still bind, are enough. */
static bool is_enough(const struct fraction *f, int at, bool lo, bool hi)
{
    if (lo) {
        const bool reached = at >= (int)strlen(f->lo->fraction);
        if (!reached || f->lo->exclusive) return false;
    }
    return !(hi && f->hi->exclusive && at >= (int)strlen(f->hi->fraction));
}

/* Digits from place `at` on; lo, hi: those before are the bound's. Bounds that bind both do so
 * along one path, so the recursion is as long as the digits. */
static void digits_from(struct pith_net *n, uint32_t from, const struct fraction *f, int at,
                        const bool binds[2], uint32_t to)
{
    const bool lo = binds[0], hi = binds[1];
    if (!lo && !hi) {
        some_digits(n, from, 0, f->most - at, to);
        return;
    }
    if (at > 0 && is_enough(f, at, lo, hi)) pith_net_empty(n, from, to);
    if (at == f->most) return;
    const char first = lo ? digit_of(f->lo, at) : '0', last = hi ? digit_of(f->hi, at) : '9';
    if (first > last) return;
    if (first == last) {
        digits_from(n, digit(n, from, first, last), f, at + 1, binds, to);
        return;
    }
    if (lo) digits_from(n, digit(n, from, first, first), f, at + 1, (bool[2]){true, false}, to);
    if (hi) digits_from(n, digit(n, from, last, last), f, at + 1, (bool[2]){false, true}, to);
    const char a = (char)(first + lo), b = (char)(last - hi);
    if (a <= b) digits_from(n, digit(n, from, a, b), f, at + 1, (bool[2]){false, false}, to);
}

/* What may follow the digits before the point. */
static void fraction_between(struct pith_net *n, uint32_t from, const struct pith_bound *lo,
                             const struct pith_bound *hi, uint32_t to)
{
    const struct fraction f = {lo, hi, PITH_BOUND_FRACTION + 1};
    const struct fraction free_of = {NULL, NULL, PITH_NUMBER_FRACTION};
    const bool binds[2] = {lo != NULL, hi != NULL};
    const uint32_t point = pith_net_add(n);
    pith_net_bytes(n, from, '.', '.', point);
    if (!lo && !hi) {
        pith_net_empty(n, from, to);
        some_digits(n, point, 1, free_of.most, to);
        return;
    }
    if (is_enough(&f, 0, lo != NULL, hi != NULL)) pith_net_empty(n, from, to);
    digits_from(n, point, &f, 0, binds, to);
}

static void sizes_between(struct pith_net *n, uint32_t from, const struct pith_bound *lo,
                          const struct pith_bound *hi, uint32_t to)
{
    const bool open = !hi->set || hi->huge;
    const uint64_t last = open ? UINT64_MAX : hi->whole;
    const uint32_t edge = pith_net_add(n), inner = pith_net_add(n);
    if (lo->huge || lo->whole > last) return;
    whole_between(n, from, lo->whole, lo->whole, edge);
    fraction_between(n, edge, lo, last == lo->whole ? hi : NULL, to);
    if (last == lo->whole) return;
    whole_between(n, from, lo->whole + 1, open ? last : last - 1, inner);
    fraction_between(n, inner, NULL, NULL, to);
    if (open) return;
    const uint32_t end = pith_net_add(n);
    whole_between(n, from, last, last, end);
    fraction_between(n, end, NULL, hi, to);
}

static void whole_sizes(struct pith_net *n, uint32_t from, const struct pith_bound *lo,
                        const struct pith_bound *hi, uint32_t to)
{
    uint64_t first = lo->whole, last = UINT64_MAX;
    if (lo->huge) return;
    if (lo->exclusive || lo->fraction[0]) first++;
    if (hi->set && !hi->huge) {
        last = hi->whole;
        if (hi->exclusive && !hi->fraction[0] && last-- == 0) return;
    }
    if (first <= last) whole_between(n, from, first, last, to);
}

/* Any number: its digits are bounded so that it does not run on, and all readers can hold it. */
static void any_number(struct pith_net *n, uint32_t from, uint32_t to)
{
    const uint32_t whole = pith_net_add(n), fraction = pith_net_add(n), exponent = pith_net_add(n),
                   minus = pith_net_add(n), power = pith_net_add(n), sign = pith_net_add(n);
    pith_net_empty(n, from, whole);
    pith_net_bytes(n, from, '-', '-', whole);
    pith_net_bytes(n, whole, '0', '0', fraction);
    some_digits(n, digit(n, whole, '1', '9'), 0, PITH_NUMBER_WHOLE - 1, fraction);
    pith_net_empty(n, fraction, exponent);
    pith_net_bytes(n, fraction, '.', '.', minus);
    some_digits(n, minus, 1, PITH_NUMBER_FRACTION, exponent);
    pith_net_empty(n, exponent, to);
    pith_net_bytes(n, exponent, 'e', 'e', power);
    pith_net_bytes(n, exponent, 'E', 'E', power);
    pith_net_empty(n, power, sign);
    pith_net_bytes(n, power, '+', '+', sign);
    pith_net_bytes(n, power, '-', '-', sign);
    some_digits(n, sign, 1, PITH_NUMBER_EXPONENT, to);
}

/* Numbers between two sizes. */
static void sizes(struct pith_net *n, uint32_t from, const struct pith_number_set *what,
                  const struct pith_bound *lo, const struct pith_bound *hi, uint32_t to)
{
    if (what->step.units) pith_net_multiples(n, from, what, lo, hi, to);
    else if (what->integer) whole_sizes(n, from, lo, hi, to);
    else sizes_between(n, from, lo, hi, to);
}

void pith_net_number(struct pith_net *n, uint32_t from, const struct pith_number_set *what,
                     uint32_t to)
{
    const struct pith_bound zero = {.set = true}, above = {.set = true, .exclusive = true};
    const struct pith_bound *lo = &what->lo, *hi = &what->hi;
    if (!what->integer && !what->step.units && !lo->set && !hi->set) {
        any_number(n, from, to);
        return;
    }
    if (!(hi->set && hi->negative))
        sizes(n, from, what, lo->set && !lo->negative ? lo : &zero, hi, to);
    if (lo->set && !lo->negative) return;
    const uint32_t minus = pith_net_add(n);
    pith_net_bytes(n, from, '-', '-', minus);
    sizes(n, minus, what, hi->set && hi->negative ? hi : &above, lo, to);
}
