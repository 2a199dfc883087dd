/* The matrix product's entry: puts the problem into the form in which it runs,
 * chooses the way and the blocks, and keeps the packing buffers. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "vm/gemm/gemm.h"
#include "vm/gemm/job.h"

enum {
  L2_BYTES = 384 << 10,     /* packed rows of a worker, and a strip of columns */
  SHARED_BYTES = 3 << 20,   /* packed columns */
  SMALL_BYTES = 512 << 10,  /* both operands of a small product */
  ACC_BYTES = 8 << 20,      /* accumulators beside C */
  MIN_PANELS = 4,           /* of columns, in a group */
  ITEMS = 8,                /* of a worker, at least */
  SERIAL_WORK = 1 << 20,    /* multiply-adds not worth a second thread */
  SERIAL_BYTES = 1 << 20,   /* of B, and few rows: the same */
  SKINNY_K = 8192,          /* steps of k of a skinny product's packed rows */
  SKINNY_ALIGN = 384,       /* columns that all its kernels take without a rest */
  SKINNY_BYTES = 256 << 20, /* of B that one strip reads, between looks for interrupts */
};

static const uint8_t sizes[TS_GEMM_COUNT] = {4, 8, 2, 2, 1, 1, 1, 1, 2, 4, 8, 8, 16};

/* ---- the job ---- */

static bool is_complex(TsGemmType t) { return t == TS_GEMM_c64 || t == TS_GEMM_c128; }

static const TsGemmAcc *accumulator(const TsGemm *g, const TsGemmKernels *k) {
  switch (g->in) {
  case TS_GEMM_f64:
  case TS_GEMM_c128: return k->f64;
  case TS_GEMM_i8:
  case TS_GEMM_u8:
  case TS_GEMM_i16:
  case TS_GEMM_i32: return g->out == TS_GEMM_i64 ? k->i64 : k->i32;
  case TS_GEMM_i64: return k->i64;
  default: return k->f32;
  }
}

/* The accumulators' own type as an operand's or a result's. */
static bool is_natural(const GemmJob *j, const TsGemmKernels *k, TsGemmType t) {
  if (is_complex(t)) return true;
  if (j->acc == k->f32) return t == TS_GEMM_f32;
  if (j->acc == k->f64) return t == TS_GEMM_f64;
  return t == (j->acc == k->i32 ? TS_GEMM_i32 : TS_GEMM_i64);
}

static void set_sides(GemmJob *j) {
  const TsGemm *g = j->g;
  int size = sizes[g->in], reals = j->reals;
  j->x = (GemmSide){.p = g->a,
                    .is = g->a_rs,
                    .ks = g->a_cs,
                    .batch = g->a_batch,
                    .fill = g->fill_a,
                    .fill_arg = g->fill_a_arg,
                    .pack = j->acc->pack_a[g->in],
                    .size = size,
                    .i_reals = 1,
                    .k_reals = reals};
  j->y = (GemmSide){.p = g->b,
                    .is = g->b_cs,
                    .ks = g->b_rs,
                    .batch = g->b_batch,
                    .fill = g->fill_b,
                    .fill_arg = g->fill_b_arg,
                    .pack = j->acc->pack_b[g->in],
                    .size = size,
                    .i_reals = reals,
                    .k_reals = reals};
}

/* A batch of A over one B is one product of more rows, if the rows of A, and of
 * C, lie one after the other all through. */
static void fold_batch(GemmJob *j) {
  const TsGemm *g = j->g;
  if (g->batch < 2 || g->fill_a || g->fill_b || !g->a_batch || !g->c_batch) return;
  for (int64_t i = 1; i < g->batch; i++) {
    if (g->b_batch && g->b_batch[i] != g->b_batch[0]) return;
    if (g->a_batch[i] - g->a_batch[0] != i * g->m * g->a_rs) return;
    if (g->c_batch[i] - g->c_batch[0] != i * g->m * g->c_rs) return;
  }
  j->fold = g->m;
  j->m = g->m * g->batch;
  j->batch = 1;
}

static bool is_skinny(const GemmJob *j, const GemmSide *y, int64_t rows) {
  if (y->fill || j->k == 0 || rows > TS_GEMM_SKINNY) return false;
  return (y->is == 1 && j->acc->skinny_rows[j->g->in]) ||
         (y->ks == 1 && j->acc->skinny_dots[j->g->in] && rows <= 8);
}

/* C' = B' A' has the same bits (except of complex numbers, where the two
 * products of the imaginary part would change places). It serves when C' has
 * contiguous rows, and when there are few columns. */
