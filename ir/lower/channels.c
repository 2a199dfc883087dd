/* See ir/lower/channels.h. A value of the original has a form with channels last (`last`), or
 * one with channels first (`m.value`), or both; the one that is lacking is a view of the
 * other. */
#include "ir/lower/channels.h"

#include <stdlib.h>
#include <string.h>

#include "ir/graph/copy.h"
#include "lib/reduce.h"

enum { MOST_AGAIN = 12 }; /* nodes that are computed once more */

/* A reduction by channel that was made, of a value of the original. */
typedef struct Reduced {
  TsOp op;
  TsVal of, made;
  bool space; /* for each image */
} Reduced;

typedef struct Pass {
  const TsSched *s;
  TsGraphMap m;
  TsVal *last, *view;   /* by value as m.value; view: of what has none of its own */
  unsigned char *again; /* by node: of how many it is computed once more; 0: it is kept */
  Reduced *reduced;
  int nreduced;
  int gained, turned; /* walks that go with the lines of memory now; those that go across */
} Pass;

static TsBuild *build(Pass *p) { return &p->m.to->b; }
static int at(const Pass *p, TsVal v) { return p->m.start[v->node->id] + v->index; }
static bool is_last(const Pass *p, TsVal v) { return v && p->last[at(p, v)]; }

/* ---- axes: where axis i of the other form comes from */
static int from_first(int i, int nd) { return i == 0 ? 0 : i == nd - 1 ? 1 : i + 1; }
static int from_last(int i, int nd) { return i == 0 ? 0 : i == 1 ? nd - 1 : i - 1; }

static TsVal turn(Pass *p, TsVal v, int nd, int (*from)(int, int)) {
  int64_t perm[TS_MAX_RANK];
  for (int i = 0; i < nd; i++) perm[i] = from(i, nd);
  return v ? ts_build_permute(build(p), v, perm, nd) : NULL;
}

static TsMeta turned(const TsMeta *m) {
  TsMeta t = *m;
  for (int i = 0; i < m->ndim; i++) t.dim[i] = m->dim[from_first(i, m->ndim)];
  return t;
}

/* ---- values */
static TsVal again(Pass *p, TsVal v);

static TsVal first_of(Pass *p, TsVal v) {
  if (!v || ts_graph_mapped(&p->m, v)) return ts_graph_mapped(&p->m, v);
  TsVal made = turn(p, p->last[at(p, v)], v->meta.ndim, from_last);
  p->m.value[at(p, v)] = made;
  return made;
}

/* One number everywhere, as wide as it is wanted; numbers that repeat along some axes, as of
 * the gradient of a mean, once for each element: columns of them would not lie evenly. NULL: v
 * is no such value. */
static TsVal spread_of(Pass *p, TsVal v) {
  const TsNode *n = v->node;
  TsMeta t = turned(&v->meta);
  if (n->op != TS_OP_broadcast_to) return NULL;
  if (ts_meta_numel(&n->in[0]->meta) != 1)
    return ts_build1(build(p), TS_OP_clone, turn(p, first_of(p, v), t.ndim, from_first));
  TsVal one = ts_build_reshape(build(p), first_of(p, n->in[0]), NULL, 0);
  return ts_build_expand(build(p), one, t.dim, t.ndim);
}

static TsVal last_of(Pass *p, TsVal v) {
  if (p->again[v->node->id]) return again(p, v);
  if (is_last(p, v)) return p->last[at(p, v)];
  TsVal *view = &p->view[at(p, v)];
  if (!*view) *view = spread_of(p, v);
  if (!*view) *view = turn(p, first_of(p, v), v->meta.ndim, from_first);
  return *view;
}

