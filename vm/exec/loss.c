/* cross_entropy: from logits to the loss without storing their softmax. The definition,
 * in f32 for f32 and narrower floats, else f64, every operation rounded once, sums in
 * the canonical order, exp and log from lib/elem. Of a row x of C numbers:
 *   m = max x; s = sum exp(x - m); z = m + log(s)
 *   target t, an index: n = z - x[t]; with label smoothing e:
 *     n = n * (1 - e) + q * (e / C), q = -sum((x - m) - log(s))
 *   target p, probabilities: n = -sum(((x - m) - log(s)) * p'), p' = p, or with
 *     smoothing p * (1 - e) + e / C
 * A row whose index is ignore_index gives 0. The mean divides the canonical sum of all
 * rows by the count of those not ignored. The result is rounded to the logits' type. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/core/exec.h"
#include "vm/core/scratch.h"

enum { MEAN, SUM, NONE, LEAF = TS_RED_LEAF };

typedef struct Job {
  TsCall *call;
  const TsKernels *k;
  TsDtype d, wide; /* of the logits, of the loss while it is made */
  int w;           /* index of wide's kernels */
  int64_t size, rows, n;
  const char *x;        /* row-major logits */
  const int64_t *index; /* of each row, or NULL */
  const char *p;        /* or probabilities, in wide */
  char *loss;           /* of each row, in wide */
  TsScratch scratch;    /* for a row in wide */
  double smoothing;
  int64_t ignored;
  _Atomic int64_t wrong; /* the first row whose index is out of range, or -1 */
} Job;

static double rounded(const Job *j, double v) { return j->w ? v : (double)(float)v; }

static double value(const Job *j, const void *at, int64_t i) {
  return j->w ? ((const double *)at)[i] : (double)((const float *)at)[i];
}

/* ---- the canonical sum, leaf by leaf: partial sums merge like a counter's digits */
typedef struct Sum {
  double stack[64];
  int depth;
  int64_t count;
} Sum;

static void add_leaf(const Job *j, Sum *s, const void *leaf, int64_t n) {
  double part;
  TsReduceRows a = {TS_RED_SUM, TS_MAP_none, leaf, 1, LEAF, n, NULL, 0, 0, &part, 0};
  j->k->reduce.rows[j->w ? TS_RED_F64 : TS_RED_F32](&a);
  double x = value(j, &part, 0);
  for (int64_t c = s->count++; c & 1; c >>= 1) x = rounded(j, s->stack[--s->depth] + x);
  s->stack[s->depth++] = x;
}

static double total(const Job *j, Sum *s) {
  if (s->depth == 0) return 0;
  double x = s->stack[--s->depth];
  while (s->depth > 0) x = rounded(j, s->stack[--s->depth] + x);
  return x;
}

/* ---- one row */
static double sum_of_exps(const Job *j, const char *x, double m, char *leaf) {
  Sum s = {.depth = 0};
  for (int64_t i = 0; i < j->n && !ts_cpu_interrupted(); i += LEAF) {
    int64_t n = j->n - i < LEAF ? j->n - i : LEAF;
    j->k->rows.exp[j->w](leaf, x + i * j->size, n, m, NULL);
    add_leaf(j, &s, leaf, n);
  }
  return total(j, &s);
}

static void times(const Job *j, char *y, const void *x, bool one, int op, int64_t n) {
  const void *in[2] = {y, x};
  (j->w ? j->k->pointwise.f64 : j->k->pointwise.f32)[op](n, y, in, NULL, one ? 2 : 0);
}

static void smoothed(const Job *j, char *p, int64_t n) {
  double keep = 1 - j->smoothing, share = j->smoothing / (double)j->n;
  float keep32 = (float)keep, share32 = (float)share;
  times(j, p, j->w ? (void *)&keep : (void *)&keep32, true, TS_PW_mul, n);
  times(j, p, j->w ? (void *)&share : (void *)&share32, true, TS_PW_add, n);
}

/* -sum of log softmax, times p where it is given. */
static double spread_loss(const Job *j, const char *x, double m, double log_s, const char *p,
                          char *leaf) {
  Sum s = {.depth = 0};
  char *share = leaf + LEAF * j->size;
  for (int64_t i = 0; i < j->n; i += LEAF) {
    int64_t n = j->n - i < LEAF ? j->n - i : LEAF;
    j->k->rows.shift[j->w](leaf, x + i * j->size, n, m, log_s, 0);
    if (p) {
      memcpy(share, p + i * j->size, (size_t)(n * j->size));
      if (j->smoothing != 0) smoothed(j, share, n);
      times(j, leaf, share, false, TS_PW_mul, n);
    }
    add_leaf(j, &s, leaf, n);
  }
  return -total(j, &s);
}

/* The error names the first wrong row, whichever thread meets one first. */
static void keep_first(_Atomic int64_t *wrong, int64_t row) {
  int64_t seen = atomic_load(wrong);
  while ((seen < 0 || row < seen) && !atomic_compare_exchange_weak(wrong, &seen, row)) {
  }
}

