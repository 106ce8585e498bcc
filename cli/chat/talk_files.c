/* Conversations and history in files. */
#include "cli/chat/talk.h"
#include "cli/input.h"
#include "cli/output.h"

#include <pith/json.h>

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
    json_t *j = NULL;
    if (!text) return false;
    const enum pith_status s = pith_tree_read(text, strlen(text), path, &j, err);
    free(text);
    if (s != PITH_OK) return false;
    json_t *messages = json_incref(json_is_array(j) ? j : json_object_get(j, "messages"));
    json_decref(j);
    if (!json_is_array(messages)) {
        json_decref(messages);
        return refuse(err, PITH_FORMAT, path, "it has no \"messages\", a list");
    }
    /* The template decides whether it is a conversation. */
    char *list = pith_tree_text(messages, JSON_COMPACT);
    const bool good = list &&
                      (json_array_size(messages) == 0 ||
                       pith_service_render(t->service, list, &prompt, NULL, err) == PITH_OK);
    pith_text_free(prompt);
    pith_text_free(list);
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
    char *text = j ? pith_tree_text(j, JSON_INDENT(2)) : NULL;
    const size_t size = text ? strlen(text) : 0;
    *err = (struct pith_error){.status = PITH_NOMEM, .text = "out of memory"};
    if (text) text[size] = '\n'; /* in the place of its NUL */
    const bool good = text && write_whole(path, text, size + 1, err);
    json_decref(j);
    pith_text_free(text);
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