/* An operand that is spread over images of nd axes. */
static TsVal beside(Pass *p, TsVal v, int nd) {
  TsMeta all = {.ndim = (uint8_t)nd};
  int skip = nd - v->meta.ndim, before = -1;
  bool ordered = true;
  for (int i = 0; i < nd; i++) all.dim[i] = i < skip ? 1 : v->meta.dim[i - skip];
  TsMeta t = turned(&all);
  for (int i = 0; i < nd; i++) {
    int from = from_first(i, nd);
    if (all.dim[from] == 1) continue;
    ordered &= from > before, before = from;
  }
  TsVal own = first_of(p, v);
  if (ordered) return ts_build_reshape(build(p), own, t.dim, nd);
  return turn(p, ts_build_reshape(build(p), own, all.dim, nd), nd, from_first);
}

/* ---- pointwise rows */
static bool is_full(TsVal v, const TsMeta *y) {
  return v && v->meta.ndim == y->ndim && ts_meta_same_shape(&v->meta, y);
}

static TsVal put(Pass *p, const TsNode *n, const TsVal *in, const TsAttr *attr,
                 const TsMeta *out) {
  TsNode *made = ts_graph_raw(p->m.to, n, in, NULL, attr ? attr : n->attr, n->number, out);
  return made ? &made->out[0] : NULL;
}

/* What is chosen by a mask is a gradient, which is summed by channel next: numbers that repeat
 * along positions, as the gradient of a mean has them, would make no even columns. */
static TsVal everywhere(Pass *p, TsVal v, const TsMeta *y) {
  if (!v || ts_meta_same_shape(&v->meta, y)) return v;
  return ts_build1(build(p), TS_OP_clone, ts_build_expand(build(p), v, y->dim, y->ndim));
}

static TsVal pointwise(Pass *p, const TsNode *n) {
  const TsMeta *y = &n->out[0].meta;
  TsMeta out = turned(y);
  TsVal in[TS_MAX_IN];
  for (int i = 0; i < n->nin; i++) {
    TsVal v = n->in[i];
    in[i] = !v || !v->meta.ndim ? first_of(p, v)
            : is_full(v, y)     ? last_of(p, v)
                                : beside(p, v, y->ndim);
    if (n->op == TS_OP_where && v && v->meta.ndim && ts_meta_numel(&v->meta) > y->dim[1])
      in[i] = everywhere(p, in[i], &out);
    if (v && !in[i]) return NULL;
  }
  return put(p, n, in, NULL, &out);
}

/* v, by nodes of its own. */
static TsVal again(Pass *p, TsVal v) {
  bool apart = p->m.to->apart;
  p->m.to->apart = true;
  TsVal made = pointwise(p, v->node);
  p->m.to->apart = apart;
  return made;
}

static bool is_pointwise(const Pass *p, const TsNode *n) {
  const TsMeta *y = &n->out[0].meta;
  if (n->op != TS_OP_cast && ts_op_info((TsOp)n->op)->cls != TS_CLASS_POINTWISE) return false;
  if (y->ndim < 3) return false;
  for (int i = 0; i < n->nin; i++)
    if (is_full(n->in[i], y) && is_last(p, n->in[i])) return true;
  return false;
}

/* Nodes that it takes to compute n from 16 bits once more; 0: more than it is worth. */
static int nodes_again(const Pass *p, const TsNode *n) {
  const TsMeta *y = &n->out[0].meta;
  int count = 1;
  if (n->op == TS_OP_cast) {
    TsVal x = n->in[0];
    bool widens = ts_dtype_is(x->meta.dtype, TS_KIND_F) && ts_dtype_is(y->dtype, TS_KIND_F) &&
                  ts_dtypes[x->meta.dtype].nbytes < ts_dtypes[y->dtype].nbytes;
    return widens && is_last(p, x) && !p->again[x->node->id];
  }
  if (n->op != TS_OP_add && n->op != TS_OP_sub && n->op != TS_OP_mul && n->op != TS_OP_div &&
      n->op != TS_OP_neg)
    return 0;
  for (int i = 0; i < n->nin; i++) {
    if (!is_full(n->in[i], y)) continue;
    if (!p->again[n->in[i]->node->id]) return 0;
    count += p->again[n->in[i]->node->id];
  }
  return count <= MOST_AGAIN ? count : 0;
}

