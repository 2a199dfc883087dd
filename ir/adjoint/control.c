/* Adjoints of control nodes: control nodes over regions that hold the adjoints of theirs. */
#include <stdlib.h>
#include <string.h>

#include "ir/adjoint/node.h"
#include "ir/graph/control.h"
#include "ir/graph/copy.h"

static const TsNode *node_of(const TsAdjoint *a) { return a->arg; }
static TsGraph *graph_of(const TsAdjoint *a) { return (TsGraph *)a->b; }

static bool differentiable(const TsMeta *m) {
  return ts_dtype_is((TsDtype)m->dtype, TS_KIND_F | TS_KIND_C);
}

static int no_memory(TsAdjoint *a) {
  return ts_build_fail(a->b, TS_ERR_memory, "out of memory");
}

/* What failed without a word had no memory. */
static int done(TsAdjoint *a, int failed) {
  if (failed && !a->b->err->code) no_memory(a);
  if (failed) a->b->failed = true;
  return failed ? -1 : 0;
}

/* Lists of a region under construction. */
typedef struct Lists {
  TsVal *in, *y, *dy, *x, *dx, *result;
  int ny, nx;
} Lists;

static bool open_lists(Lists *l, int nin, int nout) {
  size_t n = (size_t)(nin + nout + 1);
  *l = (Lists){.in = calloc(n * 6, sizeof *l->in)};
  l->y = l->in + n, l->dy = l->y + n, l->x = l->dy + n, l->dx = l->x + n, l->result = l->dx + n;
  return l->in != NULL;
}

/* Not zeros_like: nothing shall depend on `like` that needs its type alone. */
static TsVal zeros_of(TsGraph *g, TsVal like) {
  const TsMeta *m = &like->meta;
  return ts_build(
      &g->b, TS_OP_zeros, 0, NULL,
      TS_ATTRS({"shape", ts_b_ints(m->dim, m->ndim)}, {"dtype", ts_b_dtype(m->dtype)}), NULL);
}

/* dx of the region's x, with zeros where nothing depends on one. */
static int gradients(TsGraph *r, Lists *l) {
  if (ts_graph_gradient(r, l->ny, l->y, l->dy, l->nx, l->x, l->dx)) return -1;
  for (int i = 0; i < l->nx; i++)
    if (!l->dx[i] && !(l->dx[i] = zeros_of(r, l->x[i]))) return -1;
  return 0;
}

/* ---- call: the function again behind a barrier, so that what it computed the first time
 * need not be kept; this is graph.checkpoint. Not in forward mode, where nothing is kept and
 * the barrier would tie values to the gradient that stands for all. */
static bool in_forward_mode(const TsGraph *g) {
  for (; g; g = g->parent)
    if (g->forward) return true;
  return false;
}

static TsVal behind(TsGraph *g, TsVal v, TsVal after) {
  return in_forward_mode(g) ? v : ts_build2(&g->b, TS_OP_barrier, v, after);
}

int ts_adjoint_node_call(TsAdjoint *a) {
  const TsNode *n = node_of(a);
  TsGraph *g = graph_of(a);
  Lists l;
  TsVal after = NULL;
  if (n->ref) return ts_adjoint_node_custom(a); /* graph.custom_adjoint */
  if (!open_lists(&l, n->nin, n->nout)) return no_memory(a);
  for (int i = 0; i < n->nout; i++)
    if (a->grad[i]) after = a->grad[i];
  int failed = 0;
  for (int i = 0; i < n->nin && !failed; i++) failed = !(l.in[i] = behind(g, n->in[i], after));
  if (!failed) failed = ts_graph_inline(g, n->region[0], l.in, l.result);
  for (int i = 0; i < n->nout; i++)
    if (a->grad[i]) l.y[l.ny] = l.result[i], l.dy[l.ny++] = a->grad[i];
  for (int i = 0; i < n->nin; i++)
    if (ts_wanted_once(a, i)) l.x[l.nx++] = l.in[i];
  if (!failed)
    failed = ts_graph_gradient_held(g, l.ny, l.y, l.dy, l.nx, l.x, l.dx, n->nin, l.in);
  for (int i = n->nin, k = l.nx; i-- > 0 && !failed;)
    if (ts_wanted_once(a, i)) a->grad_in[i] = l.dx[--k];
  free(l.in);
  return done(a, failed);
}

