/* PTX of products of groups of rows (ir/tile/gpu/ragged.h): made for both kinds of kernels,
 * layouts and types, and assembled where ptxas is found, which must not spill. "print i" prints
 * the PTX of case i, "llvm i" its LLVM IR. */
#include "ir/tile/gpu/warp_product.h"
#include "ir/tile/gpu/product.h"
#include "jit/compile/llvm.h"
#include "tests/jit/gpu/ptxas.h"

static int failed;

enum { ROLES = -1 };

typedef struct Case {
  int unit; /* ROLES, or a TsGpuWarpUnit */
  TsDtype in, out;
  bool depth, tb;
  int rows, cols;
  int spills; /* bytes that may be spilled outside of the loop of products */
} Case;

static const TsTarget target = {.name = "sm_80", .shared_bytes = 166912};
static const TsGpuMachine ampere = {&target, 108};

static TsTile *kernel(const Case *c) {
  TsError err = {0};
  TsGpuRagged ragged = c->depth ? TS_GPU_RAGGED_depth : TS_GPU_RAGGED_rows;
  TsTile *k;
  if (c->unit == ROLES) {
    TsGpuProduct p = ts_gpu_product(c->in, c->out, c->depth, c->tb, c->rows, c->cols);
    p.cluster = 1, p.ragged = ragged;
    k = ts_tile_gpu_product(&p, &err);
  } else {
    TsGpuWarpProduct p = ts_gpu_warp_product(c->in, c->out, (TsGpuWarpUnit)c->unit, c->depth,
                                             c->tb, c->rows, c->cols, &ampere);
    p.ragged = ragged;
    k = ts_tile_gpu_warp_product(&p, ampere.target, &err);
  }
  if (!k || ts_tile_check(k, c->unit == ROLES ? NULL : &target, &err))
    failed++, printf("%s\n", err.message);
  return k;
}

static void say(const void *of, const char *what) {
  const Case *c = of;
  printf("unit %d %s %s depth %d turned %d %dx%d: %s\n", c->unit, ts_dtype_name(c->in),
         ts_dtype_name(c->out), c->depth, c->tb, c->rows, c->cols, what);
}

/* Of A and B, of their last stages, of C if the copy engine stores it. */
static int maps_of(const Case *c) {
  bool unit = ts_dtypes[c->in].nbytes == 2;
  if (c->unit != ROLES) return 0;
  return unit ? (c->depth ? 5 : 3) : 2;
}

static void one(const Case *c, bool ptxas) {
  TsTile *k = kernel(c);
  if (k) failed += judge_kernel(k, maps_of(c), c->spills, ptxas, c, say);
}

static const Case all[] = {
    {ROLES, TS_DT_bf16, TS_DT_bf16, false, false, 128, 256, 0},
    {ROLES, TS_DT_bf16, TS_DT_bf16, false, true, 128, 256, 0},
    {ROLES, TS_DT_f16, TS_DT_f32, false, false, 64, 64, 0},
    {ROLES, TS_DT_bf16, TS_DT_bf16, false, true, 192, 128, 0},
    {ROLES, TS_DT_bf16, TS_DT_bf16, true, false, 128, 256, 0},
    {ROLES, TS_DT_f16, TS_DT_f32, true, false, 64, 64, 0},
    {ROLES, TS_DT_f32, TS_DT_f32, false, false, 128, 256, 0},
    {ROLES, TS_DT_f32, TS_DT_f32, false, true, 64, 256, 0},
    {ROLES, TS_DT_f32, TS_DT_f32, true, false, 128, 256, 0},
    {ROLES, TS_DT_f64, TS_DT_f64, false, false, 128, 128, 0},
    {ROLES, TS_DT_f64, TS_DT_f64, true, false, 128, 128, 0},
    {TS_GPU_UNIT_mma, TS_DT_bf16, TS_DT_bf16, false, false, 128, 128, 0},
    {TS_GPU_UNIT_mma, TS_DT_f16, TS_DT_f32, false, true, 64, 128, 0},
    {TS_GPU_UNIT_fma, TS_DT_f32, TS_DT_f32, false, false, 128, 256, 0},
    {TS_GPU_UNIT_fma, TS_DT_f32, TS_DT_f32, false, true, 64, 256, 0},
    {TS_GPU_UNIT_fma, TS_DT_f32, TS_DT_f32, true, false, 128, 256, 0},
    {TS_GPU_UNIT_fma, TS_DT_f64, TS_DT_f64, true, false, 128, 128, 0},
    {TS_GPU_UNIT_fma, TS_DT_bf16, TS_DT_bf16, false, true, 128, 256, 256},
    {TS_GPU_UNIT_fma, TS_DT_bf16, TS_DT_bf16, true, false, 128, 256, 0},
};

/* What groups do not go with. */
static void refused(void) {
  TsError err = {0};
  TsGpuProduct p = ts_gpu_product(TS_DT_bf16, TS_DT_bf16, false, true, 128, 128);
  p.ragged = TS_GPU_RAGGED_rows;
  if (ts_tile_gpu_product(&p, &err)) failed++, printf("a cluster\n");
  p.cluster = 1, p.bias = true;
  if (ts_tile_gpu_product(&p, &err)) failed++, printf("a bias\n");
  TsGpuWarpProduct w = ts_gpu_warp_product(TS_DT_bf16, TS_DT_bf16, TS_GPU_UNIT_mma, true, false,
                                           128, 128, &ampere);
  w.ragged = TS_GPU_RAGGED_depth;
  if (ts_tile_gpu_warp_product(&w, &target, &err))
    failed++, printf("whole stages of parts of k\n");
}

int main(int argc, char **argv) {
  size_t n = sizeof all / sizeof *all;
  if (!ts_llvm_present()) return skip("no LLVM");
  if (argc > 2) {
    TsTile *k = kernel(&all[(size_t)atoi(argv[2]) % n]);
    if (k) print_code(k, argv[1][0] == 'l');
    return ts_tile_free(k), 0;
  }
  bool ptxas = has_ptxas();
  for (size_t i = 0; i < n; i++) one(&all[i], ptxas);
  refused();
  if (failed) printf("%d failed\n", failed);
  return failed != 0;
}
