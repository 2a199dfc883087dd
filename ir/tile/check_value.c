/* The rules of the rows of Tile IR that make values of nothing, or the same values of another shape
 * or type: see ir/tile/check_row.c. */
#include "ir/tile/check_rule.h"

#include <math.h>

enum { TRANSPOSED = 256 /* elements that the explicit form transposes in registers */ };
static const double MOST_EXACT = 9007199254740992.0; /* 2^53 */

int ts_tile_rule_of_const(Check *c, const Stmt *s) {
  if (ts_tile_rule_gives_tile(c, s)) return -1;
  const Type *t = &s->out[0]->type;
  double v = ATTR("value")->f;
  int64_t lo, hi;
  if (info(t)->kind == TS_KIND_F) return 0;
  ts_dtype_int_range((TsDtype)t->dtype, &lo, &hi);
  if (v == floor(v) && fabs(v) <= MOST_EXACT && v >= (double)lo && v <= (double)hi) return 0;
  return WRONG(TS_ERR_value, "%.17g is no exact value of %s", v, ts_tile_shown(c, t));
}

int ts_tile_rule_of_bits(Check *c, const Stmt *s) {
  if (ts_tile_rule_gives_tile(c, s)) return -1;
  const Type *t = &s->out[0]->type;
  int width = t->dtype == TS_DT_bool ? 1 : 8 * info(t)->nbytes;
  if (width >= 64 || (uint64_t)ATTR("value")->i >> width == 0) return 0;
  return WRONG(TS_ERR_value, "%lld has more than the %d bits of %s",
               (long long)ATTR("value")->i, width, ts_tile_shown(c, t));
}

int ts_tile_rule_of_dim(Check *c, const Stmt *s) {
  Type index = ts_tile_scalar(TS_DT_i64);
  int64_t i = ATTR("index")->i;
  if (i < 0 || i >= c->k->ndim)
    return WRONG(TS_ERR_index, "the kernel has %d sizes, none of index %lld", c->k->ndim,
                 (long long)i);
  return ts_tile_rule_gives(c, s, &index);
}

int ts_tile_rule_of_iota(Check *c, const Stmt *s) {
  if (ts_tile_rule_gives_tile(c, s)) return -1;
  const Type *t = &s->out[0]->type;
  if (!(info(t)->kind & (TS_KIND_I | TS_KIND_U)))
    return WRONG(TS_ERR_dtype, "gives integers, not %s", ts_tile_shown(c, t));
  return ts_tile_rule_axis(c, s, t->rank, t);
}

int ts_tile_rule_of_broadcast(Check *c, const Stmt *s) {
  if (ts_tile_rule_gives_tile(c, s)) return -1;
  const Type *from = &s->in[0]->type, *to = &s->out[0]->type;
  const TsAttr *axes = ATTR("axes");
  if (ts_tile_rule_axes(c, s, "axes", from->rank, true, to)) return -1;
  bool fits = from->dtype == to->dtype && (from->space == to->space || !from->rank);
  for (int i = 0; i < from->rank; i++) fits = fits && from->dim[i] == to->dim[axes->ints[i]];
  if (fits) return 0;
  return WRONG(TS_ERR_shape, "axes of %s are not those of %s", ts_tile_shown(c, from),
               ts_tile_shown(c, to));
}

/* As many elements: of the static sizes the product, of the symbolic ones each as often. */
static bool same_numel(const Type *a, const Type *b) {
  int64_t na = 1, nb = 1;
  int often[TS_TILE_DIMS] = {0};
  for (int i = 0; i < a->rank; i++)
    if (ts_tile_dim_is(a->dim[i]))
      often[ts_tile_dim_index(a->dim[i])]++;
    else
      na *= a->dim[i];
  for (int i = 0; i < b->rank; i++)
    if (ts_tile_dim_is(b->dim[i]))
      often[ts_tile_dim_index(b->dim[i])]--;
    else
      nb *= b->dim[i];
  for (int i = 0; i < TS_TILE_DIMS; i++)
    if (often[i]) return false;
  return na == nb;
}

