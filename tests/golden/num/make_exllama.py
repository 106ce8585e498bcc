#!/usr/bin/env python3
"""Golden codes of ExLlamaV3's quantized cache, from its own kernels.

    make_exllama.py EXLLAMAV3     (numpy, g++)

EXLLAMAV3 is a checkout of github.com/turboderp-org/exllamav3 (made with 4f8ad01). What its cache/q_cache_kernels.cuh does to four groups
of 32 halves, quant_block_x4 and dequant_block_x4, is compiled for the CPU, a warp being 32 threads that wait for each other, and run without
its compander. Writes tests/golden/num/exllama.json: x[tokens][channels] as hex words of halves; for each number of bits codes, two digits
each, scales[token][group] and what is read back, as hex words of halves."""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENS, CHANNELS, GROUP = 32, 128, 32

# What the kernels take from CUDA.
SHIM = r"""
#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__
using std::max; using std::min;
typedef _Float16 half;
struct half2 { half x, y; };
static std::barrier<> warp(32);
static thread_local struct { unsigned x; } threadIdx;
static uint64_t lanes[32];
template <class T> T exchange(T v, int from) {
    uint64_t w = 0;
    memcpy(&w, &v, sizeof v);
    lanes[threadIdx.x] = w;
    warp.arrive_and_wait();
    w = lanes[from & 31];
    warp.arrive_and_wait();
    memcpy(&v, &w, sizeof v);
    return v;
}
template <class T> T __shfl_xor_sync(unsigned, T v, int i) { return exchange(v, (int)threadIdx.x ^ i); }
template <class T> T __shfl_sync(unsigned, T v, int lane) { return exchange(v, lane); }
static void __syncwarp() { warp.arrive_and_wait(); }
static uint32_t atomicOr(uint32_t *p, uint32_t v) { return __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST); }
static uint32_t __float_as_uint(float x) { uint32_t w; memcpy(&w, &x, 4); return w; }
static float __uint_as_float(uint32_t w) { float x; memcpy(&x, &w, 4); return x; }
static float __half2float(half h) { return (float)h; }
static half __float2half_rn(float x) { return (half)x; }
static half __low2half(half2 h) { return h.x; }
static half __high2half(half2 h) { return h.y; }
static half2 __floats2half2_rn(float a, float b) { return {(half)a, (half)b}; }
static int __float2int_rd(float x) { return (int)floorf(x); }
"""

# Reads halves, writes codes' words, scales and halves again, for each number of bits.
MAIN = r"""
template <int bits> void run(const std::vector<half> &x) {
    std::vector<uint32_t> words(x.size() / 32 * bits);
    std::vector<half> scales(x.size() / 32), back(x.size());
    static uint32_t staging[4 * 8];
    std::vector<std::thread> threads;
    for (unsigned lane = 0; lane < 32; lane++) threads.emplace_back([&, lane] {
        threadIdx.x = lane;
        for (size_t g = 0; g < scales.size(); g += 4) {
            quant_block_x4<bits>(&x[g * 32], &words[g * bits], &scales[g], staging, 4, 0.0f);
            __syncwarp();
            dequant_block_x4<bits>(&words[g * bits], &scales[g], &back[g * 32], 4, 0.0f);
        }
    });
    for (auto &t : threads) t.join();
    fwrite(words.data(), 4, words.size(), stdout);
    fwrite(scales.data(), 2, scales.size(), stdout);
    fwrite(back.data(), 2, back.size(), stdout);
}
int main() {
    std::vector<half> x(COUNT);
    if (fread(x.data(), 2, x.size(), stdin) != x.size()) return 1;
    run<2>(x), run<3>(x), run<4>(x), run<5>(x), run<6>(x), run<7>(x), run<8>(x);
}
"""


def kernels(root, x):
    """What the program writes, for numbers x in halves."""
    folder = os.path.join(root, "exllamav3", "exllamav3_ext", "cache")
    with open(os.path.join(folder, "q_cache_kernels.cuh")) as f:
        source = f.read().replace("#pragma once", "")
    blocks = source[: source.index("__global__")]
    blocks = blocks[: blocks.rindex("template")]
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, "kernels.cpp")
        with open(path, "w") as f:
            f.write(SHIM + blocks + MAIN)
        program = os.path.join(work, "kernels")
        subprocess.run(["g++", "-std=c++20", "-O1", "-ffp-contract=off", "-pthread", "-w", f"-DCOUNT={x.size}", "-I", folder, "-o", program,
                        path], check=True)
        return subprocess.run([program], input=x.tobytes(), stdout=subprocess.PIPE, check=True).stdout


def codes_of(words, bits):
    """words[groups][bits] hold planes of 8, 4, 2 and 1 bits, of a code the upper ones first."""
    codes = np.zeros((len(words), GROUP), np.uint32)
    at = 0
    for width in 8, 4, 2, 1:
        if bits & width:
            place = np.arange(GROUP) * width
            plane = words[:, at + place // 32] >> (place % 32).astype(np.uint32)
            codes = codes << width | plane & (1 << width) - 1
            at += width
    return codes


def numbers():
    r = np.random.default_rng(4)
    x = r.standard_normal((TOKENS, CHANNELS))
    x[:, 5] *= 40  # outlier channels, of keys before all
    x[:, 70] = 9 + x[:, 70] * 0.1
    x[3] = 0  # nothing
    x[4, 32:64] = 0.25  # all alike
    x[5] *= 2.0**-16  # steps below the smallest normal half
    x[6] *= 900
    x[7, 64:96] = np.where(np.arange(GROUP) == 9, 1000, 0)
    return x.astype(np.float16)


def halves(x):
    return "".join("%04x" % w for w in np.asarray(x, np.float16).reshape(-1).view(np.uint16))


def main():
    x = numbers()
    groups = x.size // GROUP
    got = kernels(sys.argv[1], x)
    out = {"tokens": TOKENS, "channels": CHANNELS, "x": halves(x)}
    at = 0
    for bits in range(2, 9):
        words = np.frombuffer(got, np.uint32, groups * bits, at).reshape(groups, bits)
        at += words.nbytes
        scales = np.frombuffer(got, np.float16, groups, at)
        at += scales.nbytes
        back = np.frombuffer(got, np.float16, x.size, at)
        at += back.nbytes
        out[f"exllama{bits}"] = {"codes": "".join("%02x" % c for c in codes_of(words, bits).reshape(-1)), "scale": halves(scales),
                                 "back": halves(back)}
    assert at == len(got)
    with open(os.path.join(HERE, "exllama.json"), "w") as f:
        json.dump(out, f, indent=0)
        f.write("\n")


main()
