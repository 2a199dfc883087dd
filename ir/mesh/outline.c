/* See ir/mesh/outline.h. A plain node stands in the part behind the last loop that it needs something of,
 * so parts and loops take turns; a number stands wherever it is used. */
#include "ir/mesh/outline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/graph/control.h"
#include "ir/graph/copy.h"

bool ts_mesh_is_plain(const TsNode *n) {
  if (n->op >= TS_OP_COUNT) return n->op == TS_NODE_number || n->op == TS_NODE_param;
  return ts_op_info((TsOp)n->op)->cls != TS_CLASS_RANDOM && n->nout <= TS_MAX_OUT;
}

typedef struct Outline {
  TsGraphMap m;
  const unsigned char *live;
  int *part; /* by node: of a plain one its part, of others the part behind which they stand */
  bool *given; /* by node: somebody outside of its part reads it */
  int nparts;
} Outline;

static bool is_operator(const TsNode *n) { return n->op < TS_OP_COUNT && ts_mesh_is_plain(n); }

static bool is_free(const TsNode *n) {
  return n->op == TS_NODE_number || n->op == TS_NODE_param;
}

static void find_parts(Outline *o) {
  const TsGraph *g = o->m.from;
  for (int i = 0; i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    if (!o->live[i] || is_free(n)) continue;
    for (int k = 0; k < n->nin; k++) {
      const TsNode *in = n->in[k] ? n->in[k]->node : NULL;
      if (!in || is_free(in)) continue;
      int at = o->part[in->id] + (is_operator(n) && !is_operator(in));
      if (at > o->part[i]) o->part[i] = at;
    }
    if (o->part[i] + 1 > o->nparts) o->nparts = o->part[i] + 1;
  }
  for (int i = 0; i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    for (int k = 0; o->live[i] && k < n->nin; k++) {
      const TsNode *in = n->in[k] ? n->in[k]->node : NULL;
      if (in && (!is_operator(n) || o->part[in->id] != o->part[i])) o->given[in->id] = true;
    }
  }
  for (int i = 0; i < g->nresult; i++) o->given[g->result[i]->node->id] = true;
  for (int i = 0; i < g->nupdate; i++) o->given[g->update[i].value->node->id] = true;
}

/* ---- a part as a function */
typedef struct Part {
  TsGraphMap inner;
  int nin, nout;
  TsVal *in, *out; /* in the whole's copy; in the original */
} Part;

static int operand(Outline *o, Part *p, TsVal v) {
  if (ts_graph_mapped(&p->inner, v)) return 0;
  if (v->node->op == TS_NODE_number) return ts_graph_map_node(&p->inner, v->node);
  TsVal outside = ts_graph_mapped(&o->m, v);
  TsVal param = ts_graph_param(p->inner.to, &v->meta, v->name, NULL);
  if (!param) return -1;
  ts_graph_map_set(&p->inner, v, param);
  p->in[p->nin++] = outside;
  return 0;
}

static int fill(Outline *o, Part *p, int part) {
  const TsGraph *g = o->m.from;
  for (int i = 0; i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    if (!o->live[i] || !is_operator(n) || o->part[i] != part) continue;
    for (int k = 0; k < n->nin; k++)
      if (n->in[k] && operand(o, p, n->in[k])) return -1;
    if (ts_graph_map_node(&p->inner, n)) return -1;
    for (int k = 0; k < n->nout && o->given[i]; k++) p->out[p->nout++] = (TsVal)&n->out[k];
  }
  return 0;
}

static int call_part(Outline *o, Part *p) {
  TsVal *result = calloc((size_t)p->nout + 1, sizeof *result);
  if (!result) return ts_error_memory(o->m.to->err);
  for (int i = 0; i < p->nout; i++) result[i] = ts_graph_mapped(&p->inner, p->out[i]);
  TsGraph *region = p->inner.to;
  int failed = ts_graph_results(region, p->nout, result);
  TsNode *n =
      failed ? NULL : ts_graph_control(o->m.to, TS_NODE_call, p->nin, p->in, 1, &region, NULL);
  for (int i = 0; n && i < p->nout; i++) ts_graph_map_set(&o->m, p->out[i], &n->out[i]);
  free(result);
  return n ? 0 : -1;
}

static int add_part(Outline *o, int part) {
  const TsGraph *g = o->m.from;
  size_t most = (size_t)g->nparam + 1;
  for (int i = 0; i < g->nnode; i++) most += (size_t)g->node[i]->nout;
  Part p = {.nin = 0};
  p.in = calloc(2 * most, sizeof *p.in), p.out = p.in + most;
  int failed = !p.in ? ts_error_memory(o->m.to->err) : ts_graph_map_open(&p.inner, NULL, g);
  if (!p.in || failed) return free(p.in), -1;
  char name[48];
  snprintf(name, sizeof name, "%.32s.part%d", g->name ? g->name : "f", part);
  if (!(p.inner.to = ts_graph_region(o->m.to, name))) failed = -1;
  if (!failed) failed = fill(o, &p, part);
  if (!failed && p.nout) failed = call_part(o, &p);
  ts_graph_map_close(&p.inner);
  free(p.in);
  return failed ? -1 : 0;
}

