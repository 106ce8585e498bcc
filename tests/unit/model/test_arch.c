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

static const struct pith_arch *known(const json_t *config)
{
    const char *name =
        json_string_value(json_array_get(json_object_get(config, "architectures"), 0));
    size_t count;
    const struct pith_arch *const *archs = pith_archs(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(archs[i]->name, name) == 0) return archs[i];
    return NULL;
}

/* The largest difference over both prompts and all chunks. */
static double worst_of(struct rig *r, const float *expected)
{
    int32_t ids[PROMPT_MAX];
    double worst = 0;
    for (unsigned p = 0; p < 2; p++) {
        const size_t n = golden_prompt(p, ids);
        for (size_t c = 0; c < PITH_COUNT(chunks); c++) {
            float *logits = rig_logits(r, ids, n, chunks[c]);
            const double d = logits_difference(logits, expected, n * PROMPT_VOCAB);
            if (!(d <= worst)) worst = d;
            free(logits);
        }
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
        const double worst = worst_of(&r, expected);
        rig_close(&r);
        same = worst <= tolerance;
        print_message("%-28s %.1e%s\n", name, worst, same ? "" : "  TOO FAR");
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
    const char *arch =
        json_string_value(json_array_get(json_object_get(config, "architectures"), 0));
    assert_int_equal(pith_model_open(dir, &m, &err), PITH_UNSUPPORTED);
    size_t count;
    const struct pith_arch *const *archs = pith_archs(&count);
    bool told = strstr(err.text, arch) != NULL;
    for (size_t i = 0; i < count; i++) told = told && strstr(err.text, archs[i]->model_type);
    print_message("%-28s %s is not known%s\n", name, arch, told ? "" : ", and is not told so");
    return told;
}

static bool check_case(const char *name, bool *ran)
{
    struct pith_error err = {0};
    char path[256];
    json_t *file;
    snprintf(path, sizeof path, ARCH_GOLDEN "%s.json", name);
    assert_ok(pith_json_load(path, 1 << 20, &file, &err), err);
    char *dir = arch_folder_make(file);
    const json_t *config = json_object_get(file, "config");
    *ran = known(config) != NULL;
    const bool good = *ran ? runs_alike(name, dir) : is_refused(name, dir, config);
    folder_remove(dir);
    json_decref(file);
    return good;
}

static void every_case_equals_transformers(void **state)
{
    struct pith_error err = {0};
    const char *prefix = *state;
    char **names;
    size_t count, cases = 0, known_ones = 0, bad = 0;
    assert_ok(pith_dir_list(ARCH_GOLDEN, &names, &count, &err), err);
    for (size_t i = 0; i < count; i++) {
        char *dot = strrchr(names[i], '.');
        if (!dot || strcmp(dot, ".json") != 0) continue;
        if (strncmp(names[i], prefix, strlen(prefix)) != 0) continue;
        *dot = '\0';
        bool ran;
        bad += !check_case(names[i], &ran);
        known_ones += ran;
        cases++;
    }
    pith_names_free(names, count);
    print_message("%zu cases, %zu of known architectures\n", cases, known_ones);
    assert_true(cases > 0);
    if (bad) fail_msg("%zu of %zu cases are not as transformers computes them", bad, cases);
}

int main(int argc, char **argv)
{
    static char all[] = "";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(every_case_equals_transformers, argc > 1 ? argv[1] : all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
