/* The rules of rows that only processors with many threads have: grids, roles, barriers, copies
 * that others make, fragments. */
#include "ir/tile/check_rule.h"

enum {
  WARP = 32,
  NAMED_BARRIERS = 16,
  FEWEST_REGISTERS = 24,
  MOST_REGISTERS = 240,
  PRODUCTS = 1
};

/* ---- of processors with many threads */
static int within(Check *c, const Stmt *s, const char *name, int64_t lo, int64_t hi,
                  int64_t multiple) {
  const TsAttr *a = ATTR(name);
  if (a->type == TS_ATTR_none || (a->i >= lo && a->i <= hi && a->i % multiple == 0)) return 0;
  return WRONG(TS_ERR_attribute, "option '%s' is a multiple of %lld in %lld..%lld, not %lld",
               name, (long long)multiple, (long long)lo, (long long)hi, (long long)a->i);
}

int ts_tile_rule_of_program(Check *c, const Stmt *s) {
  Type index = ts_tile_scalar(TS_DT_i64);
  int64_t axis = ATTR("axis")->i;
  if (axis < 0 || axis >= c->grid)
    return WRONG(TS_ERR_index, "%d parallel loops are around it, none of axis %lld", c->grid,
                 (long long)axis);
  return ts_tile_rule_gives(c, s, &index);
}

static bool is_of_block(const Type *t) { return t->space == TS_SPACE_shared; }
static bool is_of_device(const Type *t) { return t->space <= TS_SPACE_scratch; }

/* The tile: what shape says, along the last axes of both; else all that is written. */
static int copied(Check *c, const Stmt *s, Type *tile) {
  const TsAttr *shape = ATTR("shape");
  const Type *to = &s->in[0]->type, *from = &s->in[1]->type;
  *tile = ts_tile_type((TsDtype)from->dtype, to->rank, to->dim);
  if (shape->type == TS_ATTR_none) return 0;
  if (shape->n > TS_TILE_RANK)
    return WRONG(TS_ERR_attribute, "option 'shape' has %d axes", shape->n);
  *tile = ts_tile_type((TsDtype)from->dtype, shape->n, shape->ints);
  for (int i = 0; i < shape->n; i++)
    if (shape->ints[i] < 1)
      return WRONG(TS_ERR_attribute, "option 'shape' has an axis of %lld elements",
                   (long long)shape->ints[i]);
  return 0;
}

/* first: where positions begin; in what is written there may be none. edge, behind: the tile
 * may be larger than what is written, than what is read. */
static int copy(Check *c, const Stmt *s, int first, bool edge, bool behind) {
  const Type *to = &s->in[0]->type, *from = &s->in[1]->type;
  Type tile;
  int nto = s->nin - first - from->rank;
  if (ts_tile_rule_gives_nothing(c, s) || ts_tile_rule_written(c, s) || copied(c, s, &tile))
    return -1;
  if (nto || ATTR("shape")->type != TS_ATTR_none)
    if (ts_tile_rule_positions_in(c, s, 0, first, nto)) return -1;
  if (ts_tile_rule_positions_in(c, s, 1, first + nto, s->nin - first - nto)) return -1;
  return ts_tile_rule_extent(c, s, to, &tile, edge, NULL) ||
                 ts_tile_rule_extent(c, s, from, &tile, behind, NULL)
             ? -1
             : 0;
}

static int between(Check *c, const Stmt *s, bool fits) {
  if (fits) return 0;
  return WRONG(TS_ERR_argument, "does not copy to %s from %s",
               ts_tile_shown(c, &s->in[0]->type), ts_tile_shown(c, &s->in[1]->type));
}

int ts_tile_rule_of_copy_async(Check *c, const Stmt *s) {
  const Type *to = &s->in[0]->type, *from = &s->in[1]->type;
  int64_t bytes = ATTR("bytes")->i;
  if (ATTR("bytes")->type != TS_ATTR_none && bytes != 4 && bytes != 8 && bytes != 16)
    return WRONG(TS_ERR_attribute, "copies 4, 8 or 16 bytes at a time, not %lld",
                 (long long)bytes);
  return between(c, s, is_of_block(to) && is_of_device(from)) ||
                 copy(c, s, 2, false, !ATTR("inside")->i)
             ? -1
             : 0;
}

