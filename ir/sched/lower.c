/* A group's kernel in block form.
 *
 * Needs a group of kind map, rows or columns. Gives a kernel with one parallel loop: a round is
 * a row, or a piece of the innermost axis. Operands keep the axes along which they move;
 * neighbouring axes along which all operands move evenly are one. The outermost axis is a
 * symbolic size, so that batches of any size share a kernel.
 *
 * Groups of columns have loops of their own (ir/sched/columns.c).
 *
 * One long row, as of a mean over everything, would be one round of one thread. Where its
 * results are sums alone it has two loops: a round of the first is a leaf of the canonical sum,
 * and the second, of one round, does what is left of a leaf, adds up the leaves and goes on
 * from there. */
#include <string.h>

#include "ir/sched/attention.h"
#include "ir/sched/conv.h"
#include "ir/sched/lower.h"
#include "ir/sched/loss.h"
#include "ir/sched/product/product.h"
#include "ir/sched/random.h"
#include "ir/sched/rows.h"

enum {
  PIECE = 4096,  /* elements of a round of a long axis without reductions */
  ROUND = 1024,  /* the same on a GPU, twice of bytes */
  WHOLE = 16384, /* an axis up to this is one round */
  SHORT = 8,     /* and shorter ones are not taken together */
  TRANSPOSED =
      64, /* side of a tile of which operands are transposed; twice of 16 bits and less */
  LEAST = 16384, /* elements from which on they are */
  MOST = 2,      /* operands that are */
  LEAF = TS_LOWER_LEAF,
  LEAVES = TS_LOWER_LEAVES,
  TOGETHER = 4,  /* leaves of a round of a GPU, a power of two; 1: none */
  ROUNDS = 1024, /* that are left then at least */
};

/* ---- the loop */
/* Rounds along an axis before the last one. */
static int64_t steps_along(const TsLower *l, int i) {
  return i == l->across ? (l->space.axis[i] + l->m - 1) / l->m : l->space.axis[i];
}

/* The position of round r: its piece of the last axis, then the axes before. */
static void put_position(TsLower *l, TsTileVal r, int64_t pieces) {
  TsTileBuild *b = &l->b;
  int last = l->space.naxis - 1;
  l->at[last] = ts_tile_index(b, 0);
  if (pieces > 1) {
    TsTileVal p = ts_tile_index(b, pieces);
    TsTileVal piece = ts_tile_op2(b, TS_OP_mod, r, p);
    l->at[last] = ts_tile_op2(b, TS_OP_mul, piece, ts_tile_index(b, l->n));
    r = ts_tile_op2(b, TS_OP_floordiv, r, p);
  }
  for (int i = last; i-- > 0;) {
    TsTileVal size = i ? ts_tile_index(b, steps_along(l, i)) : NULL;
    l->at[i] = i ? ts_tile_op2(b, TS_OP_mod, r, size) : r;
    if (i) r = ts_tile_op2(b, TS_OP_floordiv, r, size);
    if (i == l->across && l->m > 1)
      l->at[i] = ts_tile_op2(b, TS_OP_mul, l->at[i], ts_tile_index(b, l->m));
  }
}

