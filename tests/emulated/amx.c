/* The matrix unit of x86 on a CPU that has none: linked into a program before the library, this
 * takes the place of src/base/amx.c and says that the unit is there. Its instructions then end in
 * SIGILL, whose handler reads them as they are encoded, computes what Intel's manual (volume 2, the
 * pages of LDTILECFG, TILELOADD, TILESTORED, TILEZERO, TILERELEASE, TDPBSSD and its sisters,
 * TDPBF16PS) says, and lets the program go on behind them. What the manual forbids (tiles without a
 * shape, shapes that do not fit each other, reserved bits) ends the program.
 *
 * PITH_TEST_AMX makes it a unit that pith must not use: "keeps" small numbers, overlooks the
 * "signs" of bytes, or only where the other operand has "none", adds in another "order".
 *
 * On a CPU that has the unit nothing ends in SIGILL once the system has been asked for its tiles,
 * and the program runs on that. */
#define _GNU_SOURCE
#include "base/amx.h"

#include <immintrin.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { TILES = 8, ROWS = 16, ROW = 64, FLUSH = 0x8040 /* small results and operands are zeros */ };

struct tile {
    uint8_t row[ROWS][ROW];
};
struct unit {
    bool configured;
    uint8_t rows[TILES];
    uint16_t bytes[TILES]; /* of a row */
    struct tile tile[TILES];
};
static _Thread_local struct unit unit;

static _Noreturn void die(const char *what)
{
    static const char head[] = "emulated AMX: ";
    if (write(2, head, sizeof head - 1) < 0 || write(2, what, strlen(what)) < 0 ||
        write(2, "\n", 1) < 0)
        _exit(3);
    abort();
}

static bool wrong(const char *how)
{
    const char *wanted = getenv("PITH_TEST_AMX");
    return wanted && strcmp(wanted, how) == 0;
}

static void demand(bool ok, const char *what)
{
    if (!ok) die(what);
}

/* --- instructions ----------------------------------------------------------------------------- */

/* Every one of them has the prefix VEX of three bytes and the second opcode map. */
struct instruction {
    unsigned prefix; /* 0: none, 1: 66, 2: F3, 3: F2 */
    unsigned opcode, reg, rm, vvvv;
    bool memory, sib, index; /* an operand in memory; addressed by SIB; with an index */
    uint64_t address, stride;
    size_t length;
};

static uint64_t reg_value(const ucontext_t *c, unsigned reg)
{
    static const int order[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                  REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                  REG_R12, REG_R13, REG_R14, REG_R15};
    return (uint64_t)c->uc_mcontext.gregs[order[reg]];
}

static int64_t displacement(const uint8_t *at, size_t bytes)
{
    int8_t one;
    int32_t four;
    if (bytes == 0) return 0;
    memcpy(&one, at, sizeof one);
    if (bytes == 1) return one;
    memcpy(&four, at, sizeof four);
    return four;
}

/* The operand in memory that begins with the byte ModRM at `at`. */
static void read_address(const ucontext_t *c, const uint8_t *start, const uint8_t *at,
                         struct instruction *i)
{
    const unsigned mod = at[0] >> 6, x = start[1] & 0x40 ? 0 : 8, b = start[1] & 0x20 ? 0 : 8;
    size_t bytes = mod == 1 ? 1 : mod == 2 ? 4 : 0;
    uint64_t base = 0;
    bool relative = false;
    i->sib = (at[0] & 7) == 4;
    at++;
    if (i->sib) {
        const unsigned index = (at[0] >> 3 & 7) | x, low = at[0] & 7;
        i->index = index != 4;
        if (i->index) i->stride = reg_value(c, index) << (at[0] >> 6);
        if (mod == 0 && low == 5) bytes = 4;
        else base = reg_value(c, low | b);
        at++;
    } else if (mod == 0 && (i->rm & 7) == 5) {
        bytes = 4;
        relative = true;
    } else {
        base = reg_value(c, (i->rm & 7) | b);
    }
    i->length = (size_t)(at + bytes - start);
    if (relative) base = (uint64_t)(uintptr_t)start + i->length;
    i->address = base + (uint64_t)displacement(at, bytes);
}

