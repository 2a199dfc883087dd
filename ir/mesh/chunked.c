/* See ir/mesh/chunked.h. */
#include "ir/mesh/chunked.h"

#include <string.h>

static int pieces_of(const TsSlots *a, const TsFactor *f) {
  int n = 1;
  for (int i = 0; i < f->naxis; i++) n *= a->p->space.mesh->size[f->axis[i]];
  return n;
}

/* A parameter, as it is or converted. What a product with one gives is wanted at once; the gradient of
 * one is wanted at the end. */
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
  if (f->kind != TS_FACTOR_sum || pieces_of(a, f) < 2) return false;
  if (ts_shard_axis(&k->s, 0, k->f) >= 0) return false; /* it is no sum */
  if (a->p->space.micro >= 0 && memchr(f->axis, a->p->space.micro, f->naxis)) return false;
  bool weight = is_parameter(a->p->g, n->in[0]) || is_parameter(a->p->g, n->in[1]);
  return weight && !is_update(a->p->g, (TsVal)&n->out[0]);
}

/* Each part has as many rows of every chunk, along axis d. */
static bool divides(const TsSlots *a, const TsNodeCall *k, const TsMeta *out, int d, int n) {
  const TsLayout *l = ts_shard_gives(&k->s, a->p->space.mesh, 0);
  if (k->s.out_axis[0][d] < 0 || !l || out->dim[d] % n || l->block[d]) return false;
  for (int p = 0; p < a->p->space.mesh->n; p++) {
    int64_t all = ts_layout_count(l, d, out->dim[d], p);
    if (all % n || ts_layout_count(l, d, out->dim[d] / n, p) != all / n) return false;
  }
  return true;
}

/* The outermost axis that can be cut so, or -1: chunks then lie one behind the other. */
static int axis_of(const TsSlots *a, const TsNodeCall *k, const TsMeta *out, int n) {
  for (int d = 0; d + 1 < out->ndim; d++)
    if (divides(a, k, out, d, n)) return d;
  return -1;
}

/* What one device has of it: microseconds of its product, of its sum, and of putting chunks together. */
typedef struct Costs {
  double product, sum, together;
} Costs;

static Costs costs_of(const TsSlots *a, const TsNodeCall *k, const TsMeta *out) {
  const TsOverlap *o = &a->p->overlap;
  const TsLayout *l = ts_shard_gives(&k->s, a->p->space.mesh, 0);
  TsMeta m = *out;
  m.layout = l ? l->id : 0;
  TsMeta part = l ? ts_layout_part(l, &m, 0) : m;
  double group = pieces_of(a, &k->s.factor[k->f]), parts = 1;
  for (int f = 0; f < k->s.nfactor; f++) parts *= pieces_of(a, &k->s.factor[f]);
  double summand = 4.0 * (double)ts_meta_numel(&part); /* unrounded until it is added */
  return (Costs){.product = ts_chunks_cost_at(k->n, o->flops, o->memory) / parts,
                 .sum = 2 * (group - 1) / group * summand / o->link,
                 .together = 2 * (double)ts_meta_nbytes(&part) / o->memory};
}

static double takes(const TsOverlap *o, Costs c, int n) {
  if (n == 1) return c.product + c.sum + o->meets;
  double longer = c.product > c.sum ? c.product : c.sum;
  double shorter = c.product > c.sum ? c.sum : c.product;
  return longer + shorter / n + n * o->meets + c.together;
}

static void note(TsSlots *a, const TsNodeCall *k, int n, int best, Costs c) {
  const TsOverlap *o = &a->p->overlap;
  const char *where = ts_graph_where(k->n);
  TsText *t = &a->p->remarks;
  ts_text_format(t, "%s%s%s: its sum is sent ", ts_node_name(k->n), *where ? " at " : "",
                 where);
  if (n > 1)
    ts_text_format(t, "in %d chunks of rows", n);
  else
    ts_text_str(t, "as one");
  int other = n > 1 ? 1 : best;
  ts_text_format(t, ": about %.3g us by costs, %.3g ", takes(o, c, n), takes(o, c, other));
  if (other > 1)
    ts_text_format(t, "in %d chunks\n", other);
  else
    ts_text_str(t, "as one\n");
}

int ts_chunked_count(TsSlots *a, TsNodeCall *k, const TsMeta *out) {
  const TsOverlap *o = &a->p->overlap;
  if (!o->on || !is_product(a, k, out)) return 1;
  Costs c = costs_of(a, k, out);
  int n = 1, best = 0;
  for (int i = 2; i <= TS_CHUNKS_MOST; i *= 2)
    if (axis_of(a, k, out, i) >= 0 && (!best || takes(o, c, i) < takes(o, c, best))) best = i;
  if (o->chunks > 1 && axis_of(a, k, out, o->chunks) >= 0) n = o->chunks;
  if (!o->chunks && best && takes(o, c, best) + o->meets < takes(o, c, 1)) n = best;
  if (n > 1 && !a->chunked) a->could[k->n->id] = true;
  if (n > 1 && !(a->chunked && a->chunked[k->n->id])) return 1;
  if (best || n > 1) note(a, k, n, best, c);
  if (n > 1) k->axis = axis_of(a, k, out, n);
  return n;
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
    for (int d = 0; k->operand[i] && d < k->s.in[i]->ndim; d++)
      if (k->s.in_axis[i][d] == row)
        k->operand[i] =
            ts_build_narrow(&piece->g->b, k->operand[i], d, k->chunk * count, count);
  of->start[row] += k->chunk * count, of->count[row] = count;
}

void ts_chunked_join(TsSlots *a, const TsNodeCall *k, const TsMeta *out, const int *made) {
  int level = a->p->group[k->group].level + 1;
  int group = ts_slots_group(a, &k->r, k->micro, level);
  const TsLayout *l = ts_shard_gives(&k->s, a->p->space.mesh, 0);
  TsMeta m = *out;
  m.layout = l ? l->id : 0;
  int slot = group >= 0 && l ? ts_slots_new(a, &m, -1, group, k->r.place) : -1;
  for (int p = 0; p < ts_slots_parts(a) && slot >= 0 && !a->failed;
       p += ts_slots_step(a, k->micro)) {
    TsVal of[TS_CHUNKS_MOST];
    for (int i = 0; i < k->nchunk; i++) of[i] = ts_slots_local(a, made[i], group, p);
    TsMeshPiece *piece = ts_slots_piece(a, group, p);
    if (!piece || a->failed) return;
    TsVal y = ts_build(&piece->g->b, TS_OP_concat, k->nchunk, of,
                       TS_ATTRS({"axis", ts_b_int(k->axis)}), NULL);
    if (piece->g->b.failed) a->failed = true;
    ts_slots_set_local(a, slot, group, p, y);
  }
  if (slot < 0) a->failed = true;
  ts_slots_know(a, (TsVal)&k->n->out[0], slot);
}
