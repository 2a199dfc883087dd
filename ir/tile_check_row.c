/* The rules of the rows of Tile IR: one function for each row of ir/tile.def, found by its
 * name, and one for all pointwise rows. Each says what the operands and attributes must be and
 * which type the result then has. Control (loops, ends of regions) stands here as far as one
 * statement shows it; the rest is in ir/tile_check.c. */
#include "ir/tile_check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ir/text_value.h"
#include "ir/tile_text.h"

typedef TsTileCheck Check;
typedef TsTileStmt Stmt;
typedef TsTileType Type;

enum {
  LARGEST_EXTENT = 62, /* bits of an element count */
  TRANSPOSED = 256,    /* elements that the explicit form turns in registers */
  WARP = 32,
  NAMED_BARRIERS = 16,
  FEWEST_REGISTERS = 24,
  MOST_REGISTERS = 240
};
static const double MOST_EXACT = 9007199254740992.0; /* 2^53 */
static const int INTEGER = TS_KIND_I | TS_KIND_U, NUMBER = TS_KIND_I | TS_KIND_U | TS_KIND_F;

int ts_tile_wrong(Check *c, const Stmt *s, TsErrorCode code, const char *format, ...) {
  char message[sizeof c->err->message];
  va_list ap;
  va_start(ap, format);
  vsnprintf(message, sizeof message, format, ap);
  va_end(ap);
  return ts_error_set(c->err, code, "%s: %s", s ? ts_tile_op_name(s->op) : "parameter",
                      message);
}

const char *ts_tile_shown(Check *c, const Type *t) {
  char *to = c->text[c->ntext++ % 4];
  TsText text = {0};
  ts_tile_type_text(c->k, t, &text);
  snprintf(to, TS_TILE_TYPE_TEXT, "%s", text.at ? text.at : "?");
  ts_text_free(&text);
  return to;
}

#define WRONG(...) ts_tile_wrong(c, s, __VA_ARGS__)
#define ATTR(name) ts_tile_attr(s, name)

/* ---- types */
static const TsDtypeInfo *info(const Type *t) { return &ts_dtypes[t->dtype]; }
static bool is_static(const Type *t) {
  for (int i = 0; i < t->rank; i++)
    if (t->dim[i] < 0) return false;
  return true;
}

static int check_sizes(Check *c, const Stmt *s, const Type *t) {
  int64_t n = info(t)->nbytes;
  bool is_register = c->k->form == TS_FORM_explicit && !ts_tile_memory(t);
  for (int i = 0; i < t->rank; i++) {
    int64_t d = t->dim[i];
    if (ts_tile_dim_is(d) && (uint64_t)d - (uint64_t)INT64_MIN >= (uint64_t)c->k->ndim)
      return WRONG(TS_ERR_shape, "axis %d of %s has no size of the kernel", i,
                   ts_tile_shown(c, t));
    if (d == 0 && is_register)
      return WRONG(TS_ERR_shape, "tiles of the explicit form have elements, %s has none",
                   ts_tile_shown(c, t));
    if (d > 0 && (__builtin_mul_overflow(n, d, &n) || n >> LARGEST_EXTENT))
      return WRONG(TS_ERR_shape, "%s is larger than any memory", ts_tile_shown(c, t));
  }
  return 0;
}

static int check_swizzle(Check *c, const Stmt *s, const Type *t) {
  if (!t->swizzle) return 0;
  if (t->space != TS_SPACE_shared)
    return WRONG(TS_ERR_argument, "only shared memory has a swizzle, not %s",
                 ts_tile_shown(c, t));
  if (t->swizzle != 32 && t->swizzle != 64 && t->swizzle != 128)
    return WRONG(TS_ERR_argument, "a swizzle has 32, 64 or 128 bytes, not %d", t->swizzle);
  if (t->rank < 2 || t->strided || t->dim[t->rank - 1] * info(t)->nbytes % t->swizzle)
    return WRONG(TS_ERR_shape, "rows of swizzled memory are whole patterns of %d bytes, not %s",
                 t->swizzle, ts_tile_shown(c, t));
  return 0;
}

/* The blocks of a cluster have equal parts of memory that is split. */
static int check_split(Check *c, const Stmt *s, const Type *t) {
  if (!t->split) return 0;
  int n = c->k->cluster > 1 ? c->k->cluster : 1;
  if (t->space == TS_SPACE_shared && t->split < t->rank && t->dim[t->split] % n == 0) return 0;
  return WRONG(TS_ERR_argument, "%d blocks of a cluster have no equal parts of %s", n,
               ts_tile_shown(c, t));
}

static int check_barrier_type(Check *c, const Stmt *s, const Type *t) {
  if (t->space != TS_SPACE_barrier) {
    if (!t->count) return 0;
    return WRONG(TS_ERR_argument, "only barriers count arrivals, not %s", ts_tile_shown(c, t));
  }
  if (t->dtype == TS_DT_i64 && t->rank == 1 && t->count && !t->strided) return 0;
  return WRONG(TS_ERR_dtype, "barriers are i64[n] @barrier(count=arrivals), not %s",
               ts_tile_shown(c, t));
}

