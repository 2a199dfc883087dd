/* Products of bf16 by the processor's matrix unit (vm/kernels/gemm/amx.h), in the profile "fast".
 *
 * A round is a block of rows by a strip of columns, by one thread, along k in parts. For each
 * part panels of 32 columns are packed as pairs, and all rows of the block pass by each; these
 * lie in the second cache, which they reach once for a whole strip, and sums wait there between
 * two parts. Rows are read where they lie, 64 bytes of each at a time, where their steps are side
 * by side and not at equal places of their pages; else the block's are packed for each part. Every
 * shape goes this way, few rows too, so that a row has the same bits in any batch.
 *
 * Sizes are those that measured best of a dozen on a Sapphire Rapids (2 MiB of second cache): parts
 * of 256 steps leave room in the first cache for rows and columns, which is worth the visits of
 * sums (parts of 512 and 1024 had 0.8 to 0.9 of the speed for 1024 and 2048 cubed), but 512 in two
 * parts have 0.75 of one. Asking for the result's lines ahead cost 5 to 12%. */
#include "vm/gemm/pairs_job.h"

enum {
  WHOLE = 512, /* steps of k that are one part, */
  KC = 256,    /* of more of them those of one */
  ROWS = 512,
  STRIP = 512,
  PAGE = 4096,
  GROUP = 4, /* panels that are packed together, */
  SOME = 64, /* so many steps at a time */
  MR = TS_AMX_ROWS,
  NR = TS_AMX_COLS,
  STEPS = TS_AMX_STEPS
};

typedef struct Amx {
  const TsGemm *g;
  const TsKernels *k;
  int64_t blocks, rows;  /* of rows; rows of one */
  int64_t strips, strip; /* of columns; columns of one */
  int64_t kc;
  bool in_place;
  char *mem;
  size_t worker_bytes;
} Amx;

typedef struct Round {
  const Amx *p;
  GemmPairsEnd end;
  const uint16_t *a, *b;
  int64_t m, n;      /* rows, columns */
  uint32_t *columns; /* a panel of one part */
  char *own_rows;
  float *sums;
} Round;

/* Panels of columns from col on for a part of k, some steps of all of them at a time: each row of B
 * lies in a page of its own. */
static void pack_columns(const Round *r, int64_t col, int64_t k0, int64_t nk) {
  const Amx *p = r->p;
  const TsGemm *g = p->g;
  int64_t room = p->kc / 2 * NR, whole = gemm_up(nk, STEPS);
  int64_t n = gemm_min(GROUP * NR, r->n - col);
  for (int64_t k = 0; k < nk; k += SOME)
    for (int64_t j = 0; j < n; j += NR)
      p->k->gemm_pairs.pack(r->columns + j / NR * room + k / 2 * NR, NR,
                            r->b + (k0 + k) * g->b_rs + (col + j) * g->b_cs, g->b_cs, g->b_rs,
                            gemm_min(NR, n - j), gemm_min(SOME, nk - k));
  for (int64_t j = 0; j < n; j += NR)
    for (int64_t i = gemm_div(nk, 2) * NR; i < whole / 2 * NR; i++)
      r->columns[j / NR * room + i] = 0;
}

/* A panel of columns by the round's rows, for one part of k. */
static void panel(const Round *r, const uint32_t *columns, int64_t col, int64_t k0,
                  int64_t nk) {
  const Amx *p = r->p;
  const TsGemm *g = p->g;
  const TsGemmAmxKernels *k = &p->k->gemm_amx;
  int64_t steps = gemm_div(nk, STEPS), n = gemm_min(NR, r->n - col);
  bool last = k0 + nk >= g->k;
  int open = MR;
  for (int64_t i = 0; i < r->m; i += MR) {
    int rows = (int)gemm_min(MR, r->m - i);
    float *sums = r->sums + (g->k > p->kc ? (col * p->rows + i * NR) : 0);
    if (rows != open) k->open(open = rows);
    if (p->in_place)
      k->block(rows, steps, r->a + i * g->a_rs + k0, g->a_rs * 2, STEPS * 2, columns, sums, NR,
               k0 > 0);
    else
      k->block(rows, steps, r->own_rows + i * p->kc * 2, STEPS * 2, MR * STEPS * 2, columns,
               sums, NR, k0 > 0);
    if (last) ts_gemm_pairs_end(&r->end, i, rows, col, n, sums, NR);
  }
  if (open != MR) k->open(MR);
}

