/* A service without a model, for tests of the HTTP layer: letters come one by one, as slowly as is
 * wanted; what the library would refuse is refused on demand. Links before the library's own. */
#ifndef PITH_TESTS_FAKE_H
#define PITH_TESTS_FAKE_H

#include <pith/engine.h>

/* How the next requests fare; set before they come. */
struct fake_wish {
    double pause;            /* seconds before each token */
    enum pith_status refuse; /* of pith_submit(); PITH_OK: accept */
    size_t fail_after;       /* tokens after which a request fails; 0: never */
    const char *say;         /* the answer, a letter a token, to its end; NULL: the alphabet */
    size_t fat;              /* bytes of each token's text; 0: one letter */
    int mute;                /* tokens have no text */
};
extern struct fake_wish fake_wish;

/* Requests that were cancelled before they ended; that run now; the last one's conversation. */
size_t fake_cancelled(void);
size_t fake_running(void);
const char *fake_conversation(void);

#endif
