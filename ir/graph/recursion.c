/* Recursion in graphs: what a body reads, its types, copies in which inner calls change. */
#include "ir/graph/recursion.h"

#include <stdlib.h>
#include <string.h>

#include "ir/graph/control.h"
#include "ir/graph/copy.h"

/* Regions that are part of the body: not a graph that is called, nor another recursion. */
static bool has_parts(const TsNode *n) {
  return n->nregion && n->op != TS_NODE_call && n->op != TS_NODE_recursive;
}

bool ts_recursion_in(const TsGraph *g) {
  for (int i = 0; i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    if (n->op == TS_NODE_recur) return true;
    for (int k = 0; has_parts(n) && k < n->nregion; k++)
      if (ts_recursion_in(n->region[k])) return true;
  }
  return false;
}

static bool holds(const TsNode *n) {
  for (int k = 0; has_parts(n) && k < n->nregion; k++)
    if (ts_recursion_in(n->region[k])) return true;
  return false;
}

/* ---- types */
static bool fits(const TsMeta *value, const TsMeta *wanted) {
  return !value->weak && value->dtype == wanted->dtype && ts_meta_same_shape(value, wanted);
}

static int wrong_type(const char *what, int i, const TsMeta *is, const TsMeta *wanted,
                      TsError *err) {
  char a[TS_META_TEXT], b[TS_META_TEXT];
  ts_error_set(err, is->dtype == wanted->dtype ? TS_ERR_shape : TS_ERR_dtype,
               "recursive: %s %d of the inner call is %s, of the outer call %s", what, i + 1,
               is->weak ? "a bare number" : ts_meta_text(is, a), ts_meta_text(wanted, b));
  return ts_error_hint(err, "types are the same at every level: cast or reshape inside");
}

static int wrong_count(const char *what, int have, int want, TsError *err) {
  return ts_error_set(err, TS_ERR_argument, "recursive: the inner call has %d %s, not %d", have,
                      what, want);
}

static int check_call(const TsNode *n, const TsGraph *body, TsError *err) {
  if (n->nin != body->nparam) return wrong_count("arguments", n->nin, body->nparam, err);
  if (n->nout != body->nresult) return wrong_count("results", n->nout, body->nresult, err);
  for (int i = 0; i < n->nin; i++)
    if (n->in[i] && !fits(&n->in[i]->meta, &body->param[i]->meta))
      return wrong_type("argument", i, &n->in[i]->meta, &body->param[i]->meta, err);
  for (int i = 0; i < n->nout; i++)
    if (!fits(&n->out[i].meta, &body->result[i]->meta))
      return wrong_type("result", i, &n->out[i].meta, &body->result[i]->meta, err);
  return 0;
}

static int check_calls(const TsGraph *g, const TsGraph *body, TsError *err) {
  for (int i = 0; i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    if (n->op == TS_NODE_recur && check_call(n, body, err)) return -1;
    for (int k = 0; has_parts(n) && k < n->nregion; k++)
      if (check_calls(n->region[k], body, err)) return -1;
  }
  return 0;
}

int ts_recursion_check(const TsGraph *body, TsError *err) {
  return check_calls(body, body, err);
}

/* ---- what is read */

/* Operands that the node itself needs, whatever its regions read. */
static int needed_operands(const TsNode *n) {
  switch (n->op) {
  case TS_NODE_while_loop: return n->nout;
  case TS_NODE_scan: return (int)n->attr[TS_SCAN_carry].i;
  default: return 1;
  }
}

/* The node's own; the others are what its regions use from outside. */
static int own_operands(const TsNode *n) {
  return needed_operands(n) + (n->op == TS_NODE_scan ? (int)n->attr[TS_SCAN_xs].i : 0);
}

static int first_param(const TsNode *n) { return n->op == TS_NODE_cond; }

static unsigned char *live_nodes(const TsGraph *g, const unsigned char *keep);

