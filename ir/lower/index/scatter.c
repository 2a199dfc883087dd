/* scatter, scatter_add, index_add, segment_reduce on a device, without atomics. Chains that lie
 * side by side go one after the other, a thread each; else what leads to one place is brought
 * together by sorting (ir/lower/index/meet.c). */
#include "ir/lower/index/scatter.h"

#include <math.h>
#include <string.h>

enum {
  FEW = 64,     /* elements of a chain that one thread takes, whatever there is beside it */
  MANY = 16384, /* chains that fill a device */
  LONG = 1024,  /* elements of a chain that one of many takes */
  SLICE = 32,   /* elements of a slice that is read as one */
};

typedef struct Job {
  TsSteps x;
  TsScatter s;
  const TsNode *n;
  int64_t count; /* elements of the map */
  int64_t numel; /* places that they lead to: elements of y, or its slices */
  bool over;     /* the result may lie over x */
  int of_src;    /* the operand that is read: the last one, of segments the first */
} Job;

static int64_t halvings(int64_t n) {
  int64_t steps = 0;
  while (n >> steps) steps++;
  return steps;
}

static int64_t numel(const Job *j, int i) { return ts_meta_numel(&j->n->in[i]->meta); }

/* The source, or its elements repeated as the index has them. */
static int src(Job *j) {
  const TsMeta *index = &j->n->in[1]->meta;
  bool by_element = j->n->op == TS_OP_scatter || j->n->op == TS_OP_scatter_add;
  return by_element
             ? ts_steps_in_spread(&j->x, j->of_src, index, (TsDtype)j->n->out[0].meta.dtype)
             : ts_steps_in(&j->x, j->of_src, NULL);
}

/* ---- steps */
/* Where elements lead, in order, and where each stood. */
static TsOrderRows sorted(Job *j) {
  TsSteps *x = &j->x;
  TsOrderRows r = {.rows = 1, .n = j->count, .bits = (int)halvings(j->numel), .own = true};
  int64_t dim[3] = {numel(j, 1), j->count, j->numel};
  r.key = ts_steps_temp(x, 4 * j->count);
  ts_steps_add(x, ts_scatter_leads(&j->s), (int[]){ts_steps_in(x, 1, NULL), r.key}, dim);
  ts_order_rows(x, &r);
  return r;
}

static void owners(Job *j) {
  TsSteps *x = &j->x;
  TsOrderRows r = sorted(j);
  int list[5] = {r.key, r.place, src(j)}, n = 3;
  if (!j->s.begins) list[n++] = ts_steps_in(x, 0, NULL);
  list[n++] = ts_steps_out(x, 0, NULL);
  int64_t all = j->of_src == 2 && j->n->op != TS_OP_index_add ? j->count : numel(j, j->of_src);
  int64_t dim[4] = {j->count, j->numel, all, halvings(j->count)};
  ts_steps_add(x, ts_scatter_owners(&j->s), list, dim);
}

static void slices(Job *j) {
  TsSteps *x = &j->x;
  TsOrderRows r = sorted(j);
  int start = ts_steps_temp(x, 4 * (j->numel + 1));
  int64_t dim[4] = {j->count, j->numel, j->numel + 1, halvings(j->count)};
  ts_steps_add(x, ts_scatter_starts(&j->s), (int[]){r.key, start}, dim);
  int list[5] = {start, r.place, src(j)}, n = 3;
  if (!j->s.begins) list[n++] = ts_steps_in(x, 0, NULL);
  list[n++] = ts_steps_out(x, 0, NULL);
  ts_steps_add(x, ts_scatter_slices(&j->s), list, dim);
}

/* y is x before, and may lie over it. */
static void lines(Job *j) {
  TsSteps *x = &j->x;
  int y = ts_steps_out(x, 0, NULL);
  int64_t all = j->numel;
  TsStepsView to = {y, j->s.d, {1}}, from = {ts_steps_in(x, 0, NULL), j->s.d, {1}};
  ts_steps_copy(x, 1, &all, &to, &from);
  if (!x->failed) x->sequence->step[x->sequence->n - 1].copies = j->over = true;
  int64_t dim[4] = {numel(j, 1), j->count, all, j->count / j->s.map.dim[j->s.axis]};
  ts_steps_add(x, ts_scatter_lines(&j->s), (int[]){ts_steps_in(x, 1, NULL), src(j), y}, dim);
}

/* ---- operators: each says what meets where, and by which steps; NULL: not for these operands */
typedef void Steps(Job *);

static bool adds(TsDtype d) {
  switch (d) {
  case TS_DT_f32:
  case TS_DT_f64:
  case TS_DT_i32:
  case TS_DT_i64:
  case TS_DT_f16:
  case TS_DT_bf16: return true;
  default: return false;
  }
}

/* Bare numbers become of the result's type, if they fit it. */
static bool is_type(const TsNode *n, int i, TsDtype d) {
  TsError err = {0};
  if (n->in[i]->node->op != TS_NODE_number) return n->in[i]->meta.dtype == d;
  return !ts_dtype_is(d, TS_KIND_C) &&
         !ts_dtype_check_number(d, n->in[i]->node->number, "", &err);
}

