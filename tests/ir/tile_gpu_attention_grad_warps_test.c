/* The gradients of attention by warps (ir/tile/gpu/attention_grad_warps.c) in the interpreter:
 * both kernels, of both numbers of warps, against gradients in f64: causal, window, groups of
 * heads, ragged sizes, masks. The text reads back. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/gpu/attention_grad_warps.h"
#include "tests/ir/gpu_roles.h"

typedef struct Case {
  TsDtype dtype;
  int d, b, h, j, s, t, near;
  bool causal;
  int window;
  int mask;   /* 1: of each key, 2: of each pair */
  int shared; /* KiB */
} Case;

enum { Q, K, V, G, DQ, DK, DV, TENSORS };

typedef struct Data {
  TsGpuAttentionGrad x;
  uint16_t *at[TENSORS];
  double *right[TENSORS];
  float *lse, *delta;
  void *mask[2]; /* as queries and as keys want it */
} Data;

static bool of_keys(int i) { return i == K || i == V || i == DK || i == DV; }

static int64_t size_of(const Case *c, int i) {
  return (int64_t)c->b * (of_keys(i) ? c->j * c->t : c->h * c->s) * c->d;
}

/* ---- masks: every eleventh key is hidden, or a number for each pair */
static double masked(const Case *c, int i, int t) {
  if (c->mask == 1) return t % 11 == 5 ? (double)-INFINITY : 0;
  return c->mask
             ? (double)get(c->dtype,
                           (uint16_t[]){narrow(c->dtype, (float)((i * 7 + t * 3) % 16) / 8)}, 0)
             : 0;
}

static TsGpuMask mask_of(const Case *c, const Data *x, bool transposed) {
  TsGpuMaskFrom from = {TS_DT_bool, {1, 1, c->mask == 2 ? c->s : 1, c->t}, {0}};
  return ts_gpu_mask(&from, c->s, c->t, x->x.own, transposed);
}

static void fill_mask(const Case *c, Data *x, bool transposed) {
  TsGpuMask m = mask_of(c, x, transposed);
  int64_t rows = m.dim[2], cols = m.dim[3];
  char *to = x->mask[transposed] = calloc((size_t)ts_gpu_mask_bytes(&m), 1);
  for (int64_t r = 0; r < rows && c->mask; r++)
    for (int64_t k = 0; k < cols; k++) {
      double v = masked(c, (int)(transposed ? k : r), (int)(transposed ? r : k));
      if (c->mask == 1)
        v = masked(c, 0, (int)k), ((float *)to)[k] = (float)v;
      else
        ((uint16_t *)to)[r * cols + k] = narrow(c->dtype, (float)v);
    }
}

/* ---- in f64 */
static bool sees(const Case *c, int i, int key) {
  int at = i + c->t - c->s;
  return !(c->causal && key > at) && !(c->window && key <= at - c->window);
}

static double dot(const Case *c, const uint16_t *x, const uint16_t *y) {
  double sum = 0;
  for (int e = 0; e < c->d; e++)
    sum += (double)get(c->dtype, x, e) * (double)get(c->dtype, y, e);
  return sum;
}

static void right_row(const Case *c, Data *x, int head, int i, double *p) {
  int d = c->d, each = c->h / c->j;
  int64_t row = ((int64_t)head * c->s + i) * d, keys = (int64_t)(head / each) * c->t * d;
  int64_t line = (int64_t)head * ((c->s + x->x.own - 1) / x->x.own) * x->x.own + i;
  const uint16_t *q = x->at[Q] + row, *g = x->at[G] + row;
  double sum = 0, delta = 0;
  for (int t = 0; t < c->t; t++) {
    p[t] =
        sees(c, i, t) ? exp(dot(c, q, x->at[K] + keys + t * d) / sqrt(d) + masked(c, i, t)) : 0;
    sum += p[t], delta += p[t] * dot(c, g, x->at[V] + keys + t * d);
  }
  if (sum > 0) x->lse[line] = (float)log2(sum), x->delta[line] = (float)(delta / sum);
  for (int t = 0; t < c->t && sum > 0; t++) {
    const uint16_t *k = x->at[K] + keys + t * d;
    double w = p[t] / sum, y = dot(c, g, x->at[V] + keys + t * d);
    double s = w * (y - delta / sum) / sqrt(d);
    for (int e = 0; e < d; e++) {
      x->right[DV][keys + t * d + e] += w * (double)get(c->dtype, g, e);
      x->right[DK][keys + t * d + e] += s * (double)get(c->dtype, q, e);
      x->right[DQ][row + e] += s * (double)get(c->dtype, k, e);
    }
  }
}

static void right_all(const Case *c, Data *x) {
  double *p = malloc(sizeof *p * (size_t)c->t);
  int64_t lines = ts_gpu_attention_grad_own(&x->x, c->b * c->h, c->s) * x->x.own;
  x->lse = malloc((size_t)lines * 4), x->delta = calloc((size_t)lines, 4);
  for (int64_t i = 0; i < lines; i++) x->lse[i] = INFINITY;
  for (int i = DQ; i <= DV; i++) x->right[i] = calloc((size_t)size_of(c, i), sizeof(double));
  for (int h = 0; h < c->b * c->h; h++)
    for (int i = 0; i < c->s; i++) right_row(c, x, h, i, p);
  free(p);
}