static bool mark_parts(const TsNode *n, const unsigned char *keep, unsigned char *mark) {
  int needed = needed_operands(n);
  for (int i = 0; i < needed; i++) mark[n->in[i]->node->id] = 1;
  for (int k = 0; k < n->nregion; k++) {
    const TsGraph *r = n->region[k];
    unsigned char *live = live_nodes(r, keep);
    if (!live) return false;
    for (int i = needed; i < n->nin; i++)
      mark[n->in[i]->node->id] |= live[r->param[i - first_param(n)]->node->id];
    free(live);
  }
  return true;
}

/* Nodes that the results need when inner calls need the kept operands alone. */
static unsigned char *live_nodes(const TsGraph *g, const unsigned char *keep) {
  unsigned char *mark = calloc((size_t)g->nnode + 1, 1);
  if (!mark) return ts_error_memory(g->err), NULL;
  for (int i = 0; i < g->nresult; i++) mark[g->result[i]->node->id] = 1;
  for (int i = g->nnode; i-- > 0;) {
    const TsNode *n = g->node[i];
    if (!mark[i]) continue;
    if (holds(n)) {
      if (!mark_parts(n, keep, mark)) return free(mark), NULL;
      continue;
    }
    for (int k = 0; k < n->nin; k++)
      if (n->in[k] && (n->op != TS_NODE_recur || !keep || keep[k]))
        mark[n->in[k]->node->id] = 1;
  }
  return mark;
}

/* The least set: a parameter that only inner calls get, as the same one, is not read. */
int ts_recursion_read(const TsGraph *body, unsigned char *read) {
  memset(read, 0, (size_t)body->nparam);
  for (bool more = true; more;) {
    unsigned char *live = live_nodes(body, read);
    if (!live) return -1;
    more = false;
    for (int i = 0; i < body->nparam; i++)
      if (live[body->param[i]->node->id] && !read[i]) read[i] = more = true;
    free(live);
  }
  return 0;
}

/* ---- copies */
static void keep_place(TsGraph *g, const TsNode *n) {
  g->line = n->line;
  g->backward = n->backward;
}

static int map_outputs(TsGraphMap *m, const TsNode *n, TsNode *made) {
  if (!made) return -1;
  for (int i = 0; i < n->nout; i++) {
    ts_graph_map_set(m, (TsVal)(uintptr_t)&n->out[i], &made->out[i]);
    if (n->out[i].name && !made->out[i].name) made->out[i].name = n->out[i].name;
  }
  return 0;
}

static int copy_recur(TsGraphMap *m, const TsNode *n, const TsRecurEdit *e) {
  TsGraph *g = m->to;
  int more = e->top ? e->top->nparam - e->more : 0, nin = 0, failed = 0;
  TsVal *in = malloc(sizeof *in * (size_t)(n->nin + more + 1));
  TsMeta *out = malloc(sizeof *out * (size_t)(n->nout + 1));
  if (!in || !out) failed = ts_error_memory(g->err);
  for (int i = 0; i < n->nin && !failed; i++)
    if (!e->keep || e->keep[i]) in[nin++] = ts_graph_mapped(m, n->in[i]);
  for (int i = 0; i < more && !failed; i++)
    failed = !(in[nin++] = ts_graph_import(g, e->top->param[e->more + i]));
  for (int i = 0; i < n->nout && !failed; i++) out[i] = n->out[i].meta;
  TsAttr attr[TS_RECURSIVE_nattr] = {e->max, n->attr[TS_RECUR_site]};
  TsGraph *body = e->body;
  TsNode *made = NULL;
  keep_place(g, n);
  if (!failed && body)
    made = ts_graph_node(g, TS_NODE_recursive, nin, in, 1, &body, TS_RECURSIVE_nattr, attr,
                         n->nout, out, NULL);
  else if (!failed)
    made = ts_graph_node(g, TS_NODE_recur, nin, in, 0, NULL, TS_RECUR_nattr, n->attr, n->nout,
                         out, NULL);
  free(in);
  free(out);
  return map_outputs(m, n, made);
}

/* What stands for an operand inside: what is not the node's own comes in by itself where it
 * is used, as while a function is captured. A bare number has no type to come in with. */
