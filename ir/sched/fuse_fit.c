/* Whether a node can join a group, and if not why: sizes, axes, order of elements, limits. See
 * ir/sched/fuse_state.h. */
#include <string.h>

#include "ir/sched/conv.h"
#include "ir/sched/epilogue.h"
#include "ir/sched/fuse_state.h"
#include "ir/sched/norm_grad.h"
#include "ir/sched/product/product.h"
#include "ir/sched/prologue.h"
#include "ir/sched/random.h"
#include "ir/sched/rows.h"

enum {
  MOST_TWICE = 4096, /* rows of a column that is walked again with what it was reduced to */
};

/* Nothing joins groups of this kind. */
bool ts_fuse_alone(int kind) { return kind == TS_GROUP_vm || kind == TS_GROUP_attention; }

/* Groups with a head whose axes are those of the kernel. */
bool ts_fuse_has_head(int kind) { return kind == TS_GROUP_matmul || kind == TS_GROUP_conv; }

TsSpaceAxes ts_fuse_space(const TsGroup *g) {
  TsSpaceAxes a = {.naxis = g->naxis, .nrow = g->nrow, .columns = g->kind == TS_GROUP_columns};
  memcpy(a.axis, g->axis, sizeof a.axis);
  return a;
}

/* A product's axes are what its kernel is made of. */
bool ts_fuse_same_space(const TsGroup *g, const TsSpaceAxes *a) {
  return g->naxis == a->naxis && g->nrow == a->nrow &&
         !memcmp(g->axis, a->axis, sizeof *a->axis * (size_t)a->naxis);
}

static bool numel_is_one(const TsSpaceAxes *a) {
  for (int i = 0; i < a->naxis; i++)
    if (a->axis[i] != 1) return false;
  return true;
}

static bool row_value(const TsGroup *g, TsVal v) {
  return ts_sched_extent(g, &v->meta) == TS_EXTENT_row;
}

/* The operand v of a node, in the group's space: what the group itself made must be
 * aligned with what it made. */
static TsWhyName operand_fault(const Fuse *f, const TsGroup *g, const TsSpaceAxes *a,
                               const TsNode *n, TsVal v) {
  int64_t moves[TS_TILE_RANK], own[TS_TILE_RANK];
  TsVal root = ts_sched_root(v);
  if (!ts_space_strides(a, ts_sched_operand_at(n, v), &v->meta, NULL, moves))
    return TS_WHY_sizes;
  bool inside = ts_fuse_group_of(f, v) == g->index;
  if (ts_sched_indexes(n, v)) return inside ? TS_WHY_indices : TS_WHY_none;
  if (!inside) return TS_WHY_none;
  if (f->s->of[root->node->id] != g->index) return TS_WHY_order;
  if (ts_meta_numel(&v->meta) == 1 && numel_is_one(a)) return TS_WHY_none;
  ts_space_own(a, !row_value(g, root), own);
  for (int i = 0; i < a->naxis; i++)
    if (a->axis[i] > 1 && moves[i] != own[i]) return TS_WHY_order;
  return TS_WHY_none;
}

/* False, and *w says so, if the operand does not fit. */
bool ts_fuse_operand_fits(const Fuse *f, const TsGroup *g, const TsSpaceAxes *a,
                          const TsNode *n, TsVal v, TsWhy *w) {
  TsWhyName fault = operand_fault(f, g, a, n, v);
  if (fault) *w = ts_why_space(fault, a), w->other = ts_fuse_origin(v);
  return !fault;
}

/* Whether n works on the space, as out; else g's own is said. */
static bool refined(const TsSpaceAxes *a, const TsMeta *m, int64_t row, TsSpaceAxes *out,
                    TsWhy *w) {
  if (ts_space_refine(a, m, row, out)) return true;
  *w = ts_why_space(TS_WHY_extents, a);
  return false;
}

