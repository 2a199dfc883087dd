/* PTX of the gradients of attention for GPUs: made for every head size, mask and type, and
 * assembled where ptxas is found, which must not spill in the roles that multiply, serialise
 * asynchronous products, or refuse. "print i" prints the PTX of case i, "llvm i" its LLVM
 * IR. */
#include "ir/tile/gpu/attention_ends.h"
#include "jit/compile/llvm.h"
#include "tests/jit/gpu/ptxas.h"

/* Roles of one thread have few registers, and may spill. */
enum { SPILLS = 112 };

static int failed;

typedef struct Case {
  TsDtype dtype;
  int d;
  bool causal;
  int window, stages;
  bool plain; /* no step ahead */
  int mask;   /* 1: of each key, 2: of each pair */
} Case;

static TsTile *kernel(const Case *c) {
  TsError err = {0};
  TsGpuAttentionGrad x = ts_gpu_attention_grad(c->dtype, c->d, c->causal, c->window);
  if (c->stages) x.stages = c->stages;
  if (c->plain) x.overlap = false;
  TsGpuMaskFrom from = {TS_DT_bool, {2, 1, c->mask == 2 ? 500 : 1, 500}, {0}};
  if (c->mask) x.mask = ts_gpu_mask(&from, 500, 500, x.rows, true);
  TsTile *k = ts_tile_gpu_attention_grad(&x, &err);
  if (!k || ts_tile_check(k, NULL, &err)) failed++, printf("%s\n", err.message);
  return k;
}

static void say(const void *of, const char *what) {
  const Case *c = of;
  printf("%s d %d causal %d window %d stages %d%s mask %d: %s\n", ts_dtype_name(c->dtype), c->d,
         c->causal, c->window, c->stages, c->plain ? " plain" : "", c->mask, what);
}

static void one(const Case *c, bool ptxas) {
  TsError err = {0};
  TsGpuRoles info;
  TsText ptx = {0};
  TsTile *k = kernel(c);
  if (!k) return;
  if (ts_gpu_roles_text(k, false, &info, &ptx, &err))
    failed++, say(c, err.message);
  else if (info.shared > 232448 || info.threads != k->threads || info.nmap != 7 || info.scratch)
    failed++, say(c, "not the kernel that was asked for");
  else if (ptxas)
    failed += judge(&ptx, k->target, SPILLS, c, say);
  ts_text_free(&ptx);
  ts_tile_free(k);
}

/* What stands before: rows of lanes, which read nothing by the copy engine. */
static void begin(int d, bool strided, bool ptxas) {
  TsError err = {0};
  TsGpuRoles info;
  TsText ptx = {0};
  Case c = {TS_DT_bf16, d, true, 0, 0, false, 0};
  int64_t stride[4] = {200 * 6 * d, d, 6 * d, 1};
  TsGpuHeads h = {.dim = {2, 2, 200, d}, .stride = strided ? stride : NULL};
  TsGpuAttentionGrad x = ts_gpu_attention_grad(TS_DT_bf16, d, true, 0);
  TsTile *k = ts_tile_gpu_attention_begin(&x, &h, &h, &err);
  if (!k || ts_tile_check(k, NULL, &err) || ts_gpu_roles_text(k, false, &info, &ptx, &err))
    failed++, say(&c, err.message);
  else if (info.nmap || info.shared || info.threads != 128)
    failed++, say(&c, "not the kernel before that was asked for");
  else if (ptxas)
    failed += judge(&ptx, k->target, 0, &c, say);
  ts_text_free(&ptx);
  ts_tile_free(k);
}

static const Case all[] = {
    {TS_DT_bf16, 128, false, 0, 0, false, 0}, {TS_DT_bf16, 128, true, 0, 0, false, 0},
    {TS_DT_bf16, 64, false, 0, 0, false, 0},  {TS_DT_bf16, 64, true, 0, 0, false, 0},
    {TS_DT_f16, 128, true, 100, 0, false, 0}, {TS_DT_f16, 64, true, 100, 0, false, 0},
    {TS_DT_bf16, 64, true, 0, 2, true, 0},    {TS_DT_bf16, 64, false, 0, 4, true, 0},
    {TS_DT_bf16, 128, false, 0, 0, false, 1}, {TS_DT_bf16, 128, true, 0, 0, false, 2},
    {TS_DT_bf16, 64, true, 0, 0, false, 1},   {TS_DT_f16, 64, false, 0, 0, false, 2},
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
  for (int i = 0; i < 4; i++) begin(i / 2 ? 128 : 64, i % 2, ptxas);
  if (failed) printf("%d failed\n", failed);
  return failed != 0;
}
