#include "kern/avx2/vec_avx2.h"
#include "kern/template/floats_template.h"

void pith_group_max_avx2(size_t n, size_t group, const float *x, float *most)
{
    floats_group_max(n, group, x, most);
}

void pith_float_round_avx2(size_t n, const float *w, const float *scale, size_t group,
                            const struct pith_float_levels *levels, uint8_t *codes, float *values)
{
    floats_round(n, w, scale, group, levels, codes, values);
}

void pith_float_trials_avx2(size_t n, const float *w, size_t count, const float *inverse,
                              const struct pith_float_levels *levels, float *sum)
{
    floats_trials(n, w, count, inverse, levels, sum);
}

void pith_book_round_avx2(size_t n, const float *w, const float *scale, size_t group,
                           const struct pith_codebook *book, uint8_t *codes, float *values)
{
    book_round(n, w, scale, group, book, codes, values);
}
