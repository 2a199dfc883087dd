/* PTX of products of warps (ir/tile/gpu/warp_product.c) for sm_80: made for every layout,
 * tile and type, and assembled where ptxas is found, which must not spill. "print i" prints
 * the PTX of case i, "llvm i" its LLVM IR. */
#include <time.h>

#include "ir/tile/gpu/warp_product.h"
#include "jit/compile/llvm.h"
#include "tests/ir/gpu_epilogue.h"
#include "tests/jit/gpu/ptxas.h"

static int failed;

typedef struct Case {
  TsGpuWarpUnit unit;
  TsDtype in, out;
  int rows, cols, bytes;
  bool ta, tb, more;
  int epilogue; /* case of tests/ir/gpu_epilogue.h, -1: none */
  int spills;
} Case;

static const TsTarget target = {.name = "sm_80", .shared_bytes = 166912};
static const TsGpuMachine ampere = {&target, 108};

static TsTile *kernel(const Case *c) {
  static const int64_t size[3] = {512, 512, 512};
  TsError err = {0};
  TsGpuEpilogue f;
  TsTile *block = NULL, *k = NULL;
  TsGpuWarpProduct p =
      ts_gpu_warp_product(c->in, c->out, c->unit, c->ta, c->tb, c->rows, c->cols, &ampere);
  p.bytes = c->bytes;
  p.bias = p.residual = c->more;
  p.activation = c->more ? TS_OP_relu : 0;
  if (c->epilogue >= 0) {
    block = epilogue_block(c->epilogue, c->in, size, &err);
    if (block && ts_gpu_epilogue_find(block, &f)) p.epilogue = &f;
  }
  if (c->epilogue < 0 || p.epilogue) k = ts_tile_gpu_warp_product(&p, &target, &err);
  if (!k || ts_tile_check(k, &target, &err)) failed++, printf("%s\n", err.message);
  ts_tile_free(block);
  return k;
}

static void say(const void *of, const char *what) {
  const Case *c = of;
  printf("%s %s %d%d %dx%d by %d more %d rows %d: %s\n", ts_dtype_name(c->in),
         ts_dtype_name(c->out), c->ta, c->tb, c->rows, c->cols, c->bytes, c->more, c->epilogue,
         what);
}

static void one(const Case *c, bool ptxas) {
  TsError err = {0};
  TsGpuRoles info;
  TsText ptx = {0};
  TsTile *k = kernel(c);
  if (!k) return;
  clock_t begun = clock();
  if (ts_gpu_roles_text(k, false, &info, &ptx, &err))
    failed++, say(c, err.message);
  else if (info.shared > 166912 || info.threads != k->threads || info.nmap)
    failed++, say(c, "not the kernel that was asked for");
  else if (!strstr(ptx.at, ".target sm_80"))
    failed++, say(c, "for another target");
  else if (getenv("PTXAS"))
    printf("%.1f ms  ", (double)(clock() - begun) * 1e3 / CLOCKS_PER_SEC);
  if (ptxas && ptx.at) failed += judge(&ptx, k->target, c->spills, c, say);
  ts_text_free(&ptx);
  ts_tile_free(k);
}

/* Of few rows, where the copy engine brings stages. */
static void reading(bool ptxas) {
  static const int64_t cols[] = {1024, 4096, 14336, 128256};
  const TsGpuMachine hopper = {ts_target("sm_90a"), 132};
  for (int rows = 16; rows <= 64; rows += 16)
    for (int i = 0; i < 4; i++) {
      TsError err = {0};
      Case c = {TS_GPU_UNIT_mma, TS_DT_bf16, TS_DT_bf16, rows, (int)cols[i], 16, false, true,
                false,           -1,         0};
      TsGpuWarpProduct p = ts_gpu_warp_product_for(TS_DT_bf16, TS_DT_bf16, TS_GPU_UNIT_mma,
                                                   false, true, rows, cols[i], &hopper);
      p.bulk = ts_gpu_warp_product_few(&p, rows, cols[i], &hopper);
      p.bytes = 16;
      TsTile *k = p.bulk ? ts_tile_gpu_warp_product(&p, hopper.target, &err) : NULL;
      if (!k)
        failed++, say(&c, p.bulk ? err.message : "these are no few rows");
      else
        failed += judge_kernel(k, 2, 0, ptxas, &c, say);
    }
}

/* What is chosen for any sizes can be made, and fits a block of any GPU. */
static void chosen(TsGpuWarpUnit unit, TsDtype in, TsDtype out) {
  static const int64_t size[] = {1, 40, 130, 600, 1024, 5000};
  static const int64_t shared[] = {101376, 166912, 232448};
  bool eight = in == TS_DT_i8;
  for (int i = 0; i < 3; i++)
    for (int at = 0; at < 36 * 4; at++) {
      const TsTarget small = {.name = "sm_80", .shared_bytes = shared[i]};
      TsGpuMachine gpu = {&small, 84};
      bool ta = !eight && at & 1, tb = eight || at & 2;
      TsError err = {0};
      TsGpuWarpProduct p =
          ts_gpu_warp_product_for(in, out, unit, ta, tb, size[at / 4 % 6], size[at / 24], &gpu);
      int64_t bytes = (int64_t)p.stages * (p.rows + p.cols) * p.depth * ts_dtypes[in].nbytes;
      TsTile *k = ts_tile_gpu_warp_product(&p, &small, &err);
      if (!k || bytes > small.shared_bytes || ts_gpu_warp_product_blocks(&p, &gpu) < 84)
        failed++, printf("%s %dx%d stages %d: %s\n", ts_dtype_name(in), p.rows, p.cols,
                         p.stages, k ? "too large" : err.message);
      ts_tile_free(k);
    }
}

