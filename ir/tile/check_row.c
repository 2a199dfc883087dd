/* The rules of the rows of Tile IR: one function for each row of ir/tile/tile.def, found by its
 * name, and one for all pointwise rows; those of constants and shapes are in
 * ir/tile/check_value.c, those of GPUs in ir/tile/check_gpu.c. Each says
 * what the operands and attributes must be and which type the result then has. Control (loops,
 * ends of regions) stands here as far as one statement shows it; the rest is in
 * ir/tile/check.c. */
#include "ir/tile/check_rule.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir/text/value.h"
#include "ir/tile/pairs.h"
#include "ir/tile/square.h"

static const int INTEGER = TS_KIND_I | TS_KIND_U, NUMBER = TS_KIND_I | TS_KIND_U | TS_KIND_F;

/* ---- memory */
static int check_fill(Check *c, const Stmt *s) {
  double fill = ATTR("fill")->f;
  if (ts_dtype_check_number((TsDtype)s->in[0]->type.dtype, fill, ts_tile_op_name(s->op),
                            c->err))
    return -1;
  if (ATTR("edge")->i || ts_number_same(fill, 0)) return 0;
  return WRONG(TS_ERR_attribute, "fill is for elements behind an edge, without edge there are "
                                 "none");
}

int ts_tile_rule_of_load(Check *c, const Stmt *s) {
  if (ts_tile_rule_positions(c, s) || ts_tile_rule_gives_tile(c, s) || check_fill(c, s))
    return -1;
  return ts_tile_rule_extent(c, s, &s->in[0]->type, &s->out[0]->type, ATTR("edge")->i,
                             ATTR("axes"));
}

int ts_tile_rule_of_aligned(Check *c, const Stmt *s) {
  Type yes = ts_tile_scalar(TS_DT_bool);
  return ts_tile_rule_gives(c, s, &yes);
}

int ts_tile_rule_of_store(Check *c, const Stmt *s) {
  if (ts_tile_rule_positions(c, s) || ts_tile_rule_gives_nothing(c, s) ||
      ts_tile_rule_written(c, s))
    return -1;
  return ts_tile_rule_extent(c, s, &s->in[0]->type, &s->in[s->nin - 1]->type, ATTR("edge")->i,
                             ATTR("axes"));
}

int ts_tile_rule_of_store_below(Check *c, const Stmt *s) {
  int rank = s->in[0]->type.rank;
  if (s->nin != rank + 3 || rank < 1)
    return WRONG(TS_ERR_argument, "%d positions and an end in %s", s->nin - 3,
                 ts_tile_shown(c, &s->in[0]->type));
  if (ts_tile_rule_positions_in(c, s, 0, 1, rank) || ts_tile_rule_index(c, s, 1 + rank) ||
      ts_tile_rule_gives_nothing(c, s) || ts_tile_rule_written(c, s))
    return -1;
  return ts_tile_rule_extent(c, s, &s->in[0]->type, &s->in[s->nin - 1]->type, ATTR("edge")->i,
                             ATTR("axes"));
}

static int check_list(Check *c, const Stmt *s) {
  if (s->in[0]->type.rank != 1)
    return WRONG(TS_ERR_shape, "memory has one axis, not %s",
                 ts_tile_shown(c, &s->in[0]->type));
  if (s->in[1]->type.dtype != TS_DT_i64)
    return WRONG(TS_ERR_dtype, "positions are i64, not %s", ts_tile_shown(c, &s->in[1]->type));
  return 0;
}

int ts_tile_rule_of_gather(Check *c, const Stmt *s) {
  if (check_list(c, s) || ts_tile_rule_axis(c, s, 1, &s->in[0]->type) || check_fill(c, s))
    return -1;
  Type t = ts_tile_rule_with_dtype(s->in[1]->type, (TsDtype)s->in[0]->type.dtype);
  return ts_tile_rule_gives(c, s, &t);
}

int ts_tile_rule_of_scatter(Check *c, const Stmt *s) {
  if (check_list(c, s) || ts_tile_rule_written(c, s) || ts_tile_rule_gives_nothing(c, s))
    return -1;
  Type t = ts_tile_rule_with_dtype(s->in[1]->type, (TsDtype)s->in[0]->type.dtype);
  return ts_tile_rule_operand(c, s, 2, &t);
}