/* ---- cond: the same choice between the functions' adjoints */
static TsGraph *cond_region(TsAdjoint *a, const TsGraph *from) {
  const TsNode *n = node_of(a);
  TsGraph *r = ts_graph_region(graph_of(a), "adjoint");
  Lists l;
  if (!r || !open_lists(&l, n->nin, n->nout)) return NULL;
  int failed = 0;
  for (int i = 1; i < n->nin && !failed; i++)
    failed = !(l.in[i - 1] = ts_graph_param(r, &n->in[i]->meta, NULL, NULL));
  if (!failed) failed = ts_graph_inline(r, from, l.in, l.result);
  for (int i = 0; i < n->nout && !failed; i++) {
    if (!a->grad[i]) continue;
    l.y[l.ny] = l.result[i];
    failed = !(l.dy[l.ny++] = ts_graph_param(r, &a->grad[i]->meta, NULL, NULL));
  }
  for (int i = 1; i < n->nin; i++)
    if (a->wanted[i]) l.x[l.nx++] = l.in[i - 1];
  if (!failed) failed = gradients(r, &l) || ts_graph_results(r, l.nx, l.dx);
  free(l.in);
  return failed ? NULL : r;
}

int ts_adjoint_node_cond(TsAdjoint *a) {
  const TsNode *n = node_of(a), *made = NULL;
  TsGraph *r[2] = {cond_region(a, n->region[0]), NULL};
  if (r[0]) r[1] = cond_region(a, n->region[1]);
  TsVal *in = malloc(sizeof *in * (size_t)(n->nin + n->nout));
  int nin = n->nin;
  if (in && r[0] && r[1]) {
    memcpy(in, n->in, sizeof *in * (size_t)n->nin);
    for (int i = 0; i < n->nout; i++)
      if (a->grad[i]) in[nin++] = a->grad[i];
    made = ts_graph_control(graph_of(a), TS_NODE_cond, nin, in, 2, r, NULL);
  }
  for (int i = 1, k = 0; made && i < n->nin; i++)
    if (a->wanted[i]) a->grad_in[i] = (TsVal)(uintptr_t)&made->out[k++];
  free(in);
  return done(a, !made);
}

/* ---- scan: first the carries of every round, then the rounds backwards */
typedef struct Back {
  TsAdjoint *a;
  const TsNode *n;
  int carry, xs, outer, nin, nout; /* operands are carry, xs, outer */
  TsVal *stack;                    /* by carry: its values before each round */
} Back;

/* The scan with the carries as further results; those behind its own if it is whole. */
static TsNode *with_carries(const Back *k, bool whole) {
  TsGraph *g = graph_of(k->a), *r = ts_graph_region(g, "carries");
  const TsGraph *body = k->n->region[0];
  Lists l;
  if (!r || !open_lists(&l, k->nin, k->nout + k->carry)) return NULL;
  int failed = 0, at = whole ? k->nout : k->carry; /* in place of the ys */
  for (int i = 0; i < k->nin && !failed; i++)
    failed = !(l.in[i] = ts_graph_param(r, &body->param[i]->meta, NULL, NULL));
  if (!failed) failed = ts_graph_inline(r, body, l.in, l.result);
  for (int i = 0; i < k->carry; i++) l.result[at + i] = l.in[i];
  if (!failed) failed = ts_graph_results(r, at + k->carry, l.result);
  free(l.in);
  return failed ? NULL : ts_graph_control(g, TS_NODE_scan, k->nin, k->n->in, 1, &r, k->n->attr);
}

/* What the program reads of a scan comes from the one with the carries, so that it runs once:
 * where the graph is settled when it is complete, which regions are not. */
static int save_carries(Back *k) {
  TsGraph *g = graph_of(k->a);
  TsNode *n = (TsNode *)(uintptr_t)k->n;
  bool whole = !g->parent && n->out[0].graph == g && !n->out[0].instead;
  TsNode *made = with_carries(k, whole);
  if (!made) return -1;
  for (int i = 0; i < k->carry; i++) k->stack[i] = &made->out[(whole ? k->nout : k->carry) + i];
  for (int i = 0; whole && i < k->nout; i++)
    if (!n->out[i].instead) n->out[i].instead = &made->out[i];
  g->replaced |= whole;
  return 0;
}