static double row_loss(Job *j, int64_t row, const char *x, char *leaf) {
  double e = j->smoothing;
  if (j->index && j->index[row] == j->ignored) return 0;
  if (j->index && (j->index[row] < 0 || j->index[row] >= j->n)) {
    keep_first(&j->wrong, row);
    return 0;
  }
  double m = j->k->rows.max[j->w](x, j->n);
  double log_s = j->k->rows.log[j->w](sum_of_exps(j, x, m, leaf));
  if (j->p) return spread_loss(j, x, m, log_s, j->p + row * j->n * j->size, leaf);
  double n = rounded(j, rounded(j, m + log_s) - value(j, x, j->index[row]));
  if (e == 0) return n;
  double q = spread_loss(j, x, m, log_s, NULL, leaf);
  double own = rounded(j, n * rounded(j, 1 - e)),
         rest = rounded(j, q * rounded(j, e / (double)j->n));
  return rounded(j, own + rest);
}

static void rows(void *arg, int64_t lo, int64_t hi, int worker) {
  Job *j = arg;
  int64_t esize = ts_dtypes[j->d].nbytes;
  TsConvertFn *load = j->d == j->wide ? NULL : j->k->convert.convert[j->d][j->wide];
  double leaf[2 * LEAF];
  char *wide = ts_scratch_part(&j->scratch, worker);
  for (int64_t i = lo; i < hi && !ts_cpu_interrupted(); i++) {
    const char *x = j->x + i * j->n * esize;
    if (load) load(j->n, wide, x), x = wide;
    double v = row_loss(j, i, x, (char *)leaf);
    if (j->w)
      ((double *)(void *)j->loss)[i] = v;
    else
      ((float *)(void *)j->loss)[i] = (float)v;
  }
}

/* ---- all rows */
static void reduce(Job *j, int64_t how) {
  TsTensor *y = j->call->out[0];
  Sum s = {.depth = 0};
  int64_t counted = j->rows;
  for (int64_t i = 0; j->index && i < j->rows; i++) counted -= j->index[i] == j->ignored;
  for (int64_t i = 0; i < j->rows; i += LEAF)
    add_leaf(j, &s, j->loss + i * j->size, j->rows - i < LEAF ? j->rows - i : LEAF);
  double v = total(j, &s);
  if (how == MEAN) v = rounded(j, v / (double)counted);
  float v32 = (float)v;
  const void *from = j->w ? (const void *)&v : (const void *)&v32;
  void *to = ts_tensor_write(y);
  if (j->d == j->wide)
    memcpy(to, from, (size_t)j->size);
  else
    j->k->convert.convert[j->wide][j->d](1, to, from);
}

static int losses(Job *j, int64_t how) {
  TsCall *call = j->call;
  TsTensor *y = call->out[0];
  char *to = ts_tensor_write(y);
  j->loss = ts_work_take(j->rows * j->size + 64);
  int failed = ts_scratch_open(&j->scratch, j->d == j->wide ? 0 : j->n * j->size);
  if (failed || !to || !j->loss) {
    ts_work_give(j->loss), ts_scratch_close(&j->scratch);
    return to ? ts_scratch_failed(call) : -1;
  }
  ts_cpu_parallel(j->rows, (1 << 14) / (j->n + 1) + 1, rows, j);
  int64_t wrong = atomic_load(&j->wrong);
  if (wrong >= 0) {
    ts_error_set(&call->ctx->err, TS_ERR_index,
                 "cross_entropy: target %lld of row %lld is not one of %lld classes",
                 (long long)j->index[wrong], (long long)wrong, (long long)j->n);
  } else if (how != NONE) {
    reduce(j, how);
  } else if (j->d == j->wide) {
    memcpy(to, j->loss, (size_t)(j->rows * j->size));
  } else {
    j->k->convert.convert[j->wide][j->d](j->rows, to, j->loss);
  }
  ts_work_give(j->loss), ts_scratch_close(&j->scratch);
  return wrong >= 0 ? -1 : 0;
}

int ts_exec_cross_entropy(TsCall *call) {
  TsContext *c = call->ctx;
  TsTensor *x = call->in[0], *t = call->in[1];
  Job j = {.call = call, .k = c->k, .d = ts_tensor_dtype(call->out[0]), .wrong = -1};
  bool index = !ts_dtype_is(ts_tensor_dtype(t), TS_KIND_F);
  j.wide = (TsDtype)ts_dtypes[j.d].accum, j.w = j.wide == TS_DT_f64;
  j.size = ts_dtypes[j.wide].nbytes;
  j.n = x->meta.dim[x->meta.ndim - 1], j.rows = 1;
  for (int i = 0; i < x->meta.ndim - 1; i++) j.rows *= x->meta.dim[i];
  j.ignored = call->attr[1].i, j.smoothing = call->attr[2].f;
  x = ts_tensor_cast(c, x, j.d);
  t = x ? ts_tensor_cast(c, t, index ? TS_DT_i64 : j.wide) : NULL;
  int failed = !t || !(j.x = ts_tensor_read(x));
  if (!failed && index) failed = !(j.index = ts_tensor_read(t));
  if (!failed && !index) failed = !(j.p = ts_tensor_read(t));
  if (!failed) failed = losses(&j, call->attr[0].i);
  ts_tensor_unref(x);
  ts_tensor_unref(t);
  return failed ? -1 : 0;
}
