/* Attention of few queries on a GPU (ir/tile/gpu/decode.c). Without one it says so.
 *
 * With no argument: correctness of heads of 64 and 128, groups of heads, several queries,
 * window, sink and ragged sizes against f64 on the host; and the same bits on other numbers of
 * blocks, for one head alone, and every run.
 *
 * With --bench: microseconds and TB/s of keys and values, several launches as one over sets of
 * keys and values that the second cache cannot hold; tests/jit/gpu/decode_peer.py prints the
 * same lines of a copy of as many bytes and of its peers. --bench B:S CxNxL..: this size, with
 * chunks of C blocks and L parts of N chunks too (N 0: the usual parts). */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "ir/tile/gpu/decode.h"
#include "lib/convert_bits.h"
#include "tests/jit/gpu/device.h"
#include "tests/skip.h"

static uint16_t narrow(TsDtype d, float v) {
  return d == TS_DT_bf16 ? bf16_of_f32(v) : f16_of_f32(v);
}
static double wide(TsDtype d, uint16_t u) {
  return (double)(d == TS_DT_bf16 ? f32_of_bf16(u) : f32_of_f16(u));
}

static uint16_t *numbers(TsDtype d, int64_t n) {
  uint16_t *x = malloc((size_t)n * 2 + 16);
  for (int64_t i = 0; i < n; i++) x[i] = narrow(d, normal());
  return x;
}

/* ---- kernels */
typedef struct Kernel {
  TsGpuDecode x;
  Loaded code;
} Kernel;

static Kernel load(const TsGpuDecode *x) {
  return (Kernel){*x, load_tile(ts_tile_gpu_decode(x, &err))};
}

/* Sizes as the kernel's; blocks 0: as many as run at a time, n 0: the usual number. arg: q k v
 * [sink] y */
typedef struct Shape {
  int64_t j, e, t, c, blocks, n, longs;
} Shape;

static void run(const Kernel *k, const Shape *s, void *const *arg) {
  int64_t most = s->blocks ? s->blocks : gpu->processors;
  TsGpuDecodeSplits splits =
      s->n ? ts_gpu_decode_splits_of(&k->x, s->j, s->t, s->c, s->n, s->longs)
           : ts_gpu_decode_splits(&k->x, s->j, s->t, s->c, most);
  int64_t dim[8] = {s->j,     s->e,         s->t, s->c,
                    splits.n, splits.longs, s->e, most < splits.all ? most : splits.all};
  if (ts_gpu_decode_chunks(&k->x, s->j, s->t, s->c) > k->x.room)
    printf("too little scratch\n"), exit(1);
  launch_tile(&k->code, arg, dim);
}

/* ---- correctness */
typedef struct Problem {
  TsGpuDecode x;
  Shape s;
  uint16_t *q, *k, *v, *y, *first_y; /* on the host */
  float *sink;
  char *dq, *dk, *dv, *dsink, *dy;
} Problem;

static Problem pose(const TsGpuDecode *x, const Shape *s) {
  Problem p = {.x = *x, .s = *s};
  int64_t nq = s->j * s->e * x->d, nk = s->j * s->t * x->d;
  p.q = numbers(x->dtype, nq), p.k = numbers(x->dtype, nk), p.v = numbers(x->dtype, nk);
  p.y = malloc((size_t)nq * 2), p.first_y = malloc((size_t)nq * 2);
  p.sink = malloc((size_t)s->e * 4);
  for (int64_t i = 0; i < s->e; i++) p.sink[i] = normal();
  p.dq = on_device(p.q, nq * 2), p.dk = on_device(p.k, nk * 2), p.dv = on_device(p.v, nk * 2);
  p.dsink = on_device(p.sink, s->e * 4), p.dy = on_device(NULL, nq * 2);
  return p;
}

