#include "eval/ranks_agree.h"

#include "base/hash.h"

enum pith_status pith_eval_agree(struct pith_ranks *ranks, const struct pith_measured *m,
                                 struct pith_error *err)
{
    char what[5][PITH_SHA256_HEX] = {""}, all[PITH_SHA256_HEX], kv[PITH_KV_TEXT] = "";
    if (pith_ranks_alone(ranks)) return PITH_OK;
    pith_kv_name(m->kv, kv);
    const bool good = pith_sha256_hex(m->ids, m->count * sizeof *m->ids, what[0]) &&
                      pith_sha256_hex(m->cut, m->cut_bytes, what[1]) &&
                      pith_sha256_hex(kv, sizeof kv, what[2]) &&
                      pith_checkpoint_identity(m->model->checkpoint, what[3]) &&
                      (!m->baseline || pith_checkpoint_identity(m->baseline->checkpoint, what[4]));
    if (!good || !pith_sha256_hex(what, sizeof what, all)) return pith_fail_nomem(err, "a digest");
    return pith_ranks_agree(ranks, all, "a text, task, model or options", err);
}
