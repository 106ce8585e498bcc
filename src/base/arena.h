/* base/arena.h: sizes are computed by the code that takes the memory.
 *
 * A layout is a function void layout(struct pith_arena *a, spec, parts): it takes what lives
 * together, one part behind the other. Without storage the arena measures what the parts need, with
 * storage it places them, so a planner that needs a size and the code that works with the memory
 * are the same lines and agree to the byte. A layout depends on its spec only (shape, grid, scale
 * type), never on data, and does not touch what it took: it may be measuring.
 *
 *     struct pith_arena a = {0};
 *     layout(&a, spec, parts);                           measures: pith_arena_bytes(&a)
 *     if (!pith_arena_open(&a)) return out of memory;    storage of just that size
 *     layout(&a, spec, parts);                           the same calls place the parts
 *     memory = a.base;                                   to be freed with pith_free()
 *
 * What lives one after the other takes the same room: mark, take, return to the mark, take again.
 * So a whole run can be measured without storage, its phases listed in their order. */
#ifndef PITH_BASE_ARENA_H
#define PITH_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero: measures, and holds nothing. */
struct pith_arena {
    unsigned char *base; /* NULL while it measures; aligned to 64 bytes */
    size_t size;         /* bytes of the storage */
    size_t used;         /* bytes taken now, a multiple of 64 */
    size_t most;         /* of `used`, ever */
    bool failed;         /* a size overflowed, or the storage was too small */
};

/* Room for count elements of `size` bytes, aligned to 64 bytes and not initialised. NULL while the
 * arena measures, when nothing is requested (no room is taken then), and after a failure: one look
 * at `failed` after a layout, or pith_arena_bytes(), reports any. */
void *pith_arena_take(struct pith_arena *a, size_t count, size_t size);

/* The same, [rows][width] elements. */
void *pith_arena_take_rows(struct pith_arena *a, size_t rows, size_t width, size_t size);

/* The same, zeroed where it is placed. */
void *pith_arena_take_zeros(struct pith_arena *a, size_t rows, size_t width, size_t size);

/* Returns to an earlier a->used: what was taken since is given up. */
void pith_arena_return(struct pith_arena *a, size_t used);

/* Bytes needed at most so far, whether measured or placed; UINT64_MAX after a failure. */
uint64_t pith_arena_bytes(const struct pith_arena *a);

/* Takes storage of what was measured and starts anew, to place. False, and the arena without
 * storage, when measuring failed or memory is out. The caller owns a->base: pith_free(). */
bool pith_arena_open(struct pith_arena *a);

/* What is allocated over time, of things not given back in the order they were taken. */
struct pith_meter {
    uint64_t now, most; /* bytes; UINT64_MAX: does not fit */
};
void pith_meter_take(struct pith_meter *m, uint64_t bytes);
void pith_meter_give(struct pith_meter *m, uint64_t bytes);
/* Taken and given back at once. */
void pith_meter_touch(struct pith_meter *m, uint64_t bytes);

/* A sum of sizes of which one may be UINT64_MAX, "does not fit". */
uint64_t pith_sum_bytes(uint64_t a, uint64_t b);

/* count * bytes, in the same way. */
uint64_t pith_times_bytes(uint64_t count, uint64_t bytes);

#endif