static TsVal inner_value(TsGraph *r, TsGraph *g, TsVal operand, TsVal param) {
  if (operand && operand->node->op == TS_NODE_number)
    operand = ts_build_cast(&g->b, operand, (TsDtype)param->meta.dtype);
  TsVal v = operand ? ts_graph_import(r, operand) : NULL;
  if (v && !v->name) v->name = param->name;
  return v;
}

static TsGraph *copy_part(TsGraphMap *m, const TsNode *n, const TsGraph *from,
                          const TsRecurEdit *e) {
  TsGraph *r = ts_graph_region(m->to, from->name);
  TsVal *args = calloc((size_t)(from->nparam + from->nresult + 1), sizeof *args);
  TsVal *results = args ? args + from->nparam : NULL;
  int failed = !r || !args, first = first_param(n), own = own_operands(n);
  for (int i = 0; i < from->nparam && !failed; i++) {
    TsVal p = from->param[i], operand = ts_graph_mapped(m, n->in[i + first]);
    if (!operand) continue; /* it is not read any more */
    if (i + first < own)
      failed = !(args[i] = ts_graph_param(r, &p->meta, p->name, NULL));
    else
      failed = !(args[i] = inner_value(r, m->to, operand, p));
  }
  if (!failed)
    failed = ts_recursion_inline(r, from, args, results, e) ||
             ts_graph_results(r, from->nresult, results);
  free(args);
  return failed ? NULL : r;
}

static int copy_holder(TsGraphMap *m, const TsNode *n, const TsRecurEdit *e) {
  TsGraph *part[4];
  TsNode *made = NULL;
  TsAttr attr[TS_SCAN_nattr];
  int own = own_operands(n), nin = 0, failed = 0;
  TsVal *in = malloc(sizeof *in * (size_t)(own + 1));
  if (!in) return ts_error_memory(m->to->err);
  TS_ASSERT(n->nregion <= 4 && n->nattr <= TS_SCAN_nattr);
  keep_place(m->to, n);
  for (int i = 0; i < own; i++)
    if ((in[nin] = ts_graph_mapped(m, n->in[i]))) nin++;
  if (n->nattr) memcpy(attr, n->attr, sizeof *attr * (size_t)n->nattr);
  if (nin < own) { /* xs of a scan that are not read any more */
    attr[TS_SCAN_length] = ts_b_int(ts_scan_length(n->attr, n->in));
    attr[TS_SCAN_xs].i -= own - nin;
  }
  for (int k = 0; k < n->nregion && !failed; k++)
    failed = !(part[k] = copy_part(m, n, n->region[k], e));
  keep_place(m->to, n);
  if (!failed) made = ts_graph_control(m->to, (TsNodeOp)n->op, nin, in, n->nregion, part, attr);
  free(in);
  return map_outputs(m, n, made);
}

int ts_recursion_inline(TsGraph *to, const TsGraph *from, const TsVal *args, TsVal *results,
                        const TsRecurEdit *e) {
  TsGraphMap m;
  int line = to->line, failed = 0;
  bool backward = to->backward;
  TS_ASSERT(to->module == from->module);
  unsigned char *live = live_nodes(from, e->keep);
  if (!live || ts_graph_map_open(&m, to, from)) return free(live), -1;
  for (int i = 0; i < from->nparam; i++) ts_graph_map_set(&m, from->param[i], args[i]);
  for (int i = 0; i < from->nnode && !failed; i++) {
    const TsNode *n = from->node[i];
    if (!live[i] || n->op == TS_NODE_param) continue;
    failed = n->op == TS_NODE_recur ? copy_recur(&m, n, e)
             : holds(n)             ? copy_holder(&m, n, e)
                                    : ts_graph_map_node(&m, n);
  }
  for (int i = 0; i < from->nresult && !failed; i++)
    results[i] = ts_graph_mapped(&m, from->result[i]);
  ts_graph_map_close(&m);
  free(live);
  to->line = line;
  to->backward = backward;
  return failed ? -1 : 0;
}