/* ---- reductions */
/* What is left: channels, or images as well. */
typedef enum Axes { OTHERS, CHANNELS, SPACE } Axes;

static Axes axes_of(const TsNode *n) {
  const TsAttr *a = &n->attr[0];
  int nd = n->in[0]->meta.ndim;
  unsigned gone = 0, space = 0;
  if (nd < 3 || a->type != TS_ATTR_ints) return OTHERS;
  for (int i = 0; i < a->n; i++) gone |= 1u << (a->ints[i] < 0 ? a->ints[i] + nd : a->ints[i]);
  for (int i = 2; i < nd; i++) space |= 1u << i;
  return gone == (space | 1u) ? CHANNELS : gone == space ? SPACE : OTHERS;
}

/* op of x, which has its channels last, over the axes before them, but for the images if they
 * stay. */
static TsVal reduce(Pass *p, TsOp op, TsVal x, bool space) {
  int64_t axis[TS_MAX_RANK];
  int n = 0;
  for (int i = space; x && i < x->meta.ndim - 1; i++) axis[n++] = i;
  return x ? ts_build(build(p), op, TS_IN(x), TS_ATTRS({"axis", ts_b_ints(axis, n)}), NULL)
           : NULL;
}

/* The same of a value of the original, once. */
static TsVal reduced(Pass *p, TsOp op, TsVal of, bool space) {
  for (int i = 0; i < p->nreduced; i++)
    if (p->reduced[i].op == op && p->reduced[i].of == of && p->reduced[i].space == space)
      return p->reduced[i].made;
  TsVal made = reduce(p, op, last_of(p, of), space);
  p->reduced[p->nreduced++] = (Reduced){op, of, made, space};
  return made;
}

static TsVal number(Pass *p, double v) { return build(p)->number(build(p), v); }

/* The sum of squares of x's distances from its mean, divided by count. */
static TsVal squares(Pass *p, TsVal x, TsVal mean, double count) {
  TsVal d = ts_build_sub(build(p), x, mean);
  TsVal sum = reduce(p, TS_OP_sum, ts_build_mul(build(p), d, d), false);
  return ts_build_div(build(p), sum, number(p, count));
}

/* As ir/lower/reduce.c and vm/rows/reduce.h have it: of small elements where the first sum is
 * not finite. */
static TsVal variance(Pass *p, TsVal x, double count) {
  TsBuild *b = build(p);
  double by = ts_reduce_small((TsDtype)x->meta.dtype);
  TsVal y = squares(p, last_of(p, x), reduced(p, TS_OP_mean, x, false), count);
  TsVal mean = reduce(p, TS_OP_mean, ts_build_mul(b, last_of(p, x), number(p, by)), false);
  TsVal small = squares(p, ts_build_mul(b, last_of(p, x), number(p, by)), mean, count);
  small = ts_build_mul(b, small, number(p, 1 / by));
  small = ts_build_mul(b, small, number(p, 1 / by));
  TsVal finite = ts_build2(b, TS_OP_eq, ts_build_sub(b, y, y), number(p, 0));
  return ts_build_where(b, finite, y, small);
}

/* NULL: not here, or a failure. */
static TsVal reduction(Pass *p, const TsNode *n) {
  bool known = n->op == TS_OP_sum || n->op == TS_OP_mean || n->op == TS_OP_var;
  if (!known) return NULL; /* others need not have inputs, nor axes */
  TsVal x = n->in[0], y = NULL;
  const TsMeta *m = &n->out[0].meta;
  Axes axes = is_last(p, x) ? axes_of(n) : OTHERS;
  if (axes == OTHERS || !ts_dtype_is(x->meta.dtype, TS_KIND_F)) return NULL;
  switch (n->op) {
  case TS_OP_sum:
  case TS_OP_mean: y = reduced(p, (TsOp)n->op, x, axes == SPACE); break;
  case TS_OP_var: {
    double count = (double)(ts_meta_numel(&x->meta) / x->meta.dim[1]) - n->attr[2].f;
    if (axes != CHANNELS || x->meta.dtype != TS_DT_f32 || count <= 0) return NULL;
    y = variance(p, x, count);
    break;
  }
  default: return NULL;
  }
  p->gained++;
  return y && y->meta.ndim != m->ndim ? ts_build_reshape(build(p), y, m->dim, m->ndim) : y;
}