int ts_tile_rule_of_prefetch(Check *c, const Stmt *s) {
  if (ts_tile_rule_positions(c, s) || ts_tile_rule_gives_nothing(c, s)) return -1;
  int64_t pace = ts_tile_attr(s, "pace")->i;
  if (pace >= 0 && pace < 256) return 0;
  return WRONG(TS_ERR_argument, "pace is 0 to 255, not %lld", (long long)pace);
}

int ts_tile_rule_of_alloc(Check *c, const Stmt *s) {
  if (ts_tile_rule_results(c, s, 1)) return -1;
  const Type *t = &s->out[0]->type;
  if (t->space < TS_SPACE_scratch)
    return WRONG(TS_ERR_argument, "memory is @scratch @local @shared or @barrier, not %s",
                 ts_tile_shown(c, t));
  if (t->space != TS_SPACE_scratch && ts_tile_nbytes(t) < 0)
    return WRONG(TS_ERR_shape, "%s has no static size", ts_tile_shown(c, t));
  if (t->space != TS_SPACE_scratch || s->in_region == c->k->body) return 0;
  return WRONG(TS_ERR_argument, "scratch stands at the top of a kernel");
}

int ts_tile_rule_of_view(Check *c, const Stmt *s) {
  if (ts_tile_rule_results(c, s, 1)) return -1;
  const Type *from = &s->in[0]->type, *t = &s->out[0]->type;
  if (from->space < TS_SPACE_scratch || from->space > TS_SPACE_shared)
    return WRONG(TS_ERR_argument, "of memory @scratch, @local or @shared, not %s",
                 ts_tile_shown(c, from));
  if (t->space != from->space || t->dtype != from->dtype || from->strided)
    return WRONG(TS_ERR_argument, "%s is no view of %s", ts_tile_shown(c, t),
                 ts_tile_shown(c, from));
  int64_t last = 0;
  for (int i = 0; t->strided && i < t->rank; i++) last += (t->dim[i] - 1) * t->stride[i];
  if (!t->strided) last = ts_tile_numel(t) - 1;
  if (ts_tile_rule_is_static(t) && ts_tile_rule_is_static(from) && last >= ts_tile_numel(from))
    return WRONG(TS_ERR_shape, "%s is larger than %s", ts_tile_shown(c, t),
                 ts_tile_shown(c, from));
  return 0;
}

/* ---- control */
static int check_ends(Check *c, const Stmt *s, int region) {
  const TsTileRegion *r = s->region[region];
  if (!s->nout || (r->last && r->last->op == TS_TILE_yield)) return 0;
  return WRONG(TS_ERR_argument, "region %d ends without a yield of %d values", region, s->nout);
}

static int region_params(Check *c, const Stmt *s, int region, int n) {
  const TsTileRegion *r = s->region[region];
  bool all = r->nparam == n;
  for (int i = 0; all && i < n; i++) all = r->param[i] != NULL;
  if (all) return 0;
  return WRONG(TS_ERR_argument, "region %d has %d parameters, not %d", region, r->nparam, n);
}

static int check_parallel(Check *c, const Stmt *s) {
  if (!ATTR("parallel")->i) return 0;
  const Stmt *around = s->in_region->owner;
  if (around && !(around->op == TS_TILE_for && ts_tile_attr(around, "parallel")->i))
    return WRONG(TS_ERR_argument, "parallel loops stand at the top of a kernel, or directly in "
                                  "one another");
  return s->nout ? WRONG(TS_ERR_argument, "a parallel loop carries nothing") : 0;
}

int ts_tile_rule_of_for(Check *c, const Stmt *s) {
  const Type index = ts_tile_scalar(TS_DT_i64);
  if (ts_tile_rule_index(c, s, 0) || ts_tile_rule_index(c, s, 1) ||
      ts_tile_rule_results(c, s, s->nin - 2) || region_params(c, s, 0, s->nin - 1) ||
      check_ends(c, s, 0) || check_parallel(c, s))
    return -1;
  if (ATTR("step")->i < 1 || ATTR("unroll")->i < 1)
    return WRONG(TS_ERR_attribute, "step and unroll are at least 1");
  const TsTileVal *param = s->region[0]->param;
  if (ts_tile_rule_type(c, s, "the index, parameter", 0, &param[0]->type, &index)) return -1;
  for (int i = 2; i < s->nin; i++)
    if (ts_tile_rule_type(c, s, "parameter", i - 1, &param[i - 1]->type, &s->in[i]->type) ||
        ts_tile_rule_type(c, s, "result", i - 2, &s->out[i - 2]->type, &s->in[i]->type))
      return -1;
  return 0;
}

