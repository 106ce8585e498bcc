/* tests/llama.h: places in the plan of a layer of Llama (model/build/layers.c), for
 * tests whose models are of it. */
#ifndef PITH_TESTS_LLAMA_H
#define PITH_TESTS_LLAMA_H

enum llama_linear {
    LLAMA_Q,
    LLAMA_K,
    LLAMA_V,
    LLAMA_O,
    LLAMA_GATE,
    LLAMA_UP,
    LLAMA_DOWN,
    LLAMA_LINEARS
};
enum llama_site { LLAMA_SITE_QKV, LLAMA_SITE_O, LLAMA_SITE_GATE_UP, LLAMA_SITE_DOWN, LLAMA_SITES };
/* Of Qwen3 also the gains of q and k. */
enum llama_vector { LLAMA_INPUT, LLAMA_POST, LLAMA_Q_NORM, LLAMA_K_NORM };

#endif
