/* Legality of graphs. What the builder promises is checked again here, since passes build
 * graphs too: operands before their uses, attributes as the table says, types as inferred,
 * regions that fit their operator. */
#include "ir/graph/check.h"

#include <stdlib.h>

#include "ir/graph/names.h"
#include "ir/graph/recursion.h"
#include "ir/text/value.h"

/* ---- types */
static int mismatch(const TsNode *n, TsError *err, const char *what, int i, const TsMeta *is,
                    const TsMeta *wanted) {
  char a[TS_META_TEXT], b[TS_META_TEXT];
  if (is->weak) {
    ts_error_set(err, TS_ERR_dtype, "%s: %s %d is a bare number, not %s", ts_node_name(n), what,
                 i, ts_meta_text(wanted, b));
    return ts_error_hint(err, "numbers are operands of operators: full {shape=[] value=3} is a "
                              "tensor");
  }
  return ts_error_set(err, is->dtype == wanted->dtype ? TS_ERR_shape : TS_ERR_dtype,
                      "%s: %s %d is %s, not %s", ts_node_name(n), what, i, ts_meta_text(is, a),
                      ts_meta_text(wanted, b));
}

/* A bare number has no dtype of its own, so it goes into no graph and comes out of none. */
static bool fits(const TsMeta *value, const TsMeta *wanted) {
  return !value->weak && value->dtype == wanted->dtype && ts_meta_same_shape(value, wanted);
}

static int wrong(const TsNode *n, TsError *err, const char *text) {
  return ts_error_set(err, TS_ERR_argument, "%s: %s", ts_node_name(n), text);
}

static int count(const TsNode *n, TsError *err, const char *what, int is, int wanted) {
  if (is == wanted) return 0;
  return ts_error_set(err, TS_ERR_argument, "%s: %d %s, not %d", ts_node_name(n), is, what,
                      wanted);
}

/* Operands from `from` on are the arguments of the region. */
static int check_args(const TsNode *n, const TsGraph *r, int from, TsError *err) {
  if (count(n, err, "parameters of a region", r->nparam, n->nin - from)) return -1;
  for (int i = from; i < n->nin; i++)
    if (!fits(&n->in[i]->meta, &r->param[i - from]->meta))
      return mismatch(n, err, "operand", i, &n->in[i]->meta, &r->param[i - from]->meta);
  return 0;
}

/* The region's results are the node's outputs. */
static int check_outs(const TsNode *n, const TsGraph *r, TsError *err) {
  if (count(n, err, "results of a region", r->nresult, n->nout)) return -1;
  for (int i = 0; i < n->nout; i++) {
    if (!r->result[i]) return wrong(n, err, "a result of a region is missing");
    if (!fits(&r->result[i]->meta, &n->out[i].meta))
      return mismatch(n, err, "result", i, &r->result[i]->meta, &n->out[i].meta);
  }
  return 0;
}

static bool is_condition(TsVal v) { return v->meta.dtype == TS_DT_bool && !v->meta.ndim; }

/* ---- nodes of ir/graph/graph.def */
static int check_param(const TsNode *n, TsError *err) {
  return count(n, err, "operands", n->nin, 0);
}

static int check_number(const TsNode *n, TsError *err) {
  return count(n, err, "operands", n->nin, 0);
}

/* Arguments are for all parameters, captured ones too: nothing else says what they are. */
static int check_call(const TsNode *n, TsError *err) {
  if (count(n, err, "graphs", n->nregion, 1)) return -1;
  const TsGraph *r = n->region[0];
  if (count(n, err, "arguments", n->nin, r->nparam)) return -1;
  for (int i = 0; i < r->nparam; i++)
    if (!fits(&n->in[i]->meta, &r->param[i]->meta))
      return mismatch(n, err, "argument", i, &n->in[i]->meta, &r->param[i]->meta);
  return check_outs(n, r, err);
}

static int check_cond(const TsNode *n, TsError *err) {
  if (count(n, err, "regions", n->nregion, 2)) return -1;
  if (!n->nin || !is_condition(n->in[0]))
    return wrong(n, err, "the first operand is not bool[]");
  for (int i = 0; i < 2; i++)
    if (check_args(n, n->region[i], 1, err) || check_outs(n, n->region[i], err)) return -1;
  return 0;
}