/* ---- others */
static TsVal with_layout(Pass *p, const TsNode *n, int layout) {
  TsAttr attr[TS_MAX_ATTR];
  TsMeta out = turned(&n->out[0].meta);
  if (n->attr[layout].i || !is_last(p, n->in[0])) return NULL;
  memcpy(attr, n->attr, sizeof *attr * (size_t)n->nattr);
  attr[layout].i = 1;
  p->gained++;
  return put(p, n, (TsVal[]){last_of(p, n->in[0])}, attr, &out);
}

/* [N, C, ..] with the same images in other space axes. */
static TsVal reshaped(Pass *p, const TsNode *n) {
  TsVal x = n->in[0];
  const TsMeta *m = &x->meta, *y = &n->out[0].meta;
  if (!is_last(p, x) || p->again[x->node->id] || y->ndim < 3 || m->dim[0] != y->dim[0] ||
      m->dim[1] != y->dim[1])
    return NULL;
  TsMeta out = turned(y);
  return ts_build_reshape(build(p), last_of(p, x), out.dim, out.ndim);
}

static int axis_of(const TsNode *n, int i) {
  return (int)(n->attr[i].i < 0 ? n->attr[i].i + n->out[0].meta.ndim : n->attr[i].i);
}

/* All operands turned, and the axis. */
static TsVal along_axis(Pass *p, const TsNode *n, int axis) {
  TsAttr attr[TS_MAX_ATTR];
  const TsMeta *y = &n->out[0].meta;
  TsMeta out = turned(y);
  TsVal few[TS_MAX_IN];
  if (y->ndim < 3 || n->nin > TS_MAX_IN) return NULL;
  for (int i = 0; i < n->nin; i++)
    if (n->in[i]->meta.ndim != y->ndim) return NULL;
  for (int i = 0; i < n->nin; i++) few[i] = last_of(p, n->in[i]);
  memcpy(attr, n->attr, sizeof *attr * (size_t)n->nattr);
  int own = axis_of(n, axis);
  attr[axis].i = own == 0 ? 0 : own == 1 ? y->ndim - 1 : own - 1;
  p->gained++;
  return put(p, n, few, attr, &out);
}

static TsVal joined(Pass *p, const TsNode *n) {
  int64_t own = 0;
  for (int i = 0; i < n->nin; i++)
    own += is_last(p, n->in[i]) ? ts_meta_numel(&n->in[i]->meta) : 0;
  return 2 * own >= ts_meta_numel(&n->out[0].meta) ? along_axis(p, n, 0) : NULL;
}

/* n's result with channels last, NULL: it has none. */
static TsVal with_last(Pass *p, const TsNode *n) {
  if (is_pointwise(p, n)) {
    TsVal made = pointwise(p, n);
    p->again[n->id] = (unsigned char)nodes_again(p, n);
    return made;
  }
  switch (n->op) {
  case TS_OP_max_pool:
  case TS_OP_max_pool_index:
  case TS_OP_avg_pool: return with_layout(p, n, 4);
  case TS_OP_avg_pool_grad: return with_layout(p, n, 5);
  case TS_OP_reshape:
  case TS_OP_flatten: return reshaped(p, n);
  case TS_OP_scatter_add: return is_last(p, n->in[1]) ? along_axis(p, n, 0) : NULL;
  case TS_OP_concat: return joined(p, n);
  default: return NULL;
  }
}

