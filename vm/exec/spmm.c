/* spmm_coo, and spmm_csr where nobody asks for the steps of its definition: a row of the result
 * is summed in registers over the entries of its row, in their order, so nothing of entries x
 * columns is made. Rows of blocks are summed a tile at a time, each block's product being one.
 * Entries in another order than that of rows are sorted by row first, by a count of each, which
 * keeps the order within rows. */
#include <string.h>

#include "devices/cpu_pool.h"
#include "devices/work.h"
#include "vm/core/exec.h"
#include "vm/core/scratch.h"
#include "vm/exec/sparse.h"

enum { VALUES, ROW, COLUMN, X };
enum { GRAIN = 1 << 15, TILE = 1 << 13 }; /* products of a thread, bytes of a tile of blocks */

typedef struct Job {
  TsSparseRowFn *row;
  const int64_t *first, *column;
  const int64_t *entry; /* of blocks: which stand there, NULL: in this order */
  const char *values, *x;
  char *y;
  int64_t rows, n, size;
  const TsGemmAcc *acc; /* of blocks [p, q]; else NULL */
  int64_t p, q;
} Job;

static int64_t rows_of(const TsCall *call) {
  return call->op == TS_OP_spmm_csr ? call->in[ROW]->meta.dim[0] - 1 : call->attr[0].i;
}

static bool whole(const TsMeta *m) {
  return m->ndim == 1 && ts_dtype_is((TsDtype)m->dtype, TS_KIND_I | TS_KIND_U);
}

/* Of CSR: values and x of one type that is summed as it is. */
bool ts_fits_spmm_csr(TsCall *call, TsMeta *out) {
  const TsMeta *v = &call->in[VALUES]->meta, *r = &call->in[ROW]->meta,
               *c = &call->in[COLUMN]->meta, *x = &call->in[X]->meta;
  if ((x->dtype != TS_DT_f32 && x->dtype != TS_DT_f64) || v->dtype != x->dtype) return false;
  if (!whole(r) || !whole(c) || v->ndim != 1 || x->ndim < 1 || x->ndim > 2) return false;
  if (v->dim[0] != c->dim[0] || r->dim[0] < 1) return false;
  call->compute = (TsDtype)x->dtype;
  call->nout = 1;
  out[0] = *x;
  out[0].dim[0] = rows_of(call);
  return true;
}

/* y += x, of n elements. */
static void add(bool wide, int64_t n, void *y, const void *x) {
  if (wide)
    for (int64_t i = 0; i < n; i++) ((double *)y)[i] += ((const double *)x)[i];
  else
    for (int64_t i = 0; i < n; i++) ((float *)y)[i] += ((const float *)x)[i];
}

/* A tile of a row of blocks, whose first row and column these are. */
static void tile_of_blocks(const Job *j, int64_t i, int64_t row, int64_t col) {
  _Alignas(64) char product[TILE];
  const TsGemmAcc *acc = j->acc;
  int64_t rows = j->p - row < acc->mr ? j->p - row : acc->mr;
  int64_t cols = j->n - col < acc->nr ? j->n - col : acc->nr;
  char *y = j->y + ((i * j->p + row) * j->n + col) * j->size;
  for (int64_t r = 0; r < rows; r++)
    memset(y + r * j->n * j->size, 0, (size_t)(cols * j->size));
  for (int64_t at = j->first[i]; at < j->first[i + 1] && j->q; at++) {
    int64_t e = j->entry ? j->entry[at] : at;
    const char *a = j->values + (e * j->p + row) * j->q * j->size;
    const char *b = j->x + (j->column[e] * j->q * j->n + col) * j->size;
    acc->tile((int)rows, (int)cols, j->q, a, j->q, 1, b, j->n, product, acc->nr, false);
    for (int64_t r = 0; r < rows; r++)
      add(j->size == 8, cols, y + r * j->n * j->size, product + r * acc->nr * j->size);
  }
}

static void some_blocks(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  (void)worker;
  TS_CPU_LOOKING(i, lo, hi)
  for (int64_t col = 0; col < j->n; col += j->acc->nr) /* columns of x stay in the cache */
    for (int64_t row = 0; row < j->p; row += j->acc->mr) tile_of_blocks(j, i, row, col);
}

static void some_rows(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  (void)worker;
  TS_CPU_LOOKING(i, lo, hi) {
    int64_t at = j->first[i];
    j->row(j->first[i + 1] - at, j->values + at * j->size, j->column + at, j->x, j->n,
           j->y + i * j->n * j->size);
  }
}

static void run(const Job *j) {
  int64_t each = j->rows ? j->first[j->rows] / j->rows * j->n + 1 : 1;
  if (j->acc) each *= j->p * j->q + 1;
  if (j->n)
    ts_cpu_parallel(j->rows, GRAIN / each + 1, j->acc ? some_blocks : some_rows, (void *)j);
}

