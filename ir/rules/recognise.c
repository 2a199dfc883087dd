/* Recognising operators before differentiation. The part of the graph is copied out, with
 * what is differentiated by as parameters, so that no rule looks behind them; rewritten as
 * any graph; and copied back behind what is there. A program goes on with the values that it
 * has, since it may differentiate by any of them again; they are replaced at the end.
 * Rejected: rewriting after the reverse pass alone. That reads the scores of an attention and
 * the deviations of a norm, so no rule could take them away any more. */
#include "ir/rules/recognise.h"

#include <stdlib.h>

#include "ir/graph/copy.h"

/* ---- the part */
typedef struct Part {
  TsGraph *g, *part;
  int n, nx;
  const TsVal *v, *x;
  unsigned char *live, *cut; /* by node of g; cut: some output is an x */
  TsVal *arg;                /* by parameter of the part */
  TsGraphMap map;
} Part;

static bool is_cut(const Part *p, TsVal v) {
  if (!p->cut[v->node->id]) return false;
  for (int i = 0; i < p->nx; i++)
    if (p->x[i] == v) return true;
  return false;
}

static void mark(Part *p) {
  for (int i = 0; i < p->nx; i++) p->cut[p->x[i]->node->id] = 1;
  for (int i = 0; i < p->n; i++)
    if (!is_cut(p, p->v[i])) p->live[p->v[i]->node->id] = 1;
  for (int i = p->g->nnode; i-- > 0;) {
    const TsNode *n = p->g->node[i];
    for (int k = 0; p->live[i] && k < n->nin; k++)
      if (n->in[k] && !is_cut(p, n->in[k])) p->live[n->in[k]->node->id] = 1;
  }
}

static int add_param(Part *p, TsVal from) {
  TsVal v = ts_graph_param(p->part, &from->meta, from->name, NULL);
  if (!v) return -1;
  p->arg[p->part->nparam - 1] = from;
  ts_graph_map_set(&p->map, from, v);
  return 0;
}

static int copy_node(Part *p, const TsNode *n) {
  if (n->op == TS_NODE_param) return add_param(p, (TsVal)&n->out[0]);
  return ts_graph_map_node(&p->map, n);
}

static int copy_part(Part *p) {
  TsGraph *g = p->g;
  for (int i = 0; i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    if (p->live[i] && copy_node(p, n)) return -1;
    for (int k = 0; p->cut[i] && k < n->nout; k++)
      if (is_cut(p, (TsVal)&n->out[k]) && add_param(p, (TsVal)&n->out[k])) return -1;
  }
  TsVal *result = malloc(sizeof *result * (size_t)(p->n + 1));
  if (!result) return ts_error_memory(g->err);
  for (int i = 0; i < p->n; i++) result[i] = ts_graph_mapped(&p->map, p->v[i]);
  int failed = ts_graph_results(p->part, p->n, result);
  free(result);
  return failed;
}

static int take_out(Part *p) {
  TsGraph *g = p->g;
  size_t n = (size_t)g->nnode + 1;
  p->live = calloc(n, 1);
  p->cut = calloc(n, 1);
  p->arg = calloc(n + (size_t)p->nx, sizeof *p->arg);
  p->part = ts_graph_new(g->name, g->err);
  if (!p->live || !p->cut || !p->arg || !p->part) return ts_error_memory(g->err);
  if (ts_graph_map_open(&p->map, p->part, g)) return -1;
  p->part->module->nrandom = g->module->nrandom;
  mark(p);
  int failed = copy_part(p);
  ts_graph_map_close(&p->map);
  return failed;
}

/* Nodes of their own, in the order of the part: values that are not shared with what was
 * there are computed where they are needed, and their gradients as well. */
static int put_back(Part *p, TsVal *v, const TsGraph *from) {
  TsGraph *g = p->g;
  TsVal *result = malloc(sizeof *result * (size_t)(p->n + 1));
  if (!result) return ts_error_memory(g->err);
  int line = g->line;
  g->apart = true;
  int failed = ts_graph_inline_part(g, from, p->arg, result);
  g->apart = false;
  g->line = line;
  for (int i = 0; i < p->n && !failed; i++) {
    TsVal old = v[i];
    v[i] = result[i];
    if (result[i] == old || old->instead || is_cut(p, old)) continue;
    old->node->out[old->index].instead = result[i];
    g->replaced = true;
  }
  free(result);
  return failed;
}

/* Needs: values of one graph. Keeps: every value that is there. Gives: how often a rule
 * fired, or -1 with the error. */