/* One round backwards: (dcarry, douter; carry, x, dy; outer) -> (dcarry, douter; dx). */
static TsGraph *back_region(Back *k, const int *dcarry, int ndcarry, const int *douter,
                            int ndouter, const int *dx, int ndx) {
  const TsAdjoint *a = k->a;
  const TsGraph *body = k->n->region[0];
  TsGraph *r = ts_graph_region(graph_of(a), "adjoint");
  Lists l;
  if (!r || !open_lists(&l, 2 * k->nin, 2 * k->nout)) return NULL;
  TsVal *dc = calloc((size_t)(k->nin + k->nout) * 2 + 2, sizeof *dc);
  TsVal *sum = dc ? dc + ndcarry : NULL;
  int failed = !dc;
  for (int i = 0; i < ndcarry && !failed; i++)
    failed = !(dc[i] = ts_graph_param(r, &body->param[dcarry[i]]->meta, NULL, NULL));
  for (int i = 0; i < ndouter && !failed; i++)
    failed = !(sum[i] = ts_graph_param(r, &body->param[douter[i]]->meta, NULL, NULL));
  for (int i = 0; i < k->carry + k->xs && !failed; i++)
    failed = !(l.in[i] = ts_graph_param(r, &body->param[i]->meta, NULL, NULL));
  for (int i = 0; i < ndcarry && dc; i++) l.dy[i] = dc[i];
  int ny = ndcarry;
  for (int i = k->carry; i < k->nout && !failed; i++)
    if (a->grad[i])
      failed = !(l.dy[ny++] = ts_graph_param(r, &body->result[i]->meta, NULL, NULL));
  for (int i = k->carry + k->xs; i < k->nin && !failed; i++)
    failed = !(l.in[i] = ts_graph_param(r, &body->param[i]->meta, NULL, NULL));
  if (!failed) failed = ts_graph_inline(r, body, l.in, l.result);
  for (int i = 0; i < ndcarry; i++) l.y[l.ny++] = l.result[dcarry[i]];
  for (int i = k->carry; i < k->nout; i++)
    if (a->grad[i]) l.y[l.ny++] = l.result[i];
  for (int i = 0; i < ndcarry; i++) l.x[l.nx++] = l.in[dcarry[i]];
  for (int i = 0; i < ndouter; i++) l.x[l.nx++] = l.in[douter[i]];
  for (int i = 0; i < ndx; i++) l.x[l.nx++] = l.in[dx[i]];
  if (!failed) failed = gradients(r, &l);
  for (int i = 0; i < ndouter && !failed; i++)
    failed = !(l.dx[ndcarry + i] = ts_build_add(&r->b, sum[i], l.dx[ndcarry + i]));
  if (!failed) failed = ts_graph_results(r, l.nx, l.dx);
  free(dc);
  free(l.in);
  return failed ? NULL : r;
}

static int run_back(Back *k, int *place) {
  TsAdjoint *a = k->a;
  TsGraph *g = graph_of(a);
  int *dcarry = place, *douter = place + k->carry, *dx = douter + k->outer, ndcarry = 0,
      ndouter = 0, ndx = 0;
  for (int i = 0; i < k->carry; i++)
    if (differentiable(&k->n->in[i]->meta)) dcarry[ndcarry++] = i;
  for (int i = k->carry + k->xs; i < k->nin; i++)
    if (a->wanted[i]) douter[ndouter++] = i;
  for (int i = k->carry; i < k->carry + k->xs; i++)
    if (a->wanted[i]) dx[ndx++] = i;
  TsGraph *r = back_region(k, dcarry, ndcarry, douter, ndouter, dx, ndx);
  TsVal *in = r ? calloc((size_t)(3 * k->nin + 2 * k->nout) + 1, sizeof *in) : NULL;
  int n = 0, failed = 0;
  if (!in) return -1;
  for (int i = 0; i < ndcarry && !failed; i++)
    failed =
        !(in[n++] = a->grad[dcarry[i]] ? a->grad[dcarry[i]] : zeros_of(g, k->n->in[dcarry[i]]));
  for (int i = 0; i < ndouter && !failed; i++)
    failed = !(in[n++] = zeros_of(g, k->n->in[douter[i]]));
  int carries = n;
  for (int i = 0; i < k->carry; i++) in[n++] = k->stack[i];
  for (int i = k->carry; i < k->carry + k->xs; i++) in[n++] = k->n->in[i];
  for (int i = k->carry; i < k->nout; i++)
    if (a->grad[i]) in[n++] = a->grad[i];
  int slices = n - carries;
  for (int i = k->carry + k->xs; i < k->nin; i++) in[n++] = k->n->in[i];
  TsAttr attr[TS_SCAN_nattr] = {ts_b_int(carries), ts_b_int(slices),
                                ts_b_int(ts_scan_length(k->n->attr, k->n->in)),
                                ts_b_bool(!k->n->attr[TS_SCAN_reverse].i)};
  TsNode *made = failed ? NULL : ts_graph_control(g, TS_NODE_scan, n, in, 1, &r, attr);
  for (int i = 0; made && i < ndcarry; i++)
    if (a->wanted[dcarry[i]]) a->grad_in[dcarry[i]] = &made->out[i];
  for (int i = 0; made && i < ndouter; i++) a->grad_in[douter[i]] = &made->out[ndcarry + i];
  for (int i = 0; made && i < ndx; i++) a->grad_in[dx[i]] = &made->out[carries + i];
  free(in);
  return made ? 0 : -1;
}

