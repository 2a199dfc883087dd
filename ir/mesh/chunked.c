/* See ir/mesh/chunked.h. */
#include "ir/mesh/chunked.h"

#include <math.h>
#include <string.h>

#include "ir/mesh/chain.h"

/* A parameter, as it is or converted. What a product with one gives is wanted at once; the
 * gradient of one is wanted at the end. */
static bool is_parameter(const TsGraph *g, TsVal v) {
  while (v && v->node->op < TS_OP_COUNT &&
         (ts_node_is_view(v->node) || v->node->op == TS_OP_cast))
    v = v->node->in[0];
  return v && v->node->op == TS_NODE_param && g->nparam > 0;
}

/* The value of an update is given, not put together first. */
static bool is_update(const TsGraph *g, TsVal y) {
  for (int u = 0; u < g->nupdate; u++)
    if (g->update[u].value == y) return true;
  return false;
}

static bool is_product(const TsSlots *a, const TsNodeCall *k, const TsMeta *out) {
  const TsNode *n = k->n;
  if (n->op != TS_OP_matmul || n->nin != 2 || n->nout != 1 || k->f < 0 || out->ndim < 2)
    return false;
  const TsFactor *f = &k->s.factor[k->f];
  if (f->kind != TS_FACTOR_sum || ts_chain_pieces(a, f) < 2) return false;
  if (ts_shard_axis(&k->s, 0, k->f) >= 0) return false; /* it is no sum */
  if (a->p->space.micro >= 0 && memchr(f->axis, a->p->space.micro, f->naxis)) return false;
  bool weight = is_parameter(a->p->g, n->in[0]) || is_parameter(a->p->g, n->in[1]);
  return weight && !is_update(a->p->g, (TsVal)&n->out[0]);
}

/* The outermost axis that can be cut so, or -1: chunks then lie one behind the other. */
static int axis_of(const TsSlots *a, const TsNodeCall *k, const TsMeta *out, int n) {
  const TsLayout *l = ts_shard_gives(&k->s, a->p->space.mesh, 0);
  for (int d = 0; d + 1 < out->ndim; d++)
    if (k->s.out_axis[0][d] >= 0 && ts_chain_divides(a, l, out, d, n)) return d;
  return -1;
}

/* A way to do it: so many chunks of the product and of the nodes before it. */
typedef struct Way {
  int n, axis, nnode, node[TS_CHAIN_MOST];
  double usec;
} Way;

/* Kernels of products fill the processors with tiles, wave by wave: how much longer n chunks
 * take than all rows at once. */
static double stretch(const TsOverlap *o, const TsChainNode *c, int n) {
  if (!c->product || c->rows <= 0) return 1;
  double across = ceil(c->columns / TS_OVERLAP_COLUMNS);
  double all = ceil(ceil(c->rows / TS_OVERLAP_ROWS) * across / o->tiles);
  double each = ceil(ceil(c->rows / n / TS_OVERLAP_ROWS) * across / o->tiles);
  return n * each / all;
}

/* What one device takes for the product, its sum, and the nodes of `all`, of which those of
 * the way are cut. A meeting is on the way of the sum. */
static double takes(const TsSlots *a, const TsNodeCall *k, const TsMeta *out, const Way *w,
                    const Way *all) {
  const TsOverlap *o = &a->p->overlap;
  const TsChainNode *c = &a->chains->node[k->n->id];
  TsMeta m = *out;
  m.layout = c->layout->id;
  TsMeta part = ts_layout_part(c->layout, &m, 0);
  double group = ts_chain_pieces(a, &k->s.factor[k->f]);
  double sum =
      2 * (group - 1) / group * 4 * (double)ts_meta_numel(&part) / o->link; /* in f32 */
  double made = c->usec * stretch(o, c, w->n), before = 0, together = w->n > 1 ? c->bytes : 0;
  for (int i = 0; i < all->nnode; i++) before += a->chains->node[all->node[i]].usec;
  for (int i = 0; i < w->nnode; i++) {
    const TsChainNode *x = &a->chains->node[w->node[i]];
    before -= x->usec, made += x->usec * stretch(o, x, w->n);
    if (x->kept) together += x->bytes;
  }
  sum += w->n * o->meets;
  double longer = made > sum ? made : sum, shorter = made > sum ? sum : made;
  return before + longer + shorter / w->n + 2 * together / o->memory;
}

static void note(TsSlots *a, const TsNodeCall *k, const Way *w, double usec, int other,
                 double others) {
  const char *where = ts_graph_where(k->n);
  TsText *t = &a->p->remarks;
  int products = 0;
  for (int i = 0; i < w->nnode; i++) products += a->chains->node[w->node[i]].product;
  ts_text_format(t, "%s%s%s: its sum is sent ", ts_node_name(k->n), *where ? " at " : "",
                 where);
  if (w->n > 1)
    ts_text_format(t, "in %d chunks of rows", w->n);
  else
    ts_text_str(t, "as one");
  if (products)
    ts_text_format(t, ", each behind its rows of %d product%s", products,
                   products > 1 ? "s" : "");
  ts_text_format(t, ": about %.3g us by costs, %.3g ", usec, others);
  if (other > 1)
    ts_text_format(t, "in %d chunks\n", other);
  else
    ts_text_str(t, "as one\n");
}

