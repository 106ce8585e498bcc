/* Writes the seeds of fuzz_account, whose accounts are those of the checkpoints that it makes:
 *
 *     cc -std=c17 -D_POSIX_C_SOURCE=200809L -Isrc -Iinclude -o build/make_account
 * fuzz/make_account.c \ build/libpith.a $(pkg-config --libs jansson libpcre2-8 libutf8proc
 * libcrypto) -lbz2 -lz -lm build/make_account        writes fuzz/corpus/account/ */
#include "fuzz_account.c"

/* Some ways to keep a tensor that it was not kept in. */
static const char *const actions[] = {"rotated", "decoded", "rescaled", "pruned", "added"};

static void seed(const char *name, int kind, unsigned choice, const char *config, const char *text)
{
    char path[128];
    struct pith_str s = {0};
    const size_t n = config ? strlen(config) : 0;
    pith_str_putc(&s, (char)('0' + choice + 2 * (unsigned)kind + (config ? 16u : 0u)));
    if (config) {
        pith_str_putc(&s, (char)(n & 255));
        pith_str_putc(&s, (char)(n >> 8));
        pith_str_puts(&s, config);
    }
    pith_str_puts(&s, text);
    (void)snprintf(path, sizeof path, "fuzz/corpus/account/%s%s", kinds[kind].end + 1, name);
    write_file(path, s.data, s.len);
    pith_str_free(&s);
}

/* The k-th tensor that was copied is said to be something else. */
static char *misstate(const char *text)
{
    static const char copied[] = "\"action\": \"copied\"";
    struct pith_str s = {0};
    size_t k = 0;
    for (const char *at = text; *at;) {
        const bool is = strncmp(at, copied, sizeof copied - 1) == 0;
        if (is && k < PITH_COUNT(actions)) pith_str_printf(&s, "\"action\": \"%s\"", actions[k++]);
        else pith_str_append(&s, at, is ? sizeof copied - 1 : 1);
        at += is ? sizeof copied - 1 : 1;
    }
    return pith_str_take(&s);
}

/* The config with one text in place of another. */
static void other_config(const char *name, int kind, unsigned choice, const char *from,
                         const char *to, const char *text)
{
    char whole[CONFIG_MOST];
    struct pith_str s = {0};
    memcpy(whole, configs[kind].text, configs[kind].size);
    whole[configs[kind].size] = '\0';
    const char *at = strstr(whole, from);
    if (!at) abort();
    pith_str_append(&s, whole, (size_t)(at - whole));
    pith_str_puts(&s, to);
    pith_str_puts(&s, at + strlen(from));
    seed(name, kind, choice, s.data, text);
    pith_str_free(&s);
}

int main(void)
{
    prepare();
    for (int k = 0; k < KINDS; k++) {
        char path[128], *text, *other;
        size_t size;
        if (pith_file_read(path_of(kinds[k].account, path), 1 << 20, &text, &size, NULL)) abort();
        seed("", k, 0, NULL, text);
        seed(".against", k, 1, NULL, text);
        seed(".none", k, 33, NULL, "");
        other = misstate(text);
        if (other) seed(".actions", k, 1, NULL, other);
        pith_free(other);
        if (k == FOLDER) {
            other_config(".misspelt", k, 1, "rms_norm_eps", "rms_norm_epz", text);
            other_config(".unreadable", k, 1, "\"hidden_size\"", "\"hidden\"", text);
            other_config(".shape", k, 33, "10000.0", "20000.0", text);
            other_config(".ids", k, 33, "\"bos_token_id\": 1", "\"bos_token_id\": 4", text);
        }
        pith_free(text);
    }
    return 0;
}
