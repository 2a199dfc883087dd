/* Calls of compiled kernels, and where the values of a graph lie in memory. */
#include "vm/code/fused.h"

#include <stdlib.h>
#include <string.h>

#include "vm/core/capture.h"
#include "vm/core/vm.h"

/* ---- calls */
static bool has_strides(const TsTensor *t, const int64_t *stride) {
  if (!stride) return t->contiguous;
  for (int i = 0; i < t->meta.ndim; i++)
    if (t->meta.dim[i] > 1 && t->stride[i] != stride[i]) return false;
  return true;
}

/* t's elements where the kernel expects them. */
static TsTensor *moved(TsContext *c, TsTensor *t, const int64_t *stride) {
  if (!stride) return ts_tensor_contiguous(c, t);
  int64_t first = 0, last = 0;
  for (int i = 0; i < t->meta.ndim; i++) {
    int64_t reach = (t->meta.dim[i] - 1) * stride[i];
    *(reach < 0 ? &first : &last) += reach;
  }
  TsMeta span = {.dtype = t->meta.dtype, .ndim = 1, .dim = {last - first + 1}};
  span.device = t->meta.device;
  TsTensor *base = ts_tensor_new(c, &span), *y = NULL;
  int64_t size = ts_dtypes[t->meta.dtype].nbytes;
  if (base) y = ts_tensor_view(base, &t->meta, stride, base->offset - first * size);
  if (y && ts_vm_assign(c, y, t)) {
    ts_tensor_unref(y);
    y = NULL;
  }
  ts_tensor_unref(base);
  return y;
}

static int run_moved(TsFused *f, TsContext *c, TsTensor *const *in, TsTensor *const *out) {
  TsTensor *own[TS_SCHED_PARAMS] = {NULL};
  int failed = 0;
  for (int i = 0; i < f->nin && !failed; i++) {
    bool fine = has_strides(in[i], f->stride[i]);
    own[i] = fine ? ts_tensor_ref(in[i]) : moved(c, in[i], f->stride[i]);
    failed = !own[i];
  }
  if (!failed) failed = f->run(f, c, own, out);
  for (int i = 0; i < f->nin; i++) ts_tensor_unref(own[i]);
  return failed ? -1 : 0;
}

int ts_fused_run(TsFused *f, TsContext *c, TsTensor *const *in, TsTensor *const *out) {
  if (f->before && f->before(f, c, in)) return -1;
  for (int i = 0; i < f->nin; i++)
    if (!has_strides(in[i], f->stride[i])) return run_moved(f, c, in, out);
  return f->run(f, c, in, out);
}

bool ts_fused_over(const TsFused *f, int k, int i, const uint32_t *root) {
  if (!f->over || !(f->over[k] >> i & 1)) return false;
  for (int j = 0; j < f->nin; j++)
    if (root[j] == root[i] && !(f->over[k] >> j & 1)) return false;
  return true;
}

/* ---- layouts */
typedef struct Finder {
  TsContext *c;
  const TsGraph *g;
  TsLayouts *l;
  TsTensor *
      *at; /* by node: a tensor without bytes that lies as its value; NULL: not needed yet */
} Finder;

static TsTensor *tensor_of(Finder *f, TsVal v) {
  TsTensor **t = &f->at[v->node->id];
  if (!*t) *t = ts_tensor_symbol(f->c, &v->meta, NULL);
  return *t;
}

/* The view of x, or nothing where elements would have to be copied. */
static void look(Finder *f, const TsNode *n, TsTensor *x) {
  TsTensor *in[TS_MAX_IN] = {x, x}, *out = NULL;
  TsCall call = {.ctx = f->c,
                 .op = (TsOp)n->op,
                 .nin = n->nin,
                 .nout = 1,
                 .in = in,
                 .out = &out,
                 .attr = n->attr};
  int failed = ts_vm_handler[n->op](&call);
  if (failed) ts_error_clear(&f->c->err);
  if (!failed && out->storage == x->storage)
    f->at[n->id] = out;
  else if (!failed)
    ts_tensor_unref(out);
}

static int keep(Finder *f, int id) {
  const TsTensor *t = f->at[id];
  if (!t || t->contiguous) return 0;
  size_t nbytes = sizeof *t->stride * (size_t)(t->meta.ndim ? t->meta.ndim : 1);
  f->l->stride[id] = ts_arena_copy(&f->l->arena, t->stride, nbytes);
  return f->l->stride[id] ? 0 : -1;
}

static int find(Finder *f) {
  const TsGraph *g = f->g;
  for (int i = 0; i < g->nparam; i++) {
    TsTensor *t = g->bound[i];
    if (t && t != TS_GRAPH_UNBOUND) f->at[g->param[i]->node->id] = ts_tensor_ref(t);
  }
  for (int i = 0; i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    if (ts_sched_is_view(n)) {
      TsTensor *x = tensor_of(f, n->in[0]);
      if (!x) return -1;
      look(f, n, x);
    }
    if (keep(f, i)) return -1;
  }
  return 0;
}

