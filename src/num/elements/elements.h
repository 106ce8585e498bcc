/* num/elements/elements.h: the decode and encode function of every element format, as formats.def
 * names them. A family's file defines its own; format.h says what they promise. */
#ifndef PITH_NUM_ELEMENTS_ELEMENTS_H
#define PITH_NUM_ELEMENTS_ELEMENTS_H

#include "num/format.h"

#define PITH_ELEMENT(id, name, aliases, summary, kind, bits, e, m, max, decode, encode, codec)     \
    float decode(uint32_t code);                                                                   \
    uint32_t encode(float x);
#define PITH_READ(id, name, summary, bits, max, decode) float decode(uint32_t code);
#define PITH_BLOCK(id, name, aliases, summary, bits, max, block, element, scale)
#define PITH_TRELLIS(id, suffix, whose, code)
#define PITH_GGUF(id, name, aliases, summary, bits, max, block, element)
#include "num/formats.def"
#undef PITH_ELEMENT
#undef PITH_READ
#undef PITH_BLOCK
#undef PITH_GGUF
#undef PITH_TRELLIS

#endif
