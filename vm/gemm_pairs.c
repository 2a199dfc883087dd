/* Products of bf16 two steps of k at a time, where the processor has the instruction and the
 * profile is "fast". A round is a panel of 64 columns by a block of rows: the panel's steps are
 * packed as pairs, 64 KiB at a time, and all rows meet them; rows of A stay where they lie if
 * their pairs do. Every shape goes this way, few rows too, so that a row has the same bits in
 * any batch. */
#include "vm/gemm_pairs.h"

#include "devices/cpu_pool.h"

enum {
  KC = 512,        /* steps of k that are packed at a time */
  ROWS = 1536,     /* of a block, whose sums wait in the second cache */
  FEW = 48,        /* rows that a panel is not packed for twice */
  STEPS = 64,      /* of k that few rows take at a time */
  SUMS = 24 << 10, /* bytes that stay in the first cache */
  MR = TS_PAIRS_ROWS,
  NR = TS_PAIRS_COLS
};

typedef struct Pairs {
  const TsGemm *g;
  const TsKernels *k;
  int64_t panels, pieces, rows; /* of columns, of rows; rows of a piece */
  int64_t strip, strips;        /* of few rows: columns of a strip */
  char *mem;
  size_t worker_bytes;
  bool in_place;
} Pairs;

typedef struct Round {
  const Pairs *p;
  const uint16_t *a, *b;
  int64_t batch, m0, m, n0, n;
  uint32_t *columns, *own_rows;
  float *sums;
} Round;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t of_batch(const int64_t *at, int64_t i) { return at ? at[i] : 0; }

static int64_t size_of(TsGemmType t) {
  static const uint8_t size[TS_GEMM_COUNT] = {[TS_GEMM_f32] = 4,
                                              [TS_GEMM_bf16] = 2,
                                              [TS_GEMM_f16] = 2,
                                              [TS_GEMM_e4m3] = 1,
                                              [TS_GEMM_e5m2] = 1};
  return size[t];
}

static char *result_at(const Round *r, int64_t row) {
  const TsGemm *g = r->p->g;
  int64_t at = of_batch(g->c_batch, r->batch) + (r->m0 + row) * g->c_rs + r->n0 * g->c_cs;
  return (char *)g->c + at * size_of(g->out);
}

/* Rows of the round from row `first` on are done; ld: of the sums. */
static void end(const Round *r, int64_t first, int64_t rows, const float *sums, int64_t ld) {
  const TsGemm *g = r->p->g;
  const TsKernels *k = r->p->k;
  for (int64_t i = 0; g->finish && i < rows; i++)
    g->finish(g->finish_arg, (float *)sums + i * ld, r->batch, r->m0 + first + i, r->n0, r->n);
  if (g->out == TS_GEMM_bf16 && g->c_cs == 1 &&
      k->gemm_pairs.store(rows, r->n, sums, ld, result_at(r, first), g->c_rs))
    return;
  for (int64_t i = 0; i < rows; i++)
    k->gemm.f32->store[g->out](result_at(r, first + i), g->c_cs, sums + i * ld, r->n);
}

/* The lines of the result that a tile ends in are few and far apart. */
static void ask_for_results(const Round *r, int64_t first, int64_t rows) {
  int64_t nbytes = r->p->g->c_cs == 1 ? r->n * size_of(r->p->g->out) : 0;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t at = 0; at < nbytes; at += 64)
      __builtin_prefetch(result_at(r, first + i) + at, 1);
}

static void step(const Round *r, int64_t k0, int64_t nk) {
  const TsGemm *g = r->p->g;
  const TsGemmPairsKernels *k = &r->p->k->gemm_pairs;
  bool last = k0 + nk >= g->k;
  k->pack(r->columns, NR, r->b + k0 * g->b_rs + r->n0 * g->b_cs, g->b_cs, g->b_rs, r->n, nk);
  for (int64_t i = 0; i < r->m; i += MR) {
    int rows = (int)least(MR, r->m - i);
    const uint16_t *a = r->a + (r->m0 + i) * g->a_rs + k0 * g->a_cs;
    float *sums = r->sums + (g->k > KC ? i * NR : 0);
    if (last) ask_for_results(r, i, rows);
    if (r->p->in_place) {
      k->tile(rows, (int)r->n, div_up(nk, 2), a, g->a_rs * 2, 4, r->columns, sums, k0 > 0);
    } else {
      k->pack(r->own_rows, MR, a, g->a_rs, g->a_cs, rows, nk);
      k->tile(rows, (int)r->n, div_up(nk, 2), r->own_rows, 4, 4 * MR, r->columns, sums, k0 > 0);
    }
    if (last) end(r, i, rows, sums, NR);
  }
}

static void round_of(const Pairs *p, int64_t i, int worker) {
  const TsGemm *g = p->g;
  char *mem = p->mem + (size_t)worker * p->worker_bytes;
  Round r = {.p = p, .batch = i / (p->panels * p->pieces)};
  i %= p->panels * p->pieces;
  r.a = (const uint16_t *)g->a + of_batch(g->a_batch, r.batch);
  r.b = (const uint16_t *)g->b + of_batch(g->b_batch, r.batch);
  r.m0 = i % p->pieces * p->rows, r.m = least(p->rows, g->m - r.m0);
  r.n0 = i / p->pieces * NR, r.n = least(NR, g->n - r.n0);
  r.columns = (uint32_t *)(void *)mem;
  r.own_rows = r.columns + KC / 2 * NR;
  r.sums = (float *)(void *)(r.own_rows + KC / 2 * 16);
  for (int64_t k = 0; k == 0 || k < g->k; k += KC) step(&r, k, least(KC, g->k - k));
}