static void swap_sides(GemmJob *j) {
  const TsGemm *g = j->g;
  bool few = j->n < j->m && is_skinny(j, &j->x, j->n) && !is_skinny(j, &j->y, j->m) &&
             (!g->resume || g->c_rs == 1);
  bool transposed = g->c_cs != 1 && g->c_rs == 1 && !g->bias && !g->finish && j->m > 1;
  if (j->reals == 2 || !(few || transposed)) return;
  GemmSide s = j->x;
  int64_t n = j->n, rs = j->c_rs;
  j->x = j->y, j->y = s;
  j->n = j->m, j->m = n;
  j->c_rs = j->c_cs, j->c_cs = rs;
  j->swapped = true;
}

static int make_job(GemmJob *j, const TsGemm *g, const TsGemmKernels *k) {
  *j = (GemmJob){.g = g,
                 .acc = accumulator(g, k),
                 .batch = g->batch,
                 .m = g->m,
                 .n = g->n,
                 .k = g->k,
                 .c_rs = g->c_rs,
                 .c_cs = g->c_cs};
  if (!j->acc->pack_a[g->in] || !j->acc->store[g->out]) return -2;
  if (is_complex(g->in) != is_complex(g->out)) return -2;
  j->reals = is_complex(g->in) ? 2 : 1;
  j->c_size = sizes[g->out];
  set_sides(j);
  fold_batch(j);
  swap_sides(j);
  j->direct = is_natural(j, k, g->out) && (j->c_cs == 1 || j->n == 1) &&
              !(j->swapped && (g->bias || g->finish));
  if (g->resume && (!j->direct || g->bias || g->finish)) return -2;
  j->ends = g->bias || g->finish || !j->direct;
  j->n *= j->reals;
  j->k *= j->reals;
  return 0;
}

/* ---- the plan ---- */

/* Splits n into equal pieces of at most `most`, multiples of unit. */
static int64_t even(int64_t n, int64_t most, int64_t multiple) {
  int64_t pieces = gemm_div(n, most > multiple ? most : multiple);
  return pieces < 1 ? multiple : gemm_up(gemm_div(n, pieces), multiple);
}

/* The groups of columns. Each worker should pack and read columns of its own, but rows are
 * packed once for each group: a compromise. */
static int64_t groups(const GemmJob *j, int threads) {
  int64_t n = 1, most = j->n / (MIN_PANELS * j->acc->nr);
  while (n < threads && n * n * j->m < threads * j->n) n++;
  return n < most ? n : most < 1 ? 1 : most;
}

static void plan_packed(const GemmJob *j, GemmPlan *p, int threads) {
  const TsGemmAcc *acc = j->acc;
  int64_t size = acc->nbytes, mr = acc->mr, nr = acc->nr;
  p->kc = even(j->k, acc->kc, 8);
  int64_t l2 = L2_BYTES / (acc->kc * size), n_groups = groups(j, threads);
  p->nc = even(j->n, SHARED_BYTES / (acc->kc * size), nr * n_groups);
  p->group = p->nc / n_groups;
  p->strip = even(p->group, l2, nr);
  p->mc = even(j->m, l2, mr);
  /* Enough items for the pool to spread evenly. */
  if (threads > 1) {
    int64_t few = gemm_up(gemm_div(j->m, gemm_div(ITEMS * threads, n_groups)), mr);
    p->mc = gemm_min(p->mc, few > 2 * mr ? few : 2 * mr);
  }
  p->m_chunk = j->m;
  p->pack_columns = even(p->group, gemm_min(1024, gemm_div(p->nc, 2 * threads)), nr);
  if (!j->direct && j->k > p->kc) {
    int64_t rows = gemm_up(ACC_BYTES / (p->nc * size) + 1, p->mc);
    p->m_chunk = gemm_min(rows, gemm_up(j->m, p->mc));
    p->acc_bytes = (size_t)(p->m_chunk * p->nc * size);
  }
  p->y_bytes = (size_t)gemm_up(p->nc * p->kc * size, 64);
  p->own_bytes = (size_t)gemm_up(mr * p->strip * size, 64);
  size_t x_bytes = (size_t)gemm_up(p->mc * p->kc * size, 64);
  p->worker_bytes = 64 + x_bytes + p->own_bytes;
}

