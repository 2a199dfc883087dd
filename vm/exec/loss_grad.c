/* cross_entropy_grad. Of a row x of C numbers, with m, e = exp(x - m) and s = sum e as in
 * vm/exec/loss.c, r = 1 / s, and g the gradient of its loss (for the mean: of the result,
 * divided by the count of rows not ignored):
 *   target t, an index:        dx[j] = (e[j] r - o) g, o = smoothing / C, and
 *                              dx[t] = ((e[t] r - o) - (1 - smoothing)) g
 *   target p, probabilities:   dx[j] = ((e[j] r) sum(p') - p'[j]) g, p' as for the loss
 * in f32 for f32 and narrower floats, else f64, every operation rounded once, sums in the
 * canonical order. A row whose index is ignore_index gives 0. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/core/exec.h"
#include "vm/rows/leaf_sum.h"
#include "vm/core/scratch.h"

enum { MEAN, SUM, NONE };

typedef struct Job {
  const TsKernels *k;
  TsConvertFn *load, *store; /* NULL where the storage type is the wide one */
  int w;                     /* index of the wide type's kernels */
  int64_t esize, size, rows, n, ignored, reduction;
  const char *x;
  const int64_t *index; /* of each row, or NULL */
  const char *p;        /* or probabilities, in the wide type */
  const char *g;        /* in the wide type: of each row for none, else one */
  char *dx;
  double smoothing, counted;
  TsScratch scratch;     /* e, p', and a wide row of x */
  _Atomic int64_t wrong; /* the first row whose index is out of range, or -1 */
} Job;

static double rounded(const Job *j, double v) { return ts_leaf_rounded(j->w, v); }

static double value(const Job *j, const char *at, int64_t i) {
  return ts_leaf_get(j->w, at, i);
}
static void put(const Job *j, char *at, int64_t i, double v) { ts_leaf_put(j->w, at, i, v); }

/* p' and its sum. */
static double smoothed(const Job *j, const char *p, char *to) {
  double keep = rounded(j, 1 - j->smoothing), share = rounded(j, j->smoothing / (double)j->n);
  memcpy(to, p, (size_t)(j->n * j->size));
  for (int64_t i = 0; i < j->n && j->smoothing != 0; i++)
    put(j, to, i, rounded(j, rounded(j, value(j, to, i) * keep) + share));
  return ts_leaf_row(j->w, j->k->rows_grad.sum[j->w], to, NULL, j->n);
}

static double gradient_of(const Job *j, int64_t row) {
  double g = value(j, j->g, j->reduction == NONE ? row : 0);
  return j->reduction == MEAN ? rounded(j, g / j->counted) : g;
}

/* A row in the wide type whose dx holds e: its end, with s = sum e. */
static void end_row(Job *j, int64_t row, char *list, char *dx, double s) {
  double g = gradient_of(j, row), o = rounded(j, j->smoothing / (double)j->n);
  double r = rounded(j, 1 / s);
  if (j->p) {
    double t = smoothed(j, j->p + row * j->n * j->size, list);
    j->k->rows_grad.cross_entropy[j->w](dx, dx, j->n, r, 0, list, t, g);
    return;
  }
  int64_t t = j->index[row];
  double own = rounded(j, rounded(j, value(j, dx, t) * r) - o);
  j->k->rows_grad.cross_entropy[j->w](dx, dx, j->n, r, o, NULL, 0, g);
  put(j, dx, t, rounded(j, rounded(j, own - rounded(j, 1 - j->smoothing)) * g));
}

/* The error names the first wrong row, whichever thread meets one first. */
static void keep_first(_Atomic int64_t *wrong, int64_t row) {
  int64_t seen = atomic_load(wrong);
  while ((seen < 0 || row < seen) && !atomic_compare_exchange_weak(wrong, &seen, row)) {
  }
}

static bool counts(const Job *j, int64_t row) {
  return !j->index || j->index[row] != j->ignored;
}

/* The next rows from *at on that count, at most `most`; the others become zeros. */
static int take_rows(Job *j, int64_t *at, int64_t hi, int most, int64_t *row) {
  int n = 0;
  for (; *at < hi && n < most; ++*at) {
    if (!counts(j, *at))
      memset(j->dx + *at * j->n * j->esize, 0, (size_t)(j->n * j->esize));
    else if (j->index && (j->index[*at] < 0 || j->index[*at] >= j->n))
      keep_first(&j->wrong, *at);
    else
      row[n++] = *at;
  }
  return n;
}