/* What the definition says of offsets or an index that is wrong; it has the words for it. */
static int explain(TsCall *call) {
  TsTensor *out[TS_MAX_OUT];
  TsCall again = *call;
  int n = 0;
  ts_error_clear(&call->ctx->err);
  again.out = out;
  int failed = ts_vm_compose(&again, TS_MAX_OUT, &n);
  for (int i = 0; i < n; i++) ts_tensor_unref(out[i]);
  TS_ASSERT(failed);
  return -1;
}

static bool ascend(const int64_t *first, int64_t rows, int64_t entries) {
  bool fine = !first[0] && first[rows] == entries;
  for (int64_t i = 0; i < rows && fine; i++) fine = first[i] <= first[i + 1];
  return fine;
}

/* Entries by rows: where those of each row begin, and, unless they stand so, columns and values in
 * that order, of blocks only which they are. `own` is room for them. */
static void by_rows(Job *j, const int64_t *row, int64_t entries, int64_t *own) {
  int64_t *first = own, *at = first + j->rows + 1, *column = at + j->rows;
  char *values = (char *)(column + entries);
  bool sorted = true;
  memset(first, 0, sizeof *first * (size_t)(j->rows + 1));
  for (int64_t e = 0; e < entries; e++) {
    first[row[e] + 1]++;
    sorted &= !e || row[e - 1] <= row[e];
  }
  for (int64_t i = 0; i < j->rows; i++) first[i + 1] += first[i], at[i] = first[i];
  j->first = first;
  if (sorted) return;
  for (int64_t e = 0; e < entries && j->acc; e++) column[at[row[e]]++] = e;
  if (j->acc) {
    j->entry = column;
    return;
  }
  for (int64_t e = 0; e < entries; e++) {
    int64_t to = at[row[e]]++;
    column[to] = j->column[e];
    memcpy(values + to * j->size, j->values + e * j->size, (size_t)j->size);
  }
  j->column = column, j->values = values;
}

/* y: row-major, of v's and x's type. */
static int multiply(TsCall *call, TsTensor *v, TsTensor *x, const int64_t *column,
                    TsTensor *y) {
  const TsMeta *m = &x->meta;
  Job j = {.row = call->ctx->k->sparse.row[m->dtype == TS_DT_f64],
           .column = column,
           .rows = rows_of(call),
           .n = m->ndim > 1 ? m->dim[m->ndim - 1] : 1,
           .size = ts_dtypes[m->dtype].nbytes};
  int64_t entries = v->meta.dim[0];
  if (m->ndim == 3) {
    const TsGemmKernels *k = &call->ctx->k->gemm;
    j.acc = m->dtype == TS_DT_f64 ? k->f64 : k->f32;
    j.p = v->meta.dim[1], j.q = v->meta.dim[2];
    TS_ASSERT(j.acc->mr * j.acc->nr * j.size <= TILE);
  }
  TsIndex row = {NULL};
  TsTensor *offsets = NULL;
  int64_t *own = NULL;
  int failed = !(j.values = ts_tensor_read(v)) || !(j.x = ts_tensor_read(x));
  if (!failed && call->op == TS_OP_spmm_csr) {
    offsets = ts_tensor_cast(call->ctx, call->in[ROW], TS_DT_i64);
    failed = !offsets || !(j.first = ts_tensor_read(offsets));
    if (!failed && !ascend(j.first, j.rows, entries)) failed = explain(call);
  } else if (!failed) {
    failed = ts_sparse_open(call, ROW, &y->meta, 0, &row);
    if (!failed && !(own = ts_work_take((2 * j.rows + 1 + entries) * 8 + entries * j.size)))
      failed = ts_scratch_failed(call);
    if (!failed) by_rows(&j, row.at, entries, own);
  }
  if (!failed && !(j.y = ts_tensor_write(y))) failed = -1;
  if (!failed) run(&j);
  ts_work_give(own);
  ts_index_close(&row);
  ts_tensor_unref(offsets);
  return failed ? -1 : 0;
}

static int exec(TsCall *call) {
  TsContext *c = call->ctx;
  TsTensor *out = call->out[0], *y = NULL;
  TsDtype d = ts_tensor_dtype(out), sum = ts_sparse_sum(d);
  TsMeta m = out->meta;
  m.dtype = (uint8_t)sum;
  TsIndex column;
  if (ts_sparse_open(call, COLUMN, &call->in[X]->meta, 0, &column))
    return call->op == TS_OP_spmm_csr && c->err.code == TS_ERR_index ? explain(call) : -1;
  TsTensor *v = ts_tensor_cast(c, call->in[VALUES], sum);
  TsTensor *x = v ? ts_tensor_cast(c, call->in[X], sum) : NULL;
  if (x) y = sum == d ? ts_tensor_ref(out) : ts_tensor_new(c, &m);
  int failed =
      !y || multiply(call, v, x, column.at, y) || (sum != d && ts_vm_assign(c, out, y));
  ts_tensor_unref(v);
  ts_tensor_unref(x);
  ts_tensor_unref(y);
  ts_index_close(&column);
  return failed ? -1 : 0;
}

int ts_exec_spmm_csr(TsCall *call) { return exec(call); }
int ts_exec_spmm_coo(TsCall *call) { return exec(call); }
