/* The gradients of attention on a GPU (ir/tile/gpu/attention_grad.c), and those by warps
 * (ir/tile/gpu/attention_grad_warps.c). Without one it says so.
 *
 * With no argument: correctness of heads of 64 and 128, causal, window, groups of heads, ragged
 * sizes, operands that lie otherwise, against f64 on the host; and the same bits at every run,
 * for other numbers of blocks, another order of the heads, and without steps ahead.
 *
 * "warps" for those alone, which any GPU from sm_80 on runs.
 *
 * With --bench, of all sizes or of one number of queries: TFLOP/s in bursts, causal as half of
 * the work, a backward pass as 2.5 forward passes; tests/jit/gpu/attention_peer.py --grad
 * prints the same lines of its peer. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/tile/gpu/attention.h"
#include "ir/tile/gpu/attention_ends.h"
#include "ir/tile/gpu/attention_grad_warps.h"
#include "lib/convert_bits.h"
#include "tests/jit/gpu/device.h"
#include "tests/jit/gpu/threads.h"
#include "tests/skip.h"

static uint16_t narrow(TsDtype d, float v) {
  return d == TS_DT_bf16 ? bf16_of_f32(v) : f16_of_f32(v);
}
static double wide(TsDtype d, uint16_t u) {
  return (double)(d == TS_DT_bf16 ? f32_of_bf16(u) : f32_of_f16(u));
}

typedef struct Shape {
  int64_t b, h, j, s, t; /* batches, query heads, key heads, queries, keys */
} Shape;

/* ---- kernels */
enum { LEAST = 101376, MOST = 166912 }; /* bytes of a block, of GPUs without a copy engine */
enum { Q, K, V, G, DQ, DK, DV, Y, TENSORS };

typedef struct Problem {
  TsGpuAttentionGrad x;
  Shape s;
  Loaded forward, begin, grad, queries; /* by warps grad is of keys */
  void *end;
  bool transposed;         /* [B,S,H,D] in memory */
  int64_t stride[2][4];    /* of query and key heads */
  int64_t n[TENSORS];      /* elements */
  uint16_t *host[TENSORS]; /* inputs and results, NULL when speed is measured */
  void *at[TENSORS];       /* on the device */
  void *lse, *lse2, *delta, *sums, *turn, *counter;
  int64_t blocks;
} Problem;

static bool of_keys(int i) { return i == K || i == V || i == DK || i == DV; }

static int64_t size_of(const Problem *p, int i) {
  const Shape *s = &p->s;
  return s->b * (of_keys(i) ? s->j * s->t : s->h * s->s) * p->x.d;
}

static void strides(Problem *p) {
  for (int i = 0; i < 2; i++) {
    int64_t heads = i ? p->s.j : p->s.h, rows = i ? p->s.t : p->s.s, d = p->x.d;
    p->stride[i][0] = heads * rows * d, p->stride[i][3] = 1;
    p->stride[i][1] = p->transposed ? d : rows * d,
    p->stride[i][2] = p->transposed ? heads * d : d;
  }
}

/* Of row r of head h of batch b of tensor i. */
static int64_t row_at(const Problem *p, int i, int64_t b, int64_t h, int64_t r) {
  const int64_t *s = p->stride[of_keys(i)];
  return b * s[0] + h * s[1] + r * s[2];
}

static void *open_block(TsTile *k) {
  MUST(!k);
  void *g = open_threads(gpu, k, &err);
  MUST(!g);
  ts_tile_free(k);
  return g;
}

static void lie(TsTileVal v, const int64_t *stride) {
  v->type.strided = true;
  memcpy(v->type.stride, stride, 4 * sizeof *stride);
}

static Loaded load_half(Problem *p, TsTile *k, bool keys) {
  MUST(!k);
  for (int i = 0; i < k->nparam && p->transposed; i++)
    if (i < 4 || (keys && i > 5)) lie(k->param[i], p->stride[i == 1 || i == 2 || i > 5]);
  return load_tile(k);
}

