/* Rewriting with constants computed by the VM's kernels. */
#include "vm/compile.h"

#include "ir/graph_rewrite.h"

static bool eval(void *arg, TsOp op, int n, const double *in, const TsMeta *const *meta,
                 const TsAttr *attr, TsDtype out, double *result) {
  TsContext *c = arg;
  TsTensor *t[TS_MAX_IN] = {NULL}, *y = NULL;
  bool fine = true;
  for (int i = 0; i < n && fine; i++) {
    TsTensor *number = ts_tensor_number(c, in[i]);
    TsMeta m = {.dtype = meta[i]->dtype};
    if (meta[i]->weak) {
      t[i] = number;
      fine = number != NULL;
      continue;
    }
    fine = number && (t[i] = ts_tensor_new(c, &m)) && !ts_vm_assign(c, t[i], number) &&
           ts_tensor_get(t[i], 0) == in[i];
    ts_tensor_unref(number);
  }
  if (fine) fine = (y = ts_vm_call1(c, op, n, t, attr)) && ts_tensor_dtype(y) == out;
  if (fine) *result = ts_tensor_get(y, 0);
  ts_tensor_unref(y);
  for (int i = 0; i < n; i++) ts_tensor_unref(t[i]);
  ts_error_clear(&c->err);
  return fine;
}

TsGraph *ts_compile_rewrite(TsContext *c, const TsGraph *g, TsText *log) {
  TsRewriteOptions o = {.most = c->profile == TS_PROFILE_strict ? TS_REWRITE_exact
                                                                : TS_REWRITE_rounding,
                        .eval = eval,
                        .arg = c,
                        .log = log};
  c->no_grad++;
  TsGraph *made = ts_graph_rewrite(g, &o);
  c->no_grad--;
  for (int i = 0; made && i < made->nparam; i++)
    if (made->bound[i] && made->bound[i] != TS_GRAPH_UNBOUND) ts_tensor_ref(made->bound[i]);
  return made;
}
