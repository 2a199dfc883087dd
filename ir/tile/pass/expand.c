/* Pointwise rows become primitive ones.
 *
 * Needs compute types: f32, f64, integers, bool. Keeps the form, regions, names, places and
 * every bit of the results; gives a kernel in which ts_tile_primitive holds for every row. The
 * definitions of floats are lib/elem's, the same text as the VM's kernels, so there is nothing
 * to agree on. */
#include <stdlib.h>
#include <string.h>

#include "ir/tile/pass/expand.h"
#include "ir/tile/pass/random.h"

bool ts_tile_primitive(int op, TsDtype d) {
  if (op == TS_TILE_decay) return false;
  if (op >= TS_OP_COUNT) return true;
  bool whole = d < TS_DT_COUNT && ts_dtype_is(d, TS_KIND_U | TS_KIND_I);
  bool real = d == TS_DT_f32 || d == TS_DT_f64, truth = d == TS_DT_bool;
  switch (op) {
  case TS_OP_add:
  case TS_OP_sub:
  case TS_OP_mul:
  case TS_OP_neg: return real || whole;
  case TS_OP_div:
  case TS_OP_sqrt:
  case TS_OP_fma:
  case TS_OP_abs:
  case TS_OP_floor:
  case TS_OP_ceil:
  case TS_OP_trunc:
  case TS_OP_round: return real;
  case TS_OP_eq:
  case TS_OP_ne:
  case TS_OP_lt:
  case TS_OP_le:
  case TS_OP_gt:
  case TS_OP_ge:
  case TS_OP_where: return real || whole || truth;
  case TS_OP_logical_not:
  case TS_OP_logical_and:
  case TS_OP_logical_or:
  case TS_OP_logical_xor: return truth;
  case TS_OP_bitwise_not:
  case TS_OP_bitwise_and:
  case TS_OP_bitwise_or:
  case TS_OP_bitwise_xor: return whole || truth;
  case TS_OP_minimum:
  case TS_OP_maximum:
  case TS_OP_floordiv:
  case TS_OP_mod: return whole;
  default: return false;
  }
}

/* ---- constants, once for each region and those around it */
static bool visible(const TsTileRegion *from, const TsTileRegion *r) {
  while (from && from != r) from = from->outer;
  return from != NULL;
}

static TsTileRegion *region_of(TsTileVal v) { return v->stmt->in_region; }

static bool same_shape(const TsTileType *a, const TsTileType *b) {
  TsTileType t = *a;
  t.dtype = b->dtype;
  return ts_tile_type_same(&t, b);
}

static size_t start_of(const TsTileExpand *x, uint64_t bits) {
  return (size_t)((bits * 0x9e3779b97f4a7c15u) >> 40) & (size_t)(x->room - 1);
}

static void insert(TsTileExpand *x, TsTileConstant c) {
  size_t i = start_of(x, c.bits);
  while (x->constant[i].v) i = (i + 1) & (size_t)(x->room - 1);
  x->constant[i] = c;
  x->nconstant++;
}

static bool grow(TsTileExpand *x) {
  if (2 * x->nconstant < x->room) return true;
  TsTileConstant *old = x->constant;
  int n = x->room;
  x->room = n ? 2 * n : 64;
  x->constant = calloc((size_t)x->room, sizeof *old);
  if (!x->constant) return x->constant = old, x->room = n, false;
  x->nconstant = 0;
  for (int i = 0; i < n; i++)
    if (old[i].v) insert(x, old[i]);
  free(old);
  return true;
}

TsTileVal ts_tile_expand_constant(TsTileExpand *x, int op, uint64_t bits, TsDtype d) {
  TsTileBuild *b = &x->c->b;
  TsTileType t = x->type;
  t.dtype = (uint8_t)d;
  if (!grow(x)) return b->k->failed = true, ts_tile_lost(&t);
  for (size_t i = start_of(x, bits); x->constant[i].v; i = (i + 1) & (size_t)(x->room - 1)) {
    TsTileConstant *c = &x->constant[i];
    if (c->bits != bits || c->op != op || !ts_tile_type_same(&c->v->type, &t)) continue;
    if (visible(b->at, region_of(c->v))) return c->v;
  }
  double value;
  memcpy(&value, &bits, sizeof value);
  TsTileVal v = op == TS_TILE_const ? ts_tile_const(b, value, &t) : ts_tile_bits(b, bits, &t);
  if (!b->k->failed) insert(x, (TsTileConstant){v, bits, (uint16_t)op});
  return v;
}

