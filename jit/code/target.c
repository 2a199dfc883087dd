/* The instruction sets of this machine. */
#include "jit/code/target.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "devices/cpu_kind.h"
#include "vm/core/kernels.h"

enum { MOST = 4 };
static TsTarget own[MOST];
static int count;

/* Where the system does not tell: as the table says. */
static void set_cache(int64_t *bytes, int name) {
  int64_t n = sysconf(name);
  if (n > 0) *bytes = n;
}

/* What the kernels of that set use themselves. */
static const char *pairs_of(const char *name) {
  const TsKernels *k = ts_kernels_of(name);
  if (!k || !k->gemm_pairs.tile) return NULL;
  return k->gemm_amx.block ? "amx_bf16" : "avx512_bf16";
}

static void fill(void) {
  const TsTarget *row;
  for (int i = 0; (row = ts_target_at(i)) && count < MOST; i++) {
    if (ts_target_gpu(row) || !ts_kernels_have(row->name)) continue;
    TsTarget *t = &own[count++];
    *t = *row;
#ifndef __x86_64__
    t->triple = NULL;
#endif
    t->cache[0] = ts_cpu_first_cache();
    set_cache(&t->cache[1], _SC_LEVEL2_CACHE_SIZE);
    set_cache(&t->cache[2], _SC_LEVEL3_CACHE_SIZE);
    t->drops = ts_cpu_is_amd();
    t->pairs = pairs_of(t->name);
  }
}

const TsTarget *ts_jit_target(const char *name) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, fill);
  for (int i = 0; i < count; i++)
    if (!name || !strcmp(name, own[i].name)) return &own[i];
  return NULL;
}
