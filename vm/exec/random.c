/* RANDOM rows. A block of elements is made in the first-level cache: bits, then
 * numbers in f32, f64, i64 or bool, then the storage type. Every element depends on
 * seed, stream and its own index only. */
#include "vm/drive/random.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "lib/narrow.h"
#include "vm/core/exec.h"

enum { BLOCK = 1024, GRAIN = 32 }; /* elements staged at once; blocks a thread takes */

typedef struct Job {
  const TsKernels *k;
  TsOp op;
  bool wide; /* 64 bits an element */
  uint64_t seed, stream;
  double low, width, top;     /* uniform; truncated_normal: of the distribution function */
  double mean, std, min, max; /* normal and truncated_normal; limits before mean and std */
  double p, scale;            /* bernoulli, dropout */
  int64_t first;              /* randint: least value and number of values */
  uint64_t range;
  TsConvertFn *convert, *widen; /* made -> stored; dropout's input -> f32 */
  int made_size, size;          /* bytes of an element, as made and as stored */
  int64_t lo, hi;               /* the elements wanted */
  char *dst;                    /* of element lo */
  const char *x;                /* of dropout: its element lo */
} Job;

typedef union Staged {
  _Alignas(64) uint32_t bits32[BLOCK];
  uint64_t bits64[BLOCK];
} Staged;

/* The seed and stream stand last in every row. Negative streams count from the one at which
 * the running function began: -1 is its first random call. */
void ts_random_pick(TsContext *c, const TsAttr *at, uint64_t *seed, uint64_t *stream) {
  bool has_seed = at[0].type != TS_ATTR_none, has_stream = at[1].type != TS_ATTR_none;
  *seed = has_seed ? (uint64_t)at[0].i : c->seed;
  *stream = has_stream ? (uint64_t)at[1].i : has_seed ? 0 : c->stream++;
  if (has_stream && at[1].i < 0) *stream = c->stream_base + (uint64_t)(-1 - at[1].i);
}

void ts_random_pin(TsContext *c, TsAttr *at) {
  uint64_t seed, stream;
  ts_random_pick(c, at, &seed, &stream);
  at[0] = ts_attr_int((int64_t)seed);
  at[1] = ts_attr_int((int64_t)stream);
}

/* ---- parts of larger tensors */
typedef struct Runs {
  const TsRandomBox *box;
  void (*run)(void *arg, int64_t own, int64_t whole, int64_t count);
  void *arg;
  int last; /* axis that is split; elements of those behind it are neighbours */
  int64_t inner, own;
} Runs;

static void each_run(Runs *r, int d, int64_t whole) {
  const TsMeta *m = r->box->whole;
  int64_t start, count;
  for (int i = 0; ts_layout_run(r->box->layout, d, m->dim[d], r->box->part, i, &start, &count);
       i++) {
    if (d == r->last) {
      r->run(r->arg, r->own, (whole * m->dim[d] + start) * r->inner, count * r->inner);
      r->own += count * r->inner;
      continue;
    }
    for (int64_t k = start; k < start + count; k++) each_run(r, d + 1, whole * m->dim[d] + k);
  }
}

void ts_random_runs(const TsRandomBox *box, int64_t n,
                    void (*run)(void *arg, int64_t own, int64_t whole, int64_t count),
                    void *arg) {
  Runs r = {.box = box, .run = run, .arg = arg, .last = -1, .inner = 1};
  for (int d = 0; box && d < box->whole->ndim; d++)
    if (box->layout->naxis[d]) r.last = d;
  for (int d = r.last + 1; r.last >= 0 && d < box->whole->ndim; d++)
    r.inner *= box->whole->dim[d];
  if (r.last >= 0)
    each_run(&r, 0, 0);
  else
    run(arg, 0, 0, n);
}

/* ---- one block: n elements from `first`, which begins a group */
static void make_truncated(const Job *j, int64_t n, const Staged *bits, void *y) {
  double z[BLOCK];
  j->k->random.quantile[j->wide](n, z, bits, j->low, j->width, j->min, j->max);
  for (int64_t i = 0; i < n; i++) {
    double v = j->mean + j->std * z[i];
    if (j->wide)
      ((double *)y)[i] = v;
    else
      ((float *)y)[i] = (float)v;
  }
}

static void make_integers(const Job *j, int64_t n, const Staged *bits, int64_t *y) {
  for (int64_t i = 0; i < n; i++) {
    uint64_t v = (uint64_t)(((unsigned __int128)bits->bits64[i] * j->range) >> 64);
    y[i] = (int64_t)((uint64_t)j->first + v);
  }
}

/* Of a part the first elements of the group are another's. */
static void make_dropout(const Job *j, int64_t first, int64_t n, const Staged *bits, void *y) {
  Staged own;
  int64_t skip = first < j->lo ? j->lo - first : 0;
  const void *x = j->x + (first + skip - j->lo) * j->size;
  if (j->widen || skip) {
    char *to = (char *)&own + skip * j->made_size;
    memset(&own, 0, (size_t)(skip * j->made_size));
    if (j->widen)
      j->widen(n - skip, to, x);
    else
      memcpy(to, x, (size_t)((n - skip) * j->size));
    x = &own;
  }
  j->k->random.dropout[j->wide](n, y, bits, x, j->p, j->scale);
}