/* Opens the loop over rounds and sets the position in it. */
static TsTileLoop open_rounds(TsLower *l) {
  TsTileBuild *b = &l->b;
  int last = l->space.naxis - 1;
  TsTileVal zero = ts_tile_index(b, 0), size = NULL;
  TsTileType index = ts_tile_scalar(TS_DT_i64);
  TsAttr first = {.type = TS_ATTR_int, .i = 0};
  if (ts_access_symbolic(l, 0))
    size = ts_tile_emit1(b, TS_TILE_dim, 0, NULL, &first, &index);
  else
    size = ts_tile_index(b, l->space.axis[0]);
  if (last == 0) { /* one axis: pieces of it, or one row */
    TsTileLoop loop = ts_tile_for(b, zero, l->row ? ts_tile_index(b, 1) : size,
                                  l->row ? 1 : l->n, true, 0, NULL);
    l->at[0] = l->row ? ts_tile_index(b, 0) : loop.i;
    return loop;
  }
  int64_t pieces = (l->space.axis[last] + l->n - 1) / l->n, inner = pieces;
  for (int i = 1; i < last; i++) inner *= steps_along(l, i);
  if (l->across == 0 && ts_access_symbolic(l, 0)) {
    size = ts_tile_op2(b, TS_OP_add, size, ts_tile_index(b, l->m - 1));
    size = ts_tile_op2(b, TS_OP_floordiv, size, ts_tile_index(b, l->m));
  } else if (l->across == 0) {
    size = ts_tile_index(b, steps_along(l, 0));
  }
  if (inner > 1) size = ts_tile_op2(b, TS_OP_mul, size, ts_tile_index(b, inner));
  TsTileLoop loop = ts_tile_for(b, zero, size, 1, true, 0, NULL);
  put_position(l, loop.i, pieces);
  return loop;
}

/* On a GPU, 16 bytes for each thread of a small block: 128 of them for 16-bit elements. */
static int64_t usual_piece(const TsLower *l) {
  int64_t least = 4;
  if (!ts_target_gpu(l->s->target)) return PIECE;
  for (int i = 0; i < l->naccess; i++) {
    int64_t size = ts_dtypes[l->access[i].v->meta.dtype].nbytes;
    if (size < least) least = size;
  }
  return least < 2 ? 2 * ROUND : ROUND;
}

static bool draws(const TsLower *l) {
  for (int i = 0; i < l->g->nnode; i++)
    if (ts_sched_draws(l->g->node[i])) return true;
  return false;
}

/* Of a short last axis, as of heads that change places with rows, a round on a GPU takes
 * several: else most of its threads would have nothing. Tiles of random bits have one axis. */
static void take_several(TsLower *l, int64_t usual) {
  int last = l->space.naxis - 1;
  if (last < 1 || l->row || usual == PIECE || 2 * l->space.axis[last] > usual || draws(l))
    return;
  if (l->g->kind != TS_GROUP_map || l->space.axis[last] < SHORT) return;
  for (int i = 0; i < l->naccess; i++) /* lines, not elements far apart */
    if (l->access[i].moves[last] != 0 && l->access[i].moves[last] != 1) return;
  int64_t most = usual / l->space.axis[last], size = l->space.axis[last - 1], m = 1;
  bool symbolic = ts_access_symbolic(l, last - 1);
  for (int64_t k = 2; k <= most && !symbolic; k++)
    if (size % k == 0) m = k;
  if (symbolic || (4 * m <= most && m < size)) /* the last ones stand behind the end */
    for (m = 1; 2 * m <= most && (symbolic || m < size);) m *= 2;
  if (m == 1) return;
  l->across = last - 1;
  l->m = m;
}

/* The axis that is the fastest one of an operand that does not move evenly along the last. */
static int transposed_axis(const TsLower *l, const TsAccess *a) {
  int last = l->space.naxis - 1;
  if (a->moves[last] == 0 || a->moves[last] == 1) return -1;
  for (int i = 0; i < last; i++)
    if (a->moves[i] == 1) return i;
  return -1;
}

static int64_t side_of(int64_t n, int64_t most) {
  int64_t side = SHORT;
  while (side < n && side < most) side *= 2;
  return side;
}

/* Of a map on a GPU that reads along another axis than it writes, tiles have both axes: so all
 * operands are read in whole lines, and those others are transposed in shared memory. Sizes are
 * constants then, for vectors of symbolic sizes would have edges anywhere. */
