/* See jit/build/join.h. The gradients of queries, keys and values are parts of the gradient of
 * the product that made all three; what stands between are views. Followed back from the joined
 * tensor they say how each part lies in it. */
#include "jit/build/join.h"

#include <string.h>

#include "ir/lower/lower.h"
#include "ir/sched/why.h"

typedef struct Parts {
  const TsNode *from, *into;
  int64_t stride[TS_MAX_RANK];   /* of all parts */
  int64_t shift[TS_FUSED_PARTS]; /* by result of from: elements */
} Parts;

/* ---- how a view lies, from how its result does */
static bool back_permute(const TsNode *n, int64_t *stride) {
  int64_t out[TS_MAX_RANK];
  int nd = n->out[0].meta.ndim;
  memcpy(out, stride, sizeof out);
  for (int i = 0; i < nd; i++) {
    int64_t p = n->attr[0].ints[i];
    stride[p < 0 ? p + nd : p] = out[i];
  }
  return true;
}

static bool back_transpose(const TsNode *n, int64_t *stride) {
  int nd = n->out[0].meta.ndim;
  int64_t a = n->attr[0].i, b = n->attr[1].i;
  a += a < 0 ? nd : 0, b += b < 0 ? nd : 0;
  int64_t s = stride[a];
  stride[a] = stride[b], stride[b] = s;
  return true;
}

/* Axes of one element come or go. */
static bool back_ones(const TsNode *n, int64_t *stride) {
  const TsMeta *x = &n->in[0]->meta, *y = &n->out[0].meta;
  int64_t out[TS_MAX_RANK];
  int k = 0;
  memcpy(out, stride, sizeof out);
  for (int i = 0; i < x->ndim; i++) {
    stride[i] = 0;
    if (x->dim[i] == 1) continue;
    while (k < y->ndim && y->dim[k] == 1) k++;
    if (k == y->ndim || y->dim[k] != x->dim[i]) return false;
    stride[i] = out[k++];
  }
  return true;
}

static bool back(const TsNode *n, int64_t *stride) {
  switch (n->op) {
  case TS_OP_permute: return n->attr[0].n == n->out[0].meta.ndim && back_permute(n, stride);
  case TS_OP_transpose: return back_transpose(n, stride);
  case TS_OP_reshape:
  case TS_OP_unsqueeze:
  case TS_OP_squeeze: return back_ones(n, stride);
  default: return false;
  }
}

/* ---- who reads what */
static int readers(const TsFusion *f, const TsValue *v) {
  int n = 0;
  for (int i = 0; i < f->g->nnode; i++) {
    const TsNode *m = f->g->node[i];
    bool runs = ts_sched_is_view(m) || f->sched->of[i] >= 0;
    for (int k = 0; runs && k < m->nin; k++) n += m->in[k] == v;
  }
  for (int i = 0; i < f->g->nresult; i++) n += f->g->result[i] == v;
  for (int i = 0; i < f->g->nupdate; i++) n += f->g->update[i].value == v;
  return n;
}

static const TsValue *root_of(const TsValue *v) {
  while (ts_sched_is_view(v->node)) v = v->node->in[0];
  return v;
}

/* ---- one part: its strides, and where it begins */
static bool follow(const TsFusion *f, Parts *p, int input, int64_t start, bool first) {
  const TsNode *c = p->into;
  const TsMeta *y = &c->out[0].meta;
  const TsValue *v = c->in[input];
  int64_t stride[TS_MAX_RANK], axis = c->attr[0].i;
  if (axis < 0) axis += y->ndim;
  ts_meta_strides(y, stride);
  int64_t shift = start * stride[axis];
  for (; ts_sched_is_view(v->node); v = v->node->in[0])
    if (readers(f, v) != 1 || !back(v->node, stride)) return false;
  if (v->node != p->from || v->meta.dtype != y->dtype || readers(f, v) != 1) return false;
  size_t n = sizeof *stride * (size_t)v->meta.ndim;
  if (first) memcpy(p->stride, stride, n);
  p->shift[v->index] = shift * ts_dtypes[y->dtype].nbytes;
  return !memcmp(p->stride, stride, n);
}

static bool find(const TsFusion *f, Parts *p) {
  const TsNode *c = p->into;
  unsigned seen = 0;
  int64_t start = 0, axis = c->attr[0].i;
  if (c->nin != p->from->nout || c->nin > TS_FUSED_PARTS) return false;
  if (axis < 0) axis += c->out[0].meta.ndim;
  for (int i = 0; i < c->nin; i++) {
    if (!c->in[i] || !follow(f, p, i, start, i == 0)) return false;
    seen |= 1u << root_of(c->in[i])->index;
    start += c->in[i]->meta.dim[axis];
  }
  return seen == (1u << c->nin) - 1;
}

static const TsNode *joiner(const TsFusion *f, const TsNode *n) {
  for (int i = 0; i < f->g->nnode; i++) {
    const TsNode *c = f->g->node[i];
    if (c->op == TS_OP_concat && f->sched->of[i] >= 0 && c->nin && c->in[0] &&
        root_of(c->in[0])->node == n)
      return c;
  }
  return NULL;
}

/* Whether the kernel can write so. */
static bool can(const TsFusion *f, const TsGroup *g, TsLayouts *l) {
  TsSchedKernel k = {.tile = NULL};
  TsError err = {0};
  bool fine = !ts_lower_group(f->sched, g, ts_layouts_of, l, &k, &err) && ts_lower_own(&k);
  ts_tile_free(k.tile);
  return fine;
}

int ts_build_join(const TsBuildJob *b, TsFusion *f) {
  TsLayouts *l = ts_build_layouts(b, f->g);
  for (int i = 0; i < f->sched->ngroup; i++) {
    const TsGroup *g = f->sched->group[i];
    Parts p = {.from = g->node[0]};
    if (g->nnode != 1 || p.from->op != TS_OP_attention_grad) continue;
    if (!(p.into = joiner(f, p.from)) || !find(f, &p)) continue;
    if (ts_layouts_set(l, &p.from->out[0], p.stride)) return -1;
    if (!can(f, g, l)) {
      ts_layouts_set(l, &p.from->out[0], NULL);
      continue;
    }
    f->of[i].into = p.into;
    memcpy(f->of[i].shift, p.shift, sizeof p.shift);
    for (int k = 0; k < p.into->nin; k++) ts_why_in_place(f->sched->why, p.into, k);
  }
  return 0;
}