/* ---- the kernels */
static void check(const Case *c, const Data *x, int i) {
  double off = 0, all = 1e-30;
  for (int64_t n = 0; n < size_of(c, i); n++) {
    double d = (double)get(c->dtype, x->at[i], n) - x->right[i][n];
    off += d * d, all += x->right[i][n] * x->right[i][n];
  }
  double far = sqrt(off / all);
  if (getenv("FAR")) printf("%s %g\n", i == DQ ? "dq" : i == DK ? "dk" : "dv", far);
  if (far < (c->dtype == TS_DT_bf16 ? 6e-3 : 8e-4)) return;
  failed++;
  printf("d %d s %d t %d mask %d shared %d: %s is off by %g\n", c->d, c->s, c->t, c->mask,
         c->shared,
         i == DQ   ? "dq"
         : i == DK ? "dk"
                   : "dv",
         far);
}

static void run(const Case *c, Data *x, bool of_queries) {
  TsError err = {0};
  const TsTarget ampere = {.name = "sm_80", .shared_bytes = (int64_t)c->shared << 10};
  int64_t n = c->b * c->h, j = c->b * c->j, l = ts_gpu_attention_grad_own(&x->x, n, c->s);
  int64_t p = of_queries ? l : ts_gpu_attention_grad_tiles(&x->x, j, c->t);
  int64_t dim[8] = {c->b, c->h, c->j, c->s, c->t, l, c->near, p};
  void *arg[10] = {x->at[Q], x->at[K], x->at[V]};
  int at = 3;
  x->x.mask = (TsGpuMask){.some = false};
  if (c->mask) x->x.mask = mask_of(c, x, !of_queries), arg[at++] = x->mask[!of_queries];
  arg[at++] = x->at[G], arg[at++] = x->lse, arg[at++] = x->delta;
  arg[at++] = x->at[of_queries ? DQ : DK], arg[at++] = x->at[DV];
  TsTile *k = of_queries ? ts_tile_gpu_attention_grad_queries(&x->x, &err)
                         : ts_tile_gpu_attention_grad_keys(&x->x, &err);
  if (!k || ts_tile_check(k, &ampere, &err))
    failed++, printf("%s\n", err.message);
  else if (round_trip(k), ts_tile_run(k, arg, dim, &err))
    failed++, printf("%s\n", err.message);
  ts_tile_free(k);
}

/* By blocks of four warps or of eight: the bits are the same. */
static void by_blocks(const Case *c, Data *x, int own, uint16_t **first) {
  x->x.own = own;
  fill_mask(c, x, false), fill_mask(c, x, true);
  right_all(c, x);
  for (int i = DQ; i <= DV; i++) memset(x->at[i], 0xff, (size_t)size_of(c, i) * 2);
  run(c, x, false), run(c, x, true);
  for (int i = DQ; i <= DV; i++) {
    size_t n = (size_t)size_of(c, i) * 2;
    check(c, x, i);
    if (!first[i])
      first[i] = memcpy(malloc(n), x->at[i], n);
    else if (memcmp(first[i], x->at[i], n))
      failed++, printf("d %d s %d t %d: other bits of %d\n", c->d, c->s, c->t, i);
    free(x->right[i]);
  }
  free(x->lse), free(x->delta), free(x->mask[0]), free(x->mask[1]);
}

static void one(const Case *c) {
  uint16_t *first[TENSORS] = {NULL};
  Data x = {.x = ts_gpu_attention_grad_by_warps(c->dtype, c->d, c->causal, c->window, "sm_80",
                                                (int64_t)c->shared << 10)};
  for (int i = 0; i < TENSORS; i++) x.at[i] = numbers(c->dtype, size_of(c, i));
  by_blocks(c, &x, 64, first), by_blocks(c, &x, 128, first);
  for (int i = 0; i < TENSORS; i++) free(x.at[i]), free(first[i]);
}

int main(void) {
  static const Case all[] = {
      {TS_DT_bf16, 64, 1, 2, 2, 200, 200, 1, true, 0, 0, 163},
      {TS_DT_bf16, 128, 1, 1, 1, 70, 300, 1, false, 0, 0, 163},
      {TS_DT_bf16, 128, 1, 2, 1, 150, 170, 1, true, 0, 0, 99},
      {TS_DT_f16, 64, 2, 4, 2, 70, 230, 4, true, 0, 0, 99},
      {TS_DT_f16, 128, 1, 2, 2, 130, 230, 2, true, 50, 0, 163},
      {TS_DT_bf16, 64, 1, 2, 1, 200, 320, 1, true, 60, 0, 64},
      {TS_DT_bf16, 64, 1, 3, 1, 90, 90, 1, false, 0, 1, 99},
      {TS_DT_f16, 128, 2, 1, 1, 40, 100, 2, true, 0, 2, 99},
      {TS_DT_bf16, 128, 1, 2, 1, 140, 60, 1, false, 0, 2, 163},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) one(&all[i]);
  if (failed) printf("%d failed\n", failed);
  return failed != 0;
}