/* Rows of B are read as long streams, so their strips are few: one or two for each thread. */
static void plan_skinny(const GemmJob *j, GemmPlan *p, int threads) {
  int64_t pieces = threads > 1 && j->n >= 4096 * threads ? 2 * threads : threads;
  int64_t multiple = j->n >= 768 * threads ? SKINNY_ALIGN : 64;
  p->kc = SKINNY_K;
  int64_t most = gemm_up(SKINNY_BYTES / (gemm_min(j->k, p->kc) * j->y.size + 1), multiple);
  p->strip = j->y.is == 1 ? gemm_min(gemm_up(gemm_div(j->n, pieces), multiple), most) : 32;
  /* Packing stores whole vectors: 64 bytes more. */
  int64_t rows = gemm_up(j->m, ts_gemm_skinny_width(j->m));
  int64_t nbytes = gemm_min(j->k, p->kc) * rows * j->acc->nbytes;
  p->worker_bytes = 64 + (size_t)gemm_up(nbytes + 64, 64);
  if (!j->direct) p->acc_bytes = (size_t)gemm_up(j->m * j->n * j->acc->nbytes, 64);
}

static void make_plan(const GemmJob *j, const TsGemmKernels *k, GemmPlan *p, int threads) {
  const TsGemmAcc *acc = j->acc;
  bool in_place = is_natural(j, k, j->g->in) && j->reals == 1 && !j->x.fill && !j->y.fill;
  int64_t small = (j->m + gemm_up(j->n, acc->nr)) * j->k * acc->nbytes;
  *p = (GemmPlan){.serial = false};
  p->serial = threads == 1 || j->m * j->n < SERIAL_WORK / (j->k + 1);
  if (j->reals == 1 && is_skinny(j, &j->y, j->m) &&
      (!in_place || !j->direct || j->n * j->k > (j->m == 1 && j->y.is != 1 ? 256 : 4096))) {
    p->way = GEMM_SKINNY;
    p->serial = threads == 1 || (p->serial && j->n * j->k * j->y.size < SERIAL_BYTES);
    plan_skinny(j, p, p->serial ? 1 : threads);
  } else if (in_place && j->direct && small <= SMALL_BYTES) {
    p->way = GEMM_SMALL;
    if (j->y.is != 1) p->y_bytes = (size_t)(gemm_up(j->n, acc->nr) * j->k * acc->nbytes);
  } else if (j->reals == 1 && !j->x.fill && !j->y.fill) {
    p->way = GEMM_ROUNDS;
    ts_gemm_plan_rounds(j, p, p->serial ? 1 : threads, in_place);
  } else {
    p->way = GEMM_PACKED;
    plan_packed(j, p, p->serial ? 1 : threads);
  }
  p->nbytes = p->y_bytes + p->acc_bytes + p->worker_bytes * (size_t)(p->serial ? 1 : threads);
}

/* ---- the batch ---- */

typedef struct Batch {
  const GemmJob *j;
  const GemmPlan *p;
  char *mem;
} Batch;

static void run(void *arg, int64_t lo, int64_t hi, int worker) {
  const Batch *b = arg;
  char *mem = b->mem + (size_t)worker * b->p->nbytes;
  for (int64_t i = lo; i < hi && !ts_cpu_interrupted(); i++) {
    if (b->p->way == GEMM_SMALL)
      ts_gemm_small(b->j, b->p, i, mem);
    else if (b->p->way == GEMM_SKINNY)
      ts_gemm_skinny(b->j, b->p, i, mem);
    else if (b->p->way == GEMM_ROUNDS)
      ts_gemm_rounds(b->j, b->p, i, mem);
    else
      ts_gemm_packed(b->j, b->p, i, mem);
  }
}

int ts_gemm(const TsGemm *g, const TsGemmKernels *k) {
  GemmJob j;
  GemmPlan p;
  int err = make_job(&j, g, k);
  if (err) return err;
  if (g->batch <= 0 || g->m <= 0 || g->n <= 0) return 0;
  int threads = g->alone ? 1 : ts_cpu_threads();
  int64_t work = j.m * j.n * (j.k + 1);
  /* Matrices that do not fill the pool one by one are spread as a whole. */
  bool spread = threads > 1 && j.batch > 1 && j.batch * (double)work > SERIAL_WORK &&
                (work < 32 * (double)SERIAL_WORK || j.batch >= 4 * threads);
  make_plan(&j, k, &p, spread ? 1 : threads);
  char stack[4096] __attribute__((aligned(64)));
  char *buffer = NULL;
  Batch b = {&j, &p, stack};
  size_t nbytes = p.nbytes * (size_t)(spread ? threads : 1);
  if (nbytes > sizeof stack) {
    b.mem = buffer = ts_work_take((int64_t)nbytes);
    if (!buffer) return -1;
  }
  if (spread)
    ts_cpu_parallel(j.batch, SERIAL_WORK / 8 / (work + 1) + 1, run, &b);
  else
    run(&b, 0, j.batch, 0);
  ts_work_give(buffer);
  return 0;
}
