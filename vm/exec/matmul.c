/* matmul: batches, broadcasting and the epilogue around vm/gemm/gemm.h. */
#include <stdlib.h>

#include "devices/cpu_pool.h"
#include "vm/drive/epilogue.h"
#include "vm/core/exec.h"
#include "vm/gemm/gemm.h"
#include "vm/gemm/pairs.h"

/* ---- the epilogue, on finished rows of accumulators */
typedef struct Epilogue {
  TsEpilogueWord word[TS_EPILOGUE_MAX];
  const TsKernels *k;
  TsDtype acc;
  TsTensor *bias, *residual; /* in the accumulate type, expanded to the result's shape */
  const TsMeta *out;
  int64_t rows; /* of one batch as the product sees it */
  bool has_column_axis;
} Epilogue;

/* An operand in the accumulate type, seen with the result's shape. */
static TsTensor *spread(TsContext *c, TsTensor *t, TsDtype acc, const TsMeta *out) {
  TsTensor *x = ts_tensor_cast(c, t, acc);
  if (!x) return NULL;
  TsAttr shape = ts_attr_ints(out->dim, out->ndim);
  TsTensor *y = ts_vm_call1(c, TS_OP_broadcast_to, 1, &x, &shape);
  ts_tensor_unref(x);
  return y;
}

/* Address of element (row, col) of an operand; rows count all leading axes. */
static const char *locate(const Epilogue *e, TsTensor *t, int64_t row, int64_t col,
                          int64_t *step) {
  int last = e->out->ndim - (e->has_column_axis ? 1 : 0);
  int64_t size = ts_dtypes[e->acc].nbytes;
  const char *at = (const char *)t->storage->host + t->offset;
  for (int i = last; i-- > 0;) {
    at += row % e->out->dim[i] * t->stride[i] * size;
    row /= e->out->dim[i];
  }
  *step = e->has_column_axis ? t->stride[last] : 0;
  return at + col * *step * size;
}

static void add_operand(const Epilogue *e, TsTensor *t, void *acc, int64_t row, int64_t col,
                        int64_t n) {
  int64_t step, size = ts_dtypes[e->acc].nbytes;
  const char *at = locate(e, t, row, col, &step);
  if (step == 0 || step == 1) {
    ts_epilogue_add(e->k, e->acc, acc, at, step == 0, n);
    return;
  }
  for (int64_t i = 0; i < n; i++)
    ts_epilogue_add(e->k, e->acc, (char *)acc + i * size, at + i * step * size, true, 1);
}

static void finish(void *arg, void *acc, int64_t batch, int64_t row, int64_t col, int64_t n) {
  const Epilogue *e = arg;
  row += batch * e->rows;
  for (const TsEpilogueWord *w = e->word; *w; w++) {
    if (*w == TS_EPILOGUE_bias)
      add_operand(e, e->bias, acc, row, col, n);
    else if (*w == TS_EPILOGUE_residual)
      add_operand(e, e->residual, acc, row, col, n);
    else
      ts_epilogue_activate(e->k, *w, e->acc, acc, n);
  }
}

/* ---- the product */
static TsDtype accumulate_dtype(TsDtype in, TsDtype out) {
  if (ts_dtype_is(in, TS_KIND_C)) return out;
  if (ts_dtype_is(in, TS_KIND_F))
    return in == TS_DT_f64 || out == TS_DT_f64 ? TS_DT_f64 : TS_DT_f32;
  return in == TS_DT_i64 || out == TS_DT_i64 ? TS_DT_i64 : TS_DT_i32;
}

/* Element offsets of each matrix of x for every batch index of the result; NULL: no memory, or
 * interrupted. */
static int64_t *batch_offsets(const TsTensor *x, int nx, const TsMeta *out, int nbatch,
                              int64_t count) {
  int64_t *at = malloc((size_t)(count + 1) * sizeof *at);
  int axes = x->meta.ndim - nx, skip = nbatch - axes;
  TS_CPU_LOOKING(i, 0, at ? count : 0) {
    int64_t r = i, offset = 0;
    for (int a = nbatch; a-- > 0; r /= out->dim[a]) {
      bool spread_axis = a < skip || x->meta.dim[a - skip] == 1;
      if (!spread_axis) offset += r % out->dim[a] * x->stride[a - skip];
    }
    at[i] = offset;
  }
  if (!ts_cpu_interrupted()) return at;
  free(at);
  return NULL;
}

/* All rows of a's batch as one tall matrix, where strides allow it and b is one
 * matrix: the chains do not know their neighbours, so bits stay. */
