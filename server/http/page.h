/* server/http/page.h: the page at "/": server/http/page.html, page.css and page.js, which are
 * part of the program. */
#ifndef PITH_SERVER_PAGE_H
#define PITH_SERVER_PAGE_H

#include <stddef.h>

struct page {
    const char *text; /* static */
    size_t size;
    char policy[512]; /* Content-Security-Policy: the page's own scripts and styles, by their
                         digests, and requests to where it came from; nothing else */
};

/* The page, for free(); NULL when memory is out or it has more scripts than a policy holds. */
struct page *page_new(void);

#endif
