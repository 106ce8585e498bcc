/* The feed-forward part that all tokens go through. */
#include "model/build/build.h"

struct pith_mlp_spec pith_mlp_of(const struct pith_plan_maker *m)
{
    return (struct pith_mlp_spec){.gate = "mlp.gate_proj",
                                  .up = "mlp.up_proj",
                                  .down = "mlp.down_proj",
                                  .ffn = m->shape->ffn,
                                  .bias = m->shape->biases.mlp};
}

struct pith_fold pith_build_fold_up(const struct pith_plan_maker *m, uint32_t up)
{
    if (up == PITH_NO_PART || m->shape->activation.kind == PITH_ACT_CLAMPED)
        return (struct pith_fold){0};
    return (struct pith_fold){.kind = PITH_FOLD_ROWS, .from = up, .repeat = 1, .block = 1};
}

uint32_t pith_build_mlp(struct pith_plan_maker *m, const struct pith_branch *b,
                        const struct pith_mlp_spec *p)
{
    const uint32_t site =
        pith_plan_site(m, p->site ? p->site : "gate_up", m->shape->hidden, b->fold);
    const bool alone = !p->gate && !p->gate_up;
    uint32_t up = PITH_NO_PART;
    if (p->gate_up) {
        (void)pith_build_linear(m, p->gate_up, 2 * p->ffn, p->bias,
                                (const unsigned[3]){b->in, FUSED, b->out});
        pith_build_split(m, 2, (const uint32_t[2]){p->ffn, p->ffn}, (const uint8_t[2]){GATE, UP});
    } else if (p->gate) {
        (void)pith_build_linear(m, p->gate, p->ffn, p->bias,
                                (const unsigned[3]){b->in, GATE, b->out});
        up = pith_build_linear(m, p->up, p->ffn, p->bias, (const unsigned[3]){b->in, UP, b->out});
    } else {
        (void)pith_build_linear(m, p->up, p->ffn, p->bias,
                                (const unsigned[3]){b->in, GATE, b->out});
    }
    pith_build_activate(m, GATE, alone, p->ffn);
    (void)pith_plan_site(m, p->down_site ? p->down_site : "down", p->ffn,
                         pith_build_fold_up(m, up));
    pith_build_out(m, p->down, p->bias, 0, (const unsigned[3]){GATE, b->out, GATE});
    return site;
}
