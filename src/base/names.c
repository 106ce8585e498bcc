#include "base/names.h"

#include "base/str.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 40 /* letters of a name; longer ones are near to nothing */ };

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool pith_name_equal(const char *a, const char *b)
{
    while (*a && lower(*a) == lower(*b)) {
        a++;
        b++;
    }
    return *a == '\0' && *b == '\0';
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

unsigned pith_name_distance(const char *a, const char *b)
{
    unsigned rows[3][LONGEST + 1], *before = rows[0], *above = rows[1], *row = rows[2];
    const size_t n = strlen(a), m = strlen(b);
    if (n > LONGEST || m > LONGEST) return LONGEST;
    for (size_t k = 0; k <= m; k++) row[k] = (unsigned)k;
    for (size_t i = 1; i <= n; i++) {
        unsigned *const oldest = before;
        before = above;
        above = row;
        row = oldest;
        row[0] = (unsigned)i;
        for (size_t k = 1; k <= m; k++) {
            const char x = lower(a[i - 1]), y = lower(b[k - 1]);
            row[k] = least(above[k - 1] + (x != y), least(above[k], row[k - 1]) + 1);
            if (i > 1 && k > 1 && x != y && x == lower(b[k - 2]) && lower(a[i - 2]) == y)
                row[k] = least(row[k], before[k - 2] + 1);
        }
    }
    return row[m];
}

/* Two words that begin alike, or whose first letter is the other's second. */
static bool begin_alike(const char *a, const char *b)
{
    const char x = lower(a[0]), y = lower(b[0]);
    return x == y || (x && (x == lower(b[1]) || y == lower(a[1])));
}

/* Whether text is the beginning of a name, three letters or more of it. */
static bool begins(const char *text, const char *name)
{
    size_t n = 0;
    while (text[n] && lower(text[n]) == lower(name[n])) n++;
    return text[n] == '\0' && n >= 3;
}

/* Of two names that are as near, the one whose digit differs less: int8 for int9, not int2. */
static unsigned digits_apart(const char *a, const char *b)
{
    size_t i = 0;
    while (a[i] && lower(a[i]) == lower(b[i])) i++;
    const bool digits = a[i] >= '0' && a[i] <= '9' && b[i] >= '0' && b[i] <= '9';
    if (!digits) return 10;
    return (unsigned)(a[i] > b[i] ? a[i] - b[i] : b[i] - a[i]);
}

const char *pith_name_nearest(const char *text, const char *const *names, size_t count)
{
    const char *best = NULL;
    unsigned most = strlen(text) < 4 ? 2 : (unsigned)(strlen(text) / 3 + 2), least_found = 0;
    for (size_t i = 0; i < count; i++) {
        unsigned d = pith_name_distance(text, names[i]);
        if (d > 1 && begins(text, names[i])) d = 1; /* a name that was not typed to its end */
        const bool nearer = best && d == least_found && d > 0 &&
                            digits_apart(text, names[i]) < digits_apart(text, best);
        if ((d >= most && !nearer) || d >= strlen(names[i])) continue;
        if (d > 1 && !begin_alike(text, names[i])) continue;
        best = names[i];
        most = least_found = d;
    }
    return best;
}

bool pith_number_parse(const char *text, uint64_t *out)
{
    static const char units[] = "kmgt";
    const size_t whole = strspn(text, "0123456789");
    const size_t part = text[whole] == '.' ? strspn(text + whole + 1, "0123456789") : 0;
    const char *rest = text + whole + (part ? part + 1 : 0);
    const char *unit = *rest ? strchr(units, lower(*rest)) : NULL;
    if (whole == 0 || (part && !unit)) return false;
    unsigned shift = 0;
    if (unit) {
        shift = 10 * (unsigned)(unit - units + 1);
        rest++;
        if (*rest == 'i') rest++;
        if (*rest == 'B' || *rest == 'b') rest++;
    }
    if (*rest) return false;
    errno = 0;
    const unsigned long long n = strtoull(text, NULL, 10);
    if (errno || n > (uint64_t)INT64_MAX >> shift) return false;
    /* A fraction of at most 2^40 keeps its whole part in a double. */
    const double fraction = part ? strtod(text + whole, NULL) : 0.0;
    *out = ((uint64_t)n << shift) + (uint64_t)floor(ldexp(fraction, (int)shift));
    return true;
}

enum pith_status pith_fail_name(struct pith_error *err, const char *what, const char *text,
                                pith_name_at_fn *name_at)
{
    enum { MOST = 128 };
    const char *names[MOST];
    size_t count = 0;
    while (count < MOST && name_at(count)) {
        names[count] = name_at(count);
        count++;
    }
    char name[LONGEST + 2]; /* without an option behind a colon, unless names have colons too */
    const char *near = pith_name_nearest(text, names, count);
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(text, ":"), text);
    if (!near) near = pith_name_nearest(name, names, count);
    if (near)
        return pith_fail(err, PITH_ARG, "unknown %s \"%.64s\"; did you mean \"%s\"?", what, text,
                         near);
    struct pith_str list = {0};
    for (size_t i = 0; i < count; i++) pith_str_printf(&list, "%s%s", i ? ", " : "", names[i]);
    const enum pith_status s = pith_fail(err, PITH_ARG, "unknown %s \"%.64s\"; there are %s", what,
                                         text, pith_str_text(&list));
    pith_str_free(&list);
    return s;
}

const char *pith_name_option(const char *text, const char *name)
{
    size_t n = 0;
    while (name[n] && lower(text[n]) == lower(name[n])) n++;
    if (name[n]) return NULL;
    return text[n] == '\0' ? "" : text[n] == ':' && text[n + 1] ? text + n + 1 : NULL;
}

const char *pith_name_of_path(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Five digits at text, 1 to 99999; 0 when they are others. */
static unsigned part_number(const char *text)
{
    unsigned n = 0;
    for (int i = 0; i < 5; i++) {
        if (text[i] < '0' || text[i] > '9') return 0;
        n = n * 10 + (unsigned)(text[i] - '0');
    }
    return n;
}

const char *pith_name_part(const char *name, unsigned *number, unsigned *count)
{
    enum { DIGITS = 5, BETWEEN = 4, ALL = 1 + DIGITS + BETWEEN + DIGITS };
    const char *end = strrchr(name, '.');
    if (!end || end - name < ALL) return NULL;
    const char *at = end - ALL + 1;
    if (at[-1] != '-' || memcmp(at + DIGITS, "-of-", BETWEEN) != 0) return NULL;
    *number = part_number(at);
    *count = part_number(at + DIGITS + BETWEEN);
    return *number > 0 && *number <= *count && *count > 1 ? at : NULL;
}
