/* grouped_matmul and grouped_matmul_weight_grad: a product for each group of rows, by
 * vm/gemm/gemm.h or, where matmul takes them, pairs of steps: so each has the bits of a matmul
 * of its slice.
 *
 * A group with much to do is multiplied by all threads, one after the other. Of the others each is
 * one thread's, which takes the next one when it is done: groups differ in size, and a loop for
 * each would cost more than a few rows do. What a group costs is its multiply-adds, and the matrix
 * that it reads or writes however few its rows are. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/core/exec.h"
#include "vm/gemm/gemm.h"
#include "vm/gemm/pairs.h"
#include "vm/drive/guard.h"
#include "vm/core/scratch.h"

enum {
  MATRIX_ROWS = 4,         /* rows whose multiply-adds take as long as moving a matrix */
  ALONE_WORK = 1 << 20,    /* multiply-adds not worth a second thread */
  THREADED_WORK = 32 << 20 /* of a group that fills all threads */
};

typedef struct Job {
  const TsKernels *k;
  TsGemm g; /* what all groups share */
  bool weights, pairs;
  bool own;        /* groups have rooms of as many rows of x, of which the first count; */
  int64_t share;   /* so many have one together */
  int64_t n, rows; /* groups, rows of x or of one group of it */
  int64_t *first, *count;            /* each group's first row, and how many it has */
  int64_t *few, nfew;                /* groups of one thread */
  int64_t a_row, b_row;              /* bytes from row to row, in b of the weight gradient */
  int64_t a_group, b_group, c_group; /* bytes from matrix to matrix */
  int64_t c_row;
  atomic_llong next;
  atomic_int failed; /* what ts_gemm said */
} Job;

static TsGemm product_of(const Job *j, int64_t i) {
  TsGemm g = j->g;
  int64_t row = j->first[i];
  int64_t room = i / j->share; /* what lies by groups are the matrices */
  g.a = (const char *)g.a + row * j->a_row + room * j->a_group;
  g.b = (const char *)g.b + row * j->b_row + (j->weights ? room : i) * j->b_group;
  g.c = (char *)g.c + row * j->c_row + (j->weights ? i : room) * j->c_group;
  *(j->weights ? &g.k : &g.m) = j->count[i];
  return g;
}

static void multiply(Job *j, int64_t i, bool alone) {
  TsGemm g = product_of(j, i);
  g.alone = alone;
  int failed = j->pairs ? ts_gemm_pairs(&g, j->k) : ts_gemm(&g, &j->k->gemm);
  if (failed) atomic_store(&j->failed, failed);
}

/* One call a thread: its range does not matter. */
static void take_groups(void *arg, int64_t lo, int64_t hi, int worker) {
  Job *j = arg;
  (void)lo, (void)hi, (void)worker;
  for (int64_t i; (i = atomic_fetch_add(&j->next, 1)) < j->nfew && !ts_cpu_interrupted();)
    multiply(j, j->few[i], true);
}

static double cost_of(const Job *j, int64_t rows) {
  double matrix =
      j->weights ? (double)j->g.m * (double)j->g.n : (double)j->g.k * (double)j->g.n;
  return (double)(rows + MATRIX_ROWS) * matrix;
}

static void multiply_all(Job *j) {
  double few = 0;
  for (int64_t i = 0; i < j->n; i++) {
    int64_t rows = j->count[i];
    if (rows == 0 && !j->weights) continue;
    if (cost_of(j, rows) < THREADED_WORK)
      j->few[j->nfew++] = i, few += cost_of(j, rows);
    else if (!ts_cpu_interrupted())
      multiply(j, i, false);
  }
  if (j->nfew == 1)
    multiply(j, j->few[0], false);
  else
    ts_cpu_parallel(few < ALONE_WORK ? 1 : ts_cpu_threads(), 1, take_groups, j);
}

/* ---- groups */
/* Where groups begin: they end where the rows do. */
static void place(Job *j, const int64_t *size) {
  int64_t row = 0;
  for (int64_t i = 0; i < j->n; i++) {
    if (i % j->share == 0) row = 0;
    int64_t left = j->rows - row;
    j->first[i] = row;
    j->count[i] = size[i] < left ? size[i] : left;
    row += j->count[i];
  }
}

