/* Products of bf16 two steps of k at a time, where the processor has the instruction and the
 * profile is "fast". A round is a panel of 64 columns by a block of rows: the panel's steps are
 * packed as pairs, 64 KiB at a time, and all rows meet them; rows of A stay where they lie if
 * their pairs do. Every shape goes this way, few rows too, so that a row has the same bits in
 * any batch. */
#include "vm/gemm/pairs.h"

#include "vm/gemm/pairs_job.h"

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
  GemmPairsEnd end;
  const uint16_t *a, *b; /* of the round's first row, first column */
  int64_t m, n;          /* rows, columns */
  uint32_t *columns, *own_rows;
  float *sums;
} Round;

static void step(const Round *r, int64_t k0, int64_t nk) {
  const TsGemm *g = r->p->g;
  const TsGemmPairsKernels *k = &r->p->k->gemm_pairs;
  bool last = k0 + nk >= g->k;
  k->pack(r->columns, NR, r->b + k0 * g->b_rs, g->b_cs, g->b_rs, r->n, nk);
  for (int64_t i = 0; i < r->m && !ts_cpu_interrupted(); i += MR) {
    int rows = (int)gemm_min(MR, r->m - i);
    const uint16_t *a = r->a + i * g->a_rs + k0 * g->a_cs;
    float *sums = r->sums + (g->k > KC ? i * NR : 0);
    void *to = last ? ts_gemm_pairs_place(&r->end, i, 0, r->n) : NULL;
    bool there;
    if (last) ts_gemm_pairs_ask(&r->end, i, rows, 0, r->n);
    if (r->p->in_place) {
      there = k->tile(rows, (int)r->n, gemm_div(nk, 2), a, g->a_rs * 2, 4, r->columns, sums,
                      k0 > 0, to, g->c_rs);
    } else {
      k->pack(r->own_rows, MR, a, g->a_rs, g->a_cs, rows, nk);
      there = k->tile(rows, (int)r->n, gemm_div(nk, 2), r->own_rows, 4, 4 * MR, r->columns,
                      sums, k0 > 0, to, g->c_rs);
    }
    if (last && !there) ts_gemm_pairs_end(&r->end, i, rows, 0, r->n, sums, NR);
  }
}

static void round_of(const Pairs *p, int64_t i, int worker) {
  const TsGemm *g = p->g;
  char *mem = p->mem + (size_t)worker * p->worker_bytes;
  int64_t batch = i / (p->panels * p->pieces);
  i %= p->panels * p->pieces;
  int64_t m0 = i % p->pieces * p->rows, n0 = i / p->pieces * NR;
  Round r = {.p = p, .end = {g, p->k, batch, m0, n0}};
  r.a = (const uint16_t *)g->a + gemm_offset(g->a_batch, batch) + m0 * g->a_rs;
  r.b = (const uint16_t *)g->b + gemm_offset(g->b_batch, batch) + n0 * g->b_cs;
  r.m = gemm_min(p->rows, g->m - m0), r.n = gemm_min(NR, g->n - n0);
  r.columns = (uint32_t *)(void *)mem;
  r.own_rows = r.columns + KC / 2 * NR;
  r.sums = (float *)(void *)(r.own_rows + KC / 2 * 16);
  for (int64_t k = 0; k == 0 || k < g->k; k += KC) step(&r, k, gemm_min(KC, g->k - k));
}

