/* Conversations and history in files. */
#include "cli/talk.h"
#include "cli/input.h"
#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool refuse(struct pith_error *err, enum pith_status status, const char *path,
                   const char *why)
{
    err->status = status;
    snprintf(err->text, sizeof err->text, "%s: %s", path, why);
    return false;
}

bool talk_load(struct talk *t, const char *path, struct pith_error *err)
{
    char *text = read_whole(path, NULL, err), *prompt = NULL;
    json_error_t wrong;
    if (!text) return false;
    json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, &wrong);
    free(text);
    if (!j) {
        err->status = PITH_FORMAT;
        snprintf(err->text, sizeof err->text, "%s: not valid JSON: %s (line %d)", path, wrong.text,
                 wrong.line);
        return false;
    }
    json_t *messages = json_incref(json_is_array(j) ? j : json_object_get(j, "messages"));
    json_decref(j);
    if (!json_is_array(messages)) {
        json_decref(messages);
        return refuse(err, PITH_FORMAT, path, "it has no \"messages\", a list");
    }
    /* The template is asked whether it is a conversation. */
    char *list = json_dumps(messages, JSON_COMPACT);
    const bool good = list &&
                      (json_array_size(messages) == 0 ||
                       pith_service_render(t->service, list, &prompt, NULL, err) == PITH_OK);
    pith_text_free(prompt);
    free(list);
    if (good) {
        json_decref(t->messages);
        t->messages = messages;
    } else {
        json_decref(messages);
    }
    return good;
}

bool talk_save(const struct talk *t, const char *path, struct pith_error *err)
{
    json_t *j = json_pack("{s:O}", "messages", t->messages);
    char *text = j ? json_dumps(j, JSON_INDENT(2)) : NULL;
    const size_t size = text ? strlen(text) : 0;
    *err = (struct pith_error){.status = PITH_NOMEM, .text = "out of memory"};
    if (text) text[size] = '\n'; /* in the place of its NUL */
    const bool good = text && write_whole(path, text, size + 1, err);
    json_decref(j);
    free(text);
    return good;
}

/* Makes a folder and those above it, for this user alone. */
static bool make_folders(char *path)
{
    for (char *p = path + 1; *p; p++) {
        if (*p != '/') continue;
        *p = '\0';
        const bool there = mkdir(path, 0700) == 0 || errno == EEXIST;
        *p = '/';
        if (!there) return false;
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

char *history_path(void)
{
    static const char name[] = "/chat_history";
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    /* A relative path is none, says the XDG base directory specification. */
    const bool own = state && *state == '/';
    const char *root = own ? state : home, *folder = own ? "/pith" : "/.local/state/pith";
    if (!root || *root != '/') return NULL;
    char *path = malloc(strlen(root) + strlen(folder) + sizeof name);
    if (!path) return NULL;
    strcpy(path, root);
    strcat(path, folder);
    if (!make_folders(path)) {
        free(path);
        return NULL;
    }
    return strcat(path, name);
}
