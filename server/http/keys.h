/* server/http/keys.h: who may send requests. Keys are stored as digests and compared in constant
 * time, all of them each time, so that time reveals nothing of them. */
#ifndef PITH_SERVER_KEYS_H
#define PITH_SERVER_KEYS_H

#include <pith/status.h>

#include <stdbool.h>
#include <stdint.h>

struct keys;

/* Reads the keys of a file, one a line ('#' begins a comment), and the one given; either may be
 * NULL. *out stays NULL when nobody needs a key. PITH_IO, PITH_FORMAT: no key in the file. */
enum pith_status keys_read(const char *file, const char *key, struct keys **out,
                           struct pith_error *err);
/* Whether a key is one of them; then *client is a different number for each key. */
bool keys_allow(const struct keys *keys, const char *key, uint64_t *client);
/* Frees; NULL is allowed. */
void keys_free(struct keys *keys);

#endif
