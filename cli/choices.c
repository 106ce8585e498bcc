/* Words that options take: those of a list of the library, or a few of the program's own. */
#include "cli/choices.h"

#include <pith/inspect.h>
#include <pith/context.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The lists of the library whose names are choices. */
enum source {
    NONE,
    RECIPES,
    FORMATS,
    HARDWARE,
    CONTAINERS,
    ENGINES,
    TRANSFORMS,
    SPLITS,
    ROUNDERS /* the last of CHOICES_SOURCES */
};
static const char *const sources[] = {
    [RECIPES] = "recipes",       [FORMATS] = "formats",   [HARDWARE] = "hardware",
    [CONTAINERS] = "containers", [ENGINES] = "engines",   [TRANSFORMS] = "transforms",
    [SPLITS] = "splits",         [ROUNDERS] = "rounders",
};
_Static_assert(sizeof sources / sizeof sources[0] == CHOICES_SOURCES, "a list of names for each");

/* command: NULL for all; option: NULL for operands. */
static const struct choice {
    const char *command, *option, *words;
    enum source source;
} choices[] = {
    /* What one command takes of a list stands before the list: the first row counts. */
    {"advise", "round", "gptq qep qep:kron", NONE},
    {"sensitivity", "round", "nearest weighted gptq", NONE},
    {"quantize", "recipe", "auto", RECIPES},
    {"convert", "container", "dense dense:bf16 dense:f16 dense:f32", CONTAINERS},
    {"features", NULL,
     "containers engines loads caches conversions architectures transforms splits rounders",
     ENGINES},
    {NULL, "arrivals", "poisson even bursts", NONE},
    {NULL, "container", "", CONTAINERS},
    {NULL, "convention", "gptq hf llama.cpp bos", NONE},
    {NULL, "cpu", "auto scalar avx2 avx512 vnni bf16 amx neon dotprod", NONE},
    {NULL, "crlf", "keep lf", NONE},
    {NULL, "endpoint", "completions chat", NONE},
    {NULL, "experts", "pooled routed all", NONE},
    {NULL, "for", "", ENGINES},
    {NULL, "form", "text ids", NONE},
    {NULL, "format", "text markdown csv json", NONE},
    {NULL, "hardware", "all this", HARDWARE},
    {NULL, "mode", "exact fast", NONE},
    {NULL, "quantize", "", RECIPES},
    {NULL, "ranks", "mpi none", NONE},
    {NULL, "recipe", "", RECIPES},
    {NULL, "round", "", ROUNDERS},
    {NULL, "split", "", SPLITS},
    {NULL, "train", "scales all", NONE},
    {NULL, "transform", "", TRANSFORMS},
    {"completion", NULL, "bash zsh fish", NONE},
    {"formats", NULL, "", FORMATS},
    {"hardware", NULL, "this", HARDWARE},
    {"recipes", NULL, "auto", RECIPES},
};

static void take_names(struct choice_names *names, enum source wanted)
{
    (void)pith_list_names(sources[wanted], &names->of[wanted], NULL);
}

void free_choice_names(struct choice_names *names)
{
    for (size_t i = 0; i < CHOICES_SOURCES; i++) pith_text_free(names->of[i]);
}

/* By what its value is called: "FILE", "PAGE.html", "DIR", "MODEL". */
static enum value_kind kind_of(const char *value)
{
    if (strncmp(value, "FILE", 4) == 0 || strncmp(value, "PAGE", 4) == 0 ||
        strncmp(value, "MODEL", 5) == 0)
        return VALUE_FILE;
    return strncmp(value, "DIR", 3) == 0 || strcmp(value, "NEW") == 0 ? VALUE_FOLDER : VALUE_OTHER;
}

enum value_kind find_choices(struct choice_names *names, const struct command *c,
                             const struct option *option, char words[CHOICES_ROOM])
{
    words[0] = '\0';
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        const struct choice *h = &choices[i];
        if (h->command && strcmp(h->command, c->name) != 0) continue;
        if (option ? !h->option || strcmp(h->option, option->row->name) != 0 : h->option != NULL)
            continue;
        if (h->source && !names->of[h->source]) take_names(names, h->source);
        const char *listed = h->source ? names->of[h->source] : NULL;
        snprintf(words, CHOICES_ROOM, "%s%s%s", h->words, *h->words && listed ? " " : "",
                 listed ? listed : "");
        return VALUE_WORD;
    }
    if (option) return option->row->arg ? kind_of(option->row->arg) : VALUE_OTHER;
    return c->takes_models ? VALUE_FILE : kind_of(c->operands);
}
