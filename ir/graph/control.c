/* Control nodes: their regions' parameters in one order, their types. */
#include "ir/graph/control.h"

#include <stdlib.h>
#include <string.h>

#include "ir/graph/copy.h"
#include "ir/graph/recursion.h"

typedef struct Outer {
  TsVal *v;
  int n, cap;
} Outer;

static bool has(const Outer *o, TsVal v) {
  for (int i = 0; i < o->n; i++)
    if (o->v[i] == v) return true;
  return false;
}

static int collect(TsGraph *g, Outer *o, const TsGraph *region) {
  for (int i = 0; i < region->nparam; i++) {
    TsVal v = region->outer[i];
    if (!v || has(o, v)) continue;
    if (o->n == o->cap) {
      int cap = o->cap ? o->cap * 2 : 16;
      TsVal *more = realloc(o->v, sizeof *more * (size_t)cap);
      if (!more) return ts_error_memory(g->err);
      o->v = more;
      o->cap = cap;
    }
    o->v[o->n++] = v;
  }
  return 0;
}

/* The region again, its own parameters first, then all outer ones, which inner calls of a
 * recursion pass on. */
static TsGraph *ordered(TsGraph *g, TsNodeOp op, int nin, const TsGraph *from, const Outer *o) {
  TsGraph *to = ts_graph_region(g, from->name);
  TsVal *args = malloc(sizeof *args * (size_t)(from->nparam + from->nresult + 1));
  int failed = !to || !args;
  for (int i = 0; i < from->nparam && !failed; i++)
    if (!from->outer[i])
      failed =
          !(args[i] = ts_graph_param(to, &from->param[i]->meta, from->param[i]->name, NULL));
  for (int k = 0; k < o->n && !failed; k++) {
    TsVal p = ts_graph_param(to, &o->v[k]->meta, o->v[k]->name, NULL);
    failed = !p;
    for (int i = 0; i < from->nparam && !failed; i++)
      if (from->outer[i] == o->v[k]) args[i] = p;
  }
  TsVal *results = args ? args + from->nparam : NULL;
  TsRecurEdit edit = {.top = to, .more = nin};
  if (!failed)
    failed = op == TS_NODE_recursive ? ts_recursion_inline(to, from, args, results, &edit)
                                     : ts_graph_inline(to, from, args, results);
  if (!failed) failed = ts_graph_results(to, from->nresult, results);
  free(args);
  return failed ? NULL : to;
}

/* ---- operands that no region reads are left out: a derivative of a derivative has what the
 * first one was multiplied with among its operands, but does not depend on it */
static int first_optional(TsNodeOp op, int nout, const TsAttr *a) {
  switch (op) {
  case TS_NODE_while_loop: return nout;
  case TS_NODE_scan: return (int)a[TS_SCAN_carry].i;
  case TS_NODE_call: return INT32_MAX; /* its adjoint may be somebody's own */
  case TS_NODE_recursive: return 0;
  default: return 1;
  }
}

static int mark_read(int nregion, TsGraph *const *r, int offset, unsigned char *read) {
  for (int k = 0; k < nregion; k++) {
    unsigned char *live = ts_graph_live(r[k]);
    if (!live) return -1;
    for (int i = 0; i < r[k]->nparam; i++) read[i + offset] |= live[r[k]->param[i]->node->id];
    free(live);
  }
  return 0;
}

/* The region with those of its parameters whose operands are read. */
static TsGraph *with_read(TsGraph *g, TsNodeOp op, const TsGraph *from,
                          const unsigned char *read) {
  TsGraph *to = ts_graph_region(g, from->name);
  TsVal *args = calloc((size_t)(from->nparam + from->nresult + 1), sizeof *args),
        *results = args ? args + from->nparam : NULL;
  int failed = !to || !args;
  for (int i = 0; i < from->nparam && !failed; i++)
    if (read[i])
      failed =
          !(args[i] = ts_graph_param(to, &from->param[i]->meta, from->param[i]->name, NULL));
  if (!failed)
    failed = op == TS_NODE_recursive
                 ? ts_recursion_inline(to, from, args, results, &(TsRecurEdit){.keep = read})
                 : ts_graph_inline(to, from, args, results);
  if (!failed) failed = ts_graph_results(to, from->nresult, results);
  free(args);
  return failed ? NULL : to;
}

