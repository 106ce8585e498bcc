/* base/keyed: as the cryptography library for Python has it (golden values), in pieces of any size,
 * and another for anything that differs. */
#include "base/keyed.h"

#include "test.h"

#include <string.h>

enum { MOST = 786432 };

static void fill(struct pith_keyed_key *key, uint8_t *data, size_t size)
{
    for (size_t i = 0; i < sizeof key->byte; i++) key->byte[i] = (uint8_t)(37 * i + 11);
    for (size_t i = 0; i < size; i++) data[i] = (uint8_t)(i * i / 7 + i);
}

static void hash(const struct pith_keyed_key *key, const uint8_t *data, size_t size, size_t piece,
                 char hex[PITH_SHA256_HEX])
{
    struct pith_keyed *k = pith_keyed_new(key);
    for (size_t at = 0; at < size; at += piece)
        pith_keyed_update(k, data + at, size - at < piece ? size - at : piece);
    pith_keyed_finish(k, hex);
}

/* Golden values, in Python with key and data as fill() makes them
 *     from cryptography.hazmat.primitives.ciphers.aead import AESGCM
 *     AESGCM(key).encrypt(bytes(12), b"", data).hex() */
static void test_golden(void **state)
{
    static uint8_t data[MOST];
    static const struct {
        size_t size;
        const char *hex;
    } want[] = {{0, "f1199ef5152e1a41e28e8a8bd62a5a30"},
                  {1, "0c0c511355fd82a6c2952de69b8f7426"},
                  {4095, "4f4a696d88d4a5f55b6bd687a599fdfa"},
                  {4096, "0a268d07d23eb8773a80171041868c34"},
                  {4097, "2aec06a2ab108569957cae95f800016e"},
                  {100000, "7a4f25cbb14d9a36f601969aa79ff012"},
                  {786432, "ffb4611b38d7ad4ec112ee3e386bcd03"}};
    static const size_t pieces[] = {1, 7, 4095, 4096, 4097, 12289, MOST};
    struct pith_keyed_key key;
    (void)state;
    fill(&key, data, sizeof data);
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        for (size_t p = 0; p < sizeof pieces / sizeof pieces[0]; p++) {
            char hex[PITH_SHA256_HEX];
            hash(&key, data, want[i].size, pieces[p], hex);
            assert_string_equal(hex, want[i].hex);
        }
}

static void test_differs(void **state)
{
    enum { SIZE = 8292 };
    static uint8_t data[SIZE + 8];
    struct pith_keyed_key key, drawn;
    char hex[PITH_SHA256_HEX], other[PITH_SHA256_HEX];
    (void)state;
    fill(&key, data, SIZE);
    hash(&key, data, SIZE, SIZE, hex);
    for (size_t at = 0; at < SIZE; at += 5) {
        data[at] ^= (uint8_t)(1u << at % 8);
        hash(&key, data, SIZE, SIZE, other);
        assert_string_not_equal(hex, other);
        data[at] ^= (uint8_t)(1u << at % 8);
    }
    for (size_t more = 1; more <= 8; more++) { /* zeros behind */
        hash(&key, data, SIZE + more, SIZE, other);
        assert_string_not_equal(hex, other);
    }
    assert_true(pith_keyed_draw(&drawn));
    hash(&drawn, data, SIZE, SIZE, hex);
    assert_true(pith_keyed_draw(&key));
    assert_memory_not_equal(&key, &drawn, sizeof key);
    hash(&key, data, SIZE, SIZE, other);
    assert_string_not_equal(hex, other);
    pith_keyed_update(NULL, data, SIZE);
    pith_keyed_finish(NULL, hex);
    assert_string_equal(hex, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden),
                                       cmocka_unit_test(test_differs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
