/* io/hf_files.h: what else lies in a checkpoint's folder. */
#ifndef PITH_IO_HF_FILES_H
#define PITH_IO_HF_FILES_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

#define PITH_TEMPLATES_DIR "additional_chat_templates"

/* Names of what is in `dir`, folders too, sorted; and of what is in additional_chat_templates/, the
 * one folder that loaders look into, as "additional_chat_templates/NAME". Free with
 * pith_names_free(). */
enum pith_status pith_checkpoint_names(const char *dir, char ***names, size_t *count,
                                       struct pith_error *err);
/* Copies one of them, a file, to another folder, in which that of the templates is made where it is
 * missing. */
enum pith_status pith_checkpoint_copy(const char *from, const char *to, const char *name,
                                      struct pith_error *err);

/* Names, sorted, of the files in `dir` that a converted checkpoint takes along unchanged:
 * tokenizer, generation settings, chat template, licence, remote code. Never weights, config.json,
 * an index, another quantizer's settings, hidden or unfinished files; regular files (or links to
 * such) only. Free with pith_names_free(). */
enum pith_status pith_checkpoint_side_files(const char *dir, char ***names, size_t *count,
                                            struct pith_error *err);

/* Whether some loader takes a file of that name into account: weights, configs, tokenizers, remote
 * code. Not so texts for people: licences, model cards. */
bool pith_checkpoint_reads(const char *name);

#endif