static void rounds(void *arg, int64_t lo, int64_t hi, int worker) {
  for (int64_t i = lo; i < hi; i++) round_of(arg, i, worker);
}

/* ---- few rows against a B with contiguous rows: it is read once and not packed */
static bool are_few(const TsGemm *g) {
  return g->m <= 2 * MR && g->b_cs == 1 && g->n >= NR && g->k;
}

/* A strip of whole panels; the columns that are left are a round of the usual way. */
static void few_strip(const Pairs *p, int64_t i, int worker) {
  const TsGemm *g = p->g;
  const TsGemmPairsKernels *k = &p->k->gemm_pairs;
  int64_t batch = i / p->strips, n0 = i % p->strips * p->strip, n = p->panels * NR - n0;
  int64_t pairs = div_up(g->k, 2);
  uint32_t *rows = (uint32_t *)(void *)(p->mem + (size_t)worker * p->worker_bytes);
  float *sums = (float *)(void *)(rows + 2 * MR * pairs + 16);
  const uint16_t *a = (const uint16_t *)g->a + of_batch(g->a_batch, batch);
  const uint16_t *b = (const uint16_t *)g->b + of_batch(g->b_batch, batch) + n0;
  n = least(p->strip, n);
  for (int64_t m = 0; m < g->m; m += MR)
    k->pack(rows + m * pairs, MR, a + m * g->a_rs, g->a_rs, g->a_cs, least(MR, g->m - m), g->k);
  for (int64_t k0 = 0; k0 < g->k; k0 += STEPS)
    for (int64_t m = 0; m < g->m; m += MR)
      k->few((int)least(MR, g->m - m), n, least(STEPS, g->k - k0),
             rows + m * pairs + k0 / 2 * MR, 4, 4 * MR, b + k0 * g->b_rs, g->b_rs,
             sums + m * p->strip, p->strip, k0 > 0);
  Round r = {.p = p, .batch = batch, .m = g->m, .n0 = n0, .n = n, .sums = sums};
  end(&r, 0, g->m, sums, p->strip);
}

static void few_strips(void *arg, int64_t lo, int64_t hi, int worker) {
  for (int64_t i = lo; i < hi; i++) few_strip(arg, i, worker);
}

static void plan_few(Pairs *p, int threads) {
  const TsGemm *g = p->g;
  int64_t most = SUMS / (4 * least(g->m, MR)) / NR * NR;
  p->panels = g->n / NR;
  p->strip = least(div_up(p->panels, threads) * NR, most);
  p->strips = div_up(p->panels * NR, p->strip);
  int64_t rows = 2 * MR * div_up(g->k, 2) + 16;
  p->worker_bytes = (size_t)((rows * 4 + 2 * MR * p->strip * 4 + 63) / 64 * 64);
}

static void plan(Pairs *p, int threads) {
  const TsGemm *g = p->g;
  p->panels = div_up(g->n, NR);
  p->pieces = div_up(g->m, ROWS);
  int64_t want = div_up(4 * threads, p->panels * g->batch), most = div_up(g->m, FEW);
  if (threads > 1 && p->pieces < want) p->pieces = least(want, most);
  p->rows = div_up(div_up(g->m, p->pieces), MR) * MR;
  p->pieces = div_up(g->m, p->rows);
  p->in_place = g->a_cs == 1 && g->k % 2 == 0;
  p->worker_bytes = (size_t)(KC / 2 * (NR + 16) * 4 + p->rows * NR * 4);
}

bool ts_gemm_pairs_has(const TsKernels *k, TsGemmType in, TsGemmType out) {
  return in == TS_GEMM_bf16 && k->gemm_pairs.tile && out != TS_GEMM_f64 &&
         k->gemm.f32->store[out];
}

static int run(Pairs *p, int threads, int64_t count, TsTask *task) {
  TsGemmBuffer *buffer = ts_gemm_take((size_t)threads * p->worker_bytes);
  if (!buffer) return -1;
  p->mem = (char *)(buffer + 1);
  if (threads == 1)
    task(p, 0, count, 0);
  else
    ts_cpu_parallel(count, 1, task, p);
  ts_gemm_give(buffer);
  return 0;
}

/* What few_strips leaves: the last columns of each matrix. */
static void last_panels(void *arg, int64_t lo, int64_t hi, int worker) {
  const Pairs *p = arg;
  for (int64_t i = lo; i < hi; i++)
    for (int64_t r = 0; r < p->pieces; r++)
      round_of(p, ((i + 1) * p->panels - 1) * p->pieces + r, worker);
}

int ts_gemm_pairs(const TsGemm *g, const TsKernels *k) {
  Pairs p = {.g = g, .k = k};
  if (g->batch <= 0 || g->m <= 0 || g->n <= 0) return 0;
  int64_t work = g->batch * g->m * g->n * (g->k + 1);
  int threads = work > 1 << 20 && !g->alone ? ts_cpu_threads() : 1;
  bool few = are_few(g);
  if (few) {
    plan_few(&p, threads);
    if (run(&p, threads, g->batch * p.strips, few_strips)) return -1;
    if (g->n % NR == 0) return 0;
  }
  plan(&p, threads);
  if (few) return run(&p, threads, g->batch, last_panels);
  return run(&p, threads, g->batch * p.panels * p.pieces, rounds);
}
