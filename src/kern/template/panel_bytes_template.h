/* kern/template/panel_bytes_template.h: the products of integers with packed panels, for each kind
 * of codes by itself. The including file defines TIER(op), the function's name, and
 *
 *     enum codes          the bits of a code, among them EIGHT; SMALL and LARGE, of factors
 *     dot_as(m, kind, digits, first, count, x, y)   the product; inlined, kind and digits known
 */
#include "kern/panel.h"

#define DOT_CASE(bits_)                                                                            \
    case bits_: dot_as(m, (enum codes)(bits_), DIGITS, first, count, x, y); break;

void TIER(panel_dot_bytes)(const struct pith_panels *m, size_t first, size_t count,
                           const struct pith_bytes *x, float *y)
{
#define DIGITS 1
    if (m->factors == PITH_FACTORS_SMALL) dot_as(m, SMALL, DIGITS, first, count, x, y);
    else if (m->factors == PITH_FACTORS_LARGE) dot_as(m, LARGE, DIGITS, first, count, x, y);
    else
        switch (m->bits) {
            PITH_PANEL_PLANES(DOT_CASE)
            DOT_CASE(4)
        default: dot_as(m, EIGHT, DIGITS, first, count, x, y);
        }
#undef DIGITS
}

void TIER(panel_dot_digits)(const struct pith_panels *m, size_t first, size_t count,
                            const struct pith_bytes *x, float *y)
{
#define DIGITS PITH_DIGITS
    switch (m->bits) {
        PITH_PANEL_PLANES(DOT_CASE)
        DOT_CASE(4)
    default: dot_as(m, EIGHT, DIGITS, first, count, x, y);
    }
#undef DIGITS
}
