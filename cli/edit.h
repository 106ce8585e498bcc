/* cli/edit.h: lines typed at a terminal, edited as in a shell (libedit; where it was not there when
 * pith was built, as the terminal itself edits them). */
#ifndef PITH_CLI_EDIT_H
#define PITH_CLI_EDIT_H

struct editor;

/* NULL when memory is out. */
struct editor *editor_new(const char *prompt);
void editor_free(struct editor *e);

enum edited { EDIT_LINE, EDIT_CANCELLED, EDIT_END };

/* The next line, without its line break, in *line (valid until the next call). EDIT_CANCELLED after
 * Ctrl-C, EDIT_END after Ctrl-D on an empty line. */
enum edited editor_read(struct editor *e, const char **line);

#endif
