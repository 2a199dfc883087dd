/* Index tensors: the check is one pass of or-reductions; only a bad or a negative number
 * costs more. */
#include "vm/drive/index.h"

#include "devices/cpu_pool.h"

enum { GRAIN = 1 << 16 };

TsIndexSum ts_index_sum(TsDtype d) {
  switch ((int)d) {
  case TS_DT_f32: return TS_INDEX_SUM_f32;
  case TS_DT_f64: return TS_INDEX_SUM_f64;
  case TS_DT_complex64: return TS_INDEX_SUM_complex64;
  case TS_DT_complex128: return TS_INDEX_SUM_complex128;
  case TS_DT_i16: return TS_INDEX_SUM_u16;
  case TS_DT_i32: return TS_INDEX_SUM_u32;
  case TS_DT_i64: return TS_INDEX_SUM_u64;
  default: return TS_INDEX_SUM_u8;
  }
}

typedef struct Check {
  const int64_t *at;
  int64_t size;
  int bad, negative;
} Check;

static void check(void *arg, int64_t lo, int64_t hi, int worker) {
  Check *c = arg;
  uint64_t bad = 0, negative = 0, size = (uint64_t)c->size;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    uint64_t v = (uint64_t)c->at[i];
    uint64_t below = v >> 63;
    bad |= v + (below ? size : 0) >= size;
    negative |= below;
  }
  if (bad) __atomic_store_n(&c->bad, 1, __ATOMIC_RELAXED);
  if (negative) __atomic_store_n(&c->negative, 1, __ATOMIC_RELAXED);
}

int ts_index_wrong(TsCall *call, int axis, int64_t size, int64_t v) {
  TsError *e = &call->ctx->err;
  const char *name = ts_op_info(call->op)->name;
  char text[TS_META_TEXT];
  ts_meta_text(&call->in[0]->meta, text);
  if (axis == TS_INDEX_CLASS)
    ts_error_set(e, TS_ERR_index, "%s: class %lld is out of range for %lld classes", name,
                 (long long)v, (long long)size);
  else if (axis == TS_INDEX_SEGMENT)
    ts_error_set(e, TS_ERR_index, "%s: id %lld is out of range for %lld segments", name,
                 (long long)v, (long long)size);
  else if (axis == TS_INDEX_EXPERT)
    ts_error_set(e, TS_ERR_index, "%s: expert %lld is out of range for %lld experts", name,
                 (long long)v, (long long)size);
  else if (axis == TS_INDEX_START)
    ts_error_set(e, TS_ERR_index,
                 "%s: start %lld: the queries of %s do not lie in the pages of their table",
                 name, (long long)v, text);
  else if (axis == TS_INDEX_FLAT)
    ts_error_set(e, TS_ERR_index, "%s: index %lld is out of range for the %lld elements of %s",
                 name, (long long)v, (long long)size, text);
  else
    ts_error_set(e, TS_ERR_index,
                 "%s: index %lld is out of range for axis %d of %s, of size %lld", name,
                 (long long)v, axis, text, (long long)size);
  if (size == 0 && axis == TS_INDEX_START)
    return ts_error_hint(e, "a row of the table has fewer positions than there are queries");
  if (size == 0) return -1;
  if (axis < TS_INDEX_FLAT)
    return ts_error_hint(e, "they go from 0 to %lld", (long long)size - 1);
  return ts_error_hint(e, "indices go from 0 to %lld, or from -%lld to -1", (long long)size - 1,
                       (long long)size);
}

static int find_bad(TsCall *call, int axis, int64_t size, const TsIndex *ix, bool wraps) {
  for (int64_t i = 0; i < ix->n; i++) {
    int64_t v = ix->at[i];
    if (v >= size || v < (wraps ? -size : 0)) return ts_index_wrong(call, axis, size, v);
  }
  return 0;
}

/* A copy in which negative numbers are counted from the end. */
static int wrap(TsCall *call, int64_t size, TsIndex *ix) {
  TsTensor *t = ts_tensor_copy(call->ctx, ix->t);
  int64_t *at = t ? ts_tensor_write(t) : NULL;
  if (!at) {
    ts_tensor_unref(t);
    return -1;
  }
  for (int64_t i = 0; i < ix->n; i++) at[i] += at[i] < 0 ? size : 0;
  ts_tensor_unref(ix->t);
  ix->t = t;
  ix->at = at;
  return 0;
}

int ts_index_open(TsCall *call, int input, int axis, int64_t size, TsIndex *ix) {
  bool wraps = axis >= TS_INDEX_FLAT;
  ix->t = ts_tensor_cast(call->ctx, call->in[input], TS_DT_i64);
  ix->at = ix->t ? ts_tensor_read(ix->t) : NULL;
  ix->n = ix->t ? ts_tensor_numel(ix->t) : 0;
  int failed = ix->at ? 0 : -1;
  Check c = {.at = ix->at, .size = size};
  if (!failed) ts_cpu_parallel(ix->n, GRAIN, check, &c);
  if (!failed && ts_cpu_interrupted())
    failed = ts_error_set(&call->ctx->err, TS_ERR_interrupt, "%s: interrupted",
                          ts_op_info(call->op)->name);
  if (!failed && (c.bad || (c.negative && !wraps)))
    failed = find_bad(call, axis, size, ix, wraps);
  if (!failed && c.negative) failed = wrap(call, size, ix);
  if (failed) ts_index_close(ix);
  return failed;
}

void ts_index_close(TsIndex *ix) {
  ts_tensor_unref(ix->t);
  *ix = (TsIndex){0};
}
