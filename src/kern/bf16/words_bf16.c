#include "kern/bf16/words.h"

void pith_bf16_round_bf16(size_t rows, size_t k, const float *src, size_t ld, size_t height,
                         uint32_t *dst)
{
    rows_to_words(rows, k, src, ld, height, true, dst);
}

void pith_bf16_words_bf16(size_t rows, size_t k, const void *src, size_t ld, size_t height,
                          uint32_t *dst)
{
    nibbles_to_words(rows, k, src, ld, height, true, dst);
}

void pith_bf16_pairs_bf16(size_t k, size_t n, const float *src, size_t ld, size_t width,
                          uint32_t *dst)
{
    columns_to_words(k, n, src, ld, width, true, dst);
}
