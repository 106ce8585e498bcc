/* Every architecture against transformers, with and without each option of its config: the cases of
 * tests/golden/arch (make_arch.py). An architecture that pith does not know is refused by name.
 *
 * test_arch [prefix]: only the cases whose names begin so. */
#include "unit/model/arch_case.h"

/* Difference to transformers that is allowed, relative to the range of its logits: the contract of
 * an architecture. What is measured is printed; float32's own noise is below 1e-5 (make_arch.py).
 */
static const double tolerance = 1e-4;

/* Tokens read at once: one by one as in generation, a few, all. */
static const size_t chunks[] = {1, 5, PROMPT_MAX};

static const char *architecture(const json_t *config)
{
    return json_string_value(json_array_get(json_object_get(config, "architectures"), 0));
}

/* Which row of archs.def computes it; the count of rows when none does. */
static size_t row_of(const json_t *config)
{
    size_t count, i = 0;
    const struct pith_arch *const *archs = pith_archs(&count);
    while (i < count && strcmp(archs[i]->name, architecture(config)) != 0) i++;
    return i;
}

/* The largest difference over both prompts and all chunks; *cut: bits depend on the chunks. */
static double worst_of(struct rig *r, const float *expected, bool *cut)
{
    int32_t ids[PROMPT_MAX];
    double worst = 0;
    *cut = false;
    for (unsigned p = 0; p < 2; p++) {
        const size_t n = golden_prompt(p, ids);
        float *first = NULL;
        for (size_t c = 0; c < PITH_COUNT(chunks); c++) {
            float *logits = rig_logits(r, ids, n, chunks[c]);
            const double d = logits_difference(logits, expected, n * PROMPT_VOCAB);
            if (!(d <= worst)) worst = d;
            if (!first) first = logits;
            *cut = *cut || memcmp(logits, first, n * PROMPT_VOCAB * sizeof *first) != 0;
            if (logits != first) free(logits);
        }
        free(first);
        expected += n * PROMPT_VOCAB;
    }
    return worst;
}

/* Whether the case holds; says why not. */
static bool runs_alike(const char *name, const char *dir)
{
    struct pith_error err = {0};
    char path[256], *bytes;
    size_t size;
    snprintf(path, sizeof path, ARCH_GOLDEN "%s.logits", name);
    assert_ok(pith_file_read(path, 1 << 20, &bytes, &size, &err), err);
    assert_int_equal(size, (40 + 25) * PROMPT_VOCAB * sizeof(float));
    float *expected = malloc(size);
    memcpy(expected, bytes, size);
    pith_free(bytes);

    struct pith_model *m = NULL;
    bool same = pith_model_open(dir, &m, &err) == PITH_OK;
    pith_model_close(m);
    if (same) {
        struct rig r;
        rig_open(&r, dir, 2);
        bool cut;
        const double worst = worst_of(&r, expected, &cut);
        rig_close(&r);
        same = worst <= tolerance && !cut;
        print_message("%-28s %.1e%s%s\n", name, worst, worst <= tolerance ? "" : "  TOO FAR",
                      cut ? "  DECODING HAS OTHER BITS THAN THE PROMPT" : "");
    } else {
        print_message("%-28s is not opened: %s\n", name, err.text);
    }
    free(expected);
    return same;
}

/* The refusal names the architecture, and those that there are. */
static bool is_refused(const char *name, const char *dir, const json_t *config)
{
    struct pith_error err = {0};
    struct pith_model *m = NULL;
    const char *arch = architecture(config);
    assert_int_equal(pith_model_open(dir, &m, &err), PITH_UNSUPPORTED);
    size_t count;
    const struct pith_arch *const *archs = pith_archs(&count);
    bool told = strstr(err.text, arch) != NULL;
    for (size_t i = 0; i < count; i++) told = told && strstr(err.text, archs[i]->model_type);
    print_message("%-28s %s is not known%s\n", name, arch, told ? "" : ", and is not told so");
    return told;
}

/* Counts in seen[row] a case of an architecture that is known. */
static bool check_case(const char *name, size_t *seen)
{
    json_t *file = arch_load(name);
    char *dir = arch_folder_make(file);
    const json_t *config = json_object_get(file, "config");
    size_t rows;
    (void)pith_archs(&rows);
    const size_t row = row_of(config);
    if (row < rows) seen[row]++;
    const bool good = row < rows ? runs_alike(name, dir) : is_refused(name, dir, config);
    folder_remove(dir);
    json_decref(file);
    return good;
}

/* The names of the cases that begin with a prefix, without ".json"; pith_names_free() them. */
static size_t find_cases(const char *prefix, char ***names, size_t *listed)
{
    struct pith_error err = {0};
    size_t cases = 0;
    assert_ok(pith_dir_list(ARCH_GOLDEN, names, listed, &err), err);
    for (size_t i = 0; i < *listed; i++) {
        char *dot = strrchr((*names)[i], '.'), *name = (*names)[i];
        if (!dot || strcmp(dot, ".json") != 0 || strncmp(name, prefix, strlen(prefix)) != 0)
            continue;
        *dot = '\0';
        (*names)[i] = (*names)[cases];
        (*names)[cases++] = name;
    }
    return cases;
}

/* ... and, when all cases are run, a row of archs.def without one is an untested architecture. */
static void every_case_equals_transformers(void **state)
{
    const char *prefix = *state;
    char **names;
    size_t listed, rows, bad = 0, without = 0;
    const struct pith_arch *const *archs = pith_archs(&rows);
    const size_t cases = find_cases(prefix, &names, &listed);
    size_t *seen = calloc(rows, sizeof *seen);
    for (size_t i = 0; i < cases; i++) bad += !check_case(names[i], seen);
    pith_names_free(names, listed);
    for (size_t i = 0; i < rows && !*prefix; i++) {
        if (seen[i]) continue;
        print_message("no case of %s\n", archs[i]->name);
        without++;
    }
    free(seen);
    print_message("%zu cases\n", cases);
    assert_true(cases > 0);
    if (bad) fail_msg("%zu of %zu cases are not as transformers computes them", bad, cases);
    if (without) fail_msg("%zu architectures have no case", without);
}

int main(int argc, char **argv)
{
    static char all[] = "";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(every_case_equals_transformers, argc > 1 ? argv[1] : all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
