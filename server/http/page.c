/* The page, put together of its parts, and the policy that lets a browser run of it what stands in
 * it and nothing else. */
#include "server/http/page.h"

#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__asm__(".section .rodata\n"
        ".balign 16\n"
        ".global server_page_text\n"
        "server_page_text:\n"
        ".ascii \"<!DOCTYPE html>\\n<html lang=en>\\n<head>\\n<meta charset=utf-8>\\n\"\n"
        ".ascii \"<meta name=viewport content='width=device-width, initial-scale=1'>\\n\"\n"
        ".ascii \"<title>pith</title>\\n<link rel=icon href='data:,'>\\n<style>\\n\"\n"
        ".incbin \"server/http/page.css\"\n"
        ".ascii \"</style>\\n</head>\\n<body>\\n\"\n"
        ".incbin \"server/http/page.html\"\n"
        ".ascii \"<script>\\n\"\n"
        ".incbin \"server/http/page.js\"\n"
        ".ascii \"</script>\\n</body>\\n</html>\\n\"\n"
        ".global server_page_end\n"
        "server_page_end:\n"
        ".byte 0\n"
        ".previous\n");
extern const char server_page_text[], server_page_end[];

/* Appends the digest of each <tag>...</tag> that holds something. */
static bool add_digests(const char *text, const char *tag, char *policy, size_t room)
{
    char open[16], close[16];
    snprintf(open, sizeof open, "<%s", tag);
    snprintf(close, sizeof close, "</%s>", tag);
    for (const char *at = strstr(text, open); at; at = strstr(at, open)) {
        const char *begin = strchr(at, '>');
        const char *end = begin ? strstr(begin, close) : NULL;
        unsigned char digest[32], base64[48];
        if (!end) return false;
        begin++;
        if (EVP_Digest(begin, (size_t)(end - begin), digest, NULL, EVP_sha256(), NULL) != 1)
            return false;
        EVP_EncodeBlock(base64, digest, sizeof digest);
        const size_t used = strlen(policy);
        if (used + 64 > room) return false;
        snprintf(policy + used, room - used, " 'sha256-%s'", (const char *)base64);
        at = end;
    }
    return true;
}

struct page *page_new(void)
{
    struct page *p = calloc(1, sizeof *p);
    char scripts[192] = "script-src 'none'", styles[192] = "style-src 'none'";
    if (!p) return NULL;
    p->text = server_page_text;
    p->size = (size_t)(server_page_end - server_page_text);
    if (strstr(p->text, "<script")) scripts[strlen("script-src")] = '\0';
    if (strstr(p->text, "<style")) styles[strlen("style-src")] = '\0';
    if (add_digests(p->text, "script", scripts, sizeof scripts) &&
        add_digests(p->text, "style", styles, sizeof styles)) {
        snprintf(p->policy, sizeof p->policy,
                 "default-src 'none'; %s; %s; connect-src 'self'; img-src data:; "
                 "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
                 scripts, styles);
        return p;
    }
    free(p);
    return NULL;
}
