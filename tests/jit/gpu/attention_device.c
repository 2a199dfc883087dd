/* Attention on a GPU (ir/tile/gpu/attention.c, jit/gpu/roles.h). Without one it says so.
 *
 * With no argument: correctness of heads of 64 and 128, causal, window, sink, groups of heads,
 * ragged sizes, against f64 on the host; and the same bits for other numbers of blocks and
 * heads, other tiles, and every run.
 *
 * With --bench, of all sizes or of one number of queries: TFLOP/s in bursts (as
 * tests/jit/gpu/matmul_device.c), causal as half of the work; tests/jit/gpu/attention_peer.py
 * prints the same lines of its peer. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/tile/gpu/attention.h"
#include "lib/convert_bits.h"
#include "tests/jit/gpu/device.h"
#include "tests/skip.h"

static uint16_t narrow(TsDtype d, float v) {
  return d == TS_DT_bf16 ? bf16_of_f32(v) : f16_of_f32(v);
}
static double wide(TsDtype d, uint16_t u) {
  return (double)(d == TS_DT_bf16 ? f32_of_bf16(u) : f32_of_f16(u));
}

/* ---- kernels */
typedef struct Kernel {
  TsGpuAttention x;
  Loaded code;
} Kernel;

static Kernel load(const TsGpuAttention *x) {
  return (Kernel){*x, load_tile(ts_tile_gpu_attention(x, &err))};
}

static void unload(Kernel *k) { unload_tile(&k->code); }

typedef struct Shape {
  int64_t n, j, h, s, t; /* query heads, key heads, query heads of a batch, queries, keys */
} Shape;

/* blocks 0: as many as run at a time. arg: q k v [sink] y lse counter */
static void run(const Kernel *k, const Shape *s, void *const *arg, int64_t blocks) {
  int64_t tiles = ts_gpu_attention_tiles(&k->x, s->n, s->s);
  int64_t most = blocks ? blocks : ((TsCuda *)gpu->state)->sms;
  int64_t b = s->n / s->h;
  int64_t dim[7] = {b,
                    s->h,
                    s->j / b,
                    s->s,
                    s->t,
                    ts_gpu_attention_heads(&k->x, s->n, s->j, s->t),
                    most < tiles ? most : tiles};
  launch_tile(&k->code, arg, dim);
}

/* ---- data */
static uint16_t *numbers(TsDtype d, int64_t n) {
  uint16_t *x = malloc((size_t)n * 2 + 16);
  for (int64_t i = 0; i < n; i++) x[i] = narrow(d, normal());
  return x;
}

static void *zero_counter(void) {
  static void *at;
  int32_t zero = 0;
  if (!at) at = on_device(&zero, 4);
  return at;
}

typedef struct Problem {
  TsGpuAttention x;
  Shape s;
  uint16_t *q, *k, *v, *y, *first_y; /* on the host */
  float *sink, *lse, *first_lse;
  void *dq, *dk, *dv, *dsink, *dy, *dlse;
} Problem;

static Problem pose(const TsGpuAttention *x, const Shape *s) {
  Problem p = {.x = *x, .s = *s};
  int64_t nq = s->n * s->s * x->d, nk = s->j * s->t * x->d;
  p.q = numbers(x->dtype, nq), p.k = numbers(x->dtype, nk), p.v = numbers(x->dtype, nk);
  p.y = malloc((size_t)nq * 2), p.first_y = malloc((size_t)nq * 2);
  p.lse = malloc((size_t)(s->n * s->s) * 4), p.first_lse = malloc((size_t)(s->n * s->s) * 4);
  p.sink = malloc((size_t)s->h * 4);
  for (int64_t i = 0; i < s->h; i++) p.sink[i] = normal();
  p.dq = on_device(p.q, nq * 2), p.dk = on_device(p.k, nk * 2), p.dv = on_device(p.v, nk * 2);
  p.dsink = on_device(p.sink, s->h * 4);
  p.dy = on_device(NULL, nq * 2), p.dlse = on_device(NULL, s->n * s->s * 4);
  return p;
}

static void forget(Problem *p) {
  const Shape *s = &p->s;
  int64_t nq = s->n * s->s * p->x.d * 2 + 256, nk = s->j * s->t * p->x.d * 2 + 256;
  gpu->free(gpu, p->dq, nq), gpu->free(gpu, p->dk, nk), gpu->free(gpu, p->dv, nk);
  gpu->free(gpu, p->dsink, s->h * 4 + 256), gpu->free(gpu, p->dy, nq);
  gpu->free(gpu, p->dlse, s->n * s->s * 4 + 256);
  free(p->q), free(p->k), free(p->v), free(p->y), free(p->first_y), free(p->sink);
  free(p->lse), free(p->first_lse);
}

