/* What the codes of a matrix stand for. */
#include "num/qmat.h"
#include "num/trellis.h"

/* n values, all with one scale, become weights. Steps of a fixed length between arrays that do not
 * overlap are what compilers vectorize. */
static void scale_run(const struct pith_qmat *q, size_t index, size_t n, const float *restrict v,
                      float *restrict out)
{
    enum { STEP = 16 };
    const float zero = pith_qmat_zero(q, index), scale = q->scales[index];
    size_t i = 0;
    for (; !q->offsets && i + STEP <= n; i += STEP)
        for (size_t l = 0; l < STEP; l++) out[i + l] = (v[i + l] - zero) * scale;
    if (!q->offsets) {
        for (; i < n; i++) out[i] = (v[i] - zero) * scale;
        return;
    }
    const float offset = q->offsets[index];
    for (; i + STEP <= n; i += STEP)
        for (size_t l = 0; l < STEP; l++) out[i + l] = (v[i + l] - zero) * scale + offset;
    for (; i < n; i++) out[i] = (v[i] - zero) * scale + offset;
}

/* The same for columns [col, col + n) of a row. */
static void scale_part(const struct pith_qmat *q, uint32_t row, uint32_t col, uint32_t n,
                       const float *v, float *out)
{
    const uint64_t end = (uint64_t)col + n;
    for (uint64_t c = col, next; c < end; c = next) {
        const uint32_t g = q->g_idx ? q->g_idx[c] : (uint32_t)(c / q->group);
        next = q->g_idx ? c + 1 : ((uint64_t)g + 1) * q->group;
        if (next > end) next = end;
        scale_run(q, pith_qmat_scale_index(q, row, g), (size_t)(next - c), v + (c - col),
                  out + (c - col));
    }
}

static void add_sparse(const struct pith_sparse *s, uint32_t row, uint32_t col, uint32_t n,
                       float *out)
{
    for (uint32_t i = s->start[row]; i < s->start[row + 1]; i++)
        if (s->col[i] >= col && s->col[i] - col < n) out[s->col[i] - col] += s->value[i];
}

void pith_reader_open(struct pith_reader *in, const struct pith_qmat *q)
{
    in->q = q;
    if (q->format->codec->open) q->format->codec->open(in);
}

void pith_reader_get(const struct pith_reader *in, uint32_t row, uint32_t col, uint32_t n,
                     float *out)
{
    enum { CHUNK = 512 };
    float v[CHUNK];
    const struct pith_qmat *q = in->q;
    for (uint32_t done = 0; done < n; done += CHUNK) {
        const uint32_t m = n - done < CHUNK ? n - done : CHUNK;
        q->format->codec->read(in, row, col + done, m, v);
        scale_part(q, row, col + done, m, v, out + done);
    }
    if (q->sparse) add_sparse(q->sparse, row, col, n, out);
}

void pith_qmat_decode_part(const struct pith_qmat *q, uint32_t row, uint32_t col, uint32_t n,
                           float *out)
{
    struct pith_reader in;
    pith_reader_open(&in, q);
    pith_reader_get(&in, row, col, n, out);
}

/* Blocks of a codec that has them, each but once. */
static void decode_blocks(const struct pith_qmat *q, uint32_t row, uint32_t n, float *out)
{
    enum { SIDE = PITH_TRELLIS_BLOCK };
    float v[SIDE * SIDE];
    for (uint32_t done = 0, m; done < n; done += m) {
        const uint32_t at = (row + done) % SIDE;
        m = n - done < SIDE - at ? n - done : SIDE - at;
        for (uint32_t c = 0; c < q->cols; c += SIDE) {
            q->format->codec->block(q, (row + done) / SIDE, c / SIDE, v);
            for (uint32_t r = 0; r < m; r++)
                scale_part(q, row + done + r, c, SIDE, v + (size_t)(at + r) * SIDE,
                           out + (size_t)(done + r) * q->cols + c);
        }
    }
    for (uint32_t r = 0; q->sparse && r < n; r++)
        add_sparse(q->sparse, row + r, 0, q->cols, out + (size_t)r * q->cols);
}

void pith_qmat_decode(const struct pith_qmat *q, uint32_t row, uint32_t n, float *out)
{
    struct pith_reader in;
    if (q->format->codec->side == PITH_TRELLIS_BLOCK && n > 1) {
        decode_blocks(q, row, n, out);
        return;
    }
    pith_reader_open(&in, q);
    for (uint32_t r = row; r < row + n; r++, out += q->cols)
        pith_reader_get(&in, r, 0, q->cols, out);
}

void pith_weight_decode(const struct pith_weight *w, uint32_t row, uint32_t n, float *out)
{
    if (w->quant) {
        pith_qmat_decode(w->quant, row, n, out);
        return;
    }
    const size_t bytes = pith_dtype_bits(w->dtype) / 8;
    const unsigned char *src = w->dense;
    pith_dtype_decode(w->dtype, src + (size_t)row * w->cols * bytes, (size_t)n * w->cols, out);
}
