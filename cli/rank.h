/* cli/rank.h: one ranking of harm for all commands: by the loss at the layer's output where
 * calibration measured it, else by the relative error of the weights. */
#ifndef PITH_CLI_RANK_H
#define PITH_CLI_RANK_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum { RANK_MOST = 10 /* that are shown unless --all */ };

/* The entries with the largest number under `key`, largest first, at most `most` (new reference);
 * *left: how many more there are. */
json_t *rank(const json_t *list, const char *key, size_t most, size_t *left);

#endif