static struct instruction read_instruction(const ucontext_t *c)
{
    const uint8_t *at = (const uint8_t *)(uintptr_t)c->uc_mcontext.gregs[REG_RIP];
    demand(at[0] == 0xc4 && (at[1] & 31) == 2, "not an instruction of the unit");
    demand((at[2] & 0x84) == 0, "W and L are reserved");
    struct instruction i = {.prefix = at[2] & 3,
                            .opcode = at[3],
                            .vvvv = ~(unsigned)at[2] >> 3 & 15,
                            .reg = (at[4] >> 3 & 7) | (at[1] & 0x80 ? 0 : 8),
                            .rm = (at[4] & 7) | (at[1] & 0x20 ? 0 : 8),
                            .memory = at[4] >> 6 != 3,
                            .length = 5};
    if (i.memory) read_address(c, at, at + 4, &i);
    return i;
}

/* --- tiles ------------------------------------------------------------------------------------ */

static void load_shapes(const uint8_t *from)
{
    memset(&unit, 0, sizeof unit);
    if (from[0] == 0) return;
    demand(from[0] == 1 && from[1] == 0, "palette 1 and start row 0 are what is emulated");
    for (size_t i = 2; i < 64; i++)
        demand(from[i] == 0 || (i >= 16 && i < 32) || (i >= 48 && i < 56),
               "reserved bits of shapes");
    unit.configured = true;
    for (unsigned t = 0; t < TILES; t++) {
        memcpy(&unit.bytes[t], from + 16 + 2 * t, sizeof unit.bytes[t]);
        unit.rows[t] = from[48 + t];
        demand(unit.bytes[t] <= ROW && unit.rows[t] <= ROWS, "a shape too large");
        demand((unit.bytes[t] == 0) == (unit.rows[t] == 0), "a shape half empty");
    }
}

static struct tile *tile_at(unsigned t)
{
    demand(unit.configured && t < TILES && unit.rows[t] > 0, "a tile without a shape");
    demand(unit.bytes[t] % 4 == 0, "rows of a tile that are not whole words");
    return &unit.tile[t];
}

static void move_tile(const struct instruction *i, bool load)
{
    struct tile *t = tile_at(i->reg);
    demand(i->sib, "a tile is addressed by SIB");
    if (load) memset(t, 0, sizeof *t);
    for (unsigned r = 0; r < unit.rows[i->reg]; r++) {
        uint8_t *at = (uint8_t *)(uintptr_t)(i->address + r * (i->index ? i->stride : 0));
        if (load) memcpy(t->row[r], at, unit.bytes[i->reg]);
        else memcpy(at, t->row[r], unit.bytes[i->reg]);
    }
}

/* The tiles of a product: C[m][n] += A[m][k] B[k][n], words of four bytes. */
struct product {
    struct tile *c;
    const struct tile *a, *b;
    unsigned m, n, k;
};

static struct product read_product(const struct instruction *i)
{
    const unsigned c = i->reg, a = i->rm, b = i->vvvv;
    demand(c != a && c != b && a != b, "a tile named twice");
    const struct product p = {.c = tile_at(c),
                              .a = tile_at(a),
                              .b = tile_at(b),
                              .m = unit.rows[c],
                              .n = unit.bytes[c] / 4u,
                              .k = unit.rows[b]};
    demand(unit.rows[a] == p.m && unit.bytes[a] == 4 * p.k && unit.bytes[b] == 4 * p.n,
           "shapes that do not fit each other");
    return p;
}

static int32_t byte_value(const struct tile *t, unsigned row, unsigned at, bool is_signed)
{
    const uint8_t u = t->row[row][at];
    return is_signed && u > 127 ? u - 256 : u;
}

static void multiply_bytes(const struct product *p, bool a_signed, bool b_signed)
{
    for (unsigned m = 0; m < p->m; m++)
        for (unsigned n = 0; n < p->n; n++) {
            uint32_t sum;
            memcpy(&sum, &p->c->row[m][4 * n], sizeof sum);
            for (unsigned k = 0; k < 4 * p->k; k++)
                sum += (uint32_t)(byte_value(p->a, m, k, a_signed) *
                                  byte_value(p->b, k / 4, 4 * n + k % 4, b_signed));
            memcpy(&p->c->row[m][4 * n], &sum, sizeof sum);
        }
}