static void forget(Problem *p) {
  int64_t nq = p->s.j * p->s.e * p->x.d * 2 + 256, nk = p->s.j * p->s.t * p->x.d * 2 + 256;
  gpu->free(gpu, p->dq, nq), gpu->free(gpu, p->dk, nk), gpu->free(gpu, p->dv, nk);
  gpu->free(gpu, p->dsink, p->s.e * 4 + 256), gpu->free(gpu, p->dy, nq);
  free(p->q), free(p->k), free(p->v), free(p->y), free(p->first_y), free(p->sink);
}

/* Key heads from `head` on, which are s->j; results into p->y, from its beginning. */
static void compute(Problem *p, const Kernel *k, const Shape *s, int64_t head) {
  int64_t nq = s->j * s->e * p->x.d * 2, row = p->s.e * p->x.d * 2, n = 3;
  int64_t key = head * p->s.t * p->x.d * 2;
  memset(p->y, 0xff, (size_t)nq);
  MUST(gpu->upload(gpu, p->dy, p->y, nq, &err));
  void *arg[5] = {p->dq + head * row, p->dk + key, p->dv + key};
  if (k->x.sink) arg[n++] = p->dsink;
  arg[n] = p->dy;
  alarm(20);
  run(k, s, arg);
  MUST(gpu->download(gpu, p->y, p->dy, nq, &err));
  alarm(0);
}

static bool sees(const Problem *p, int64_t row, int64_t key) {
  int64_t at = row % p->x.queries + p->s.t - p->x.queries;
  return !(p->x.causal && key > at) && !(p->x.window && key <= at - p->x.window);
}

static void right_row(const Problem *p, int64_t h, int64_t r, double *w, double *y) {
  int d = p->x.d;
  const uint16_t *q = p->q + (h * p->s.e + r) * d;
  double most = p->x.sink ? (double)p->sink[r] : -INFINITY, sum;
  for (int e = 0; e < d; e++) y[e] = 0;
  for (int64_t j = 0; j < p->s.t; j++) {
    const uint16_t *k = p->k + (h * p->s.t + j) * d;
    double x = 0;
    w[j] = -INFINITY;
    if (!sees(p, r, j)) continue;
    for (int e = 0; e < d; e++) x += wide(p->x.dtype, q[e]) * wide(p->x.dtype, k[e]);
    w[j] = x * p->x.scale;
    if (w[j] > most) most = w[j];
  }
  sum = p->x.sink ? exp((double)p->sink[r] - most) : 0;
  for (int64_t j = 0; j < p->s.t; j++) {
    if (w[j] == -INFINITY) continue;
    double e1 = exp(w[j] - most);
    sum += e1;
    for (int e = 0; e < d; e++) y[e] += e1 * wide(p->x.dtype, p->v[(h * p->s.t + j) * d + e]);
  }
  for (int e = 0; e < d; e++) y[e] /= sum;
}

static void say(const Problem *p, const char *what, double value) {
  printf("%s d%d rows %d j%lld e%lld t%lld c%lld queries %d%s%s window %lld: %s %.3g\n",
         ts_dtype_name(p->x.dtype), p->x.d, p->x.rows, (long long)p->s.j, (long long)p->s.e,
         (long long)p->s.t, (long long)p->s.c, p->x.queries, p->x.causal ? " causal" : "",
         p->x.sink ? " sink" : "", (long long)p->x.window, what, value);
}

static void wrong(const Problem *p, const char *what, double value) {
  failed++;
  say(p, what, value);
}

static void check_numbers(const Problem *p) {
  double *w = malloc(sizeof *w * (size_t)p->s.t), y[128], off = 0, all = 0;
  for (int64_t h = 0; h < p->s.j; h++)
    for (int64_t r = 0; r < p->s.e; r++) {
      right_row(p, h, r, w, y);
      for (int e = 0; e < p->x.d; e++) {
        double got = wide(p->x.dtype, p->y[(h * p->s.e + r) * p->x.d + e]);
        off += (got - y[e]) * (got - y[e]), all += y[e] * y[e];
      }
    }
  double r = sqrt(off / all);
  say(p, "relative error", r);
  if (!(r < (p->x.dtype == TS_DT_bf16 ? 6e-3 : 9e-4))) wrong(p, "WRONG: relative error", r);
  free(w);
}

