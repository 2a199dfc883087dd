/* See ir/mesh/chain.h. */
#include "ir/mesh/chain.h"

#include <string.h>

bool ts_chain_divides(const TsSlots *a, const TsLayout *l, const TsMeta *m, int d, int n) {
  if (!l || m->dim[d] % n || l->block[d]) return false;
  for (int p = 0; p < a->p->space.mesh->n; p++) {
    int64_t all = ts_layout_count(l, d, m->dim[d], p);
    if (all % n || ts_layout_count(l, d, m->dim[d] / n, p) != all / n) return false;
  }
  return true;
}

int ts_chain_pieces(const TsSlots *a, const TsFactor *f) {
  int n = 1;
  for (int i = 0; i < f->naxis; i++) n *= a->p->space.mesh->size[f->axis[i]];
  return n;
}

/* It has one result, of rows that are no summands and of which each is made alike. */
static bool is_of_rows(const TsSlots *a, const TsNodeCall *k, const TsMeta *out) {
  bool alike = !k->s.local || k->n->op == TS_OP_matmul; /* its options know no rows */
  if (k->s.nout != 1 || k->s.nin > TS_CHAIN_IN || !out->ndim || k->micro || !alike)
    return false;
  if (k->n->op >= TS_OP_COUNT || ts_op_info(k->s.op)->cls == TS_CLASS_RANDOM) return false;
  return k->f < 0 || ts_chain_pieces(a, &k->s.factor[k->f]) < 2;
}

void ts_chain_look(TsSlots *a, const TsNodeCall *k, const TsMeta *out) {
  const TsOverlap *o = &a->p->overlap;
  if (!a->chains || a->chunked) return;
  TsChainNode *c = &a->chains->node[k->n->id];
  *c = (TsChainNode){.phase = k->r.phase, .chunk = k->r.chunk};
  c->layout = ts_shard_gives(&k->s, a->p->space.mesh, 0);
  if (!c->layout || k->s.nin > TS_CHAIN_IN) return;
  c->can = is_of_rows(a, k, out);
  c->product = k->n->op == TS_OP_matmul && out->ndim >= 2;
  memcpy(c->out, k->s.out_axis[0], sizeof c->out);
  double parts = 1;
  for (int f = 0; f < k->s.nfactor; f++) parts *= ts_chain_pieces(a, &k->s.factor[f]);
  for (int i = 0; i < k->s.nin; i++) {
    memcpy(c->in[i], k->s.in_axis[i], sizeof c->in[i]);
    c->home[i] = k->in[i] >= 0 && ts_slots_home(a, k->n->in[i]) == k->in[i];
  }
  TsMeta m = *out;
  m.layout = c->layout->id;
  TsMeta part = ts_layout_part(c->layout, &m, 0);
  c->usec = ts_chunks_cost_at(k->n, o->flops, o->memory) / parts;
  c->bytes = (double)ts_meta_nbytes(&part);
  c->columns = part.ndim ? (double)part.dim[part.ndim - 1] : 1;
  c->rows = c->columns > 0 ? (double)ts_meta_numel(&part) / c->columns : 0;
}

/* ---- which nodes */
/* From a product backwards: the axis of each node's result that is cut. */
enum { NOT_MET = -1, NEVER = -2 };

typedef struct Walk {
  const TsSlots *a;
  int to, first, nchunk;   /* ids: of the product, and from where on nodes are looked at */
  int axis[TS_CHAIN_MOST]; /* by id - first */
  bool in[TS_CHAIN_MOST];
} Walk;

/* Operands that have the rows are cut as the result is; others are wanted whole. */
static void follow(Walk *w, const TsNode *n, int axis) {
  const TsChainNode *c = &w->a->chains->node[n->id];
  for (int i = 0; i < n->nin; i++) {
    int id = n->in[i] ? (int)n->in[i]->node->id : -1, at = NEVER;
    if (id < w->first || id >= w->to) continue;
    for (int d = 0; d < n->in[i]->meta.ndim && c->home[i]; d++)
      if (c->in[i][d] == c->out[axis]) at = at == NEVER ? d : NOT_MET;
    int *was = &w->axis[id - w->first];
    *was = at < 0 || (*was != NOT_MET && *was != at) ? NEVER : at;
  }
}

static bool reads(const TsNode *n, const TsNode *of) {
  for (int i = 0; i < n->nin; i++)
    if (n->in[i] && n->in[i]->node == of) return true;
  return false;
}

static bool is_result(const TsGraph *g, const TsNode *n) {
  for (int i = 0; i < g->nresult; i++)
    if (g->result[i]->node == n) return true;
  for (int i = 0; i < g->nupdate; i++)
    if (g->update[i].value->node == n) return true;
  return false;
}

/* Whether all that read it before the product is made are in the chain. */
static bool is_own(const Walk *w, const TsNode *n) {
  const TsGraph *g = w->a->p->g;
  for (int i = n->id + 1; i < w->to; i++)
    if (w->a->chains->live[i] && reads(g->node[i], n) && !w->in[i - w->first]) return false;
  return true;
}

static bool is_kept(const Walk *w, const TsNode *n) {
  const TsGraph *g = w->a->p->g;
  for (int i = w->to + 1; i < g->nnode; i++)
    if (w->a->chains->live[i] && reads(g->node[i], n)) return true;
  return is_result(g, n);
}