static bool merge_rows(const TsTensor *a, int64_t *rows) {
  int64_t count = a->meta.dim[a->meta.ndim - 2], step = a->stride[a->meta.ndim - 2];
  for (int i = a->meta.ndim - 2; i-- > 0;) {
    if (a->meta.dim[i] == 1) continue;
    if (a->stride[i] != step * count) return false;
    count *= a->meta.dim[i];
  }
  *rows = count;
  return true;
}

static int multiply(TsCall *call, TsTensor *a, TsTensor *b, Epilogue *e) {
  TsContext *c = call->ctx;
  TsTensor *y = call->out[0];
  const TsMeta *out = &y->meta;
  bool row = a->meta.ndim == 1, column = b->meta.ndim == 1;
  int na = row ? 1 : 2, nb = column ? 1 : 2, nbatch = out->ndim - !row - !column;
  TsGemm g = {.in = ts_gemm_type(ts_tensor_dtype(a)),
              .out = ts_gemm_type(ts_tensor_dtype(y)),
              .batch = 1};
  g.k = a->meta.dim[a->meta.ndim - 1];
  g.m = row ? 1 : a->meta.dim[a->meta.ndim - 2];
  g.n = column ? 1 : b->meta.dim[b->meta.ndim - 1];
  g.a_rs = row ? 0 : a->stride[a->meta.ndim - 2], g.a_cs = a->stride[a->meta.ndim - 1];
  g.b_rs = b->stride[b->meta.ndim - nb], g.b_cs = column ? 0 : b->stride[b->meta.ndim - 1];
  g.c_rs = column ? 1 : g.n, g.c_cs = 1;
  if (!(g.a = ts_tensor_read(a)) || !(g.b = ts_tensor_read(b)) || !(g.c = ts_tensor_write(y)))
    return -1;
  int64_t *offsets[3] = {NULL, NULL, NULL}, rows;
  int failed = 0;
  if (b->meta.ndim <= 2 && !row && merge_rows(a, &rows)) {
    g.m = rows;
  } else {
    for (int i = 0; i < nbatch; i++) g.batch *= out->dim[i];
    offsets[0] = batch_offsets(a, na, out, nbatch, g.batch);
    offsets[1] = batch_offsets(b, nb, out, nbatch, g.batch);
    offsets[2] = batch_offsets(y, !row + !column, out, nbatch, g.batch);
    failed = !offsets[0] || !offsets[1] || !offsets[2] ? -1 : 0;
  }
  g.a_batch = offsets[0], g.b_batch = offsets[1], g.c_batch = offsets[2];
  e->rows = g.m;
  e->has_column_axis = !column;
  if (e->word[0]) g.finish = finish, g.finish_arg = e;
  bool pairs = c->profile == TS_PROFILE_fast && ts_gemm_pairs_has(c->k, g.in, g.out);
  if (!failed) failed = pairs ? ts_gemm_pairs(&g, c->k) : ts_gemm(&g, &c->k->gemm);
  for (int i = 0; i < 3; i++) free(offsets[i]);
  if (failed == -2) TS_BUG("matmul: no product of %s", ts_dtype_name(ts_tensor_dtype(a)));
  return failed ? ts_error_set(&c->err, TS_ERR_memory, "matmul: out of memory") : 0;
}

static TsTensor *typed(TsContext *c, TsTensor *x, TsDtype d) {
  return ts_tensor_dtype(x) == d ? ts_tensor_ref(x) : ts_tensor_cast(c, x, d);
}

int ts_exec_matmul(TsCall *call) {
  TsContext *c = call->ctx;
  TsTensor *bias = call->nin > 2 ? call->in[2] : NULL,
           *residual = call->nin > 3 ? call->in[3] : NULL;
  TsTensor *y = call->out[0];
  Epilogue e = {.k = c->k, .out = &y->meta};
  e.acc = accumulate_dtype(call->compute, ts_tensor_dtype(y));
  if (ts_epilogue_read(call, &call->attr[2], bias, residual, e.acc, e.word)) return -1;
  if (ts_tensor_numel(y) == 0) return 0;
  bool wide = e.acc == TS_DT_f64 || e.acc == TS_DT_complex128;
  TsDtype in = wide ? e.acc : call->compute;
  TsTensor *a = typed(c, call->in[0], in), *b = a ? typed(c, call->in[1], in) : NULL;
  int failed = !b;
  if (!failed && bias) failed = !(e.bias = spread(c, bias, e.acc, &y->meta));
  if (!failed && residual) failed = !(e.residual = spread(c, residual, e.acc, &y->meta));
  if (!failed) failed = multiply(call, a, b, &e);
  ts_tensor_unref(a);
  ts_tensor_unref(b);
  ts_tensor_unref(e.bias);
  ts_tensor_unref(e.residual);
  return failed ? -1 : 0;
}
