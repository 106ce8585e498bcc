/* pith_attention against the formula in double; the same bits on every setup and for any split
 * of the queries. */
#include "setups.h"

static void naive(const struct pith_attention *a, double *out)
{
    const size_t group = a->heads / a->kv_heads, hd = a->head_dim;
    double *p = pith_alloc(a->start + a->n, sizeof *p);
    assert_non_null(p);
    for (size_t i = 0; i < a->n; i++)
        for (size_t h = 0; h < a->heads; h++) {
            const size_t last = a->start + i, kv = h / group;
            const size_t first = a->window && last + 1 > a->window ? last + 1 - a->window : 0;
            double max = -INFINITY, sum = 0;
            for (size_t j = first; j <= last; j++) {
                double s = 0;
                for (size_t e = 0; e < hd; e++)
                    s += (double)a->q[(i * a->heads + h) * hd + e] *
                         (double)a->k[(j * a->kv_heads + kv) * hd + e];
                p[j] = s * (double)a->scale;
                max = fmax(max, p[j]);
            }
            for (size_t j = first; j <= last; j++) sum += p[j] = exp(p[j] - max);
            for (size_t e = 0; e < hd; e++) {
                double s = 0;
                for (size_t j = first; j <= last; j++)
                    s += p[j] * (double)a->v[(j * a->kv_heads + kv) * hd + e];
                out[(i * a->heads + h) * hd + e] = s / sum;
            }
        }
    pith_free(p);
}

static void one_case(struct setups *s, struct pith_attention a)
{
    struct pith_error err = {0};
    const size_t row = a.heads * a.head_dim, count = a.n * row,
                 keys = (a.start + a.n) * a.kv_heads * a.head_dim;
    float *q = normals(count, 9), *k = normals(keys, 10), *v = normals(keys, 11),
          *first = floats(count);
    double *exact = pith_alloc(count, sizeof *exact);
    assert_non_null(exact);
    a.scale = 1.0f / sqrtf((float)a.head_dim);
    a.q = q;
    a.k = k;
    a.v = v;
    naive(&a, exact);
    a.out = first;
    assert_ok(pith_attention(s->backend[0], &a, &err), err);
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)first[i] - exact[i]) < 2e-6 * 8))
            fail_msg("element %zu: %g, exact %g", i, (double)first[i], exact[i]);
    for (size_t i = 0; i < s->count; i++) {
        float *out = copy(q, count); /* in place */
        a.q = a.out = out;
        assert_ok(pith_attention(s->backend[i], &a, &err), err);
        assert_same(out, first, count, "attention", i);
        struct pith_attention one = a;
        one.n = 1;
        for (size_t t = 0; t < a.n; t += 7) { /* as decoding would */
            one.start = a.start + t;
            one.q = q + t * row;
            one.out = out;
            assert_ok(pith_attention(s->backend[i], &one, &err), err);
            assert_same(out, first + t * row, row, "attention of one query", i);
        }
        pith_free(out);
    }
    pith_free(exact);
    pith_free(first);
    pith_free(v);
    pith_free(k);
    pith_free(q);
}

static void attention_follows_the_formula(void **state)
{
    (void)state;
    struct setups s;
    setups_open(&s);
    one_case(&s, (struct pith_attention){.n = 1, .heads = 1, .kv_heads = 1, .head_dim = 8});
    one_case(&s,
             (struct pith_attention){.n = 5, .start = 3, .heads = 4, .kv_heads = 4, .head_dim = 6});
    one_case(&s, (struct pith_attention){.n = 50, .heads = 6, .kv_heads = 2, .head_dim = 16});
    one_case(&s, (struct pith_attention){
                     .n = 70, .start = 21, .heads = 4, .kv_heads = 1, .head_dim = 40});
    one_case(&s,
             (struct pith_attention){
                 .n = 120, .start = 30, .heads = 2, .kv_heads = 2, .head_dim = 8, .window = 16});
    one_case(&s, (struct pith_attention){
                     .n = 40, .heads = 3, .kv_heads = 3, .head_dim = 12, .window = 1});
    one_case(&s,
             (struct pith_attention){
                 .n = 40, .start = 9, .heads = 2, .kv_heads = 1, .head_dim = 12, .window = 1000});
    one_case(&s, (struct pith_attention){
                     .n = 9, .heads = 200, .kv_heads = 1, .head_dim = 4}); /* group > block */
    setups_close(&s);
}

static void a_long_context_allocates(void **state)
{
    (void)state;
    struct setups s;
    setups_open(&s);
    one_case(&s, (struct pith_attention){
                     .n = 33, .start = 4500, .heads = 2, .kv_heads = 1, .head_dim = 4});
    setups_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_follows_the_formula),
        cmocka_unit_test(a_long_context_allocates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
