/* scatter, scatter_add, index_add, segment_reduce on a device, without atomics. Chains that lie
 * side by side go one after the other, a thread each; else what leads to one place is brought
 * together by sorting (jit/eager/family/scatter_tile.c). */
#include "jit/eager/family/scatter.h"

#include <math.h>
#include <string.h>

#include "vm/core/element.h"
#include "vm/drive/index.h"

enum {
  FEW = 64,     /* elements of a chain that one thread takes, whatever there is beside it */
  MANY = 16384, /* chains that fill a device */
  LONG = 1024,  /* elements of a chain that one of many takes */
  SLICE = 32,   /* elements of a slice that is read as one */
};

typedef struct Job {
  TsOffloader *o;
  TsCall *call;
  int device;
  TsScatter s;
  int64_t count; /* elements of the map */
  int64_t numel; /* places that they lead to: elements of y, or its slices */
  TsTensor *index, *src, *x, *y;
  TsTensor *key, *place, *start;
} Job;

/* ---- launches */
static void words(TsOwn *k, const Job *j, int which) {
  const TsScatter *s = &j->s;
  ts_own_word(k, 'S' << 8 | which);
  ts_own_word(k, s->meet | s->d << 8 | s->src << 16 | s->acc << 24 | (int64_t)s->begins << 32);
  ts_own_word(k, (int64_t)s->empty);
}

static int run(Job *j, TsOwn *k) { return ts_own_run(j->o, j->call, j->device, k); }

static int64_t halvings(int64_t n) {
  int64_t steps = 0;
  while (n >> steps) steps++;
  return steps;
}

static int leads(Job *j) {
  if (!(j->key = ts_order_room(j->call, j->device, TS_DT_i32, j->count))) return -1;
  TsOwn k = {.build = ts_scatter_leads, .arg = &j->s, .nin = 1, .nout = 1, .ndim = 3};
  k.in[0] = j->index, k.out[0] = j->key;
  k.dim[0] = ts_tensor_numel(j->index), k.dim[1] = j->count, k.dim[2] = j->numel;
  ts_own_word(&k, 'L' << 8);
  ts_index_map_words(&k, &j->s.map);
  return run(j, &k);
}

static int sorted(Job *j) {
  int done = leads(j);
  if (done != 1) return done;
  return ts_order_rows(j->o, j->call, j->device, 1, j->count, (int)halvings(j->numel), &j->key,
                       &j->place);
}

static int owners(Job *j) {
  TsOwn k = {.build = ts_scatter_owners, .arg = &j->s, .nout = 1, .out = {j->y}, .ndim = 4};
  int done = sorted(j);
  if (done != 1) return done;
  k.in[k.nin++] = j->key, k.in[k.nin++] = j->place, k.in[k.nin++] = j->src;
  if (!j->s.begins) k.in[k.nin++] = j->x;
  k.dim[0] = j->count, k.dim[1] = j->numel, k.dim[2] = ts_tensor_numel(j->src);
  k.dim[3] = halvings(j->count);
  words(&k, j, 0);
  return run(j, &k);
}

static int slices(Job *j) {
  int done = sorted(j);
  if (done != 1) return done;
  if (!(j->start = ts_order_room(j->call, j->device, TS_DT_i32, j->numel + 1))) return -1;
  TsOwn k = {.build = ts_scatter_starts, .arg = &j->s, .nin = 1, .nout = 1, .ndim = 4};
  k.in[0] = j->key, k.out[0] = j->start;
  k.dim[0] = j->count, k.dim[1] = j->numel, k.dim[2] = j->numel + 1;
  k.dim[3] = halvings(j->count);
  ts_own_word(&k, 'B' << 8);
  if ((done = run(j, &k)) != 1) return done;
  k = (TsOwn){.build = ts_scatter_slices, .arg = &j->s, .nout = 1, .out = {j->y}, .ndim = 3};
  k.in[k.nin++] = j->start, k.in[k.nin++] = j->place, k.in[k.nin++] = j->src;
  if (!j->s.begins) k.in[k.nin++] = j->x;
  k.dim[0] = j->count, k.dim[1] = j->numel, k.dim[2] = j->numel + 1;
  words(&k, j, 1);
  ts_own_word(&k, j->s.outer), ts_own_word(&k, j->s.inner);
  return run(j, &k);
}