int ts_adjoint_node_scan(TsAdjoint *a) {
  const TsNode *n = node_of(a);
  Back k = {.a = a,
            .n = n,
            .carry = (int)n->attr[TS_SCAN_carry].i,
            .xs = (int)n->attr[TS_SCAN_xs].i,
            .nin = n->nin,
            .nout = n->nout};
  k.outer = k.nin - k.carry - k.xs;
  k.stack = calloc((size_t)k.carry + 1, sizeof *k.stack);
  int *place = malloc(sizeof *place * (size_t)(k.nin + 1));
  int failed = !k.stack || !place || save_carries(&k) || run_back(&k, place);
  free(k.stack);
  free(place);
  return done(a, failed);
}

/* ---- while_loop: with a bound on its rounds it is a scan of that length whose rounds stop
 * changing anything */
static TsGraph *guarded_round(TsAdjoint *a) {
  const TsNode *n = node_of(a);
  TsGraph *r = ts_graph_region(graph_of(a), "round"), *part[2] = {NULL, NULL};
  Lists l;
  if (!r || !open_lists(&l, n->nin + 1, n->nout)) return NULL;
  TsVal test;
  int failed = 0;
  for (int i = 0; i < n->nin && !failed; i++)
    failed = !(l.in[i + 1] = ts_graph_param(r, &n->in[i]->meta, NULL, NULL));
  if (!failed) failed = ts_graph_inline(r, n->region[0], l.in + 1, &test);
  l.in[0] = failed ? NULL : test;
  for (int k = 0; k < 2 && !failed; k++) {
    TsGraph *p = part[k] = ts_graph_region(r, k ? "stay" : "go");
    failed = !p;
    for (int i = 0; i < n->nin && !failed; i++)
      failed = !(l.x[i] = ts_graph_param(p, &n->in[i]->meta, NULL, NULL));
    if (!failed && k == 0) failed = ts_graph_inline(p, n->region[1], l.x, l.result);
    for (int i = 0; k && i < n->nout; i++) l.result[i] = l.x[i];
    if (!failed) failed = ts_graph_results(p, n->nout, l.result);
  }
  TsNode *made =
      failed ? NULL : ts_graph_control(r, TS_NODE_cond, n->nin + 1, l.in, 2, part, NULL);
  for (int i = 0; made && i < n->nout; i++) l.result[i] = &made->out[i];
  if (made && ts_graph_results(r, n->nout, l.result)) made = NULL;
  free(l.in);
  return made ? r : NULL;
}