/* ---- branches */
static void move(TsTileStmt *first, TsTileStmt *last, TsTileRegion *from, TsTileRegion *to) {
  *(first->prev ? &first->prev->next : &from->first) = last->next;
  *(last->next ? &last->next->prev : &from->last) = first->prev;
  first->prev = last->next = NULL;
  to->first = first, to->last = last;
  for (TsTileStmt *s = first; s; s = s->next) s->in_region = to;
}

void ts_tile_expand_branch(TsTileExpand *x, TsTileVal any, TsTileStmt *mark, int n,
                           TsTileVal *const *var, TsTileVal const *before,
                           TsTileVal const *after) {
  TsTileBuild *b = &x->c->b, side = *b;
  TsTileType type[4];
  for (int i = 0; i < n; i++) {
    if (!before[i] || !after[i]) return;
    type[i] = after[i]->type;
  }
  TsTileStmt *last = b->at->last, *s = ts_tile_emit(b, TS_TILE_if, 1, &any, NULL, n, type);
  if (!s || last == mark) return;
  move(mark ? mark->next : b->at->first, last, b->at, s->region[0]);
  for (int k = 0; k < 2; k++) {
    side.at = s->region[k];
    ts_tile_emit(&side, TS_TILE_yield, n, k ? before : after, NULL, 0, NULL);
  }
  for (int i = 0; i < n; i++) *var[i] = s->out[i];
}

/* ---- the pass */
static int refuse(const TsTileCopy *c, const TsTileStmt *s, TsDtype d) {
  ts_error_set(c->err, TS_ERR_dtype, "%s of %s has no expansion in Tile IR",
               ts_tile_op_name(s->op), ts_dtype_name(d));
  return ts_error_where(c->err, c->from->name, c->from->place[s->line]);
}

static int random_bits(TsTileCopy *c, const TsTileStmt *s) {
  TsTileVal in[3];
  for (int i = 0; i < 3; i++) in[i] = ts_tile_copy_get(c, s->in[i]);
  TsTileVal y =
      ts_tile_random_expand(&c->b, in, &s->out[0]->type, ts_tile_attr(s, "aligned")->i);
  ts_tile_copy_set(c, s->out[0], y);
  return 1;
}

static int each(TsTileCopy *c, const TsTileStmt *s, void *arg) {
  TsTileExpand *x = arg;
  if (s->op == TS_TILE_random) return random_bits(c, s);
  if (s->op >= TS_OP_COUNT && s->op != TS_TILE_decay) return 0;
  TsTileVal in[4];
  int last = s->op == TS_OP_where ? 1 : 0;
  TsDtype d = (TsDtype)s->in[last]->type.dtype;
  if (ts_tile_primitive(s->op, d)) return 0;
  TS_ASSERT(s->nin <= 4);
  for (int i = 0; i < s->nin; i++) {
    in[i] = ts_tile_copy_get(c, s->in[i]);
    if (!same_shape(&in[i]->type, &in[0]->type)) return refuse(c, s, d);
  }
  x->c = c;
  x->type = in[0]->type;
  TsTileVal y = d == TS_DT_f32   ? ts_tile_expand_f32(x, s->op, in)
                : d == TS_DT_f64 ? ts_tile_expand_f64(x, s->op, in)
                : ts_dtype_is(d, TS_KIND_B | TS_KIND_U | TS_KIND_I)
                    ? ts_tile_expand_int(x, s->op, in)
                    : NULL;
  if (!y && !c->to->failed) return refuse(c, s, d);
  ts_tile_copy_set(c, s->out[0], y);
  return 1;
}

TsTile *ts_tile_expand(const TsTile *k, TsError *err) {
  bool gpu = k->target && ts_target_gpu(ts_target(k->target));
  TsTileExpand x = {.branches = k->form == TS_FORM_explicit,
                    .rare = k->form == TS_FORM_block && gpu};
  TsTile *y = ts_tile_copy(k, each, &x, err);
  free(x.constant);
  if (!y || (ts_tile_cse(y, err) >= 0 && ts_tile_dce(y, err) >= 0)) return y;
  ts_tile_free(y);
  return NULL;
}
