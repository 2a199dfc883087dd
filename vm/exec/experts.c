/* experts_linear: rows of each expert times its matrix, which is stored in blocks, by
 * vm/drive/quantized.h. Rows of an expert are brought together, and their products to where
 * the choices stand. Experts that nobody chose are not read. */
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/core/exec.h"
#include "vm/core/scratch.h"
#include "vm/drive/quantized.h"

typedef struct Experts {
  TsQuantized q;        /* of one of them */
  int64_t experts, all; /* rows */
  int64_t times;        /* choices that share a row of x */
  int64_t x_nbytes, y_nbytes, w_nbytes, s_nbytes, bias_nbytes;
  const int64_t *index;
  const char *x, *w, *scales, *bias;
  char *y, *rows, *sums; /* rows of one expert, and their products */
  int64_t *of, *first;   /* rows by expert; where those of each begin */
} Experts;

static bool is_expert(const Experts *e, int64_t i) { return i >= 0 && i < e->experts; }

/* By expert, in their order. */
static void sort_rows(Experts *e) {
  memset(e->first, 0, (size_t)(e->experts + 1) * sizeof *e->first);
  for (int64_t r = 0; r < e->all; r++)
    if (is_expert(e, e->index[r])) e->first[e->index[r] + 1]++;
  for (int64_t i = 0; i < e->experts; i++) e->first[i + 1] += e->first[i];
  for (int64_t r = 0; r < e->all; r++)
    if (is_expert(e, e->index[r])) e->of[e->first[e->index[r]]++] = r;
  for (int64_t i = e->experts; i > 0; i--) e->first[i] = e->first[i - 1];
  e->first[0] = 0;
}

static int multiply(Experts *e, int64_t expert, const TsKernels *k) {
  TsQuantized q = e->q;
  const int64_t *row = e->of + e->first[expert];
  q.m = e->first[expert + 1] - e->first[expert];
  if (!q.m) return 0;
  for (int64_t i = 0; i < q.m; i++)
    memcpy(e->rows + i * e->x_nbytes, e->x + row[i] / e->times * e->x_nbytes,
           (size_t)e->x_nbytes);
  q.x = e->rows, q.y = e->sums;
  q.w = e->w + expert * e->w_nbytes;
  if (e->scales) q.scales = e->scales + expert * e->s_nbytes;
  if (e->bias) q.bias = e->bias + expert * e->bias_nbytes;
  if (ts_quantized(&q, k)) return -1;
  for (int64_t i = 0; i < q.m; i++)
    memcpy(e->y + row[i] * e->y_nbytes, e->sums + i * e->y_nbytes, (size_t)e->y_nbytes);
  return 0;
}

static int multiply_all(Experts *e, TsCall *call) {
  char *mem = NULL;
  int64_t size = sizeof(int64_t);
  ts_scratch_carve(&mem, (e->all + e->experts + 1) * size);
  ts_scratch_carve(&mem, e->all * e->x_nbytes);
  ts_scratch_carve(&mem, e->all * e->y_nbytes);
  char *work = mem = ts_work_take((int64_t)(intptr_t)mem);
  if (!work) return ts_scratch_failed(call);
  e->of = (int64_t *)(void *)ts_scratch_carve(&mem, (e->all + e->experts + 1) * size);
  e->first = e->of + e->all;
  e->rows = ts_scratch_carve(&mem, e->all * e->x_nbytes);
  e->sums = ts_scratch_carve(&mem, e->all * e->y_nbytes);
  sort_rows(e);
  for (int64_t r = 0; r < e->all; r++)
    if (!is_expert(e, e->index[r])) memset(e->y + r * e->y_nbytes, 0, (size_t)e->y_nbytes);
  int failed = 0;
  for (int64_t i = 0; i < e->experts && !failed && !ts_cpu_interrupted(); i++)
    failed = multiply(e, i, call->ctx->k);
  ts_work_give(work);
  return failed ? ts_scratch_failed(call) : 0;
}

/* ---- operands */
static int open_experts(Experts *e, TsCall *call, TsTensor *const in[5]) {
  TsTensor *y = call->out[0];
  const TsMeta *w = &in[1]->meta;
  TsDtype d = ts_tensor_dtype(in[1]), x = ts_tensor_dtype(in[0]), to = ts_tensor_dtype(y);
  *e = (Experts){.experts = w->dim[0], .all = ts_tensor_numel(in[2])};
  e->q = (TsQuantized){.in = x, .out = to, .blocks = in[4] ? TS_DT_mxfp4 : d, .n = w->dim[1]};
  e->q.k = in[4] ? 2 * w->dim[2] : w->dim[2];
  e->times = in[0]->meta.ndim > in[2]->meta.ndim ? 1 : in[2]->meta.dim[in[2]->meta.ndim - 1];
  e->x_nbytes = e->q.k * ts_dtypes[x].nbytes, e->y_nbytes = e->q.n * ts_dtypes[to].nbytes;
  e->w_nbytes = w->dim[1] * ts_dtype_nbytes(d, w->dim[2]);
  e->s_nbytes = e->q.n * (e->q.k / ts_dtypes[TS_DT_mxfp4].block);
  e->x = ts_tensor_read(in[0]), e->w = ts_tensor_read(in[1]), e->index = ts_tensor_read(in[2]);
  if (in[3]) {
    e->bias = ts_tensor_read(in[3]);
    e->bias_nbytes = e->q.n * ts_dtypes[ts_tensor_dtype(in[3])].nbytes;
  }
  if (in[4]) e->scales = ts_tensor_read(in[4]);
  e->y = ts_tensor_write(y);
  bool there = e->x && e->w && e->index && e->y;
  return there && (!in[3] || e->bias) && (!in[4] || e->scales) ? 0 : -1;
}

/* In a type, row-major; NULL without one, or with the error. */
static TsTensor *typed(TsContext *c, TsTensor *x, TsDtype d) {
  TsTensor *cast = x ? ts_tensor_cast(c, x, d) : NULL;
  TsTensor *own = cast ? ts_tensor_contiguous(c, cast) : NULL;
  ts_tensor_unref(cast);
  return own;
}

int ts_exec_experts_linear(TsCall *call) {
  TsContext *c = call->ctx;
  TsDtype acc = call->compute == TS_DT_f64 ? TS_DT_f64 : TS_DT_f32;
  TsTensor *in[5] = {typed(c, call->in[0], call->compute), ts_tensor_contiguous(c, call->in[1]),
                     typed(c, call->in[2], TS_DT_i64)};
  bool there = in[0] && in[1] && in[2];
  for (int i = 3; i < call->nin && there; i++) {
    if (!call->in[i]) continue;
    in[i] = i == 3 ? typed(c, call->in[i], acc) : ts_tensor_contiguous(c, call->in[i]);
    there = in[i];
  }
  Experts e;
  int failed = there ? 0 : -1;
  if (!failed && ts_tensor_numel(call->out[0]))
    failed = open_experts(&e, call, in) || multiply_all(&e, call) ? -1 : 0;
  for (int i = 0; i < 5; i++) ts_tensor_unref(in[i]);
  return failed;
}