static void find_transposed(TsLower *l) {
  int last = l->space.naxis - 1, across = -1, count = 0;
  int64_t all = 1, side = 2 * TRANSPOSED;
  if (!ts_target_gpu(l->s->target) || l->s->sizes_vary) return;
  if (l->g->kind != TS_GROUP_map || l->row || l->one_size || draws(l)) return;
  if (last < 1 || l->g->choice.piece) return;
  for (int i = 0; i <= last; i++) all *= l->space.axis[i];
  for (int i = 0; i < l->naccess; i++) {
    const TsAccess *a = &l->access[i];
    int axis = transposed_axis(l, a);
    if (a->written && a->moves[last] != 1) return;
    if (ts_dtypes[a->v->meta.dtype].nbytes > 2) side = TRANSPOSED;
    if (axis < 0) continue;
    if ((across >= 0 && axis != across) || ++count > MOST) return;
    across = axis;
  }
  if (across < 0 || all < LEAST) return;
  if (l->space.axis[across] < SHORT || l->space.axis[last] < SHORT) return;
  if (count > 1) side = TRANSPOSED;
  l->across = across, l->one_size = l->transposed = true;
  l->m = side_of(l->space.axis[across], side), l->n = side_of(l->space.axis[last], side);
}

static void choose_piece(TsLower *l) {
  int64_t size = l->space.axis[l->space.naxis - 1], usual = usual_piece(l);
  bool whole = l->row || (l->space.naxis > 1 && size <= (usual == PIECE ? WHOLE : usual));
  l->n = whole ? size : usual;
  int64_t piece = l->g->choice.piece;
  if (piece && !l->row) l->n = l->space.naxis > 1 && piece > size ? size : piece;
  if (whole) take_several(l, usual);
}

static int put_rounds(TsLower *l) {
  if (!l->transposed) choose_piece(l);
  l->k->ntile = l->across < 0 ? 1 : 2;
  l->k->tile[0] = l->across < 0 ? l->n : l->m;
  l->k->tile[1] = l->n;
  l->b = ts_tile_build(l->k);
  if (ts_loss_open(l)) return -1;
  TsTileLoop loop = open_rounds(l);
  for (int i = 0; i < l->g->nnode; i++)
    if (ts_nodes_put(l, l->g->node[i])) return -1;
  for (int i = 0; i < l->naccess; i++)
    if (l->access[i].written && !ts_loss_reduced(l->access[i].v->node))
      ts_access_store(l, &l->access[i], *ts_nodes_made(l, l->access[i].v));
  ts_tile_for_end(&l->b, &loop, NULL, NULL);
  return ts_loss_close(l);
}

/* ---- one long row in two loops */
static bool is_sum(const TsNode *n) { return n->op == TS_OP_sum || n->op == TS_OP_mean; }

static bool in_leaves(const TsLower *l) {
  if (!l->row || l->space.naxis != 1 || l->space.axis[0] < LEAVES * LEAF) return false;
  for (int k = 0; k < l->g->nnode; k++) {
    const TsNode *n = l->g->node[k];
    bool full = ts_access_full(l, ts_sched_at(n));
    if (ts_sched_row(n) && !is_sum(n)) return false;
    /* Nothing waits for a sum and goes over it again. */
    for (int i = 0; full && i < n->nin; i++)
      if (n->in[i] && ts_access_inside(l, n->in[i]) && !ts_access_full(l, &n->in[i]->meta))
        return false;
  }
  return true;
}

/* The n elements from the position on, whose sums become element `at` of each scratch. */
static int put_leaf(TsLower *l, int64_t n, TsTileVal *sums, TsTileVal at) {
  TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  l->n = n;
  for (int i = 0; i < l->naccess; i++) l->access[i].tile = NULL;
  for (int k = 0; k < l->g->nnode; k++) {
    const TsNode *node = l->g->node[k];
    if (!ts_access_full(l, ts_sched_at(node))) continue;
    if (!ts_sched_row(node)) {
      if (ts_nodes_put(l, node)) return -1;
      continue;
    }
    l->b.line = ts_tile_place(l->k, ts_graph_where(node));
    TsDtype d = ts_nodes_compute((TsDtype)node->in[0]->meta.dtype);
    TsTileVal x = ts_nodes_spread(l, ts_nodes_operand(l, node, node->in[0], d), 1);
    if (!x) return -1;
    TsTileType t = ts_tile_scalar(d);
    x = ts_tile_emit1(&l->b, TS_TILE_sum, 1, &x, &axis, &t);
    ts_tile_store(&l->b, sums[k], &at, x, NULL);
  }
  ts_nodes_store(l, true);
  return 0;
}