static void make(const Job *j, int64_t first, int64_t n, void *y) {
  const TsRandomKernels *k = &j->k->random;
  Staged bits;
  int64_t each = j->wide ? TS_RANDOM_GROUP64 : TS_RANDOM_GROUP32;
  int64_t groups = (n + each - 1) / each, whole = groups * each;
  uint64_t group = (uint64_t)(first / each);
  if (j->wide)
    k->bits64(j->seed, j->stream, group, groups, bits.bits64);
  else
    k->bits32(j->seed, j->stream, group, groups, bits.bits32);
  switch ((int)j->op) {
  case TS_OP_uniform: k->uniform[j->wide](whole, y, &bits, j->low, j->width, j->top); break;
  case TS_OP_normal: k->normal[j->wide](whole, y, &bits, j->mean, j->std); break;
  case TS_OP_truncated_normal: make_truncated(j, whole, &bits, y); break;
  case TS_OP_bernoulli: k->below(n, y, bits.bits32, j->p); break;
  case TS_OP_randint: make_integers(j, n, &bits, y); break;
  case TS_OP_dropout: make_dropout(j, first, n, &bits, y); break;
  default: TS_BUG("%s makes no blocks", ts_op_info(j->op)->name);
  }
}

static void fill_blocks(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  Staged y;
  (void)worker;
  int64_t group = j->wide ? TS_RANDOM_GROUP64 : TS_RANDOM_GROUP32;
  for (int64_t b = lo; b < hi; b++) {
    int64_t first = (j->lo / BLOCK + b) * BLOCK;
    int64_t from = first < j->lo ? j->lo : first;
    int64_t to = first + BLOCK < j->hi ? first + BLOCK : j->hi;
    first = from / group * group;
    char *dst = j->dst + (from - j->lo) * j->size;
    if (!j->convert && from == first && to - first == BLOCK) {
      make(j, first, BLOCK, dst);
      continue;
    }
    make(j, first, to - first, &y);
    const char *made = (const char *)&y + (from - first) * j->made_size;
    if (j->convert)
      j->convert(to - from, dst, made);
    else
      memcpy(dst, made, (size_t)((to - from) * j->size));
  }
}

static void fill(Job *j) {
  if (j->lo < j->hi)
    ts_cpu_parallel((j->hi - 1) / BLOCK - j->lo / BLOCK + 1, GRAIN, fill_blocks, j);
}

/* ---- attributes to numbers */
static int bad(TsContext *c, TsOp op, const char *format, double x, double y) {
  char text[128];
  snprintf(text, sizeof text, format, x, y);
  return ts_error_set(&c->err, TS_ERR_value, "%s: %s", ts_op_info(op)->name, text);
}

static void made_in(Job *j, TsDtype made, TsDtype stored) {
  j->made_size = ts_dtypes[made].nbytes;
  j->size = ts_dtypes[stored].nbytes;
  j->convert = made == stored ? NULL : j->k->convert.convert[made][stored];
}

static int float_only(TsContext *c, Job *j, TsDtype d) {
  if (!ts_dtype_is(d, TS_KIND_F)) {
    ts_error_set(&c->err, TS_ERR_dtype, "%s: makes floats, not %s", ts_op_info(j->op)->name,
                 ts_dtype_name(d));
    return ts_error_hint(&c->err, "whole numbers come from randint");
  }
  j->wide = d == TS_DT_f64;
  made_in(j, j->wide ? TS_DT_f64 : TS_DT_f32, d);
  return 0;
}

static int set_uniform(TsContext *c, Job *j, const TsAttr *attr, TsDtype d) {
  double low = attr[1].f, high = attr[2].f;
  if (float_only(c, j, d)) return -1;
  double width = j->wide ? high - low : (double)((float)high - (float)low);
  if (!isfinite(width) || low > high)
    return bad(c, j->op, "there is no interval from %g to %g", low, high);
  j->low = low, j->width = width;
  j->top = low < high ? ts_narrow_below(d, high) : high;
  return 0;
}

static int set_normal(TsContext *c, Job *j, const TsAttr *attr, TsDtype d) {
  j->mean = attr[1].f, j->std = attr[2].f;
  if (float_only(c, j, d)) return -1;
  if (j->std >= 0 && isfinite(j->std) && isfinite(j->mean)) return 0;
  return bad(c, j->op, "no distribution with mean %g and std %g", j->mean, j->std);
}

/* An interval above 0 is the mirror image of one below, where the distribution
 * function has small values and full precision. */
static int set_truncated(TsContext *c, Job *j, const TsAttr *attr, TsDtype d) {
  double low = attr[3].f, high = attr[4].f;
  if (set_normal(c, j, attr, d)) return -1;
  bool mirror = low > 0;
  j->min = mirror ? -high : low, j->max = mirror ? -low : high;
  if (mirror) j->std = -j->std;
  j->low = j->k->random.phi(j->min);
  j->width = j->k->random.phi(j->max) - j->low;
  if (low < high && j->width > 0) return 0;
  return bad(c, j->op, "nothing lies between %g and %g", low, high);
}

