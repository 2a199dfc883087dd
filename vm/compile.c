/* Rewriting with constants computed by the VM's kernels. */
#include "vm/compile.h"

#include <math.h>

#include "ir/jets/jets.h"
#include "ir/rules/recognise.h"
#include "ir/text/value.h"
#include "vm/code/alias.h"

static bool same(double a, double b) { return isnan(a) ? isnan(b) : ts_number_same(a, b); }

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
           same(ts_tensor_get(t[i], 0), in[i]);
    ts_tensor_unref(number);
  }
  if (fine) fine = (y = ts_vm_call1(c, op, n, t, attr)) && ts_tensor_dtype(y) == out;
  if (fine) *result = ts_tensor_get(y, 0);
  if (fine && out == TS_DT_i64) fine = fabs(*result) < 0x1p53; /* a double has all its digits */
  ts_tensor_unref(y);
  for (int i = 0; i < n; i++) ts_tensor_unref(t[i]);
  ts_error_clear(&c->err);
  return fine;
}

static TsRewriteOptions options(TsContext *c, TsRewriteKind most, TsText *log) {
  bool fast = most >= TS_REWRITE_rounding && c->profile == TS_PROFILE_fast;
  return (TsRewriteOptions){.most = most, .fast = fast, .eval = eval, .arg = c, .log = log};
}

static TsRewriteKind most_of(const TsContext *c) {
  return c->profile == TS_PROFILE_strict ? TS_REWRITE_exact : TS_REWRITE_rounding;
}

static TsGraph *rewrite(TsContext *c, const TsGraph *g, TsRewriteKind most, TsText *log) {
  TsRewriteOptions o = options(c, most, log);
  TsAside was = ts_context_aside(c);
  c->trap = was.trap; /* what it stops at is no constant: the run has its line */
  TsGraph *made = ts_graph_rewrite(g, &o);
  ts_context_resume(c, was);
  if (made) ts_capture_hold(made);
  return made;
}

TsGraph *ts_compile_rewrite(TsContext *c, TsGraph *g, TsText *log) {
  if (ts_alias_note(c, g)) return NULL;
  TsGraph *made = rewrite(c, g, most_of(c), log);
  if (!made || !ts_alias_part(c, made)) return made;
  ts_capture_release(made);
  return NULL;
}

TsGraph *ts_compile_exact(TsContext *c, const TsGraph *g) {
  return rewrite(c, g, TS_REWRITE_exact, NULL);
}

int ts_compile_jets(TsContext *c, TsGraph *g, int n, TsVal *v, int nx, const TsVal *x) {
  if (c->profile == TS_PROFILE_strict) return 0;
  return ts_jets_collapse(g, n, v, nx, x, &g->module->recognised) < 0 ? -1 : 0;
}

int ts_compile_jets_refused(TsContext *c, TsGraph *g, int n, const TsVal *v) {
  if (c->profile == TS_PROFILE_strict) return 0;
  return ts_jets_refused(g, n, v, &g->module->recognised);
}

int ts_compile_recognise(TsContext *c, TsGraph *g, int n, TsVal *v, int nx, const TsVal *x) {
  if (c->profile == TS_PROFILE_strict) return 0;
  TsRewriteOptions o = options(c, most_of(c), &g->module->recognised);
  TsAside was = ts_context_aside(c);
  c->trap = was.trap; /* what it stops at is no constant: the run has its line */
  int fired = ts_graph_recognise(g, n, v, nx, x, &o);
  ts_context_resume(c, was);
  return fired < 0 ? -1 : 0;
}