static int check_space(Check *c, const Stmt *s, const Type *t) {
  bool gpu = t->space == TS_SPACE_fragment || t->space == TS_SPACE_shared ||
             t->space == TS_SPACE_barrier;
  if (gpu && c->cpu)
    return WRONG(TS_ERR_argument, "target %s has no memory like %s", c->k->target,
                 ts_tile_shown(c, t));
  if (!ts_tile_memory(t) && t->strided)
    return WRONG(TS_ERR_argument, "a tile has no strides, %s has", ts_tile_shown(c, t));
  return 0;
}

/* In the explicit form a tile is what registers hold. */
static int check_register(Check *c, const Stmt *s, const Type *t) {
  if (c->k->form != TS_FORM_explicit || t->space != TS_SPACE_value) return 0;
  if (t->rank > 2 || !is_static(t))
    return WRONG(TS_ERR_shape,
                 "tiles of the explicit form have static sizes and at most 2 axes, "
                 "not %s",
                 ts_tile_shown(c, t));
  int64_t lanes = t->rank ? t->dim[t->rank - 1] : 1;
  if (lanes <= TS_TILE_LANES && lanes * info(t)->nbytes <= TS_TILE_LANE_BYTES) return 0;
  return WRONG(TS_ERR_shape, "tiles of the explicit form have at most %d lanes, %s has more",
               info(t)->nbytes > 4 ? TS_TILE_LANE_BYTES / info(t)->nbytes : TS_TILE_LANES,
               ts_tile_shown(c, t));
}

int ts_tile_check_type(Check *c, const Stmt *s, const Type *t) {
  if (t->dtype >= TS_DT_COUNT || t->rank > TS_TILE_RANK || t->space > TS_SPACE_barrier)
    return WRONG(TS_ERR_dtype, "there is no such type");
  if (info(t)->kind & (TS_KIND_C | TS_KIND_X))
    return WRONG(TS_ERR_dtype, "elements of a kernel are real numbers, not %s",
                 ts_tile_shown(c, t));
  return check_sizes(c, s, t) || check_space(c, s, t) || check_swizzle(c, s, t) || check_split(c, s, t) ||
                 check_barrier_type(c, s, t) || check_register(c, s, t)
             ? -1
             : 0;
}

int64_t ts_tile_nbytes(const Type *t) {
  if (t->space == TS_SPACE_barrier) return t->rank ? 8 * t->dim[0] : 0;
  int64_t n = 1, step;
  if (!is_static(t)) return -1;
  if (!t->strided) return ts_tile_numel(t) * info(t)->nbytes;
  for (int i = 0; i < t->rank; i++) {
    int64_t stride = t->stride[i] < 0 ? -t->stride[i] : t->stride[i];
    if (__builtin_mul_overflow(t->dim[i] - 1, stride, &step) ||
        __builtin_add_overflow(n, step, &n) || n < 0 || n > INT64_MAX / 16)
      return -1;
  }
  return n * info(t)->nbytes;
}

/* ---- operands and results */
static int expect_type(Check *c, const Stmt *s, const char *what, int i, const Type *is,
                       const Type *wanted) {
  if (ts_tile_type_same(is, wanted)) return 0;
  return WRONG(is->dtype == wanted->dtype ? TS_ERR_shape : TS_ERR_dtype, "%s %d is %s, not %s",
               what, i, ts_tile_shown(c, is), ts_tile_shown(c, wanted));
}

static int operand_is(Check *c, const Stmt *s, int i, const Type *wanted) {
  return expect_type(c, s, "operand", i, &s->in[i]->type, wanted);
}

static int results(Check *c, const Stmt *s, int n) {
  if (s->nout == n) return 0;
  return WRONG(TS_ERR_argument, "%d results, not %d", s->nout, n);
}

static int gives(Check *c, const Stmt *s, const Type *wanted) {
  return results(c, s, 1) || expect_type(c, s, "result", 0, &s->out[0]->type, wanted) ? -1 : 0;
}

static int gives_nothing(Check *c, const Stmt *s) { return results(c, s, 0); }

/* One result, a tile; which one, the row says. */
static int gives_tile(Check *c, const Stmt *s) {
  if (results(c, s, 1)) return -1;
  if (!ts_tile_memory(&s->out[0]->type)) return 0;
  return WRONG(TS_ERR_argument, "the result is a tile, not %s",
               ts_tile_shown(c, &s->out[0]->type));
}

