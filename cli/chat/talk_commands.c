/* The commands of a conversation: lines that begin with a slash. */
#include "cli/chat/talk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum talk_next talk_function(struct talk *t, const char *argument);
static talk_function show_help, set_system, regenerate, undo, reset, save, load, show_kv,
    show_speed, end;

/* In the order of /help. */
static const struct talk_command {
    const char *name, *argument; /* "" when there is none */
    talk_function *run;
    const char *help;
} table[] = {
    {"help", "", show_help, "this list"},
    {"system", "TEXT", set_system, "the system message from now on; without TEXT: none"},
    {"regen", "", regenerate, "another answer in place of the last one"},
    {"undo", "", undo, "takes back the last message and its answer"},
    {"reset", "", reset, "begins anew; the system message stays"},
    {"save", "FILE", save, "writes the conversation, as JSON"},
    {"load", "FILE", load, "reads one in place of this"},
    {"kv", "", show_kv, "what the cache of keys and values holds"},
    {"speed", "", show_speed, "how fast the last answer came"},
    {"exit", "", end, "ends, as Ctrl-D does"},
};
enum { COMMANDS = sizeof table / sizeof table[0] };

static void complain(const struct talk *t, const struct pith_error *err)
{
    char text[sizeof err->text];
    name_options_in(t->common, err->text, text, sizeof text);
    fprintf(stderr, "pith: %s\n", text);
}

static enum talk_next show_help(struct talk *t, const char *argument)
{
    (void)t, (void)argument;
    for (size_t i = 0; i < COMMANDS; i++)
        printf("  /%-6s %-5s %s\n", table[i].name, table[i].argument, table[i].help);
    puts("  A line that ends in \\ goes on in the next; so does all between two \"\"\".\n"
         "  Ctrl-C stops an answer, or cancels a line; at an empty line it ends, as\n"
         "  Ctrl-D does.");
    return TALK_GOES_ON;
}

bool talk_system(struct talk *t, const char *text)
{
    const json_t *first = json_array_get(t->messages, 0);
    const char *role = json_string_value(json_object_get(first, "role"));
    if (role && strcmp(role, "system") == 0) json_array_remove(t->messages, 0);
    return !*text ||
           json_array_insert_new(t->messages, 0,
                                 json_pack("{s:s, s:s}", "role", "system", "content", text)) == 0;
}

static enum talk_next set_system(struct talk *t, const char *argument)
{
    if (!talk_system(t, argument)) fputs("pith: that is not UTF-8\n", stderr);
    else puts(*argument ? "the system message is set" : "there is no system message");
    return TALK_GOES_ON;
}

static enum talk_next regenerate(struct talk *t, const char *argument)
{
    (void)argument;
    if (talk_last_is(t, "assistant")) {
        if (t->sampling.temperature == 0)
            puts("at temperature 0 the answer is the same: --temperature gives others");
        talk_cut(t, json_array_size(t->messages) - 1);
    }
    if (talk_last_is(t, "user")) return TALK_ASKS;
    puts("there is no answer yet");
    return TALK_GOES_ON;
}

static enum talk_next undo(struct talk *t, const char *argument)
{
    (void)argument;
    size_t n = json_array_size(t->messages);
    while (n > 0 && !talk_last_is(t, "user") && !talk_last_is(t, "system")) talk_cut(t, --n);
    if (!talk_last_is(t, "user")) {
        puts("there is nothing to take back");
        return TALK_GOES_ON;
    }
    talk_cut(t, n - 1);
    printf("taken back; %zu messages remain\n", json_array_size(t->messages));
    return TALK_GOES_ON;
}

static enum talk_next reset(struct talk *t, const char *argument)
{
    const json_t *first = json_array_get(t->messages, 0);
    const char *role = json_string_value(json_object_get(first, "role"));
    (void)argument;
    talk_cut(t, role && strcmp(role, "system") == 0);
    puts("a new conversation");
    return TALK_GOES_ON;
}

static enum talk_next save(struct talk *t, const char *argument)
{
    struct pith_error err = {0};
    if (!*argument) puts("/save FILE");
    else if (!talk_save(t, argument, &err)) complain(t, &err);
    else printf("%zu messages are in %s\n", json_array_size(t->messages), argument);
    return TALK_GOES_ON;
}

static enum talk_next load(struct talk *t, const char *argument)
{
    struct pith_error err = {0};
    if (!*argument) puts("/load FILE");
    else if (!talk_load(t, argument, &err)) complain(t, &err);
    else printf("%zu messages were read\n", json_array_size(t->messages));
    return TALK_GOES_ON;
}

static enum talk_next show_kv(struct talk *t, const char *argument)
{
    struct pith_service_state s = {.size = sizeof s};
    char used[32], all[32];
    (void)argument;
    pith_service_state(t->service, &s);
    const double page = 32 * s.token_bytes;
    format_bytes(page * (double)s.pages_used, used);
    format_bytes(page * (double)s.pages, all);
    printf("  format    %s, %.2f bits a number, %.0f bytes a token\n", s.kv, s.kv_bits,
           s.token_bytes);
    printf("  holds     %zu of %zu pages of 32 tokens, %s of %s\n", s.pages_used, s.pages, used,
           all);
    printf("  reused    %llu of %llu prompt tokens\n", (unsigned long long)s.cached_tokens,
           (unsigned long long)s.prompt_tokens);
    printf("  context   %zu tokens\n", s.context);
    return TALK_GOES_ON;
}

static enum talk_next show_speed(struct talk *t, const char *argument)
{
    const struct pith_usage *u = &t->last.usage;
    (void)argument;
    if (u->generated == 0) {
        puts("there is no answer yet");
        return TALK_GOES_ON;
    }
    const double after = u->seconds - u->first;
    printf("  prompt    %zu tokens, %zu of them from the cache\n", u->prompt, u->cached);
    printf("  first     token after %.2f s\n", u->first);
    printf("  answer    %zu tokens in %.2f s", u->generated, u->seconds);
    if (u->generated > 1 && after > 0)
        printf(": %.1f tokens/s after the first", (double)(u->generated - 1) / after);
    putchar('\n');
    return TALK_GOES_ON;
}

static enum talk_next end(struct talk *t, const char *argument)
{
    (void)t, (void)argument;
    return TALK_ENDS;
}

enum talk_next talk_command(struct talk *t, const char *line)
{
    const size_t length = strcspn(++line, " \t\n");
    const char *argument = line + length + strspn(line + length, " \t\n");
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strlen(table[i].name) != length || memcmp(table[i].name, line, length) != 0) continue;
        if (!*table[i].argument && *argument) {
            printf("/%s takes nothing behind it\n", table[i].name);
            return TALK_GOES_ON;
        }
        return table[i].run(t, argument);
    }
    fputs("there is no command /", stdout);
    put_safe(line, length);
    puts("; /help lists them");
    return TALK_GOES_ON;
}