/* The carried values keep their types from turn to turn. */
static int check_carried(const TsNode *n, int ncarry, TsError *err) {
  if (ncarry < 0 || ncarry > n->nin || ncarry > n->nout)
    return wrong(n, err, "more values are carried than there are operands or results");
  for (int i = 0; i < ncarry; i++)
    if (!fits(&n->in[i]->meta, &n->out[i].meta))
      return mismatch(n, err, "operand", i, &n->in[i]->meta, &n->out[i].meta);
  return 0;
}

static int check_while_loop(const TsNode *n, TsError *err) {
  if (count(n, err, "regions", n->nregion, 2)) return -1;
  const TsGraph *test = n->region[0], *step = n->region[1];
  if (check_carried(n, n->nout, err) || check_args(n, test, 0, err) ||
      check_args(n, step, 0, err))
    return -1;
  if (test->nresult != 1 || !is_condition(test->result[0]))
    return wrong(n, err, "region 0 does not give one bool[]");
  return check_outs(n, step, err);
}

static int check_fixed_point(const TsNode *n, TsError *err) {
  if (count(n, err, "regions", n->nregion, 1) || check_carried(n, n->nout, err)) return -1;
  return check_args(n, n->region[0], 0, err) || check_outs(n, n->region[0], err);
}

/* Type of one step of a value that the scan cuts along axis 0. */
static TsMeta slice_of(const TsMeta *m) {
  TsMeta s = *m;
  if (s.ndim) s.ndim--;
  memmove(s.dim, m->dim + 1, s.ndim * sizeof *s.dim);
  return s;
}

static int check_cut(const TsNode *n, const char *what, int i, const TsMeta *whole,
                     const TsMeta *slice, int64_t *length, TsError *err) {
  TsMeta s = slice_of(whole);
  if (!whole->ndim || (*length >= 0 && whole->dim[0] != *length))
    return ts_error_set(err, TS_ERR_shape, "scan: %s %d has no axis 0 of length %lld", what, i,
                        (long long)*length);
  *length = whole->dim[0];
  return fits(&s, slice) ? 0 : mismatch(n, err, what, i, &s, slice);
}

static int check_scan(const TsNode *n, TsError *err) {
  if (count(n, err, "regions", n->nregion, 1)) return -1;
  const TsGraph *r = n->region[0];
  int64_t carry = n->attr[0].i, xs = n->attr[1].i;
  int64_t length = n->attr[2].type == TS_ATTR_int ? n->attr[2].i : -1;
  if (carry < 0 || xs < 0 || carry > n->nin || xs > n->nin - carry)
    return wrong(n, err, "carry and xs are more than the operands");
  if (length < 0 && !xs) return wrong(n, err, "without xs it needs a length");
  if (check_carried(n, (int)carry, err) ||
      count(n, err, "parameters of a region", r->nparam, n->nin) ||
      count(n, err, "results of a region", r->nresult, n->nout))
    return -1;
  for (int i = 0; i < n->nin; i++) {
    const TsMeta *in = &n->in[i]->meta, *p = &r->param[i]->meta;
    bool cut = i >= carry && i < carry + xs;
    if (cut && check_cut(n, "operand", i, in, p, &length, err)) return -1;
    if (!cut && !fits(in, p)) return mismatch(n, err, "operand", i, in, p);
  }
  for (int i = 0; i < n->nout; i++) {
    const TsMeta *out = &n->out[i].meta, *y = &r->result[i]->meta;
    if (i >= carry && check_cut(n, "result", i, out, y, &length, err)) return -1;
    if (i < carry && !fits(y, out)) return mismatch(n, err, "result", i, y, out);
  }
  return 0;
}

static bool is_negative(const TsAttr *a) { return a->type == TS_ATTR_int && a->i < 0; }

static int check_recursive(const TsNode *n, TsError *err) {
  if (count(n, err, "regions", n->nregion, 1)) return -1;
  const TsGraph *r = n->region[0];
  if (n->attr[TS_RECURSIVE_max].i < 1) return wrong(n, err, "max is less than 1");
  if (is_negative(&n->attr[TS_RECURSIVE_site])) return wrong(n, err, "site is negative");
  return check_args(n, r, 0, err) || check_outs(n, r, err) || ts_recursion_check(r, err);
}

