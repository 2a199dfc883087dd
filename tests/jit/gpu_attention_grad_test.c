/* PTX of the gradients of attention for GPUs: made for every head size, mask and type, and
 * assembled where ptxas is found, which must not spill in the roles that multiply, serialise
 * asynchronous products, or refuse. "print i" prints the PTX of case i, "llvm i" its LLVM IR.
 */
#include "ir/tile_gpu_attention_grad.h"
#include "jit/llvm.h"
#include "tests/jit/gpu_ptxas.h"

/* Roles of one thread have few registers, and may spill. */
enum { SPILLS = 96 };

static int failed;

typedef struct Case {
  TsDtype dtype;
  int d;
  bool causal;
  int window, rows, stages;
} Case;

static TsTile *kernel(const Case *c) {
  TsError err = {0};
  TsGpuAttentionGrad x = ts_gpu_attention_grad(c->dtype, c->d, c->causal, c->window);
  if (c->rows) x.rows = c->rows, x.stages = c->stages;
  TsTile *k = ts_tile_gpu_attention_grad(&x, &err);
  if (!k || ts_tile_check(k, NULL, &err)) failed++, printf("%s\n", err.message);
  return k;
}

static void say(const void *of, const char *what) {
  const Case *c = of;
  printf("%s d %d causal %d window %d rows %d: %s\n", ts_dtype_name(c->dtype), c->d, c->causal,
         c->window, c->rows, what);
}

static void one(const Case *c, bool ptxas) {
  TsError err = {0};
  TsGpuMma info;
  TsText ptx = {0};
  TsTile *k = kernel(c);
  if (!k) return;
  if (ts_gpu_mma_text(k, false, &info, &ptx, &err))
    failed++, say(c, err.message);
  else if (info.shared > 232448 || info.threads != k->threads || info.nmap != 7 || info.scratch)
    failed++, say(c, "not the kernel that was asked for");
  else if (ptxas)
    failed += judge(&ptx, k->target, SPILLS, c, say);
  ts_text_free(&ptx);
  ts_tile_free(k);
}

static const Case all[] = {
    {TS_DT_bf16, 128, false, 0, 0, 0}, {TS_DT_bf16, 128, true, 0, 0, 0},
    {TS_DT_bf16, 64, false, 0, 0, 0},  {TS_DT_bf16, 64, true, 0, 0, 0},
    {TS_DT_f16, 128, true, 100, 0, 0}, {TS_DT_f16, 64, true, 100, 0, 0},
    {TS_DT_bf16, 64, true, 0, 64, 2},  {TS_DT_bf16, 64, false, 0, 64, 4},
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
