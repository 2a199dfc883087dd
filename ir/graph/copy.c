/* Copies of graphs through a map from old values to new ones. */
#include "ir/graph/copy.h"

#include <stdlib.h>
#include <string.h>

int ts_graph_map_open(TsGraphMap *m, TsGraph *to, const TsGraph *from) {
  int n = 0;
  *m = (TsGraphMap){.to = to, .from = from};
  m->start = malloc(sizeof *m->start * ((size_t)from->nnode + 1));
  for (int i = 0; m->start && i < from->nnode; i++) {
    m->start[i] = n;
    n += from->node[i]->nout > 0 ? from->node[i]->nout : 1;
  }
  m->value = calloc((size_t)n + 1, sizeof *m->value);
  if (m->start && m->value) return 0;
  ts_graph_map_close(m);
  return ts_error_memory(from->err);
}

void ts_graph_map_close(TsGraphMap *m) {
  free(m->start);
  free(m->value);
  m->start = NULL;
  m->value = NULL;
}

static TsGraph *copy_region(TsGraphMap *m, TsGraph *from) {
  if (from->module == m->to->module) return from;
  TsGraphMap inner;
  TsGraph *g = NULL;
  if (ts_graph_map_open(&inner, NULL, from)) return NULL;
  if ((g = ts_graph_map_shell(&inner, m->to->module, from, m->to->err))) {
    inner.stream = m->stream;
    inner.seed = m->seed;
    g->parent = m->to;
    for (int i = 0; i < from->nnode && g; i++)
      if (from->node[i]->op != TS_NODE_param && ts_graph_map_node(&inner, from->node[i]))
        g = NULL;
    if (g && ts_graph_map_finish(&inner)) g = NULL;
  }
  ts_graph_map_close(&inner);
  return g;
}

/* A random call's stream is relative to the module's. */
static const TsAttr *moved_stream(const TsGraphMap *m, const TsNode *n, TsAttr *attr) {
  const TsOpInfo *o = n->op < TS_OP_COUNT ? ts_op_info((TsOp)n->op) : NULL;
  if (!o || o->cls != TS_CLASS_RANDOM || (!m->stream && !m->seed)) return n->attr;
  memcpy(attr, n->attr, sizeof *attr * (size_t)n->nattr);
  TsAttr *s = &attr[n->nattr - 1], *seed = &attr[n->nattr - 2];
  if (s->type == TS_ATTR_int && s->i < 0) s->i -= m->stream;
  if (m->seed && seed->type == TS_ATTR_none) *seed = ts_b_int((int64_t)*m->seed);
  return attr;
}

int ts_graph_map_node(TsGraphMap *m, const TsNode *n) {
  TsVal few[16], *in = n->nin <= 16 ? few : malloc(sizeof *in * (size_t)n->nin);
  TsGraph *region[4];
  TsAttr attr[TS_MAX_ATTR];
  TsNode *made = NULL;
  if (!in) return ts_error_memory(m->to->err);
  TS_ASSERT(n->nregion <= 4);
  for (int i = 0; i < n->nin; i++) in[i] = ts_graph_mapped(m, n->in[i]);
  bool whole = true;
  for (int i = 0; i < n->nregion; i++)
    whole &= (region[i] = copy_region(m, n->region[i])) != NULL;
  if (whole) made = ts_graph_again(m->to, n, in, region, moved_stream(m, n, attr));
  if (in != few) free(in);
  if (!made) return -1;
  for (int i = 0; i < n->nout; i++) {
    m->value[m->start[n->id] + i] = &made->out[i];
    if (n->out[i].name && !made->out[i].name)
      made->out[i].name = ts_arena_text(&m->to->module->arena, n->out[i].name);
  }
  return 0;
}

TsGraph *ts_graph_map_shell(TsGraphMap *m, TsModule *u, const TsGraph *from, TsError *err) {
  TsGraph *g = u ? ts_graph_in_module(u, from->name, err) : ts_graph_new(from->name, err);
  if (!g) return NULL;
  m->to = g, g->spare = from->spare;
  for (int i = 0; i < from->nparam; i++) {
    TsVal p = from->param[i];
    TsVal made = ts_graph_param(g, &p->meta, p->name, from->bound[i]);
    if (!made) {
      if (!u) ts_graph_free(g); /* else its unit keeps it */
      return NULL;
    }
    ts_graph_map_set(m, p, made);
  }
  return g;
}

int ts_graph_map_finish(TsGraphMap *m) {
  const TsGraph *from = m->from;
  TsVal *v = malloc(sizeof *v * (size_t)(from->nresult + 1));
  if (!v) return ts_error_memory(m->to->err);
  for (int i = 0; i < from->nresult; i++) v[i] = ts_graph_mapped(m, from->result[i]);
  int failed = ts_graph_results(m->to, from->nresult, v);
  free(v);
  if (!failed && from->bytes) failed = ts_graph_result_bytes(m->to, from->bytes);
  if (!failed && from->spread) failed = ts_graph_result_spread(m->to, from->spread);
  for (int i = 0; i < from->nupdate && !failed; i++)
    failed = ts_graph_update(m->to, from->update[i].param,
                             ts_graph_mapped(m, from->update[i].value));
  return failed;
}

