/* rope: rotary position embedding (arXiv 2104.09864), and rope_grad, its transpose: the
 * same with the sines negated.
 *
 * Pair i of a position p is turned by the angle p f(i), f(i) = theta^(-2i / dims), made
 * in f64: pow, the product, and the sine and cosine are f64's definitions in lib/elem.
 * The two are multiplied by the concentration and rounded to f32 (f64 for f64 x), and
 * pair (a, b) becomes (fma(a, cos, -(b sin)), fma(b, cos, a sin)); 16-bit numbers go
 * through f32.
 *
 * linear: f(i) / factor. YaRN (arXiv 2309.00071, "NTK-by-parts"): a pair that turns r
 * times within the original context has index i(r) = dims ln(context / (2 pi r)) /
 * (2 ln theta); pairs below floor(i(beta_fast)) keep f, those above ceil(i(beta_slow))
 * have f / factor, and between them f / factor takes over linearly. Both limits stay
 * within 0 .. dims - 1, and equal ones lie 0.001 apart. The concentration is
 * 0.1 ln(factor) + 1 for YaRN with a factor above 1, else 1, unless it is given. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/core/exec.h"
#include "vm/core/scratch.h"

enum { THETA, DIMS, OFFSET, INTERLEAVED, SCALING, FACTOR, FAST, SLOW, CONTEXT, CONCENTRATION };
enum { NONE, LINEAR, YARN };

typedef struct Job {
  TsCall *call;
  const TsKernels *k;
  TsDtype d, wide;            /* of x; of the tables */
  int64_t n, half, positions; /* of a row; pairs; rows of the tables */
  int64_t s, per_batch;       /* positions of a sequence; rows of a batch entry, or 0 */
  const double *position;
  double *frequency, concentration;
  bool back; /* rope_grad */
  char *cos, *sin;
  TsScratch scratch;
  const char *x;
  char *y;
} Job;

static double log_f64(const TsKernels *k, double x) {
  const void *in[1] = {&x};
  k->pointwise.f64[TS_PW_log](1, &x, in, NULL, 0);
  return x;
}

static double limit(double x, double lo, double hi) { return x < lo ? lo : x > hi ? hi : x; }

/* Index of the pair that turns so often within the original context. */
static double pair_of(const Job *j, double rotations) {
  const TsAttr *a = j->call->attr;
  double context = (double)a[CONTEXT].i;
  return 2 * (double)j->half *
         log_f64(j->k, context / (rotations * (2 * 0x1.921fb54442d18p+1))) /
         (2 * log_f64(j->k, a[THETA].f));
}

static void set_frequencies(Job *j) {
  const TsAttr *a = j->call->attr;
  double theta = a[THETA].f, factor = a[FACTOR].f, *f = j->frequency;
  const void *in[2] = {&theta, f};
  for (int64_t i = 0; i < j->half; i++) f[i] = (double)i / (double)j->half;
  j->k->pointwise.f64[TS_PW_pow](j->half, f, in, NULL, 1);
  double lo = 0, hi = 0;
  if (a[SCALING].i == YARN) {
    lo = limit(floor(pair_of(j, a[FAST].f)), 0, 2 * (double)j->half - 1);
    hi = limit(ceil(pair_of(j, a[SLOW].f)), 0, 2 * (double)j->half - 1);
    if (lo == hi) hi += 0.001;
  }
  for (int64_t i = 0; i < j->half; i++) {
    double own = 1 / f[i], stretched = 1 / (factor * f[i]);
    double ramp = a[SCALING].i == NONE ? 0 : 1;
    if (a[SCALING].i == YARN) ramp = limit(((double)i - lo) / (hi - lo), 0, 1);
    f[i] = stretched * ramp + own * (1 - ramp);
  }
  bool grows = a[SCALING].i == YARN && factor > 1;
  j->concentration = grows ? 0.1 * log_f64(j->k, factor) + 1 : 1;
  if (a[CONCENTRATION].type == TS_ATTR_f) j->concentration = a[CONCENTRATION].f;
}

/* Cosines or sines of n angles, times the concentration, to a row of a table. */
static void table_row(const Job *j, int op, const double *angle, double *scratch, char *to) {
  const void *in[2] = {angle, NULL};
  TsPointwiseFn *const *f = j->k->pointwise.f64;
  f[op](j->half, scratch, in, NULL, 0);
  double factor = j->back && op == TS_PW_sin ? -j->concentration : j->concentration;
  in[0] = scratch, in[1] = &factor;
  f[TS_PW_mul](j->half, scratch, in, NULL, 2);
  if (j->wide == TS_DT_f64)
    memcpy(to, scratch, (size_t)j->half * sizeof *scratch);
  else
    j->k->convert.convert[TS_DT_f64][TS_DT_f32](j->half, to, scratch);
}