int ts_adjoint_node_while_loop(TsAdjoint *a) {
  const TsNode *n = node_of(a);
  TsGraph *g = graph_of(a);
  if (n->attr[TS_WHILE_max].type != TS_ATTR_int) {
    ts_build_fail(a->b, TS_ERR_value,
                  "while_loop has no derivative: its number of rounds is not known");
    return ts_error_hint(g->err, "give a bound, {max = 100}, or use op.scan or op.fixed_point");
  }
  TsGraph *r = guarded_round(a);
  TsAttr attr[TS_SCAN_nattr] = {ts_b_int(n->nout), ts_b_int(0), n->attr[TS_WHILE_max],
                                ts_b_bool(false)};
  TsNode *scan = r ? ts_graph_control(g, TS_NODE_scan, n->nin, n->in, 1, &r, attr) : NULL;
  Lists l;
  if (!scan || !open_lists(&l, n->nin, n->nout)) return done(a, 1);
  for (int i = 0; i < n->nout && !g->parent; i++) {
    TsValue *v = &((TsNode *)(uintptr_t)n)->out[i];
    if (v->graph == g && !v->instead) v->instead = &scan->out[i], g->replaced = true;
  }
  for (int i = 0; i < n->nout; i++)
    if (a->grad[i]) l.y[l.ny] = &scan->out[i], l.dy[l.ny++] = a->grad[i];
  for (int i = 0; i < n->nin; i++)
    if (ts_wanted_once(a, i)) l.x[l.nx++] = n->in[i];
  /* Operands are held: one of them may be computed from another. */
  int failed = ts_graph_gradient_held(g, l.ny, l.y, l.dy, l.nx, l.x, l.dx, n->nin, n->in);
  for (int i = n->nin, k = l.nx; i-- > 0 && !failed;)
    if (ts_wanted_once(a, i)) a->grad_in[i] = l.dx[--k];
  free(l.in);
  return done(a, failed);
}

/* ---- fixed point x = f(x, p): w = dx + (df/dx)^T w is a fixed point as well, and then
 * dp = (df/dp)^T w (the implicit function theorem); the start has no influence */
static TsGraph *adjoint_round(TsAdjoint *a) {
  const TsNode *n = node_of(a);
  TsGraph *r = ts_graph_region(graph_of(a), "adjoint");
  Lists l;
  if (!r || !open_lists(&l, n->nin, 1)) return NULL;
  TsVal w = ts_graph_param(r, &n->in[0]->meta, "w", NULL),
        dy = ts_graph_param(r, &n->in[0]->meta, "dx", NULL);
  int failed = !w || !dy;
  for (int i = 0; i < n->nin && !failed; i++)
    failed = !(l.in[i] = ts_graph_param(r, &n->in[i]->meta, NULL, NULL));
  if (!failed) failed = ts_graph_inline(r, n->region[0], l.in, l.result);
  l.y[0] = l.result[0], l.dy[0] = w, l.ny = 1;
  l.x[0] = l.in[0], l.nx = 1;
  if (!failed) failed = gradients(r, &l);
  TsVal next = failed ? NULL : ts_build_add(&r->b, dy, l.dx[0]);
  if (!next || ts_graph_results(r, 1, &next)) r = NULL;
  free(l.in);
  return r;
}

/* Once each, but for the start, which may be a parameter as well. */
static bool wanted_parameter(const TsAdjoint *a, int i) {
  for (int k = 1; k < i; k++)
    if (a->in[k] == a->in[i]) return false;
  return a->wanted[i];
}

int ts_adjoint_node_fixed_point(TsAdjoint *a) {
  const TsNode *n = node_of(a);
  TsGraph *g = graph_of(a), *r = adjoint_round(a);
  TsVal x = a->out[0];
  Lists l;
  if (!r || !open_lists(&l, n->nin + 2, 1)) return done(a, 1);
  TsVal *in = l.result; /* w0, dx, x, p... */
  in[0] = a->grad[0], in[1] = a->grad[0], in[2] = x;
  for (int i = 1; i < n->nin; i++) in[2 + i] = n->in[i];
  TsNode *w = ts_graph_control(g, TS_NODE_fixed_point, n->nin + 2, in, 1, &r, n->attr);
  int failed = !w;
  l.in[0] = x;
  for (int i = 1; i < n->nin; i++) l.in[i] = n->in[i];
  TsVal y = NULL, dy = w ? &w->out[0] : NULL;
  if (!failed) failed = ts_graph_inline(g, n->region[0], l.in, &y);
  for (int i = 1; i < n->nin; i++)
    if (wanted_parameter(a, i)) l.x[l.nx++] = n->in[i];
  if (!failed) failed = ts_graph_gradient_held(g, 1, &y, &dy, l.nx, l.x, l.dx, n->nin, l.in);
  for (int i = n->nin, k = l.nx; i-- > 1 && !failed;)
    if (wanted_parameter(a, i)) a->grad_in[i] = l.dx[--k];
  free(l.in);
  return done(a, failed);
}
