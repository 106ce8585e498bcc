#include "tok/unicode/unicode.h"

#include "base/mem.h"
#include "tok/unicode/utf8.h"

#include <string.h>
#include <utf8proc.h>

const struct pith_newer pith_newer_ranges[] = {
#define PITH_NEWER(first, last, category, han) {first, last, category, han},
#include "tok/unicode/newer.def"
#undef PITH_NEWER
};
const size_t pith_newer_count = PITH_COUNT(pith_newer_ranges);

struct range {
    uint32_t first, last;
};

static const struct range later_ranges[] = {
#define PITH_LATER(first, last) {first, last},
#include "tok/unicode/later.def"
#undef PITH_LATER
};

static const struct range join_ranges[] = {
#define PITH_JOINS(first, last) {first, last},
#include "tok/unicode/joins.def"
#undef PITH_JOINS
};

/* Whether one of the rising ranges holds a character. */
static bool is_in(const struct range *range, size_t count, uint32_t cp)
{
    size_t lo = 0, hi = count;
    if (cp < range[0].first) return false;
    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;
        if (cp > range[mid].last) lo = mid + 1;
        else hi = mid;
    }
    return lo < count && cp >= range[lo].first;
}

/* The range that holds a character, NULL when it is not one of those. */
static const struct pith_newer *unicode_newer(uint32_t cp)
{
    size_t lo = 0, hi = pith_newer_count;
    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;
        if (cp > pith_newer_ranges[mid].last) lo = mid + 1;
        else hi = mid;
    }
    return lo < pith_newer_count && cp >= pith_newer_ranges[lo].first ? &pith_newer_ranges[lo]
                                                                      : NULL;
}

bool pith_unicode_has_newer(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i += pith_utf8_len(text[i])) {
        if ((unsigned char)text[i] < 0xe0) continue; /* all of them are above U+07FF */
        if (unicode_newer(pith_utf8_get(text + i))) return true;
    }
    return false;
}

bool pith_unicode_later(uint32_t cp)
{
    if (cp < later_ranges[0].first) return false;
    return is_in(later_ranges, PITH_COUNT(later_ranges), cp) || unicode_newer(cp) != NULL;
}

bool pith_unicode_joins(uint32_t cp)
{
    return is_in(join_ranges, PITH_COUNT(join_ranges), cp);
}

bool pith_is_space(uint32_t cp)
{
    if (cp <= 0x20) return cp == 0x20 || (cp >= 0x09 && cp <= 0x0d);
    if (cp < 0x1680) return cp == 0x85 || cp == 0xa0;
    return cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

bool pith_is_word(uint32_t cp)
{
    if (cp == 0x200c || cp == 0x200d) return true;
    const struct pith_newer *newer = unicode_newer(cp);
    if (newer)
        return newer->category[0] == 'L' || newer->category[0] == 'M' ||
               strcmp(newer->category, "Nd") == 0 || strcmp(newer->category, "Nl") == 0;
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default: return cp >= 0x24b6 && cp <= 0x24e9; /* circled letters are Alphabetic */
    }
}