static int check_recur(const TsNode *n, TsError *err) {
  if (is_negative(&n->attr[TS_RECUR_site])) return wrong(n, err, "site is negative");
  return count(n, err, "regions", n->nregion, 0);
}

static int check_custom(const TsNode *n, TsError *err) {
  return count(n, err, "regions", n->nregion, 0);
}

static int check_cotangent(const TsNode *n, TsError *err) {
  return wrong(n, err, "forward mode left one behind");
}

static int (*const check_node[])(const TsNode *, TsError *) = {
#define NODE(name, attrs, help) check_##name,
#include "ir/graph/graph.def"
#undef NODE
};

/* ---- operators of the table */
static int check_absent(const TsNode *n, TsError *err) {
  const TsOpInfo *o = n->op < TS_OP_COUNT ? ts_op_info((TsOp)n->op) : NULL;
  for (int i = 0; i < n->nin; i++) {
    if (n->in[i] || (o && !o->variadic && i < o->nin && !(o->required >> i & 1))) continue;
    return ts_error_set(err, TS_ERR_argument, "%s: operand %d cannot be absent",
                        ts_node_name(n), i);
  }
  return 0;
}

static int check_types(const TsNode *n, const TsInfer *inf, TsError *err) {
  if (count(n, err, "results", n->nout, inf->nout)) return -1;
  for (int i = 0; i < n->nout; i++)
    if (n->out[i].meta.dtype != inf->out[i].dtype ||
        !ts_meta_same_shape(&n->out[i].meta, &inf->out[i]))
      return mismatch(n, err, "result", i, &n->out[i].meta, &inf->out[i]);
  return 0;
}

static int check_op(const TsNode *n, TsError *err) {
  const TsOpInfo *o = ts_op_info((TsOp)n->op);
  TsInfer inf = {.op = (TsOp)n->op, .nin = n->nin, .attr = n->attr, .err = err};
  inf.settles = n->as || n->backward;
  const TsMeta *few[16], **m = few;
  if (ts_class_composed(o->cls)) return wrong(n, err, "is defined by other operators");
  if (n->nregion) return wrong(n, err, "has no regions");
  if (n->nin < o->nrequired || (o->variadic ? n->nin < 1 : n->nin > o->nin))
    return wrong(n, err, "wrong number of operands");
  if (n->nin > 16 && !(m = malloc(sizeof *m * (size_t)n->nin))) return ts_error_memory(err);
  for (int i = 0; i < n->nin; i++) m[i] = n->in[i] ? &n->in[i]->meta : NULL;
  inf.in = m;
  int bad = ts_op_infer(&inf) || check_types(n, &inf, err);
  if (m != few) free(m);
  return bad ? -1 : 0;
}

static int check_attrs(const TsNode *n, TsError *err) {
  int nspec;
  const TsAttrSpec *s = ts_node_attrs(n->op, &nspec);
  if (count(n, err, "attributes", n->nattr, nspec)) return -1;
  for (int i = 0; i < nspec; i++)
    if (!ts_attr_legal(&s[i], &n->attr[i]))
      return ts_error_set(err, TS_ERR_attribute, "%s: option '%.*s' %s", ts_node_name(n),
                          s[i].namelen, s[i].name,
                          n->attr[i].type ? "has a value of the wrong kind" : "is missing");
  return 0;
}

static int check_weak(const TsNode *n, TsError *err) {
  for (int i = 0; i < n->nout; i++)
    if (n->out[i].meta.weak && n->op != TS_NODE_number)
      return wrong(n, err, "its type is that of a bare number");
  return 0;
}

int ts_node_check(const TsNode *n, TsError *err) {
  if (check_absent(n, err) || check_weak(n, err) || check_attrs(n, err)) return -1;
  return n->op < TS_OP_COUNT ? check_op(n, err) : check_node[n->op - TS_OP_COUNT](n, err);
}

int ts_update_check(const TsGraph *g, int param, TsVal v, TsError *err) {
  char a[TS_META_TEXT], b[TS_META_TEXT];
  if (param < 0 || param >= g->nparam)
    return ts_error_set(err, TS_ERR_index, "update: there is no parameter %d", param);
  const TsMeta *m = &g->param[param]->meta;
  if (fits(&v->meta, m)) return 0;
  if (v->meta.weak)
    return ts_error_set(err, TS_ERR_dtype, "update: a bare number written into %s",
                        ts_meta_text(m, b));
  return ts_error_set(err, TS_ERR_shape, "update: %s written into %s",
                      ts_meta_text(&v->meta, a), ts_meta_text(m, b));
}

