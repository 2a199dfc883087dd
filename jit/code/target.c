/* The instruction sets of x86-64 as targets. */
#include "jit/code/target.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "devices/cpu_kind.h"
#include "vm/core/kernels.h"

#define AVX2   "+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt"
#define AVX512 AVX2 ",+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512cd"

static TsJitTarget target[] = {
#if defined __x86_64__
    {.tile = {.name = "avx512", .vector_bytes = 64, .registers = 32, .fma = true},
     .triple = "x86_64-unknown-linux-gnu",
     .cpu = "x86-64",
     .features = AVX512,
     .half = true,
     .round = true},
    {.tile = {.name = "avx2", .vector_bytes = 32, .registers = 16, .fma = true},
     .triple = "x86_64-unknown-linux-gnu",
     .cpu = "x86-64",
     .features = AVX2,
     .half = true,
     .round = true},
    {.tile = {.name = "base", .vector_bytes = 16, .registers = 16},
     .triple = "x86_64-unknown-linux-gnu",
     .cpu = "x86-64",
     .features = ""},
#else
    {.tile = {.name = "base", .vector_bytes = 16, .registers = 16}},
#endif
};

enum { NTARGET = sizeof target / sizeof *target };

/* Where the system does not tell, what no processor of the last ten years goes below. */
static int64_t cache_bytes(int name, int64_t least) {
  int64_t n = sysconf(name);
  return n > 0 ? n : least;
}

/* What the kernels of that set use themselves. */
static const char *pairs_of(const char *name) {
  const TsKernels *k = ts_kernels_of(name);
  if (!k || !k->gemm_pairs.tile) return NULL;
  return k->gemm_amx.block ? "amx_bf16" : "avx512_bf16";
}

static void fill(void) {
  int64_t l2 = cache_bytes(_SC_LEVEL2_CACHE_SIZE, 256 << 10);
  int64_t l3 = cache_bytes(_SC_LEVEL3_CACHE_SIZE, 2 << 20);
  for (int i = 0; i < NTARGET; i++) {
    target[i].tile.cache[0] = ts_cpu_first_cache();
    target[i].tile.cache[1] = l2;
    target[i].tile.cache[2] = l3;
    target[i].tile.drops = ts_cpu_is_amd();
    target[i].tile.pairs = pairs_of(target[i].tile.name);
  }
}

const TsJitTarget *ts_jit_target(const char *name) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, fill);
  for (int i = 0; i < NTARGET; i++)
    if ((!name || !strcmp(name, target[i].tile.name)) && ts_kernels_have(target[i].tile.name))
      return &target[i];
  return NULL;
}