#define MMA  TS_GPU_UNIT_mma
#define TF32 TS_GPU_UNIT_tf32
#define FMA  TS_GPU_UNIT_fma
#define BF16 TS_DT_bf16
#define F16  TS_DT_f16
#define F32  TS_DT_f32

static const Case all[] = {
    {MMA, BF16, BF16, 128, 256, 16, false, true, false, -1, 0},
    {MMA, BF16, BF16, 128, 256, 16, false, false, false, -1, 0},
    {MMA, BF16, BF16, 128, 256, 16, true, true, false, -1, 0},
    {MMA, BF16, BF16, 128, 256, 16, true, false, true, -1, 0},
    {MMA, F16, F32, 128, 128, 16, false, false, true, -1, 0},
    {MMA, BF16, BF16, 128, 128, 16, false, true, false, -1, 0},
    {MMA, BF16, BF16, 64, 128, 8, true, false, false, -1, 0},
    {MMA, BF16, BF16, 64, 64, 4, false, true, true, -1, 0},
    {MMA, BF16, BF16, 64, 64, 16, false, false, false, -1, 0},
    {MMA, BF16, BF16, 64, 64, 16, true, true, false, -1, 0},
    {TF32, F32, F32, 64, 64, 16, true, false, false, -1, 0},
    {MMA, BF16, BF16, 128, 256, 16, false, true, false, 0, 0},
    {MMA, BF16, BF16, 128, 256, 16, false, true, false, 1, 16},
    {MMA, F16, F16, 128, 128, 16, false, true, false, 2, 0},
    {MMA, TS_DT_i8, TS_DT_i32, 128, 256, 16, false, true, false, -1, 0},
    {MMA, TS_DT_i8, TS_DT_i32, 64, 64, 4, false, true, false, -1, 0},
    {TF32, F32, F32, 128, 256, 16, false, true, false, -1, 0},
    {TF32, F32, F32, 128, 256, 16, false, false, false, -1, 0},
    {TF32, F32, F32, 128, 256, 16, true, false, true, -1, 0},
    {TF32, F32, F32, 128, 128, 4, true, true, false, -1, 16},
    {FMA, F32, F32, 0, 0, 16, false, false, false, -1, 0},
    {FMA, F32, F32, 0, 0, 16, false, true, false, -1, 0},
    {FMA, F32, F32, 0, 0, 4, true, false, true, -1, 64},
    {FMA, F32, F32, 0, 0, 16, true, true, false, -1, 0},
    {FMA, TS_DT_f64, TS_DT_f64, 0, 0, 16, false, false, false, -1, 64},
    {FMA, TS_DT_f64, TS_DT_f64, 0, 0, 16, false, true, false, -1, 64},
    {FMA, F32, F32, 64, 128, 16, true, false, false, -1, 0},
    {FMA, F32, F32, 64, 128, 16, false, false, false, -1, 0},
    {FMA, F32, F32, 32, 64, 8, true, false, false, -1, 0},
    {FMA, F32, F32, 32, 64, 16, false, false, false, -1, 0},
    {FMA, F16, F32, 32, 64, 16, false, true, true, -1, 64},
    {FMA, TS_DT_f64, TS_DT_f64, 32, 64, 16, true, false, false, -1, 64},
    {FMA, BF16, BF16, 0, 0, 16, false, false, false, -1, 0},
    {FMA, BF16, BF16, 0, 0, 16, false, true, true, -1, 64},
    {FMA, F16, F32, 0, 0, 16, true, false, false, -1, 0},
    {FMA, BF16, BF16, 0, 0, 16, false, true, false, 0, 0},
};

int main(int argc, char **argv) {
  int n = sizeof all / sizeof *all;
  if (argc > 2) {
    TsTile *k = kernel(&all[atoi(argv[2]) % n]);
    print_code(k, argv[1][0] == 'l');
    return ts_tile_free(k), 0;
  }
  if (!ts_llvm_present()) return skip("no LLVM");
  bool ptxas = has_ptxas();
  for (int i = 0; i < n; i++) one(&all[i], ptxas);
  reading(ptxas);
  chosen(MMA, BF16, BF16), chosen(MMA, TS_DT_i8, TS_DT_i32), chosen(TF32, F32, F32);
  chosen(FMA, F32, F32), chosen(FMA, TS_DT_f64, TS_DT_f64), chosen(FMA, F16, F32);
  if (failed) printf("%d failed\n", failed);
  return failed != 0;
}
