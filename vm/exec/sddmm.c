/* sddmm: products of a few entries at a time, which the kernel of sums adds in the canonical
 * order. */
#include "devices/cpu_pool.h"
#include "devices/work.h"
#include "vm/core/copy.h"
#include "vm/core/exec.h"
#include "vm/core/scratch.h"
#include "vm/exec/sparse.h"
#include "vm/rows/leaf_sum.h"

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

static void add_rows(const Job *j, const char *products, int64_t rows, int64_t n, char *y) {
  TsReduceRows r = {.op = TS_RED_SUM,
                    .map = TS_MAP_none,
                    .x = products,
                    .rows = rows,
                    .ld = n,
                    .n = n,
                    .out = y};
  j->k->reduce.rows[j->wide ? TS_RED_F64 : TS_RED_F32](&r);
}

/* Columns of a leaf at a time, of one entry. */
static void add_leaves(const Job *j, int64_t e, char *products, char *y) {
  TsLeafSum sum = {.f64 = j->wide};
  for (int64_t i = 0; i < j->n; i += TS_RED_LEAF) {
    int64_t n = j->n - i < TS_RED_LEAF ? j->n - i : TS_RED_LEAF;
    const void *in[2] = {j->a + (j->row[e] * j->n + i) * j->size,
                         j->b + (j->column[e] * j->n + i) * j->size};
    j->multiply(n, products, in, NULL, 0);
    add_rows(j, products, 1, n, y);
    ts_leaf_push(&sum, ts_leaf_get(j->wide, y, 0));
  }
  ts_leaf_put(j->wide, y, 0, j->n ? ts_leaf_total(&sum) : 0);
}

static void entries(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  bool whole = j->n && j->n <= TS_RED_LEAF;
  int64_t row = j->n * j->size;
  char *products =
      j->products + worker * SOME * (j->n < TS_RED_LEAF ? j->n : TS_RED_LEAF) * j->size;
  for (int64_t e = lo; e < hi && !ts_cpu_interrupted(); e += SOME) {
    int64_t some = hi - e < SOME ? hi - e : SOME;
    char *y = j->y + e * j->size;
    for (int64_t i = 0; i < some; i++) {
      const void *in[2] = {j->a + j->row[e + i] * row, j->b + j->column[e + i] * row};
      if (whole)
        j->multiply(j->n, products + i * row, in, NULL, 0);
      else
        add_leaves(j, e + i, products, y + i * j->size);
    }
    if (whole) add_rows(j, products, some, j->n, y);
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

/* in: a, b, values, of y's type; a and values row-major. */
static int sums(TsCall *call, Job *j, TsTensor *const *in, TsTensor *y) {
  TsTensor *b = in[1];
  bool lie = b->stride[0] == 1 && b->stride[1] == j->n;
  int64_t turned = lie ? 0 : b->meta.dim[1] * j->n * j->size, n = y->meta.dim[0];
  int64_t each = SOME * (j->n < TS_RED_LEAF ? j->n : TS_RED_LEAF) * j->size;
  char *own = ts_work_take(turned + ts_cpu_threads() * each + 64);
  if (!own) return ts_scratch_failed(call);
  j->products = own + turned;
  j->a = ts_tensor_read(in[0]), j->values = in[2] ? ts_tensor_read(in[2]) : NULL;
  j->b = columns(j, b, lie ? NULL : own), j->y = ts_tensor_write(y);
  int failed = !j->a || !j->b || !j->y || (in[2] && !j->values);
  if (!failed) ts_cpu_parallel(n, GRAIN / (j->n + 1) + SOME, entries, j);
  ts_work_give(own);
  return failed ? -1 : 0;
}

static int run(TsCall *call, Job *j) {
  TsContext *c = call->ctx;
  TsTensor *out = call->out[0], *values = call->nin > VALUES ? call->in[VALUES] : NULL;
  TsDtype d = ts_tensor_dtype(out), sum = ts_sparse_sum(d);
  TsMeta m = out->meta;
  m.dtype = (uint8_t)sum;
  TsTensor *in[3] = {ts_tensor_cast(c, call->in[A], sum)}, *y = NULL;
  bool as_is = ts_tensor_dtype(call->in[B]) == sum; /* it may be a view */
  if (in[0]) in[1] = as_is ? ts_tensor_ref(call->in[B]) : ts_tensor_cast(c, call->in[B], sum);
  if (in[1] && values) in[2] = ts_tensor_cast(c, values, sum);
  if (in[1] && (!values || in[2])) y = sum == d ? ts_tensor_ref(out) : ts_tensor_new(c, &m);
  int failed = !y || sums(call, j, in, y) || (sum != d && ts_vm_assign(c, out, y));
  for (int i = 0; i < 3; i++) ts_tensor_unref(in[i]);
  ts_tensor_unref(y);
  return failed ? -1 : 0;
}

int ts_exec_sddmm(TsCall *call) {
  const TsContext *c = call->ctx;
  const TsMeta *a = &call->in[A]->meta, *b = &call->in[B]->meta;
  TsIndex row, column;
  Job j = {.k = c->k,
           .wide = ts_sparse_sum((TsDtype)call->out[0]->meta.dtype) == TS_DT_f64,
           .n = a->dim[1]};
  j.size = j.wide ? 8 : 4;
  j.multiply = j.wide ? c->k->pointwise.f64[TS_PW_mul] : c->k->pointwise.f32[TS_PW_mul];
  if (ts_sparse_open(call, ROW, a, 0, &row)) return -1;
  if (ts_sparse_open(call, COLUMN, b, 1, &column)) {
    ts_index_close(&row);
    return -1;
  }
  j.row = row.at, j.column = column.at;
  int failed = run(call, &j);
  ts_index_close(&row);
  ts_index_close(&column);
  return failed ? -1 : 0;
}
