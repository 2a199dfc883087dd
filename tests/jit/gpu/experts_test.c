/* PTX of products of experts (ir/tile/gpu/experts.c) in the sizes of gpt-oss, of one row to
 * thousands: what they read ahead of the launch in front; assembled where ptxas is found,
 * without spills. "print i" prints the PTX of case i. */
#include "ir/tile/ahead.h"
#include "ir/tile/gpu/experts.h"
#include "jit/compile/llvm.h"
#include "tests/jit/gpu/ptxas.h"

typedef struct Case {
  int64_t rows, experts, n, k;
} Case;

static const Case all[] = {{4, 32, 5760, 2880},   {4, 128, 2880, 2880},   {28, 32, 5760, 2880},
                           {256, 32, 2880, 2880}, {2048, 32, 5760, 2880}, {8, 4, 96, 64},
                           {4, 8, 128, 288},      {7, 8, 128, 320}};
enum { CASES = sizeof all / sizeof *all, AHEAD = 1 << 1 | 1 << 2 | 1 << 3 };

static void say(const void *of, const char *what) {
  const Case *c = of;
  printf("%lld rows, %lld experts, %lld x %lld: %s\n", (long long)c->rows,
         (long long)c->experts, (long long)c->n, (long long)c->k, what);
}

static TsTile *kernel(const Case *c, TsError *err) {
  TsGpuMachine gpu = {ts_target("sm_90a"), 132};
  TsGpuExperts x = ts_gpu_experts(c->rows, c->experts, c->n, c->k, &gpu);
  x.bias = true, x.times = 4;
  TsTile *k = x.cols ? ts_tile_gpu_experts(&x, gpu.target, err) : NULL;
  if (getenv("PTXAS"))
    printf("%d x %d, %d stages, %d blocks a processor\n", x.rows, x.cols, x.stages, x.beside);
  return k;
}

int main(int argc, char **argv) {
  int failed = 0;
  bool ptxas = has_ptxas();
  for (int i = 0; i < CASES; i++) {
    TsError err = {0};
    TsTile *k = kernel(&all[i], &err);
    if (!k || ts_tile_check(k, NULL, &err)) {
      failed++, say(&all[i], k ? err.message : "no kernel");
      ts_tile_free(k);
      continue;
    }
    if (ts_tile_ahead(k) != AHEAD)
      failed++, say(&all[i], "other parameters are read ahead than codes, scales and places");
    if (argc > 2 && atoi(argv[2]) == i) { /* alone */
      TsGpuRoles info;
      TsText ptx = {0};
      if (!ts_gpu_roles_text(k, false, &info, &ptx, &err)) puts(ptx.at);
      ts_text_free(&ptx);
      ts_tile_free(k);
      return 0;
    }
    if (argc > 2) {
      ts_tile_free(k);
      continue;
    }
    failed += judge_kernel(k, 1, 0, ptxas, &all[i], say);
  }
  return failed ? 1 : 0;
}
