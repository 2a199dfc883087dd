/* The loops of a group of columns; those of long ones on a GPU stand in ir/sched/lanes.c.
 *
 * A round is a piece of the columns with all that is reduced: tiles are [m, n], sums go down
 * the first axis, and threads share the columns. Where there are few columns and many leaves of
 * 4096 (the canonical order's), and all results are sums, there are two loops as for one long
 * row: rounds of the first are a leaf and a piece of columns, the second does what is left of a
 * leaf and adds up the leaves. */
#include <stdlib.h>

#include "ir/sched/lower.h"
#include "ir/sched/rows.h"

enum { MOST = 256, LEAST = 64, LEAF = TS_LOWER_LEAF, LEAVES = TS_LOWER_LEAVES };

static int last_of(const TsLower *l) { return l->space.naxis - 1; }
static int64_t width_of(const TsLower *l) { return l->space.axis[last_of(l)]; }

/* Columns of a round: whole lines, and pieces for several threads. */
static int64_t piece_of(const TsLower *l) {
  int64_t n = width_of(l), piece = MOST;
  if (l->g->choice.piece)
    piece = l->g->choice.piece;
  else
    while (piece > LEAST && n / piece < 2) piece /= 2;
  return n < piece ? n : piece;
}

/* Rounds of a leaf: pieces of the last axis, and the column axes before it. */
static int64_t pieces_of(const TsLower *l) {
  int64_t n = (width_of(l) + l->n - 1) / l->n;
  for (int i = 1; i < last_of(l); i++) n *= l->space.axis[i];
  return n;
}

/* Sets the position of round r, without the first axis; what is left of r. */
static TsTileVal put_position(TsLower *l, TsTileVal r, bool more) {
  TsTileBuild *b = &l->b;
  for (int i = last_of(l); i > 0; i--) {
    bool piece = i == last_of(l);
    int64_t size = piece ? (width_of(l) + l->n - 1) / l->n : l->space.axis[i];
    bool split = (more || i > 1) && size > 1;
    TsTileVal count = split ? ts_tile_index(b, size) : NULL;
    l->at[i] = size == 1 ? ts_tile_index(b, 0)
               : split   ? ts_tile_op2(b, TS_OP_mod, r, count)
                         : r;
    if (split) r = ts_tile_op2(b, TS_OP_floordiv, r, count);
    if (piece && size > 1)
      l->at[i] = ts_tile_op2(b, TS_OP_mul, l->at[i], ts_tile_index(b, l->n));
  }
  return r;
}

static TsTileLoop open_rounds(TsLower *l, int64_t leaves, TsTileVal *leaf) {
  TsTileBuild *b = &l->b;
  TsTileVal zero = ts_tile_index(b, 0), end = ts_tile_index(b, pieces_of(l) * leaves);
  TsTileLoop loop = ts_tile_for(b, zero, end, 1, true, 0, NULL);
  TsTileVal rest = put_position(l, loop.i, leaf != NULL);
  l->at[0] =
      leaf ? ts_tile_op2(b, TS_OP_mul, rest, ts_tile_index(b, LEAF)) : ts_tile_index(b, 0);
  if (leaf) *leaf = rest;
  for (int i = 0; i < l->naccess; i++) l->access[i].tile = NULL;
  return loop;
}

static int put_rounds(TsLower *l) {
  l->m = l->space.axis[0];
  TsTileLoop loop = open_rounds(l, 1, NULL);
  for (int i = 0; i < l->g->nnode; i++)
    if (ts_nodes_put(l, l->g->node[i])) return -1;
  ts_nodes_store(l, true);
  ts_nodes_store(l, false);
  ts_tile_for_end(&l->b, &loop, NULL, NULL);
  return 0;
}

/* ---- long columns */
static bool is_sum(const TsNode *n) { return n->op == TS_OP_sum || n->op == TS_OP_mean; }

static bool in_leaves(const TsLower *l) {
  if (l->space.axis[0] < LEAVES * LEAF || pieces_of(l) >= LEAVES) return false;
  for (int k = 0; k < l->g->nnode; k++) {
    const TsNode *n = l->g->node[k];
    bool full = ts_access_full(l, ts_sched_at(n));
    if (ts_sched_column(n) && !is_sum(n)) return false;
    for (int i = 0; full && i < n->nin; i++)
      if (n->in[i] && ts_access_inside(l, n->in[i]) && !ts_access_full(l, &n->in[i]->meta))
        return false;
  }
  return true;
}

static void sums_at(const TsLower *l, TsTileVal leaf, TsTileVal *at) {
  at[0] = leaf;
  for (int i = 1; i <= last_of(l); i++) at[i] = l->at[i];
}

static TsTileAccess edge_of(const TsLower *l) {
  return (TsTileAccess){.edge = width_of(l) % l->n != 0};
}