int ts_graph_recognise(TsGraph *g, int n, TsVal *v, int nx, const TsVal *x,
                       const TsRewriteOptions *o) {
  Part p = {.g = g, .n = n, .nx = nx, .v = v, .x = x};
  TsRewriteOptions forward = *o;
  TsGraph *made = NULL;
  int fired = 0, failed = take_out(&p);
  forward.forward = true;
  forward.fired = &fired;
  if (!failed) failed = !(made = ts_graph_rewrite(p.part, &forward));
  if (!failed && fired) failed = put_back(&p, v, made);
  ts_graph_free(made);
  ts_graph_free(p.part);
  free(p.live);
  free(p.cut);
  free(p.arg);
  return failed ? -1 : fired;
}

/* ---- the end */
typedef struct Settle {
  TsGraphMap map;
  unsigned char *seen; /* by node: LIVE, DONE */
  const TsNode **stack;
  size_t n, cap;
} Settle;

enum { LIVE = 1, DONE = 2 };

static int push(Settle *s, const TsNode *n) {
  if (s->n == s->cap) {
    size_t cap = s->cap ? s->cap * 2 : 64;
    const TsNode **more = realloc(s->stack, cap * sizeof *more);
    if (!more) return ts_error_memory(s->map.from->err);
    s->stack = more;
    s->cap = cap;
  }
  s->stack[s->n++] = n;
  return 0;
}

static int push_live(Settle *s, TsVal v) {
  const TsNode *n = ts_graph_now(v)->node;
  if (s->seen[n->id]) return 0;
  s->seen[n->id] = LIVE;
  return push(s, n);
}

static int mark_live(Settle *s) {
  const TsGraph *g = s->map.from;
  for (int i = 0; i < g->nresult; i++)
    if (push_live(s, g->result[i])) return -1;
  for (int i = 0; i < g->nupdate; i++)
    if (push_live(s, g->update[i].value)) return -1;
  for (int i = 0; i < g->nnode; i++)
    if (g->node[i]->runs && push_live(s, &g->node[i]->out[0])) return -1;
  while (s->n) {
    const TsNode *n = s->stack[--s->n];
    for (int k = 0; k < n->nin; k++)
      if (n->in[k] && push_live(s, n->in[k])) return -1;
  }
  return 0;
}

/* What stands instead has its operands before it, but may stand behind its readers. */
static int copy_in_order(Settle *s, const TsNode *first) {
  if (push(s, first)) return -1;
  while (s->n) {
    const TsNode *n = s->stack[s->n - 1];
    bool ready = true;
    for (int k = 0; k < n->nin && !(s->seen[n->id] & DONE); k++) {
      TsVal v = ts_graph_now(n->in[k]);
      if (!v) continue;
      if (s->seen[v->node->id] & DONE) {
        ts_graph_map_set(&s->map, n->in[k], ts_graph_mapped(&s->map, v));
        continue;
      }
      if (push(s, v->node)) return -1;
      ready = false;
    }
    if (!ready) continue;
    s->n--;
    if (s->seen[n->id] & DONE) continue;
    s->seen[n->id] |= DONE;
    if (n->op != TS_NODE_param && ts_graph_map_node(&s->map, n)) return -1;
  }
  return 0;
}

static int settle(Settle *s, TsGraph *g) {
  if (mark_live(s)) return -1;
  for (int i = 0; i < g->nnode; i++)
    if (s->seen[i] == LIVE && copy_in_order(s, g->node[i])) return -1;
  for (int i = 0; i < g->nresult; i++)
    ts_graph_map_set(&s->map, g->result[i],
                     ts_graph_mapped(&s->map, ts_graph_now(g->result[i])));
  for (int i = 0; i < g->nupdate; i++) {
    TsVal v = g->update[i].value;
    ts_graph_map_set(&s->map, v, ts_graph_mapped(&s->map, ts_graph_now(v)));
  }
  return ts_graph_map_finish(&s->map);
}

/* Needs: results and updates. Keeps: what they are. Gives: one forward pass. */
TsGraph *ts_graph_settle(TsGraph *g) {
  Settle s = {.n = 0};
  if (!g->replaced) return g;
  if (ts_graph_map_open(&s.map, NULL, g)) return NULL;
  s.seen = calloc((size_t)g->nnode + 1, 1);
  TsGraph *made = s.seen ? ts_graph_map_shell(&s.map, NULL, g, g->err) : NULL;
  if (!s.seen) ts_error_memory(g->err);
  if (made && settle(&s, g)) {
    ts_graph_free(made);
    made = NULL;
  }
  if (made) {
    made->module->nrandom = g->module->nrandom;
    made->module->recognised = g->module->recognised;
    g->module->recognised = (TsText){0};
  }
  ts_graph_map_close(&s.map);
  free(s.seen);
  free(s.stack);
  return made;
}