/* ---- the others */
static TsGraph *outline(TsModule *u, TsGraph *parent, const TsGraph *from, TsError *err);

/* A function that may run itself again is one with its loop. */
static bool recurs(const TsNode *n) {
  if (n->op == TS_NODE_recursive || n->op == TS_NODE_recur) return true;
  for (int r = 0; r < n->nregion; r++)
    for (int i = 0; i < n->region[r]->nnode; i++)
      if (recurs(n->region[r]->node[i])) return true;
  return false;
}

void ts_mesh_outside(const TsGraph *g, void (*each)(void *, const TsNode *, const char *),
                     void *arg) {
  for (int i = 0; i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    if (ts_mesh_is_plain(n)) continue;
    bool again = n->nregion && recurs(n);
    each(arg, n,
         again                     ? "a recursion does not run on a mesh"
         : n->op == TS_NODE_custom ? "it is a function from outside, which takes whole tensors"
         : n->op < TS_OP_COUNT && n->nout > TS_MAX_OUT ? "it has too many results"
         : n->op < TS_OP_COUNT ? "what it draws depends on where it stands in the whole"
                               : NULL);
    for (int r = 0; r < n->nregion && !again; r++) ts_mesh_outside(n->region[r], each, arg);
  }
}

static bool has_others(const TsGraph *g) {
  bool others = false, plain = false;
  for (int i = 0; i < g->nnode; i++)
    others |= !ts_mesh_is_plain(g->node[i]), plain |= is_operator(g->node[i]);
  return others && plain;
}

static int add_other(Outline *o, const TsNode *n) {
  TsGraph *region[4];
  bool inside = false;
  for (int i = 0; i < n->nin; i++) /* numbers stand where they are used */
    if (n->in[i] && n->in[i]->node->op == TS_NODE_number && !ts_graph_mapped(&o->m, n->in[i]) &&
        ts_graph_map_node(&o->m, n->in[i]->node))
      return -1;
  for (int i = 0; i < n->nregion; i++) inside |= has_others(n->region[i]);
  if (!inside || recurs(n)) return ts_graph_map_node(&o->m, n);
  TsVal *in = calloc((size_t)n->nin + 1, sizeof *in);
  TsNode *made = NULL;
  bool whole = in != NULL;
  for (int i = 0; in && i < n->nin; i++) in[i] = ts_graph_mapped(&o->m, n->in[i]);
  for (int i = 0; i < n->nregion && whole; i++)
    whole = (region[i] = outline(o->m.to->module, o->m.to, n->region[i], o->m.to->err)) != NULL;
  if (whole) made = ts_graph_again(o->m.to, n, in, region, n->attr);
  free(in);
  for (int i = 0; made && i < n->nout; i++)
    ts_graph_map_set(&o->m, (TsVal)&n->out[i], &made->out[i]);
  return made ? 0 : -1;
}

static int add_all(Outline *o) {
  const TsGraph *g = o->m.from;
  for (int part = 0; part < o->nparts; part++) {
    if (add_part(o, part)) return -1;
    for (int i = 0; i < g->nnode; i++) {
      const TsNode *n = g->node[i];
      if (!o->live[i] || is_free(n) || is_operator(n) || o->part[i] != part) continue;
      if (add_other(o, n)) return -1;
    }
  }
  for (int i = 0; i < g->nnode; i++) /* results that are numbers */
    if (g->node[i]->op == TS_NODE_number && o->given[i] &&
        !ts_graph_mapped(&o->m, (TsVal)&g->node[i]->out[0]) &&
        ts_graph_map_node(&o->m, g->node[i]))
      return -1;
  return ts_graph_map_finish(&o->m);
}

static TsGraph *outline(TsModule *u, TsGraph *parent, const TsGraph *from, TsError *err) {
  Outline o = {.nparts = 0};
  unsigned char *live = ts_graph_live(from);
  TsGraph *g = NULL;
  o.live = live;
  o.part = calloc((size_t)from->nnode + 1, sizeof *o.part);
  o.given = calloc((size_t)from->nnode + 1, sizeof *o.given);
  if (!live || !o.part || !o.given) {
    ts_error_memory(err);
  } else if (!ts_graph_map_open(&o.m, NULL, from)) {
    find_parts(&o);
    if ((g = ts_graph_map_shell(&o.m, u, from, err))) {
      g->parent = parent;
      if (!u) g->module->nrandom = from->module->nrandom;
      if (add_all(&o)) {
        if (!u) ts_graph_free(g);
        g = NULL;
      }
    }
    ts_graph_map_close(&o.m);
  }
  free(live);
  free(o.part);
  free(o.given);
  return g;
}

TsGraph *ts_mesh_outline(const TsGraph *g, TsError *err) { return outline(NULL, NULL, g, err); }
