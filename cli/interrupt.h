/* cli/interrupt.h: Ctrl-C (SIGINT) and SIGTERM. One state for the whole program: no signal came;
 * one requested the end; the work noticed it and puts things away; its time is over.
 *
 *   NONE -> REQUESTED              a signal; the work has a second to look, three on a busy machine
 *   REQUESTED -> HEARD             interrupted(), by any thread; five seconds from the last look
 *   REQUESTED, HEARD -> DEADLINE   the time is over, or a second signal came: the end, status 130
 *   REQUESTED, HEARD -> NONE       interrupt_clear(): the program goes on, and no timer stays
 *
 * Reads and writes are restarted: a signal never looks like the end of a file. Who waits for input
 * waits with interrupt_wait(). */
#ifndef PITH_CLI_INTERRUPT_H
#define PITH_CLI_INTERRUPT_H

#include <stdbool.h>

/* Takes the signals over; once, before there are threads. */
void interrupt_catch(void);
/* True once a signal came; the caller has noticed it then, and is to end soon. Any thread. */
bool interrupted(void);
/* The work begins: what it leaves is gone on with by --resume, and the message for work that does
 * not look in time says so. */
void interrupt_resumable(void);
/* True when SIGTERM was among them: the program is to end, not only what it does now. */
bool interrupt_is_final(void);
/* Forgets all that, except that SIGTERM came: the program goes on. */
void interrupt_clear(void);
/* From here on the program may take as long to end as it wants to, as it bounds that itself; only a
 * second signal ends it at once. */
void interrupt_unhurried(void);
/* Another process says that all were interrupted: no message for work that does not look in time.
 */
void interrupt_silently(void);
/* Waits until that file can be read without waiting (its end counts); false when a signal came
 * first, also one that came before the call. */
bool interrupt_wait(int fd);

#endif