static void rounds(void *arg, int64_t lo, int64_t hi, int worker) {
  for (int64_t i = lo; i < hi && !ts_cpu_interrupted(); i++) round_of(arg, i, worker);
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
  int64_t pairs = gemm_div(g->k, 2);
  uint32_t *rows = (uint32_t *)(void *)(p->mem + (size_t)worker * p->worker_bytes);
  float *sums = (float *)(void *)(rows + 2 * MR * pairs + 16);
  const uint16_t *a = (const uint16_t *)g->a + gemm_offset(g->a_batch, batch);
  const uint16_t *b = (const uint16_t *)g->b + gemm_offset(g->b_batch, batch) + n0;
  n = gemm_min(p->strip, n);
  for (int64_t m = 0; m < g->m; m += MR)
    k->pack(rows + m * pairs, MR, a + m * g->a_rs, g->a_rs, g->a_cs, gemm_min(MR, g->m - m),
            g->k);
  for (int64_t k0 = 0; k0 < g->k && !ts_cpu_interrupted(); k0 += STEPS)
    for (int64_t m = 0; m < g->m; m += MR)
      k->few((int)gemm_min(MR, g->m - m), n, gemm_min(STEPS, g->k - k0),
             rows + m * pairs + k0 / 2 * MR, 4, 4 * MR, b + k0 * g->b_rs, g->b_rs,
             sums + m * p->strip, p->strip, k0 > 0);
  GemmPairsEnd end = {g, p->k, batch, 0, n0};
  ts_gemm_pairs_end(&end, 0, g->m, 0, n, sums, p->strip);
}

static void few_strips(void *arg, int64_t lo, int64_t hi, int worker) {
  for (int64_t i = lo; i < hi && !ts_cpu_interrupted(); i++) few_strip(arg, i, worker);
}

static void plan_few(Pairs *p, int threads) {
  const TsGemm *g = p->g;
  int64_t most = SUMS / (4 * gemm_min(g->m, MR)) / NR * NR;
  p->panels = g->n / NR;
  p->strip = gemm_min(gemm_div(p->panels, threads) * NR, most);
  p->strips = gemm_div(p->panels * NR, p->strip);
  int64_t rows = 2 * MR * gemm_div(g->k, 2) + 16;
  p->worker_bytes = (size_t)((rows * 4 + 2 * MR * p->strip * 4 + 63) / 64 * 64);
}

static void plan(Pairs *p, int threads) {
  const TsGemm *g = p->g;
  p->panels = gemm_div(g->n, NR);
  p->pieces = gemm_div(g->m, ROWS);
  int64_t want = gemm_div(4 * threads, p->panels * g->batch), most = gemm_div(g->m, FEW);
  if (threads > 1 && p->pieces < want) p->pieces = gemm_min(want, most);
  p->rows = gemm_div(gemm_div(g->m, p->pieces), MR) * MR;
  p->pieces = gemm_div(g->m, p->rows);
  p->in_place = g->a_cs == 1 && g->k % 2 == 0;
  p->worker_bytes = (size_t)(KC / 2 * (NR + 16) * 4 + p->rows * NR * 4);
}

bool ts_gemm_pairs_has(const TsKernels *k, TsGemmType in, TsGemmType out) {
  return in == TS_GEMM_bf16 && k->gemm_pairs.tile && out != TS_GEMM_f64 &&
         k->gemm.f32->store[out];
}

static int run(Pairs *p, int threads, int64_t count, TsTask *task) {
  char *mem = ts_work_take((int64_t)threads * (int64_t)p->worker_bytes);
  if (!mem) return -1;
  p->mem = mem;
  if (threads == 1)
    task(p, 0, count, 0);
  else
    ts_cpu_parallel(count, 1, task, p);
  ts_work_give(mem);
  return 0;
}

/* What few_strips leaves: the last columns of each matrix. */
static void last_panels(void *arg, int64_t lo, int64_t hi, int worker) {
  const Pairs *p = arg;
  for (int64_t i = lo; i < hi; i++)
    for (int64_t r = 0; r < p->pieces && !ts_cpu_interrupted(); r++)
      round_of(p, ((i + 1) * p->panels - 1) * p->pieces + r, worker);
}

int ts_gemm_pairs(const TsGemm *g, const TsKernels *k) {
  Pairs p = {.g = g, .k = k};
  if (g->batch <= 0 || g->m <= 0 || g->n <= 0) return 0;
  if (k->gemm_amx.block) return ts_gemm_amx(g, k);
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
