/* libpith_mpi.so: messages between ranks by MPI (any implementation of version 3 of the standard).
 * Loaded by pith when a launcher of MPI started it; base/ranks/ranks.c is the only user. All state
 * is MPI's own. (MPI: A Message-Passing Interface Standard, version 3.1, 2015.) */
#include "base/ranks/link.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { TAG_DATA = 1, TAG_DISTRESS = 2, TAG_LEAVE = 3 };

_Static_assert(sizeof(MPI_Request) <= 3 * sizeof(void *), "a request must fit");

static int open_link(unsigned *own, unsigned *count, char *why, size_t size)
{
    int given = 0, begun = 0, rank = 0, ranks = 1;
    MPI_Initialized(&begun);
    if (!begun && MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given) != MPI_SUCCESS) {
        snprintf(why, size, "MPI_Init_thread failed");
        return 1;
    }
    if (!begun && given < MPI_THREAD_FUNNELED) {
        snprintf(why, size, "it cannot be called by a program with threads");
        return 1;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    *own = (unsigned)rank;
    *count = (unsigned)ranks;
    return 0;
}

static void put(struct pith_flight *f, MPI_Request q)
{
    memcpy(f, &q, sizeof q);
}

static MPI_Request get(const struct pith_flight *f)
{
    MPI_Request q;
    memcpy(&q, f, sizeof q);
    return q;
}

static int begin(enum pith_flight_kind kind, unsigned rank, void *data, size_t bytes,
                 struct pith_flight *f)
{
    MPI_Request q = MPI_REQUEST_NULL;
    const int n = (int)bytes, peer = (int)rank;
    const int bad = kind == PITH_FLIGHT_OUT
                        ? MPI_Isend(data, n, MPI_BYTE, peer, TAG_DATA, MPI_COMM_WORLD, &q)
                        : MPI_Irecv(data, n, MPI_BYTE, peer, TAG_DATA, MPI_COMM_WORLD, &q);
    put(f, q);
    f->room[3] = kind == PITH_FLIGHT_IN ? f : NULL; /* it may be cancelled */
    return bad != MPI_SUCCESS;
}

static int done(struct pith_flight *f)
{
    MPI_Request q = get(f);
    int flag = 0;
    const int bad = MPI_Test(&q, &flag, MPI_STATUS_IGNORE);
    put(f, q);
    return bad != MPI_SUCCESS ? -1 : flag != 0;
}

/* Only what is received can be given up; the rest goes nowhere when MPI is not called again. */
static void drop(struct pith_flight *f)
{
    MPI_Request q = get(f);
    if (!f->room[3] || q == MPI_REQUEST_NULL) return;
    MPI_Cancel(&q);
    MPI_Request_free(&q);
}

static void nap(void)
{
    const struct timespec t = {.tv_nsec = 1000000};
    nanosleep(&t, NULL);
}

static void alert(const struct pith_distress *d)
{
    enum { TRIES = 200 }; /* a rank that is gone takes none */
    struct pith_distress copy = *d;
    int own = 0, ranks = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 0; i < ranks; i++) {
        MPI_Request q;
        int flag = 0;
        if (i == own) continue;
        if (MPI_Isend(&copy, (int)sizeof copy, MPI_BYTE, i, TAG_DISTRESS, MPI_COMM_WORLD, &q) !=
            MPI_SUCCESS)
            continue;
        for (int t = 0; t < TRIES && !flag; t++, nap())
            if (MPI_Test(&q, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS) break;
    }
}

static int alerted(struct pith_distress *d, unsigned *from)
{
    int flag = 0;
    MPI_Status st;
    if (MPI_Iprobe(MPI_ANY_SOURCE, TAG_DISTRESS, MPI_COMM_WORLD, &flag, &st) != MPI_SUCCESS ||
        !flag)
        return 0;
    *from = (unsigned)st.MPI_SOURCE;
    return MPI_Recv(d, (int)sizeof *d, MPI_BYTE, st.MPI_SOURCE, TAG_DISTRESS, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

/* True when it is done within so many milliseconds. */
static bool comes(MPI_Request *q, double milliseconds)
{
    int flag = 0;
    const double end = MPI_Wtime() + milliseconds / 1000;
    for (; !flag; nap()) {
        if (MPI_Test(q, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
        if (MPI_Wtime() > end) break;
    }
    return flag != 0;
}

enum { LONG = 3000 }; /* milliseconds */
static bool say(int rank, bool out, int milliseconds)
{
    static const char word = 1;
    char heard;
    MPI_Request q;
    const int bad = out ? MPI_Isend(&word, 1, MPI_BYTE, rank, TAG_LEAVE, MPI_COMM_WORLD, &q)
                        : MPI_Irecv(&heard, 1, MPI_BYTE, rank, TAG_LEAVE, MPI_COMM_WORLD, &q);
    if (bad != MPI_SUCCESS) return false;
    if (comes(&q, milliseconds)) return true;
    if (!out) MPI_Cancel(&q);
    MPI_Request_free(&q);
    return false;
}

/* After a failure: nobody leaves before rank 0 has said what it was, since launchers end all when
 * one is gone. */
static bool leave_together(bool said)
{
    int own = 0, ranks = 1;
    bool all = true;
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (own != 0) return (said || say(0, true, LONG)) && say(0, false, LONG);
    for (int i = 1; i < ranks; i++) all = say(i, false, LONG) && all;
    for (int i = 1; i < ranks; i++) all = say(i, true, LONG) && all;
    return all;
}

static int answers(int milliseconds)
{
    return say(0, true, milliseconds) && say(0, false, milliseconds);
}

static void close_link(enum pith_link_end how)
{
    int over = 0;
    MPI_Finalized(&over);
    if (over) return;
    if (how == PITH_LINK_GOOD || leave_together(how == PITH_LINK_PINGED)) MPI_Finalize();
}

const struct pith_link pith_link = {PITH_LINK_VERSION, open_link, begin,     done, drop, alert,
                                    alerted,           answers,   close_link};