static __m128 half(const struct tile *t, unsigned row, unsigned at)
{
    uint16_t h;
    memcpy(&h, &t->row[row][2 * at], sizeof h);
    return _mm_castsi128_ps(_mm_cvtsi32_si128((int)((uint32_t)h << 16)));
}

__attribute__((target("fma"))) static void multiply_bf16(const struct product *p)
{
    const unsigned before = _mm_getcsr();
    _mm_setcsr(wrong("keeps") ? 0x1f80 : 0x1f80 | FLUSH);
    for (unsigned m = 0; m < p->m; m++)
        for (unsigned n = 0; n < p->n; n++) {
            __m128 even = _mm_setzero_ps(), odd = even;
            for (unsigned k = 0; k < p->k; k++) {
                even = _mm_fmadd_ss(half(p->a, m, 2 * k), half(p->b, k, 2 * n), even);
                odd = _mm_fmadd_ss(half(p->a, m, 2 * k + 1), half(p->b, k, 2 * n + 1), odd);
            }
            float *c = (float *)(void *)&p->c->row[m][4 * n];
            if (wrong("order")) {
                _mm_store_ss(c, _mm_add_ss(_mm_add_ss(_mm_load_ss(c), even), odd));
                continue;
            }
            _mm_store_ss(c, _mm_add_ss(_mm_load_ss(c), _mm_add_ss(even, odd)));
        }
    _mm_setcsr(before);
}

/* --- the handler ------------------------------------------------------------------------------ */

enum { SHAPES = 0x49, MOVE = 0x4b, BF16 = 0x5c, BYTES = 0x5e };
enum { NONE, P66, PF3, PF2 };

static void shapes(const struct instruction *i)
{
    if (i->memory) {
        demand(i->prefix == NONE && i->reg % 8 == 0, "STTILECFG is not emulated");
        load_shapes((const uint8_t *)(uintptr_t)i->address);
    } else if (i->prefix == NONE) {
        demand(i->reg == 0 && i->rm == 0, "a reserved field of TILERELEASE");
        memset(&unit, 0, sizeof unit);
    } else {
        demand(i->prefix == PF2 && i->rm == 0, "a reserved field of TILEZERO");
        memset(tile_at(i->reg), 0, sizeof(struct tile));
    }
}

static void execute(const struct instruction *i)
{
    struct product p;
    switch (i->opcode) {
    case SHAPES: shapes(i); break;
    case MOVE:
        demand(i->memory && i->prefix != NONE && i->vvvv == 0, "a reserved form of a move");
        move_tile(i, i->prefix != PF3);
        break;
    case BYTES:
        p = read_product(i);
        multiply_bytes(&p, i->prefix >= PF3 && !wrong(i->prefix == PF3 ? "none" : "signs"),
                       i->prefix == P66 || i->prefix == PF2);
        break;
    case BF16:
        demand(i->prefix == PF3, "a product that is not emulated");
        p = read_product(i);
        multiply_bf16(&p);
        break;
    default: die("not an instruction of the unit");
    }
}

static void handle(int signal, siginfo_t *info, void *context)
{
    ucontext_t *c = context;
    (void)signal;
    (void)info;
    const struct instruction i = read_instruction(c);
    execute(&i);
    c->uc_mcontext.gregs[REG_RIP] += (greg_t)i.length;
}

__attribute__((constructor)) static void install(void)
{
    struct sigaction act = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigemptyset(&act.sa_mask);
    if (sigaction(SIGILL, &act, NULL) != 0) {
        perror("emulated AMX");
        exit(3);
    }
}

/* In the place of the C library's: the tests' own library sets handlers for what ends a program,
 * this signal among them. */
sighandler_t signal(int number, sighandler_t handler)
{
    struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART}, before;
    if (number == SIGILL) return SIG_DFL;
    sigemptyset(&act.sa_mask);
    return sigaction(number, &act, &before) == 0 ? before.sa_handler : SIG_ERR;
}

bool pith_amx_usable(void)
{
    enum { ASK_PERMISSION = 0x1023, TILE_DATA = 18 /* arch_prctl(2) */ };
    (void)syscall(SYS_arch_prctl, ASK_PERMISSION, TILE_DATA);
    return true;
}