/* Arithmetic on row values: their axes must agree. */
static bool row_axes_agree(const TsSpaceAxes *a, const TsMeta *m) {
  int n = a->columns ? a->nrow : a->naxis - a->nrow;
  TsSpaceAxes part = {.naxis = n}, fine;
  memcpy(part.axis, a->axis + (a->columns ? a->naxis - n : 0), sizeof *part.axis * (size_t)n);
  return ts_space_refine(&part, m, 0, &fine) && fine.naxis == n;
}

/* Tiles of random bits have one axis. */
bool ts_fuse_draws(const TsGroup *g) {
  for (int i = 0; i < g->nnode; i++)
    if (ts_sched_draws(g->node[i])) return true;
  return false;
}

/* How many columns n sums down, 0: it does not. */
int64_t ts_fuse_columns_of(const TsNode *n) {
  int64_t norm = ts_sched_norm_grad(n);
  return norm || !ts_sched_column(n) ? norm : ts_meta_numel(&n->out[0].meta);
}

/* The space of g once n is in it. */
bool ts_fuse_joined_space(const TsGroup *g, const TsNode *n, TsSpaceAxes *out, TsWhy *w) {
  TsSpaceAxes a = ts_fuse_space(g);
  int64_t row = 1;
  bool rows = ts_sched_row(n) != NULL;
  for (int i = a.naxis - a.nrow; i < a.naxis; i++) row *= a.axis[i];
  int64_t width = rows ? 0 : ts_fuse_columns_of(n);
  if (width) {
    if (a.nrow && !a.columns) return ts_why_not(w, TS_WHY_row_or_column, 0, 0);
    if (a.nrow && row != width) return ts_why_not(w, TS_WHY_row_lengths, width, row);
    if (ts_fuse_draws(g)) return ts_why_not(w, TS_WHY_draws, 0, 0);
    a.columns = true;
    return refined(&a, &n->in[0]->meta, width, out, w);
  }
  if (a.columns && rows) return ts_why_not(w, TS_WHY_row_or_column, 0, 0);
  if (a.columns && ts_sched_draws(n)) return ts_why_not(w, TS_WHY_draws, 0, 0);
  if (rows) {
    int64_t length = ts_sched_row_length(n);
    if (a.nrow && row != length) return ts_why_not(w, TS_WHY_row_lengths, length, row);
    if (length < 2) return ts_why_not(w, TS_WHY_short_row, length, 0);
    return refined(&a, &n->in[0]->meta, length, out, w);
  }
  if (ts_sched_extent(g, &n->out[0].meta) == TS_EXTENT_row) {
    *out = a;
    if (row_axes_agree(&a, &n->out[0].meta)) return true;
    *w = ts_why_space(TS_WHY_axes_of_rows, &a);
    return false;
  }
  return refined(&a, &n->out[0].meta, a.nrow ? row : 0, out, w);
}

bool ts_fuse_reduces(const TsNode *n) { return ts_sched_row(n) || ts_fuse_columns_of(n); }

const TsNode *ts_fuse_reducing(const TsGroup *g) {
  for (int i = 0; i < g->nnode; i++)
    if (ts_fuse_reduces(g->node[i])) return g->node[i];
  return NULL;
}

static bool has_norms(const TsGroup *g) {
  for (int i = 0; i < g->nnode; i++)
    if (ts_sched_norm_grad(g->node[i])) return true;
  return false;
}

/* Goes over the elements of columns again, with values of columns. */
static bool walks_again(const Fuse *f, const TsGroup *g, const TsNode *n) {
  if (g->kind != TS_GROUP_columns || ts_sched_extent(g, ts_sched_at(n)) != TS_EXTENT_full)
    return false;
  for (int i = 0; i < n->nin; i++)
    if (n->in[i] && ts_fuse_group_of(f, n->in[i]) == g->index && row_value(g, n->in[i]))
      return true;
  return false;
}

static int64_t column_length(const TsSpaceAxes *a) {
  int64_t n = 1;
  for (int i = 0; i < a->naxis - a->nrow; i++) n *= a->axis[i];
  return n;
}

