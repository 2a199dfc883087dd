/* Results that share bytes only where the program's own run did.
 *
 * A graph has values, and values do not tell tensors apart: `x * 1` is x once a rule has fired,
 * and `zeros_like(x)` twice is one node. Inside of a function that is as good, since nothing is
 * written there; what leaves it may be written by whoever called. So capture notes which results
 * were one tensor or views of one (ts_graph_result_bytes), every copy of the graph keeps the note,
 * and when all rules have fired what shares too much is copied. So is what has become a broadcast,
 * whose elements share with each other. What shared in the program still
 * does, since no rule takes the views between results, nor what several of them look at.
 *
 * *Rejected:* copies of all results while the function is captured, taken away where they are not
 * needed (rules, schedules and kernels would have to look through them), and comparing results
 * with arguments after each run (which a small function would feel).
 *
 * Whether a reshape is a view depends on strides. Those of arguments are taken to be row-major,
 * here as in capture: both then mean the same, and the run does what the caller's strides ask. */
#include "vm/code/alias.h"

#include <stdlib.h>
#include <string.h>

#include "vm/core/exec.h"

bool ts_alias_view(TsContext *c, const TsNode *n, TsTensor *from, TsTensor **out) {
  TsTensor *in[TS_MAX_IN] = {from, from};
  TsCall call = {.ctx = c,
                 .op = (TsOp)n->op,
                 .nin = n->nin,
                 .nout = 1,
                 .in = in,
                 .out = out,
                 .attr = n->attr};
  struct TsCapture *open = c->capture; /* nothing becomes a node */
  *out = NULL;
  c->capture = NULL;
  int failed = ts_vm_handler[n->op](&call);
  c->capture = open;
  if (!failed && (*out)->storage == from->storage) return true;
  if (!failed) ts_tensor_unref(*out);
  if (c->err.code != TS_ERR_memory) ts_error_clear(&c->err);
  *out = NULL;
  return false;
}

/* A tensor without bytes that lies as t does. */
static TsTensor *with_layout_of(TsContext *c, const TsTensor *t) {
  TsTensor *s = ts_tensor_symbol(c, &t->meta, NULL);
  if (!s) return NULL;
  memcpy(s->stride, t->stride, sizeof s->stride);
  s->contiguous = t->contiguous;
  return s;
}

static int param_of(const TsGraph *g, TsVal v) {
  return v->node->op == TS_NODE_param ? (int)v->node->number : g->nparam;
}

static TsTensor *bound_of(const TsGraph *g, int param) {
  TsTensor *t = param < g->nparam ? g->bound[param] : NULL;
  return t == TS_GRAPH_UNBOUND ? NULL : t;
}

TsVal ts_alias_root(TsContext *c, TsVal v, TsTensor *(*given)(void *arg, TsVal v), void *arg,
                    TsTensor **layout) {
  const TsNode *few[16], **chain = few;
  TsVal root = v;
  TsTensor *t = NULL;
  int n = 0, room = 0;
  while (!(t = given(arg, root)) && ts_node_is_view(root->node))
    root = root->node->in[0], room++;
  if (room > 16 && !(chain = malloc(sizeof *chain * (size_t)room)))
    return ts_error_memory(&c->err), NULL;
  for (TsVal k = v; k != root; k = k->node->in[0]) chain[n++] = k->node;
  t = t ? with_layout_of(c, t) : ts_tensor_symbol(c, &root->meta, NULL);
  while (t && n-- > 0) {
    TsTensor *next;
    if (!ts_alias_view(c, chain[n], t, &next)) {
      root = (TsVal)(uintptr_t)&chain[n]->out[0];
      next = c->err.code == TS_ERR_memory ? NULL : ts_tensor_symbol(c, &root->meta, NULL);
    }
    ts_tensor_unref(t);
    t = next;
  }
  if (chain != few) free(chain);
  if (layout) *layout = t;
  if (t && !layout) ts_tensor_unref(t);
  return t ? root : NULL;
}

static TsTensor *bound_value(void *arg, TsVal v) {
  const TsGraph *g = arg;
  return bound_of(g, param_of(g, v));
}

/* The root of v, and whether several elements of v are one. */
static TsVal root_in(TsContext *c, TsGraph *g, TsVal v, bool *spread) {
  TsTensor *t = NULL;
  TsVal root = ts_alias_root(c, v, bound_value, g, &t);
  *spread = false;
  for (int i = 0; t && i < t->meta.ndim; i++)
    *spread |= t->meta.dim[i] > 1 && t->stride[i] == 0;
  ts_tensor_unref(t);
  return root;
}

/* The broadcast among the views that end in v. */
static TsVal broadcast_in(TsVal v) {
  while (ts_node_is_view(v->node) && v->node->op != TS_OP_broadcast_to) v = v->node->in[0];
  return v;
}

/* The number of a parameter's bytes: captured tensors may be views of one. */
static int number_of(const TsGraph *g, int param) {
  const TsTensor *t = bound_of(g, param), *other;
  for (int i = 0; t && i < param; i++)
    if ((other = bound_of(g, i)) && other->storage == t->storage) return i;
  return param;
}

/* By result: its root, the number of the root's bytes as far as values tell, and whether it is
 * spread. One that became so has the broadcast as its root, and bytes that nothing else has. */
