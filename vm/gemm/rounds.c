/* The usual way of the matrix product: rounds that share nothing. A round is a block of rows by
 * a strip of columns, by one thread, along all of k in steps of kc. The strip's columns for one
 * step are packed into panels that stay in the L2 cache; the first rows to need them read them
 * where they lie and pack on the way (round_first), which hides packing behind multiply-adds.
 * Rows of A are read where they lie as well, unless they have to be widened or both strides are
 * wide, or lie side by side and are few to a line: then a panel at a time is copied. While a
 * tile is computed the caches are asked for the next one's rows and sums.
 *
 * Threads that pack the same columns twice are cheaper than threads that wait for each other: a
 * barrier for each step of k, and lines that another core has read are slow to write. What is
 * dear to pack goes the packed way (vm/gemm/packed.c). Chains go on from one step of k to the next
 * through memory: in C itself if C can hold accumulators, else in a buffer of the thread. */
#include "vm/gemm/job.h"

enum {
  STRIP_BYTES = 512 << 10, /* of packed columns */
  OWN_ROWS = 1024,         /* of a block whose accumulators wait in a buffer */
  LINE = 64,
  ROWS_FAR = 12 << 20, /* bytes of A from which its rows are asked for */
  MOST_PIECES = 4      /* of the rows, for each thread */
};

/* ---- the plan */
static int64_t even(int64_t n, int64_t most, int64_t multiple) {
  int64_t pieces = gemm_div(n, most > multiple ? most : multiple);
  return pieces < 1 ? multiple : gemm_up(gemm_div(n, pieces), multiple);
}

/* Time of all rounds, in steps of one element: the busiest thread's. Each round reads its rows
 * and packs its columns, which costs as much as some columns and rows more. */
static double cost(const GemmJob *j, int threads, int64_t strips, int64_t pieces, bool dear_y) {
  const TsGemmAcc *acc = j->acc;
  double rows = (double)gemm_up(gemm_div(j->m, pieces), acc->round_mr);
  double cols = (double)gemm_up(gemm_div(j->n, strips), acc->round_nr);
  int64_t rounds = strips * pieces, most = gemm_div(rounds, threads);
  double each = rows * cols + (dear_y ? 8 : 2) * cols + 4 * rows;
  /* Several rounds a thread even out what the machine does besides. */
  return each * (double)most * (1 + 0.02 / (double)most);
}

/* Strips that fit, and pieces of the rows that keep the threads equally busy. */
static void cut(const GemmJob *j, GemmPlan *p, int threads) {
  bool dear_y = j->y.is != 1 || !j->acc->round_first[j->g->in];
  int64_t fit =
      gemm_div(j->n, gemm_up(STRIP_BYTES / (p->kc * j->acc->nbytes), j->acc->round_nr));
  int64_t most = gemm_div(j->m, 4 * j->acc->round_mr), strips = fit;
  double best = 0;
  p->pieces = 1;
  for (int64_t s = fit; threads > 1 && s <= fit + threads && s * j->acc->round_nr <= j->n + 63;
       s++)
    for (int64_t r = 1; r <= MOST_PIECES * threads && r <= most; r++) {
      double c = cost(j, threads, s, r, dear_y);
      if (best == 0 || c < best) best = c, strips = s, p->pieces = r;
    }
  p->strip = even(j->n, gemm_div(j->n, strips), j->acc->round_nr);
}

/* natural: the operands are of the accumulators' type. */
void ts_gemm_plan_rounds(const GemmJob *j, GemmPlan *p, int threads, bool natural) {
  const TsGemmAcc *acc = j->acc;
  int64_t size = acc->nbytes, mr = acc->round_mr;
  p->kc = even(j->k, acc->kc, LINE / size);
  cut(j, p, threads);
  bool buffered = !j->direct && j->k > p->kc;
  if (buffered) p->pieces = gemm_div(j->m, gemm_min(OWN_ROWS, gemm_div(j->m, p->pieces)));
  p->mc = gemm_up(gemm_div(j->m, p->pieces), mr);
  p->x_stays = natural && (j->x.ks == 1 || (j->x.is == 1 && acc->round_transposed));
  p->acc_bytes = 0;
  p->y_bytes = 0;
  p->own_bytes = j->direct ? 0 : (size_t)((buffered ? p->mc : mr) * p->strip * size);
  size_t x_bytes = p->x_stays ? 0 : (size_t)gemm_up((mr * p->kc + 16) * size, LINE);
  p->worker_bytes = (size_t)(p->strip * p->kc * size) + x_bytes + p->own_bytes;
}

