/* Matrix products of warps (ir/tile/gpu/warp_product.c) in the interpreter: layouts, tiles, edges,
 * stages, more tiles than blocks, rows behind the product. Sums against a chain of fmaf in
 * plain C, bit by bit, those of i8 against whole numbers. The text reads back. */
#include <math.h>
#include <string.h>

#include "ir/tile/gpu/warp_product.h"
#include "tests/ir/gpu_epilogue.h"
#include "tests/ir/gpu_roles.h"

typedef struct Case {
  TsGpuWarpUnit unit;
  TsDtype in, out;
  int m, n, k, p, rows, cols, warps, stages, bytes;
  bool more;
} Case;

static const TsTarget target = {.name = "sm_80", .shared_bytes = 166912};
static const TsGpuMachine ampere = {&target, 108};

static float read(TsDtype d, const void *x, int64_t i) {
  if (d == TS_DT_f32) return ((const float *)x)[i];
  return get(d, x, i);
}

static void write(TsDtype d, void *x, int64_t i, float v) {
  if (d == TS_DT_f32)
    ((float *)x)[i] = v;
  else
    ((uint16_t *)x)[i] = narrow(d, v);
}

static void *some(TsDtype d, int64_t n) {
  if (d == TS_DT_bf16 || d == TS_DT_f16) return numbers(d, n);
  char *p = malloc((size_t)n * 8 + 8);
  for (int64_t i = 0; i < n; i++) {
    int v = (int)(rnd() % 2001) - 1000;
    if (d == TS_DT_i8)
      p[i] = (char)v;
    else if (d == TS_DT_f64)
      ((double *)(void *)p)[i] = v / 512.0;
    else
      write(d, p, i, (float)v / 512);
  }
  return p;
}

/* Element (i, j) of one chain in increasing k. */
static void chain(const Case *c, bool ta, bool tb, void *const *arg, int i, int j, void *want) {
  float sum = 0;
  double wide = 0;
  int32_t whole = 0;
  int64_t at = (int64_t)i * c->n + j;
  for (int k = 0; k < c->k; k++) {
    int64_t ia = ta ? (int64_t)k * c->m + i : (int64_t)i * c->k + k;
    int64_t ib = tb ? (int64_t)j * c->k + k : (int64_t)k * c->n + j;
    if (c->in == TS_DT_f64)
      wide = fma(((double *)arg[0])[ia], ((double *)arg[1])[ib], wide);
    else if (c->in == TS_DT_i8)
      whole += ((int8_t *)arg[0])[ia] * ((int8_t *)arg[1])[ib];
    else
      sum = fmaf(read(c->in, arg[0], ia), read(c->in, arg[1], ib), sum);
  }
  if (c->more) {
    sum += read(c->out, arg[2], j);
    sum = (sum > 0 ? sum : 0) + read(c->out, arg[3], at);
  }
  if (c->in == TS_DT_f64)
    ((double *)want)[at] = wide;
  else if (c->in == TS_DT_i8)
    ((int32_t *)want)[at] = whole;
  else
    write(c->out, want, at, sum);
}

static TsTile *kernel(const Case *c, bool ta, bool tb) {
  TsError err = {0};
  TsGpuWarpProduct p =
      ts_gpu_warp_product(c->in, c->out, c->unit, ta, tb, c->rows, c->cols, &ampere);
  if (c->warps) p.warps = c->warps;
  if (c->stages) p.stages = c->stages;
  if (c->bytes) p.bytes = c->bytes;
  if (c->more) p.bias = p.residual = true, p.activation = TS_OP_relu;
  TsTile *k = ts_tile_gpu_warp_product(&p, &target, &err);
  if (k && !ts_tile_check(k, &target, &err)) return k;
  failed++, printf("%s\n", err.message);
  ts_tile_free(k);
  return NULL;
}

static void one(const Case *c, bool ta, bool tb) {
  TsError err = {0};
  TsTile *k = kernel(c, ta, tb);
  if (!k) return;
  round_trip(k);
  int64_t dim[4] = {c->m, c->n, c->k, c->p}, mn = (int64_t)c->m * c->n;
  void *arg[5] = {some(c->in, (int64_t)c->m * c->k), some(c->in, (int64_t)c->k * c->n)};
  int n = 2;
  if (c->more) arg[n++] = some(c->out, c->n), arg[n++] = some(c->out, mn);
  void *want = calloc((size_t)mn + 1, 8);
  arg[n] = malloc((size_t)mn * 8 + 8);
  memset(arg[n], 0xff, (size_t)mn * 8);
  for (int i = 0; i < c->m; i++)
    for (int j = 0; j < c->n; j++) chain(c, ta, tb, arg, i, j, want);
  if (ts_tile_run(k, arg, dim, &err)) failed++, printf("%s\n", err.message);
  if (memcmp(want, arg[n], (size_t)mn * ts_dtypes[c->out].nbytes))
    failed++, printf("%s %s %d%d %dx%dx%d differs\n", ts_dtype_name(c->in),
                     ts_dtype_name(c->out), ta, tb, c->m, c->n, c->k);
  for (int i = 0; i <= n; i++) free(arg[i]);
  free(want);
  ts_tile_free(k);
}

