/* See ir/tile/check_rule.h. */
#include "ir/tile/check_rule.h"

#include <string.h>

#include "ir/tile/text.h"

bool ts_tile_rule_is_static(const Type *t) {
  for (int i = 0; i < t->rank; i++)
    if (t->dim[i] < 0) return false;
  return true;
}

/* ---- operands and results */
int ts_tile_rule_type(Check *c, const Stmt *s, const char *what, int i, const Type *is,
                      const Type *wanted) {
  if (ts_tile_type_same(is, wanted)) return 0;
  return WRONG(is->dtype == wanted->dtype ? TS_ERR_shape : TS_ERR_dtype, "%s %d is %s, not %s",
               what, i, ts_tile_shown(c, is), ts_tile_shown(c, wanted));
}

int ts_tile_rule_operand(Check *c, const Stmt *s, int i, const Type *wanted) {
  return ts_tile_rule_type(c, s, "operand", i, &s->in[i]->type, wanted);
}

int ts_tile_rule_results(Check *c, const Stmt *s, int n) {
  if (s->nout == n) return 0;
  return WRONG(TS_ERR_argument, "%d results, not %d", s->nout, n);
}

int ts_tile_rule_gives(Check *c, const Stmt *s, const Type *wanted) {
  return ts_tile_rule_results(c, s, 1) ||
                 ts_tile_rule_type(c, s, "result", 0, &s->out[0]->type, wanted)
             ? -1
             : 0;
}

int ts_tile_rule_gives_nothing(Check *c, const Stmt *s) {
  return ts_tile_rule_results(c, s, 0);
}

/* One result, a tile; which one, the row says. */
int ts_tile_rule_gives_tile(Check *c, const Stmt *s) {
  if (ts_tile_rule_results(c, s, 1)) return -1;
  if (!ts_tile_memory(&s->out[0]->type)) return 0;
  return WRONG(TS_ERR_argument, "the result is a tile, not %s",
               ts_tile_shown(c, &s->out[0]->type));
}

int ts_tile_rule_kind(Check *c, const Stmt *s, int i, int kinds, const char *wanted) {
  const Type *t = &s->in[i]->type;
  if ((info(t)->kind & kinds) && info(t)->compute == t->dtype) return 0;
  WRONG(TS_ERR_dtype, "takes %s, not %s", wanted, ts_tile_shown(c, t));
  if (info(t)->compute != t->dtype)
    ts_error_hint(c->err, "cast to %s behind the load",
                  ts_dtype_name((TsDtype)info(t)->compute));
  return -1;
}

int ts_tile_rule_index(Check *c, const Stmt *s, int i) {
  Type index = ts_tile_scalar(TS_DT_i64);
  return ts_tile_rule_operand(c, s, i, &index);
}

Type ts_tile_rule_with_dtype(Type t, TsDtype d) {
  t.dtype = (uint8_t)d;
  return t;
}

Type ts_tile_rule_without_axis(Type t, int axis) {
  t.rank--;
  memmove(t.dim + axis, t.dim + axis + 1, sizeof *t.dim * (size_t)(t.rank - axis));
  return t;
}

int ts_tile_rule_axis(Check *c, const Stmt *s, int rank, const Type *of) {
  int64_t axis = ATTR("axis")->i;
  if (axis >= 0 && axis < rank) return 0;
  return WRONG(TS_ERR_index, "axis %lld is none of %s", (long long)axis, ts_tile_shown(c, of));
}

/* n different axes of a tile or memory. */
int ts_tile_rule_axes(Check *c, const Stmt *s, const char *name, int n, bool ascending,
                      const Type *of) {
  const TsAttr *a = ATTR(name);
  unsigned seen = 0;
  if (a->n != n)
    return WRONG(TS_ERR_attribute, "option '%s' has %d axes, not %d", name, a->n, n);
  for (int i = 0; i < n; i++) {
    int64_t x = a->ints[i];
    bool fine = x >= 0 && x < of->rank && !(seen >> x & 1);
    if (!fine || (ascending && seen >> x))
      return WRONG(TS_ERR_index, "option '%s': %lld is no axis of %s, stands twice%s", name,
                   (long long)x, ts_tile_shown(c, of), ascending ? " or is out of order" : "");
    seen |= 1u << x;
  }
  return 0;
}

