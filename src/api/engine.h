/* api/engine.h: what struct pith_engine is made of, for those who serve with it. */
#ifndef PITH_API_ENGINE_H
#define PITH_API_ENGINE_H

#include "model/model.h"
#include "tok/tokenizer.h"

#include <pith/generate.h>

struct pith_engine {
    struct pith_context *context;
    struct pith_model *model;
    struct pith_tokenizer *tokenizer;
    char *path;
};

#endif