/* From the sums of leaves to the group's numbers. */
static int put_numbers(TsLower *l, TsTileVal const *sums, int64_t count) {
  TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  for (int k = 0; k < l->g->nnode; k++) {
    const TsNode *node = l->g->node[k];
    if (!ts_sched_row(node)) {
      if (!ts_access_full(l, ts_sched_at(node)) && ts_nodes_put(l, node)) return -1;
      continue;
    }
    l->b.line = ts_tile_place(l->k, ts_graph_where(node));
    TsDtype d = ts_nodes_compute((TsDtype)node->in[0]->meta.dtype);
    TsTileType list = ts_tile_vector(d, count), t = ts_tile_scalar(d);
    TsTileVal zero = ts_tile_index(&l->b, 0), x;
    x = ts_tile_load(&l->b, sums[k], &zero, &list, NULL);
    x = ts_tile_emit1(&l->b, TS_TILE_pairs, 1, &x, &axis, &t);
    if (node->op == TS_OP_mean)
      x = ts_tile_op2(&l->b, TS_OP_div, x, ts_tile_const(&l->b, (double)l->space.axis[0], &t));
    l->made[k * TS_MAX_OUT] = ts_tile_cast(&l->b, x, (TsDtype)node->out[0].meta.dtype);
  }
  ts_nodes_store(l, false);
  return 0;
}

/* Elements of a round. A GPU takes some leaves at once where enough rounds are left for all of
 * it: their sums are paired as they would be later, and less is left for the round after. */
static int64_t leaf_of(const TsLower *l) {
  int64_t several = (int64_t)LEAF * TOGETHER;
  bool many = usual_piece(l) != PIECE && l->space.axis[0] / several >= ROUNDS;
  return many ? several : LEAF;
}

static int put_leaves(TsLower *l) {
  int64_t leaf = leaf_of(l), total = l->space.axis[0], whole = total / leaf,
          rest = total % leaf;
  TsTileBuild *b = &l->b;
  TsTileVal *sums = ts_arena_alloc(&l->k->arena, sizeof *sums * (size_t)l->g->nnode);
  if (!sums) return ts_error_memory(l->err);
  l->k->ntile = 1;
  l->k->tile[0] = leaf;
  *b = ts_tile_build(l->k);
  for (int k = 0; k < l->g->nnode; k++) {
    if (!ts_sched_row(l->g->node[k])) continue;
    TsDtype d = ts_nodes_compute((TsDtype)l->g->node[k]->in[0]->meta.dtype);
    TsTileType t = ts_tile_vector(d, whole + (rest > 0));
    sums[k] = ts_tile_alloc(b, TS_SPACE_scratch, &t);
  }
  TsTileVal zero = ts_tile_index(b, 0), one = ts_tile_index(b, 1),
            end = ts_tile_index(b, whole);
  TsTileLoop loop = ts_tile_for(b, zero, end, 1, true, 0, NULL);
  l->at[0] = ts_tile_op2(b, TS_OP_mul, loop.i, ts_tile_index(b, leaf));
  if (put_leaf(l, leaf, sums, loop.i)) return -1;
  ts_tile_for_end(b, &loop, NULL, NULL);
  loop = ts_tile_for(b, zero, one, 1, true, 0, NULL);
  l->at[0] = ts_tile_index(b, whole * leaf);
  for (int i = 0; i < l->naccess; i++) l->access[i].tile = NULL;
  if (rest && put_leaf(l, rest, sums, ts_tile_index(b, whole))) return -1;
  if (put_numbers(l, sums, whole + (rest > 0))) return -1;
  ts_tile_for_end(b, &loop, NULL, NULL);
  return 0;
}

