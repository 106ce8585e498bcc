/* serve/prefix.h: sequences cached after their answers ended, since others may begin alike.
 *
 * A sequence is known by its tokens and by a hash of those before each border of a page, chained:
 * where the hashes of two agree the tokens are likely to agree too, which is then looked at. The
 * pages themselves are counted by the pool (model/kv/kv.h): what sequences share is stored once,
 * and a sequence that is dropped gives back only what it alone used. */
#ifndef PITH_SERVE_PREFIX_H
#define PITH_SERVE_PREFIX_H

#include "model/runner.h"

struct pith_cached_prefix {
    bool there;
    uint32_t sequence;
    uint64_t used;  /* when: the highest is the newest */
    int32_t *id;    /* [count]; owned */
    uint64_t *hash; /* [count / 32]: of the tokens before each border; owned, within id's memory */
    size_t count;
};
struct pith_prefix {
    struct pith_runner *runner;       /* borrowed */
    struct pith_cached_prefix *entry; /* [room] */
    uint32_t room;
    uint64_t clock;
};
enum pith_status pith_prefix_init(struct pith_prefix *p, struct pith_runner *runner, uint32_t room,
                                  struct pith_error *err);
void pith_prefix_free(struct pith_prefix *p);

/* Keeps a sequence, which has read id[count]; it is closed at some time. Those that are the
 * beginning of it go; so may the one that was longest of no use. */
void pith_prefix_keep(struct pith_prefix *p, uint32_t sequence, const int32_t *id, size_t count);
/* A sequence that begins as id[count] does, at most count - 1 tokens of it, with the state that the
 * next needs; *length 0 when there is none that is worth it, *sequence is then open and empty.
 * PITH_LIMIT when no sequence is free, however many are dropped. */
enum pith_status pith_prefix_open(struct pith_prefix *p, const int32_t *id, size_t count,
                                  uint32_t *sequence, size_t *length, struct pith_error *err);
/* Drops the one that was longest of no use; false when there is none. */
bool pith_prefix_drop(struct pith_prefix *p);
/* How many pages cached sequences use, those that several share counted for each. */
size_t pith_prefix_pages(const struct pith_prefix *p);

#endif