static void tables(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  int64_t bytes = j->half * ts_dtypes[j->wide].nbytes;
  double *angle = ts_scratch_part(&j->scratch, worker), *scratch = angle + j->half;
  for (int64_t p = lo; p < hi; p++) {
    for (int64_t i = 0; i < j->half; i++) angle[i] = j->position[p] * j->frequency[i];
    table_row(j, TS_PW_cos, angle, scratch, j->cos + p * bytes);
    table_row(j, TS_PW_sin, angle, scratch, j->sin + p * bytes);
  }
}

static void rotate(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  int64_t wide = ts_dtypes[j->wide].nbytes, size = ts_dtypes[j->d].nbytes,
          bytes = j->half * wide;
  const TsRopeKernels *r = &j->k->rope;
  TsRopeFn *rotate_row =
      (j->call->attr[INTERLEAVED].i ? r->neighbours : r->halves)[j->wide == TS_DT_f64];
  char *row = j->d == j->wide ? NULL : ts_scratch_part(&j->scratch, worker);
  for (int64_t i = lo; i < hi; i++) {
    int64_t p = (j->per_batch ? i / j->per_batch * j->s : 0) + i % j->s;
    const char *x = j->x + i * j->n * size;
    char *y = j->y + i * j->n * size, *to = row ? row : y;
    if (row) j->k->convert.convert[j->d][j->wide](j->n, row, x);
    rotate_row(to, row ? row : x, j->half, j->cos + p * bytes, j->sin + p * bytes);
    if (row)
      j->k->convert.convert[j->wide][j->d](j->n, y, row);
    else
      memcpy(y + 2 * bytes, x + 2 * bytes, (size_t)((j->n - 2 * j->half) * size));
  }
}

/* ---- positions; the shapes are right */
static void measure(Job *j, const TsTensor *x, const TsTensor *p) {
  const TsAttr *a = j->call->attr;
  int nd = x->meta.ndim;
  j->n = x->meta.dim[nd - 1], j->s = x->meta.dim[nd - 2];
  j->half = (a[DIMS].type == TS_ATTR_int ? a[DIMS].i : j->n) / 2;
  if (!p || p->meta.ndim == 1) return;
  j->per_batch = j->s;
  for (int i = 1; i < nd - 2; i++) j->per_batch *= x->meta.dim[i];
}

static int prepare(Job *j) {
  int64_t bytes = j->half * ts_dtypes[j->wide].nbytes;
  int64_t angles = 2 * j->half * 8, row = j->n * ts_dtypes[j->wide].nbytes;
  j->frequency = ts_work_take((j->half + 1) * 8);
  j->cos = ts_work_take(j->positions * bytes + 64);
  j->sin = ts_work_take(j->positions * bytes + 64);
  int failed = ts_scratch_open(&j->scratch, angles > row ? angles : row);
  if (failed || !j->frequency || !j->cos || !j->sin) return ts_scratch_failed(j->call);
  set_frequencies(j);
  ts_cpu_parallel(j->positions, 4096 / (j->half + 1) + 1, tables, j);
  return 0;
}

/* Positions from the offset on, where they are not given. */
static double *count_positions(const Job *j) {
  double *at = ts_work_take(j->positions * 8);
  for (int64_t i = 0; i < j->positions && at; i++)
    at[i] = (double)(j->call->attr[OFFSET].i + i);
  if (!at) ts_scratch_failed(j->call);
  return at;
}

static int rope(TsCall *call, bool back) {
  TsContext *c = call->ctx;
  TsTensor *p = call->nin > 1 ? call->in[1] : NULL, *wide_p = NULL, *y = call->out[0];
  Job j = {.call = call, .k = c->k, .d = ts_tensor_dtype(y), .back = back};
  j.wide = (TsDtype)ts_dtypes[j.d].accum;
  measure(&j, call->in[0], p);
  if (ts_tensor_numel(y) == 0) return 0;
  j.positions = p ? ts_tensor_numel(p) : j.s;
  TsTensor *x = ts_tensor_contiguous(c, call->in[0]);
  int failed = !x || (p && !(wide_p = ts_tensor_cast(c, p, TS_DT_f64)));
  if (!failed) failed = !(j.x = ts_tensor_read(x)) || !(j.y = ts_tensor_write(y));
  double *own = failed || p ? NULL : count_positions(&j);
  j.position = wide_p ? ts_tensor_read(wide_p) : own;
  if (!failed) failed = !j.position || prepare(&j);
  if (!failed) ts_cpu_parallel(ts_tensor_numel(y) / j.n, (1 << 15) / (j.n + 1) + 1, rotate, &j);
  ts_work_give(own), ts_work_give(j.frequency), ts_work_give(j.cos), ts_work_give(j.sin),
      ts_scratch_close(&j.scratch);
  ts_tensor_unref(x);
  ts_tensor_unref(wide_p);
  return failed ? -1 : 0;
}

int ts_exec_rope(TsCall *call) { return rope(call, false); }
int ts_exec_rope_grad(TsCall *call) { return rope(call, true); }