int ts_tile_rule_of_if(Check *c, const Stmt *s) {
  Type condition = ts_tile_scalar(TS_DT_bool);
  if (ts_tile_rule_operand(c, s, 0, &condition)) return -1;
  for (int i = 0; i < 2; i++)
    if (region_params(c, s, i, 0) || check_ends(c, s, i)) return -1;
  return 0;
}

/* The region's parameters and results are what is carried. */
int ts_tile_rule_of_repeat(Check *c, const Stmt *s) {
  const TsTileRegion *r = s->region[0];
  if (ts_tile_rule_results(c, s, s->nin) || region_params(c, s, 0, s->nin)) return -1;
  if (!r->last || r->last->op != TS_TILE_yield)
    return WRONG(TS_ERR_argument, "its region ends without a yield");
  for (int i = 0; i < s->nin; i++)
    if (ts_tile_rule_type(c, s, "parameter", i, &r->param[i]->type, &s->in[i]->type) ||
        ts_tile_rule_type(c, s, "result", i, &s->out[i]->type, &s->in[i]->type))
      return -1;
  return 0;
}

int ts_tile_rule_of_role(Check *c, const Stmt *s) {
  if (region_params(c, s, 0, 0) || ts_tile_rule_gives_nothing(c, s)) return -1;
  if (!ATTR("name")->str || !*ATTR("name")->str)
    return WRONG(TS_ERR_attribute, "a role has a name");
  if (ATTR("warps")->i < 1) return WRONG(TS_ERR_attribute, "a role has at least 1 warp");
  return c->roles ? WRONG(TS_ERR_argument, "stands inside another role") : 0;
}

int ts_tile_rule_of_yield(Check *c, const Stmt *s) {
  const Stmt *of = s->in_region->owner;
  if (s->next) return WRONG(TS_ERR_argument, "does not end its region");
  if (!of || of->op == TS_TILE_role)
    return WRONG(TS_ERR_argument, "stands in no region of a for or if");
  if (ts_tile_rule_gives_nothing(c, s)) return -1;
  Type again = ts_tile_scalar(TS_DT_bool);
  int first = of->op == TS_TILE_repeat;
  if (s->nin != of->nout + first)
    return WRONG(TS_ERR_argument, "%d values for %d results of %s", s->nin - first, of->nout,
                 ts_tile_op_name(of->op));
  for (int i = 0; i < s->nin; i++)
    if (ts_tile_rule_operand(c, s, i, i < first ? &again : &of->out[i - first]->type))
      return -1;
  return 0;
}

/* ---- integers */
static int integers(Check *c, const Stmt *s, bool compares) {
  if (ts_tile_rule_kind(c, s, 0, INTEGER, "integers") ||
      ts_tile_rule_operand(c, s, 1, &s->in[0]->type))
    return -1;
  Type t = s->in[0]->type;
  if (compares) t.dtype = TS_DT_bool;
  return ts_tile_rule_gives(c, s, &t);
}

int ts_tile_rule_of_shl(Check *c, const Stmt *s) { return integers(c, s, false); }
int ts_tile_rule_of_shr(Check *c, const Stmt *s) { return integers(c, s, false); }
int ts_tile_rule_of_sar(Check *c, const Stmt *s) { return integers(c, s, false); }
int ts_tile_rule_of_mulhi(Check *c, const Stmt *s) { return integers(c, s, false); }
int ts_tile_rule_of_ult(Check *c, const Stmt *s) { return integers(c, s, true); }

int ts_tile_rule_of_random(Check *c, const Stmt *s) {
  Type index = ts_tile_scalar(TS_DT_i64);
  for (int i = 0; i < 3; i++)
    if (ts_tile_rule_operand(c, s, i, &index)) return -1;
  if (ts_tile_rule_gives_tile(c, s)) return -1;
  const Type *t = &s->out[0]->type;
  if (t->dtype == TS_DT_i32 && t->rank < 2 && !(t->rank && ts_tile_dim_is(t->dim[0]))) return 0;
  return WRONG(TS_ERR_shape, "gives i32 of at most one axis, not %s", ts_tile_shown(c, t));
}

