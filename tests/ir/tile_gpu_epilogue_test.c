/* Rows behind a product on fragments: the kernel with roles against the block form it was made
 * of, both by the interpreter, whose chains are alike; and quick functions on all arguments. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/gpu/build.h"
#include "ir/tile/gpu/quick.h"
#include "lib/convert_bits.h"
#include "tests/ir/gpu_epilogue.h"

static int failed;
static uint64_t seed = 7;
static uint64_t rnd(void) {
  seed ^= seed << 13, seed ^= seed >> 7;
  return seed ^= seed << 17;
}

static const TsTarget hopper = {.name = "sm_90a", .fma = true, .shared_bytes = 232448};

static void *numbers(TsDtype d, int64_t n, double scale) {
  char *p = malloc((size_t)n * 4 + 8);
  for (int64_t i = 0; i < n; i++) {
    float v = (float)((double)((int)(rnd() % 2001) - 1000) / 512 * scale);
    uint16_t u = d == TS_DT_bf16 ? bf16_of_f32(v) : f16_of_f32(v);
    if (d == TS_DT_f32)
      memcpy(p + 4 * i, &v, 4);
    else
      memcpy(p + 2 * i, &u, 2);
  }
  return p;
}

typedef struct Case {
  int number;
  TsDtype d;
  int64_t size[3];
  int rows, cols, cluster, stages;
  int64_t p;
} Case;

static int64_t numel(const TsTileType *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) n *= t->dim[i];
  return n;
}

static void compare(const Case *c, const TsTile *block, const TsTile *k) {
  TsError err = {0};
  void *arg[8], *want[8];
  int n = block->nparam;
  for (int i = 0; i < n; i++) {
    const TsTileType *t = &block->param[i]->type;
    arg[i] = want[i] = numbers((TsDtype)t->dtype, numel(t), i == 0 ? 0.5 : 1);
    if (i < block->nin) continue;
    want[i] = numbers((TsDtype)t->dtype, numel(t), 1);
  }
  int64_t dim[4] = {c->size[0], c->size[1], c->size[2], c->p};
  if (ts_tile_run(block, want, NULL, &err) || ts_tile_run(k, arg, dim, &err))
    failed++, printf("%s\n", err.message);
  for (int i = block->nin; i < n; i++) {
    const TsTileType *t = &block->param[i]->type;
    if (memcmp(arg[i], want[i], (size_t)numel(t) * ts_dtypes[t->dtype].nbytes))
      failed++, printf("case %d %dx%d cluster %d: result %d differs\n", c->number, c->rows,
                       c->cols, c->cluster, i - block->nin);
    free(want[i]);
  }
  for (int i = 0; i < n; i++) free(arg[i]);
}

static void one(const Case *c, bool late) {
  TsError err = {0};
  TsGpuEpilogue f;
  TsTile *block = epilogue_block(c->number, c->d, c->size, &err);
  if (!block || ts_tile_check(block, &hopper, &err)) {
    failed++, printf("%s\n", err.message);
    return;
  }
  TsGpuProduct p = ts_gpu_product(c->d, c->d, false, false, c->rows, c->cols);
  p.cluster = c->cluster;
  if (!ts_gpu_epilogue_find(block, &f)) {
    failed++, printf("case %d: no rows for a kernel with roles\n", c->number);
    return;
  }
  epilogue_rows(&p, &f, late);
  if (c->stages) p.stages = c->stages;
  TsTile *k = ts_tile_gpu_product(&p, &err);
  if (!k || ts_tile_check(k, &hopper, &err))
    failed++, printf("%s\n", err.message);
  else
    compare(c, block, k);
  ts_tile_free(k);
  ts_tile_free(block);
}

/* ---- quick functions: a kernel that computes it, and the definition, for all arguments */
enum { ARGUMENTS = 65536, PIECE = 256 };

static TsTile *function(int op, TsDtype d, bool quick) {
  TsTile *k = ts_tile_new("function");
  TsTileType t = ts_tile_vector(d, ARGUMENTS), piece = ts_tile_vector(d, PIECE);
  TsTileVal x = ts_tile_param(k, "x", &t, false), y = ts_tile_param(k, "y", &t, true);
  k->form = TS_FORM_explicit;
  k->target = "sm_90a";
  TsTileBuild b = ts_tile_build(k);
  TsTileLoop l =
      ts_tile_for(&b, ts_tile_index(&b, 0), ts_tile_index(&b, ARGUMENTS), PIECE, true, 0, NULL);
  TsTileVal v = ts_tile_cast(&b, ts_tile_load(&b, x, &l.i, &piece, NULL), TS_DT_f32);
  v = quick ? ts_gpu_quick(&b, op, &v) : ts_tile_op1(&b, op, v);
  ts_tile_store(&b, y, &l.i, ts_tile_cast(&b, v, d), NULL);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

static void all_arguments(int op, TsDtype d) {
  static uint16_t x[ARGUMENTS], y[2][ARGUMENTS];
  TsError err = {0};
  int differ = 0;
  for (int i = 0; i < ARGUMENTS; i++) x[i] = (uint16_t)i;
  for (int i = 0; i < 2; i++) {
    TsTile *k = function(op, d, i);
    if (ts_tile_run(k, (void *[]){x, y[i]}, NULL, &err)) failed++, printf("%s\n", err.message);
    ts_tile_free(k);
  }
  for (int i = 0; i < ARGUMENTS; i++) {
    bool nan[2];
    for (int k = 0; k < 2; k++) {
      float v = d == TS_DT_bf16 ? f32_of_bf16(y[k][i]) : f32_of_f16(y[k][i]);
      nan[k] = v != v;
    }
    if (y[0][i] == y[1][i] || (nan[0] && nan[1])) continue;
    if (differ++ < 5 || getenv("ALL"))
      printf("%s of %04x: %04x, not %04x\n", ts_op_info((TsOp)op)->name, i, y[1][i], y[0][i]);
  }
  if (differ) failed++, printf("%d arguments of %s\n", differ, ts_dtype_name(d));
}

int main(void) {
  static const Case all[] = {
      {0, TS_DT_bf16, {200, 136, 72}, 128, 128, 1, 0, 1},
      {1, TS_DT_bf16, {264, 136, 72}, 128, 128, 2, 2, 1},
      {1, TS_DT_f16, {136, 200, 200}, 64, 64, 1, 3, 2},
      {2, TS_DT_bf16, {400, 200, 300}, 128, 64, 2, 2, 2},
      {3, TS_DT_bf16, {200, 136, 72}, 128, 128, 1, 0, 1},
      {0, TS_DT_bf16, {300, 280, 130}, 128, 256, 2, 0, 2},
      {4, TS_DT_bf16, {264, 136, 72}, 128, 128, 2, 2, 1},
      {4, TS_DT_f16, {200, 136, 72}, 64, 64, 1, 3, 1},
      /* three pieces; more blocks than tiles; more stages than the least */
      {1, TS_DT_bf16, {264, 400, 472}, 128, 192, 1, 3, 2},
      {0, TS_DT_bf16, {72, 72, 1100}, 64, 64, 1, 4, 3},
      {5, TS_DT_bf16, {300, 280, 130}, 128, 256, 2, 0, 1},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) one(&all[i], true), one(&all[i], false);
  all_arguments(TS_OP_gelu_erf, TS_DT_bf16);
  all_arguments(TS_OP_gelu_tanh, TS_DT_bf16);
  all_arguments(TS_OP_silu, TS_DT_bf16);
  if (failed) printf("%d failed\n", failed);
  return failed != 0;
}