/* ---- a round */
typedef struct Round {
  const GemmJob *j;
  const GemmPlan *p;
  int64_t batch;
  int64_t m0, m, n0, n, k0, k; /* of this round, of this step */
  char *y, *x, *own;           /* packed columns, packed rows, accumulators */
} Round;

/* One panel of rows. */
typedef struct Rows {
  const char *p;
  int64_t is, ks; /* strides */
} Rows;

static char *address(const GemmSide *s, int64_t batch, int64_t i, int64_t k) {
  return (char *)s->p + ((s->batch ? s->batch[batch] : 0) + i * s->is + k * s->ks) * s->size;
}

static Rows rows_at(const Round *r, int64_t row, int rows) {
  const GemmSide *s = &r->j->x;
  const char *at = address(s, r->batch, r->m0 + row, r->k0);
  int64_t mr = r->j->acc->round_mr, size = r->j->acc->nbytes;
  if (r->p->x_stays) return (Rows){at, s->is, s->ks};
  if (s->ks != 1) {
    s->pack(r->x, (int)mr, at, s->is, s->ks, rows, r->k);
    return (Rows){r->x, 1, mr};
  }
  /* A row as one step of a panel that is as wide as the row is long; the next one comes closer. */
  for (int i = 0; i < rows; i++) {
    const char *next = at + (i + 1) * s->is * s->size;
    for (int64_t k = 0; i + 1 < rows && k < r->k * s->size; k += LINE)
      __builtin_prefetch(next + k);
    s->pack(r->x + i * r->k * size, (int)r->k, at + i * s->is * s->size, 1, 0, r->k, 1);
  }
  return (Rows){r->x, r->k, 1};
}

/* Functions that only ask for lines stand where they are called: GCC 12 takes a call of such a one
 * for one that does nothing, and leaves it out. */
#define ASKING static inline __attribute__((always_inline)) void

ASKING ask_for_lines(const char *p, int64_t nbytes) {
  for (int64_t i = 0; i < nbytes; i += LINE) __builtin_prefetch(p + i, 0, 2);
}

/* Part `part` of `parts` of the rows that come next, where they lie, if that is not the caches
 * (2048 cubed and 4096 cubed on one thread of a Zen 5 1.02; 1024 cubed 0.98). */
ASKING ask_for_rows(const Round *r, int64_t row, int64_t part, int64_t columns) {
  const GemmSide *s = &r->j->x;
  int64_t rows = gemm_min(r->j->acc->round_mr, r->m - row), share;
  if (s->ks != 1 || rows <= 0 || r->j->m * r->j->k * s->size < ROWS_FAR) return;
  share = gemm_up(gemm_div(r->k * s->size, columns), LINE);
  int64_t from = gemm_min(part * share, r->k * s->size);
  int64_t nbytes = gemm_min(share, r->k * s->size - from);
  for (int64_t i = 0; i < rows; i++)
    ask_for_lines(address(s, r->batch, r->m0 + row + i, r->k0) + from, nbytes);
}

ASKING ask_for_sums(const char *c, int64_t rows, int64_t cols, int64_t ld, int64_t size) {
  for (int64_t i = 0; i < rows; i++, c += ld * size)
    for (int64_t at = 0; at < cols * size; at += LINE) __builtin_prefetch(c + at, 1);
}

static char *panel_of(const Round *r, int64_t col) {
  return r->y + col * r->k * r->j->acc->nbytes;
}

/* Whether the first rows pack the panel at col on the way. */
static bool on_the_way(const Round *r, int64_t col) {
  const TsGemmAcc *acc = r->j->acc;
  bool whole = r->m >= acc->round_mr && r->n - col >= acc->round_nr;
  bool rows = r->j->x.ks == 1 || r->j->x.is == 1 || !r->p->x_stays;
  return whole && rows && r->j->y.is == 1 && acc->round_first[r->j->g->in];
}