static void load_grad(Problem *p) {
  if (p->x.warps) {
    p->grad = load_half(p, ts_tile_gpu_attention_grad_keys(&p->x, &err), true);
    p->queries = load_half(p, ts_tile_gpu_attention_grad_queries(&p->x, &err), false);
    return;
  }
  TsTile *k = ts_tile_gpu_attention_grad(&p->x, &err);
  MUST(!k);
  for (int i = 0; i < k->nparam && p->transposed; i++)
    if (i < 4 || i == 7 || i == 8) lie(k->param[i], p->stride[i == 1 || i == 2 || i > 6]);
  p->grad = load_tile(k);
}

static TsGpuAttention forward_of(const Problem *p) {
  const TsGpuAttentionGrad *x = &p->x;
  TsGpuAttention f = ts_gpu_attention(x->dtype, x->d, x->causal, x->window, false);
  ts_gpu_attention_fit(&f, p->s.s, false);
  if (x->warps)
    f = ts_gpu_attention_by_warps(x->dtype, x->d, x->causal, x->window, false, x->warps, MOST);
  f.scale = x->scale;
  return f;
}

static void load(Problem *p) {
  const TsGpuAttentionGrad *x = &p->x;
  TsGpuAttention f = forward_of(p);
  TsGpuHeads h = {.dim = {p->s.b, p->s.h, p->s.s, x->d}};
  if (p->transposed) h.stride = p->stride[0];
  if (!p->host[Q]) p->forward = load_tile(ts_tile_gpu_attention(&f, &err));
  load_grad(p);
  p->begin = load_tile(ts_tile_gpu_attention_begin(x, &h, &h, &err));
  p->end = open_block(ts_tile_gpu_attention_end(x, NULL, &err));
}

static int processors(void) { return ((TsCuda *)gpu->state)->sms; }

static void run_forward(Problem *p) {
  const Shape *s = &p->s;
  TsGpuAttention f = forward_of(p);
  int64_t n = s->b * s->h, j = s->b * s->j, tiles = ts_gpu_attention_tiles(&f, n, s->s);
  int64_t dim[7] = {s->b,
                    s->h,
                    s->j,
                    s->s,
                    s->t,
                    ts_gpu_attention_heads(&f, n, j, s->t),
                    processors() < tiles && !f.warps ? processors() : tiles};
  void *arg[] = {p->at[Q], p->at[K], p->at[V], p->at[Y], p->lse, p->counter};
  launch_tile(&p->forward, arg, dim);
}

static void run_begin(Problem *p) {
  void *arg[] = {p->at[G], p->at[Y], p->lse, p->lse2, p->delta};
  int64_t dim[TS_ATTENTION_BEGIN_SIZES];
  TsGpuHeads h = {.dim = {p->s.b, p->s.h, p->s.s, p->x.d}};
  if (p->transposed) h.stride = p->stride[0];
  ts_gpu_attention_begin_sizes(&p->x, &h, &h, dim);
  launch_tile(&p->begin, arg, dim);
}

static void run_by_warps(Problem *p, int64_t near) {
  const Shape *s = &p->s;
  int64_t j = s->b * s->j, l = ts_gpu_attention_grad_own(&p->x, s->b * s->h, s->s);
  int64_t dim[8] = {s->b, s->h, s->j, s->s, s->t, l};
  dim[6] = near ? near : ts_gpu_attention_grad_heads(&p->x, j, s->s);
  dim[7] = ts_gpu_attention_grad_tiles(&p->x, j, s->t);
  void *arg[] = {p->at[Q], p->at[K], p->at[V],  p->at[G],
                 p->lse2,  p->delta, p->at[DK], p->at[DV]};
  launch_tile(&p->grad, arg, dim);
  arg[6] = p->at[DQ], dim[7] = l;
  launch_tile(&p->queries, arg, dim);
}

/* 0: the usual number of blocks, of heads together. */
static void run_grad(Problem *p, int64_t blocks, int64_t near) {
  const Shape *s = &p->s;
  if (p->x.warps) {
    run_by_warps(p, near);
    return;
  }
  int64_t j = s->b * s->j, tiles = ts_gpu_attention_grad_tiles(&p->x, j, s->t);
  int64_t most = blocks ? blocks : processors();
  if (!near) near = ts_gpu_attention_grad_heads(&p->x, j, s->s);
  int64_t dim[8] = {s->b, s->h, s->j, s->s, s->t, p->blocks, near, most < tiles ? most : tiles};
  void *arg[] = {p->at[Q], p->at[K],  p->at[V],  p->at[G], p->lse2,   p->delta,
                 p->sums,  p->at[DK], p->at[DV], p->turn,  p->counter};
  launch_tile(&p->grad, arg, dim);
}

