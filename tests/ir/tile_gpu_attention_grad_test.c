/* The gradients of attention for GPUs (ir/tile/gpu/attention_grad.c) in the interpreter:
 * causal, window, groups of heads, ragged sizes; bit by bit against plain C in the same order,
 * which is near the gradients in f64. The text reads back. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/gpu/attention_grad.h"
#include "tests/ir/gpu_roles.h"

enum { KEYS = 128, MOST = 128 };

typedef struct Case {
  TsDtype dtype;
  int d, b, h, j, s, t, g; /* sizes as the kernel's */
  bool causal;
  int window, rows;
  bool plain; /* no step ahead */
} Case;

static float rounded(TsDtype d, float v) { return get(d, (uint16_t[]){narrow(d, v)}, 0); }

static bool sees(const Case *c, int i, int key) {
  int at = i + c->t - c->s;
  return key < c->t && !(c->causal && key > at) && !(c->window && key <= at - c->window);
}

typedef struct Data {
  uint16_t *q, *k, *v, *g, *dk, *dv;
  float *lse, *delta, *dq;
  double *p, *y; /* of the pairs of one head, in f64 */
  int64_t blocks;
} Data;

/* ---- the forward pass in f64, and the gradients in f64 */
static double dot(const Case *c, const uint16_t *x, const uint16_t *y) {
  double sum = 0;
  for (int e = 0; e < c->d; e++)
    sum += (double)get(c->dtype, x, e) * (double)get(c->dtype, y, e);
  return sum;
}

static void forward(const Case *c, Data *x, int head) {
  int64_t key = head / (c->h / c->j) * (int64_t)c->t * c->d, rows = c->rows;
  for (int64_t i = 0; i < x->blocks / (c->b * c->h) * rows; i++) {
    int64_t at = head * (x->blocks / (c->b * c->h)) * rows + i;
    double sum = 0, delta = 0;
    x->lse[at] = INFINITY, x->delta[at] = 0;
    if (i >= c->s) continue;
    const uint16_t *q = x->q + (head * (int64_t)c->s + i) * c->d;
    const uint16_t *g = x->g + (head * (int64_t)c->s + i) * c->d;
    for (int t = 0; t < c->t; t++) {
      double *p = &x->p[i * c->t + t], *y = &x->y[i * c->t + t];
      *p = sees(c, (int)i, t) ? exp(dot(c, q, x->k + key + t * c->d) / sqrt(c->d)) : 0;
      *y = dot(c, g, x->v + key + t * c->d);
      sum += *p, delta += *p * *y;
    }
    for (int t = 0; t < c->t; t++) {
      double *p = &x->p[i * c->t + t], *y = &x->y[i * c->t + t];
      *p /= sum, *y = *p * (*y - delta / sum);
    }
    x->lse[at] = (float)(log2(sum)), x->delta[at] = (float)(delta / sum);
  }
}

static void near(const Case *c, const char *what, double is, double want, double size) {
  if (fabs(is - want) < (c->dtype == TS_DT_bf16 ? 3e-2 : 4e-3) * size) return;
  if (failed++ < 8) printf("%s is %g, not near %g\n", what, is, want);
}

/* Sums of one head's dq at some places, against f64. */
static void check_near(const Case *c, const Data *x, int head) {
  int64_t key = head / (c->h / c->j) * (int64_t)c->t * c->d;
  for (int i = 0; i < c->s; i += 7) {
    int e = i % c->d;
    double sum = 0, size = 0.5;
    for (int t = 0; t < c->t; t++) {
      double k = (double)get(c->dtype, x->k, key + t * c->d + e), y = x->y[i * c->t + t];
      sum += y * k, size += fabs(y * k);
    }
    near(c, "dq", (double)x->dq[(head * (int64_t)c->s + i) * c->d + e], sum, size);
  }
}

/* ---- the kernel's order */
typedef struct Tile {
  float dk[KEYS][MOST], dv[KEYS][MOST], s[KEYS][MOST];
} Tile;

static float chain(const Case *c, const uint16_t *x, const uint16_t *y) {
  float sum = 0;
  for (int e = 0; e < c->d; e++) sum = fmaf(get(c->dtype, x, e), get(c->dtype, y, e), sum);
  return sum;
}

static bool visited(const Case *c, int64_t n0, int64_t m0) {
  int64_t offset = c->t - c->s, last = m0 + c->rows - 1 + offset;
  if (c->causal && n0 > last) return false;
  return !c->window || n0 + KEYS - 1 > m0 + offset - c->window;
}