int ts_tile_rule_of_copy_bulk(Check *c, const Stmt *s) {
  const Type *to = &s->in[0]->type, *from = &s->in[1]->type;
  if (ts_tile_rule_positions_in(c, s, 2, 3, 1)) return -1;
  bool fits =
      (is_of_block(to) && is_of_device(from)) || (is_of_device(to) && is_of_block(from));
  return between(c, s, fits) || copy(c, s, 4, true, true) ? -1 : 0;
}

int ts_tile_rule_of_store_bulk(Check *c, const Stmt *s) {
  const Type *to = &s->in[0]->type, *from = &s->in[1]->type;
  bool fits = to->space > TS_SPACE_fragment && is_of_device(to) && is_of_block(from);
  if (ATTR("add")->i && to->dtype != TS_DT_f32)
    return WRONG(TS_ERR_dtype, "adds f32, not %s", ts_tile_shown(c, to));
  return between(c, s, fits) || copy(c, s, 2, true, true) ? -1 : 0;
}

int ts_tile_rule_of_commit(Check *c, const Stmt *s) { return ts_tile_rule_gives_nothing(c, s); }

/* Of products the instruction counts to 7 (PTX, wgmma.wait_group). */
int ts_tile_rule_of_wait(Check *c, const Stmt *s) {
  int most = ATTR("of")->i == PRODUCTS ? 7 : INT32_MAX;
  return within(c, s, "pending", 0, most, 1) || ts_tile_rule_gives_nothing(c, s) ? -1 : 0;
}

int ts_tile_rule_of_expect(Check *c, const Stmt *s) {
  return ts_tile_rule_positions(c, s) || within(c, s, "bytes", 1, (1 << 20) - 1, 1) ||
                 ts_tile_rule_gives_nothing(c, s)
             ? -1
             : 0;
}

int ts_tile_rule_of_arrive(Check *c, const Stmt *s) {
  return ts_tile_rule_positions(c, s) || ts_tile_rule_gives_nothing(c, s) ? -1 : 0;
}

int ts_tile_rule_of_await(Check *c, const Stmt *s) {
  return ts_tile_rule_positions(c, s) || ts_tile_rule_index(c, s, s->nin - 1) ||
                 ts_tile_rule_gives_nothing(c, s)
             ? -1
             : 0;
}

int ts_tile_rule_of_barrier(Check *c, const Stmt *s) {
  return within(c, s, "name", 0, NAMED_BARRIERS - 1, 1) ||
                 within(c, s, "threads", WARP, 1024, WARP) || ts_tile_rule_gives_nothing(c, s)
             ? -1
             : 0;
}

int ts_tile_rule_of_sync(Check *c, const Stmt *s) {
  if (!c->roles) return WRONG(TS_ERR_argument, "stands in no role");
  return ts_tile_rule_gives_nothing(c, s);
}

int ts_tile_rule_of_pace(Check *c, const Stmt *s) {
  Type counters = ts_tile_type(TS_DT_i32, 1, (int64_t[]){3});
  counters.space = TS_SPACE_scratch;
  if (!ts_tile_type_same(&s->in[0]->type, &counters))
    return WRONG(TS_ERR_argument, "counts in %s, not in i32[3] of scratch",
                 ts_tile_shown(c, &s->in[0]->type));
  return ts_tile_rule_positions(c, s) || ts_tile_rule_index(c, s, 2) ||
                 ts_tile_rule_gives_nothing(c, s)
             ? -1
             : 0;
}

int ts_tile_rule_of_fence(Check *c, const Stmt *s) { return ts_tile_rule_gives_nothing(c, s); }

int ts_tile_rule_of_await_launch(Check *c, const Stmt *s) {
  return ts_tile_rule_gives_nothing(c, s);
}

