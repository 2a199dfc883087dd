/* See vm/mesh/expand.h. A definition is written once, for calls that run at once; here it is captured. */
#include "vm/mesh/expand.h"

#include <stdlib.h>

#include "ir/graph/copy.h"
#include "ir/mesh/cut.h"
#include "ir/mesh/outline.h"
#include "vm/core/capture.h"
#include "vm/mesh/define.h"

/* n's operands as symbols of the graph that is captured: numbers are numbers. */
static int symbols(TsContext *c, const TsGraphMap *m, const TsNode *n, TsTensor **in) {
  for (int i = 0; i < n->nin; i++) {
    TsVal v = ts_graph_mapped(m, n->in[i]);
    in[i] = NULL;
    if (!v) continue;
    in[i] = v->node->op == TS_NODE_number ? ts_tensor_number(c, v->node->number)
                                          : ts_capture_symbol(c, v);
    if (!in[i]) return -1;
  }
  return 0;
}

/* 1: the node has become others; 0: it stays; -1. */
static int define(TsContext *c, TsGraphMap *m, const TsNode *n) {
  TsTensor *in[TS_MAX_IN] = {NULL}, *out[TS_MAX_OUT] = {NULL};
  TsMeta meta[TS_MAX_OUT];
  TsCaptureInto before;
  TsCall call = {.ctx = c,
                 .op = (TsOp)n->op,
                 .nin = n->nin,
                 .nout = n->nout,
                 .in = in,
                 .out = out,
                 .attr = n->attr};
  if (n->op >= TS_OP_COUNT || n->nin > TS_MAX_IN) return 0;
  for (int o = 0; o < n->nout; o++) meta[o] = n->out[o].meta;
  m->to->line = ts_graph_place(m->to->module, ts_graph_where(n));
  m->to->backward = n->backward;
  if (ts_capture_into(c, m->to, &before)) return -1;
  int done = symbols(c, m, n, in) ? -1 : ts_mesh_define(&call, meta);
  for (int o = 0; o < n->nout && done > 0; o++)
    ts_graph_map_set(m, (TsVal)&n->out[o], ts_capture_value(c, out[o]));
  ts_capture_back(c, &before);
  m->to->backward = false;
  for (int i = 0; i < n->nin; i++) ts_tensor_unref(in[i]);
  for (int o = 0; o < n->nout; o++) ts_tensor_unref(out[o]);
  return done;
}

static TsGraph *expand(TsContext *c, TsGraph *parent, const TsGraph *from);

/* A control operator, with its functions expanded. */
static int copy_control(TsContext *c, TsGraphMap *m, const TsNode *n) {
  TsVal *in = calloc((size_t)n->nin + 1, sizeof *in);
  TsGraph *region[4];
  TsNode *made = NULL;
  bool whole = in || ts_error_memory(&c->err) == 0;
  for (int i = 0; in && i < n->nin; i++) in[i] = ts_graph_mapped(m, n->in[i]);
  for (int i = 0; i < n->nregion && whole; i++)
    whole = (region[i] = expand(c, m->to, n->region[i])) != NULL;
  if (whole) made = ts_graph_again(m->to, n, in, region, n->attr);
  free(in);
  for (int i = 0; made && i < n->nout; i++)
    ts_graph_map_set(m, (TsVal)&n->out[i], &made->out[i]);
  return made ? 0 : -1;
}

static int copy(TsContext *c, TsGraphMap *m) {
  unsigned char *live = ts_graph_live(m->from);
  int failed = !live;
  for (int i = 0; i < m->from->nnode && !failed; i++) {
    const TsNode *n = m->from->node[i];
    if (!live[i] || n->op == TS_NODE_param) continue;
    int done = n->nregion ? 0 : define(c, m, n);
    failed =
        done < 0 || (!done && (n->nregion ? copy_control(c, m, n) : ts_graph_map_node(m, n)));
  }
  free(live);
  return failed ? -1 : ts_graph_map_finish(m);
}

/* ---- functions of control operators */
static bool all_plain(const TsGraph *g, const unsigned char *live) {
  bool plain = !g->nupdate;
  for (int i = 0; i < g->nnode && plain; i++) plain = !live[i] || ts_mesh_is_plain(g->node[i]);
  return plain;
}

