/* Any bytes as tokenizer.json: it is refused with a message, or encodes and decodes a text,
 * streaming like batch, with ids inside the vocabulary. */
#include "base/json.h"
#include "tokenizer_property.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pith_error err = {0};
    struct pith_tokenizer *t = NULL;
    const enum pith_status s = pith_tokenizer_from_json((const char *)data, size, &t, &err);
    check_tokenizer(s, t, &err);
    (void)pith_json_tree_bytes((const char *)data, size); /* what --memory asks of the same bytes */
    return 0;
}
