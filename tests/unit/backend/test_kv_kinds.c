/* Every row of backend/kv.def: its name leads back to it, and it is named where names are listed.
 */
#include "backend/kv_kinds.h"
#include "test.h"

#include <ctype.h>

static void names_lead_to_rows(void **state)
{
    (void)state;
    size_t count, tried = 0, kinds = 0;
    char names[PITH_KV_NAMES];
    const struct pith_kv_row *row = pith_kv_rows(&count);
    pith_kv_row_names(NULL, names);
    for (size_t i = 0; i < count; i++) {
        char upper[32];
        size_t n = strlen(row[i].name);
        assert_in_range(n, 1, sizeof upper - 1);
        for (size_t c = 0; c <= n; c++) upper[c] = (char)toupper((unsigned char)row[i].name[c]);
        if (row[i].tried) assert_ptr_equal(pith_kv_candidate(tried++), &row[i]);
        assert_ptr_equal(pith_kv_row_find(upper), row[i].kind ? &row[i] : NULL);
        if (!row[i].kind) continue;
        kinds++;
        assert_int_equal(strncmp(row[i].name, row[i].kind->name, strlen(row[i].kind->name)), 0);
        assert_non_null(strstr(names, row[i].kind->name));
        for (size_t k = 0; k < i; k++)
            assert_true(row[k].kind != row[i].kind || row[k].bits < row[i].bits);
    }
    assert_true(kinds >= 8 && tried == PITH_KV_CANDIDATES && tried <= count);
    assert_null(pith_kv_candidate(tried));
    assert_null(pith_kv_row_find("turbo"));
}

static bool every_page(const struct pith_kv_kind *kind)
{
    return kind->least_recent > 0;
}

static void names_of_some(void **state)
{
    (void)state;
    char names[PITH_KV_NAMES];
    pith_kv_row_names(every_page, names);
    assert_string_equal(names, "kivi2 or kivi4");
    pith_kv_row_names(NULL, names);
    assert_int_equal(strncmp(names, "turbo2 to turbo4, kivi2 or kivi4, kvquant2 to kvquant4", 54),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_lead_to_rows),
        cmocka_unit_test(names_of_some),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
