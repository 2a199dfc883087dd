/* PTX of the gradients of attention by warps (ir/tile/gpu/attention_grad_warps.c), and of what
 * stands before: made for every head size, mask and type, and assembled for several GPUs where
 * ptxas is found, which must not spill. "print i" prints the PTX of case i, "llvm i" its LLVM
 * IR; odd cases are of queries. */
#include "ir/tile/gpu/attention_ends.h"
#include "ir/tile/gpu/attention_grad_warps.h"
#include "jit/compile/llvm.h"
#include "tests/jit/gpu/ptxas.h"

enum { SPILLS = 0 };

static int failed;

typedef struct Case {
  TsDtype dtype;
  int d;
  bool causal;
  int window;
  int mask;   /* 1: of each key, 2: of each pair */
  int shared; /* KiB that a block may have */
} Case;

static const Case all[] = {
    {TS_DT_bf16, 128, false, 0, 0, 163}, {TS_DT_bf16, 128, true, 0, 0, 99},
    {TS_DT_bf16, 64, false, 0, 0, 99},   {TS_DT_bf16, 64, true, 0, 0, 163},
    {TS_DT_f16, 128, true, 100, 0, 163}, {TS_DT_f16, 64, true, 100, 0, 99},
    {TS_DT_bf16, 128, true, 0, 1, 99},   {TS_DT_bf16, 128, false, 0, 2, 163},
    {TS_DT_f16, 64, false, 0, 1, 99},    {TS_DT_bf16, 64, true, 0, 2, 99},
};

static TsTile *kernel(int i) {
  const Case *c = &all[i / 2];
  TsError err = {0};
  TsGpuAttentionGrad x = ts_gpu_attention_grad_by_warps(c->dtype, c->d, c->causal, c->window,
                                                        "sm_80", c->shared << 10);
  TsGpuMaskFrom from = {TS_DT_bool, {2, 1, c->mask == 2 ? 500 : 1, 500}, {0}};
  if (c->mask) x.mask = ts_gpu_mask(&from, 500, 500, x.own, i % 2 == 0);
  TsTile *k = i % 2 ? ts_tile_gpu_attention_grad_queries(&x, &err)
                    : ts_tile_gpu_attention_grad_keys(&x, &err);
  if (!k || ts_tile_check(k, NULL, &err)) failed++, printf("%s\n", err.message);
  return k;
}

static void say(const void *of, const char *what) {
  int i = *(const int *)of;
  const Case *c = &all[i / 2];
  printf("%s %s d %d causal %d window %d mask %d shared %d: %s\n", i % 2 ? "queries" : "keys",
         ts_dtype_name(c->dtype), c->d, c->causal, c->window, c->mask, c->shared, what);
}

static void assembled(TsTile *k, const TsText *ptx, int i, bool ptxas) {
  static const char *const target[] = {"sm_80", "sm_86", "sm_89", "sm_90", "sm_120"};
  if (!strstr(ptx->at, ".target sm_80")) failed++, say(&i, "for another target");
  for (int t = 0; t < 5 && ptxas; t++)
    if (t == 0 || t == 3 || i < 4 || getenv("PTXAS"))
      failed += judge(ptx, target[t], SPILLS, &i, say);
  (void)k;
}

static void one(int i, bool ptxas) {
  TsError err = {0};
  TsGpuRoles info;
  TsText ptx = {0};
  TsTile *k = kernel(i);
  if (!k) return;
  if (ts_gpu_roles_text(k, false, &info, &ptx, &err))
    failed++, say(&i, err.message);
  else if (info.shared > (uint32_t)all[i / 2].shared << 10 || info.threads != k->threads ||
           info.nmap || info.scratch)
    failed++, say(&i, "not the kernel that was asked for");
  else
    assembled(k, &ptx, i, ptxas);
  ts_text_free(&ptx);
  ts_tile_free(k);
}

static void begin(int d, bool ptxas) {
  TsError err = {0};
  TsGpuRoles info;
  TsText ptx = {0};
  TsGpuHeads h = {.dim = {2, 2, 200, d}};
  int i = 0;
  TsGpuAttentionGrad x =
      ts_gpu_attention_grad_by_warps(TS_DT_bf16, d, true, 0, "sm_80", 99 << 10);
  TsTile *k = ts_tile_gpu_attention_begin(&x, &h, &h, &err);
  if (!k || ts_tile_check(k, NULL, &err) || ts_gpu_roles_text(k, false, &info, &ptx, &err))
    failed++, say(&i, err.message);
  else
    assembled(k, &ptx, i, ptxas);
  ts_text_free(&ptx);
  ts_tile_free(k);
}

int main(int argc, char **argv) {
  int n = 2 * (int)(sizeof all / sizeof *all);
  if (argc > 2) {
    TsTile *k = kernel(atoi(argv[2]) % n);
    print_code(k, argv[1][0] == 'l');
    return ts_tile_free(k), 0;
  }
  if (!ts_llvm_present()) return skip("no LLVM");
  bool ptxas = has_ptxas();
  for (int i = 0; i < n; i++) one(i, ptxas);
  begin(64, ptxas), begin(128, ptxas);
  if (failed) printf("%d failed\n", failed);
  return failed != 0;
}
