/* The ways of the matrix product that leave B where it lies: small products,
 * whose operands sit in the caches as they are, and skinny ones of few rows,
 * which are bound by reading B. */
#include "vm/gemm/job.h"

typedef struct Small {
  const GemmJob *j;
  int64_t batch;
  const char *x, *y;
  int64_t y_ks, y_panel; /* stride along k, bytes between panels */
} Small;

static const char *base(const GemmSide *s, int64_t batch) {
  return s->p + (s->batch ? s->batch[batch] : 0) * s->size;
}

static void small_rows(void *arg, int64_t lo, int64_t hi, int worker) {
  const Small *s = arg;
  const GemmJob *j = s->j;
  const TsGemmAcc *acc = j->acc;
  int mr = acc->mr, nr = acc->nr;
  (void)worker;
  int64_t end = gemm_min(hi * mr, j->m);
  for (int64_t i = lo * mr; i < end && !ts_cpu_interrupted(); i += mr) {
    int rows = (int)gemm_min(mr, j->m - i);
    const char *x = s->x + i * j->x.is * acc->nbytes, *y = s->y;
    char *c = ts_gemm_at(j, s->batch, i, 0);
    for (int64_t n = 0; n < j->n; n += nr, y += s->y_panel) {
      acc->tile(rows, (int)gemm_min(nr, j->n - n), j->k, x, j->x.is, j->x.ks, y, s->y_ks,
                c + n * acc->nbytes, j->c_rs, j->g->resume);
    }
    if (j->ends) ts_gemm_end(j, s->batch, i, rows, 0, j->n, c, j->c_rs);
  }
}

void ts_gemm_small(const GemmJob *j, const GemmPlan *p, int64_t batch, char *mem) {
  const TsGemmAcc *acc = j->acc;
  Small s = {.j = j, .batch = batch, .x = base(&j->x, batch), .y = base(&j->y, batch)};
  s.y_ks = j->y.ks;
  s.y_panel = acc->nr * acc->nbytes;
  if (p->y_bytes) {
    s.y = mem;
    s.y_ks = acc->nr;
    s.y_panel = acc->nr * j->k * acc->nbytes;
    for (int64_t n = 0; n < j->n; n += acc->nr) {
      ts_gemm_panel(&j->y, batch, mem + n * j->k * acc->nbytes, acc->nr, n,
                    gemm_min(acc->nr, j->n - n), 0, j->k);
    }
  }
  gemm_spread(p->serial, gemm_div(j->m, acc->mr), 1, small_rows, &s);
}

/* Each worker packs the rows for itself, [rows / width][k][width], behind a line that tells
 * which steps of k they are: lines that another core has packed are slow to read, and slow to
 * write the next time. */
typedef struct Skinny {
  const GemmJob *j;
  const GemmPlan *p;
  int64_t batch, k0, k;
  char *workers, *acc;
} Skinny;

enum { HEAD = 64 };

static const char *skinny_rows(const Skinny *s, int worker) {
  const GemmJob *j = s->j;
  char *mem = s->workers + (size_t)worker * s->p->worker_bytes, *x = mem + HEAD;
  int width = ts_gemm_skinny_width(j->m);
  if (*(int64_t *)mem == s->k0) return x;
  *(int64_t *)mem = s->k0;
  for (int64_t i = 0; i < j->m; i += width)
    ts_gemm_panel(&j->x, s->batch, x + i * s->k * j->acc->nbytes, width, i,
                  gemm_min(width, j->m - i), s->k0, s->k);
  return x;
}

static void skinny_strip(const Skinny *s, int64_t col, int64_t cols, int worker) {
  const GemmJob *j = s->j;
  const GemmSide *y = &j->y;
  int64_t ld = s->acc ? j->n : j->c_rs;
  char *c = s->acc ? s->acc + col * j->acc->nbytes : ts_gemm_at(j, s->batch, 0, col);
  const char *b = base(y, s->batch) + (col * y->is + s->k0 * y->ks) * y->size;
  const char *x = skinny_rows(s, worker);
  bool resume = s->k0 > 0 || j->g->resume;
  if (y->is == 1) {
    j->acc->skinny_rows[j->g->in]((int)j->m, cols, s->k, x, b, y->ks, c, ld, resume);
  } else {
    j->acc->skinny_dots[j->g->in]((int)j->m, cols, s->k, x, b, y->is, c, ld, resume);
  }
  if (s->k0 + s->k == j->k && j->ends) ts_gemm_end(j, s->batch, 0, j->m, col, cols, c, ld);
}

/* Long strips one by one. */
static void skinny_columns(void *arg, int64_t lo, int64_t hi, int worker) {
  const Skinny *s = arg;
  int64_t strip = s->p->strip, step = s->j->y.is == 1 ? strip : (hi - lo) * strip;
  int64_t end = gemm_min(hi * strip, s->j->n);
  for (int64_t col = lo * strip; col < end && !ts_cpu_interrupted(); col += step)
    skinny_strip(s, col, gemm_min(step, end - col), worker);
}

void ts_gemm_skinny(const GemmJob *j, const GemmPlan *p, int64_t batch, char *mem) {
  Skinny s = {.j = j, .p = p, .batch = batch};
  int64_t per_strip = p->strip * gemm_min(j->k, p->kc), grain = 65536 / (per_strip + 1) + 1;
  if (p->acc_bytes) s.acc = mem;
  s.workers = mem + p->acc_bytes;
  for (int i = 0; i < (p->serial ? 1 : ts_cpu_threads()); i++)
    *(int64_t *)(s.workers + (size_t)i * p->worker_bytes) = -1;
  for (; s.k0 < j->k && !ts_cpu_interrupted(); s.k0 += p->kc) {
    s.k = gemm_min(p->kc, j->k - s.k0);
    gemm_spread(p->serial, gemm_div(j->n, p->strip), grain, skinny_columns, &s);
  }
}