/* Sums of m rows go to row `leaf` of the scratch of each. */
static int put_leaf(TsLower *l, int64_t m, TsTileVal *sums, TsTileVal leaf) {
  TsTileVal at[TS_TILE_RANK];
  TsTileAccess how = edge_of(l);
  l->m = m;
  sums_at(l, leaf, at);
  for (int k = 0; k < l->g->nnode; k++) {
    const TsNode *n = l->g->node[k];
    if (!ts_access_full(l, ts_sched_at(n))) continue;
    if (!ts_sched_column(n)) {
      if (ts_nodes_put(l, n)) return -1;
      continue;
    }
    l->b.line = ts_tile_place(l->k, ts_graph_where(n));
    TsDtype d = ts_nodes_compute((TsDtype)n->in[0]->meta.dtype);
    TsTileVal x = ts_nodes_operand(l, n, n->in[0], d);
    if (!x) return -1;
    x = ts_nodes_reduce(l, TS_TILE_sum, ts_nodes_spread(l, x, 2));
    ts_tile_store(&l->b, sums[k], at, x, &how);
  }
  ts_nodes_store(l, true);
  return 0;
}

static int put_ends(TsLower *l, TsTileVal const *sums, int64_t count) {
  TsTileVal at[TS_TILE_RANK];
  TsTileAccess how = edge_of(l);
  int64_t axes[2] = {0, last_of(l)};
  if (last_of(l) > 1) how.axes = axes, how.naxis = 2;
  sums_at(l, ts_tile_index(&l->b, 0), at);
  for (int k = 0; k < l->g->nnode; k++) {
    const TsNode *n = l->g->node[k];
    if (!ts_sched_column(n)) {
      if (!ts_access_full(l, ts_sched_at(n)) && ts_nodes_put(l, n)) return -1;
      continue;
    }
    l->b.line = ts_tile_place(l->k, ts_graph_where(n));
    TsDtype d = ts_nodes_compute((TsDtype)n->in[0]->meta.dtype);
    TsTileType list = ts_tile_type(d, 2, (int64_t[]){count, l->n});
    TsTileVal x =
        ts_nodes_reduce(l, TS_TILE_pairs, ts_tile_load(&l->b, sums[k], at, &list, &how));
    if (x && n->op == TS_OP_mean)
      x = ts_tile_op2(&l->b, TS_OP_div, x,
                      ts_tile_const(&l->b, (double)l->space.axis[0], &x->type));
    l->made[k * TS_MAX_OUT] = ts_tile_cast(&l->b, x, (TsDtype)n->out[0].meta.dtype);
  }
  ts_nodes_store(l, false);
  return 0;
}

static int put_leaves(TsLower *l) {
  int64_t whole = l->space.axis[0] / LEAF, rest = l->space.axis[0] % LEAF;
  int64_t count = whole + (rest > 0), dim[TS_TILE_RANK] = {count};
  TsTileVal *sums = ts_arena_alloc(&l->k->arena, sizeof *sums * (size_t)l->g->nnode);
  if (!sums) return ts_error_memory(l->err);
  for (int i = 1; i <= last_of(l); i++) dim[i] = l->space.axis[i];
  for (int k = 0; k < l->g->nnode; k++) {
    const TsNode *n = l->g->node[k];
    if (!ts_sched_column(n)) continue;
    TsDtype d = ts_nodes_compute((TsDtype)n->in[0]->meta.dtype);
    TsTileType t = ts_tile_type(d, l->space.naxis, dim);
    sums[k] = ts_tile_alloc(&l->b, TS_SPACE_scratch, &t);
  }
  TsTileVal leaf;
  TsTileLoop loop = open_rounds(l, whole, &leaf);
  if (put_leaf(l, LEAF, sums, leaf)) return -1;
  ts_tile_for_end(&l->b, &loop, NULL, NULL);
  loop = open_rounds(l, 1, NULL);
  l->at[0] = ts_tile_index(&l->b, whole * LEAF);
  if (rest && put_leaf(l, rest, sums, ts_tile_index(&l->b, whole))) return -1;
  if (put_ends(l, sums, count)) return -1;
  ts_tile_for_end(&l->b, &loop, NULL, NULL);
  return 0;
}

/* A walk down a column of elements that lie far apart reads a line for each of them. */
static bool crosswise(const TsLower *l) {
  for (int i = 0; i < l->naccess; i++) {
    const int64_t *moves = l->access[i].moves;
    int64_t down = llabs(moves[0]), across = llabs(moves[last_of(l)]);
    if (down && across && down < across && width_of(l) > 1) return true;
  }
  return false;
}

int ts_columns_put(TsLower *l) {
  bool must;
  if (crosswise(l)) return ts_lower_refuse(l, "an operand lies along its columns");
  if (ts_few_fit(l)) return ts_few_put(l);
  if (ts_lanes_fit(l, &must)) return ts_lanes_put(l);
  if (must) return ts_lower_refuse(l, "rows of a norm that cannot be walked by lanes");
  l->n = piece_of(l);
  l->k->ntile = 2;
  l->k->tile[0] = l->space.axis[0];
  l->k->tile[1] = l->n;
  l->b = ts_tile_build(l->k);
  return in_leaves(l) ? put_leaves(l) : put_rounds(l);
}
