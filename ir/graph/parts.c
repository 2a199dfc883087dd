/* Which values are parts: a value of its own, wanted by one concat or pad in the whole's type,
 * which leaves the function in no other way. Where a part does not lie row-major in the whole,
 * all who read it read it as it is: a view of it in another shape would have to be copied. */
#include "ir/graph/parts.h"

#include <stdlib.h>
#include <string.h>

#include "ir/graph/copy.h"

typedef struct Finder {
  const TsGraph *g;
  TsParts *p;
  unsigned char *live;
  unsigned char *leaves; /* by node: it is a result, or the new value of a parameter */
  int *users;            /* by node: operands that it is */
  int *views;            /* by node: those of views */
} Finder;

static const TsOpInfo *row_of(const TsNode *n) {
  return n->op < TS_OP_COUNT ? ts_op_info((TsOp)n->op) : NULL;
}

static bool is_view(const TsNode *n) { return row_of(n) && row_of(n)->cls == TS_CLASS_VIEW; }

static bool is_whole(const TsNode *n) {
  if (n->op != TS_OP_concat && n->op != TS_OP_pad) return false;
  return !ts_dtype_in_blocks(n->out[0].meta.dtype) && ts_meta_numel(&n->out[0].meta) > 0;
}

/* Views that keep the order of elements, and that nobody else looks through. */
static TsVal root_of(const Finder *f, TsVal v) {
  for (const TsOpInfo *o; (o = row_of(v->node)) && o->keeps_order; v = v->node->in[0])
    if (f->users[v->node->id] != 1) return v;
  return v;
}

/* Attention may lie otherwise than row-major. */
static bool can_be_part(const Finder *f, TsVal v) {
  const TsNode *n = v->node;
  const TsOpInfo *o = row_of(n);
  if (!o || !f->live[n->id] || f->leaves[n->id] || n->nout != 1 || is_whole(n)) return false;
  if (n->op == TS_OP_attention || !strcmp(o->family, "optim")) return false;
  return o->cls == TS_CLASS_POINTWISE || o->cls == TS_CLASS_REDUCE || o->cls == TS_CLASS_KERNEL;
}

static int normal_axis(const TsNode *n) {
  int64_t axis = n->attr[0].i;
  return (int)(axis < 0 ? axis + n->out[0].meta.ndim : axis);
}

/* Where operand k begins. */
static void start_of(const TsNode *n, int k, int64_t *start) {
  const TsMeta *m = &n->out[0].meta;
  memset(start, 0, sizeof *start * TS_MAX_RANK);
  if (n->op == TS_OP_concat) {
    int axis = normal_axis(n);
    for (int i = 0; i < k; i++) start[axis] += n->in[i]->meta.dim[axis];
  } else {
    const TsAttr *pads = &n->attr[0];
    int first = m->ndim - pads->n / 2;
    for (int i = first; i < m->ndim; i++) start[i] = pads->ints[2 * (i - first)];
  }
}

/* One piece of the whole's memory: only one axis, before which all are 1, is not all there. */
static bool is_dense(const TsMeta *part, const TsMeta *whole) {
  int i = 0;
  while (i < whole->ndim && part->dim[i] == 1) i++;
  for (i++; i < whole->ndim; i++)
    if (part->dim[i] != whole->dim[i]) return false;
  return true;
}

/* The strides of v, whose axes are those of the operand but for axes of 1. */
static bool find_strides(const TsMeta *v, const TsMeta *as, const TsMeta *whole,
                         int64_t *stride) {
  int64_t own[TS_MAX_RANK], step = 1;
  int k = 0;
  for (int i = whole->ndim; i-- > 0;) own[i] = step, step *= whole->dim[i];
  for (int i = 0; i < v->ndim; i++) {
    stride[i] = 1;
    if (v->dim[i] == 1) continue;
    while (k < as->ndim && as->dim[k] == 1) k++;
    if (k == as->ndim || as->dim[k] != v->dim[i]) return false;
    stride[i] = own[k++];
  }
  return true;
}

static void add_part(Finder *f, const TsNode *n, int k) {
  TsParts *p = f->p;
  TsVal as = n->in[k], v = root_of(f, as);
  TsPart *x = &p->part[p->n];
  const TsMeta *whole = &n->out[0].meta;
  if (!can_be_part(f, v) || p->of[v->node->id] >= 0) return;
  if (v->meta.dtype != whole->dtype || !ts_meta_numel(&v->meta)) return;
  *x = (TsPart){.v = v, .whole = n, .as = as, .dense = is_dense(&as->meta, whole)};
  start_of(n, k, x->start);
  if (!x->dense) {
    if (f->views[v->node->id] > (v != as)) return;
    if (!find_strides(&v->meta, &as->meta, whole, x->stride)) return;
  }
  p->of[v->node->id] = p->n++;
}

static void count(Finder *f) {
  const TsGraph *g = f->g;
  for (int i = 0; i < g->nnode; i++)
    for (int k = 0; f->live[i] && k < g->node[i]->nin; k++) {
      TsVal v = g->node[i]->in[k];
      if (!v) continue;
      f->users[v->node->id]++;
      f->views[v->node->id] += is_view(g->node[i]);
    }
}

/* v and what it shows. */
static void mark(Finder *f, TsVal v) {
  f->leaves[v->node->id] = 1;
  if (is_view(v->node)) mark(f, v->node->in[0]);
}

/* A whole may be a result; not what replaces a parameter, whose old value is read longer. */
static void find(Finder *f) {
  const TsGraph *g = f->g;
  for (int i = 0; i < g->nnode; i++) f->p->of[i] = -1;
  count(f);
  for (int i = 0; i < g->nresult; i++) mark(f, g->result[i]);
  for (int i = 0; i < g->nupdate; i++) {
    mark(f, g->update[i].value);
    f->leaves[g->update[i].value->node->id] = 2;
  }
  for (int i = 0; i < g->nnode; i++)
    for (int k = 0; f->live[i] && is_whole(g->node[i]) && k < g->node[i]->nin; k++)
      if (f->leaves[i] < 2) add_part(f, g->node[i], k);
}

static int most_parts(const TsGraph *g) {
  int n = 0;
  for (int i = 0; i < g->nnode; i++)
    if (is_whole(g->node[i])) n += g->node[i]->nin;
  return n;
}

int ts_parts_find(const TsGraph *g, TsParts *p) {
  size_t n = (size_t)g->nnode + 1;
  int most = most_parts(g);
  *p = (TsParts){.n = 0};
  if (!most) return 0;
  Finder f = {.g = g, .p = p, .live = ts_graph_live(g)};
  p->part = malloc(sizeof *p->part * (size_t)most);
  p->of = malloc(sizeof *p->of * n);
  f.leaves = calloc(n, 1);
  f.users = calloc(n, sizeof *f.users);
  f.views = calloc(n, sizeof *f.views);
  bool whole = f.live && p->part && p->of && f.leaves && f.users && f.views;
  if (whole) find(&f);
  free(f.live);
  free(f.leaves);
  free(f.users);
  free(f.views);
  if (whole) return 0;
  ts_parts_free(p);
  return -1;
}

void ts_parts_free(TsParts *p) {
  free(p->part);
  free(p->of);
  *p = (TsParts){.n = 0};
}
