/* Derivatives of graphs: the nodes are the tape, and the gradients become nodes of the same
 * graph, so that they are printed, rewritten and differentiated as any other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/adjoint/adjoint.h"
#include "ir/adjoint/node.h"
#include "ir/graph/custom.h"
#include "ir/graph/graph.h"

TsTapeEntry ts_graph_entry(const TsNode *n, TsVal *out) {
  for (int i = 0; i < n->nout; i++) out[i] = (TsVal)&n->out[i];
  TsTapeEntry t = {.op = n->op < TS_OP_COUNT ? (TsOp)n->op : TS_OP_COUNT,
                   .nin = n->nin,
                   .nout = n->nout,
                   .in = n->in,
                   .out = out,
                   .attr = n->attr,
                   .line = n->line,
                   .bytes = n->bytes};
  if (n->op >= TS_OP_COUNT) {
    t.adjoint = ts_adjoint_node[n->op - TS_OP_COUNT];
    t.arg = (void *)(uintptr_t)n;
  }
  return t;
}

/* What differentiation emits belongs to the line of the operator differentiated: the
 * builder's line follows the tape. */
typedef struct Tape {
  TsTapeEntry *entry;
  TsVal *out;
} Tape;

static bool tape_of(const TsGraph *g, Tape *t) {
  size_t nout = 0;
  for (int i = 0; i < g->nnode; i++) nout += (size_t)g->node[i]->nout;
  t->entry = malloc(sizeof *t->entry * ((size_t)g->nnode + 1));
  t->out = malloc(sizeof *t->out * (nout + 1));
  if (!t->entry || !t->out) return false;
  TsVal *out = t->out;
  for (int i = 0; i < g->nnode; out += g->node[i++]->nout)
    t->entry[i] = ts_graph_entry(g->node[i], out);
  return true;
}

static int import_all(TsGraph *g, int n, const TsVal *from, TsVal *to) {
  for (int i = 0; i < n; i++) {
    to[i] = from[i] ? ts_graph_import(g, from[i]) : NULL;
    if (from[i] && !to[i]) return -1;
  }
  return 0;
}

static TsVal ones(TsGraph *g, TsVal y) {
  const TsMeta *m = &y->meta;
  return ts_build(
      &g->b, TS_OP_ones, 0, NULL,
      TS_ATTRS({"shape", ts_b_ints(m->dim, m->ndim)}, {"dtype", ts_b_dtype(m->dtype)}), NULL);
}

static void explain(TsGraph *g, const TsReverse *r) {
  if (r->failed_at < 0) return;
  const TsNode *n = g->node[r->failed_at];
  const char *where = ts_graph_where(n);
  char was[sizeof g->err->message];
  if (!*where) return;
  snprintf(was, sizeof was, "%s", g->err->message);
  snprintf(g->err->message, sizeof g->err->message, "%.400s (the %s of %s)", was,
           n->ref ? n->ref->name : ts_node_name(n), where);
}

int ts_graph_gradient(TsGraph *g, int ny, const TsVal *y, const TsVal *dy, int nx,
                      const TsVal *x, TsVal *dx) {
  return ts_graph_gradient_held(g, ny, y, dy, nx, x, dx, 0, NULL);
}

int ts_graph_gradient_held(TsGraph *g, int ny, const TsVal *y, const TsVal *dy, int nx,
                           const TsVal *x, TsVal *dx, int nheld, const TsVal *held) {
  TsVal *own = malloc(sizeof *own * (size_t)(2 * ny + nx + 1));
  Tape tape = {0};
  int failed = !own, line = g->line;
  if (!failed) failed = import_all(g, ny, y, own) || import_all(g, nx, x, own + 2 * ny);
  for (int i = 0; i < ny && !failed; i++) {
    own[ny + i] = dy && dy[i] ? ts_graph_import(g, dy[i]) : ones(g, own[i]);
    failed = !own[ny + i];
  }
  int ntape = g->nnode;
  if (!failed && !tape_of(g, &tape)) failed = 1;
  if (failed && !g->err->code) ts_error_memory(g->err);
  if (!failed) {
    TsReverse r = {.b = &g->b,
                   .ntape = ntape,
                   .tape = tape.entry,
                   .ny = ny,
                   .y = own,
                   .dy = own + ny,
                   .nx = nx,
                   .x = own + 2 * ny,
                   .dx = dx,
                   .line = &g->line,
                   .nheld = nheld,
                   .held = held};
    bool was = g->backward;
    g->backward = true;
    failed = ts_reverse(&r);
    g->backward = was;
    if (failed) explain(g, &r);
  }
  g->line = line;
  free(tape.entry);
  free(tape.out);
  free(own);
  return failed ? -1 : 0;
}

