/* tok/jinja/text.h: what Python's str knows of characters and its methods do to strings. */
#ifndef PITH_TOK_JINJA_TEXT_H
#define PITH_TOK_JINJA_TEXT_H

#include "tok/jinja/value.h"

/* Bytes of blanks at the start of well-formed text; its bytes without the blanks at its end. */
size_t pith_jblank(const char *s, size_t n);
size_t pith_jtrimmed(const char *s, size_t n);
/* str.strip(), of the ends that are given; `chars` NULL: blanks. */
struct pith_jv pith_jstrip(struct pith_jrun *r, const struct pith_jstr *s,
                           const struct pith_jstr *chars, bool left, bool right);
/* str.split(), str.rsplit() (from the right); `by` NULL: at blanks; at most `most` cuts, < 0: all.
 */
struct pith_jv pith_jsplit(struct pith_jrun *r, const struct pith_jstr *s,
                           const struct pith_jstr *by, int64_t most, bool right);
/* str.splitlines(); `keep`: with what ends them. */
struct pith_jv pith_jlines(struct pith_jrun *r, const struct pith_jstr *s, bool keep);
/* str.replace(), at most `most` times, < 0: everywhere. */
struct pith_jv pith_jreplace(struct pith_jrun *r, const struct pith_jstr *s,
                             const struct pith_jstr *from, const struct pith_jstr *to,
                             int64_t most);
/* Where `what` stands first (last) in s at or behind byte `from`, in bytes; SIZE_MAX: nowhere. */
size_t pith_jfind(struct pith_jrun *r, const struct pith_jstr *s, const struct pith_jstr *what,
                  size_t from, bool last);
enum pith_jcase { PITH_J_LOWER, PITH_J_UPPER, PITH_J_CAPITALIZE, PITH_J_TITLE, PITH_J_TITLE_WORDS };
/* str.lower() and so on; TITLE is str.title(), TITLE_WORDS the filter title. */
struct pith_jv pith_jcased(struct pith_jrun *r, const struct pith_jstr *s, enum pith_jcase how);
/* str.join(). */
struct pith_jv pith_jjoin(struct pith_jrun *r, const struct pith_jstr *with,
                          const struct pith_jlist *items);
/* &, <, >, " and ' as HTML has them. */
struct pith_jv pith_jescape(struct pith_jrun *r, const struct pith_jstr *s);
/* str % args, and str.format(): what templates use of them. */
struct pith_jv pith_jpercent(struct pith_jrun *r, const struct pith_jstr *s, struct pith_jv args);
struct pith_jv pith_jformat(struct pith_jrun *r, const struct pith_jstr *s,
                            const struct pith_jlist *pos, const struct pith_jdict *named);

#endif