/* ---- floats */
int ts_tile_rule_of_look(Check *c, const Stmt *s) {
  const TsAttr *table = ts_tile_attr(s, "table");
  Type t = s->in[0]->type;
  if (t.dtype != TS_DT_i32)
    return WRONG(TS_ERR_dtype, "looks by i32, not %s", ts_tile_shown(c, &t));
  if (table->n != 32)
    return WRONG(TS_ERR_value, "a table has 32 numbers, this one %d", table->n);
  for (int i = 0; i < 32; i++)
    if ((double)(float)table->floats[i] != table->floats[i] && !isnan(table->floats[i]))
      return WRONG(TS_ERR_value, "number %d of the table is none of f32", i);
  t.dtype = TS_DT_f32;
  return ts_tile_rule_gives(c, s, &t);
}

int ts_tile_rule_of_scale(Check *c, const Stmt *s) {
  if (ts_tile_rule_kind(c, s, 0, TS_KIND_F, "f32 or f64") ||
      ts_tile_rule_operand(c, s, 1, &s->in[0]->type))
    return -1;
  return ts_tile_rule_gives(c, s, &s->in[0]->type);
}

int ts_tile_rule_of_decay(Check *c, const Stmt *s) {
  if (ts_tile_rule_kind(c, s, 0, TS_KIND_F, "f32 or f64")) return -1;
  return ts_tile_rule_gives(c, s, &s->in[0]->type);
}

static int is_single(Check *c, const Stmt *s) {
  if (s->in[0]->type.dtype == TS_DT_f32) return ts_tile_rule_gives(c, s, &s->in[0]->type);
  return WRONG(TS_ERR_dtype, "takes f32, not %s", ts_tile_shown(c, &s->in[0]->type));
}
int ts_tile_rule_of_ex2(Check *c, const Stmt *s) { return is_single(c, s); }
int ts_tile_rule_of_inv(Check *c, const Stmt *s) { return is_single(c, s); }
int ts_tile_rule_of_lg2(Check *c, const Stmt *s) { return is_single(c, s); }
int ts_tile_rule_of_rare(Check *c, const Stmt *s) {
  Type t = ts_tile_rule_with_dtype(s->in[1]->type, TS_DT_bool);
  return ts_tile_rule_operand(c, s, 0, &t) || ts_tile_rule_operand(c, s, 2, &s->in[1]->type) ||
                 ts_tile_rule_gives(c, s, &s->in[1]->type)
             ? -1
             : 0;
}
int ts_tile_rule_of_larger(Check *c, const Stmt *s) {
  return ts_tile_rule_operand(c, s, 1, &s->in[0]->type) || is_single(c, s) ? -1 : 0;
}

/* ---- over axes */
/* Sums and products have the type that the row's operands add up in; extremes keep it. */
static int reduction(Check *c, const Stmt *s, TsDtype to) {
  const Type *t = &s->in[0]->type;
  if (ts_tile_rule_kind(c, s, 0, NUMBER | TS_KIND_B, "f32, f64, integers or bool") ||
      ts_tile_rule_axis(c, s, t->rank, t))
    return -1;
  int axis = (int)ATTR("axis")->i;
  Type r = ts_tile_rule_with_dtype(ts_tile_rule_without_axis(*t, axis), to);
  if (ts_tile_rule_gives(c, s, &r)) return -1;
  if (c->k->form != TS_FORM_explicit) return 0;
  bool rows = s->op == TS_TILE_pairs && t->rank == 2 && axis == 1; /* of a role with lanes */
  if ((t->rank == 1 || rows) && !(t->dim[axis] & (t->dim[axis] - 1))) return 0;
  return WRONG(TS_ERR_shape, "the explicit form takes one axis of 2^n lanes, not %s",
               ts_tile_shown(c, t));
}

static int accumulation(Check *c, const Stmt *s) {
  return reduction(c, s, (TsDtype)info(&s->in[0]->type)->accum);
}

static int some_element(Check *c, const Stmt *s) {
  const Type *t = &s->in[0]->type;
  int64_t axis = ATTR("axis")->i;
  if (axis < 0 || axis >= t->rank || t->dim[axis]) return 0;
  return WRONG(TS_ERR_shape, "there is none in %s", ts_tile_shown(c, t));
}