static void add(const Case *c, Tile *z, int r, const uint16_t *q, const uint16_t *g, float p,
                float s) {
  float pb = rounded(c->dtype, p), sb = rounded(c->dtype, s);
  for (int e = 0; e < c->d; e++) {
    z->dv[r][e] = fmaf(pb, g ? get(c->dtype, g, e) : 0, z->dv[r][e]);
    z->dk[r][e] = fmaf(sb, q ? get(c->dtype, q, e) : 0, z->dk[r][e]);
  }
}

static void pairs(const Case *c, const Data *x, Tile *z, int64_t head, int64_t key, int64_t n0,
                  int64_t m0) {
  static const uint16_t zero[MOST];
  const float scale = (float)(1 / sqrt(c->d) * 1.4426950408889634);
  int64_t line = (head * (x->blocks / (c->b * c->h)) + m0 / c->rows) * c->rows;
  for (int r = 0; r < KEYS; r++)
    for (int i = 0; i < c->rows; i++) {
      bool query = m0 + i < c->s, there = n0 + r < c->t;
      const uint16_t *q = query ? x->q + (head * c->s + m0 + i) * c->d : zero;
      const uint16_t *g = query ? x->g + (head * c->s + m0 + i) * c->d : zero;
      const uint16_t *k = there ? x->k + (key + n0 + r) * c->d : zero;
      const uint16_t *v = there ? x->v + (key + n0 + r) * c->d : zero;
      float p = exp2f(fmaf(chain(c, k, q), scale, -x->lse[line + i]));
      if (!sees(c, (int)(m0 + i), (int)(n0 + r))) p = 0;
      z->s[r][i] = p * (chain(c, v, g) - x->delta[line + i]);
      add(c, z, r, q, g, p, z->s[r][i]);
    }
}

static void queries(const Case *c, const Data *x, const Tile *z, float *dq, int64_t head,
                    int64_t key, int64_t n0, int64_t m0, bool first) {
  for (int i = 0; i < c->rows && m0 + i < c->s; i++)
    for (int e = 0; e < c->d; e++) {
      float sum = 0, *to = &dq[(head * c->s + m0 + i) * c->d + e];
      for (int r = 0; r < KEYS; r++) {
        float k = n0 + r < c->t ? get(c->dtype, x->k, (key + n0 + r) * c->d + e) : 0;
        sum = fmaf(rounded(c->dtype, z->s[r][i]), k, sum);
      }
      *to = first ? sum : *to + sum;
    }
}

static void tile(const Case *c, const Data *x, float *dq, int64_t key_head, int64_t n0,
                 const bool *began, bool *begins) {
  static Tile z;
  int each = c->h / c->j;
  int64_t key = key_head * c->t, per = x->blocks / (c->b * c->h);
  memset(&z, 0, sizeof z);
  for (int64_t m = per; m-- > 0;)
    for (int e = 0; e < each; e++) {
      int64_t head = key_head * each + e;
      if (!visited(c, n0, m * c->rows)) continue;
      pairs(c, x, &z, head, key, n0, m * c->rows);
      queries(c, x, &z, dq, head, key, n0, m * c->rows, !began[head * per + m]);
      begins[head * per + m] = true;
    }
  for (int r = 0; r < KEYS && n0 + r < c->t; r++)
    for (int e = 0; e < c->d; e++) {
      int64_t at = (key + n0 + r) * c->d + e;
      uint16_t k = narrow(c->dtype, z.dk[r][e] * (float)(1 / sqrt(c->d)));
      uint16_t v = narrow(c->dtype, z.dv[r][e]);
      if ((k != x->dk[at] || v != x->dv[at]) && failed++ < 8)
        printf("key %d of head %d, %d: %g %g, not %g %g\n", (int)(n0 + r), (int)key_head, e,
               (double)get(c->dtype, x->dk, at), (double)get(c->dtype, x->dv, at),
               (double)get(c->dtype, &k, 0), (double)get(c->dtype, &v, 0));
    }
}