/* ---- graphs */
static bool is_defined(const TsGraph *g, TsVal v, uint32_t before) {
  return v->graph == g && v->node->id < before && (int)v->node->id < g->nnode &&
         g->node[v->node->id] == v->node && v->index >= 0 && v->index < v->node->nout;
}

static int check_place(const TsGraph *g, int i, TsError *err) {
  const TsNode *n = g->node[i];
  if (n->id != (uint32_t)i || n->out[0].graph != g)
    return wrong(n, err, "stands in another place than it says");
  for (int k = 0; k < n->nin; k++)
    if (n->in[k] && !is_defined(g, n->in[k], n->id))
      return ts_error_set(err, TS_ERR_value, "%s: operand %d is not defined before it",
                          ts_node_name(n), k);
  for (int k = 0; k < n->nout; k++)
    if (n->out[k].node != n || n->out[k].graph != g || n->out[k].index != k)
      return wrong(n, err, "an output belongs to another node");
  return 0;
}

/* The line behind the message, cut to what the slot holds. */
static int quote(const TsGraph *g, const TsNode *n, TsError *err) {
  TsText t = {0};
  char message[sizeof err->message], hint[sizeof err->hint];
  TsErrorCode code = err->code;
  memcpy(message, err->message, sizeof message);
  memcpy(hint, err->hint, sizeof hint);
  if (n) ts_node_text(n, &t);
  ts_error_set(err, code, "@%.40s: %.280s%s%.120s", g->name, message, n ? "\n    " : "",
               t.at ? t.at : "");
  if (*hint) ts_error_hint(err, "%s", hint);
  ts_text_free(&t);
  return -1;
}

enum { DEEPEST = 64 };

static int check_graph(const TsGraph *g, int depth, bool recursive, TsError *err) {
  if (depth > DEEPEST)
    return ts_error_set(err, TS_ERR_value, "regions more than %d deep", DEEPEST);
  for (int i = 0; i < g->nparam; i++)
    if (!is_defined(g, g->param[i], (uint32_t)g->nnode) ||
        g->param[i]->node->op != TS_NODE_param || g->param[i]->node->number != i)
      return ts_error_set(err, TS_ERR_value, "@%.40s: parameter %d is none", g->name, i);
  for (int i = 0; i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    if (n->op >= TS_NODE_END)
      return ts_error_set(err, TS_ERR_value, "@%.40s: unknown operator %d", g->name, n->op);
    if (check_place(g, i, err) || ts_node_check(n, err)) return quote(g, n, err);
    if (n->op == TS_NODE_recur && !recursive)
      return ts_error_set(err, TS_ERR_value, "@%.40s: recur stands in no recursive", g->name);
    for (int k = 0; k < n->nregion && n->op != TS_NODE_call; k++)
      if (check_graph(n->region[k], depth + 1, recursive || n->op == TS_NODE_recursive, err))
        return -1;
  }
  for (int i = 0; i < g->nresult; i++)
    if (!g->result[i] || !is_defined(g, g->result[i], (uint32_t)g->nnode))
      return ts_error_set(err, TS_ERR_value, "@%.40s: result %d is not defined in it", g->name,
                          i);
  for (int i = 0; i < g->nupdate; i++) {
    const TsUpdate *u = &g->update[i];
    if (!u->value || !is_defined(g, u->value, (uint32_t)g->nnode))
      return ts_error_set(err, TS_ERR_value, "@%.40s: update %d is not defined in it", g->name,
                          i);
    if (ts_update_check(g, u->param, u->value, err)) return quote(g, NULL, err);
  }
  return 0;
}

int ts_graph_check(const TsGraph *g, TsError *err) {
  TsNames names;
  int bad = 0;
  if (ts_names_open(&names, g))
    bad = ts_error_memory(err);
  else if (names.recursive)
    bad = ts_error_set(err, TS_ERR_value, "@%.40s: a graph calls itself", g->name);
  for (int i = 0; i < names.ngraph && !bad; i++)
    bad = check_graph(names.graph[i], 0, false, err);
  ts_names_close(&names);
  return bad ? -1 : 0;
}
