/* The input of text: what is accepted, what is refused and how it is read. */
#include "tok/text_input.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "test.h"

#include <unistd.h>

static const struct {
    const char *data;
    size_t size;
    const char *message[3]; /* parts of it; none: the text passes */
} cases[] = {
#define TEXT(s) s, sizeof(s) - 1
    {TEXT(""), {NULL}},
    {TEXT("plain text\nwith \xc3\xa9 and \xf0\x9f\x98\x80\n"), {NULL}},
    {TEXT("\xef\xbb\xbfmarked"), {NULL}},
    {TEXT("\xff\xfeh\0i\0"), {"byte 0 (line 1) is 0xFF", "UTF-16LE", "iconv -f UTF-16LE"}},
    {TEXT("\xfe\xff\0h\0i"), {"byte 0 (line 1) is 0xFE", "UTF-16BE", NULL}},
    {TEXT("\xff\xfe\0\0h\0\0\0"), {"byte 0", "UTF-32LE", NULL}},
    {TEXT("\0\0\xfe\xff\0\0\0h"), {"byte 2", "UTF-32BE", NULL}},
    {TEXT("h\0e\0l\0l\0o\0 \0y\0o\0u\0\n\0"), {"byte 1 (line 1) is 0x00", "UTF-16LE", NULL}},
    {TEXT("\0h\0e\0l\0l\0o\0 \0y\0o\0u\0\n"), {"byte 0 (line 1) is 0x00", "UTF-16BE", NULL}},
    {TEXT("h\0\0\0e\0\0\0l\0\0\0l\0\0\0"), {"byte 1", "UTF-32LE", NULL}},
    {TEXT("\0\0\0h\0\0\0e\0\0\0l\0\0\0l"), {"byte 0", "UTF-32BE", NULL}},
    {TEXT("one\ntwo\ncaf\xe9 au lait\n"), {"byte 11 (line 3) is 0xE9", "ISO-8859-1", NULL}},
    {TEXT("he said \x93yes\x94 and left, d\xe9j\xe0\n"), {"byte 8", "WINDOWS-1252", NULL}},
    {TEXT("na\xc3\xafve caf\xc3\xa9 \xc3\xa0 l\xe9\n"), {"damaged UTF-8", NULL, NULL}},
    {TEXT("the end of it is caf\xc3\xa9 \xc3\xa9\xc3"), {"ends inside a character", NULL, NULL}},
    {TEXT("one zero\0 here is all that is wrong"), {"byte 8", "no NUL bytes", NULL}},
    {TEXT("\x7f"
          "ELF\2\1\1\0\0\0\0\0\x90\x01\x02\x03\x04\x05\x06\x07"),
     {"byte 12", "binary", NULL}},
    {TEXT("\xcf\xf0\xe8\xe2\xe5\xf2, \xec\xe8\xf0!"), {"another encoding", NULL, NULL}},
};

static void what_passes_and_what_not(void **state)
{
    (void)state;
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_error err = {0};
        const enum pith_status s = pith_text_check("a.txt", cases[i].data, cases[i].size, &err);
        if ((s == PITH_OK) != !cases[i].message[0])
            fail_msg("case %zu: status %d \"%s\"", i, (int)s, err.text);
        for (size_t k = 0; k < 3 && cases[i].message[k]; k++)
            if (!strstr(err.text, cases[i].message[k]) || strchr(err.text, '\n'))
                fail_msg("case %zu: \"%s\" lacks \"%s\"", i, err.text, cases[i].message[k]);
    }
}

/* A wrong byte is found wherever it stands. */
static void the_byte_is_named(void **state)
{
    (void)state;
    char text[65];
    for (size_t at = 0; at < 64; at++)
        for (int zero = 0; zero < 2; zero++) {
            struct pith_error err = {0};
            char want[32];
            memset(text, 'a', 64);
            text[64] = '\0';
            text[at] = zero ? '\0' : (char)0xff;
            snprintf(want, sizeof want, ": byte %zu (line 1)", at);
            assert_int_equal(pith_text_check("a", text, 64, &err), PITH_FORMAT);
            assert_non_null(strstr(err.text, want));
        }
}

static void random_bytes_are_binary(void **state)
{
    (void)state;
    enum { SIZE = 1 << 20 };
    struct pith_rng rng;
    struct pith_error err = {0};
    char *data = malloc(SIZE);
    pith_rng_seed(&rng, 7);
    for (size_t i = 0; i < SIZE; i++) data[i] = (char)pith_rng_below(&rng, 256);
    assert_int_equal(pith_text_check("noise", data, SIZE, &err), PITH_FORMAT);
    assert_non_null(strstr(err.text, "binary"));
    free(data);
}

static void check_file(const char *path, const char *data, bool lf, const char *want, size_t crlf)
{
    struct pith_error err = {0};
    struct pith_text text;
    struct pith_newlines newlines = {.lf = lf};
    assert_ok(pith_file_write(path, data, strlen(data), &err), err);
    assert_ok(pith_text_open(path, &newlines, &text, &err), err);
    assert_int_equal(text.size, strlen(want));
    assert_memory_equal(text.data, want, text.size);
    assert_int_equal(newlines.crlf, crlf);
    pith_text_close(&text);
    assert_null(text.data);
}

static void files_come_in(void **state)
{
    (void)state;
    char *dir = test_temp_dir();
    char *path = pith_path_join(dir, "a.txt");
    struct pith_error err = {0};
    struct pith_text text;
    check_file(path, "a\nb\n", false, "a\nb\n", 0);
    check_file(path, "a\r\nb\r\n", false, "a\r\nb\r\n", 2);
    check_file(path, "a\r\nb\r\n", true, "a\nb\n", 2);
    check_file(path, "\r\r\n\n\rx\r", true, "\r\n\n\rx\r", 1);
    check_file(path, "\r\n", true, "\n", 1);
    check_file(path, "\xef\xbb\xbf"
                     "a\r\n",
               true, "a\n", 1);
    check_file(path, "\xef\xbb\xbf", false, "", 0);
    check_file(path, "", true, "", 0);
    assert_ok(pith_file_write(path, "\xff\xfe", 2, &err), err);
    assert_int_equal(pith_text_open(path, NULL, &text, &err), PITH_FORMAT);
    assert_non_null(strstr(err.text, path));
    err = (struct pith_error){0};
    assert_int_equal(pith_text_open(dir, NULL, &text, &err), PITH_IO);
    assert_ok(pith_dir_remove(dir, &(struct pith_error){0}), err);
    pith_free(path);
    free(dir);
}

static void the_option_is_read(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_newlines newlines;
    assert_ok(pith_newlines_read(NULL, &newlines, &err), err);
    assert_false(newlines.lf);
    assert_ok(pith_newlines_read("keep", &newlines, &err), err);
    assert_false(newlines.lf);
    assert_ok(pith_newlines_read("lf", &newlines, &err), err);
    assert_true(newlines.lf);
    assert_int_equal(pith_newlines_read("crlf", &newlines, &err), PITH_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_passes_and_what_not), cmocka_unit_test(the_byte_is_named),
        cmocka_unit_test(random_bytes_are_binary),  cmocka_unit_test(files_come_in),
        cmocka_unit_test(the_option_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
