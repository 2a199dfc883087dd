/* linear_scan: y[i] = a[i] y[i-1] + b[i]. The axis is moved first, so that each step is
 * one call of a pointwise kernel on all chains; threads share the chains. Narrow floats
 * run in f32 and round each value once. */
#include <math.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/core/exec.h"

enum { PIECE = 2048, LEAST = 64, FEW = 8 }; /* chains of a unit; few: no kernel calls */

typedef struct Job {
  TsPointwiseFn *fma, *mul, *add; /* fma, or for complex numbers the other two */
  const char *a, *b;
  char *y;
  int64_t n, chains, size, piece;
} Job;

static void few(const Job *j) {
  int64_t end = j->n * j->chains;
  if (j->size == 4) {
    const float *a = (const void *)j->a, *b = (const void *)j->b;
    float *y = (void *)j->y;
    TS_CPU_LOOKING(i, j->chains, end) y[i] = fmaf(a[i], y[i - j->chains], b[i]);
  } else {
    const double *a = (const void *)j->a, *b = (const void *)j->b;
    double *y = (void *)j->y;
    TS_CPU_LOOKING(i, j->chains, end) y[i] = fma(a[i], y[i - j->chains], b[i]);
  }
}

static void piece(const Job *j, int64_t col, int64_t n) {
  int64_t row = j->chains * j->size;
  for (int64_t i = 1; i < j->n && !ts_cpu_interrupted(); i++) {
    int64_t at = i * row + col * j->size;
    char *y = j->y + at;
    const void *in[3] = {j->a + at, y - row, j->b + at}, *sum[2] = {y, j->b + at};
    if (j->fma) {
      j->fma(n, y, in, NULL, 0);
    } else {
      j->mul(n, y, in, NULL, 0);
      j->add(n, y, sum, NULL, 0);
    }
  }
}

static void pieces(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  (void)worker;
  for (int64_t u = lo; u < hi; u++) {
    int64_t col = u * j->piece;
    piece(j, col, j->chains - col < j->piece ? j->chains - col : j->piece);
  }
}

static void run(Job *j) {
  int64_t share = j->chains / ts_cpu_threads();
  memcpy(j->y, j->b, (size_t)(j->chains * j->size));
  if (j->fma && j->chains < FEW) {
    few(j);
    return;
  }
  j->piece = share < LEAST ? LEAST : share > PIECE ? PIECE : share;
  ts_cpu_parallel((j->chains + j->piece - 1) / j->piece, 1, pieces, j);
}

/* x with the axis first, back where `back`. */
static TsTensor *transposed(TsTensor *x, int axis, bool back) {
  TsMeta m = x->meta;
  int64_t stride[TS_MAX_RANK];
  int nd = m.ndim;
  for (int i = 0; i < nd; i++) {
    int from = i == 0 ? axis : i <= axis ? i - 1 : i;
    int old = back ? i : from, at = back ? from : i;
    m.dim[at] = x->meta.dim[old];
    stride[at] = x->stride[old];
  }
  return ts_tensor_view(x, &m, stride, x->offset);
}

static TsTensor *operand(TsContext *c, TsTensor *x, int axis, TsDtype d) {
  TsTensor *view = transposed(x, axis, false);
  TsTensor *t = view ? ts_tensor_cast(c, view, d) : NULL;
  ts_tensor_unref(view);
  return t;
}

static int compute(TsContext *c, TsTensor *a, TsTensor *b, TsTensor *y) {
  TsDtype d = ts_tensor_dtype(y);
  Job j = {.n = y->meta.ndim ? y->meta.dim[0] : 1, .size = ts_dtypes[d].nbytes};
  if (ts_dtype_is(d, TS_KIND_C)) {
    j.mul = c->k->pointwise_complex.fn[d - TS_DT_complex64][TS_OP_mul];
    j.add = c->k->pointwise_complex.fn[d - TS_DT_complex64][TS_OP_add];
  } else {
    j.fma = (d == TS_DT_f32 ? c->k->pointwise.f32 : c->k->pointwise.f64)[TS_OP_fma];
  }
  j.a = ts_tensor_read(a);
  j.b = j.a ? ts_tensor_read(b) : NULL;
  j.y = j.b ? ts_tensor_write(y) : NULL;
  if (!j.y) return -1;
  j.chains = ts_tensor_numel(y) / j.n;
  run(&j);
  return 0;
}

int ts_exec_linear_scan(TsCall *call) {
  TsContext *c = call->ctx;
  TsTensor *out = call->out[0];
  TsDtype d = (TsDtype)ts_dtypes[ts_tensor_dtype(out)].compute;
  int nd = out->meta.ndim;
  int axis = (int)(call->attr[0].i < 0 ? call->attr[0].i + nd : call->attr[0].i);
  if (ts_tensor_numel(out) == 0) return 0;
  TsTensor *a = operand(c, call->in[0], axis, d), *back = NULL;
  TsTensor *b = a ? operand(c, call->in[1], axis, d) : NULL;
  bool direct = b && b->meta.dtype == out->meta.dtype && (nd == 0 || axis == 0);
  TsTensor *y = !b ? NULL : direct ? ts_tensor_ref(out) : ts_tensor_new(c, &b->meta);
  int failed = !y || compute(c, a, b, y);
  if (!failed && !direct)
    failed = !(back = transposed(y, axis, true)) || ts_vm_assign(c, out, back);
  ts_tensor_unref(a), ts_tensor_unref(b), ts_tensor_unref(y), ts_tensor_unref(back);
  return failed ? -1 : 0;
}