static int extreme(Check *c, const Stmt *s) {
  return some_element(c, s) || reduction(c, s, (TsDtype)s->in[0]->type.dtype) ? -1 : 0;
}

static int place(Check *c, const Stmt *s) {
  return ts_tile_rule_block_only(c, s) || some_element(c, s) || reduction(c, s, TS_DT_i64) ? -1
                                                                                           : 0;
}

int ts_tile_rule_of_sum(Check *c, const Stmt *s) { return accumulation(c, s); }
int ts_tile_rule_of_pairs(Check *c, const Stmt *s) { return accumulation(c, s); }
int ts_tile_rule_of_prod(Check *c, const Stmt *s) { return accumulation(c, s); }
int ts_tile_rule_of_max(Check *c, const Stmt *s) { return extreme(c, s); }
int ts_tile_rule_of_min(Check *c, const Stmt *s) { return extreme(c, s); }
int ts_tile_rule_of_argmax(Check *c, const Stmt *s) { return place(c, s); }
int ts_tile_rule_of_argmin(Check *c, const Stmt *s) { return place(c, s); }

/* ---- sorting */
int ts_tile_rule_of_places(Check *c, const Stmt *s) {
  const Type *t = &s->in[0]->type;
  int64_t bins = ATTR("bins")->i;
  if (ts_tile_rule_block_only(c, s) || ts_tile_rule_results(c, s, 3)) return -1;
  if (t->dtype != TS_DT_i32 || t->rank != 3 || t->dim[2] != 32 || ts_tile_memory(t))
    return WRONG(TS_ERR_shape, "digits are i32[k,w,32], not %s", ts_tile_shown(c, t));
  if (bins < 1 || bins > 1024)
    return WRONG(TS_ERR_attribute, "option 'bins' is 1 to 1024, not %lld", (long long)bins);
  Type list = ts_tile_vector(TS_DT_i32, bins);
  for (int i = 0; i < 3; i++)
    if (ts_tile_rule_type(c, s, "result", i, &s->out[i]->type, i ? &list : t)) return -1;
  return 0;
}

/* ---- contractions */
/* a[m,k] b[k,n], or a[m] b[n] without k: floats of one type; narrow ones add up in f32. A
 * matrix unit also multiplies i8, with sums in i32, and pairs of bf16 (ir/tile/pairs.h). */
static int product(Check *c, const Stmt *s, bool deep) {
  const Type *a = &s->in[0]->type, *b = &s->in[1]->type;
  int rank = 1 + deep;
  bool words = deep && a->dtype == TS_DT_i32 && a->space == TS_SPACE_fragment &&
               ts_tile_pairs_of(s) == TS_PAIRS_amx_bf16;
  bool whole = a->dtype == TS_DT_i8 && (a->space == TS_SPACE_fragment || !c->cpu);
  bool few = (deep && (whole || (a->dtype == TS_DT_i32 && !c->cpu && !words))) || words;
  bool fits = a->rank == rank && b->rank == rank && a->dtype == b->dtype &&
              a->space == b->space && (info(a)->kind == TS_KIND_F || few) &&
              (!deep || a->dim[1] == b->dim[0]);
  if (!fits)
    return WRONG(TS_ERR_shape, "%s %s and %s", deep ? "no matrix product of" : "no product of",
                 ts_tile_shown(c, a), ts_tile_shown(c, b));
  Type acc = {.dtype = info(a)->accum, .rank = 2, .space = s->in[2]->type.space};
  if (few) acc.dtype = words ? TS_DT_f32 : TS_DT_i32;
  acc.dim[0] = a->dim[0];
  acc.dim[1] = b->dim[deep];
  return ts_tile_rule_operand(c, s, 2, &acc) || ts_tile_rule_gives(c, s, &acc) ? -1 : 0;
}

/* Units of a CPU take bf16, in explicit form words in registers of the unit. */
static int check_pairs(Check *c, const Stmt *s) {
  TsTilePairs unit = ts_tile_pairs_of(s);
  bool explicit = c->k->form == TS_FORM_explicit;
  const char *has = c->target ? c->target->pairs : NULL;
  int wanted = explicit ? TS_DT_i32 : TS_DT_bf16;
  if (!unit) return 0;
  if (!c->cpu || (explicit && unit != TS_PAIRS_amx_bf16))
    return WRONG(TS_ERR_attribute, "unit %s is %s", ATTR("unit")->str,
                 c->cpu ? "the row dot2 in explicit form" : "one of CPUs");
  if (c->target && (!has || strcmp(has, ATTR("unit")->str) != 0))
    return WRONG(TS_ERR_device, "this processor has no %s", ATTR("unit")->str);
  if (s->in[0]->type.dtype == wanted) return 0;
  return WRONG(TS_ERR_dtype, "%s multiplies %s, not %s", ATTR("unit")->str,
               explicit ? "words of two bf16, i32[16,16] @fragment" : "bf16",
               ts_tile_shown(c, &s->in[0]->type));
}