static int kind_is(Check *c, const Stmt *s, int i, int kinds, const char *wanted) {
  const Type *t = &s->in[i]->type;
  if ((info(t)->kind & kinds) && info(t)->compute == t->dtype) return 0;
  WRONG(TS_ERR_dtype, "takes %s, not %s", wanted, ts_tile_shown(c, t));
  if (info(t)->compute != t->dtype)
    ts_error_hint(c->err, "cast to %s behind the load",
                  ts_dtype_name((TsDtype)info(t)->compute));
  return -1;
}

static int index_is(Check *c, const Stmt *s, int i) {
  Type index = ts_tile_scalar(TS_DT_i64);
  return operand_is(c, s, i, &index);
}

static Type with_dtype(Type t, TsDtype d) {
  t.dtype = (uint8_t)d;
  return t;
}

static Type without_axis(Type t, int axis) {
  t.rank--;
  memmove(t.dim + axis, t.dim + axis + 1, sizeof *t.dim * (size_t)(t.rank - axis));
  return t;
}

static int axis_in(Check *c, const Stmt *s, int rank, const Type *of) {
  int64_t axis = ATTR("axis")->i;
  if (axis >= 0 && axis < rank) return 0;
  return WRONG(TS_ERR_index, "axis %lld is none of %s", (long long)axis, ts_tile_shown(c, of));
}

