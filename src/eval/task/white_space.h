/* eval/task/white_space.h: white space as Python's str.strip() sees it, in UTF-8. */
#ifndef PITH_EVAL_TASK_WHITE_SPACE_H
#define PITH_EVAL_TASK_WHITE_SPACE_H

#include <stddef.h>

/* Bytes that remain when white space at the end is dropped. */
size_t pith_trim_end(const char *text, size_t size);
/* Bytes of white space at the start. */
size_t pith_trim_start(const char *text, size_t size);

#endif
