/* quantize/output/seal.h: pith.json as a file. Its last member, "seal", is the SHA-256 of the
 * file's bytes with 64 zeros in the place of the seal's own digits. It shows damage and edits by
 * hand; it is no signature, since anybody can seal anew. */
#ifndef PITH_QUANTIZE_OUTPUT_SEAL_H
#define PITH_QUANTIZE_OUTPUT_SEAL_H

#include "quantize/output/entries.h"

/* The member "account": which rules it follows. Without that member, those of version 1: a tensor's
 * hash is that of its bytes alone, no list of files, no seal. */
enum { PITH_ACCOUNT_VERSION = 2 };

/* Adds the seal to `account` and writes it as pith_json_save() does. */
enum pith_status pith_account_save(const char *path, json_t *account, struct pith_error *err);

enum pith_seal { PITH_SEAL_NONE, PITH_SEAL_INTACT, PITH_SEAL_BROKEN };

/* pith.json, read without ever being a tree as a whole. */
struct pith_account {
    char *path;
    struct pith_map map;
    json_t *head; /* all of it; the lists below are empty in it */
    enum pith_seal seal;
    struct pith_entries linears, tensors;
};

/* Opens it; every entry is checked to be JSON. PITH_FORMAT when it is no JSON object; *out then
 * owns nothing; else it must not move. pith_map_check() of the map shows afterwards whether what
 * was read is what is there. */
enum pith_status pith_account_open(const char *path, struct pith_account *out,
                                   struct pith_error *err);
/* *a may be {0}. */
void pith_account_close(struct pith_account *a);

#endif
