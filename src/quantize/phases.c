#include "quantize/phases.h"

#include "base/file.h"

void pith_phases_begin(struct pith_phases *p)
{
    p->mark = pith_clock();
}

void pith_phases_mark(struct pith_phases *p, enum pith_phase phase)
{
    const double now = pith_clock();
    p->seconds[phase] += now - p->mark;
    p->mark = now;
}

void pith_phases_move(struct pith_phases *p, enum pith_phase from, enum pith_phase to,
                      double seconds)
{
    p->seconds[from] -= seconds;
    p->seconds[to] += seconds;
}

void pith_phases_join(struct pith_phases *p, const struct pith_phases *task, unsigned threads)
{
    for (int i = 0; i < PITH_PHASE_COUNT; i++) p->seconds[i] += task->seconds[i] / threads;
}

bool pith_phases_report(const struct pith_phases *p, json_t *object)
{
    static const char *const keys[] = {
#define PITH_PHASE_KEY(id, name) "seconds_" name,
        PITH_PHASES(PITH_PHASE_KEY)
#undef PITH_PHASE_KEY
    };
    for (int i = 0; i < PITH_PHASE_COUNT; i++)
        if (p->seconds[i] > 0 &&
            json_object_set_new(object, keys[i], json_real(p->seconds[i])) != 0)
            return false;
    return true;
}