bool ts_fuse_walks_far(const Fuse *f, const TsGroup *g, TsWhy *w) {
  TsSpaceAxes a = ts_fuse_space(g);
  for (int k = 0; k < g->nnode; k++)
    if (walks_again(f, g, g->node[k]) && column_length(&a) > MOST_TWICE) {
      *w = ts_why(TS_WHY_again, column_length(&a), MOST_TWICE);
      return true;
    }
  return false;
}

bool ts_fuse_bare(const Fuse *f, const TsGroup *g) {
  return g->kind == TS_GROUP_matmul && ts_target_gpu(f->s->target);
}

/* Of a product's kernel on a CPU: columns of its tiles; 0: they are not known here. */
static int64_t tile_columns(const Fuse *f, const TsGroup *g) {
  TsProductSize size;
  TsDtype d;
  int64_t block[2];
  if (g->kind != TS_GROUP_matmul || ts_target_gpu(f->s->target)) return 0;
  if (!ts_sched_product_size(f->s, g, &size, &d)) return 0;
  ts_tile_product_block(f->s->target, d, &size, block);
  return block[1];
}

/* n reduces what a group with a head makes. */
bool ts_fuse_reduces_tiles(const Fuse *f, const TsGroup *g, const TsNode *n, TsWhy *w) {
  int64_t held = tile_columns(f, g), columns = ts_fuse_columns_of(n),
          row = ts_sched_row(n) ? ts_sched_row_length(n) : 0;
  if (row && held && held < row)
    *w = ts_why(TS_WHY_row_of_tiles, row, held);
  else if (row)
    *w = ts_why(TS_WHY_reduces_tiles, row, 0);
  else
    *w =
        ts_why(TS_WHY_reduces_tiles, columns ? ts_meta_numel(&n->in[0]->meta) / columns : 0, 0);
  w->other = g->kind == TS_GROUP_conv ? ts_sched_conv_of(g) : ts_sched_product_of(g);
  return false;
}

static bool has_room(const Fuse *f, const TsGroup *g, const TsNode *n, TsWhy *w) {
  if (ts_fuse_alone(g->kind)) return ts_why_not(w, TS_WHY_gives_memory, 0, 0);
  if (g->nnode >= TS_FUSE_MOST) return ts_why_not(w, TS_WHY_nodes, TS_FUSE_MOST, 0);
  if (ts_fuse_has_head(g->kind) && ts_fuse_reduces(n)) return ts_fuse_reduces_tiles(f, g, n, w);
  if (ts_fuse_bare(f, g) && !ts_sched_epilogue_takes(g, n, w)) return false;
  if (ts_fuse_has_head(g->kind) && g->nnode >= TS_FUSE_AFTER_PRODUCT)
    return ts_why_not(w, TS_WHY_behind_most, TS_FUSE_AFTER_PRODUCT, 0);
  return true;
}

/* Whether n can join g, which is the last that it reads; else *w says why not. */
bool ts_fuse_fits(const Fuse *f, const TsGroup *g, const TsNode *n, TsSpaceAxes *space,
                  TsWhy *w) {
  if (!has_room(f, g, n, w) || !ts_fuse_joined_space(g, n, space, w)) return false;
  if (ts_fuse_has_head(g->kind) && !ts_fuse_same_space(g, space)) {
    TsSpaceAxes own = ts_fuse_space(g);
    *w = ts_why_space(TS_WHY_other_axes, &own);
    return false;
  }
  if (ts_sched_draws(n) && (space->columns || ts_fuse_has_head(g->kind)))
    return ts_why_not(w, TS_WHY_draws, 0, 0);
  if (walks_again(f, g, n) && has_norms(g)) return ts_why_not(w, TS_WHY_again_norm, 0, 0);
  if (walks_again(f, g, n) && column_length(space) > MOST_TWICE)
    return ts_why_not(w, TS_WHY_again, column_length(space), MOST_TWICE);
  for (int i = 0; i < n->nin; i++) {
    TsVal v = n->in[i];
    if (!v || v->meta.weak) continue;
    if (ts_fuse_group_of(f, v) > g->index) return false;
    if (!ts_fuse_operand_fits(f, g, space, n, v, w)) return false;
  }
  return true;
}
