/* Indices of rows before a kernel runs. */
#include "vm/guard.h"

#include <stdio.h>

#include "vm/exec.h"
#include "vm/index.h"

static bool is_loss(int op) {
  return op == TS_OP_cross_entropy || op == TS_OP_cross_entropy_grad;
}

static int axis_of(const TsNode *n) {
  int nd = n->in[0]->meta.ndim;
  if (n->op == TS_OP_take) return TS_INDEX_FLAT;
  if (n->op == TS_OP_embedding) return 0;
  if (is_loss(n->op)) return nd - 1;
  return (int)(n->attr[0].i < 0 ? n->attr[0].i + nd : n->attr[0].i);
}

TsGuard ts_guard_of(const TsNode *n, const char *function) {
  TsGuard g = {.op = (TsOp)n->op, .x = n->in[0]->meta, .axis = axis_of(n)};
  if (is_loss(n->op)) g.ignored = n->attr[1].i;
  snprintf(g.function, sizeof g.function, "%s", function);
  snprintf(g.place, sizeof g.place, "%s", ts_graph_where(n));
  return g;
}

static int gathered(const TsGuard *g, TsContext *c, TsTensor *index) {
  TsIndex ix;
  TsTensor *x = ts_tensor_symbol(c, &g->x, NULL), *in[2] = {x, index};
  TsCall call = {.ctx = c, .op = g->op, .nin = 2, .in = in};
  int64_t size = g->axis < 0 ? ts_meta_numel(&g->x) : g->x.dim[g->axis];
  int failed = !x || ts_index_open(&call, 1, g->axis, size, &ix);
  if (!failed) ts_index_close(&ix);
  ts_tensor_unref(x);
  return failed ? -1 : 0;
}

static int targets(const TsGuard *g, TsContext *c, TsTensor *index) {
  TsTensor *t = ts_tensor_cast(c, index, TS_DT_i64);
  const int64_t *at = t ? ts_tensor_read(t) : NULL;
  int64_t n = t ? ts_tensor_numel(t) : 0, classes = g->x.dim[g->axis], wrong = -1;
  for (int64_t i = 0; at && i < n && wrong < 0; i++)
    if (at[i] != g->ignored && (uint64_t)at[i] >= (uint64_t)classes) wrong = i;
  if (wrong >= 0)
    ts_error_set(
        &c->err, TS_ERR_index, "%s: target %lld of row %lld is not one of %lld classes",
        ts_op_info(g->op)->name, (long long)at[wrong], (long long)wrong, (long long)classes);
  ts_tensor_unref(t);
  return at && wrong < 0 ? 0 : -1;
}

int ts_guard_check(const TsGuard *g, TsContext *c, TsTensor *index) {
  c->on_host++; /* what is made of the index on the way */
  int failed = is_loss(g->op) ? targets(g, c, index) : gathered(g, c, index);
  c->on_host--;
  return failed ? ts_error_where(&c->err, g->function, g->place) : 0;
}
