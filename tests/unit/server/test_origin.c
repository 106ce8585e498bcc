/* Names by which a page may find the server: none that somebody else decides on. */
#include "server/http/origin.h"
#include "test.h"

#include <string.h>

static void test_names(void **state)
{
    static const char *const names[] = {"model.lan", "Box.Example:8443"};
    static const struct {
        const char *host;
        bool ours;
    } rows[] = {
        {NULL, true},
        {"127.0.0.1", true},
        {"127.0.0.1:8080", true},
        {"127.1.2.3:80", true},
        {"192.168.1.20:8080", true},
        {"[::1]", true},
        {"[::1]:8080", true},
        {"[fe80::1%eth0]:80", true},
        {"[2001:db8::7]:80", true},
        {"localhost", true},
        {"LocalHost:1", true},
        {"localhost.:1", true},
        {"bound.example:80", true},
        {"model.lan", true},
        {"MODEL.lan:9", true},
        {"box.example:8443", true},
        {"", false},
        {":80", false},
        {".", false},
        {"evil.test", false},
        {"evil.test:80", false},
        {"box.example:80", false},
        {"localhost.evil.test", false},
        {"evil.localhost.test:80", false},
        {"127.0.0.1.evil.test", false},
        {"127.0.0.1@evil.test", false},
        {"evil.test#127.0.0.1", false},
        {"1270.0.0.1", false},
        {"0x7f.1", false},
        {"2130706433", false},
        {"[evil.test]", false},
        {"[::1", false},
        {"[", false},
        {"[]", false},
        {"[::1]evil.test", false},
        {"model.lan.evil.test", false},
        {"emodel.lan", false},
    };
    const struct pith_list allowed = {names, 2};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (origin_names_us(rows[i].host, "bound.example", &allowed) != rows[i].ours)
            fail_msg("%s", rows[i].host ? rows[i].host : "none");
    char *longest = malloc(70000);
    memset(longest, 'a', 69999);
    longest[69999] = '\0';
    assert_false(origin_names_us(longest, "bound.example", &allowed));
    free(longest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
