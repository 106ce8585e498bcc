/* base/ranks/link.h: what a shared object that carries messages between ranks has to offer: one
 * symbol, PITH_LINK, which is such a struct. Nothing blocks; calls are made by one thread. */
#ifndef PITH_BASE_RANKS_LINK_H
#define PITH_BASE_RANKS_LINK_H

#include <stddef.h>

#define PITH_LINK "pith_link"
enum { PITH_LINK_VERSION = 3, PITH_LINK_MOST = 1 << 30 }; /* bytes of a message */

/* A message on its way; room for what the carrier needs to know it by. */
struct pith_flight {
    void *room[4];
};

/* What a failing rank sends to the others. */
struct pith_distress {
    int status; /* enum pith_status */
    char text[1024];
};

enum pith_flight_kind { PITH_FLIGHT_OUT, PITH_FLIGHT_IN };

/* After success; after a failure; after a failure, when rank 0 was pinged and did not answer. */
enum pith_link_end { PITH_LINK_GOOD, PITH_LINK_FAILED, PITH_LINK_PINGED };

struct pith_link {
    unsigned version;
    /* 0, or what MPI says is wrong, in why[size]. */
    int (*open)(unsigned *own, unsigned *count, char *why, size_t size);
    /* Starts to send data[bytes] to `rank`, or to receive it from there, in the order in which they
     * begin; data stays until it is done. 0, or not. */
    int (*begin)(enum pith_flight_kind kind, unsigned rank, void *data, size_t bytes,
                 struct pith_flight *f);
    /* 1: done, 0: not yet, -1: it failed. */
    int (*done)(struct pith_flight *f);
    /* Gives a message up. */
    void (*drop)(struct pith_flight *f);
    /* Sends a failure to every other rank; and whether one has arrived, and from whom. */
    void (*alert)(const struct pith_distress *d);
    int (*alerted)(struct pith_distress *d, unsigned *from);
    /* Before the end, in a rank that is not 0: pings rank 0, which answers when it ends too.
     * Whether the answer comes within so many milliseconds; if not, the end is PITH_LINK_PINGED. */
    int (*answers)(int milliseconds);
    /* Ends MPI in this process; after a failure without waiting for the others long. */
    void (*close)(enum pith_link_end how);
};

#endif
