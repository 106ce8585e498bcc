#include "hub/name.h"

#include <stdio.h>
#include <string.h>

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
static const char others[] = "0123456789._-";

/* Length of the word that stands there; 0 when none that the hub would take. */
static size_t word(const char *text)
{
    size_t n = 0;
    while (text[n] && (strchr(letters, text[n]) || strchr(others, text[n]))) {
        if (n > 0 && text[n] == text[n - 1] && (text[n] == '-' || text[n] == '.')) return 0;
        n++;
    }
    return text[0] == '.' || text[0] == '-' ? 0 : n;
}

bool pith_hub_path_is_safe(const char *path)
{
    size_t n = 0, depth = 0;
    for (const char *p = path; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f || *p == '\\') return false;
    for (const char *p = path;; p += n + 1) {
        n = strcspn(p, "/");
        if (n == 0 || n > 255 || ++depth > 32) return false;
        if (p[0] == '.' && (n == 1 || (n == 2 && p[1] == '.'))) return false;
        if (!p[n]) break;
    }
    return strlen(path) < 2048;
}

bool pith_hub_is_hex(const char *text, size_t digits)
{
    return strspn(text, "0123456789abcdef") == digits && !text[digits];
}

bool pith_hub_is_commit(const char *text)
{
    return pith_hub_is_hex(text, PITH_HUB_COMMIT);
}

/* The parts of a name; false when it is none. */
static bool split(const char *text, size_t *repo, const char **revision)
{
    const size_t org = word(text);
    if (org == 0 || text[org] != '/') return false;
    const size_t name = word(text + org + 1);
    *repo = org + 1 + name;
    *revision = "main";
    if (name == 0 || *repo >= PITH_HUB_REPO_MOST) return false;
    if (!text[*repo]) return true;
    *revision = text + *repo + 1;
    return text[*repo] == '@' && strlen(*revision) < PITH_HUB_REVISION_MOST &&
           pith_hub_path_is_safe(*revision);
}

bool pith_hub_name_is(const char *text)
{
    size_t repo;
    const char *revision;
    return split(text, &repo, &revision);
}

enum pith_status pith_hub_name_parse(const char *text, struct pith_hub_name *out,
                                     struct pith_error *err)
{
    size_t repo;
    const char *revision;
    if (!split(text, &repo, &revision))
        return pith_fail(err, PITH_ARG,
                         "%s: no name of a model on the hub; give org/name or org/name@revision",
                         text);
    snprintf(out->repo, sizeof out->repo, "%.*s", (int)repo, text);
    snprintf(out->revision, sizeof out->revision, "%s", revision);
    return PITH_OK;
}
