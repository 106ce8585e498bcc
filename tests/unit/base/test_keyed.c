/* base/keyed: as an implementation in Python has it (golden values), in pieces of any size, and
 * another for anything that differs. */
#include "base/keyed.h"

#include "test.h"

#include <string.h>

enum { MOST = 3 * PITH_KEYED_BLOCK * 64 };

static void fill(struct pith_keyed_key *key, uint8_t *data, size_t size)
{
    for (uint64_t i = 0; i < PITH_KEYED_WORDS; i++)
        key->word[i] = (i + 1) * 0x9e3779b97f4a7c15u;
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

/* Golden values: of blocks b of 4,096 bytes as words m, filled up with zeros, in Python
 *     t = sum((m[i] + k[i]) % 2**64 * ((m[i + 1] + k[i + 1]) % 2**64) for i in range(0, 512, 2))
 *     s.update((t % 2**128).to_bytes(16, "little"))
 * and at the end s.update(size.to_bytes(8, "little")), s being hashlib.sha256(). */
static void test_golden(void **state)
{
    static uint8_t data[MOST];
    static const struct {
        size_t size;
        const char *hex;
    } want[] = {{0, "af5570f5a1810b7af78caf4bc70a660f0df51e42baf91d4de5b2328de0e83dfc"},
                  {1, "578ca131aa517bef1d9f9490daab1299c8db1b8ff7182dfe0d366c9cb82bf56d"},
                  {4095, "a805ac2b9ec5b9570e8b061ed6321e98355811d6f0b6ae498b27ad7c329efc9d"},
                  {4096, "6b2b9e8126cab2b13cf42df2a7620bdfd1fd576d462992a8572834325559acd8"},
                  {4097, "5167190ee0e2a78f5a1f9748e7c9adc0442f357bb8b38b953b0a47779ac71f86"},
                  {100000, "a79915293aeee4fe31288a89e84e3454f1b0d0ff3199503fbcfb07a598cc10e7"},
                  {786432, "9744b9542784c2a24bb13adaca8d225b8cf32b0fce16ee1b9eac339db9c22489"}};
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
    enum { SIZE = 2 * PITH_KEYED_BLOCK + 100 };
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
