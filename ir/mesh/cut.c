/* See ir/mesh/cut.h. */
#include "ir/mesh/cut.h"

#include <stdlib.h>
#include <string.h>

#include "ir/graph/copy.h"
#include "ir/mesh/leaves.h"

/* 1: n became its leaves and their sum; 0: nothing is summed in it; -1. */
static int cut_node(TsGraphMap *m, const TsNode *n, int leaves) {
  const TsOpInfo *o = n->op < TS_OP_COUNT ? ts_op_info((TsOp)n->op) : NULL;
  if (!o || (o->cls != TS_CLASS_REDUCE && o->cls != TS_CLASS_KERNEL) || n->nin > TS_MAX_IN)
    return 0;
  if (n->op == TS_OP_mean) return 0; /* no sum: what defines it is (vm/mesh/define.c) */
  const TsMeta *meta[TS_MAX_IN];
  int8_t axis[TS_MAX_IN][TS_MAX_RANK];
  TsMeta type[TS_MAX_OUT];
  TsVal in[TS_MAX_IN], out[TS_MAX_OUT], sum[TS_MAX_OUT][TS_LEAF_SUMS];
  TsBuild *b = &m->to->b;
  for (int i = 0; i < n->nin; i++) {
    meta[i] = n->in[i] ? &n->in[i]->meta : NULL;
    in[i] = ts_graph_mapped(m, n->in[i]);
  }
  for (int i = 0; i < n->nout; i++) type[i] = n->out[i].meta;
  TsShard s = {.op = (TsOp)n->op,
               .nin = n->nin,
               .nout = n->nout,
               .in = meta,
               .out = type,
               .attr = n->attr,
               .in_axis = axis,
               .err = m->to->err};
  TsShardPart part = {.summand = false};
  int f;
  memset(axis, TS_WHOLE, sizeof axis);
  memset(s.out_axis, TS_WHOLE, sizeof s.out_axis);
  o->shard(&s);
  if (!ts_shard_leaves(&s, NULL, leaves, &f)) return 0;
  for (int i = 0; i < s.nfactor; i++) part.count[i] = s.factor[i].size;
  m->to->line = ts_graph_place(m->to->module, ts_graph_where(n));
  m->to->backward = n->backward;
  ts_leaves_build(b, &s, &part, f, leaves, 0, leaves, in, out, sum);
  for (int i = 0; i < n->nout && !b->failed; i++) {
    if (!memchr(s.out_axis[i], f, type[i].ndim)) out[i] = sum[i][0];
    if (out[i] && out[i]->meta.dtype != type[i].dtype)
      out[i] = ts_build_cast(b, out[i], (TsDtype)type[i].dtype);
    if (out[i]) ts_graph_map_set(m, (TsVal)&n->out[i], out[i]);
  }
  m->to->backward = false;
  return b->failed ? -1 : 1;
}

static TsGraph *cut(TsModule *u, TsGraph *parent, const TsGraph *from, int leaves,
                    TsError *err);

static int cut_regions(TsGraphMap *m, const TsNode *n, int leaves) {
  TsVal *in = calloc((size_t)n->nin + 1, sizeof *in);
  TsGraph *region[4];
  TsNode *made = NULL;
  bool whole = in != NULL;
  for (int i = 0; in && i < n->nin; i++) in[i] = ts_graph_mapped(m, n->in[i]);
  for (int i = 0; i < n->nregion && whole; i++)
    whole = (region[i] = cut(m->to->module, m->to, n->region[i], leaves, m->to->err)) != NULL;
  if (whole) made = ts_graph_again(m->to, n, in, region, n->attr);
  free(in);
  for (int i = 0; made && i < n->nout; i++)
    ts_graph_map_set(m, (TsVal)&n->out[i], &made->out[i]);
  return made ? 0 : -1;
}

static int cut_all(TsGraphMap *m, int leaves) {
  int failed = 0;
  for (int i = 0; i < m->from->nnode && !failed; i++) {
    const TsNode *n = m->from->node[i];
    if (n->op == TS_NODE_param) continue;
    int done = n->nregion ? (cut_regions(m, n, leaves) ? -1 : 1) : cut_node(m, n, leaves);
    failed = done < 0 || (!done && ts_graph_map_node(m, n));
  }
  return failed || ts_graph_map_finish(m) ? -1 : 0;
}

static TsGraph *cut(TsModule *u, TsGraph *parent, const TsGraph *from, int leaves,
                    TsError *err) {
  TsGraphMap m;
  TsGraph *g = NULL;
  if (ts_graph_map_open(&m, NULL, from)) return NULL;
  if ((g = ts_graph_map_shell(&m, u, from, err))) {
    g->parent = parent;
    if (!u) g->module->nrandom = from->module->nrandom;
    if (cut_all(&m, leaves)) {
      if (!u) ts_graph_free(g);
      g = NULL;
    }
  }
  ts_graph_map_close(&m);
  return g;
}

TsGraph *ts_mesh_cut(const TsGraph *g, int leaves, TsError *err) {
  return cut(NULL, NULL, g, leaves, err);
}