static int set_p(TsContext *c, Job *j, double p) {
  j->p = p;
  j->scale = 1 / (1 - p);
  return p >= 0 && p <= 1 ? 0 : bad(c, j->op, "p = %g is no probability", p, 0);
}

static int set_bernoulli(TsContext *c, Job *j, const TsAttr *attr, TsDtype d) {
  made_in(j, TS_DT_bool, d);
  return set_p(c, j, attr[1].f);
}

static int set_randint(TsContext *c, Job *j, const TsAttr *attr, TsDtype d) {
  int64_t low = attr[1].i, high = attr[2].i, least, most;
  const char *name = ts_op_info(j->op)->name;
  if (low >= high)
    return ts_error_set(&c->err, TS_ERR_value, "%s: no whole number in [%lld, %lld)", name,
                        (long long)low, (long long)high);
  if (ts_dtype_is(d, TS_KIND_B | TS_KIND_U | TS_KIND_I)) {
    ts_dtype_int_range(d, &least, &most);
    if (low < least || high - 1 > most)
      return ts_error_set(&c->err, TS_ERR_value, "%s: [%lld, %lld) does not fit into %s", name,
                          (long long)low, (long long)high, ts_dtype_name(d));
  }
  j->wide = true;
  j->first = low;
  j->range = (uint64_t)high - (uint64_t)low;
  made_in(j, TS_DT_i64, d);
  return 0;
}

static int set(TsContext *c, Job *j, const TsAttr *attr, TsDtype d) {
  switch ((int)j->op) {
  case TS_OP_uniform: return set_uniform(c, j, attr, d);
  case TS_OP_normal: return set_normal(c, j, attr, d);
  case TS_OP_truncated_normal: return set_truncated(c, j, attr, d);
  case TS_OP_bernoulli: return set_bernoulli(c, j, attr, d);
  default: return set_randint(c, j, attr, d);
  }
}

int ts_random_fill(TsContext *c, TsOp op, const TsAttr *attr, TsDtype d, uint64_t seed,
                   uint64_t stream, int64_t lo, int64_t hi, void *dst) {
  Job j = {.k = c->k, .op = op, .seed = seed, .stream = stream, .lo = lo, .hi = hi, .dst = dst};
  if (set(c, &j, attr, d)) return -1;
  fill(&j);
  return 0;
}

/* ---- rows */
typedef struct Stretch {
  const Job *j;
  const char *x;
  char *dst;
} Stretch;

static void fill_run(void *arg, int64_t own, int64_t whole, int64_t count) {
  const Stretch *s = arg;
  Job j = *s->j;
  j.lo = whole, j.hi = whole + count;
  j.dst = s->dst + own * j.size;
  if (s->x) j.x = s->x + own * j.size;
  fill(&j);
}

static int dropout(TsCall *call, uint64_t seed, uint64_t stream) {
  TsContext *c = call->ctx;
  TsDtype d = ts_tensor_dtype(call->in[0]), made = d == TS_DT_f64 ? TS_DT_f64 : TS_DT_f32;
  Job j = {.k = c->k, .op = call->op, .wide = d == TS_DT_f64, .seed = seed, .stream = stream};
  if (set_p(c, &j, call->attr[0].f)) return -1;
  TsTensor *x = ts_tensor_contiguous(c, call->in[0]);
  Stretch s = {.j = &j, .x = x ? ts_tensor_read(x) : NULL};
  s.dst = s.x ? ts_tensor_write(call->out[0]) : NULL;
  if (s.dst) {
    made_in(&j, made, d);
    j.widen = made == d ? NULL : c->k->convert.convert[d][made];
    ts_random_runs(c->box, ts_tensor_numel(x), fill_run, &s);
  }
  ts_tensor_unref(x);
  return s.dst ? 0 : -1;
}

static const TsAttr *seed_attr(const TsCall *call) {
  return call->attr + ts_op_info(call->op)->nattr - 2;
}

int ts_exec_random(TsCall *call) {
  uint64_t seed, stream;
  ts_random_pick(call->ctx, seed_attr(call), &seed, &stream);
  if (call->op == TS_OP_dropout) return dropout(call, seed, stream);
  if (call->op == TS_OP_permutation) return ts_random_permutation(call, seed, stream);
  if (call->op == TS_OP_categorical) return ts_random_categorical(call, seed, stream);
  TsContext *c = call->ctx;
  Job j = {.k = c->k, .op = call->op, .seed = seed, .stream = stream};
  Stretch s = {.j = &j, .dst = ts_tensor_write(call->out[0])};
  if (!s.dst || set(c, &j, call->attr, ts_tensor_dtype(call->out[0]))) return -1;
  ts_random_runs(c->box, ts_tensor_numel(call->out[0]), fill_run, &s);
  return 0;
}