/* Shortens the operands, the regions and, of a scan, the xs; gives the number that is left. */
static int drop_unread(TsGraph *g, TsNodeOp op, int nin, TsVal *in, int nregion, TsGraph **r,
                       int nout, TsAttr *attr) {
  int offset = op == TS_NODE_cond, left = 0, first = first_optional(op, nout, attr), xs = 0;
  int sliced = op == TS_NODE_scan ? first + (int)attr[TS_SCAN_xs].i : 0;
  unsigned char *read = calloc((size_t)nin + 1, 1);
  if (!read) return ts_error_memory(g->err);
  int failed = op == TS_NODE_recursive ? ts_recursion_read(r[0], read)
                                       : mark_read(nregion, r, offset, read);
  for (int i = 0; i < nin; i++) {
    if (i < first) read[i] = 1;
    left += read[i];
    xs += read[i] && i >= first && i < sliced;
  }
  if (!failed && left < nin) {
    for (int k = 0; k < nregion && !failed; k++)
      failed = !(r[k] = with_read(g, op, r[k], read + offset));
    if (op == TS_NODE_scan) {
      attr[TS_SCAN_length] = ts_b_int(ts_scan_length(attr, in));
      attr[TS_SCAN_xs] = ts_b_int(xs);
    }
    for (int i = 0, k = 0; i < nin; i++)
      if (read[i]) in[k++] = in[i];
  }
  free(read);
  return failed ? -1 : left;
}

/* ---- types */
int ts_control_check_count(TsError *err, const char *op, const char *what, int have, int want) {
  if (have == want) return 0;
  return ts_error_set(err, TS_ERR_argument, "%s: %s returns %d values, not %d", op, what, have,
                      want);
}

bool ts_control_same(const TsMeta *a, const TsMeta *b) {
  return a->dtype == b->dtype && ts_meta_same_shape(a, b);
}

int ts_control_check_type(TsError *err, const char *op, const char *what, int i,
                          const TsMeta *have, const TsMeta *want) {
  char x[TS_META_TEXT], y[TS_META_TEXT];
  if (ts_control_same(have, want)) return 0;
  ts_error_set(err, TS_ERR_shape, "%s: %s %d is %s, it should be %s", op, what, i + 1,
               ts_meta_text(have, x), ts_meta_text(want, y));
  return ts_error_hint(err, "cast it or reshape it inside the function");
}

int ts_control_check_condition(TsError *err, const char *op, const TsMeta *m) {
  if (m->dtype == TS_DT_bool && ts_meta_numel(m) == 1) return 0;
  char text[TS_META_TEXT];
  ts_error_set(err, TS_ERR_dtype, "%s: the condition must be one bool, not %s", op,
               ts_meta_text(m, text));
  return ts_error_hint(err, "compare, as in x:gt(0), or reduce with :any() or :all()");
}

static int check_count(TsGraph *g, const char *op, const char *what, int have, int want) {
  return ts_control_check_count(g->err, op, what, have, want);
}

static int check_results(TsGraph *g, const char *op, const char *what, const TsGraph *r, int n,
                         const TsMeta *want) {
  for (int i = 0; i < n; i++)
    if (ts_control_check_type(g->err, op, what, i, &r->result[i]->meta, &want[i])) return -1;
  return 0;
}

static int check_test(TsGraph *g, const char *op, TsVal v) {
  return ts_control_check_condition(g->err, op, &v->meta);
}

static int cond_types(TsGraph *g, const TsVal *in, TsGraph *const *r, TsMeta *out, int *nout) {
  if (check_test(g, "cond", in[0])) return -1;
  if (check_count(g, "cond", "the second function", r[1]->nresult, r[0]->nresult)) return -1;
  *nout = r[0]->nresult;
  for (int i = 0; i < *nout; i++) out[i] = r[0]->result[i]->meta;
  return check_results(g, "cond", "the second function's result", r[1], *nout, out);
}

static int while_types(TsGraph *g, int nin, const TsVal *in, TsGraph *const *r, TsMeta *out,
                       int *nout) {
  if (check_count(g, "while_loop", "the condition", r[0]->nresult, 1)) return -1;
  if (check_test(g, "while_loop", r[0]->result[0])) return -1;
  if (r[1]->nresult > nin) return check_count(g, "while_loop", "the body", r[1]->nresult, nin);
  *nout = r[1]->nresult;
  for (int i = 0; i < *nout; i++) out[i] = in[i]->meta;
  return check_results(g, "while_loop", "the body's result", r[1], *nout, out);
}