/* Of elements along an axis of equal rank. */
static Steps *scatter(Job *j, TsDtype d) {
  const TsNode *n = j->n;
  const TsMeta *y = &n->out[0].meta, *index = &n->in[1]->meta;
  bool add = n->op == TS_OP_scatter_add,
       moves = ts_dtypes[d].nbytes <= 8 && !ts_dtype_in_blocks(d);
  if (!(add ? adds(d) : moves) || !y->ndim || index->ndim != n->in[0]->meta.ndim) return NULL;
  if (!is_type(n, 0, d) || !is_type(n, 2, d)) return NULL;
  TsScatter *s = &j->s;
  s->meet = add ? MEET_sum : MEET_last;
  s->d = s->src = add ? d : ts_short_bits(d);
  s->acc = add ? (TsDtype)ts_dtypes[d].compute : s->d;
  s->axis = ts_steps_axis(y, n->attr[0].i).at;
  s->map = ts_index_map(y, index, s->axis);
  j->count = ts_meta_numel(index), j->numel = ts_meta_numel(y), j->of_src = 2;
  int64_t along = index->dim[s->axis], side = j->count / along;
  bool chains = along <= FEW || (side >= MANY && along <= LONG);
  return chains && s->acc == s->d ? lines : owners;
}

/* Slices of one axis: [outer, size, inner] of y, [outer, count, inner] of src. */
static Steps *meet_slices(Job *j, TsStepsAxis a) {
  TsScatter *s = &j->s;
  const TsMeta *index = &j->n->in[1]->meta, *y = &j->n->out[0].meta;
  s->d = s->src = (TsDtype)y->dtype;
  s->acc = (TsDtype)ts_dtypes[s->d].compute;
  s->outer = a.outer, s->inner = a.inner, s->axis = 1;
  bool whole = a.inner >= SLICE;
  TsStepsAxis one = {0, 1, a.n, 1};
  s->map = ts_index_map_slices(whole ? &one : &a, ts_meta_numel(index), (TsDtype)index->dtype);
  j->count = ts_index_map_count(&s->map);
  j->numel = whole ? a.n : ts_meta_numel(y);
  if (j->count > INT32_MAX || j->numel >= INT32_MAX) return NULL;
  return whole ? slices : owners;
}

static Steps *index_add(Job *j, TsDtype d) {
  const TsNode *n = j->n;
  const TsMeta *y = &n->out[0].meta;
  if (!adds(d) || !is_type(n, 0, d) || n->in[2]->meta.dtype != d || !y->ndim) return NULL;
  j->s.meet = MEET_sum, j->of_src = 2;
  return meet_slices(j, ts_steps_axis(y, n->attr[0].i));
}

/* The value of a segment without rows, as bits of the accumulator. */
static uint64_t empty(TsMeet meet, TsDtype acc) {
  bool least = meet == MEET_min, most = meet == MEET_max;
  double v = least ? INFINITY : most ? -INFINITY : meet == MEET_prod;
  float narrow = (float)v;
  int64_t lo, hi, whole = meet == MEET_prod;
  uint64_t bits = 0;
  if (acc == TS_DT_f64) memcpy(&bits, &v, 8);
  if (acc == TS_DT_f32) memcpy(&bits, &narrow, 4);
  if (ts_dtype_is(acc, TS_KIND_F)) return bits;
  ts_dtype_int_range(acc, &lo, &hi);
  if (least || most) whole = least ? hi : lo;
  memcpy(&bits, &whole, 8);
  return ts_dtypes[acc].nbytes == 4 ? (uint32_t)bits : bits;
}

static Steps *segment_reduce(Job *j, TsDtype d) {
  static const TsMeet meet[] = {MEET_sum, MEET_mean, MEET_prod, MEET_min, MEET_max};
  const TsNode *n = j->n;
  TsDtype acc = (TsDtype)ts_dtypes[d].compute;
  if (!adds(d) || !is_type(n, 0, d) || !n->in[0]->meta.ndim || n->attr[0].i < 1) return NULL;
  j->s.meet = meet[n->attr[1].i], j->s.begins = true, j->of_src = 0;
  if (j->s.meet == MEET_mean && !ts_dtype_is(d, TS_KIND_F)) return NULL;
  j->s.empty = empty(j->s.meet, acc);
  return meet_slices(j, ts_steps_axis(&n->out[0].meta, 0));
}

int ts_lower_scatter(const TsSched *sched, const TsGroup *g, TsLayoutFn *layout, void *arg,
                     TsSchedKernel *out, TsError *err) {
  const TsNode *n = g->node[0];
  Job j = {.n = n, .s = {.op = (TsOp)n->op}};
  const TsMeta *y = &n->out[0].meta, *index = &n->in[1]->meta;
  TsDtype d = (TsDtype)y->dtype;
  for (int i = 0; i < n->nin; i++)
    if (n->in[i] && !ts_meta_numel(&n->in[i]->meta)) return 0;
  if (!ts_meta_numel(y) || !ts_index_takes(index)) return 0;
  if (ts_meta_numel(y) >= INT32_MAX || ts_meta_numel(index) > INT32_MAX) return 0;
  Steps *steps = n->op == TS_OP_segment_reduce ? segment_reduce(&j, d)
                 : n->op == TS_OP_index_add    ? index_add(&j, d)
                                               : scatter(&j, d);
  if (!steps) return 0;
  ts_steps_begin(&j.x, sched, layout, arg, n, err);
  ts_steps_guard(&j.x, 1);
  steps(&j);
  int made = ts_steps_end(&j.x, out);
  for (int i = 0; made > 0 && j.over && i < out->tile->nin; i++)
    if (out->value[i] == n->in[0]) out->over[0] |= 1ull << i;
  return made;
}