static bool reads_by_strides(const TsNode *n) {
  switch (n->op) {
  case TS_OP_conv1d:
  case TS_OP_conv2d:
  case TS_OP_conv3d:
  case TS_OP_conv_transpose:
  case TS_OP_conv_weight_grad: return true;
  default: return false;
  }
}

static int as_it_is(Pass *p, const TsNode *n) {
  for (int i = 0; i < n->nin; i++) {
    p->turned += is_last(p, n->in[i]) && !reads_by_strides(n);
    if (n->in[i] && !first_of(p, n->in[i])) return -1;
  }
  if (ts_graph_map_node(&p->m, n)) return -1;
  if (n->nout != 1 || !ts_lower_conv_by_unit(p->s, n)) return 0;
  TsVal y = (TsVal)(uintptr_t)&n->out[0];
  p->last[at(p, y)] = turn(p, ts_graph_mapped(&p->m, y), y->meta.ndim, from_first);
  p->m.value[at(p, y)] = NULL;
  return p->last[at(p, y)] ? 0 : -1;
}

static int visit(Pass *p, const TsNode *n) {
  bool own = n->op < TS_OP_COUNT && n->nout == 1 && !n->runs && !n->nregion;
  TsVal y = n->nout ? (TsVal)(uintptr_t)&n->out[0] : NULL, made = NULL;
  p->m.to->line = n->line > 0 ? ts_graph_place(p->m.to->module, ts_graph_where(n)) : 0;
  p->m.to->backward = n->backward;
  if (own && (made = reduction(p, n)))
    p->m.value[at(p, y)] = made;
  else if (own && (made = with_last(p, n)))
    p->last[at(p, y)] = made;
  if (build(p)->failed) return -1;
  return made ? 0 : as_it_is(p, n);
}

/* ---- the whole */
/* Results and updates are row-major. */
static int settle(Pass *p, TsVal v) {
  if (ts_graph_mapped(&p->m, v)) return 0;
  TsVal made = ts_build1(build(p), TS_OP_clone, first_of(p, v));
  p->m.value[at(p, v)] = made;
  return made ? 0 : -1;
}

/* Result i has bytes of its own where it had them: what was computed once for two is copied. */
static int own_bytes(Pass *p, int i) {
  const TsGraph *g = p->m.from;
  TsVal v = g->result[i], now = ts_graph_mapped(&p->m, v);
  bool shared = ts_node_is_view(now->node) && !ts_node_is_view(v->node);
  for (int k = 0; k < i; k++)
    shared |= g->result[k] != v && ts_graph_mapped(&p->m, g->result[k]) == now;
  if (!shared) return 0;
  p->m.to->apart = true;
  TsVal made = ts_build1(build(p), TS_OP_clone, now);
  p->m.to->apart = false;
  p->m.value[at(p, v)] = made;
  return made ? 0 : -1;
}

/* What shares its bytes with others stays as it is. */
static bool shares(const TsGraph *g, int i) {
  if (!g->bytes) return false;
  if (g->bytes[i] < g->nparam) return true;
  for (int k = 0; k < g->nresult; k++)
    if (k != i && g->bytes[k] == g->bytes[i]) return true;
  return false;
}

/* 0: it is not worth it. */
static int pass(Pass *p) {
  const TsGraph *g = p->m.from;
  unsigned char *live = ts_graph_live(g);
  int failed = live ? 0 : -1;
  for (int i = 0; i < g->nnode && !failed; i++)
    if (live[i] && g->node[i]->op != TS_NODE_param) failed = visit(p, g->node[i]);
  free(live);
  if (failed) return -1;
  if (p->gained <= p->turned) return 0;
  for (int i = 0; i < g->nresult; i++)
    if (!ts_graph_mapped(&p->m, g->result[i]) && shares(g, i)) return 0;
  for (int i = 0; i < g->nresult && !failed; i++)
    failed = settle(p, g->result[i]) || own_bytes(p, i);
  for (int i = 0; i < g->nupdate && !failed; i++) failed = settle(p, g->update[i].value);
  return failed || ts_graph_map_finish(&p->m) ? -1 : 1;
}