static void part(const Round *r, int64_t k0, int64_t nk) {
  const Amx *p = r->p;
  const TsGemm *g = p->g;
  for (int64_t i = 0; i < r->m && !p->in_place; i += MR)
    p->k->gemm_amx.pack_rows(r->own_rows + i * p->kc * 2, r->a + i * g->a_rs + k0 * g->a_cs,
                             g->a_rs, g->a_cs, gemm_min(MR, r->m - i), nk);
  for (int64_t col = 0; col < r->n && !ts_cpu_interrupted(); col += GROUP * NR) {
    pack_columns(r, col, k0, nk);
    for (int64_t j = 0; j < GROUP && col + j * NR < r->n; j++)
      panel(r, r->columns + j * (p->kc / 2 * NR), col + j * NR, k0, nk);
  }
}

static void round_of(const Amx *p, int64_t i, int worker) {
  const TsGemm *g = p->g;
  char *mem = p->mem + (size_t)worker * p->worker_bytes;
  int64_t batch = i / (p->blocks * p->strips);
  i %= p->blocks * p->strips;
  int64_t m0 = i % p->blocks * p->rows, n0 = i / p->blocks * p->strip;
  Round r = {.p = p, .m = gemm_min(p->rows, g->m - m0)};
  r.n = gemm_min(p->strip, g->n - n0);
  r.a = (const uint16_t *)g->a + gemm_offset(g->a_batch, batch) + m0 * g->a_rs;
  r.b = (const uint16_t *)g->b + gemm_offset(g->b_batch, batch) + n0 * g->b_cs;
  r.end = (GemmPairsEnd){g, p->k, batch, m0, n0};
  r.columns = (uint32_t *)(void *)mem;
  r.sums = (float *)(void *)(r.columns + GROUP * (p->kc / 2 * NR));
  r.own_rows = (char *)(r.sums + (g->k > p->kc ? p->rows * gemm_up(p->strip, NR) : MR * NR));
  for (int64_t k = 0; k == 0 || k < g->k; k += p->kc) part(&r, k, gemm_min(p->kc, g->k - k));
}

static void rounds(void *arg, int64_t lo, int64_t hi, int worker) {
  const Amx *p = arg;
  p->k->gemm_amx.open(MR);
  for (int64_t i = lo; i < hi && !ts_cpu_interrupted(); i++) round_of(p, i, worker);
  p->k->gemm_amx.close();
}

/* n in equal pieces of at most `most`, multiples of unit, and `want` of them if they are not
 * smaller than `few`. */
static int64_t even(int64_t n, int64_t most, int64_t multiple, int64_t want, int64_t few) {
  int64_t pieces = gemm_div(n, most);
  if (pieces < want) pieces = gemm_min(want, n / few);
  if (pieces < 1) pieces = 1;
  return gemm_up(gemm_div(n, pieces), multiple);
}

static void plan(Amx *p, int threads) {
  const TsGemm *g = p->g;
  int64_t want = threads > 1 ? gemm_div(2 * threads, g->batch) : 1;
  p->kc = g->k <= WHOLE ? gemm_up(g->k, STEPS) : even(g->k, KC, STEPS, 1, 1);
  if (p->kc < STEPS) p->kc = STEPS;
  p->rows = even(g->m, ROWS, MR, 1, 1);
  p->blocks = gemm_div(g->m, p->rows);
  p->strip = even(g->n, STRIP, NR, gemm_div(want, p->blocks), 2 * NR);
  p->strips = gemm_div(g->n, p->strip);
  want = gemm_div(want, p->strips);
  if (p->blocks < want) {
    p->rows = even(g->m, ROWS, MR, want, 2 * MR);
    p->blocks = gemm_div(g->m, p->rows);
  }
  p->in_place = g->a_cs == 1 && g->k % STEPS == 0 && (g->a_rs * 2 % PAGE || g->m <= MR);
  int64_t sums = g->k > p->kc ? p->rows * gemm_up(p->strip, NR) : MR * NR;
  int64_t own = p->in_place ? 0 : gemm_up(p->rows, MR) * p->kc * 2;
  p->worker_bytes = (size_t)(GROUP * (p->kc / 2 * NR) * 4 + sums * 4 + own);
}

int ts_gemm_amx(const TsGemm *g, const TsKernels *k) {
  Amx p = {.g = g, .k = k};
  if (g->batch <= 0 || g->m <= 0 || g->n <= 0) return 0;
  int64_t work = g->batch * g->m * g->n * (g->k + 1);
  int threads = work > 8 << 20 && !g->alone ? ts_cpu_threads() : 1;
  plan(&p, threads);
  char *mem = ts_work_take((int64_t)threads * (int64_t)p.worker_bytes);
  if (!mem) return -1;
  p.mem = mem;
  int64_t count = g->batch * p.blocks * p.strips;
  if (threads == 1)
    rounds(&p, 0, count, 0);
  else
    ts_cpu_parallel(count, 1, rounds, &p);
  ts_work_give(mem);
  return 0;
}