int ts_tile_rule_of_registers(Check *c, const Stmt *s) {
  if (!c->roles) return WRONG(TS_ERR_argument, "stands in no role");
  return within(c, s, "count", FEWEST_REGISTERS, MOST_REGISTERS, 8) ||
                 ts_tile_rule_gives_nothing(c, s)
             ? -1
             : 0;
}

/* To [m,4] from whole blocks of 8 columns, to [m] from [m,4]. */
int ts_tile_rule_of_quarter(Check *c, const Stmt *s) {
  Type t = s->in[0]->type;
  if (t.space != TS_SPACE_fragment || t.rank != 2 || t.dtype != TS_DT_f32 || t.dim[1] % 8)
    return WRONG(TS_ERR_shape, "takes fragments f32[m,8n], not %s", ts_tile_shown(c, &t));
  t.dim[1] = 4;
  return ts_tile_rule_gives(c, s, &t);
}

int ts_tile_rule_of_row(Check *c, const Stmt *s) {
  Type t = s->in[0]->type;
  if (t.space != TS_SPACE_fragment || t.rank != 2 || t.dtype != TS_DT_f32 || t.dim[1] != 4)
    return WRONG(TS_ERR_shape, "takes fragments f32[m,4], not %s", ts_tile_shown(c, &t));
  t.rank = 1;
  return ts_tile_rule_gives(c, s, &t);
}

int ts_tile_rule_of_claim(Check *c, const Stmt *s) {
  Type index = ts_tile_scalar(TS_DT_i64);
  const Type *t = &s->in[0]->type;
  if (t->dtype != TS_DT_i32 || !is_of_device(t))
    return WRONG(TS_ERR_dtype, "counters are i32 of the device, not %s", ts_tile_shown(c, t));
  return ts_tile_rule_positions(c, s) || ts_tile_rule_index(c, s, s->nin - 1) ||
                 ts_tile_rule_written(c, s) || ts_tile_rule_gives(c, s, &index)
             ? -1
             : 0;
}

/* A number of the device that roles of several blocks look at. */
int ts_tile_rule_of_until(Check *c, const Stmt *s) {
  const Type *t = &s->in[0]->type;
  if (t->dtype != TS_DT_i32 || !is_of_device(t))
    return WRONG(TS_ERR_dtype, "signals are i32 of the device, not %s", ts_tile_shown(c, t));
  return ts_tile_rule_positions(c, s) || ts_tile_rule_index(c, s, s->nin - 1) ||
                 ts_tile_rule_gives_nothing(c, s)
             ? -1
             : 0;
}
int ts_tile_rule_of_signal(Check *c, const Stmt *s) {
  return ts_tile_rule_of_until(c, s) || ts_tile_rule_written(c, s) ? -1 : 0;
}

/* Words of all devices are alike, and a slot has one for each of them and a counter. */
int ts_tile_rule_of_meet(Check *c, const Stmt *s) {
  const Type *t = &s->in[0]->type;
  int n = s->nin - 3;
  if (t->dtype != TS_DT_i32 || t->rank != 1 || t->space != TS_SPACE_global ||
      ts_tile_dim_is(t->dim[0]) || t->dim[0] < n + 2 || (t->dim[0] - 1) % (n + 1))
    return WRONG(TS_ERR_shape, "words of %d devices are i32[1 + slots * %d], not %s", n, n + 1,
                 ts_tile_shown(c, t));
  for (int i = 0; i < n; i++) {
    if (ts_tile_rule_operand(c, s, i, t)) return -1;
    if (s->in[i]->stmt || s->in[i]->region || s->in[i]->index < c->k->nin)
      return WRONG(TS_ERR_argument, "operand %d is no parameter that is written", i);
  }
  return ts_tile_rule_index(c, s, n) || ts_tile_rule_index(c, s, n + 1) ||
                 ts_tile_rule_index(c, s, n + 2) || ts_tile_rule_block_only(c, s) ||
                 within(c, s, "patience", 1, 3600000, 1) || ts_tile_rule_gives_nothing(c, s)
             ? -1
             : 0;
}

