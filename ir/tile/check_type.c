/* Types of values of Tile IR, and the words of its errors. See ir/tile/check.h. */
#include "ir/tile/check_rule.h"

#include <stdarg.h>
#include <stdio.h>

#include "ir/tile/pairs.h"
#include "ir/tile/text.h"

enum { LARGEST_EXTENT = 62 /* bits of an element count */ };

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

/* ---- types */
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
  if (c->cpu && t->space == TS_SPACE_fragment && c->k->form == TS_FORM_explicit &&
      ts_tile_pairs_register(t))
    return 0;
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
  if (t->rank > 2 || !ts_tile_rule_is_static(t))
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
  return check_sizes(c, s, t) || check_space(c, s, t) || check_swizzle(c, s, t) ||
                 check_split(c, s, t) || check_barrier_type(c, s, t) || check_register(c, s, t)
             ? -1
             : 0;
}

int64_t ts_tile_nbytes(const Type *t) {
  if (t->space == TS_SPACE_barrier) return t->rank ? 8 * t->dim[0] : 0;
  int64_t n = 1, step;
  if (!ts_tile_rule_is_static(t)) return -1;
  if (!t->strided) return ts_tile_numel(t) * info(t)->nbytes;
  for (int i = 0; i < t->rank; i++) {
    int64_t stride = t->stride[i] < 0 ? -t->stride[i] : t->stride[i];
    if (__builtin_mul_overflow(t->dim[i] - 1, stride, &step) ||
        __builtin_add_overflow(n, step, &n) || n < 0 || n > INT64_MAX / 16)
      return -1;
  }
  return n * info(t)->nbytes;
}