unsigned char *ts_graph_live(const TsGraph *g) {
  unsigned char *mark = calloc((size_t)g->nnode + 1, 1);
  if (!mark) return ts_error_memory(g->err), NULL;
  for (int i = 0; i < g->nresult; i++) mark[g->result[i]->node->id] = 1;
  for (int i = 0; i < g->nupdate; i++) mark[g->update[i].value->node->id] = 1;
  for (int i = g->nnode; i-- > 0;) {
    const TsNode *n = g->node[i];
    mark[i] |= n->runs;
    for (int k = 0; mark[i] && k < n->nin; k++)
      if (n->in[k]) mark[n->in[k]->node->id] = 1;
  }
  return mark;
}

unsigned char *ts_graph_moves(const TsGraph *g, TsVal v) {
  unsigned char *mark = calloc((size_t)g->nnode + 1, 1);
  unsigned char *moves = calloc((size_t)g->nparam + 1, 1);
  if (mark && moves) mark[v->node->id] = 1;
  for (int i = g->nnode; mark && moves && i-- > 0;) {
    const TsNode *n = g->node[i];
    for (int k = 0; mark[i] && n->op != TS_OP_stop_gradient && k < n->nin; k++)
      if (n->in[k] && ts_dtype_is((TsDtype)n->in[k]->meta.dtype, TS_KIND_F | TS_KIND_C))
        mark[n->in[k]->node->id] = 1;
  }
  for (int i = 0; i < g->nparam && mark && moves; i++) moves[i] = mark[g->param[i]->node->id];
  if (!mark) free(moves), moves = NULL;
  free(mark);
  return moves;
}

/* Dead ones too: what a later node is equal to stands where it was made first, as it does when
 * everything is captured at once. The order of sums of gradients depends on it. */
static int copy_all(TsGraphMap *m) {
  int failed = 0;
  for (int i = 0; i < m->from->nnode && !failed; i++)
    if (m->from->node[i]->op != TS_NODE_param) failed = ts_graph_map_node(m, m->from->node[i]);
  return failed ? -1 : 0;
}

static int copy_live(TsGraphMap *m) {
  const TsGraph *from = m->from;
  unsigned char *live = ts_graph_live(from);
  int failed = !live;
  for (int i = 0; i < from->nnode && !failed; i++)
    if (live[i] && from->node[i]->op != TS_NODE_param)
      failed = ts_graph_map_node(m, from->node[i]);
  free(live);
  return failed ? -1 : 0;
}

static int inline_at(TsGraph *g, const TsGraph *from, const TsVal *args, TsVal *results,
                     int64_t stream, const uint64_t *seed) {
  TsGraphMap m;
  if (ts_graph_map_open(&m, g, from)) return -1;
  m.stream = stream;
  m.seed = seed;
  for (int i = 0; i < from->nparam; i++) ts_graph_map_set(&m, from->param[i], args[i]);
  int failed = seed ? copy_all(&m) : copy_live(&m);
  for (int i = 0; i < from->nresult && !failed; i++)
    results[i] = ts_graph_mapped(&m, from->result[i]);
  for (int i = 0; i < from->nupdate && seed && !failed; i++)
    results[from->nresult + i] = ts_graph_mapped(&m, from->update[i].value);
  ts_graph_map_close(&m);
  return failed;
}

int ts_graph_inline(TsGraph *g, const TsGraph *from, const TsVal *args, TsVal *results) {
  int64_t stream = g->module != from->module ? g->module->nrandom : 0;
  if (g->module != from->module) g->module->nrandom += from->module->nrandom;
  return inline_at(g, from, args, results, stream, NULL);
}

int ts_graph_inline_part(TsGraph *g, const TsGraph *from, const TsVal *args, TsVal *results) {
  return inline_at(g, from, args, results, 0, NULL);
}

int ts_graph_inline_run(TsGraph *g, const TsGraph *from, const TsVal *args, TsVal *results,
                        uint64_t seed, uint64_t stream) {
  return inline_at(g, from, args, results, (int64_t)stream, &seed);
}

TsGraph *ts_graph_clone(const TsGraph *from, TsError *err) {
  TsGraphMap m;
  TsGraph *g = NULL;
  if (ts_graph_map_open(&m, NULL, from)) return NULL;
  if ((g = ts_graph_map_shell(&m, NULL, from, err))) {
    g->module->nrandom = from->module->nrandom;
    if (copy_live(&m) || ts_graph_map_finish(&m)) {
      ts_graph_free(g);
      g = NULL;
    }
  }
  ts_graph_map_close(&m);
  return g;
}