/* y is x before. */
static int lines(Job *j) {
  int64_t n = j->s.map.dim[j->s.axis];
  if (ts_vm_assign(j->call->ctx, j->call->out[0], j->call->in[0])) return -1;
  TsOwn k = {.build = ts_scatter_lines, .arg = &j->s, .nin = 2, .nout = 1, .ndim = 4};
  k.in[0] = j->index, k.in[1] = j->src, k.out[0] = j->y;
  k.dim[0] = ts_tensor_numel(j->index), k.dim[1] = ts_tensor_numel(j->src);
  k.dim[2] = ts_tensor_numel(j->y), k.dim[3] = j->count / n;
  words(&k, j, 2);
  ts_own_word(&k, j->s.axis);
  ts_index_map_words(&k, &j->s.map);
  return run(j, &k);
}

/* ---- calls */
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

static TsTensor *spread(TsCall *call, TsTensor *t, const TsMeta *like) {
  int64_t stride[TS_MAX_RANK];
  TsMeta m = *like;
  int skip = m.ndim - t->meta.ndim;
  if (ts_meta_same_shape(&t->meta, like)) return ts_own_ready(call, t);
  for (int i = 0; i < m.ndim; i++)
    stride[i] = i < skip || t->meta.dim[i - skip] == 1 ? 0 : t->stride[i - skip];
  m.dtype = t->meta.dtype, m.weak = 0, m.device = t->meta.device;
  TsTensor *view = ts_tensor_view(t, &m, stride, t->offset);
  TsTensor *y = view ? ts_tensor_contiguous(call->ctx, view) : NULL;
  ts_tensor_unref(view);
  return y;
}

static void drop(Job *j) {
  TsTensor *list[] = {j->index, j->src, j->x, j->key, j->place, j->start};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) ts_tensor_unref(list[i]);
}

/* Of elements along an axis of equal rank. */
static int scatter(Job *j, bool add) {
  TsCall *call = j->call;
  TsTensor *x = call->in[0], *index = call->in[1], *src = call->in[2], *y = call->out[0];
  TsDtype d = ts_tensor_dtype(y);
  int axis = (int)(call->attr[0].i < 0 ? call->attr[0].i + x->meta.ndim : call->attr[0].i);
  bool moves = ts_dtypes[d].nbytes <= 8 && d != TS_DT_mxfp4;
  if (!(add ? adds(d) : moves) || !y->meta.ndim || index->meta.ndim != x->meta.ndim) return 0;
  if (ts_tensor_dtype(x) != d || ts_tensor_dtype(src) != d) return 0;
  int done = ts_offload_in_range(j->o, call, j->device, 1, axis, x->meta.dim[axis]);
  if (done != 1) return done;
  TsScatter *s = &j->s;
  s->meet = add ? MEET_sum : MEET_last;
  s->d = s->src = add ? d : ts_short_bits(d);
  s->acc = add ? (TsDtype)ts_dtypes[d].compute : s->d;
  s->map = ts_index_map(&y->meta, &index->meta, axis);
  s->axis = axis;
  j->count = ts_tensor_numel(index), j->numel = ts_tensor_numel(y);
  j->index = ts_own_ready(call, index);
  j->src = j->index ? spread(call, src, &index->meta) : NULL;
  j->x = j->src ? ts_own_ready(call, x) : NULL;
  if (!j->x) return -1;
  int64_t n = index->meta.dim[axis], side = j->count / n;
  bool chains = n <= FEW || (side >= MANY && n <= LONG);
  return chains && s->acc == s->d ? lines(j) : owners(j);
}

/* Slices of one axis: [outer, size, inner] of y, [outer, count, inner] of src. */
static int meet_slices(Job *j, TsTensor *x, TsTensor *index, TsTensor *src, TsOwnAxis a) {
  TsCall *call = j->call;
  TsScatter *s = &j->s;
  int64_t count = ts_tensor_numel(index);
  s->d = ts_tensor_dtype(j->y), s->src = ts_tensor_dtype(src);
  s->acc = (TsDtype)ts_dtypes[s->d].compute;
  s->outer = a.outer, s->inner = a.inner, s->axis = 1;
  bool whole = a.inner >= SLICE;
  TsOwnAxis one = {1, a.n, 1};
  s->map = ts_index_map_slices(whole ? &one : &a, count, ts_tensor_dtype(index));
  j->count = ts_index_map_count(&s->map);
  j->numel = whole ? a.n : ts_tensor_numel(j->y);
  if (j->count > INT32_MAX || j->numel >= INT32_MAX) return 0;
  j->index = ts_own_ready(call, index);
  j->src = j->index ? ts_own_ready(call, src) : NULL;
  if (x && j->src) j->x = ts_own_ready(call, x);
  if (!j->src || (x && !j->x)) return -1;
  return whole ? slices(j) : owners(j);
}