static Way way_of(const TsSlots *a, const TsNodeCall *k, const TsMeta *out, int n, bool chain) {
  Way w = {.n = n, .axis = axis_of(a, k, out, n)};
  if (chain && n > 1 && w.axis >= 0) w.nnode = ts_chain_find(a, k, w.axis, n, w.node);
  return w;
}

/* The best of all that there are, by costs; n 0: there is none. Nodes of a chain have notes of
 * the way that was looked at last: who takes one looks at it again. */
static Way best_of(const TsSlots *a, const TsNodeCall *k, const TsMeta *out, Way *all) {
  Way best = {0};
  for (int n = 2; n <= TS_CHUNKS_MOST; n *= 2) {
    Way w = way_of(a, k, out, n, true);
    if (w.nnode > all->nnode) *all = w;
  }
  for (int n = 2; n <= TS_CHUNKS_MOST; n *= 2)
    for (int chain = 0; chain < 2; chain++) {
      Way w = way_of(a, k, out, n, chain);
      if (w.axis < 0 || (chain && !w.nnode)) continue;
      w.usec = takes(a, k, out, &w, all);
      if (!best.n || w.usec < best.usec) best = w;
    }
  return best;
}

int ts_chunked_count(TsSlots *a, TsNodeCall *k, const TsMeta *out, int *id, int *nid) {
  const TsOverlap *o = &a->p->overlap;
  *nid = 0;
  if (!o->on || !is_product(a, k, out) || !a->chains->node[k->n->id].layout) return 1;
  Way all = {0}, one = {.n = 1, .axis = -1}, use = one, best = best_of(a, k, out, &all);
  one.usec = takes(a, k, out, &one, &all);
  if (a->chunked && a->chunked[k->n->id]) {
    use = way_of(a, k, out, a->chains->node[k->n->id].nchunk, true);
  } else if (o->chunks > 1) {
    use = way_of(a, k, out, o->chunks, true);
    if (use.axis < 0) use = one;
  } else if (!o->chunks && best.n && best.usec + o->meets < one.usec) {
    use = way_of(a, k, out, best.n, best.nnode > 0);
  }
  use.usec = takes(a, k, out, &use, &all);
  if (use.n > 1 && !a->chunked) {
    a->could[k->n->id] = true;
    ts_chain_take(a, k, use.n, use.node, use.nnode);
  }
  if (use.n > 1 && !(a->chunked && a->chunked[k->n->id])) return 1;
  const Way *other = use.n > 1 ? &one : &best;
  if (best.n || use.n > 1) note(a, k, &use, use.usec, other->n, other->usec);
  if (use.n > 1) k->axis = use.axis, *nid = use.nnode, memcpy(id, use.node, sizeof use.node);
  return use.n;
}

int ts_chunked_settle(TsSlots *a) {
  const TsMeshPlan *p = a->p;
  int n = 0;
  for (int i = 0; i < p->njoin; i++) {
    const TsMeshJoin *j = &p->join[i];
    if (j->kind == TS_JOIN_sum && j->node && j->node->op < TS_OP_COUNT &&
        p->slot[j->from].meta.layout != p->slot[j->to].meta.layout)
      a->could[j->node->id] = false;
  }
  for (int i = 0; i < p->g->nnode; i++) n += a->could[i];
  return n;
}

void ts_chunked_operands(TsNodeCall *k, TsMeshPiece *piece, TsShardPart *of) {
  int row = k->s.out_axis[0][k->axis];
  int64_t count = of->count[row] / k->nchunk;
  for (int i = 0; i < k->s.nin; i++)
    for (int d = 0; k->operand[i] && k->rows[i] < 0 && d < k->s.in[i]->ndim; d++)
      if (k->s.in_axis[i][d] == row)
        k->operand[i] =
            ts_build_narrow(&piece->g->b, k->operand[i], d, k->chunk * count, count);
  of->start[row] += k->chunk * count, of->count[row] = count;
}

void ts_chunked_join(TsSlots *a, const TsNodeCall *k, int group) {
  if (group < 0 || k->whole < 0 || a->failed) {
    a->failed = true;
    return;
  }
  a->p->slot[k->whole].group = group;
  for (int p = 0; p < ts_slots_parts(a) && !a->failed; p += ts_slots_step(a, k->micro)) {
    TsVal of[TS_CHUNKS_MOST];
    for (int i = 0; i < k->nchunk; i++) of[i] = ts_slots_local(a, k->made[i], group, p);
    TsMeshPiece *piece = ts_slots_piece(a, group, p);
    if (!piece || a->failed) return;
    TsVal y = ts_build(&piece->g->b, TS_OP_concat, k->nchunk, of,
                       TS_ATTRS({"axis", ts_b_int(k->axis)}), NULL);
    if (piece->g->b.failed) a->failed = true;
    ts_slots_set_local(a, k->whole, group, p, y);
  }
}