/* Heads from `head` on, which are `s`; results into p->y and p->lse, from their beginning. */
static void compute(Problem *p, const Kernel *k, const Shape *s, int64_t head, int64_t blocks) {
  int64_t nq = s->n * s->s * p->x.d, row = p->s.s * p->x.d * 2, n = 3;
  int64_t key = head / (p->s.n / p->s.j) * p->s.t * p->x.d * 2;
  memset(p->y, 0xff, (size_t)nq * 2), memset(p->lse, 0xff, (size_t)(s->n * s->s) * 4);
  MUST(gpu->upload(gpu, p->dy, p->y, nq * 2, &err));
  MUST(gpu->upload(gpu, p->dlse, p->lse, s->n * s->s * 4, &err));
  void *arg[7] = {(char *)p->dq + head * row, (char *)p->dk + key, (char *)p->dv + key};
  if (k->x.sink) arg[n++] = p->dsink;
  arg[n++] = p->dy, arg[n++] = p->dlse, arg[n] = zero_counter();
  alarm(20);
  run(k, s, arg, blocks);
  MUST(gpu->download(gpu, p->y, p->dy, nq * 2, &err));
  MUST(gpu->download(gpu, p->lse, p->dlse, s->n * s->s * 4, &err));
  alarm(0);
}

/* ---- the right numbers */
static bool sees(const Problem *p, int64_t i, int64_t key) {
  int64_t at = i + p->s.t - p->s.s;
  return !(p->x.causal && key > at) && !(p->x.window && key <= at - p->x.window);
}

/* One row in f64: y and the logarithm of the sum; probabilities in w. */
static double right_row(const Problem *p, int64_t h, int64_t i, double *w, double *y) {
  int d = p->x.d;
  TsDtype t = p->x.dtype;
  const uint16_t *q = p->q + (h * p->s.s + i) * d;
  int64_t key = h / (p->s.n / p->s.j) * p->s.t;
  double most = p->x.sink ? (double)p->sink[h % p->s.h] : -INFINITY, sum, qi[128];
  for (int e = 0; e < d; e++) qi[e] = wide(t, q[e]), y[e] = 0;
  for (int64_t j = 0; j < p->s.t; j++) {
    const uint16_t *k = p->k + (key + j) * d;
    double x = 0;
    w[j] = -INFINITY;
    if (!sees(p, i, j)) continue;
    for (int e = 0; e < d; e++) x += qi[e] * wide(t, k[e]);
    w[j] = x * p->x.scale;
    if (w[j] > most) most = w[j];
  }
  if (most == -INFINITY) return -INFINITY;
  sum = p->x.sink ? exp((double)p->sink[h % p->s.h] - most) : 0;
  for (int64_t j = 0; j < p->s.t; j++) {
    if (w[j] == -INFINITY) continue;
    double e1 = exp(w[j] - most);
    sum += e1;
    for (int e = 0; e < d; e++) y[e] += e1 * wide(t, p->v[(key + j) * d + e]);
  }
  for (int e = 0; e < d; e++) y[e] /= sum;
  return most + log(sum);
}

static void name_of(const Problem *p, char *to, size_t room) {
  snprintf(to, room, "%s d%d rows %d n%lld j%lld s%lld t%lld%s%s window %lld",
           ts_dtype_name(p->x.dtype), p->x.d, p->x.rows, (long long)p->s.n, (long long)p->s.j,
           (long long)p->s.s, (long long)p->s.t, p->x.causal ? " causal" : "",
           p->x.sink ? " sink" : "", (long long)p->x.window);
}

static void wrong(const Problem *p, const char *what, double value) {
  char name[160];
  name_of(p, name, sizeof name);
  failed++;
  printf("WRONG %s: %s %.4g\n", name, what, value);
}