static void pack_columns(const Round *r) {
  int64_t nr = r->j->acc->round_nr;
  for (int64_t col = 0; col < r->n; col += nr)
    if (!on_the_way(r, col))
      ts_gemm_panel(&r->j->y, r->batch, panel_of(r, col), (int)nr, r->n0 + col,
                    gemm_min(nr, r->n - col), r->k0, r->k);
}

static void tile(const Round *r, const Rows *x, int64_t row, int rows, int64_t col, char *c,
                 int64_t ld) {
  const TsGemmAcc *acc = r->j->acc;
  const GemmSide *y = &r->j->y;
  bool resume = r->k0 > 0 || r->j->g->resume;
  int cols = (int)gemm_min(acc->round_nr, r->n - col);
  if (row == 0 && on_the_way(r, col)) {
    acc->round_first[r->j->g->in](r->k, x->p, x->is, x->ks,
                                  address(y, r->batch, r->n0 + col, r->k0), y->ks,
                                  panel_of(r, col), c, ld, resume);
  } else {
    acc->round(rows, cols, r->k, x->p, x->is, x->ks, panel_of(r, col), c, ld, resume);
  }
}

static void panel(const Round *r, int64_t row, int rows, char *c, int64_t ld) {
  int64_t nr = r->j->acc->round_nr, size = r->j->acc->nbytes, columns = gemm_div(r->n, nr);
  Rows x = rows_at(r, row, rows);
  for (int64_t col = 0; col < r->n; col += nr) {
    bool last = col + nr >= r->n;
    const char *next = last ? c + rows * ld * size : c + (col + nr) * size;
    if (!last || row + rows < r->m) ask_for_sums(next, rows, gemm_min(nr, r->n), ld, size);
    ask_for_rows(r, row + rows, col / nr, columns);
    tile(r, &x, row, rows, col, c + col * size, ld);
  }
}

static void step(Round *r) {
  const GemmJob *j = r->j;
  int64_t mr = j->acc->round_mr, size = j->acc->nbytes;
  bool last = r->k0 + r->k >= j->k;
  pack_columns(r);
  for (int64_t i = 0; i < r->m && !ts_cpu_interrupted(); i += mr) {
    int rows = (int)gemm_min(mr, r->m - i);
    int64_t ld = j->direct ? j->c_rs : r->p->strip;
    char *c = r->own + (j->k > r->p->kc ? i * ld * size : 0);
    if (j->direct) c = ts_gemm_at(j, r->batch, r->m0 + i, r->n0);
    panel(r, i, rows, c, ld);
    if (last && j->ends) ts_gemm_end(j, r->batch, r->m0 + i, rows, r->n0, r->n, c, ld);
  }
}

/* A round's rows are whole panels, as many as its neighbours' or one less. */
static void set_rows(Round *r, int64_t piece) {
  int64_t mr = r->j->acc->round_mr, panels = gemm_div(r->j->m, mr), pieces = r->p->pieces;
  r->m0 = piece * panels / pieces * mr;
  r->m = gemm_min((piece + 1) * panels / pieces * mr, r->j->m) - r->m0;
}

static void rounds(void *arg, int64_t lo, int64_t hi, int worker) {
  Round r = *(const Round *)arg;
  const GemmPlan *p = r.p;
  r.y += (size_t)worker * p->worker_bytes;
  r.own = r.y + p->worker_bytes - p->own_bytes;
  r.x = r.y + (size_t)(p->strip * p->kc * r.j->acc->nbytes);
  for (int64_t i = lo; i < hi && !ts_cpu_interrupted(); i++) {
    set_rows(&r, i % p->pieces);
    r.n0 = i / p->pieces * p->strip;
    r.n = gemm_min(p->strip, r.j->n - r.n0);
    for (r.k0 = 0; r.m > 0 && (r.k0 == 0 || r.k0 < r.j->k); r.k0 += p->kc) {
      r.k = gemm_min(p->kc, r.j->k - r.k0);
      step(&r);
    }
  }
}

void ts_gemm_rounds(const GemmJob *j, const GemmPlan *p, int64_t batch, char *mem) {
  Round r = {.j = j, .p = p, .batch = batch, .y = mem};
  gemm_spread(p->serial, p->pieces * gemm_div(j->n, p->strip), 1, rounds, &r);
}