/* Units of squares, in block form: whole squares, and whole steps of k. */
static int check_square(Check *c, const Stmt *s) {
  const Type *a = &s->in[0]->type, *b = &s->in[1]->type;
  TsSquare unit = ts_tile_square_of(s);
  if (!unit) return 0;
  if (c->cpu) return WRONG(TS_ERR_attribute, "unit %s is one of GPUs", ATTR("unit")->str);
  if (c->k->form != TS_FORM_block)
    return WRONG(TS_ERR_attribute, "unit %s stands in block form", ATTR("unit")->str);
  if (!ts_tile_square_takes(unit, (TsDtype)a->dtype))
    return WRONG(TS_ERR_dtype, "%s multiplies %s, not %s", ATTR("unit")->str,
                 unit == TS_SQUARE_mfma   ? "floats and i8"
                 : unit == TS_SQUARE_wmma ? "bf16, f16, fp8 and i8"
                                          : "bf16, f16 and i8",
                 ts_tile_shown(c, a));
  int64_t size[3] = {a->dim[0], a->dim[1], b->dim[1]};
  for (int i = 0; i < 3; i++) {
    int by = i == 1 ? ts_tile_square_steps(unit, (TsDtype)a->dtype) : TS_SQUARE;
    if (ts_tile_dim_is(size[i]) || size[i] % by)
      return WRONG(TS_ERR_shape, "%s takes multiples of %d, not %s and %s", ATTR("unit")->str,
                   by, ts_tile_shown(c, a), ts_tile_shown(c, b));
  }
  return 0;
}

int ts_tile_rule_of_mma(Check *c, const Stmt *s) {
  const TsAttr *unit = ATTR("unit");
  bool named = unit->type == TS_ATTR_str && unit->str && *unit->str;
  if (c->k->form == TS_FORM_explicit && !named)
    return WRONG(TS_ERR_attribute, "the explicit form names the unit");
  return check_pairs(c, s) || product(c, s, true) || check_square(c, s) ? -1 : 0;
}

int ts_tile_rule_of_dot2(Check *c, const Stmt *s) {
  if (c->k->form != TS_FORM_explicit)
    return WRONG(TS_ERR_argument, "stands in explicit form; in block form it is mma {unit}");
  Type words = ts_tile_rule_with_dtype(s->in[0]->type, TS_DT_i32);
  Type sum = ts_tile_rule_with_dtype(words, TS_DT_f32);
  for (int i = 0; i < 3; i++)
    if (ts_tile_rule_operand(c, s, i, i < 2 ? &words : &sum)) return -1;
  return ts_tile_rule_gives(c, s, &sum);
}

int ts_tile_rule_of_outer(Check *c, const Stmt *s) { return product(c, s, false); }

static int (*const rules[])(Check *, const Stmt *) = {
#define TILE(name, operands, regions, attrs, help) ts_tile_rule_of_##name,
#include "ir/tile/tile.def"
#undef TILE
};

/* ---- pointwise rows */
static const char *kinds_text(int kinds, char text[32]) {
  snprintf(text, 32, "%s%s%s%s%s", kinds & TS_KIND_F ? "f32, f64" : "",
           kinds & TS_KIND_F && kinds & INTEGER ? ", " : "", kinds & INTEGER ? "integers" : "",
           kinds & INTEGER && kinds & TS_KIND_B ? ", " : "", kinds & TS_KIND_B ? "bool" : "");
  return text;
}

/* Tiles of one shape and one type, the condition of where apart. The dtype of the result is
 * what the row's own rule says. */