/* Every fifth row, and the last ones. */
static void check_numbers(const Problem *p) {
  double *w = malloc(sizeof *w * (size_t)p->s.t), y[128], off = 0, all = 0, worst = 0;
  char name[160];
  int shown = 0;
  for (int64_t h = 0; h < p->s.n; h++)
    for (int64_t i = h % 5; i < p->s.s; i += i + 5 < p->s.s ? 5 : 1) {
      int64_t at = h * p->s.s + i;
      double log = right_row(p, h, i, w, y), far = 0;
      for (int e = 0; e < p->x.d; e++) {
        double d = wide(p->x.dtype, p->y[at * p->x.d + e]) - y[e];
        off += d * d, all += y[e] * y[e];
        if (!(fabs(d) <= far)) far = fabs(d);
      }
      double apart = fabs((double)p->lse[at] - log);
      if (log == -INFINITY) apart = p->lse[at] < -1e29f ? 0 : INFINITY;
      if (!(apart <= worst)) worst = apart;
      if ((!(far < 0.1) || !(apart < 1e-4)) && shown++ < 5)
        printf("  head %lld row %lld: y %g not %g, off by %g; lse %g not %g\n", (long long)h,
               (long long)i, wide(p->x.dtype, p->y[at * p->x.d]), y[0], far, (double)p->lse[at],
               log);
    }
  double r = all > 0 ? sqrt(off / all) : sqrt(off);
  name_of(p, name, sizeof name);
  printf("%s: relative error %.3g, lse %.3g\n", name, r, worst);
  if (!(r < (p->x.dtype == TS_DT_bf16 ? 5e-3 : 7e-4))) wrong(p, "relative error", r);
  if (!(worst < 2e-5)) wrong(p, "error of lse", worst);
  free(w);
}

static void keep(Problem *p) {
  memcpy(p->first_y, p->y, (size_t)(p->s.n * p->s.s * p->x.d) * 2);
  memcpy(p->first_lse, p->lse, (size_t)(p->s.n * p->s.s) * 4);
}

/* The heads from `head` on have the bits of the first run. */
static void same(const Problem *p, const Shape *s, int64_t head, const char *what) {
  int64_t at = head * p->s.s, n = s->n * s->s;
  if (memcmp(p->y, p->first_y + at * p->x.d, (size_t)(n * p->x.d) * 2) ||
      memcmp(p->lse, p->first_lse + at, (size_t)n * 4))
    wrong(p, what, 0);
}

static void check_bits(Problem *p, const Kernel *k) {
  int64_t each = p->s.n / p->s.j, head = p->s.n - each;
  for (int i = 0; i < 3; i++) compute(p, k, &p->s, 0, 0), same(p, &p->s, 0, "other bits again");
  compute(p, k, &p->s, 0, 5);
  same(p, &p->s, 0, "other bits with 5 blocks");
  Shape one = p->s;
  one.n = one.h = each, one.j = 1;
  if (!p->x.sink) compute(p, k, &one, head, 0), same(p, &one, head, "other bits of one head");
  if (p->x.d != 64) return;
  TsGpuAttention other = p->x;
  other.rows = 128, other.turns = false, other.stages = 4;
  Kernel k2 = load(&other);
  compute(p, &k2, &p->s, 0, 0);
  same(p, &p->s, 0, "other bits with tiles of 128");
  unload(&k2);
}

static void check(TsDtype dtype, int d, bool causal, int64_t window, bool sink, int64_t n,
                  int64_t j, int64_t s, int64_t t) {
  TsGpuAttention x = ts_gpu_attention(dtype, d, causal, window, sink);
  Shape shape = {n, j, n, s, t};
  Problem p = pose(&x, &shape);
  Kernel k = load(&x);
  compute(&p, &k, &shape, 0, 0);
  keep(&p);
  check_numbers(&p);
  check_bits(&p, &k);
  unload(&k);
  forget(&p);
}

static void check_all(void) {
  for (int d = 128; d >= 64; d -= 64) {
    check(TS_DT_bf16, d, false, 0, false, 2, 2, 256, 256);
    check(TS_DT_bf16, d, true, 0, false, 2, 2, 384, 384);
    check(TS_DT_bf16, d, true, 0, false, 6, 6, 1000, 1000);
    check(TS_DT_bf16, d, false, 0, false, 4, 2, 333, 777);
    check(TS_DT_f16, d, true, 0, true, 8, 2, 700, 1000);
    check(TS_DT_bf16, d, true, 128, true, 8, 2, 1000, 1000);
    check(TS_DT_bf16, d, true, 0, false, 2, 1, 500, 300);
    check(TS_DT_bf16, d, false, 300, false, 2, 1, 900, 900);
    check(TS_DT_bf16, d, true, 0, false, 64, 64, 520, 520);
    check(TS_DT_bf16, d, true, 0, false, 3, 3, 1, 1);
  }
}

/* ---- bursts */
enum { BURSTS = 5 };

