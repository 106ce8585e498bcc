/* export/tokens.h: whether engines load the tokenizer of a checkpoint that pith reads. */
#ifndef PITH_EXPORT_TOKENS_H
#define PITH_EXPORT_TOKENS_H

#include "export/preflight.h"

/* Appends what the tokenizers library of Hugging Face refuses in the text of a tokenizer.json, a
 * text each: "WHOSE: added_tokens: entry 3 has no \"lstrip\"". Of models and parts that pith does
 * not read nothing is reported. PITH_NOMEM. */
enum pith_status pith_hf_tokenizer(const char *whose, const char *text, size_t size,
                                   json_t *problems, struct pith_error *err);
/* Appends what keeps a target's engine from loading the tokenizer of a model: "vllm:
 * tokenizer.json: ...". Nothing for one without a tokenizer. PITH_NOMEM, PITH_IO. */
enum pith_status pith_preflight_tokens(const struct pith_model *m, const char *target,
                                       json_t *problems, struct pith_error *err);

#endif