/* Short rows go together, so that the processor overlaps them. */
static void rows(void *arg, int64_t lo, int64_t hi, int worker) {
  Job *j = arg;
  int64_t nbytes = j->n * j->size, row[TS_GRAD_ROWS];
  char *wide = ts_scratch_part(&j->scratch, worker), *list = wide + nbytes;
  int most = j->load || j->n > 1024 ? 1 : TS_GRAD_ROWS;
  for (int64_t i = lo; i < hi && !ts_cpu_interrupted();) {
    double sums[TS_GRAD_ROWS];
    char *dx[TS_GRAD_ROWS];
    int n = take_rows(j, &i, hi, most, row);
    for (int r = 0; r < n; r++) {
      const char *x = j->x + row[r] * j->n * j->esize;
      dx[r] = j->load ? wide : j->dx + row[r] * j->n * j->esize;
      if (j->load) j->load(j->n, wide, x), x = wide;
      j->k->rows_grad.exp[j->w](dx[r], x, j->n, j->k->rows.max[j->w](x, j->n));
    }
    TsRowSums a = {.rows = n, .n = j->n, .x = (const void *const *)dx, .out = sums};
    ts_leaf_rows(j->w, j->k->rows_grad.sum[j->w], &a);
    for (int r = 0; r < n; r++) {
      end_row(j, row[r], list, dx[r], ts_leaf_get(j->w, sums, r));
      if (j->load) j->store(j->n, j->dx + row[r] * j->n * j->esize, wide);
    }
  }
}

static int run(TsCall *call, Job *j) {
  int64_t counted = 0;
  for (int64_t i = 0; i < j->rows; i++) counted += counts(j, i);
  j->counted = (double)counted;
  if (ts_scratch_open(&j->scratch, 2 * j->n * j->size)) return ts_scratch_failed(call);
  ts_cpu_parallel(j->rows, (1 << 14) / (j->n + 1) + 1, rows, j);
  int64_t wrong = atomic_load(&j->wrong);
  if (wrong < 0) return 0;
  return ts_error_set(&call->ctx->err, TS_ERR_index,
                      "cross_entropy_grad: target %lld of row %lld is not one of %lld classes",
                      (long long)j->index[wrong], (long long)wrong, (long long)j->n);
}

int ts_exec_cross_entropy_grad(TsCall *call) {
  TsContext *c = call->ctx;
  TsDtype d = ts_tensor_dtype(call->out[0]), wide = (TsDtype)ts_dtypes[d].accum;
  const TsMeta *m = &call->in[0]->meta;
  bool index = !ts_dtype_is(ts_tensor_dtype(call->in[1]), TS_KIND_F);
  Job j = {.k = c->k,
           .w = wide == TS_DT_f64,
           .n = m->dim[m->ndim - 1],
           .rows = 1,
           .reduction = call->attr[0].i,
           .ignored = call->attr[1].i,
           .smoothing = call->attr[2].f,
           .wrong = -1};
  if (ts_tensor_numel(call->out[0]) == 0) return 0;
  j.esize = ts_dtypes[d].nbytes, j.size = ts_dtypes[wide].nbytes;
  if (d != wide)
    j.load = c->k->convert.convert[d][wide], j.store = c->k->convert.convert[wide][d];
  for (int i = 0; i < m->ndim - 1; i++) j.rows *= m->dim[i];
  TsTensor *x = ts_tensor_cast(c, call->in[0], d), *t = NULL, *g = NULL;
  if (x) t = ts_tensor_cast(c, call->in[1], index ? TS_DT_i64 : wide);
  if (t) g = ts_tensor_cast(c, call->in[2], wide);
  int failed = !g || !(j.x = ts_tensor_read(x)) || !(j.g = ts_tensor_read(g));
  if (!failed && index) failed = !(j.index = ts_tensor_read(t));
  if (!failed && !index) failed = !(j.p = ts_tensor_read(t));
  if (!failed) failed = !(j.dx = ts_tensor_write(call->out[0])) || run(call, &j);
  ts_scratch_close(&j.scratch);
  ts_tensor_unref(x);
  ts_tensor_unref(t);
  ts_tensor_unref(g);
  return failed ? -1 : 0;
}