/* ---- forward mode */
static TsVal cotangent(TsGraph *g, TsVal y) {
  double serial = g->nnode;
  TsAttr a = ts_b_f(serial); /* no two are equal */
  TsNode *n = ts_graph_node(g, TS_NODE_cotangent, 0, NULL, 0, NULL, 1, &a, 1, &y->meta, NULL);
  return n ? &n->out[0] : NULL;
}

/* The reverse pass is linear in u, so its derivative by u does not depend on u: of our own
 * adjoints; the program's may be anything. */
static int check_linear(const TsGraph *g, int from, int n, const TsVal *v) {
  unsigned char *mark = calloc((size_t)g->nnode + 1, 1);
  int failed = 0;
  if (!mark) return ts_error_memory(g->err);
  for (int i = 0; i < n; i++)
    if (v[i]) mark[v[i]->node->id] = 1;
  for (int i = g->nnode; i-- > from;) {
    const TsNode *k = g->node[i];
    if (!mark[i]) continue;
    if (k->op == TS_NODE_cotangent) failed = 1;
    for (int j = 0; j < k->nin; j++)
      if (k->in[j]) mark[k->in[j]->node->id] = 1;
  }
  free(mark);
  if (!failed) return 0;
  ts_error_set(g->err, TS_ERR_value, "forward mode: an adjoint is not linear in the gradients");
  return ts_error_hint(g->err,
                       "an adjoint for jvp and hvp may scale, add and move gradients only");
}

static int forward(TsGraph *g, int nx, const TsVal *x, const TsVal *v, int ny, const TsVal *y,
                   TsVal *dy, int nheld) {
  int from = g->nnode, n = 0;
  TsVal *u = calloc((size_t)(2 * ny + 3 * nx + 1), sizeof *u);
  if (!u) return ts_error_memory(g->err);
  TsVal *dx = u + ny, *back = dx + nx, *along = back + nx, *du = along + nx;
  int failed = 0;
  for (int i = 0; i < ny && !failed; i++) failed = !(u[i] = cotangent(g, y[i]));
  bool nested = g->forward;
  g->forward = true;
  if (!failed) failed = ts_graph_gradient_held(g, ny, y, u, nx, x, dx, nheld, x);
  for (int i = 0; i < nx && !failed; i++)
    if (dx[i]) back[n] = dx[i], along[n++] = v[i];
  if (!failed) failed = ts_graph_gradient(g, n, back, along, ny, u, du);
  g->forward = nested;
  if (!failed) failed = check_linear(g, from, ny, du);
  for (int i = 0; i < ny; i++) dy[i] = failed ? NULL : du[i];
  free(u);
  return failed ? -1 : 0;
}

int ts_graph_jvp_held(TsGraph *g, int nx, const TsVal *x, const TsVal *v, int ny,
                      const TsVal *y, TsVal *dy) {
  return forward(g, nx, x, v, ny, y, dy, nx);
}

int ts_graph_jvp(TsGraph *g, int nx, const TsVal *x, const TsVal *v, int ny, const TsVal *y,
                 TsVal *dy) {
  int failed = forward(g, nx, x, v, ny, y, dy, 0);
  for (int i = 0; i < ny && !failed; i++)
    if (dy[i])
      failed = ts_graph_note_derived(
          g, &(TsDerived){.value = dy[i], .of = y[i], .nx = nx, .x = x, .v = v});
  return failed;
}
