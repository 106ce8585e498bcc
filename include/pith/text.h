/* pith/text.h: what a text file is, before it is measured or calibrated on. */
#ifndef PITH_TEXT_H
#define PITH_TEXT_H

#include <pith/status.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What was seen. */
struct pith_text_look {
    size_t bytes;
    size_t crlf; /* lines that end in CR LF; 0 where line ends are no text, as in .jsonl */
};

/* Looks through a file as pith_eval() and pith_quantize() will. PITH_FORMAT when it is not UTF-8:
 * the message names the byte, the line and what the file may be; PITH_IO when it cannot be read. A
 * byte order mark at its start is dropped and is fine. */
PITH_API enum pith_status pith_text_look(const char *path, struct pith_text_look *look,
                                         struct pith_error *err);

#ifdef __cplusplus
}
#endif
#endif
