/* Any bytes as a text that comes in: it passes, and then it is UTF-8 without NUL bytes, or it is
 * refused in one line that names the byte. From a file, with line ends changed, each CR LF is one
 * byte shorter. */
#include "folder.h"

#include "tok/text_input.h"
#include "tok/unicode/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void open_file(const char *data, size_t size, bool good)
{
    char path[128];
    struct pith_text text;
    struct pith_newlines newlines = {.lf = true};
    (void)snprintf(path, sizeof path, "%s/text", folder());
    folder_put("text", data, size);
    if ((pith_text_open(path, &newlines, &text, NULL) == PITH_OK) != good) abort();
    if (!good) return;
    if (text.size + newlines.crlf + pith_text_mark(data, size) != size) abort();
    pith_text_close(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pith_error err = {0};
    const char *text = (const char *)data;
    const enum pith_status s = pith_text_check("text", text, size, &err);
    const bool good = pith_utf8_valid(text, size) && (size == 0 || !memchr(text, 0, size));
    if ((s == PITH_OK) != good) abort();
    if (!good && (!strstr(err.text, "text: not UTF-8: byte ") || strchr(err.text, '\n'))) abort();
    open_file(text, size, good);
    return 0;
}
