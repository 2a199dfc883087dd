/* Gradients of softmax and log_softmax. The definitions, in f32 for f32 and narrower floats, else
 * f64, every operation rounded once, sums in the canonical order, exp from lib/elem:
 *
 *   softmax      s = sum(y g); dx = y (g - s)
 *   log_softmax  s = sum(g); dx = g - exp(y) s */
#include "devices/cpu_pool.h"
#include "vm/core/axis.h"
#include "vm/rows/leaf_sum.h"
#include "vm/rows/rows_grad_job.h"

enum {
  LONG = 128 << 10, /* bytes of a row that leaves no room in L2 for all of the next one */
  SHORT = 256,      /* bytes of a row that is worth asking for by itself */
};

/* How many bytes on to ask for: whole rows behind those of the batch, or the rest of the row
 * where it is long. */
static int64_t step_of(const TsGradJob *j) {
  int64_t row = j->n * j->size, rows = TS_GRAD_PREFETCH / row, batch = ts_grad_batch_rows(j);
  return row > LONG ? TS_GRAD_PREFETCH : (rows < batch ? batch : rows) * row;
}

/* What row i asks for, in bytes from the start. It may be of the next range: a thread goes on
 * with that. */
static int64_t prefetch_place(const TsGradJob *j, int64_t i) {
  int64_t row = j->n * j->size;
  return ts_grad_min(i * row + j->step, (j->rows - 1) * row);
}

static void soft_past(const TsGradJob *j, const TsGradBatch *b, int i, double sum) {
  int64_t at = prefetch_place(j, b->row[i]);
  TsSoftPast e = {.dx = b->dx[i], .y = b->x[i], .g = b->g[i], .n = j->n, .s = sum};
  e.prefetch[0] = j->x + at;
  e.prefetch[1] = j->n > TS_RED_LEAF ? j->g + at : NULL; /* else the sum asked for it */
  (j->log ? j->rk->log_softmax_past : j->rk->softmax_past)[j->w](&e);
}

static void soft_end(const TsGradJob *j, const TsGradBatch *b, int i) {
  double sum = ts_leaf_get(j->w, b->c1, i);
  if (j->past) {
    soft_past(j, b, i, sum);
    return;
  }
  (j->log ? j->rk->log_softmax : j->rk->softmax)[j->w](b->dx[i], b->x[i], b->g[i], j->n, sum);
  ts_grad_close_row(j, b, i);
}

static void soft_rows(void *arg, int64_t lo, int64_t hi, int worker) {
  const TsGradJob *j = arg;
  char *wide = ts_scratch_part(&j->scratch, worker);
  TsGradBatch b = {.rows = 0};
  for (int64_t i = lo; i < hi && !ts_cpu_interrupted(); i += b.rows) {
    b.rows = (int)ts_grad_min(ts_grad_batch_rows(j), hi - i);
    for (int r = 0; r < b.rows; r++) b.row[r] = i + r;
    ts_grad_open_batch(j, &b, wide);
    TsRowSums s = {.rows = b.rows, .n = j->n, .x = j->log ? b.g : b.x, .g = b.g, .out = b.c1};
    const void *prefetch[TS_GRAD_ROWS];
    for (int r = 0; r < b.rows && j->past; r++) prefetch[r] = j->g + prefetch_place(j, i + r);
    if (j->past) s.prefetch = prefetch;
    ts_leaf_rows(j->w, j->log ? j->rk->sum[j->w] : j->rk->dot[j->w], &s);
    for (int r = 0; r < b.rows; r++) soft_end(j, &b, r);
  }
  if (j->past) ts_copy_fence();
}

static int soft(TsCall *call, TsGradJob *j, TsTensor *y, TsTensor *g) {
  int nd = y->meta.ndim;
  int64_t axis = call->attr[0].i;
  TsAxisRows yr = {.t = NULL}, gr = {.t = NULL};
  TsAxisOut dx = {.t = NULL};
  axis = axis < 0 ? axis + (nd ? nd : 1) : axis;
  if (ts_grad_open_scratch(call, j) || ts_axis_read(call->ctx, y, (int)axis, &yr)) return -1;
  int failed = ts_axis_read(call->ctx, g, (int)axis, &gr);
  if (!failed && !(failed = ts_axis_open(call->ctx, call->out[0], (int)axis, &dx))) {
    j->x = yr.at, j->g = gr.at, j->dx = dx.at, j->n = yr.n, j->rows = yr.rows;
    j->past = j->n * j->size >= SHORT && ts_grad_goes_past(j), j->step = step_of(j);
    ts_cpu_parallel(j->rows, ts_grad_grain(j), soft_rows, j);
    ts_axis_close(&dx);
  }
  ts_tensor_unref(yr.t);
  if (gr.at) ts_tensor_unref(gr.t);
  return failed ? -1 : 0;
}

static int soft_grad(TsCall *call, bool log) {
  TsContext *c = call->ctx;
  TsDtype d = ts_tensor_dtype(call->out[0]);
  TsGradJob j = {.k = c->k, .log = log};
  if (ts_tensor_numel(call->out[0]) == 0) return 0;
  ts_grad_set_kernels(&j, d);
  int nd = call->in[0]->meta.ndim;
  int64_t axis = call->attr[0].i;
  j.n = nd ? call->in[0]->meta.dim[axis < 0 ? axis + nd : axis] : 1;
  TsTensor *y = call->in[0], *g = call->in[1];
  y = ts_tensor_dtype(y) == d ? ts_tensor_ref(y) : ts_tensor_cast(c, y, d);
  g = ts_tensor_dtype(g) == d ? ts_tensor_ref(g) : ts_tensor_cast(c, g, d);
  int failed = !y || !g || soft(call, &j, y, g);
  ts_scratch_close(&j.scratch);
  ts_tensor_unref(y);
  ts_tensor_unref(g);
  return failed ? -1 : 0;
}

int ts_exec_softmax_grad(TsCall *call) { return soft_grad(call, false); }

int ts_exec_log_softmax_grad(TsCall *call) { return soft_grad(call, true); }
