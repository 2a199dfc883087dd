/* See vm/mesh/expand.h. A definition is written once, for calls that run at once; here it is captured. */
#include "vm/mesh/expand.h"

#include <stdlib.h>

#include "ir/graph/copy.h"
#include "ir/mesh/cut.h"
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

static int copy(TsContext *c, TsGraphMap *m) {
  unsigned char *live = ts_graph_live(m->from);
  int failed = !live;
  for (int i = 0; i < m->from->nnode && !failed; i++) {
    const TsNode *n = m->from->node[i];
    if (!live[i] || n->op == TS_NODE_param) continue;
    int done = define(c, m, n);
    failed = done < 0 || (!done && ts_graph_map_node(m, n));
  }
  free(live);
  return failed ? -1 : ts_graph_map_finish(m);
}

TsGraph *ts_mesh_expand(TsContext *c, const TsGraph *g) {
  TsGraphMap m;
  TsGraph *made = NULL;
  if (ts_graph_map_open(&m, NULL, g)) return NULL;
  if ((made = ts_graph_map_shell(&m, NULL, g, &c->err))) {
    made->module->nrandom = g->module->nrandom;
    if (copy(c, &m)) {
      ts_graph_free(made);
      made = NULL;
    }
  }
  ts_graph_map_close(&m);
  return made;
}

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
