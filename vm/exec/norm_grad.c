/* Gradients of layernorm and rmsnorm. The definitions, in f32 for f32 and narrower floats, else
 * f64, every operation rounded once, sums in the canonical order:
 *
 *   layernorm    mean u and rstd r as in vm/rows/rows.h; xc = x - u; gw = g w;
 *                c1 = sum(gw) / N; c2 = ((sum(gw xc) r) / N) r;
 *                dx = fma(-xc, c2, gw - c1) r; db = sum over rows of g;
 *                dw = the same order over rows, its chains of fma(g xc, r, dw) from -0
 *   rmsnorm      xc = x; c2 as above; dx = fma(-xc, c2, gw) r; dw as above
 *
 * Statistics are computed again: the row is in the first-level cache for the rest of the
 * work anyway, and nothing has to be kept from the forward pass. */
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/rows/rows_grad_job.h"

/* bytes between dw and db of rows that walk, whose places in a page are equal else */
enum { APART = 512 };

static int norm(TsCall *call, TsGradJob *j) {
  if (j->sums) return ts_norm_grad_sums(call, j);
  if (ts_grad_open_scratch(call, j)) return -1;
  ts_cpu_parallel(j->rows, ts_grad_grain(j), ts_norm_grad_rows, j);
  return 0;
}

/* Sums over no rows, or no numbers, are zero. */
static int norm_nothing(TsCall *call) {
  for (int i = 1; i < call->nout; i++) {
    void *to = ts_tensor_write(call->out[i]);
    if (!to) return -1;
    memset(to, 0, (size_t)ts_meta_nbytes(&call->out[i]->meta));
  }
  return 0;
}

static int norm_grad(TsCall *call, bool centered) {
  TsContext *c = call->ctx;
  TsDtype d = ts_tensor_dtype(call->out[0]), wide = (TsDtype)ts_dtypes[d].accum;
  TsGradJob j = {.k = c->k, .n = 1, .centered = centered};
  if (ts_tensor_numel(call->out[0]) == 0) return norm_nothing(call);
  const TsMeta *m = &call->in[0]->meta;
  ts_grad_set_kernels(&j, d);
  for (int i = m->ndim - (int)call->attr[0].i; i < m->ndim; i++) j.n *= m->dim[i];
  j.rows = ts_tensor_numel(call->in[0]) / j.n;
  j.want_w = call->in[1] != NULL, j.want_b = centered && call->attr[2].i;
  TsTensor *x = ts_tensor_cast(c, call->in[0], d);
  TsTensor *g = x ? ts_tensor_cast(c, call->in[2], d) : NULL;
  TsTensor *w = g && call->in[1] ? ts_tensor_cast(c, call->in[1], wide) : NULL;
  int failed = !g || (call->in[1] && !w);
  if (!failed) {
    j.x = ts_tensor_read(x), j.g = ts_tensor_read(g), j.dx = ts_tensor_write(call->out[0]);
    failed = !j.x || !j.g || !j.dx || (w && !(j.weight = ts_tensor_read(w)));
    j.past = ts_grad_goes_past(&j);
    j.by_lanes = ts_norm_goes_by_lanes(&j);
    j.of = (TsNormOf){j.rk, j.w, j.n, centered, call->attr[1].f, j.weight};
    if (j.want_w && j.want_b) j.db_at = j.n + (ts_norm_walks(&j) ? APART / j.size : 0);
    j.sums = j.want_b ? j.db_at + j.n : j.want_w ? j.n : 0;
  }
  if (!failed) failed = norm(call, &j);
  ts_work_give(j.part), ts_scratch_close(&j.scratch);
  ts_tensor_unref(x);
  ts_tensor_unref(g);
  ts_tensor_unref(w);
  return failed ? -1 : 0;
}

int ts_exec_layernorm_grad(TsCall *call) { return norm_grad(call, true); }

int ts_exec_rmsnorm_grad(TsCall *call) { return norm_grad(call, false); }