int ts_tile_rule_block_only(Check *c, const Stmt *s) {
  if (c->k->form != TS_FORM_explicit) return 0;
  return WRONG(TS_ERR_argument, "is not in the explicit form");
}

/* ---- memory */
static bool is_memory_slot(const Stmt *s, int i) {
  const TsTileBrackets *b = ts_tile_brackets(s->op);
  if (s->op == TS_TILE_meet) return i < s->nin - 3;
  if (s->op == TS_TILE_unpack) return i < 2;
  return s->op == TS_TILE_view || s->op == TS_TILE_aligned || (b && i < b->memories);
}

static bool is_barrier_slot(int op, int i) {
  bool waits = op == TS_TILE_expect || op == TS_TILE_arrive || op == TS_TILE_await;
  return op == TS_TILE_copy_bulk ? i == 2 : waits && i == 0;
}

/* Memory stands where memory is worked on, and nowhere else. */
int ts_tile_rule_memory(Check *c, const Stmt *s) {
  for (int i = 0; i < s->nin; i++) {
    const Type *t = &s->in[i]->type;
    bool want = is_memory_slot(s, i), barrier = is_barrier_slot(s->op, i);
    if (ts_tile_memory(t) != want)
      return WRONG(TS_ERR_argument, "operand %d is %s, %s", i, ts_tile_shown(c, t),
                   want ? "not memory" : "and only memory operations take memory");
    if (want && (t->space == TS_SPACE_barrier) != barrier)
      return WRONG(TS_ERR_argument, "operand %d is %s, %s", i, ts_tile_shown(c, t),
                   barrier ? "not a barrier" : "which only counts");
  }
  return 0;
}

/* One i64[] for each axis of the memory. */
int ts_tile_rule_positions_in(Check *c, const Stmt *s, int memory, int first, int n) {
  const Type *t = &s->in[memory]->type;
  if (n != t->rank) return WRONG(TS_ERR_argument, "%d positions in %s", n, ts_tile_shown(c, t));
  for (int i = first; i < first + n; i++)
    if (ts_tile_rule_index(c, s, i)) return -1;
  return 0;
}

int ts_tile_rule_positions(Check *c, const Stmt *s) {
  bool tail = ts_tile_brackets(s->op)->tail;
  return ts_tile_rule_positions_in(c, s, 0, 1, s->nin - 1 - tail);
}

int ts_tile_rule_written(Check *c, const Stmt *s) {
  const TsTileValue *v = s->in[0];
  bool param = !v->stmt && !v->region;
  if (param && v->index < c->k->nin)
    return WRONG(TS_ERR_argument, "parameter %d, %s, is read only", v->index,
                 ts_tile_shown(c, &v->type));
  for (int i = 0; v->type.strided && i < v->type.rank; i++)
    if (!v->type.stride[i] && v->type.dim[i] != 1)
      return WRONG(TS_ERR_argument, "elements of %s lie on each other",
                   ts_tile_shown(c, &v->type));
  return 0;
}

/* A tile lies in memory: along its last axes, or those that are named. */
int ts_tile_rule_extent(Check *c, const Stmt *s, const Type *memory, const Type *t, bool edge,
                        const TsAttr *axes) {
  if (t->dtype != memory->dtype)
    return WRONG(TS_ERR_dtype, "the tile is %s, the memory %s", ts_tile_shown(c, t),
                 ts_tile_shown(c, memory));
  if (t->rank > memory->rank)
    return WRONG(TS_ERR_shape, "the tile %s has more axes than the memory %s",
                 ts_tile_shown(c, t), ts_tile_shown(c, memory));
  bool named = axes && axes->type == TS_ATTR_ints;
  if (named && ts_tile_rule_axes(c, s, "axes", t->rank, false, memory)) return -1;
  for (int i = 0; i < t->rank && !edge; i++) {
    int64_t room = memory->dim[named ? axes->ints[i] : memory->rank - t->rank + i];
    if (room >= 0 && t->dim[i] > room)
      return WRONG(TS_ERR_shape, "the tile %s is larger than the memory %s, without edge",
                   ts_tile_shown(c, t), ts_tile_shown(c, memory));
  }
  return 0;
}
