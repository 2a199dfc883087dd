/* permutation and categorical: random rows that look at many elements at once. */
#include <math.h>

#include "devices/cpu_pool.h"
#include "devices/memory.h"
#include "vm/core/exec.h"
#include "vm/drive/random.h"
#include "vm/drive/sort.h"

/* ---- permutation: the order of n random 64-bit keys; equal ones keep theirs */
typedef struct Keys {
  const TsKernels *k;
  uint64_t seed, stream, *key;
} Keys;

static void make_keys(void *arg, int64_t lo, int64_t hi, int worker) {
  const Keys *j = arg;
  (void)worker;
  j->k->random.bits64(j->seed, j->stream, (uint64_t)lo, hi - lo,
                      j->key + lo * TS_RANDOM_GROUP64);
}

int ts_random_permutation(TsCall *call, uint64_t seed, uint64_t stream) {
  TsContext *c = call->ctx;
  TsTensor *y = call->out[0];
  TsDtype d = ts_tensor_dtype(y);
  int64_t n = call->attr[0].i, groups = (n + TS_RANDOM_GROUP64 - 1) / TS_RANDOM_GROUP64, lo, hi;
  if (ts_dtype_is(d, TS_KIND_B | TS_KIND_U | TS_KIND_I)) {
    ts_dtype_int_range(d, &lo, &hi);
    if (n - 1 > hi)
      return ts_error_set(&c->err, TS_ERR_value, "permutation: %lld does not fit into %s",
                          (long long)n - 1, ts_dtype_name(d));
  }
  int64_t whole = groups * TS_RANDOM_GROUP64, nbytes = 8 * (whole + n) + ts_sort_spare(n, 64);
  Keys j = {c->k, seed, stream, ts_memory_alloc(nbytes)};
  void *dst = j.key ? ts_tensor_write(y) : NULL;
  if (dst) {
    int64_t *index = (int64_t *)j.key + whole;
    ts_cpu_parallel(groups, 256, make_keys, &j);
    ts_sort_index_parallel(n, 64, j.key, index, index + n);
    if (d == TS_DT_i64)
      __builtin_memcpy(dst, index, (size_t)n * sizeof *index);
    else
      c->k->convert.convert[TS_DT_i64][d](n, dst, index);
  }
  if (j.key)
    ts_memory_free(j.key, nbytes);
  else
    ts_error_set(&c->err, TS_ERR_memory, "out of memory: %lld bytes to sort",
                 (long long)nbytes);
  return dst ? 0 : -1;
}

/* ---- categorical: the largest of logits plus Gumbel numbers. Sample s of row r adds
 * the numbers of elements ((r count) + s) classes + class. Beside +inf nothing else is drawn,
 * and of several the one with the largest number, as of equal logits that grow. */
enum { BLOCK = 1024 };

typedef struct Job {
  const TsKernels *k;
  uint64_t seed, stream;
  bool wide;
  const char *x;
  int64_t classes, count;
  int64_t *y;
} Job;

typedef union Staged {
  _Alignas(64) uint32_t bits32[BLOCK + TS_RANDOM_GROUP32];
  uint64_t bits64[BLOCK + TS_RANDOM_GROUP32];
  float f32[BLOCK];
  double f64[BLOCK];
} Staged;

/* 0 where the logit is +inf, else -inf. */
static const char *infinite(const Job *j, const char *x, int64_t n, Staged *to) {
  for (int64_t i = 0; i < n; i++) {
    if (j->wide)
      to->f64[i] = ((const double *)(const void *)x)[i] == HUGE_VAL ? 0 : -HUGE_VAL;
    else
      to->f32[i] = ((const float *)(const void *)x)[i] == HUGE_VALF ? 0 : -HUGE_VALF;
  }
  return (const char *)to;
}

/* Noisy logits of classes at .. at + n - 1 of draw `draw`; or (ties) noise where they are +inf. */
static void add_noise(const Job *j, int64_t draw, int64_t at, int64_t n, bool ties, Staged *y) {
  Staged bits, own;
  const TsRandomKernels *k = &j->k->random;
  int64_t each = j->wide ? TS_RANDOM_GROUP64 : TS_RANDOM_GROUP32;
  int64_t first = draw * j->classes + at, group = first / each, skip = first % each;
  int64_t groups = (skip + n + each - 1) / each;
  const char *x = j->x + (draw / j->count * j->classes + at) * (j->wide ? 8 : 4);
  if (ties) x = infinite(j, x, n, &own);
  if (j->wide) {
    k->bits64(j->seed, j->stream, (uint64_t)group, groups, bits.bits64);
    k->gumbel[1](n, y, bits.bits64 + skip, x);
  } else {
    k->bits32(j->seed, j->stream, (uint64_t)group, groups, bits.bits32);
    k->gumbel[0](n, y, bits.bits32 + skip, x);
  }
}

/* -1 if no class is possible, or a logit is NaN. */
static int64_t largest(const Job *j, int64_t draw, bool ties, double *value) {
  double most = -INFINITY;
  int64_t best = -1;
  for (int64_t at = 0; at < j->classes; at += BLOCK) {
    if (ts_cpu_interrupted()) return -1;
    Staged y;
    int64_t n = j->classes - at < BLOCK ? j->classes - at : BLOCK;
    add_noise(j, draw, at, n, ties, &y);
    for (int64_t i = 0; i < n; i++) {
      double v = j->wide ? y.f64[i] : (double)y.f32[i];
      if (v != v) return -1;
      if (v > most) most = v, best = at + i;
    }
  }
  *value = most;
  return best;
}

static int64_t draw_class(const Job *j, int64_t draw) {
  double value;
  int64_t best = largest(j, draw, false, &value);
  return best >= 0 && value == INFINITY ? largest(j, draw, true, &value) : best;
}

static void draw_classes(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) j->y[i] = draw_class(j, i);
}

static int check_drawn(TsCall *call, const Job *j, int64_t draws) {
  for (int64_t i = 0; i < draws && !ts_cpu_interrupted(); i++)
    if (j->y[i] < 0)
      return ts_error_set(&call->ctx->err, TS_ERR_value,
                          "categorical: row %lld has no class to draw: its logits are -inf, or "
                          "one is NaN",
                          (long long)(i / j->count));
  return 0;
}

int ts_random_categorical(TsCall *call, uint64_t seed, uint64_t stream) {
  TsContext *c = call->ctx;
  const TsMeta *m = &call->in[0]->meta;
  bool wide = m->dtype == TS_DT_f64;
  Job j = {.k = c->k,
           .seed = seed,
           .stream = stream,
           .wide = wide,
           .classes = m->dim[m->ndim - 1],
           .count = call->attr[0].i};
  int64_t draws = ts_tensor_numel(call->out[0]);
  if (draws == 0) return 0;
  TsTensor *x = ts_tensor_cast(c, call->in[0], wide ? TS_DT_f64 : TS_DT_f32);
  j.x = x ? ts_tensor_read(x) : NULL;
  j.y = j.x ? ts_tensor_write(call->out[0]) : NULL;
  if (j.y) ts_cpu_parallel(draws, (1 << 14) / j.classes + 1, draw_classes, &j);
  ts_tensor_unref(x);
  return j.y ? check_drawn(call, &j, draws) : -1;
}