static double burst(const Kernel *k, const Shape *s, void *const *arg, int times) {
  static void *from, *to;
  double usec = 0;
  if (!from) MUST(gpu->run->event_new(gpu, &from, &err));
  if (!to) MUST(gpu->run->event_new(gpu, &to, &err));
  MUST(gpu->synchronize(gpu, &err));
  usleep(50000);
  run(k, s, arg, 0);
  MUST(gpu->run->event_record(gpu, from, NULL, &err));
  for (int i = 0; i < times; i++) run(k, s, arg, 0);
  MUST(gpu->run->event_record(gpu, to, NULL, &err));
  MUST(gpu->run->event_wait(gpu, to, &err));
  MUST(gpu->run->event_usec(gpu, from, to, &usec, &err));
  return usec * 1e-3 / times;
}

static void *random_device(int64_t n) {
  enum { CHUNK = 8 << 20 };
  static uint16_t *chunk;
  if (!chunk) chunk = numbers(TS_DT_bf16, CHUNK);
  char *at = on_device(NULL, n * 2);
  for (int64_t i = 0; i < n; i += CHUNK)
    MUST(gpu->upload(gpu, at + i * 2, chunk, (n - i < CHUNK ? n - i : CHUNK) * 2, &err));
  return at;
}

static double speed(const TsGpuAttention *x, const Shape *s, void *const *arg) {
  double flop = 4.0 * (double)(s->n * s->s * x->d) * (double)s->t * (x->causal ? 0.5 : 1);
  double msec[BURSTS];
  int times = (int)(6e-3 / (flop / 550e12)) + 1;
  Kernel k = load(x);
  for (int i = 0; i < BURSTS; i++) msec[i] = burst(&k, s, arg, times);
  unload(&k);
  qsort(msec, BURSTS, sizeof *msec, by_time);
  return flop / msec[BURSTS / 2] * 1e-9;
}

static int64_t only; /* 0, or the one number of queries that is measured */

static void bench(int d, bool causal, int64_t b, int64_t h, int64_t j, int64_t s, bool more) {
  if (only && s != only) return;
  TsGpuAttention x = ts_gpu_attention(TS_DT_bf16, d, causal, 0, false);
  ts_gpu_attention_fit(&x, s, false);
  Shape shape = {b * h, b * j, h, s, s};
  int64_t nq = shape.n * s * d, nk = shape.j * s * d;
  void *arg[6] = {random_device(nq),
                  random_device(nk),
                  random_device(nk),
                  on_device(NULL, nq * 2),
                  on_device(NULL, shape.n * s * 4),
                  zero_counter()};
  alarm(60);
  printf("attention d%d %s B%lld H%lld/%lld S%lld ours %.1f", d, causal ? "causal" : "full",
         (long long)b, (long long)h, (long long)j, (long long)s, speed(&x, &shape, arg));
  x.turns = !x.turns;
  if (more) printf("  turns %d %.1f", x.turns, speed(&x, &shape, arg));
  x.turns = !x.turns;
  x.apart = !x.apart;
  if (d == 64) printf("  apart %d %.1f", x.apart, speed(&x, &shape, arg));
  x.apart = !x.apart;
  x.rows = x.rows == 128 ? 192 : 128;
  if (d == 64) printf("  rows %d %.1f", x.rows, speed(&x, &shape, arg));
  printf("\n");
  alarm(0);
  int64_t size[5] = {nq * 2, nk * 2, nk * 2, nq * 2, shape.n * s * 4};
  for (int i = 0; i < 5; i++) gpu->free(gpu, arg[i], size[i] + 256);
}

static void bench_all(void) {
  for (int d = 128; d >= 64; d -= 64)
    for (int causal = 0; causal < 2; causal++)
      for (int64_t s = 1024; s <= 16384; s *= 2)
        bench(d, causal, s < 4096 ? 16 : 4, 16, 16, s, s == 4096);
  bench(128, true, 4, 32, 4, 4096, false);
  bench(64, true, 8, 64, 8, 2048, false);
  bench(64, true, 32, 12, 12, 1024, false);
}

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  gpu = ts_device_find("cuda:0", &err);
  if (!gpu || !gpu->run || !ts_target_has(gpu->target, TS_UNIT_roles))
    return skip("no GPU that has the unit");
  MUST(ts_device_use(gpu, &err));
  if (argc > 2) only = atoll(argv[2]);
  if (argc > 1 && !strcmp(argv[1], "--bench")) return bench_all(), 0;
  check_all();
  printf("%s\n", failed ? "FAILED" : "all right");
  return failed != 0;
}