/* Rows of a block form behind the product, against the block form. */
static void with_rows(int number, TsDtype d, TsGpuWarpUnit unit) {
  enum { M = 136, N = 200, K = 72 };
  static const int64_t size[3] = {M, N, K};
  TsError err = {0};
  TsGpuEpilogue f;
  TsTile *block = epilogue_block(number, d, size, &err), *k = NULL;
  if (block && ts_gpu_epilogue_find(block, &f)) {
    bool fma = unit == TS_GPU_UNIT_fma;
    TsGpuWarpProduct p =
        ts_gpu_warp_product(d, d, unit, false, false, fma ? 128 : 64, fma ? 128 : 64, &ampere);
    p.epilogue = &f;
    k = ts_tile_gpu_warp_product(&p, &target, &err);
  }
  if (!k || ts_tile_check(k, &target, &err)) {
    failed++, printf("rows %d: %s\n", number, err.message);
    return;
  }
  void *arg[2][TS_GPU_EPILOGUE_PARAMS];
  int64_t dim[4] = {M, N, K, 2};
  for (int i = 0; i < k->nparam; i++) {
    TsDtype of = (TsDtype)k->param[i]->type.dtype;
    arg[0][i] = some(of, (int64_t)M * N), arg[1][i] = arg[0][i];
    if (i >= k->nin) arg[1][i] = some(of, (int64_t)M * N);
  }
  if (ts_tile_run(block, arg[0], NULL, &err) || ts_tile_run(k, arg[1], dim, &err))
    failed++, printf("rows %d: %s\n", number, err.message);
  for (int i = k->nin; i < k->nparam; i++)
    if (memcmp(arg[0][i], arg[1][i], (size_t)M * N * ts_dtypes[d].nbytes))
      failed++, printf("rows %d of %s differ\n", number, ts_dtype_name(d));
  for (int i = 0; i < k->nparam; i++) {
    free(arg[0][i]);
    if (i >= k->nin) free(arg[1][i]);
  }
  ts_tile_free(k), ts_tile_free(block);
}

int main(void) {
  static const Case all[] = {
      {TS_GPU_UNIT_mma, TS_DT_bf16, TS_DT_bf16, 264, 136, 72, 1, 128, 128, 0, 2, 0, false},
      {TS_GPU_UNIT_mma, TS_DT_f16, TS_DT_f32, 40, 72, 200, 2, 64, 64, 0, 0, 0, true},
      {TS_GPU_UNIT_mma, TS_DT_bf16, TS_DT_bf16, 300, 70, 130, 3, 64, 128, 0, 4, 4, true},
      {TS_GPU_UNIT_mma, TS_DT_bf16, TS_DT_bf16, 200, 400, 40, 1, 128, 256, 0, 0, 8, false},
      {TS_GPU_UNIT_tf32, TS_DT_f32, TS_DT_f32, 72, 136, 100, 2, 64, 64, 0, 3, 4, true},
      {TS_GPU_UNIT_fma, TS_DT_f32, TS_DT_f32, 70, 132, 85, 1, 64, 128, 0, 2, 4, false},
      {TS_GPU_UNIT_fma, TS_DT_f64, TS_DT_f64, 40, 70, 21, 3, 32, 64, 0, 3, 8, false},
      {TS_GPU_UNIT_fma, TS_DT_bf16, TS_DT_bf16, 140, 300, 75, 2, 128, 256, 0, 0, 4, true},
      {TS_GPU_UNIT_fma, TS_DT_f16, TS_DT_f32, 70, 136, 64, 2, 64, 128, 0, 2, 16, false},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    for (int layout = 0; layout < 4; layout++) one(&all[i], layout & 1, layout & 2);
  one(&(Case){TS_GPU_UNIT_mma, TS_DT_i8, TS_DT_i32, 130, 72, 272, 2, 64, 64, 0, 0, 0, false},
      false, true);
  for (int i = 0; i < 5; i++) with_rows(i, i == 4 ? TS_DT_f16 : TS_DT_bf16, TS_GPU_UNIT_mma);
  with_rows(1, TS_DT_bf16, TS_GPU_UNIT_fma);
  if (failed) printf("%d failed\n", failed);
  return failed != 0;
}