static void same(const Problem *p, const Shape *s, int64_t head, const char *what) {
  if (memcmp(p->y, p->first_y + head * s->e * p->x.d, (size_t)(s->j * s->e * p->x.d) * 2))
    wrong(p, what, 0);
}

static void check(TsDtype dtype, int d, int queries, bool causal, int64_t window, bool sink,
                  int64_t j, int64_t e, int64_t t) {
  Shape s = {.j = j, .e = e, .t = t, .c = TS_GPU_DECODE_CHUNK};
  TsGpuDecode x = ts_gpu_decode(dtype, d, (int)e, 1);
  x.queries = queries, x.causal = causal, x.window = window, x.sink = sink;
  while (x.room < ts_gpu_decode_chunks(&x, j, t, s.c)) x.room *= 2;
  Problem p = pose(&x, &s);
  Kernel k = load(&x);
  compute(&p, &k, &s, 0);
  memcpy(p.first_y, p.y, (size_t)(j * e * d) * 2);
  check_numbers(&p);
  for (int i = 0; i < 3; i++)
    compute(&p, &k, &s, 0), same(&p, &s, 0, "WRONG: other bits again");
  Shape other = s;
  other.blocks = 5;
  compute(&p, &k, &other, 0), same(&p, &other, 0, "WRONG: other bits with 5 blocks");
  for (int n = 1; n < 4; n++)
    other = s, other.n = n, other.longs = n - 1, compute(&p, &k, &other, 0),
    same(&p, &other, 0, "WRONG: other bits in other parts");
  other = s, other.j = 1;
  compute(&p, &k, &other, j - 1), same(&p, &other, j - 1, "WRONG: other bits of one head");
  unload_tile(&k.code);
  forget(&p);
}

static void check_all(void) {
  for (int d = 128; d >= 64; d -= 64) {
    check(TS_DT_bf16, d, 1, true, 0, false, 8, 8, 4096);
    check(TS_DT_bf16, d, 1, true, 0, false, 40, 8, 1000);
    check(TS_DT_bf16, d, 1, false, 0, false, 3, 8, 37);
    check(TS_DT_bf16, d, 1, true, 0, false, 64, 1, 5000);
    check(TS_DT_f16, d, 1, true, 0, true, 8, 8, 9001);
    check(TS_DT_bf16, d, 1, true, 1000, true, 8, 16, 7000);
    check(TS_DT_bf16, d, 4, true, 0, false, 8, 32, 3333);
    check(TS_DT_bf16, d, 8, true, 500, false, 4, 64, 3333);
    check(TS_DT_f16, d, 3, false, 0, false, 8, 24, 2048);
    check(TS_DT_bf16, d, 1, true, 0, false, 8, 8, 70000);
  }
}

/* ---- speed */
enum { TIMES = 24, BURSTS = 9, MOST_SETS = 24 };

static void *random_device(int64_t n) {
  enum { CHUNK = 8 << 20 };
  static char *first;
  if (!first) {
    uint16_t *x = numbers(TS_DT_bf16, CHUNK);
    first = on_device(x, CHUNK * 2);
    free(x);
  }
  char *at = on_device(NULL, n * 2);
  for (int64_t i = 0; i < n; i += CHUNK)
    MUST(gpu->copy(gpu, at + i * 2, gpu, first, (n - i < CHUNK ? n - i : CHUNK) * 2, &err));
  return at;
}

static double burst(void *record) {
  static void *from, *to;
  double usec = 0;
  if (!from) MUST(gpu->run->event_new(gpu, &from, &err));
  if (!to) MUST(gpu->run->event_new(gpu, &to, &err));
  MUST(gpu->synchronize(gpu, &err));
  usleep(5000);
  MUST(gpu->run->record_launch(gpu, record, &err));
  MUST(gpu->run->event_record(gpu, from, NULL, &err));
  MUST(gpu->run->record_launch(gpu, record, &err));
  MUST(gpu->run->event_record(gpu, to, NULL, &err));
  MUST(gpu->run->event_wait(gpu, to, &err));
  MUST(gpu->run->event_usec(gpu, from, to, &usec, &err));
  return usec / TIMES;
}