static void run_end(Problem *p) {
  void *arg[] = {p->sums, p->at[DQ]};
  if (p->x.warps) return;
  MUST(ts_device_threads.run(p->end, NULL, arg, &p->n[Q], &err));
}

/* ---- data */
static void *zeros(int64_t nbytes) {
  void *zero = calloc(1, (size_t)nbytes), *at = on_device(zero, nbytes);
  free(zero);
  return at;
}

static void numbers(Problem *p, int i, uint16_t *from, int64_t chunk) {
  if (p->host[i])
    for (int64_t k = 0; k < p->n[i]; k++) p->host[i][k] = narrow(p->x.dtype, normal());
  p->at[i] = on_device(p->host[i], p->n[i] * 2);
  for (int64_t k = 0; from && k < p->n[i]; k += chunk)
    MUST(gpu->upload(gpu, (char *)p->at[i] + k * 2, from,
                     (p->n[i] - k < chunk ? p->n[i] - k : chunk) * 2, &err));
}

/* chunk: of random numbers that all inputs are made of, or NULL: they stay on the host too. */
static Problem pose(const TsGpuAttentionGrad *x, const Shape *s, bool transposed,
                    uint16_t *chunk, int64_t length) {
  Problem p = {.x = *x, .s = *s, .transposed = transposed};
  strides(&p);
  for (int i = 0; i < TENSORS; i++) {
    p.n[i] = size_of(&p, i);
    if (!chunk) p.host[i] = malloc((size_t)p.n[i] * 2 + 16);
    numbers(&p, i, i < DQ ? chunk : NULL, length);
  }
  p.blocks = ts_gpu_attention_grad_blocks(x, s->b * s->h, s->s);
  p.lse = on_device(NULL, s->b * s->h * s->s * 4);
  p.lse2 = on_device(NULL, p.blocks * x->rows * 4);
  p.delta = on_device(NULL, p.blocks * x->rows * 4);
  p.sums = on_device(NULL, p.n[Q] * 4);
  p.turn = zeros(p.blocks * 4), p.counter = zeros(4);
  load(&p);
  return p;
}

static void forget(Problem *p) {
  const Shape *s = &p->s;
  for (int i = 0; i < TENSORS; i++)
    gpu->free(gpu, p->at[i], p->n[i] * 2 + 256), free(p->host[i]);
  gpu->free(gpu, p->lse, s->b * s->h * s->s * 4 + 256);
  gpu->free(gpu, p->lse2, p->blocks * p->x.rows * 4 + 256);
  gpu->free(gpu, p->delta, p->blocks * p->x.rows * 4 + 256);
  gpu->free(gpu, p->sums, p->n[Q] * 4 + 256);
  gpu->free(gpu, p->turn, p->blocks * 4 + 256), gpu->free(gpu, p->counter, 4 + 256);
  if (p->forward.tile) unload_tile(&p->forward);
  unload_tile(&p->begin), unload_tile(&p->grad);
  if (p->x.warps) unload_tile(&p->queries);
  if (p->end) ts_device_threads.free(p->end);
}

/* ---- the right numbers */
static bool sees(const Problem *p, int64_t i, int64_t key) {
  int64_t at = i + p->s.t - p->s.s;
  return !(p->x.causal && key > at) && !(p->x.window && key <= at - p->x.window);
}

static double dot(const Problem *p, const uint16_t *x, const uint16_t *y) {
  double sum = 0;
  for (int e = 0; e < p->x.d; e++) sum += wide(p->x.dtype, x[e]) * wide(p->x.dtype, y[e]);
  return sum;
}

/* y, the logarithms and the gradients in f64. Results of a head of queries are row-major. */
typedef struct Right {
  double *y, *lse, *dq, *dk, *dv; /* dk dv: of all heads */
} Right;

