/* The adjoint of a recursion is a recursion: with f the function and df(x, dy) the gradient
 * of x, df is the reverse pass of f's body in which an inner call f(z) has the value f(z),
 * computed again, and passes its gradient dz on by calling df(z, dz).
 *
 * Computing f(z) again at every level would make the gradient of a recursion of depth d cost
 * d^2 / 2 levels; the VM keeps what inner calls gave while it computes an outer one
 * (vm/code/memo.h), as far as there is room. Here nothing can be saved: the size of that storage
 * is known only when the recursion ends. */
#include <stdlib.h>
#include <string.h>

#include "ir/adjoint/node.h"
#include "ir/graph/control.h"
#include "ir/graph/recursion.h"

static const TsNode *node_of(const TsAdjoint *a) { return a->arg; }
static TsGraph *graph_of(const TsAdjoint *a) { return (TsGraph *)a->b; }

static int done(TsAdjoint *a, int failed) {
  if (failed) a->b->failed = true;
  return failed ? -1 : 0;
}

static TsVal zeros_of(TsGraph *g, const TsMeta *m) {
  return ts_build(
      &g->b, TS_OP_zeros, 0, NULL,
      TS_ATTRS({"shape", ts_b_ints(m->dim, m->ndim)}, {"dtype", ts_b_dtype(m->dtype)}), NULL);
}

/* The body, backwards: (x..., dy...) -> dx.... */
static TsGraph *back_region(TsAdjoint *a, TsRecursion *k) {
  const TsNode *n = node_of(a);
  TsGraph *body = n->region[0], *r = ts_graph_region(graph_of(a), "adjoint");
  size_t size = (size_t)(n->nin + n->nout + 1);
  TsVal *x = calloc(size * 6, sizeof *x), *y = x + size, *dy = y + size, *of = dy + size,
        *by = of + size, *dx = by + size;
  int failed = !r || !x, ny = 0, nx = 0;
  for (int i = 0; i < n->nin && !failed; i++)
    failed = !(x[i] = ts_graph_param(r, &body->param[i]->meta, body->param[i]->name, NULL));
  TsRecurEdit edit = {.body = body, .max = n->attr[TS_RECURSIVE_max]};
  if (!failed) failed = ts_recursion_inline(r, body, x, y, &edit);
  for (int i = 0; i < n->nout && !failed; i++) {
    if (!k->given[i]) continue;
    of[ny] = y[i];
    failed = !(dy[ny++] = ts_graph_param(r, &body->result[i]->meta, NULL, NULL));
  }
  for (int i = 0; i < n->nin && !failed; i++)
    if (k->wanted[i]) by[nx++] = x[i];
  if (r) r->recursion = k;
  if (!failed) failed = ts_graph_gradient(r, ny, of, dy, nx, by, dx);
  if (r) r->recursion = NULL;
  for (int i = 0; i < nx && !failed; i++)
    if (!dx[i]) failed = !(dx[i] = zeros_of(r, &by[i]->meta));
  if (!failed) failed = ts_graph_results(r, nx, dx);
  free(x);
  return failed ? NULL : r;
}

/* The operands and the gradients that are given, zeros where none arrives. */
static int operands(TsAdjoint *a, const TsRecursion *k, TsVal *in) {
  const TsNode *n = node_of(a);
  int nin = n->nin;
  if (nin) memcpy(in, n->in, sizeof *in * (size_t)nin);
  for (int i = 0; i < n->nout; i++) {
    if (!k->given[i]) continue;
    in[nin] = a->grad[i] ? a->grad[i] : zeros_of(graph_of(a), &n->out[i].meta);
    if (!in[nin++]) return -1;
  }
  return nin;
}

static void take_gradients(TsAdjoint *a, const TsRecursion *k, TsNode *made) {
  for (int i = 0, j = 0; i < a->nin; i++) {
    if (!k->wanted[i]) continue;
    if (a->wanted[i]) a->grad_in[i] = &made->out[j];
    j++;
  }
}

/* An inner call of the body whose adjoint is being built. */
static int inner(TsAdjoint *a, TsRecursion *k) {
  const TsNode *n = node_of(a);
  for (int i = 0; i < n->nin; i++)
    if (a->wanted[i] && !k->wanted[i]) k->wanted[i] = k->grew = true;
  for (int i = 0; i < n->nout; i++)
    if (a->grad[i] && !k->given[i]) k->given[i] = k->grew = true;
  if (k->grew) return 0;
  TsVal *in = malloc(sizeof *in * (size_t)(n->nin + n->nout + 1));
  TsMeta *out = malloc(sizeof *out * (size_t)(n->nin + 1));
  int nin = in && out ? operands(a, k, in) : -1, nout = 0;
  for (int i = 0; i < n->nin && nin >= 0; i++)
    if (k->wanted[i]) out[nout++] = k->body->param[i]->meta;
  TsNode *made =
      nin < 0 ? NULL
              : ts_graph_node(graph_of(a), TS_NODE_recur, nin, in, 0, NULL, TS_RECUR_nattr,
                              &n->attr[TS_RECURSIVE_site], nout, out, NULL);
  if (made) take_gradients(a, k, made);
  free(in);
  free(out);
  return done(a, !made);
}

/* Gradients that inner calls need are found while the body's adjoint is built; with them it
 * is built once more. */
static TsGraph *closed_region(TsAdjoint *a, TsRecursion *k) {
  TsGraph *r;
  do {
    k->grew = false;
    r = back_region(a, k);
  } while (r && k->grew);
  return r;
}

static int outer(TsAdjoint *a) {
  const TsNode *n = node_of(a);
  TsRecursion k = {.body = n->region[0]};
  TsVal *in = malloc(sizeof *in * (size_t)(n->nin + n->nout + 1));
  k.wanted = calloc((size_t)(n->nin + n->nout) + 1, sizeof *k.wanted);
  if (!in || !k.wanted) {
    free(in);
    free(k.wanted);
    return ts_build_fail(a->b, TS_ERR_memory, "out of memory");
  }
  k.given = k.wanted + n->nin;
  for (int i = 0; i < n->nin; i++) k.wanted[i] = a->wanted[i];
  for (int i = 0; i < n->nout; i++) k.given[i] = a->grad[i] != NULL;
  TsGraph *r = closed_region(a, &k);
  int nin = r ? operands(a, &k, in) : -1;
  TsNode *made = NULL;
  if (nin >= 0)
    made = ts_graph_control(graph_of(a), TS_NODE_recursive, nin, in, 1, &r, n->attr);
  if (made) take_gradients(a, &k, made);
  free(in);
  free(k.wanted);
  return done(a, !made);
}

int ts_adjoint_node_recursive(TsAdjoint *a) {
  const TsNode *n = node_of(a);
  const TsGraph *g = graph_of(a);
  while (g && !g->recursion) g = g->parent;
  bool within =
      g && g->recursion->body == n->region[0] && n->attr[TS_RECURSIVE_site].type == TS_ATTR_int;
  return within ? inner(a, g->recursion) : outer(a);
}

/* In adjoints of bodies they are recursive nodes. */
int ts_adjoint_node_recur(TsAdjoint *a) {
  ts_build_fail(a->b, TS_ERR_value,
                "recursive: an inner call is differentiated inside its own function");
  return ts_error_hint(a->b->err, "differentiate the whole recursion from outside");
}