int ts_tile_rule_of_turn(Check *c, const Stmt *s) {
  if (!c->roles && c->k->form != TS_FORM_block)
    return WRONG(TS_ERR_argument, "stands in no role");
  return ts_tile_rule_gives_nothing(c, s);
}

/* One operand for each group of four warps. */
int ts_tile_rule_of_own(Check *c, const Stmt *s) {
  Type index = ts_tile_scalar(TS_DT_i64);
  if (!c->roles) return WRONG(TS_ERR_argument, "stands in no role");
  for (int i = 0; i < s->nin; i++)
    if (ts_tile_rule_index(c, s, i)) return -1;
  return ts_tile_rule_gives(c, s, &index);
}

int ts_tile_rule_of_mark(Check *c, const Stmt *s) { return ts_tile_rule_gives_nothing(c, s); }

/* ---- rows by their numbers, and codes as operands of a product */
/* Operands 1 and 2 are the rows of tile t and the column it begins at. */
static int rows_of(Check *c, const Stmt *s, const Type *t) {
  const Type *memory = &s->in[0]->type;
  if (memory->rank != 2 || t->rank != 2 || memory->dtype != t->dtype)
    return WRONG(TS_ERR_shape, "rows of %s as %s", ts_tile_shown(c, memory),
                 ts_tile_shown(c, t));
  Type rows = ts_tile_type(TS_DT_i64, 1, t->dim);
  rows.space = t->space;
  return ts_tile_rule_operand(c, s, 1, &rows) || ts_tile_rule_index(c, s, 2) ? -1 : 0;
}

int ts_tile_rule_of_load_rows(Check *c, const Stmt *s) {
  return ts_tile_rule_gives_tile(c, s) || rows_of(c, s, &s->out[0]->type) ? -1 : 0;
}

int ts_tile_rule_of_store_rows(Check *c, const Stmt *s) {
  return ts_tile_rule_gives_nothing(c, s) || ts_tile_rule_written(c, s) ||
                 rows_of(c, s, &s->in[3]->type)
             ? -1
             : 0;
}

int ts_tile_rule_of_blank(Check *c, const Stmt *s) {
  const Type *t = &s->in[0]->type;
  if (ts_tile_rule_gives_nothing(c, s) || ts_tile_rule_written(c, s)) return -1;
  if (!c->roles) return WRONG(TS_ERR_argument, "stands in no role");
  if (!is_of_block(t) || t->rank != 3 || t->split)
    return WRONG(TS_ERR_shape, "no slots of rows: %s", ts_tile_shown(c, t));
  for (int i = 1; i < 4; i++)
    if (ts_tile_rule_index(c, s, i)) return -1;
  return 0;
}

int ts_tile_rule_of_unpack(Check *c, const Stmt *s) {
  if (ts_tile_rule_gives_tile(c, s)) return -1;
  const Type *codes = &s->in[0]->type, *scales = &s->in[1]->type, *t = &s->out[0]->type;
  int64_t block = ts_dtypes[TS_DT_mxfp4].block;
  bool fits = codes->rank == 3 && scales->rank == 2 && t->rank == 2 &&
              codes->dtype == TS_DT_u8 && scales->dtype == TS_DT_u8 && is_of_block(codes) &&
              is_of_block(scales) && t->dtype == TS_DT_bf16;
  fits = fits && codes->dim[1] == t->dim[1] && scales->dim[1] % t->dim[1] == 0 &&
         t->dim[0] % block == 0 && 2 * codes->dim[2] % t->dim[0] == 0;
  if (!fits)
    return WRONG(TS_ERR_shape, "no %s of codes %s and scales %s", ts_tile_shown(c, t),
                 ts_tile_shown(c, codes), ts_tile_shown(c, scales));
  for (int i = 2; i < 6; i++)
    if (ts_tile_rule_index(c, s, i)) return -1;
  return 0;
}