int ts_tile_rule_of_reshape(Check *c, const Stmt *s) {
  if (ts_tile_rule_gives_tile(c, s)) return -1;
  const Type *from = &s->in[0]->type, *to = &s->out[0]->type;
  if (from->dtype == to->dtype && from->space == to->space && same_numel(from, to)) return 0;
  return WRONG(TS_ERR_shape, "%s has not the elements of %s", ts_tile_shown(c, to),
               ts_tile_shown(c, from));
}

int ts_tile_rule_of_transpose(Check *c, const Stmt *s) {
  const Type *from = &s->in[0]->type;
  Type to = *from;
  if (ts_tile_rule_axes(c, s, "perm", from->rank, false, from)) return -1;
  for (int i = 0; i < from->rank; i++) to.dim[i] = from->dim[ATTR("perm")->ints[i]];
  if (ts_tile_rule_gives(c, s, &to)) return -1;
  if (c->k->form != TS_FORM_explicit || ts_tile_numel(from) <= TRANSPOSED) return 0;
  return WRONG(TS_ERR_shape, "the explicit form transposes at most %d elements, not %s",
               TRANSPOSED, ts_tile_shown(c, from));
}

int ts_tile_rule_of_part(Check *c, const Stmt *s) {
  if (ts_tile_rule_gives_tile(c, s)) return -1;
  const Type *from = &s->in[0]->type, *to = &s->out[0]->type;
  const TsAttr *start = ATTR("start");
  bool fits = from->dtype == to->dtype && from->space == to->space && from->rank == to->rank &&
              start->n == from->rank;
  for (int i = 0; fits && i < from->rank; i++) {
    int64_t at = start->ints[i], d = from->dim[i];
    bool whole = at == 0 && to->dim[i] == d;
    fits = whole || (d > 0 && to->dim[i] > 0 && at >= 0 && at <= d && to->dim[i] <= d - at);
  }
  if (fits) return 0;
  return WRONG(TS_ERR_shape, "%s is no block of %s at this start", ts_tile_shown(c, to),
               ts_tile_shown(c, from));
}

int ts_tile_rule_of_join(Check *c, const Stmt *s) {
  Type whole = s->in[0]->type;
  if (ts_tile_rule_axis(c, s, whole.rank, &whole)) return -1;
  int axis = (int)ATTR("axis")->i;
  int64_t total = 0;
  for (int i = 0; i < s->nin; i++) {
    Type each = s->in[i]->type;
    int64_t n = each.rank > axis ? each.dim[axis] : 0;
    each.dim[axis] = whole.dim[axis];
    if (ts_tile_rule_type(c, s, "apart from the axis, operand", i, &each, &whole)) return -1;
    if (n < 0 || __builtin_add_overflow(total, n, &total))
      return WRONG(TS_ERR_shape, "operand %d, %s, has no static size along the axis", i,
                   ts_tile_shown(c, &s->in[i]->type));
  }
  whole.dim[axis] = total;
  return ts_tile_rule_gives(c, s, &whole);
}

int ts_tile_rule_of_cast(Check *c, const Stmt *s) {
  if (ts_tile_rule_gives_tile(c, s)) return -1;
  Type t = ts_tile_rule_with_dtype(s->in[0]->type, (TsDtype)s->out[0]->type.dtype);
  return ts_tile_rule_gives(c, s, &t);
}

int ts_tile_rule_of_bitcast(Check *c, const Stmt *s) {
  if (ts_tile_rule_gives_tile(c, s)) return -1;
  const Type *from = &s->in[0]->type, *to = &s->out[0]->type;
  bool plain = from->dtype != TS_DT_bool && to->dtype != TS_DT_bool;
  bool fits = plain && info(from)->nbytes == info(to)->nbytes;
  Type t = ts_tile_rule_with_dtype(*from, (TsDtype)to->dtype);
  if (plain && !fits && c->k->form == TS_FORM_explicit && from->rank) {
    int64_t bytes = from->dim[from->rank - 1] * info(from)->nbytes;
    fits = bytes % info(to)->nbytes == 0;
    t.dim[t.rank - 1] = bytes / info(to)->nbytes;
  }
  if (fits) return ts_tile_rule_gives(c, s, &t);
  return WRONG(TS_ERR_dtype, "%s and %s have not the same bits", ts_tile_shown(c, from),
               ts_tile_shown(c, to));
}
