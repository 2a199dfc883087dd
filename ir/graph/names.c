/* Names of graphs and values in text. */
#include "ir/graph/names.h"

#include <stdlib.h>

#include "ir/text/name.h"

/* ---- names of one scope */
static int enter(TsNames *m, const void *address, const char *name) {
  TsMapSlot *s = name ? ts_text_map_enter(&m->name, address, TS_KEY_ADDRESS) : NULL;
  if (!s) return -1;
  s->value = name;
  return 0;
}

static int name_value(TsNames *m, TsTextMap *scope, TsVal v, int *unnamed) {
  if (!v->name || !*v->name) return enter(m, v, ts_name_numbered(&m->arena, (*unnamed)++));
  const char *name = ts_name_legal(&m->arena, v->name);
  return enter(m, v, name ? ts_name_unique(&m->arena, scope, name) : NULL);
}

/* Parameters first: one that was captured late stands in the head as well. */
static int name_values(TsNames *m, const TsGraph *g) {
  TsTextMap scope = {0};
  int unnamed = 0, bad = 0;
  for (int i = 0; i < g->nparam && !bad; i++)
    bad = name_value(m, &scope, g->param[i], &unnamed);
  for (int i = 0; i < g->nnode && !bad; i++) {
    TsNode *n = g->node[i];
    if (n->op == TS_NODE_param || n->op == TS_NODE_number) continue;
    for (int k = 0; k < n->nout && !bad; k++) bad = name_value(m, &scope, &n->out[k], &unnamed);
  }
  ts_text_map_free(&scope);
  return bad;
}

/* ---- the graphs that a graph calls: a walk with a stack of its own, since chains of calls
 * may be long */
typedef struct Frame {
  const TsGraph *g;
  int node, region;
  bool called;
} Frame;

typedef struct Walk {
  TsNames *m;
  TsTextMap seen; /* count 1: being walked, 2: done */
  Frame *frame;
  int n, cap;
} Walk;

static int push(Walk *w, const TsGraph *g, bool called) {
  TsMapSlot *s = ts_text_map_enter(&w->seen, g, TS_KEY_ADDRESS);
  if (!s) return -1;
  if (s->count == 1) w->m->recursive = true;
  if (s->count) return 0;
  if (w->n == w->cap) {
    int cap = w->cap ? w->cap * 2 : 16;
    Frame *more = realloc(w->frame, sizeof *more * (size_t)cap);
    if (!more) return -1;
    w->frame = more;
    w->cap = cap;
  }
  s->count = 1;
  w->frame[w->n++] = (Frame){.g = g, .called = called};
  return 0;
}

static int done(Walk *w, const Frame *f) {
  TsNames *m = w->m;
  ts_text_map_find(&w->seen, f->g, TS_KEY_ADDRESS)->count = 2;
  if (name_values(m, f->g)) return -1;
  if (!f->called) return 0;
  if (m->ngraph == m->capgraph) {
    int cap = m->capgraph ? m->capgraph * 2 : 8;
    const TsGraph **more = realloc(m->graph, sizeof *more * (size_t)cap);
    if (!more) return -1;
    m->graph = more;
    m->capgraph = cap;
  }
  m->graph[m->ngraph++] = f->g;
  return 0;
}

static int walk(Walk *w) {
  while (w->n) {
    Frame *f = &w->frame[w->n - 1];
    if (f->node == f->g->nnode) {
      Frame copy = *f;
      w->n--;
      if (done(w, &copy)) return -1;
      continue;
    }
    const TsNode *n = f->g->node[f->node];
    if (f->region == n->nregion)
      f->node++, f->region = 0;
    else if (push(w, n->region[f->region++], n->op == TS_NODE_call))
      return -1;
  }
  return 0;
}

/* The graph asked for comes first to its name, then the others in order. */
static int name_graphs(TsNames *m, const TsGraph *g) {
  TsTextMap scope = {0};
  int bad = 0;
  for (int i = -1; i < m->ngraph - 1 && !bad; i++) {
    const TsGraph *each = i < 0 ? g : m->graph[i];
    const char *name = ts_name_legal(&m->arena, each->name && *each->name ? each->name : "_");
    bad = enter(m, each, name ? ts_name_unique(&m->arena, &scope, name) : NULL);
  }
  ts_text_map_free(&scope);
  return bad;
}

int ts_names_open(TsNames *m, const TsGraph *g) {
  Walk w = {.m = m};
  *m = (TsNames){0};
  int bad = push(&w, g, true) || walk(&w) || name_graphs(m, g);
  ts_text_map_free(&w.seen);
  free(w.frame);
  return bad ? -1 : 0;
}

void ts_names_close(TsNames *m) {
  ts_arena_free(&m->arena);
  ts_text_map_free(&m->name);
  free(m->graph);
  *m = (TsNames){0};
}

const char *ts_names_of(const TsNames *m, const void *value_or_graph) {
  const TsMapSlot *s =
      value_or_graph ? ts_text_map_find(&m->name, value_or_graph, TS_KEY_ADDRESS) : NULL;
  return s && s->value ? s->value : "?";
}