static double speed(const Kernel *k, const Shape *s, void *(*arg)[4], int sets) {
  double usec[BURSTS];
  void *record;
  run(k, s, arg[0]);
  MUST(gpu->run->record_begin(gpu, &err));
  for (int i = 0; i < TIMES; i++) run(k, s, arg[i % sets]);
  MUST(gpu->run->record_end(gpu, &record, &err));
  for (int i = 0; i < BURSTS; i++) usec[i] = burst(record);
  gpu->run->record_free(gpu, record);
  qsort(usec, BURSTS, sizeof *usec, by_time);
  return usec[BURSTS / 2];
}

static void bench(int d, int64_t b, int64_t t, char **more, int nmore) {
  Shape s = {.j = b * 8, .e = 8, .t = t, .c = TS_GPU_DECODE_CHUNK};
  int64_t nk = s.j * t * d, nq = s.j * s.e * d;
  double bytes = 4.0 * (double)nk;
  int sets = (int)(400e6 / bytes) + 1;
  void *arg[MOST_SETS][4];
  if (sets > MOST_SETS) sets = MOST_SETS;
  for (int i = 0; i < sets; i++) {
    arg[i][0] = random_device(nq), arg[i][1] = random_device(nk);
    arg[i][2] = random_device(nk), arg[i][3] = on_device(NULL, nq * 2);
  }
  alarm(30);
  printf("decode d%d B%lld S%lld", d, (long long)b, (long long)t);
  for (int i = -1; i < nmore; i++) {
    if (i >= 0 &&
        sscanf(more[i], "%" SCNd64 "x%" SCNd64 "x%" SCNd64, &s.c, &s.n, &s.longs) != 3)
      continue;
    if (i >= 0 && s.c * 128 > t) continue;
    TsGpuDecode x = ts_gpu_decode(
        TS_DT_bf16, d, 8, ts_gpu_decode_chunks(&(TsGpuDecode){.queries = 1}, s.j, t, s.c));
    Kernel k = load(&x);
    double usec = speed(&k, &s, arg, sets);
    printf("  %lldx%lld %.1f us %.2f TB/s", (long long)s.c, (long long)s.n, usec,
           bytes / usec * 1e-6);
    unload_tile(&k.code);
  }
  printf("\n");
  alarm(0);
  for (int i = 0; i < sets; i++)
    for (int k = 0; k < 4; k++) gpu->free(gpu, arg[i][k], (k % 3 ? nk : nq) * 2 + 256);
}

/* b:t, then parts. */
static void bench_some(int n, char **word) {
  for (int i = 0, end; i < n; i = end) {
    int64_t b = 1, t = 4096;
    for (end = i + 1; end < n && !strchr(word[end], ':');) end++;
    sscanf(word[i], "%" SCNd64 ":%" SCNd64, &b, &t);
    bench(128, b, t, word + i + 1, end - i - 1);
  }
}

static void bench_all(void) {
  static const int64_t size[][2] = {{1, 4096},   {16, 4096},  {64, 4096},
                                    {16, 32768}, {64, 16384}, {1, 131072},
                                    {8, 4096},   {1, 32768},  {8, 32768}};
  for (int d = 128; d >= 64; d -= 64)
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
      bench(d, size[i][0], size[i][1], NULL, 0);
}

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  gpu = ts_device_find("cuda:0", &err);
  if (!gpu || !gpu->run || !ts_target_has(gpu->target, TS_UNIT_roles))
    return skip("no GPU that has the unit");
  MUST(ts_device_use(gpu, &err));
  if (argc > 1 && !strcmp(argv[1], "--bench"))
    return argc > 2 ? bench_some(argc - 2, argv + 2) : bench_all(), 0;
  check_all();
  printf("%s\n", failed ? "FAILED" : "all right");
  return failed != 0;
}