/* The call again, whose results lie as its operands do now. */
static int emit(TsGraphMap *m, const TsNode *n) {
  TsVal *in = calloc((size_t)n->nin + 1, sizeof *in), out[TS_MAX_OUT] = {NULL};
  if (!in) return ts_error_memory(m->to->err);
  for (int i = 0; i < n->nin; i++) in[i] = ts_graph_mapped(m, n->in[i]);
  m->to->line = ts_graph_place(m->to->module, ts_graph_where(n));
  m->to->backward = n->backward, m->to->choice = n->choice;
  m->to->b.emit(&m->to->b, n->op, n->nin, in, n->attr, out);
  m->to->backward = false, m->to->choice = NULL;
  free(in);
  for (int o = 0; o < n->nout && !m->to->b.failed; o++)
    ts_graph_map_set(m, (TsVal)&n->out[o], out[o]);
  return m->to->b.failed ? -1 : 0;
}

static int copy_region(TsContext *c, TsGraphMap *m, const unsigned char *live) {
  int failed = 0;
  for (int i = 0; i < m->from->nnode && !failed; i++) {
    const TsNode *n = m->from->node[i];
    if (!live[i] || n->op == TS_NODE_param) continue;
    int done = n->op < TS_OP_COUNT ? define(c, m, n) : 0;
    failed =
        done < 0 || (!done && (n->op < TS_OP_COUNT ? emit(m, n) : ts_graph_map_node(m, n)));
  }
  return failed || ts_graph_map_finish(m) ? -1 : 0;
}

static int region_params(TsGraphMap *m, TsTensor *const *args) {
  for (int i = 0; i < m->from->nparam; i++) {
    TsMeta type = m->from->param[i]->meta;
    type.layout = args[i]->meta.layout;
    TsVal p = ts_graph_param(m->to, &type, m->from->param[i]->name, NULL);
    if (!p) return -1;
    ts_graph_map_set(m, m->from->param[i], p);
  }
  return 0;
}

TsGraph *ts_mesh_region(TsContext *c, const TsGraph *g, TsTensor *const *args) {
  TsGraphMap m;
  TsGraph *made = NULL;
  unsigned char *live = ts_graph_live(g);
  if (!live) return ts_error_memory(&c->err), NULL;
  if (all_plain(g, live) && !ts_graph_map_open(&m, NULL, g)) {
    if ((m.to = made = ts_graph_new(g->name, &c->err)) &&
        (region_params(&m, args) || copy_region(c, &m, live))) {
      ts_graph_free(made);
      made = NULL;
    }
    ts_graph_map_close(&m);
  }
  free(live);
  return made;
}

/* parent: whose function it is, or NULL: it has a module of its own. */
static TsGraph *expand(TsContext *c, TsGraph *parent, const TsGraph *from) {
  TsGraphMap m;
  TsGraph *made = NULL;
  if (ts_graph_map_open(&m, NULL, from)) return NULL;
  if ((made = ts_graph_map_shell(&m, parent ? parent->module : NULL, from, &c->err))) {
    made->parent = parent;
    if (!parent) made->module->nrandom = from->module->nrandom;
    if (copy(c, &m)) {
      if (!parent) ts_graph_free(made);
      made = NULL;
    }
  }
  ts_graph_map_close(&m);
  return made;
}

TsGraph *ts_mesh_expand(TsContext *c, const TsGraph *g) { return expand(c, NULL, g); }

bool ts_mesh_spreads(const TsGraph *g) {
  for (int i = 0; i < g->nparam; i++)
    if (g->param[i]->meta.layout) return true;
  return false;
}

TsGraph *ts_mesh_leaved(TsContext *c, const TsGraph *g) {
  TsGraph *expanded = ts_mesh_expand(c, g), *made = NULL;
  if (expanded) made = ts_mesh_cut(expanded, c->leaves, &c->err);
  if (expanded) ts_graph_free(expanded);
  if (made) ts_capture_hold(made);
  return made;
}
