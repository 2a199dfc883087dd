/* sddmm where nobody asks for the steps of its definition: products of a few entries at a time, which
 * the kernel of sums adds in the canonical order. */
#include "devices/cpu_pool.h"
#include "devices/work.h"
#include "vm/core/copy.h"
#include "vm/core/exec.h"
#include "vm/core/scratch.h"
#include "vm/drive/index.h"
#include "vm/exec/sparse.h"

enum { A, B, ROW, COLUMN, VALUES };
enum { GRAIN = 1 << 15, SOME = 16 /* entries at a time */ };

typedef struct Job {
  const TsKernels *k;
  TsPointwiseFn *multiply;
  const char *a, *b, *values; /* b: its columns, one after the other */
  const int64_t *row, *column;
  char *products, *y; /* products: of a thread */
  int64_t n, size;    /* what is summed; bytes of an element */
  bool wide;
} Job;

static bool whole(const TsMeta *m, int64_t n) {
  return m->ndim == 1 && m->dim[0] == n &&
         ts_dtype_is((TsDtype)m->dtype, TS_KIND_I | TS_KIND_U);
}

bool ts_fits_sddmm(TsCall *call, TsMeta *out) {
  const TsMeta *a = &call->in[A]->meta, *b = &call->in[B]->meta, *r = &call->in[ROW]->meta;
  const TsMeta *v = call->nin > VALUES && call->in[VALUES] ? &call->in[VALUES]->meta : NULL;
  if ((a->dtype != TS_DT_f32 && a->dtype != TS_DT_f64) || b->dtype != a->dtype) return false;
  if (a->ndim != 2 || b->ndim != 2 || a->dim[1] != b->dim[0] || r->ndim != 1) return false;
  if (a->dim[1] < 1 || a->dim[1] > TS_RED_LEAF) return false;
  if (!whole(r, r->dim[0]) || !whole(&call->in[COLUMN]->meta, r->dim[0])) return false;
  if (v && (v->dtype != a->dtype || v->ndim != 1 || v->dim[0] != r->dim[0])) return false;
  call->compute = (TsDtype)a->dtype;
  call->nout = 1;
  out[0] = *a;
  out[0].ndim = 1, out[0].dim[0] = r->dim[0];
  return true;
}

static void entries(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  int64_t row = j->n * j->size;
  char *products = j->products + worker * SOME * row;
  for (int64_t e = lo; e < hi && !ts_cpu_interrupted(); e += SOME) {
    int64_t some = hi - e < SOME ? hi - e : SOME;
    for (int64_t i = 0; i < some; i++) {
      const void *in[2] = {j->a + j->row[e + i] * row, j->b + j->column[e + i] * row};
      j->multiply(j->n, products + i * row, in, NULL, 0);
    }
    char *y = j->y + e * j->size;
    TsReduceRows r = {.op = TS_RED_SUM,
                      .map = TS_MAP_none,
                      .x = products,
                      .rows = some,
                      .ld = j->n,
                      .n = j->n,
                      .out = y};
    j->k->reduce.rows[j->wide ? TS_RED_F64 : TS_RED_F32](&r);
    const void *in[2] = {j->values + e * j->size, y};
    if (j->values) j->multiply(some, y, in, NULL, 0);
  }
}

/* The columns of b, one after the other, in `own`, or as they lie. */
static const char *columns(const Job *j, TsTensor *b, char *own) {
  const char *at = ts_tensor_read(b);
  int64_t many = b->meta.dim[1];
  if (!at || !own) return at;
  int64_t dim[2] = {many, j->n}, to[2] = {j->n * j->size, j->size};
  int64_t from[2] = {b->stride[1] * j->size, b->stride[0] * j->size};
  ts_copy_nd(2, dim, own, to, at, from, (int)j->size);
  return own;
}

static int sums(TsCall *call, Job *j, TsTensor *const *in) {
  TsTensor *b = call->in[B];
  bool lie = b->stride[0] == 1 && b->stride[1] == j->n;
  int64_t turned = lie ? 0 : b->meta.dim[1] * j->n * j->size, n = call->out[0]->meta.dim[0];
  int64_t each = SOME * j->n * j->size;
  char *own = ts_work_take(turned + ts_cpu_threads() * each + 64);
  if (!own) return ts_scratch_failed(call);
  j->products = own + turned;
  j->a = ts_tensor_read(in[0]), j->values = in[1] ? ts_tensor_read(in[1]) : NULL;
  j->b = columns(j, b, lie ? NULL : own), j->y = ts_tensor_write(call->out[0]);
  int failed = !j->a || !j->b || !j->y || (in[1] && !j->values);
  if (!failed) ts_cpu_parallel(n, GRAIN / j->n + SOME, entries, j);
  ts_work_give(own);
  return failed ? -1 : 0;
}

int ts_exec_sddmm(TsCall *call) {
  TsContext *c = call->ctx;
  const TsMeta *a = &call->in[A]->meta;
  TsTensor *values = call->nin > VALUES ? call->in[VALUES] : NULL, *in[2] = {NULL};
  TsIndex row, column;
  Job j = {.k = c->k, .wide = a->dtype == TS_DT_f64, .n = a->dim[1]};
  j.size = j.wide ? 8 : 4;
  j.multiply = j.wide ? c->k->pointwise.f64[TS_PW_mul] : c->k->pointwise.f32[TS_PW_mul];
  if (ts_index_open(call, ROW, 0, a->dim[0], &row))
    return c->err.code == TS_ERR_index ? ts_sparse_explain(call) : -1;
  if (ts_index_open(call, COLUMN, 1, call->in[B]->meta.dim[1], &column)) {
    ts_index_close(&row);
    return c->err.code == TS_ERR_index ? ts_sparse_explain(call) : -1;
  }
  j.row = row.at, j.column = column.at;
  int failed = !(in[0] = ts_tensor_contiguous(c, call->in[A])) ||
               (values && !(in[1] = ts_tensor_contiguous(c, values))) || sums(call, &j, in);
  ts_tensor_unref(in[0]);
  ts_tensor_unref(in[1]);
  ts_index_close(&row);
  ts_index_close(&column);
  return failed ? -1 : 0;
}