/* The sizes are looked at whether or not there is something to compute. */
static int open_groups(Job *j, TsCall *call) {
  TsContext *c = call->ctx;
  TsTensor *t = ts_tensor_cast(c, call->in[2], TS_DT_i64);
  const int64_t *size = t ? ts_tensor_read(t) : NULL;
  j->own = call->in[0]->meta.ndim == 3;
  j->rows = call->in[0]->meta.dim[j->own];
  j->n = call->in[2]->meta.dim[0];
  j->share = j->own && call->in[0]->meta.dim[0] ? j->n / call->in[0]->meta.dim[0] : j->n;
  if (!j->share) j->share = 1;
  int failed = size ? ts_guard_groups(c, call->op, j->rows, size, j->n) : -1;
  if (!failed && !(j->first = ts_work_take((3 * j->n + 1) * 8)))
    failed = ts_scratch_failed(call);
  if (!failed) {
    j->count = j->first + j->n, j->few = j->count + j->n;
    place(j, size);
  }
  ts_tensor_unref(t);
  return failed;
}

/* ---- operands */
static int open_product(Job *j, TsTensor *x, TsTensor *y, TsTensor *out) {
  TsGemm *g = &j->g;
  int64_t size = ts_dtypes[ts_tensor_dtype(x)].nbytes;
  int64_t out_size = ts_dtypes[ts_tensor_dtype(out)].nbytes;
  int transposed = j->weights, at = j->own;
  *g = (TsGemm){.in = ts_gemm_type(ts_tensor_dtype(x)),
                .out = ts_gemm_type(ts_tensor_dtype(out)),
                .batch = 1,
                .a_rs = x->stride[at + transposed],
                .a_cs = x->stride[at + !transposed],
                .c_cs = 1};
  g->n = g->c_rs = out->meta.dim[out->meta.ndim - 1];
  j->a_row = x->stride[at] * size;
  if (at) j->a_group = x->stride[0] * size;
  if (j->weights) {
    g->m = x->meta.dim[at + 1];
    g->b_rs = y->stride[at], g->b_cs = y->stride[at + 1];
    j->b_row = y->stride[at] * size;
    if (at) j->b_group = y->stride[0] * size;
    j->c_group = g->m * g->n * out_size;
  } else {
    g->k = x->meta.dim[at + 1];
    g->b_rs = y->stride[1], g->b_cs = y->stride[2];
    j->b_group = y->stride[0] * size;
    j->c_row = g->n * out_size;
    if (at) j->c_group = j->rows * j->c_row;
  }
  g->a = ts_tensor_read(x), g->b = ts_tensor_read(y), g->c = ts_tensor_write(out);
  return g->a && g->b && g->c ? 0 : -1;
}

/* Rows behind the last group of a room; without groups all. */
static void clear_rest(const Job *j) {
  for (int64_t room = 0; room == 0 || room < j->n / j->share; room++) {
    int64_t last = (room + 1) * j->share - 1, end = j->n ? j->first[last] + j->count[last] : 0;
    char *c = (char *)j->g.c + room * j->c_group;
    memset(c + end * j->c_row, 0, (size_t)((j->rows - end) * j->c_row));
  }
}

/* x in the type in which its elements are multiplied; else as it lies. */
static TsTensor *typed(TsContext *c, TsTensor *x, TsDtype d) {
  return ts_tensor_dtype(x) == d ? ts_tensor_ref(x) : ts_tensor_cast(c, x, d);
}

static int run(Job *j, TsCall *call) {
  TsContext *c = call->ctx;
  TsTensor *out = call->out[0];
  TsDtype to = ts_tensor_dtype(out);
  TsDtype in = to == TS_DT_f64 || to == TS_DT_complex128 ? to : call->compute;
  TsTensor *x = typed(c, call->in[0], in), *y = x ? typed(c, call->in[1], in) : NULL;
  int failed = y ? open_product(j, x, y, out) : -1;
  if (!failed) {
    j->pairs = c->profile == TS_PROFILE_fast && ts_gemm_pairs_has(c->k, j->g.in, j->g.out);
    if (!j->weights) clear_rest(j);
    multiply_all(j);
    if (j->failed == -2)
      TS_BUG("%s: no product of %s", ts_op_info(call->op)->name, ts_dtype_name(in));
    if (j->failed) failed = ts_scratch_failed(call);
  }
  ts_tensor_unref(x);
  ts_tensor_unref(y);
  return failed;
}

static int grouped(TsCall *call, bool weights) {
  Job j = {.k = call->ctx->k, .weights = weights};
  int failed = open_groups(&j, call);
  if (!failed && ts_tensor_numel(call->out[0])) failed = run(&j, call);
  ts_work_give(j.first);
  return failed ? -1 : 0;
}

int ts_exec_grouped_matmul(TsCall *call) { return grouped(call, false); }
int ts_exec_grouped_matmul_weight_grad(TsCall *call) { return grouped(call, true); }
