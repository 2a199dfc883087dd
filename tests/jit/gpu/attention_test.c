/* PTX of attention for GPUs: made for every head size, mask and type, and assembled where ptxas
 * is found, which must not spill, serialise asynchronous products, or refuse. "print i" prints
 * the PTX of case i, "llvm i" its LLVM IR. */
#include <time.h>

#include "ir/tile/gpu/attention.h"
#include "jit/code/kernel.h"
#include "jit/compile/llvm.h"
#include "tests/jit/gpu/ptxas.h"

/* Heads of 64 may spill outside of the loop over keys. */
enum { SPILLS = 40 };

static int failed;

typedef struct Case {
  TsDtype dtype;
  int d;
  bool causal, sink;
  int window, rows;
  bool turns, alone;
  int mask;   /* 1: of each key, 2: of each pair */
  int shared; /* KiB: by warps of GPUs from sm_80 on that have so much; 0: with roles */
} Case;

static TsTile *kernel(const Case *c) {
  TsError err = {0};
  TsGpuAttention x = ts_gpu_attention(c->dtype, c->d, c->causal, c->window, c->sink);
  if (c->shared)
    x = ts_gpu_attention_by_warps(c->dtype, c->d, c->causal, c->window, c->sink, "sm_80",
                                  c->shared << 10);
  if (c->rows) x.rows = c->rows, x.turns = c->turns;
  x.alone = c->alone;
  TsGpuMaskFrom from = {TS_DT_bool, {2, 1, c->mask == 2 ? 500 : 1, 500}, {0}};
  if (c->mask) x.mask = ts_gpu_mask(&from, 500, 500, x.rows, false);
  TsTile *k = ts_tile_gpu_attention(&x, &err);
  if (!k || ts_tile_check(k, NULL, &err)) failed++, printf("%s\n", err.message);
  return k;
}

static void say(const void *of, const char *what) {
  const Case *c = of;
  printf("%s d %d causal %d window %d sink %d rows %d mask %d shared %d: %s\n",
         ts_dtype_name(c->dtype), c->d, c->causal, c->window, c->sink, c->rows, c->mask,
         c->shared, what);
}

static void one(const Case *c, bool ptxas) {
  static const char *const newer[] = {"sm_89", "sm_120"};
  TsError err = {0};
  TsGpuRoles info;
  TsText ptx = {0};
  TsTile *k = kernel(c);
  if (!k) return;
  clock_t begun = clock();
  if (ts_gpu_roles_text(k, false, &info, &ptx, &err))
    failed++, say(c, err.message);
  else if (info.shared > 232448 || info.threads != k->threads ||
           info.nmap != (c->shared ? 0 : 4) || (info.scratch > 0) != (c->alone && !c->shared))
    failed++, say(c, "not the kernel that was asked for");
  for (int i = 0; i < 3 && ptxas && (!i || c->shared); i++)
    failed += judge(&ptx, i ? newer[i - 1] : k->target, SPILLS, c, say);
  if (getenv("PTXAS")) printf("%.1f ms  ", (double)(clock() - begun) * 1e3 / CLOCKS_PER_SEC);
  ts_text_free(&ptx);
  ts_tile_free(k);
}

/* Operands that are parts of a larger matrix: where the copy engine has them it is the same
 * code, which has one entry on disk. Elsewhere it is other code, by another name. */
static void part(const Case *c, int param) {
  uint8_t digest[2][32];
  TsText ptx[2] = {{0}, {0}};
  for (int i = 0; i < 2; i++) {
    TsError err = {0};
    TsGpuRoles info;
    TsTile *k = kernel(c);
    TsTileType *t = k ? &k->param[param]->type : NULL;
    if (!k) return;
    t->strided = i;
    for (int a = 0; i && a < 4; a++)
      t->stride[a] = (int64_t[]){1 << 20, c->d, 3 * c->d * 12, 1}[a];
    ts_kernel_code_digest(k, digest[i]);
    if (ts_gpu_roles_text(k, false, &info, &ptx[i], &err)) failed++, say(c, err.message);
    ts_tile_free(k);
  }
  bool same = !memcmp(digest[0], digest[1], sizeof *digest);
  if (same && strcmp(ptx[0].at, ptx[1].at)) failed++, say(c, "one name for two codes");
  if (!same && !c->shared) failed++, say(c, "two names for one code");
  ts_text_free(&ptx[0]);
  ts_text_free(&ptx[1]);
}

static const Case all[] = {
    {TS_DT_bf16, 128, false, false, 0, 0, false, false, 0, 0},
    {TS_DT_bf16, 128, true, false, 0, 0, false, false, 0, 0},
    {TS_DT_bf16, 64, false, false, 0, 0, false, false, 0, 0},
    {TS_DT_bf16, 64, true, false, 0, 0, false, false, 0, 0},
    {TS_DT_f16, 128, true, true, 128, 0, false, false, 0, 0},
    {TS_DT_f16, 64, true, true, 128, 0, false, false, 0, 0},
    {TS_DT_bf16, 128, true, false, 0, 0, false, true, 0, 0},
    {TS_DT_f16, 64, true, true, 128, 0, false, true, 0, 0},
    {TS_DT_bf16, 128, true, false, 0, 128, true, false, 0, 0},
    {TS_DT_bf16, 64, true, false, 0, 128, false, false, 0, 0},
    {TS_DT_bf16, 64, true, false, 0, 128, true, false, 0, 0},
    {TS_DT_bf16, 128, false, false, 0, 0, false, false, 1, 0},
    {TS_DT_bf16, 128, true, true, 0, 0, false, false, 2, 0},
    {TS_DT_f16, 64, true, false, 0, 128, true, false, 1, 0},
    {TS_DT_bf16, 64, false, true, 0, 128, true, false, 2, 0},
    {TS_DT_bf16, 64, true, false, 0, 128, true, false, 2, 0},
    {TS_DT_bf16, 128, true, false, 0, 0, false, false, 0, 163},
    {TS_DT_bf16, 128, false, true, 0, 0, false, true, 0, 99},
    {TS_DT_f16, 64, true, true, 128, 0, false, true, 1, 99},
    {TS_DT_bf16, 64, false, false, 0, 0, false, true, 2, 163},
    {TS_DT_bf16, 128, true, false, 0, 0, false, true, 2, 163},
};

static void print(const Case *c, bool llvm) {
  TsTile *k = kernel(c);
  print_code(k, llvm);
  ts_tile_free(k);
}

int main(int argc, char **argv) {
  int n = sizeof all / sizeof *all;
  if (argc > 2) return print(&all[atoi(argv[2]) % n], argv[1][0] == 'l'), 0;
  if (!ts_llvm_present()) return skip("no LLVM");
  bool ptxas = has_ptxas();
  for (int i = 0; i < n; i++) one(&all[i], ptxas);
  for (int i = 0; i < n; i++) part(&all[i], i % 3);
  if (failed) printf("%d failed\n", failed);
  return failed != 0;
}
