/* See ir/sched/prologue.h.
 *
 * Packed elements are what a prologue is computed for: those of A again for each block of columns,
 * those of B for each block of rows. Alone it is computed once, written and read. So cheap rows
 * join nearly always, and functions where there is one block the other way. */
#include "ir/sched/prologue.h"

#include "ir/sched/product/product.h"

enum {
  MOST_READ = 24,     /* operands of all nodes: a kernel takes TS_SCHED_PARAMS */
  MOST_PROLOGUE = 12, /* nodes, whose code stands wherever something is packed */
  PACK = 3            /* steps: A is read in place but for its prologue, B is packed anyway */
};

const TsNode *ts_sched_product_of(const TsGroup *g) {
  for (int i = 0; i < g->nnode; i++)
    if (g->node[i]->op == TS_OP_matmul) return g->node[i];
  return NULL;
}

static int index_of(const TsGroup *g, TsVal v) {
  const TsNode *n = v ? ts_sched_root(v)->node : NULL;
  for (int i = 0; i < g->nnode; i++)
    if (g->node[i] == n) return i;
  return -1;
}

/* False: it is part of something else. */
static bool put_side(const TsGroup *g, TsVal v, TsSide side, uint8_t *sides) {
  int i = index_of(g, v);
  if (i < 0) return true;
  if (sides[i] != TS_SIDE_result && sides[i] != side) return false;
  sides[i] = (uint8_t)side;
  return true;
}

bool ts_sched_sides(const TsGroup *g, uint8_t side[TS_PROLOGUE_NODES]) {
  const TsNode *p = ts_sched_product_of(g);
  bool good = p && g->nnode <= TS_PROLOGUE_NODES;
  for (int i = 0; i < g->nnode && good; i++) side[i] = TS_SIDE_result;
  for (int x = 0; x < 2 && good; x++) good = put_side(g, p->in[x], (TsSide)x, side);
  for (int i = g->nnode; i-- > 0 && good;)
    for (int k = 0; side[i] != TS_SIDE_result && k < g->node[i]->nin; k++)
      good = good && put_side(g, g->node[i]->in[k], (TsSide)side[i], side);
  return good;
}

bool ts_sched_in_prologue(const TsNode *n, const TsMeta *operand) {
  if (ts_sched_kind(n) != TS_GROUP_map || ts_sched_draws(n) || n->nout != 1) return false;
  return operand->ndim > 1 && ts_meta_same_shape(&n->out[0].meta, operand);
}

bool ts_sched_prologue_of_b(const TsNode *product) {
  TsVal b = product->in[TS_SIDE_b];
  return ts_sched_in_prologue(b->node, &b->meta);
}

/* ---- whether it can */
/* Rows that lie one behind the other in memory: transposed ones would be gathered. */
static bool is_straight(TsVal v) {
  v = ts_sched_root(v);
  while (v->node->op == TS_OP_narrow) v = ts_sched_root(v->node->in[0]);
  return !ts_sched_is_view(v->node);
}

static bool is_inside(const TsGroup *g, TsVal v) { return index_of(g, v) >= 0; }

static int count_read(const TsGroup *g) {
  int n = 0;
  for (int i = 0; i < g->nnode; i++)
    for (int k = 0; k < g->node[i]->nin; k++) {
      TsVal v = g->node[i]->in[k];
      n += v && !v->meta.weak && !is_inside(g, v);
    }
  return n;
}

/* One operand at least has all elements: the kernel reads the sizes from it. */
static bool can_be(const TsGroup *from, const TsMeta *operand) {
  bool whole = false;
  for (int i = 0; i < from->nnode; i++) {
    const TsNode *n = from->node[i];
    if (!ts_sched_in_prologue(n, operand)) return false;
    for (int k = 0; k < n->nin; k++) {
      TsVal v = n->in[k];
      if (!v || v->meta.weak) continue;
      if (is_inside(from, v)) {
        if (ts_sched_is_view(v->node)) return false;
        continue;
      }
      if (!ts_meta_same_shape(&v->meta, operand)) continue;
      if (!is_straight(v)) return false;
      whole = true;
    }
  }
  return whole;
}

/* ---- whether it pays */
/* How often an element is packed. */
static double repeats(const TsSched *s, const TsGroup *g, TsSide side, const TsMeta *operand) {
  TsProductSize size;
  TsDtype d;
  int64_t block[2];
  if (!ts_sched_product_size(s, g, &size, &d)) return 1e9;
  ts_tile_product_block(s->target, d, &size, block);
  int64_t rows = (size.m + block[0] - 1) / block[0], cols = (size.n + block[1] - 1) / block[1];
  double packed =
      side == TS_SIDE_a ? (double)size.m * (double)cols : (double)size.n * (double)rows;
  return packed * (double)size.k * (double)size.batch / (double)ts_meta_numel(operand);
}

bool ts_sched_prologue_pays(const TsSched *s, const TsGroup *from, const TsGroup *g,
                            TsSide side, TsWhy *w) {
  const TsMeta *operand = &ts_sched_product_of(g)->in[side]->meta;
  double steps = 0, pack = side == TS_SIDE_a ? PACK : 0;
  *w = ts_why(TS_WHY_packed_nodes, MOST_PROLOGUE, 0);
  if (from->nnode > MOST_PROLOGUE) return false;
  *w = ts_why(TS_WHY_packed_reads, MOST_READ, 0);
  if (count_read(from) + count_read(g) > MOST_READ) return false;
  *w = ts_why(TS_WHY_packed_form, 0, 0);
  if (!can_be(from, operand)) return false;
  for (int i = 0; i < from->nnode; i++) steps += ts_sched_steps(from->node[i]->op);
  double times = repeats(s, g, side, operand), nbytes = (double)ts_meta_nbytes(operand);
  double moved = 2 * nbytes / (double)ts_meta_numel(operand);
  bool pays = steps * (times - 1) + pack * times <= ts_sched_steps_of_bytes(s, nbytes, moved);
  *w = ts_why(pays ? TS_WHY_packed : TS_WHY_packed_cost, (int64_t)(times + 0.5),
              (int64_t)(2 * nbytes));
  return pays;
}
