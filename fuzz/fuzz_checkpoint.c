/* A folder of small files as a checkpoint: a config, an index, files of tensors. It is refused with
 * a line, or every tensor stands once, in order, and is found in the file that has it.
 *
 *     for each file in the order below: u16 length, 0xffff when it is missing; then its bytes */
#include "folder.h"

#include "io/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const files[] = {"config.json",
                                    "model.safetensors.index.json",
                                    "model.safetensors",
                                    "model-00001-of-00002.safetensors",
                                    "model-00002-of-00002.safetensors",
                                    "pytorch_model.bin"};

static void must(bool truth)
{
    if (!truth) abort();
}

static void check(const struct pith_checkpoint *c)
{
    must(c->file_count > 0);
    for (size_t i = 0; i < c->count; i++) {
        const struct pith_tensor *t = &c->tensors[i];
        must(i == 0 || strcmp(c->tensors[i - 1].name, t->name) < 0);
        must(t->file < c->file_count && pith_checkpoint_find(c, t->name) == t);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pith_checkpoint *c = NULL;
    struct pith_error err = {0};
    (void)folder_put_all(files, sizeof files / sizeof files[0], data, size);
    if (pith_checkpoint_open(folder(), &c, &err) == PITH_OK) {
        check(c);
        pith_checkpoint_close(c);
    } else {
        must(err.text[0] != '\0');
    }
    return 0;
}
