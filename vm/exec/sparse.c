/* csr_rows: the row of each entry, out of where rows begin; places of entries. */
#include "devices/cpu_pool.h"
#include "vm/core/exec.h"
#include "vm/drive/guard.h"
#include "vm/exec/sparse.h"

enum { GRAIN = 1 << 12 }; /* rows of a thread */

typedef struct Rows {
  const int64_t *first;
  int64_t *row;
} Rows;

static void put_rows(void *arg, int64_t lo, int64_t hi, int worker) {
  const Rows *r = arg;
  (void)worker;
  TS_CPU_LOOKING(i, lo, hi) {
    for (int64_t e = r->first[i]; e < r->first[i + 1]; e++) r->row[e] = i;
  }
}

int ts_exec_csr_rows(TsCall *call) {
  TsTensor *t = ts_tensor_cast(call->ctx, call->in[0], TS_DT_i64);
  int64_t rows = call->in[0]->meta.dim[0] - 1;
  Rows r = {.first = t ? ts_tensor_read(t) : NULL};
  int failed = !r.first || ts_guard_offsets(call->ctx, r.first, rows, call->attr[0].i) ||
               !(r.row = ts_tensor_write(call->out[0]));
  if (!failed) ts_cpu_parallel(rows, GRAIN, put_rows, &r);
  ts_tensor_unref(t);
  return failed ? -1 : 0;
}

int ts_sparse_open(TsCall *call, int input, const TsMeta *x, int axis, TsIndex *ix) {
  TsTensor *like = ts_tensor_symbol(call->ctx, x, NULL), *in[2] = {like, call->in[input]};
  TsCall of = *call;
  of.nin = 2, of.in = in;
  int failed = !like || ts_index_open(&of, 1, axis, x->dim[axis], ix);
  ts_tensor_unref(like);
  return failed ? -1 : 0;
}