static int lower(TsLower *l) {
  if (l->g->kind == TS_GROUP_vm) return ts_lower_refuse(l, "the VM runs this");
  if (l->g->kind == TS_GROUP_rows && !l->g->nrow)
    return ts_lower_refuse(l, "rows of one element");
  if (ts_access_find(l)) return -1;
  find_transposed(l);
  if (!(l->k = ts_tile_new(l->s->g->name))) return ts_error_memory(l->err);
  if (l->s->target) l->k->target = l->s->target->name;
  l->made = ts_arena_alloc(&l->k->arena, sizeof *l->made * (size_t)l->g->nnode * TS_MAX_OUT);
  if (!l->made) return ts_error_memory(l->err);
  ts_access_params(l);
  ts_sched_choice_head(&l->g->choice, l->k);
  int failed = l->columns ? ts_columns_put(l) : in_leaves(l) ? put_leaves(l) : put_rounds(l);
  if (l->k->failed && !l->err->code) return ts_error_memory(l->err);
  return failed || l->k->failed ? -1 : 0;
}

/* Maps read and write an element in one step, so an output may lie over any input that moves as
 * it does. Rows read theirs several times. */
static bool may_overlay(const TsLower *l, const TsAccess *y, const TsAccess *x) {
  if (l->g->kind != TS_GROUP_map || y->v->meta.dtype != x->v->meta.dtype) return false;
  for (int i = 0; i < l->space.naxis; i++)
    if (l->space.axis[i] > 1 && y->moves[i] != x->moves[i]) return false;
  return ts_meta_numel(&y->v->meta) == ts_meta_numel(&x->v->meta);
}

static void find_over(const TsLower *l, TsSchedKernel *out) {
  for (int i = 0, k = 0; i < l->naccess; i++) {
    if (!l->access[i].written) continue;
    for (int j = 0, in = 0; j < l->naccess; j++) {
      if (l->access[j].written) continue;
      if (may_overlay(l, &l->access[i], &l->access[j])) out->over[k] |= 1ull << in;
      in++;
    }
    k++;
  }
}

int ts_sched_lower(const TsSched *s, const TsGroup *group, TsLayoutFn *layout, void *arg,
                   TsSchedKernel *out, TsError *err) {
  if (group->kind == TS_GROUP_attention && group->node[0]->op == TS_OP_attention_grad)
    return ts_sched_lower_attention_grad(s, group, layout, arg, out, err);
  if (group->kind == TS_GROUP_attention)
    return ts_sched_lower_attention(s, group, layout, arg, out, err);
  if (group->kind == TS_GROUP_matmul)
    return ts_sched_lower_product(s, group, layout, arg, out, err);
  if (group->kind == TS_GROUP_conv) return ts_sched_lower_conv(s, group, layout, arg, out, err);
  TsLower l = {.s = s,
               .g = group,
               .layout = layout,
               .arg = arg,
               .err = err,
               .columns = group->kind == TS_GROUP_columns,
               .across = group->kind == TS_GROUP_columns ? 0 : -1,
               .one_size = ts_loss_counts(group)};
  if (lower(&l) || ts_tile_cse(l.k, err) < 0) {
    ts_tile_free(l.k);
    return -1;
  }
  *out = (TsSchedKernel){.tile = l.k, .dim = {ts_access_symbolic(&l, 0) ? l.space.axis[0] : 0}};
  out->function = s->g->name;
  out->ndraw = l.ndraw;
  memcpy(out->draw, l.draw, sizeof out->draw);
  for (int pass = 0, n = 0; pass < 2; pass++)
    for (int i = 0; i < l.naccess; i++)
      if (l.access[i].written == (pass == 1)) out->value[n++] = l.access[i].v;
  memcpy(out->number, l.number, sizeof l.number);
  for (int i = 0; i < TS_TILE_DIMS; i++)
    if (l.number[i]) memcpy(&out->dim[i], &l.number[i]->node->number, sizeof *out->dim);
  find_over(&l, out);
  ts_loss_guards(&l, out);
  return 0;
}