static void right_row(const Problem *p, Right *r, int64_t b, int64_t h, int64_t i, double *w) {
  int64_t kh = h / (p->s.h / p->s.j), d = p->x.d, at = ((b * p->s.h + h) * p->s.s + i);
  const uint16_t *q = p->host[Q] + row_at(p, Q, b, h, i),
                 *g = p->host[G] + row_at(p, G, b, h, i);
  TsDtype t = p->x.dtype;
  double sum = 0, delta = 0, *y = r->y + at * d, *dq = r->dq + at * d;
  for (int64_t j = 0; j < p->s.t; j++) {
    const uint16_t *k = p->host[K] + row_at(p, K, b, kh, j);
    w[j] = sees(p, i, j) ? exp(dot(p, q, k) * p->x.scale) : 0;
    sum += w[j];
  }
  r->lse[at] = log(sum);
  for (int64_t j = 0; j < p->s.t; j++) {
    const uint16_t *v = p->host[V] + row_at(p, V, b, kh, j);
    w[j] /= sum;
    for (int e = 0; e < d && w[j] > 0; e++) y[e] += w[j] * wide(t, v[e]);
  }
  for (int e = 0; e < d; e++) delta += y[e] * wide(t, g[e]);
  for (int64_t j = 0; j < p->s.t; j++) {
    if (w[j] <= 0) continue;
    const uint16_t *v = p->host[V] + row_at(p, V, b, kh, j);
    const uint16_t *k = p->host[K] + row_at(p, K, b, kh, j);
    double s = w[j] * (dot(p, g, v) - delta) * p->x.scale;
    double *dk = r->dk + ((b * p->s.j + kh) * p->s.t + j) * d;
    double *dv = r->dv + ((b * p->s.j + kh) * p->s.t + j) * d;
    for (int e = 0; e < d; e++) {
      dv[e] += w[j] * wide(t, g[e]);
      dk[e] += s * wide(t, q[e]), dq[e] += s * wide(t, k[e]);
    }
  }
}

static Right right_all(const Problem *p) {
  Right r = {calloc((size_t)p->n[Q], 8), calloc((size_t)(p->s.b * p->s.h * p->s.s), 8),
             calloc((size_t)p->n[Q], 8), calloc((size_t)p->n[K], 8),
             calloc((size_t)p->n[K], 8)};
  double *w = malloc(sizeof *w * (size_t)p->s.t);
  for (int64_t b = 0; b < p->s.b; b++)
    for (int64_t h = 0; h < p->s.h; h++)
      for (int64_t i = 0; i < p->s.s; i++) right_row(p, &r, b, h, i, w);
  free(w);
  return r;
}

static void forget_right(Right *r) {
  free(r->y), free(r->lse), free(r->dq), free(r->dk), free(r->dv);
}

/* y and the logarithms as the forward pass gives them. */
static void give(Problem *p, const Right *r) {
  int64_t n = p->s.b * p->s.h * p->s.s;
  float *lse = malloc((size_t)n * 4);
  for (int64_t i = 0; i < n; i++) lse[i] = (float)r->lse[i];
  for (int64_t b = 0; b < p->s.b; b++)
    for (int64_t h = 0; h < p->s.h; h++)
      for (int64_t i = 0; i < p->s.s; i++)
        for (int e = 0; e < p->x.d; e++)
          p->host[Y][row_at(p, Y, b, h, i) + e] =
              narrow(p->x.dtype, (float)r->y[((b * p->s.h + h) * p->s.s + i) * p->x.d + e]);
  MUST(gpu->upload(gpu, p->lse, lse, n * 4, &err));
  MUST(gpu->upload(gpu, p->at[Y], p->host[Y], p->n[Y] * 2, &err));
  free(lse);
}

/* ---- checks */
static const char *kind(const Problem *p) { return p->x.warps ? "warps" : "rows"; }
static int size(const Problem *p) { return p->x.warps ? p->x.own / 16 : p->x.rows; }

static void wrong(const Problem *p, const char *what, double value) {
  failed++;
  printf("WRONG %s d%d %s %d b%d h%d j%d s%d t%d%s window %d%s: %s %.4g\n",
         ts_dtype_name(p->x.dtype), p->x.d, kind(p), size(p), (int)p->s.b, (int)p->s.h,
         (int)p->s.j, (int)p->s.s, (int)p->s.t, p->x.causal ? " causal" : "", (int)p->x.window,
         p->transposed ? " turned" : "", what, value);
}