static TsLayouts *layouts_of(TsContext *c, const TsGraph *g) {
  Finder f = {.c = c, .g = g, .l = calloc(1, sizeof *f.l)};
  if (f.l) f.l->g = g;
  f.at = calloc((size_t)g->nnode + 1, sizeof *f.at);
  TsAside was = ts_context_aside(c);
  if (f.l)
    f.l->stride = ts_arena_alloc(&f.l->arena, sizeof *f.l->stride * ((size_t)g->nnode + 1));
  int failed = !f.l || !f.at || !f.l->stride || find(&f);
  ts_context_resume(c, was);
  for (int i = 0; f.at && i < g->nnode; i++) ts_tensor_unref(f.at[i]);
  free(f.at);
  if (!failed) return f.l;
  ts_layouts_free(f.l);
  ts_error_memory(&c->err);
  return NULL;
}

/* Appends those of the functions inside g; a graph that is called twice has one. */
static int layouts_inside(TsContext *c, TsLayouts *first, const TsGraph *g) {
  for (int i = 0; i < g->nnode; i++)
    for (int k = 0; k < g->node[i]->nregion; k++) {
      const TsGraph *inner = g->node[i]->region[k];
      TsLayouts *l = first;
      while (l->g != inner && l->next) l = l->next;
      if (l->g == inner) continue;
      if (!(l->next = layouts_of(c, inner)) || layouts_inside(c, first, inner)) return -1;
    }
  return 0;
}

TsLayouts *ts_layouts_new(TsContext *c, const TsGraph *g) {
  TsLayouts *l = layouts_of(c, g);
  if (l && !layouts_inside(c, l, g)) return l;
  ts_layouts_free(l);
  return NULL;
}

void ts_layouts_free(TsLayouts *l) {
  for (TsLayouts *next; l; l = next) {
    next = l->next;
    ts_arena_free(&l->arena);
    free(l);
  }
}

const TsFusion *ts_fusion_of(const TsFusion *all, const TsGraph *g) {
  while (all && all->g != g) all = all->next;
  return all;
}

static const int64_t *strides_of(const TsLayouts *l, const TsValue *v, int64_t *own) {
  if (l->stride[v->node->id]) return l->stride[v->node->id];
  ts_meta_strides(&v->meta, own);
  return own;
}

/* A view of permuted axes; others of what lies otherwise by now are looked at when they run. */
static int look_again(TsLayouts *l, const TsNode *n) {
  const TsValue *x = n->in[0];
  int64_t own[TS_MAX_RANK], stride[TS_MAX_RANK];
  const int64_t *from = strides_of(l, x, own);
  int nd = x->meta.ndim;
  l->stride[n->id] = NULL;
  if (n->op != TS_OP_permute) return 0;
  for (int i = 0; i < nd; i++) {
    int64_t axis = n->attr[0].ints[i];
    stride[i] = from[axis < 0 ? axis + nd : axis];
  }
  if (ts_meta_row_major(&n->out[0].meta, stride)) return 0;
  l->stride[n->id] = ts_arena_copy(&l->arena, stride, sizeof *stride * (size_t)nd);
  return l->stride[n->id] ? 0 : -1;
}

/* All views of v. */
static int look_at_views(TsLayouts *l, const TsGraph *g, const TsValue *v) {
  for (int i = (int)v->node->id + 1; i < g->nnode; i++) {
    const TsNode *n = g->node[i], *root = n;
    if (!ts_sched_is_view(n)) continue;
    while (ts_sched_is_view(root)) root = root->in[0]->node;
    if (root == v->node && look_again(l, n)) return -1;
  }
  return 0;
}

int ts_layouts_transpose(TsLayouts *l, const TsGraph *g, const TsValue *v) {
  const TsMeta *m = &v->meta;
  int nd = m->ndim;
  int64_t stride[TS_MAX_RANK], step = 1;
  for (int i = nd; i-- > 0;) stride[i] = step, step *= m->dim[i];
  bool heads = v->node->op == TS_OP_attention;
  if (heads) {
    stride[nd - 2] = m->dim[nd - 1] * m->dim[nd - 3], stride[nd - 3] = m->dim[nd - 1];
  } else { /* channels last */
    for (int i = nd; i-- > 2;) stride[i] *= m->dim[1];
    stride[1] = 1;
  }
  for (int i = 0; heads && i < g->nnode; i++) /* its readers exchange them back */
    for (int k = 0; k < g->node[i]->nin; k++)
      if (g->node[i]->in[k] == v) l->stride[i] = NULL;
  int64_t *own = ts_arena_copy(&l->arena, stride, sizeof *stride * (size_t)nd);
  l->stride[v->node->id] = own;
  return !own || (!heads && look_at_views(l, g, v)) ? -1 : 0;
}

int ts_layouts_set(TsLayouts *l, const TsValue *v, const int64_t *stride) {
  size_t nbytes = sizeof *stride * (size_t)(v->meta.ndim ? v->meta.ndim : 1);
  int64_t *own = stride ? ts_arena_copy(&l->arena, stride, nbytes) : NULL;
  l->stride[v->node->id] = own;
  return stride && !own ? -1 : 0;
}

bool ts_layouts_of(void *layouts, TsVal v, int64_t *stride) {
  const TsLayouts *l = layouts;
  const int64_t *s = l->stride[v->node->id];
  if (s) memcpy(stride, s, sizeof *s * v->meta.ndim);
  return s != NULL;
}