static int index_add(Job *j) {
  TsCall *call = j->call;
  TsTensor *x = call->in[0], *y = call->out[0];
  TsDtype d = ts_tensor_dtype(y);
  int axis = (int)(call->attr[0].i < 0 ? call->attr[0].i + x->meta.ndim : call->attr[0].i);
  if (!adds(d) || ts_tensor_dtype(x) != d || ts_tensor_dtype(call->in[2]) != d) return 0;
  if (!x->meta.ndim) return 0;
  int done = ts_offload_in_range(j->o, call, j->device, 1, axis, x->meta.dim[axis]);
  j->s.meet = MEET_sum;
  return done == 1 ? meet_slices(j, x, call->in[1], call->in[2], ts_own_axis(&y->meta, axis))
                   : done;
}

/* The value of a segment without rows, as bits of the accumulator. */
static int set_empty(Job *j, TsDtype acc) {
  int64_t lo, hi;
  _Alignas(16) char at[16] = {0};
  TsMeet meet = j->s.meet;
  bool least = meet == MEET_min, most = meet == MEET_max;
  if ((least || most) && !ts_dtype_is(acc, TS_KIND_F)) {
    ts_dtype_int_range(acc, &lo, &hi);
    memcpy(at, least ? &hi : &lo, 8);
  } else {
    double v = least ? INFINITY : most ? -INFINITY : meet == MEET_prod;
    if (ts_element_make(j->call, acc, v, at)) return -1;
  }
  memcpy(&j->s.empty, at, (size_t)ts_dtypes[acc].nbytes);
  return 0;
}

static int segment_reduce(Job *j) {
  static const TsMeet meet[] = {MEET_sum, MEET_mean, MEET_prod, MEET_min, MEET_max};
  TsCall *call = j->call;
  TsTensor *x = call->in[0], *y = call->out[0];
  TsDtype d = ts_tensor_dtype(y), acc = (TsDtype)ts_dtypes[d].compute;
  int64_t segments = call->attr[0].i, mode = call->attr[1].i;
  j->s.meet = meet[mode], j->s.begins = true;
  bool mean = j->s.meet == MEET_mean;
  if (!adds(d) || ts_tensor_dtype(x) != d || !x->meta.ndim || segments < 1) return 0;
  if ((mean && !ts_dtype_is(d, TS_KIND_F)) || set_empty(j, acc)) return 0;
  int done = ts_offload_in_range(j->o, call, j->device, 1, TS_INDEX_SEGMENT, segments);
  return done == 1 ? meet_slices(j, NULL, call->in[1], x, ts_own_axis(&y->meta, 0)) : done;
}

int ts_offload_scatter(TsOffloader *o, TsCall *call, int device) {
  Job j = {.o = o, .call = call, .device = device, .s = {.op = call->op}};
  bool segment = call->op == TS_OP_segment_reduce, add = call->op == TS_OP_scatter_add;
  if (!segment && !add && call->op != TS_OP_scatter && call->op != TS_OP_index_add) return 0;
  TsTensor *y = call->out[0], *index = call->in[1], *src = call->in[segment ? 0 : 2];
  if (!y->contiguous || !ts_tensor_numel(y) || !ts_index_takes(index)) return 0;
  if (!ts_tensor_numel(index) || !ts_tensor_numel(src)) return 0;
  if (ts_tensor_numel(y) >= INT32_MAX || ts_tensor_numel(index) > INT32_MAX) return 0;
  j.y = y;
  int done = segment                       ? segment_reduce(&j)
             : call->op == TS_OP_index_add ? index_add(&j)
                                           : scatter(&j, add);
  drop(&j);
  return done;
}