static int scan_types(TsGraph *g, const TsVal *in, TsGraph *const *r, const TsAttr *a,
                      TsMeta *out, int *nout) {
  int carry = (int)a[TS_SCAN_carry].i, xs = (int)a[TS_SCAN_xs].i;
  if (xs == 0 && a[TS_SCAN_length].type != TS_ATTR_int)
    return ts_error_set(g->err, TS_ERR_argument, "scan: without xs it needs a length");
  int64_t length = ts_scan_length(a, in);
  for (int i = 0; i < xs; i++)
    if (in[carry + i]->meta.ndim == 0 || in[carry + i]->meta.dim[0] != length)
      return ts_error_set(g->err, TS_ERR_shape,
                          "scan: the xs have different lengths along axis 0");
  if (r[0]->nresult < carry)
    return check_count(g, "scan", "the function", r[0]->nresult, carry);
  *nout = r[0]->nresult;
  for (int i = 0; i < *nout; i++) {
    TsMeta m = i < carry ? in[i]->meta : r[0]->result[i]->meta;
    if (i >= carry) {
      if (m.ndim == TS_MAX_RANK)
        return ts_error_set(g->err, TS_ERR_shape, "scan: a result has too many axes");
      memmove(m.dim + 1, m.dim, sizeof *m.dim * m.ndim);
      m.dim[0] = length;
      m.ndim++;
    }
    out[i] = m;
  }
  return check_results(g, "scan", "the carry", r[0], carry, out);
}

/* A graph that is called stands outside of the recursion. */
static int self_in_call(TsGraph *g) {
  ts_error_set(g->err, TS_ERR_value, "recursive: the inner call stands in another function");
  return ts_error_hint(g->err, "checkpoint what stands beside it, or the whole recursion");
}

static int types_of(TsGraph *g, TsNodeOp op, int nin, const TsVal *in, TsGraph *const *r,
                    const TsAttr *a, TsMeta *out, int *nout) {
  switch (op) {
  case TS_NODE_cond: return cond_types(g, in, r, out, nout);
  case TS_NODE_while_loop: return while_types(g, nin, in, r, out, nout);
  case TS_NODE_scan: return scan_types(g, in, r, a, out, nout);
  case TS_NODE_fixed_point:
    if (check_count(g, "fixed_point", "the function", r[0]->nresult, 1)) return -1;
    *nout = 1;
    out[0] = in[0]->meta;
    return check_results(g, "fixed_point", "the result", r[0], 1, out);
  case TS_NODE_recursive:
    if (ts_recursion_check(r[0], g->err)) return -1;
    break;
  default:
    if (ts_recursion_in(r[0])) return self_in_call(g);
    break;
  }
  *nout = r[0]->nresult;
  for (int i = 0; i < *nout; i++) out[i] = r[0]->result[i]->meta;
  return 0;
}

static int attrs_of(TsNodeOp op) {
  return op == TS_NODE_scan          ? TS_SCAN_nattr
         : op == TS_NODE_fixed_point ? TS_FIXED_nattr
         : op == TS_NODE_while_loop  ? TS_WHILE_nattr
         : op == TS_NODE_recursive   ? TS_RECURSIVE_nattr
                                     : 0;
}

TsNode *ts_graph_control(TsGraph *g, TsNodeOp op, int nin, const TsVal *in, int nregion,
                         TsGraph *const *region, const TsAttr *attr) {
  Outer o = {NULL, 0, 0};
  TsGraph *r[2] = {NULL, NULL};
  TsNode *made = NULL;
  int failed = 0, nout = 0, most = 1;
  for (int i = 0; i < nregion && !failed; i++) failed = collect(g, &o, region[i]);
  for (int i = 0; i < nregion && !failed; i++) {
    failed = !(r[i] = ordered(g, op, nin, region[i], &o));
    if (!failed && r[i]->nresult > most) most = r[i]->nresult;
  }
  TsVal *all = malloc(sizeof *all * (size_t)(nin + o.n + 1));
  TsMeta *out = malloc(sizeof *out * (size_t)most);
  if (!failed && (!all || !out)) failed = ts_error_memory(g->err);
  if (!failed) {
    memcpy(all, in, sizeof *in * (size_t)nin);
    if (o.n) memcpy(all + nin, o.v, sizeof *o.v * (size_t)o.n);
    failed = types_of(g, op, nin, in, r, attr, out, &nout);
  }
  TsAttr own[TS_MAX_ATTR];
  if (!failed && attr) memcpy(own, attr, sizeof *own * (size_t)attrs_of(op));
  if (!failed) failed = (nin = drop_unread(g, op, nin + o.n, all, nregion, r, nout, own)) < 0;
  if (!failed)
    made = ts_graph_node(g, op, nin, all, nregion, r, attrs_of(op), own, nout, out, NULL);
  free(all);
  free(out);
  free(o.v);
  return made;
}
