/* PTX of attention for GPUs: made for every head size, mask and type, and assembled where ptxas
 * is found, which must not spill, serialise asynchronous products, or refuse. "print i" prints
 * the PTX of case i, "llvm i" its LLVM IR. */
#include <time.h>

#include "ir/tile_gpu_attention.h"
#include "jit/llvm.h"
#include "tests/jit/gpu_ptxas.h"

/* Heads of 64 may spill outside of the loop over keys. */
enum { SPILLS = 40 };

static int failed;

typedef struct Case {
  TsDtype dtype;
  int d;
  bool causal, sink;
  int window, rows;
  bool turns, alone;
} Case;

static TsTile *kernel(const Case *c) {
  TsError err = {0};
  TsGpuAttention x = ts_gpu_attention(c->dtype, c->d, c->causal, c->window, c->sink);
  if (c->rows) x.rows = c->rows, x.turns = c->turns;
  x.alone = c->alone;
  TsTile *k = ts_tile_gpu_attention(&x, &err);
  if (!k || ts_tile_check(k, NULL, &err)) failed++, printf("%s\n", err.message);
  return k;
}

static void say(const void *of, const char *what) {
  const Case *c = of;
  printf("%s d %d causal %d window %d sink %d rows %d: %s\n", ts_dtype_name(c->dtype), c->d,
         c->causal, c->window, c->sink, c->rows, what);
}

static void one(const Case *c, bool ptxas) {
  TsError err = {0};
  TsGpuMma info;
  TsText ptx = {0};
  TsTile *k = kernel(c);
  if (!k) return;
  clock_t begun = clock();
  if (ts_gpu_mma_text(k, false, &info, &ptx, &err))
    failed++, say(c, err.message);
  else if (info.shared > 232448 || info.threads != k->threads || info.nmap != 4 ||
           (info.scratch > 0) != c->alone)
    failed++, say(c, "not the kernel that was asked for");
  else if (ptxas)
    failed += judge(&ptx, k->target, SPILLS, c, say);
  if (getenv("PTXAS")) printf("%.1f ms  ", (double)(clock() - begun) * 1e3 / CLOCKS_PER_SEC);
  ts_text_free(&ptx);
  ts_tile_free(k);
}

static const Case all[] = {
    {TS_DT_bf16, 128, false, false, 0, 0, false, false},
    {TS_DT_bf16, 128, true, false, 0, 0, false, false},
    {TS_DT_bf16, 64, false, false, 0, 0, false, false},
    {TS_DT_bf16, 64, true, false, 0, 0, false, false},
    {TS_DT_f16, 128, true, true, 128, 0, false, false},
    {TS_DT_f16, 64, true, true, 128, 0, false, false},
    {TS_DT_bf16, 128, true, false, 0, 0, false, true},
    {TS_DT_f16, 64, true, true, 128, 0, false, true},
    {TS_DT_bf16, 128, true, false, 0, 128, true, false},
    {TS_DT_bf16, 64, true, false, 0, 128, false, false},
    {TS_DT_bf16, 64, true, false, 0, 128, true, false},
};

static void print(const Case *c, bool llvm) {
  TsTile *k = kernel(c);
  print_code(k, llvm);
  ts_tile_free(k);
}

int main(int argc, char **argv) {
  int n = sizeof all / sizeof *all;
  if (argc > 2) return print(&all[atoi(argv[2]) % n], argv[1][0] == 'l'), 0;
  if (!ts_llvm_present()) return 0;
  bool ptxas = has_ptxas();
  for (int i = 0; i < n; i++) one(&all[i], ptxas);
  if (failed) printf("%d failed\n", failed);
  return failed != 0;
}