static bool cuts(const Walk *w, const TsNode *n, int axis) {
  const TsChainNode *c = &w->a->chains->node[n->id], *to = &w->a->chains->node[w->to];
  return n->op < TS_OP_COUNT && axis >= 0 && c->can && !c->of && c->out[axis] >= 0 &&
         c->phase == to->phase && c->chunk == to->chunk &&
         ts_chain_divides(w->a, c->layout, &n->out[0].meta, axis, w->nchunk);
}

/* The axis of what n makes of the rows of `of`, cut along `axis`; -1: it reads them in another
 * way. */
static int axis_behind(const Walk *w, const TsNode *n, const TsNode *of, int axis) {
  const TsChainNode *c = &w->a->chains->node[n->id];
  int f = -1;
  for (int i = 0; i < n->nin && i < TS_CHAIN_IN; i++) {
    if (!n->in[i] || n->in[i]->node != of) continue;
    if (!c->home[i] || c->in[i][axis] < 0 || (f >= 0 && f != c->in[i][axis])) return -1;
    f = c->in[i][axis];
  }
  for (int d = 0; f >= 0 && d < n->out[0].meta.ndim; d++)
    if (c->out[d] == f) return d;
  return -1;
}

/* Who reads it before the product is made, and is no part of that, becomes one, if it stays
 * with rows: it is wanted later then. */
static bool adopts(Walk *w, const TsNode *n, int axis) {
  const TsGraph *g = w->a->p->g;
  for (int i = w->to - 1; i > (int)n->id; i--) {
    int at = i - w->first;
    if (!w->a->chains->live[i] || w->in[at] || !reads(g->node[i], n)) continue;
    int own = axis_behind(w, g->node[i], n, axis);
    if (own < 0 || !cuts(w, g->node[i], own) || !adopts(w, g->node[i], own)) return false;
    w->in[at] = true, w->axis[at] = own;
    follow(w, g->node[i], own);
  }
  return is_own(w, n);
}

static bool fits(Walk *w, const TsNode *n) {
  if (!w->a->chains->live[n->id] || !cuts(w, n, w->axis[n->id - w->first])) return false;
  Walk before = *w;
  bool fine = adopts(w, n, w->axis[n->id - w->first]) && w->axis[n->id - w->first] >= 0;
  if (!fine) *w = before;
  return fine;
}

/* What no product stands in front of is made in chunks only if that costs nothing: nobody else
 * wants it. What read a node that is none any more is none either. */
static bool drop_some(Walk *w) {
  const TsGraph *g = w->a->p->g;
  bool any = false, work[TS_CHAIN_MOST] = {false};
  for (int id = w->first; id < w->to; id++) {
    int i = id - w->first;
    if (!w->in[i]) continue;
    work[i] = w->a->chains->node[id].product;
    for (int x = 0; x < g->node[id]->nin; x++) {
      int of = g->node[id]->in[x] ? (int)g->node[id]->in[x]->node->id : -1;
      if (of >= w->first && of < id && w->in[of - w->first]) work[i] |= work[of - w->first];
    }
    if (is_own(w, g->node[id]) && (work[i] || !is_kept(w, g->node[id]))) continue;
    w->in[i] = false, any = true;
  }
  return any;
}

static int taken(const TsSlots *a, int to, int *id) {
  int n = 0;
  for (int i = to > TS_CHAIN_MOST ? to - TS_CHAIN_MOST : 0; i < to; i++)
    if (a->chains->node[i].of == to + 1) id[n++] = i;
  return n;
}

int ts_chain_find(const TsSlots *a, const TsNodeCall *k, int axis, int nchunk, int *id) {
  const TsGraph *g = a->p->g;
  Walk w = {.a = a, .to = (int)k->n->id, .nchunk = nchunk};
  int n = 0, products = 0;
  if (!a->chains || axis < 0) return 0;
  if (a->chunked && a->chunked[w.to]) return taken(a, w.to, id);
  w.first = w.to > TS_CHAIN_MOST ? w.to - TS_CHAIN_MOST : 0;
  for (int i = 0; i < TS_CHAIN_MOST; i++) w.axis[i] = NOT_MET;
  follow(&w, k->n, axis);
  for (int i = w.to; i-- > w.first;)
    if ((w.in[i - w.first] = fits(&w, g->node[i]))) follow(&w, g->node[i], w.axis[i - w.first]);
  while (drop_some(&w)) {
  }
  for (int i = w.first; i < w.to; i++) {
    if (!w.in[i - w.first]) continue;
    id[n++] = i, products += a->chains->node[i].product;
    a->chains->node[i].axis = w.axis[i - w.first];
    a->chains->node[i].kept = is_kept(&w, g->node[i]);
  }
  return products ? n : 0;
}

void ts_chain_take(TsSlots *a, const TsNodeCall *k, int nchunk, const int *id, int n) {
  a->chains->node[k->n->id].nchunk = nchunk;
  for (int i = 0; i < n; i++) a->chains->node[id[i]].of = (int)k->n->id + 1;
}

bool ts_chain_holds(const TsSlots *a, const TsNode *n) {
  int of = a->chains && a->chunked ? a->chains->node[n->id].of : 0;
  return of && a->chunked[of - 1];
}