static int check_pointwise(Check *c, const Stmt *s) {
  const TsOpInfo *o = ts_op_info((TsOp)s->op);
  int first = s->op == TS_OP_where;
  Type t = s->in[first]->type, condition = ts_tile_rule_with_dtype(t, TS_DT_bool);
  char kinds[32];
  if (o->cls != TS_CLASS_POINTWISE) return WRONG(TS_ERR_argument, "is not pointwise");
  if (first && ts_tile_rule_operand(c, s, 0, &condition)) return -1;
  if (ts_tile_rule_kind(c, s, first, o->types & ~TS_KIND_C, kinds_text(o->types, kinds)))
    return -1;
  for (int i = first + 1; i < s->nin; i++)
    if (ts_tile_rule_operand(c, s, i, &t)) return -1;
  TsMeta m[TS_MAX_IN];
  const TsMeta *in[TS_MAX_IN];
  for (int i = 0; i < o->nin; i++) {
    m[i] = (TsMeta){.dtype = s->in[i]->type.dtype};
    in[i] = &m[i];
  }
  TsInfer inf = {.op = (TsOp)s->op, .nin = o->nin, .in = in, .attr = NULL, .err = c->err};
  TsAttr attr[TS_MAX_ATTR];
  ts_op_defaults((TsOp)s->op, attr);
  inf.attr = attr;
  if (o->dtype(&inf)) return -1;
  if (info(&(Type){.dtype = inf.out[0].dtype})->kind == TS_KIND_C)
    return WRONG(TS_ERR_dtype, "elements of a kernel are real numbers, not %s",
                 ts_dtype_name((TsDtype)inf.out[0].dtype));
  t = ts_tile_rule_with_dtype(t, (TsDtype)inf.out[0].dtype);
  return ts_tile_rule_gives(c, s, &t);
}

/* ---- one statement */
static bool needs_gpu(int op) {
  switch (op) {
  case TS_TILE_role:
  case TS_TILE_program:
  case TS_TILE_copy_async:
  case TS_TILE_copy_bulk:
  case TS_TILE_store_bulk:
  case TS_TILE_sync:
  case TS_TILE_commit:
  case TS_TILE_wait:
  case TS_TILE_expect:
  case TS_TILE_arrive:
  case TS_TILE_await:
  case TS_TILE_barrier:
  case TS_TILE_pace:
  case TS_TILE_fence:
  case TS_TILE_ex2:
  case TS_TILE_inv:
  case TS_TILE_rare:
  case TS_TILE_lg2:
  case TS_TILE_quarter:
  case TS_TILE_row:
  case TS_TILE_claim:
  case TS_TILE_until:
  case TS_TILE_signal:
  case TS_TILE_turn:
  case TS_TILE_meet:
  case TS_TILE_own:
  case TS_TILE_load_rows:
  case TS_TILE_store_rows:
  case TS_TILE_blank:
  case TS_TILE_unpack:
  case TS_TILE_await_launch:
  case TS_TILE_registers: return true;
  default: return false;
  }
}

static int check_counts(Check *c, const Stmt *s) {
  bool more;
  int n = ts_tile_op_operands(s->op, &more);
  if (more ? s->nin < n : s->nin != n)
    return WRONG(TS_ERR_argument, "%d operands, not %d%s", s->nin, n, more ? " or more" : "");
  if (s->nregion != ts_tile_op_regions(s->op))
    return WRONG(TS_ERR_argument, "%d regions, not %d", s->nregion, ts_tile_op_regions(s->op));
  return 0;
}

static int check_attrs(Check *c, const Stmt *s) {
  int n;
  const TsAttrSpec *spec = ts_tile_op_attrs(s->op, &n);
  if (s->nattr != n) return WRONG(TS_ERR_attribute, "%d attributes, not %d", s->nattr, n);
  for (int i = 0; i < n; i++)
    if (!ts_attr_legal(&spec[i], &s->attr[i]))
      return WRONG(TS_ERR_attribute, "option '%.*s' %s", spec[i].namelen, spec[i].name,
                   s->attr[i].type ? "has a value of the wrong kind" : "is missing");
  return 0;
}

int ts_tile_check_row(Check *c, const Stmt *s) {
  if (check_counts(c, s) || check_attrs(c, s)) return -1;
  if (c->cpu && needs_gpu(s->op))
    return WRONG(TS_ERR_argument, "target %s has no such operation", c->k->target);
  if (ts_tile_rule_memory(c, s)) return -1;
  return s->op < TS_OP_COUNT ? check_pointwise(c, s) : rules[s->op - TS_OP_COUNT](c, s);
}