static int numbers(TsContext *c, TsGraph *g, TsVal *root, int *number, bool *spread) {
  for (int i = 0; i < g->nresult; i++) {
    if (!(root[i] = root_in(c, g, g->result[i], &spread[i]))) return -1;
    if (g->spread && spread[i] && !g->spread[i]) {
      root[i] = broadcast_in(g->result[i]), number[i] = -1;
      continue;
    }
    int p = param_of(g, root[i]);
    number[i] = p < g->nparam ? number_of(g, p) : g->nparam + i;
    for (int k = 0; k < i && p == g->nparam; k++)
      if (root[k] == root[i] && number[k] >= 0) number[i] = number[k], p = k;
  }
  return 0;
}

/* What the functions below know of each result. */
typedef struct Results {
  TsVal *root, *result;
  int *number, *note;
  bool *spread;
} Results;

static void close_results(Results *r) { free(r->root), free(r->number), free(r->spread); }

static int open_results(TsContext *c, const TsGraph *g, Results *r) {
  size_t n = (size_t)g->nresult;
  r->root = malloc(sizeof *r->root * n * 2), r->number = malloc(sizeof *r->number * n * 2);
  r->spread = malloc(sizeof *r->spread * n);
  if (!r->root || !r->number || !r->spread) return ts_error_memory(&c->err);
  r->result = r->root + n, r->note = r->number + n;
  return 0;
}

int ts_alias_note(TsContext *c, TsGraph *g) {
  Results r;
  if (!g->nresult || (g->bytes && g->spread)) return 0;
  int failed = open_results(c, g, &r) || numbers(c, g, r.root, r.number, r.spread);
  if (!failed && !g->bytes) failed = ts_graph_result_bytes(g, r.number);
  if (!failed && !g->spread) failed = ts_graph_result_spread(g, r.spread);
  close_results(&r);
  return failed ? -1 : 0;
}

static TsVal clone(TsGraph *g, TsVal v) {
  g->line = v->node->line;
  g->backward = v->node->backward;
  return ts_graph_emit(g, TS_OP_clone, 1, &v, NULL, NULL, NULL);
}

/* The views between root and v, of `of`. */
static TsVal seen_in(TsGraph *g, TsVal v, TsVal root, TsVal of) {
  if (v == root) return of;
  const TsNode *n = v->node;
  TsVal in[TS_MAX_IN];
  if (!(in[0] = seen_in(g, n->in[0], root, of))) return NULL;
  for (int k = 1; k < n->nin; k++) in[k] = n->in[k];
  TsNode *made = ts_graph_again(g, n, in, NULL, NULL);
  return made ? &made->out[0] : NULL;
}

/* Results from i on that look at its root under the same number look at one copy of it. */
static int part_from(TsGraph *g, int i, const TsVal *root, TsVal *result) {
  int n = 0;
  for (int k = i; k < g->nresult; k++) n += root[k] == root[i] && g->bytes[k] == g->bytes[i];
  TsVal own = clone(g, n == 1 ? g->result[i] : root[i]);
  for (int k = i; k < g->nresult && own; k++) {
    if (root[k] != root[i] || g->bytes[k] != g->bytes[i]) continue;
    if (!(result[k] = n == 1 ? own : seen_in(g, g->result[k], root[i], own))) return -1;
  }
  return own ? 0 : -1;
}

static bool is_updated(const TsGraph *g, int param) {
  for (int i = 0; i < g->nupdate; i++)
    if (number_of(g, g->update[i].param) == param) return true;
  return false;
}

/* Whether result i may stay as it is: its bytes by the values are those that it has by the note.
 * What is a parameter's after an update is no copy of anything (vm/code/lower.c). */
static bool fits(const TsGraph *g, int i, const int *number) {
  int note = g->bytes[i];
  if (note < g->nparam && is_updated(g, note)) return true;
  if (number[i] < 0) return false;
  if (number[i] < g->nparam) return note == number[i];
  int first = 0;
  while (number[first] != number[i]) first++;
  return g->bytes[first] == note;
}

/* Whether result i is one of several that look at the copy of a view of a parameter that is
 * updated. As its caller's strides might make that copy a view, each result would be copied by
 * itself. */
static bool is_torn(const TsGraph *g, int i, const TsVal *root) {
  TsVal v = root[i];
  int n = 0;
  while (ts_node_is_view(v->node)) v = v->node->in[0];
  for (int k = 0; k < g->nresult; k++) n += root[k] == root[i];
  int p = v == root[i] ? g->nparam : param_of(g, v);
  return n > 1 && p < g->nparam && is_updated(g, number_of(g, p));
}

static int part(TsContext *c, TsGraph *g, Results *r) {
  bool any = false, *spread = g->spread;
  size_t n = (size_t)g->nresult;
  if (numbers(c, g, r->root, r->number, r->spread)) return -1;
  memcpy(r->result, g->result, sizeof *r->result * n);
  memcpy(r->note, g->bytes, sizeof *r->note * n);
  for (int i = 0; i < g->nresult; i++) {
    if (r->result[i] != g->result[i]) continue;
    if (fits(g, i, r->number) && !is_torn(g, i, r->root)) continue;
    if (part_from(g, i, r->root, r->result)) return -1;
    any = true;
  }
  if (!any) return 0;
  if (ts_graph_results(g, g->nresult, r->result)) return -1;
  g->spread = spread;
  return ts_graph_result_bytes(g, r->note);
}

int ts_alias_part(TsContext *c, TsGraph *g) {
  Results r;
  if (!g->bytes || !g->nresult) return 0;
  int failed = open_results(c, g, &r) || part(c, g, &r);
  close_results(&r);
  return failed ? -1 : 0;
}