static void poison(Problem *p) {
  for (int i = DQ; i <= DV; i++) {
    memset(p->host[i], 0xff, (size_t)p->n[i] * 2);
    MUST(gpu->upload(gpu, p->at[i], p->host[i], p->n[i] * 2, &err));
  }
  float *nan = malloc((size_t)p->n[Q] * 4);
  memset(nan, 0xff, (size_t)p->n[Q] * 4);
  MUST(gpu->upload(gpu, p->sums, nan, p->n[Q] * 4, &err));
  free(nan);
}

static void compute(Problem *p, int64_t blocks, int64_t near) {
  poison(p);
  alarm(20);
  run_begin(p), run_grad(p, blocks, near), run_end(p);
  for (int i = DQ; i <= DV; i++)
    MUST(gpu->download(gpu, p->host[i], p->at[i], p->n[i] * 2, &err));
  alarm(0);
}

static double apart(const Problem *p, int i, const double *right) {
  bool keys = of_keys(i), plain = i == DQ;
  int64_t heads = keys ? p->s.j : p->s.h, rows = keys ? p->s.t : p->s.s, n = 0;
  double off = 0, all = 1e-30;
  for (int64_t b = 0; b < p->s.b; b++)
    for (int64_t h = 0; h < heads; h++)
      for (int64_t r = 0; r < rows; r++)
        for (int e = 0; e < p->x.d; e++, n++) {
          int64_t at = plain ? n : row_at(p, i, b, h, r) + e;
          double d = wide(p->x.dtype, p->host[i][at]) - right[n];
          off += d * d, all += right[n] * right[n];
        }
  return sqrt(off / all);
}

static void check_numbers(const Problem *p, const Right *r) {
  double far[3] = {apart(p, DQ, r->dq), apart(p, DK, r->dk), apart(p, DV, r->dv)};
  double most = p->x.dtype == TS_DT_bf16 ? 8e-3 : 1.2e-3;
  printf("%s d%d %s %d b%d h%d j%d s%d t%d%s window %d%s: dq %.3g dk %.3g dv %.3g\n",
         ts_dtype_name(p->x.dtype), p->x.d, kind(p), size(p), (int)p->s.b, (int)p->s.h,
         (int)p->s.j, (int)p->s.s, (int)p->s.t, p->x.causal ? " causal" : "", (int)p->x.window,
         p->transposed ? " turned" : "", far[0], far[1], far[2]);
  for (int i = 0; i < 3; i++)
    if (!(far[i] < most)) wrong(p, i == 0 ? "dq" : i == 1 ? "dk" : "dv", far[i]);
}

static void check_bits(Problem *p) {
  uint16_t *first[3];
  for (int i = 0; i < 3; i++) {
    first[i] = malloc((size_t)p->n[DQ + i] * 2);
    memcpy(first[i], p->host[DQ + i], (size_t)p->n[DQ + i] * 2);
  }
  for (int turn = 0; turn < 6; turn++) {
    if (turn == 5 && !p->x.overlap) break;
    if (turn == 5) p->x.overlap = false, unload_tile(&p->grad), load_grad(p);
    compute(p, turn == 3 ? 5 : 0, turn == 4 ? 1 : 0);
    for (int i = 0; i < 3; i++)
      if (memcmp(first[i], p->host[DQ + i], (size_t)p->n[DQ + i] * 2))
        wrong(p, "other bits in run", turn);
  }
  for (int i = 0; i < 3; i++) free(first[i]);
}

static int64_t by_warps; /* bytes that a block may have; 0: with roles */

static TsGpuAttentionGrad usual(TsDtype dtype, int d, bool causal, int64_t window) {
  if (!by_warps) return ts_gpu_attention_grad(dtype, d, causal, window);
  return ts_gpu_attention_grad_by_warps(dtype, d, causal, window, "sm_80", by_warps);
}