/* n different axes of a tile or memory. */
static int axes_in(Check *c, const Stmt *s, const char *name, int n, bool ascending,
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

static int explicit_never(Check *c, const Stmt *s) {
  if (c->k->form != TS_FORM_explicit) return 0;
  return WRONG(TS_ERR_argument, "is not in the explicit form");
}

/* ---- memory */
static bool is_memory_slot(int op, int i) {
  const TsTileBrackets *b = ts_tile_brackets(op);
  return op == TS_TILE_view || (b && i < b->memories);
}

static bool is_barrier_slot(int op, int i) {
  bool waits = op == TS_TILE_expect || op == TS_TILE_arrive || op == TS_TILE_await;
  return op == TS_TILE_copy_bulk ? i == 2 : waits && i == 0;
}

/* Memory stands where memory is worked on, and nowhere else. */
static int check_memory_operands(Check *c, const Stmt *s) {
  for (int i = 0; i < s->nin; i++) {
    const Type *t = &s->in[i]->type;
    bool want = is_memory_slot(s->op, i), barrier = is_barrier_slot(s->op, i);
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
static int positions_in(Check *c, const Stmt *s, int memory, int first, int n) {
  const Type *t = &s->in[memory]->type;
  if (n != t->rank) return WRONG(TS_ERR_argument, "%d positions in %s", n, ts_tile_shown(c, t));
  for (int i = first; i < first + n; i++)
    if (index_is(c, s, i)) return -1;
  return 0;
}

static int check_positions(Check *c, const Stmt *s) {
  bool tail = ts_tile_brackets(s->op)->tail;
  return positions_in(c, s, 0, 1, s->nin - 1 - tail);
}

static int check_written(Check *c, const Stmt *s) {
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
static int check_extent(Check *c, const Stmt *s, const Type *memory, const Type *t, bool edge,
                        const TsAttr *axes) {
  if (t->dtype != memory->dtype)
    return WRONG(TS_ERR_dtype, "the tile is %s, the memory %s", ts_tile_shown(c, t),
                 ts_tile_shown(c, memory));
  if (t->rank > memory->rank)
    return WRONG(TS_ERR_shape, "the tile %s has more axes than the memory %s",
                 ts_tile_shown(c, t), ts_tile_shown(c, memory));
  bool named = axes && axes->type == TS_ATTR_ints;
  if (named && axes_in(c, s, "axes", t->rank, false, memory)) return -1;
  for (int i = 0; i < t->rank && !edge; i++) {
    int64_t room = memory->dim[named ? axes->ints[i] : memory->rank - t->rank + i];
    if (room >= 0 && t->dim[i] > room)
      return WRONG(TS_ERR_shape, "the tile %s is larger than the memory %s, without edge",
                   ts_tile_shown(c, t), ts_tile_shown(c, memory));
  }
  return 0;
}

static int check_fill(Check *c, const Stmt *s) {
  if (ATTR("edge")->i || ts_number_same(ATTR("fill")->f, 0)) return 0;
  return WRONG(TS_ERR_attribute, "fill is for elements behind an edge, without edge there are "
                                 "none");
}

static int check_load(Check *c, const Stmt *s) {
  if (check_positions(c, s) || gives_tile(c, s) || check_fill(c, s)) return -1;
  return check_extent(c, s, &s->in[0]->type, &s->out[0]->type, ATTR("edge")->i, ATTR("axes"));
}

static int check_store(Check *c, const Stmt *s) {
  if (check_positions(c, s) || gives_nothing(c, s) || check_written(c, s)) return -1;
  return check_extent(c, s, &s->in[0]->type, &s->in[s->nin - 1]->type, ATTR("edge")->i,
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

static int check_gather(Check *c, const Stmt *s) {
  if (check_list(c, s) || axis_in(c, s, 1, &s->in[0]->type) || check_fill(c, s)) return -1;
  Type t = with_dtype(s->in[1]->type, (TsDtype)s->in[0]->type.dtype);
  return gives(c, s, &t);
}

static int check_scatter(Check *c, const Stmt *s) {
  if (check_list(c, s) || check_written(c, s) || gives_nothing(c, s)) return -1;
  Type t = with_dtype(s->in[1]->type, (TsDtype)s->in[0]->type.dtype);
  return operand_is(c, s, 2, &t);
}

static int check_prefetch(Check *c, const Stmt *s) {
  return check_positions(c, s) || gives_nothing(c, s) ? -1 : 0;
}

static int check_alloc(Check *c, const Stmt *s) {
  if (results(c, s, 1)) return -1;
  const Type *t = &s->out[0]->type;
  if (t->space < TS_SPACE_scratch)
    return WRONG(TS_ERR_argument, "memory is @scratch @local @shared or @barrier, not %s",
                 ts_tile_shown(c, t));
  if (t->space != TS_SPACE_scratch && ts_tile_nbytes(t) < 0)
    return WRONG(TS_ERR_shape, "%s has no static size", ts_tile_shown(c, t));
  if (t->space != TS_SPACE_scratch || s->in_region == c->k->body) return 0;
  return WRONG(TS_ERR_argument, "scratch stands at the top of a kernel");
}

static int check_view(Check *c, const Stmt *s) {
  if (results(c, s, 1)) return -1;
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
  if (is_static(t) && is_static(from) && last >= ts_tile_numel(from))
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

static int check_for(Check *c, const Stmt *s) {
  const Type index = ts_tile_scalar(TS_DT_i64);
  if (index_is(c, s, 0) || index_is(c, s, 1) || results(c, s, s->nin - 2) ||
      region_params(c, s, 0, s->nin - 1) || check_ends(c, s, 0) || check_parallel(c, s))
    return -1;
  if (ATTR("step")->i < 1 || ATTR("unroll")->i < 1)
    return WRONG(TS_ERR_attribute, "step and unroll are at least 1");
  const TsTileVal *param = s->region[0]->param;
  if (expect_type(c, s, "the index, parameter", 0, &param[0]->type, &index)) return -1;
  for (int i = 2; i < s->nin; i++)
    if (expect_type(c, s, "parameter", i - 1, &param[i - 1]->type, &s->in[i]->type) ||
        expect_type(c, s, "result", i - 2, &s->out[i - 2]->type, &s->in[i]->type))
      return -1;
  return 0;
}

static int check_if(Check *c, const Stmt *s) {
  Type condition = ts_tile_scalar(TS_DT_bool);
  if (operand_is(c, s, 0, &condition)) return -1;
  for (int i = 0; i < 2; i++)
    if (region_params(c, s, i, 0) || check_ends(c, s, i)) return -1;
  return 0;
}

/* The region's parameters and results are what is carried. */
static int check_repeat(Check *c, const Stmt *s) {
  const TsTileRegion *r = s->region[0];
  if (results(c, s, s->nin) || region_params(c, s, 0, s->nin)) return -1;
  if (!r->last || r->last->op != TS_TILE_yield)
    return WRONG(TS_ERR_argument, "its region ends without a yield");
  for (int i = 0; i < s->nin; i++)
    if (expect_type(c, s, "parameter", i, &r->param[i]->type, &s->in[i]->type) ||
        expect_type(c, s, "result", i, &s->out[i]->type, &s->in[i]->type))
      return -1;
  return 0;
}

static int check_role(Check *c, const Stmt *s) {
  if (region_params(c, s, 0, 0) || gives_nothing(c, s)) return -1;
  if (!ATTR("name")->str || !*ATTR("name")->str)
    return WRONG(TS_ERR_attribute, "a role has a name");
  if (ATTR("warps")->i < 1) return WRONG(TS_ERR_attribute, "a role has at least 1 warp");
  return c->roles ? WRONG(TS_ERR_argument, "stands inside another role") : 0;
}

static int check_yield(Check *c, const Stmt *s) {
  const Stmt *of = s->in_region->owner;
  if (s->next) return WRONG(TS_ERR_argument, "does not end its region");
  if (!of || of->op == TS_TILE_role)
    return WRONG(TS_ERR_argument, "stands in no region of a for or if");
  if (gives_nothing(c, s)) return -1;
  Type again = ts_tile_scalar(TS_DT_bool);
  int first = of->op == TS_TILE_repeat;
  if (s->nin != of->nout + first)
    return WRONG(TS_ERR_argument, "%d values for %d results of %s", s->nin - first, of->nout,
                 ts_tile_op_name(of->op));
  for (int i = 0; i < s->nin; i++)
    if (operand_is(c, s, i, i < first ? &again : &of->out[i - first]->type)) return -1;
  return 0;
}

/* ---- values */
static int check_const(Check *c, const Stmt *s) {
  if (gives_tile(c, s)) return -1;
  const Type *t = &s->out[0]->type;
  double v = ATTR("value")->f;
  int64_t lo, hi;
  if (info(t)->kind == TS_KIND_F) return 0;
  ts_dtype_int_range((TsDtype)t->dtype, &lo, &hi);
  if (v == floor(v) && fabs(v) <= MOST_EXACT && v >= (double)lo && v <= (double)hi) return 0;
  return WRONG(TS_ERR_value, "%.17g is no exact value of %s", v, ts_tile_shown(c, t));
}

static int check_bits(Check *c, const Stmt *s) {
  if (gives_tile(c, s)) return -1;
  const Type *t = &s->out[0]->type;
  int width = t->dtype == TS_DT_bool ? 1 : 8 * info(t)->nbytes;
  if (width >= 64 || (uint64_t)ATTR("value")->i >> width == 0) return 0;
  return WRONG(TS_ERR_value, "%lld has more than the %d bits of %s",
               (long long)ATTR("value")->i, width, ts_tile_shown(c, t));
}

static int check_dim(Check *c, const Stmt *s) {
  Type index = ts_tile_scalar(TS_DT_i64);
  int64_t i = ATTR("index")->i;
  if (i < 0 || i >= c->k->ndim)
    return WRONG(TS_ERR_index, "the kernel has %d sizes, none of index %lld", c->k->ndim,
                 (long long)i);
  return gives(c, s, &index);
}

static int check_iota(Check *c, const Stmt *s) {
  if (gives_tile(c, s)) return -1;
  const Type *t = &s->out[0]->type;
  if (!(info(t)->kind & INTEGER))
    return WRONG(TS_ERR_dtype, "gives integers, not %s", ts_tile_shown(c, t));
  return axis_in(c, s, t->rank, t);
}

static int check_broadcast(Check *c, const Stmt *s) {
  if (gives_tile(c, s)) return -1;
  const Type *from = &s->in[0]->type, *to = &s->out[0]->type;
  const TsAttr *axes = ATTR("axes");
  if (axes_in(c, s, "axes", from->rank, true, to)) return -1;
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

static int check_reshape(Check *c, const Stmt *s) {
  if (gives_tile(c, s)) return -1;
  const Type *from = &s->in[0]->type, *to = &s->out[0]->type;
  if (from->dtype == to->dtype && from->space == to->space && same_numel(from, to)) return 0;
  return WRONG(TS_ERR_shape, "%s has not the elements of %s", ts_tile_shown(c, to),
               ts_tile_shown(c, from));
}

static int check_transpose(Check *c, const Stmt *s) {
  const Type *from = &s->in[0]->type;
  Type to = *from;
  if (axes_in(c, s, "perm", from->rank, false, from)) return -1;
  for (int i = 0; i < from->rank; i++) to.dim[i] = from->dim[ATTR("perm")->ints[i]];
  if (gives(c, s, &to)) return -1;
  if (c->k->form != TS_FORM_explicit || ts_tile_numel(from) <= TRANSPOSED) return 0;
  return WRONG(TS_ERR_shape, "the explicit form turns at most %d elements, not %s", TRANSPOSED,
               ts_tile_shown(c, from));
}

static int check_part(Check *c, const Stmt *s) {
  if (gives_tile(c, s)) return -1;
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

static int check_join(Check *c, const Stmt *s) {
  Type whole = s->in[0]->type;
  if (axis_in(c, s, whole.rank, &whole)) return -1;
  int axis = (int)ATTR("axis")->i;
  int64_t total = 0;
  for (int i = 0; i < s->nin; i++) {
    Type each = s->in[i]->type;
    int64_t n = each.rank > axis ? each.dim[axis] : 0;
    each.dim[axis] = whole.dim[axis];
    if (expect_type(c, s, "apart from the axis, operand", i, &each, &whole)) return -1;
    if (n < 0 || __builtin_add_overflow(total, n, &total))
      return WRONG(TS_ERR_shape, "operand %d, %s, has no static size along the axis", i,
                   ts_tile_shown(c, &s->in[i]->type));
  }
  whole.dim[axis] = total;
  return gives(c, s, &whole);
}

static int check_cast(Check *c, const Stmt *s) {
  if (gives_tile(c, s)) return -1;
  Type t = with_dtype(s->in[0]->type, (TsDtype)s->out[0]->type.dtype);
  return gives(c, s, &t);
}

static int check_bitcast(Check *c, const Stmt *s) {
  if (check_cast(c, s)) return -1;
  const Type *from = &s->in[0]->type, *to = &s->out[0]->type;
  bool plain = from->dtype != TS_DT_bool && to->dtype != TS_DT_bool;
  if (plain && info(from)->nbytes == info(to)->nbytes) return 0;
  return WRONG(TS_ERR_dtype, "%s and %s have not the same bits", ts_tile_shown(c, from),
               ts_tile_shown(c, to));
}

/* ---- integers */
static int integers(Check *c, const Stmt *s, bool compares) {
  if (kind_is(c, s, 0, INTEGER, "integers") || operand_is(c, s, 1, &s->in[0]->type)) return -1;
  Type t = s->in[0]->type;
  if (compares) t.dtype = TS_DT_bool;
  return gives(c, s, &t);
}

static int check_shl(Check *c, const Stmt *s) { return integers(c, s, false); }
static int check_shr(Check *c, const Stmt *s) { return integers(c, s, false); }
static int check_sar(Check *c, const Stmt *s) { return integers(c, s, false); }
static int check_mulhi(Check *c, const Stmt *s) { return integers(c, s, false); }
static int check_ult(Check *c, const Stmt *s) { return integers(c, s, true); }

static int check_random(Check *c, const Stmt *s) {
  Type index = ts_tile_scalar(TS_DT_i64);
  for (int i = 0; i < 3; i++)
    if (operand_is(c, s, i, &index)) return -1;
  if (gives_tile(c, s)) return -1;
  const Type *t = &s->out[0]->type;
  if (t->dtype == TS_DT_i32 && t->rank < 2 && !(t->rank && ts_tile_dim_is(t->dim[0]))) return 0;
  return WRONG(TS_ERR_shape, "gives i32 of at most one axis, not %s", ts_tile_shown(c, t));
}

/* ---- floats */
static int check_scale(Check *c, const Stmt *s) {
  if (kind_is(c, s, 0, TS_KIND_F, "f32 or f64") || operand_is(c, s, 1, &s->in[0]->type)) return -1;
  return gives(c, s, &s->in[0]->type);
}

static int is_single(Check *c, const Stmt *s) {
  if (s->in[0]->type.dtype == TS_DT_f32) return gives(c, s, &s->in[0]->type);
  return WRONG(TS_ERR_dtype, "takes f32, not %s", ts_tile_shown(c, &s->in[0]->type));
}
static int check_ex2(Check *c, const Stmt *s) { return is_single(c, s); }
static int check_inv(Check *c, const Stmt *s) { return is_single(c, s); }
static int check_lg2(Check *c, const Stmt *s) { return is_single(c, s); }
static int check_rare(Check *c, const Stmt *s) {
  Type t = with_dtype(s->in[1]->type, TS_DT_bool);
  return operand_is(c, s, 0, &t) || operand_is(c, s, 2, &s->in[1]->type) ||
                 gives(c, s, &s->in[1]->type)
             ? -1
             : 0;
}
static int check_larger(Check *c, const Stmt *s) {
  return operand_is(c, s, 1, &s->in[0]->type) || is_single(c, s) ? -1 : 0;
}

/* ---- over axes */
/* Sums and products have the type that the row's operands add up in; extremes keep it. */
static int reduction(Check *c, const Stmt *s, TsDtype to) {
  const Type *t = &s->in[0]->type;
  if (kind_is(c, s, 0, NUMBER | TS_KIND_B, "f32, f64, integers or bool") ||
      axis_in(c, s, t->rank, t))
    return -1;
  int axis = (int)ATTR("axis")->i;
  Type r = with_dtype(without_axis(*t, axis), to);
  if (gives(c, s, &r)) return -1;
  if (c->k->form != TS_FORM_explicit) return 0;
  if (t->rank == 1 && !(t->dim[0] & (t->dim[0] - 1))) return 0;
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
  return explicit_never(c, s) || some_element(c, s) || reduction(c, s, TS_DT_i64) ? -1 : 0;
}

static int check_sum(Check *c, const Stmt *s) { return accumulation(c, s); }
static int check_pairs(Check *c, const Stmt *s) { return accumulation(c, s); }
static int check_prod(Check *c, const Stmt *s) { return accumulation(c, s); }
static int check_max(Check *c, const Stmt *s) { return extreme(c, s); }
static int check_min(Check *c, const Stmt *s) { return extreme(c, s); }
static int check_argmax(Check *c, const Stmt *s) { return place(c, s); }
static int check_argmin(Check *c, const Stmt *s) { return place(c, s); }

/* ---- contractions */
/* a[m,k] b[k,n], or a[m] b[n] without k: floats of one type; narrow ones add up in f32. */
static int product(Check *c, const Stmt *s, bool deep) {
  const Type *a = &s->in[0]->type, *b = &s->in[1]->type;
  int rank = 1 + deep;
  bool fits = a->rank == rank && b->rank == rank && a->dtype == b->dtype &&
              a->space == b->space && info(a)->kind == TS_KIND_F &&
              (!deep || a->dim[1] == b->dim[0]);
  if (!fits)
    return WRONG(TS_ERR_shape, "%s %s and %s", deep ? "no matrix product of" : "no product of",
                 ts_tile_shown(c, a), ts_tile_shown(c, b));
  Type acc = {.dtype = info(a)->accum, .rank = 2, .space = s->in[2]->type.space};
  acc.dim[0] = a->dim[0];
  acc.dim[1] = b->dim[deep];
  return operand_is(c, s, 2, &acc) || gives(c, s, &acc) ? -1 : 0;
}

static int check_mma(Check *c, const Stmt *s) {
  const TsAttr *unit = ATTR("unit");
  bool named = unit->type == TS_ATTR_str && unit->str && *unit->str;
  if (c->k->form == TS_FORM_explicit && !named)
    return WRONG(TS_ERR_attribute, "the explicit form names the unit");
  return product(c, s, true);
}

static int check_outer(Check *c, const Stmt *s) { return product(c, s, false); }

/* ---- of processors with many threads */
static int within(Check *c, const Stmt *s, const char *name, int64_t lo, int64_t hi,
                  int64_t multiple) {
  const TsAttr *a = ATTR(name);
  if (a->type == TS_ATTR_none || (a->i >= lo && a->i <= hi && a->i % multiple == 0)) return 0;
  return WRONG(TS_ERR_attribute, "option '%s' is a multiple of %lld in %lld..%lld, not %lld",
               name, (long long)multiple, (long long)lo, (long long)hi, (long long)a->i);
}

static int check_program(Check *c, const Stmt *s) {
  Type index = ts_tile_scalar(TS_DT_i64);
  int64_t axis = ATTR("axis")->i;
  if (axis < 0 || axis >= c->grid)
    return WRONG(TS_ERR_index, "%d parallel loops are around it, none of axis %lld", c->grid,
                 (long long)axis);
  return gives(c, s, &index);
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

/* first: where positions begin; in what is written there may be none. */
static int copy(Check *c, const Stmt *s, int first, bool edge) {
  const Type *to = &s->in[0]->type, *from = &s->in[1]->type;
  Type tile;
  int nto = s->nin - first - from->rank;
  if (gives_nothing(c, s) || check_written(c, s) || copied(c, s, &tile)) return -1;
  if (nto || ATTR("shape")->type != TS_ATTR_none)
    if (positions_in(c, s, 0, first, nto)) return -1;
  if (positions_in(c, s, 1, first + nto, s->nin - first - nto)) return -1;
  return check_extent(c, s, to, &tile, edge, NULL) ||
                 check_extent(c, s, from, &tile, edge, NULL)
             ? -1
             : 0;
}

static int between(Check *c, const Stmt *s, bool fits) {
  if (fits) return 0;
  return WRONG(TS_ERR_argument, "does not copy to %s from %s",
               ts_tile_shown(c, &s->in[0]->type), ts_tile_shown(c, &s->in[1]->type));
}

static int check_copy_async(Check *c, const Stmt *s) {
  const Type *to = &s->in[0]->type, *from = &s->in[1]->type;
  int64_t bytes = ATTR("bytes")->i;
  if (ATTR("bytes")->type != TS_ATTR_none && bytes != 4 && bytes != 8 && bytes != 16)
    return WRONG(TS_ERR_attribute, "copies 4, 8 or 16 bytes at a time, not %lld",
                 (long long)bytes);
  return between(c, s, is_of_block(to) && is_of_device(from)) || copy(c, s, 2, false) ? -1 : 0;
}

static int check_copy_bulk(Check *c, const Stmt *s) {
  const Type *to = &s->in[0]->type, *from = &s->in[1]->type;
  if (positions_in(c, s, 2, 3, 1)) return -1;
  bool fits =
      (is_of_block(to) && is_of_device(from)) || (is_of_device(to) && is_of_block(from));
  return between(c, s, fits) || copy(c, s, 4, true) ? -1 : 0;
}

static int check_store_bulk(Check *c, const Stmt *s) {
  const Type *to = &s->in[0]->type, *from = &s->in[1]->type;
  bool fits = to->space > TS_SPACE_fragment && is_of_device(to) && is_of_block(from);
  if (ATTR("add")->i && to->dtype != TS_DT_f32)
    return WRONG(TS_ERR_dtype, "adds f32, not %s", ts_tile_shown(c, to));
  return between(c, s, fits) || copy(c, s, 2, true) ? -1 : 0;
}

static int check_commit(Check *c, const Stmt *s) { return gives_nothing(c, s); }

static int check_wait(Check *c, const Stmt *s) {
  return within(c, s, "pending", 0, INT32_MAX, 1) || gives_nothing(c, s) ? -1 : 0;
}

static int check_expect(Check *c, const Stmt *s) {
  return check_positions(c, s) || within(c, s, "bytes", 1, (1 << 20) - 1, 1) ||
                 gives_nothing(c, s)
             ? -1
             : 0;
}

static int check_arrive(Check *c, const Stmt *s) {
  return check_positions(c, s) || gives_nothing(c, s) ? -1 : 0;
}

static int check_await(Check *c, const Stmt *s) {
  return check_positions(c, s) || index_is(c, s, s->nin - 1) || gives_nothing(c, s) ? -1 : 0;
}

static int check_barrier(Check *c, const Stmt *s) {
  return within(c, s, "name", 0, NAMED_BARRIERS - 1, 1) ||
                 within(c, s, "threads", WARP, 1024, WARP) || gives_nothing(c, s)
             ? -1
             : 0;
}

static int check_sync(Check *c, const Stmt *s) {
  if (!c->roles) return WRONG(TS_ERR_argument, "stands in no role");
  return gives_nothing(c, s);
}

static int check_pace(Check *c, const Stmt *s) {
  Type counters = ts_tile_type(TS_DT_i32, 1, (int64_t[]){3});
  counters.space = TS_SPACE_scratch;
  if (!ts_tile_type_same(&s->in[0]->type, &counters))
    return WRONG(TS_ERR_argument, "counts in %s, not in i32[3] of scratch",
                 ts_tile_shown(c, &s->in[0]->type));
  return check_positions(c, s) || index_is(c, s, 2) || gives_nothing(c, s) ? -1 : 0;
}

static int check_fence(Check *c, const Stmt *s) { return gives_nothing(c, s); }

static int check_registers(Check *c, const Stmt *s) {
  if (!c->roles) return WRONG(TS_ERR_argument, "stands in no role");
  return within(c, s, "count", FEWEST_REGISTERS, MOST_REGISTERS, 8) || gives_nothing(c, s) ? -1
                                                                                           : 0;
}

/* To [m,4] from whole blocks of 8 columns, to [m] from [m,4]. */
static int check_quarter(Check *c, const Stmt *s) {
  Type t = s->in[0]->type;
  if (t.space != TS_SPACE_fragment || t.rank != 2 || t.dtype != TS_DT_f32 || t.dim[1] % 8)
    return WRONG(TS_ERR_shape, "takes fragments f32[m,8n], not %s", ts_tile_shown(c, &t));
  t.dim[1] = 4;
  return gives(c, s, &t);
}

static int check_row(Check *c, const Stmt *s) {
  Type t = s->in[0]->type;
  if (t.space != TS_SPACE_fragment || t.rank != 2 || t.dtype != TS_DT_f32 || t.dim[1] != 4)
    return WRONG(TS_ERR_shape, "takes fragments f32[m,4], not %s", ts_tile_shown(c, &t));
  t.rank = 1;
  return gives(c, s, &t);
}

static int check_claim(Check *c, const Stmt *s) {
  Type index = ts_tile_scalar(TS_DT_i64);
  const Type *t = &s->in[0]->type;
  if (t->dtype != TS_DT_i32 || !is_of_device(t))
    return WRONG(TS_ERR_dtype, "counters are i32 of the device, not %s", ts_tile_shown(c, t));
  return check_positions(c, s) || index_is(c, s, s->nin - 1) || check_written(c, s) ||
                 gives(c, s, &index)
             ? -1
             : 0;
}

/* A number of the device that roles of several blocks look at. */
static int check_until(Check *c, const Stmt *s) {
  const Type *t = &s->in[0]->type;
  if (t->dtype != TS_DT_i32 || !is_of_device(t))
    return WRONG(TS_ERR_dtype, "signals are i32 of the device, not %s", ts_tile_shown(c, t));
  return check_positions(c, s) || index_is(c, s, s->nin - 1) || gives_nothing(c, s) ? -1 : 0;
}
static int check_signal(Check *c, const Stmt *s) {
  return check_until(c, s) || check_written(c, s) ? -1 : 0;
}

static int check_turn(Check *c, const Stmt *s) {
  if (!c->roles) return WRONG(TS_ERR_argument, "stands in no role");
  return gives_nothing(c, s);
}

static int check_mark(Check *c, const Stmt *s) { return gives_nothing(c, s); }

static int (*const rules[])(Check *, const Stmt *) = {
#define TILE(name, operands, regions, attrs, help) check_##name,
#include "ir/tile.def"
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
  Type t = s->in[first]->type, condition = with_dtype(t, TS_DT_bool);
  char kinds[32];
  if (o->cls != TS_CLASS_POINTWISE) return WRONG(TS_ERR_argument, "is not pointwise");
  if (first && operand_is(c, s, 0, &condition)) return -1;
  if (kind_is(c, s, first, o->types & ~TS_KIND_C, kinds_text(o->types, kinds))) return -1;
  for (int i = first + 1; i < s->nin; i++)
    if (operand_is(c, s, i, &t)) return -1;
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
  t = with_dtype(t, (TsDtype)inf.out[0].dtype);
  return gives(c, s, &t);
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
  if (check_memory_operands(c, s)) return -1;
  return s->op < TS_OP_COUNT ? check_pointwise(c, s) : rules[s->op - TS_OP_COUNT](c, s);
}
