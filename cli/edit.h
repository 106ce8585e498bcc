/* cli/edit.h: lines typed at a terminal, edited as in a shell (libedit; where it was not there
 * when pith was built, as the terminal itself edits them). */
#ifndef PITH_CLI_EDIT_H
#define PITH_CLI_EDIT_H

#include <stdbool.h>

struct editor;

/* NULL when memory is out. */
struct editor *editor_new(const char *prompt);
void editor_free(struct editor *e);

enum edited { EDIT_LINE, EDIT_CANCELLED, EDIT_END };

/* The next line, without its line break, in *line (valid until the next call). EDIT_CANCELLED after
 * Ctrl-C: *line is what stood there, where that is known; EDIT_END after Ctrl-D on an empty line.
 */
enum edited editor_read(struct editor *e, const char **line);
/* Another prompt from the next line on; the text must stay. */
void editor_prompt(struct editor *e, const char *prompt);
/* Reads earlier lines from a file, and writes them to it after each line from now on (to a
 * temporary file, then renamed, for this user alone). false where there is no such editing. */
bool editor_remember(struct editor *e, const char *path);

#endif
