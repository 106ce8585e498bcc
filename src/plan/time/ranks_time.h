/* plan/time/ranks_time.h: how long a block would take several ranks, and what would come to each,
 * step by step from what the steps take one (quantize/ranks/foresee.c walks them). Seconds and
 * bytes alone.
 *
 * A link joins each rank to all others, `bits` a second each way, and a message is under way for
 * `delay`; one of over 64 KiB three times, since the rest is asked for when its beginning has come.
 * What ranks tell all goes in rounds (base/ranks/hops.h), each as long as the most that comes to a
 * rank in it. A sum that goes along the ranks in panels (calib/relay.h) is a pipeline: with P
 * panels and N ranks, P + N - 1 steps, in each of which a rank receives a panel, adds its windows
 * to it and hands it on. */
#ifndef PITH_PLAN_TIME_RANKS_TIME_H
#define PITH_PLAN_TIME_RANKS_TIME_H

#include "base/json.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* What joins ranks. */
struct pith_cable {
    double bits;  /* a second */
    double delay; /* seconds */
};
#define PITH_CABLE_DEFAULT "10G,50"
/* "BITS[,MICROSECONDS]", bits a second with K, M, G or T (powers of 1000), delay 50 unless said.
 * PITH_ARG for anything else. */
enum pith_status pith_cable_parse(const char *text, struct pith_cable *out, struct pith_error *err);

/* Where the time of a block goes, and how a table names what is in the way of more ranks. */
#define PITH_CREW_PARTS(X)                                                                         \
    X(DIVIDED, "divided", "")           /* each rank does its part */                              \
    X(REPEATED, "repeated", "repeated") /* what every rank does again, such as factors of H */     \
    X(FIRST, "first", "rank 0")         /* what rank 0 does while others wait */                   \
    X(RELAY, "relay", "waiting")        /* until the first panel of a sum has come to the last */  \
    X(LINK, "link", "link")             /* bytes and delays of messages */

enum pith_crew_part {
#define PITH_CREW_ID(id, name, limit) PITH_CREW_##id,
    PITH_CREW_PARTS(PITH_CREW_ID)
#undef PITH_CREW_ID
        PITH_CREW_PARTS_COUNT
};

enum { PITH_CREW_MOST = 64 };

/* Begin with the ranks and the cable, all else zero. */
struct pith_crew {
    unsigned ranks; /* at least 1, at most PITH_CREW_MOST */
    struct pith_cable cable;
    double seconds[PITH_CREW_PARTS_COUNT]; /* so far */
    uint64_t received[PITH_CREW_MOST];     /* bytes, by rank */
    /* Since they last met: */
    double divided[PITH_CREW_MOST], repeated[PITH_CREW_MOST];
    size_t told[PITH_CREW_MOST + 1]; /* pith_crew_told(): bytes of the ranks before */
};

/* Adds seconds to a part as they are. */
void pith_crew_add(struct pith_crew *c, enum pith_crew_part part, double seconds);
/* What takes one rank `seconds` over so many windows: the rank with the most of them. */
void pith_crew_windows(struct pith_crew *c, double seconds, size_t windows);
/* `bytes` of a rank's become everyone's. */
void pith_crew_share(struct pith_crew *c, unsigned from, uint64_t bytes);
/* Seconds of a message between two ranks. */
double pith_crew_message(const struct pith_crew *c, double bytes);
/* A message to that rank, from one other. */
void pith_crew_pass(struct pith_crew *c, unsigned to, uint64_t bytes);
/* A sum of `bytes` goes from rank 0 to the last in so many panels (at least 1); to add all windows
 * takes one rank `seconds`. */
void pith_crew_relay(struct pith_crew *c, double seconds, uint64_t bytes, size_t panels);
/* The same, and from the last the sum becomes everyone's, a message for each panel. */
void pith_crew_sum(struct pith_crew *c, double seconds, uint64_t bytes, size_t panels);
/* Bytes that a rank of the crew that ctx is has of what becomes everyone's at once: said of each,
 * in order from 0 to the last. */
void pith_crew_told(void *ctx, unsigned rank, uint64_t bytes);
/* What that rank does until they meet: its part, and what others do too. */
void pith_crew_work(struct pith_crew *c, unsigned rank, double divided, double repeated);
/* All wait for the last. Of its time, what is above an even share of the divided work is repeated.
 */
void pith_crew_meet(struct pith_crew *c);
/* The sum of the parts. */
double pith_crew_seconds(const struct pith_crew *c);
/* The most that came to a rank. */
uint64_t pith_crew_received(const struct pith_crew *c);
/* The largest part but the divided one, when it is at least that; else PITH_CREW_DIVIDED. */
enum pith_crew_part pith_crew_limit(const struct pith_crew *c);
/* Its names: a key, and a word for a table. */
const char *pith_crew_key(enum pith_crew_part part);
const char *pith_crew_limit_name(enum pith_crew_part part);
/* A row of a report: {"ranks", "seconds_expected": all, "speedup", "seconds_per_block", "limit",
 * "bytes_received_per_block", "rank_bytes_received": received, taken over, unless that is NULL, and
 * by key the seconds of each part}, c being of one block. NULL: out of memory. */
json_t *pith_crew_row(const struct pith_crew *c, double all, double speedup, json_t *received);

#endif