static void compare(const Case *c, const Data *x) {
  float *dq = malloc(sizeof *dq * (size_t)(c->b * c->h * c->s * c->d));
  bool *began = calloc((size_t)x->blocks, 1);
  for (int64_t n0 = 0; n0 < c->t; n0 += KEYS)
    for (int64_t head = 0; head < c->b * c->j; head++) tile(c, x, dq, head, n0, began, began);
  for (int64_t i = 0; i < (int64_t)c->b * c->h * c->s * c->d; i++)
    if (memcmp(&dq[i], &x->dq[i], 4) && failed++ < 8)
      printf("dq %d of %d: %g, not %g\n", (int)(i % c->d), (int)(i / c->d), (double)x->dq[i],
             (double)dq[i]);
  free(dq), free(began);
}

static void run(const Case *c, const TsTile *k, Data *x) {
  TsError err = {0};
  int64_t nq = (int64_t)c->b * c->h * c->s * c->d, nk = (int64_t)c->b * c->j * c->t * c->d;
  int64_t dim[8] = {c->b, c->h, c->j, c->s, c->t, x->blocks, c->g, 1};
  int32_t *turn = calloc((size_t)x->blocks, 4), counter = 0;
  x->dq = malloc((size_t)nq * 4), x->dk = malloc((size_t)nk * 2);
  x->dv = malloc((size_t)nk * 2);
  memset(x->dq, 0xff, (size_t)nq * 4), memset(x->dk, 0xff, (size_t)nk * 2);
  memset(x->dv, 0xff, (size_t)nk * 2);
  void *arg[11] = {x->q,  x->k,  x->v,  x->g, x->lse,  x->delta,
                   x->dq, x->dk, x->dv, turn, &counter};
  if (ts_tile_run(k, arg, dim, &err))
    failed++, printf("%s\n", err.message);
  else
    compare(c, x);
  if (counter) failed++, printf("the counter is left at %d\n", counter);
  for (int64_t i = 0; i < x->blocks; i++)
    if (turn[i]) failed++, printf("turn %d is left at %d\n", (int)i, turn[i]);
  free(turn);
}

static void one(const Case *c) {
  TsError err = {0};
  TsGpuAttentionGrad p = ts_gpu_attention_grad(c->dtype, c->d, c->causal, c->window);
  if (c->plain) p.overlap = false;
  TsTile *k = ts_tile_gpu_attention_grad(&p, &err);
  if (!k || ts_tile_check(k, &hopper, &err)) {
    failed++, printf("%s\n", err.message);
    return;
  }
  round_trip(k);
  int64_t nq = (int64_t)c->b * c->h * c->s * c->d, nk = (int64_t)c->b * c->j * c->t * c->d;
  Data x = {.q = numbers(c->dtype, nq), .k = numbers(c->dtype, nk)};
  x.v = numbers(c->dtype, nk), x.g = numbers(c->dtype, nq);
  x.blocks = ts_gpu_attention_grad_blocks(&p, (int64_t)c->b * c->h, c->s);
  x.lse = malloc((size_t)(x.blocks * c->rows) * 4);
  x.delta = malloc((size_t)(x.blocks * c->rows) * 4);
  x.p = malloc(sizeof *x.p * (size_t)(c->s * c->t));
  x.y = malloc(sizeof *x.y * (size_t)(c->s * c->t));
  for (int h = 0; h < c->b * c->h; h++) forward(c, &x, h);
  run(c, k, &x);
  forward(c, &x, c->b * c->h - 1);
  check_near(c, &x, c->b * c->h - 1);
  free(x.q), free(x.k), free(x.v), free(x.g), free(x.lse), free(x.delta), free(x.p), free(x.y);
  free(x.dq), free(x.dk), free(x.dv);
  ts_tile_free(k);
}

int main(void) {
  static const Case all[] = {
      {TS_DT_bf16, 64, 1, 2, 2, 200, 200, 1, true, 0, 64, false},
      {TS_DT_bf16, 64, 1, 2, 2, 200, 200, 1, true, 0, 64, true},
      {TS_DT_bf16, 128, 1, 1, 1, 70, 300, 1, false, 0, 64, false},
      {TS_DT_f16, 64, 2, 4, 2, 70, 330, 4, true, 0, 64, false},
      {TS_DT_bf16, 64, 1, 2, 1, 300, 420, 1, true, 60, 64, false},
      {TS_DT_bf16, 64, 1, 3, 1, 190, 190, 1, true, 0, 64, true},
      {TS_DT_bf16, 64, 1, 3, 1, 190, 190, 1, true, 0, 64, false},
      {TS_DT_bf16, 128, 2, 1, 1, 40, 40, 2, true, 0, 64, false},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) one(&all[i]);
  if (failed) printf("%d failed\n", failed);
  return failed != 0;
}