/* Its live nodes, of which equal ones stay apart. */
static TsGraph *without_dead(const TsGraph *from, TsError *err) {
  TsGraphMap m;
  TsGraph *g = NULL;
  unsigned char *live = ts_graph_live(from);
  if (live && !ts_graph_map_open(&m, NULL, from)) {
    if ((g = ts_graph_map_shell(&m, NULL, from, err))) {
      bool failed = false;
      g->module->nrandom = from->module->nrandom;
      g->apart = true;
      for (int i = 0; i < from->nnode && !failed; i++)
        if (live[i] && from->node[i]->op != TS_NODE_param)
          failed = ts_graph_map_node(&m, from->node[i]);
      g->apart = false;
      if (failed || ts_graph_map_finish(&m)) ts_graph_free(g), g = NULL;
    }
    ts_graph_map_close(&m);
  }
  free(live);
  return g;
}

static bool has_convolutions(const TsSched *s, const TsGraph *g) {
  for (int i = 0; i < g->nnode; i++)
    if (ts_lower_conv_by_unit(s, g->node[i])) return true;
  return false;
}

int ts_lower_channels(const TsSched *s, const TsGraph *from, TsGraph **out, TsError *err) {
  Pass p = {.s = s};
  *out = NULL;
  if (!has_convolutions(s, from)) return 0;
  if (ts_graph_map_open(&p.m, NULL, from)) return ts_error_memory(err);
  int nvalue = 1, made = -1;
  for (int i = 0; i < from->nnode; i++)
    nvalue += from->node[i]->nout > 0 ? from->node[i]->nout : 1;
  p.last = calloc((size_t)nvalue, sizeof *p.last);
  p.view = calloc((size_t)nvalue, sizeof *p.view);
  p.again = calloc((size_t)from->nnode + 1, 1);
  p.reduced = calloc((size_t)from->nnode * 2 + 1, sizeof *p.reduced);
  TsGraph *g = NULL;
  if (p.last && p.view && p.again && p.reduced &&
      (g = ts_graph_map_shell(&p.m, NULL, from, err))) {
    g->module->nrandom = from->module->nrandom;
    g->numbers_fit = from->numbers_fit, g->runs_all = from->runs_all;
    made = pass(&p);
    if (made > 0 && !(*out = without_dead(g, err))) made = -1;
    if (*out) (*out)->numbers_fit = from->numbers_fit, (*out)->runs_all = from->runs_all;
  }
  ts_graph_free(g);
  ts_graph_map_close(&p.m);
  free(p.last), free(p.view), free(p.again), free(p.reduced);
  return made < 0 ? ts_error_memory(err) : 0;
}

/* ---- what a schedule asks */
/* n moves the channels of what it reads to the end. */
static bool turns(const TsNode *n) {
  const TsAttr *a = n->op == TS_OP_permute ? &n->attr[0] : NULL;
  int nd = n->nin ? n->in[0]->meta.ndim : 0;
  for (int i = 0; a && i < nd; i++)
    if ((a->ints[i] < 0 ? a->ints[i] + nd : a->ints[i]) != from_first(i, nd)) return false;
  return a != NULL;
}

bool ts_lower_conv_turned(const TsSched *s, const TsNode *n) {
  const TsGraph *g = s->g;
  bool some = false;
  if (!ts_lower_conv_by_unit(s, n)) return false;
  for (int i = 0; i < g->nresult; i++)
    if (g->result[i]->node == n) return false;
  for (int i = 0; i < g->nupdate; i++)
    if (g->update[i].value->node == n) return false;
  for (int i = 0; i < g->nnode; i++)
    for (int k = 0; k < g->node[i]->nin; k++) {
      if (!g->node[i]->in[k] || g->node[i]->in[k]->node != n) continue;
      if (!turns(g->node[i])) return false;
      some = true;
    }
  return some;
}
