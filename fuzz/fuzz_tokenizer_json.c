/* Any bytes as tokenizer.json: it is refused with a message, or encodes and decodes a text,
 * streaming like batch, with ids inside the vocabulary. */
#include "tokenizer_property.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pith_error err = {0};
    struct pith_tokenizer *t = NULL;
    const enum pith_status s = pith_tokenizer_from_json((const char *)data, size, &t, &err);
    check_tokenizer(s, t, &err);
    return 0;
}