static void check(TsDtype dtype, int d, bool causal, int64_t window, bool transposed, Shape s) {
  TsGpuAttentionGrad x = usual(dtype, d, causal, window);
  Problem p = pose(&x, &s, transposed, NULL, 0);
  Right r = right_all(&p);
  give(&p, &r);
  compute(&p, 0, 0);
  check_numbers(&p, &r);
  check_bits(&p);
  forget_right(&r);
  forget(&p);
}

static void check_all(void) {
  for (int d = 128; d >= 64; d -= 64) {
    check(TS_DT_bf16, d, false, 0, false, (Shape){1, 2, 2, 256, 256});
    check(TS_DT_bf16, d, true, 0, false, (Shape){1, 2, 2, 384, 384});
    check(TS_DT_bf16, d, true, 0, true, (Shape){2, 3, 3, 400, 400});
    check(TS_DT_bf16, d, true, 0, false, (Shape){2, 4, 2, 333, 777});
    check(TS_DT_f16, d, false, 0, false, (Shape){1, 4, 1, 200, 300});
    check(TS_DT_bf16, d, true, 100, false, (Shape){1, 2, 1, 500, 700});
    check(TS_DT_bf16, d, true, 0, true, (Shape){2, 40, 20, 260, 260});
    check(TS_DT_bf16, d, true, 0, false, (Shape){1, 3, 3, 3, 3});
  }
}

/* Blocks of eight warps. */
static void check_larger(void) {
  by_warps = LEAST;
  check(TS_DT_bf16, 128, true, 0, true, (Shape){2, 4, 2, 333, 777});
  check(TS_DT_f16, 128, true, 100, false, (Shape){1, 2, 1, 500, 700});
  by_warps = 64 << 10;
  check(TS_DT_bf16, 64, true, 0, false, (Shape){2, 4, 2, 333, 777});
  check(TS_DT_f16, 64, false, 0, true, (Shape){1, 4, 1, 200, 300});
}

/* ---- bursts */
enum { BURSTS = 5, FORWARD = 1, BEGIN = 2, GRAD = 4, END = 8, ALL = 15 };

static void one_turn(Problem *p, int what, int64_t near) {
  if (what & FORWARD) run_forward(p);
  if (what & BEGIN) run_begin(p);
  if (what & GRAD) run_grad(p, 0, near);
  if (what & END) run_end(p);
}

static double burst(Problem *p, int what, int64_t near, int times) {
  static void *from, *to;
  double usec = 0;
  if (!from) MUST(gpu->run->event_new(gpu, &from, &err));
  if (!to) MUST(gpu->run->event_new(gpu, &to, &err));
  MUST(gpu->synchronize(gpu, &err));
  usleep(40000);
  one_turn(p, what, near);
  MUST(gpu->run->event_record(gpu, from, NULL, &err));
  for (int i = 0; i < times; i++) one_turn(p, what, near);
  MUST(gpu->run->event_record(gpu, to, NULL, &err));
  MUST(gpu->run->event_wait(gpu, to, &err));
  MUST(gpu->run->event_usec(gpu, from, to, &usec, &err));
  return usec * 1e-3 / times;
}

static double median(Problem *p, int what, int64_t near, int times) {
  double msec[BURSTS];
  for (int i = 0; i < BURSTS; i++) msec[i] = burst(p, what, near, times);
  qsort(msec, BURSTS, sizeof *msec, by_time);
  return msec[BURSTS / 2];
}

static int64_t only; /* 0, or the one number of queries that is measured */

static void bench(int d, bool causal, Shape s, int stages, bool more) {
  enum { CHUNK = 8 << 20 };
  if (only && s.s != only) return;
  static uint16_t *chunk;
  if (!chunk) {
    chunk = malloc(CHUNK * 2);
    for (int i = 0; i < CHUNK; i++) chunk[i] = narrow(TS_DT_bf16, normal());
  }
  TsGpuAttentionGrad x = usual(TS_DT_bf16, d, causal, 0);
  if (by_warps && stages) x.step = stages;
  if (stages) x.stages = stages, x.overlap = false;
  if (stages < 0) x.stages = -stages, x.overlap = true, x.held = false;
  Problem p = pose(&x, &s, false, chunk, CHUNK);
  double flop = 4.0 * (double)(s.b * s.h * s.s * d) * (double)s.t * (causal ? 0.5 : 1);
  int times = (int)(6e-3 / (flop * 2.5 / 500e12)) + 1;
  alarm(60);
  double all = median(&p, ALL, 0, times), grad = median(&p, GRAD, 0, times);
  double back = median(&p, BEGIN | GRAD | END, 0, times);
  printf("attention_grad%s d%d %s B%d H%d/%d S%d ours %.1f both %.1f", by_warps ? "_warps" : "",
         d, causal ? "causal" : "full", (int)s.b, (int)s.h, (int)s.j, (int)s.s,
         2.5 * flop / back * 1e-9, 3.5 * flop / all * 1e-9);
  printf("  msec grad %.3f", grad);
  if (more) {
    printf(" begin %.3f end %.3f forward %.3f heads", median(&p, BEGIN, 0, times),
           median(&p, END, 0, times), median(&p, FORWARD, 0, times));
    for (int64_t near = 8; near <= 128 && near <= s.b * s.j; near *= 2)
      printf(" %d:%.3f", (int)near, median(&p, GRAD, near, times));
  }
  if (by_warps) printf("  own %d step %d", x.own, x.step);
  if (stages > 0 && !by_warps) printf("  no step ahead, stages %d", stages);
  if (stages < 0) printf("  values not held, stages %d", -stages);
  printf("\n");
  alarm(0);
  forget(&p);
}

static void bench_warps(void) {
  by_warps = MOST;
  for (int d = 128; d >= 64; d -= 64)
    for (int causal = 0; causal < 2; causal++)
      bench(d, causal, (Shape){4, 16, 16, 4096, 4096}, 0, false);
  bench(64, true, (Shape){4, 16, 16, 4096, 4096}, 32, false);
  bench(64, false, (Shape){4, 16, 16, 4096, 4096}, 32, false);
  bench(64, true, (Shape){32, 12, 12, 1024, 1024}, 0, false);
  by_warps = LEAST;
  bench(128, true, (Shape){4, 16, 16, 4096, 4096}, 0, false);
  by_warps = 64 << 10;
  bench(64, true, (Shape){4, 16, 16, 4096, 4096}, 0, false);
  by_warps = 0;
}

static void bench_all(void) {
  for (int d = 128; d >= 64; d -= 64)
    for (int causal = 0; causal < 2; causal++) {
      bench(d, causal, (Shape){4, 16, 16, 4096, 4096}, 0, false);
      bench(d, causal, (Shape){1, 16, 16, 16384, 16384}, 0, false);
      bench(d, causal, (Shape){16, 16, 16, 1024, 1024}, 0, true);
    }
  bench(64, true, (Shape){32, 12, 12, 1024, 1024}, 0, true);
  bench(64, true, (Shape){32, 12, 12, 1024, 1024}, -3, true);
  bench(64, true, (Shape){32, 12, 12, 1024, 1024}, -2, false);
  bench(64, true, (Shape){32, 12, 12, 1024, 1024}, 3, false);
  bench(64, true, (Shape){4, 16, 16, 4096, 4096}, -3, false);
  bench(128, true, (Shape){4, 32, 4, 4096, 4096}, 0, false);
  bench(64, true, (Shape){8, 64, 8, 2048, 2048}, 0, false);
  bench(64, true, (Shape){4, 16, 16, 4096, 4096}, 3, false);
  bench(64, true, (Shape){4, 16, 16, 4096, 4096}, 2, false);
}

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  gpu = ts_device_find("cuda:0", &err);
  bool warps = argc > 1 && !strcmp(argv[1], "warps");
  if (!gpu || !gpu->run || !ts_target_has(gpu->target, warps ? TS_UNIT_mma : TS_UNIT_roles))
    return skip("no GPU that has the unit");
  MUST(ts_device_use(gpu, &err));
  if (argc > 2) only = atoll(argv[2]);
  if (argc > 1 && !strcmp(argv[1], "--bench")) return bench_warps(), bench_all(), 0;
  if (!warps) check_all();
  by_warps = MOST, check_all();
  check_larger();
  if (argc > 2) bench_warps();
  printf("%s\n", failed ? "FAILED" : "all right");
  return failed != 0;
}
