/* Reading by index: gather, take, index_select, embedding. Slices that are contiguous
 * move whole; single elements by their size; rows in blocks as the numbers they stand for. */
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/core/exec.h"
#include "vm/drive/index.h"

enum {
  GRAIN = 1 << 14,   /* elements, or bytes, that one thread takes at least */
  STREAM = 12 << 20, /* bytes of a result that goes past the caches */
  SHORT = 512,       /* bytes of a slice not worth streaming */
  PREFETCH = 4       /* slices fetched in advance */
};

/* ---- single elements: rows of the index along its last axis */
typedef struct Gather {
  const TsMeta *shape; /* of index and out */
  const int64_t *index;
  const char *x;
  char *y;
  int axis, size;
  int64_t stride[TS_MAX_RANK]; /* of x in elements; 0 at axis */
  int64_t step;                /* of x along axis */
  int64_t last, along;         /* size of the last axis; x's stride along it, or 0 */
} Gather;

static void gather_run(const Gather *g, int64_t x, int64_t at, int64_t n) {
  const int64_t *index = g->index + at;
  switch (g->size) {
#define CASE(bytes, U)                                                                         \
  case bytes: {                                                                                \
    const U *from = (const U *)(const void *)g->x + x;                                         \
    U *to = (U *)(void *)g->y + at;                                                            \
    for (int64_t i = 0; i < n; i++) to[i] = from[index[i] * g->step + i * g->along];           \
    break;                                                                                     \
  }
    TS_INDEX_WIDTHS(CASE)
#undef CASE
  }
}

static void gather(void *arg, int64_t lo, int64_t hi, int worker) {
  const Gather *g = arg;
  (void)worker;
  while (lo < hi) {
    int64_t row = lo / g->last, col = lo % g->last, x = col * g->along;
    int64_t n = g->last - col < hi - lo ? g->last - col : hi - lo;
    for (int i = g->shape->ndim - 2; i >= 0; i--) {
      x += row % g->shape->dim[i] * g->stride[i];
      row /= g->shape->dim[i];
    }
    gather_run(g, x, lo, n);
    lo += n;
  }
}

int ts_exec_gather(TsCall *call) {
  TsTensor *x = call->in[0], *y = call->out[0];
  int last = y->meta.ndim - 1;
  int axis = (int)(call->attr[0].i < 0 ? call->attr[0].i + x->meta.ndim : call->attr[0].i);
  TsIndex ix;
  if (ts_index_open(call, 1, axis, x->meta.dim[axis], &ix)) return -1;
  Gather g = {.shape = &y->meta,
              .index = ix.at,
              .axis = axis,
              .size = ts_dtypes[x->meta.dtype].nbytes,
              .step = x->stride[axis],
              .last = y->meta.dim[last],
              .along = axis == last ? 0 : x->stride[last]};
  for (int i = 0; i < x->meta.ndim; i++) g.stride[i] = i == axis ? 0 : x->stride[i];
  g.x = ts_tensor_read(x);
  g.y = g.x ? ts_tensor_write(y) : NULL;
  if (g.y) ts_cpu_parallel(ix.n, GRAIN, gather, &g);
  ts_index_close(&ix);
  return g.y ? 0 : -1;
}

/* ---- slices: y[outer, i] = x[outer, index[i]], each of nbytes */
typedef struct Slices {
  const TsKernels *k;
  const int64_t *index;
  const char *x;
  char *y;
  int64_t count, size, nbytes; /* of index; of x's axis; of a slice */
  bool stream;
} Slices;

static void short_slices(const Slices *s, const char *x, const int64_t *index, char *y,
                         int64_t n) {
  switch (s->nbytes) { /* of several elements: aligned as one of them is */
#define CASE(bytes, U)                                                                         \
  case bytes:                                                                                  \
    for (int64_t i = 0; i < n; i++) memcpy(y + i * bytes, x + index[i] * bytes, bytes);        \
    break;
    TS_INDEX_WIDTHS(CASE)
#undef CASE
  default:
    for (int64_t i = 0; i < n; i++)
      memcpy(y + i * s->nbytes, x + index[i] * s->nbytes, (size_t)s->nbytes);
  }
}

static void fetch(const char *at, int64_t nbytes) {
  for (int64_t b = 0; b < nbytes && b < 1024; b += 64) __builtin_prefetch(at + b);
}

static void long_slices(const Slices *s, const char *x, const int64_t *index, char *y,
                        int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    if (i + PREFETCH < n) fetch(x + index[i + PREFETCH] * s->nbytes, s->nbytes);
    if (s->stream)
      s->k->copy.stream(s->nbytes, y + i * s->nbytes, x + index[i] * s->nbytes);
    else
      memcpy(y + i * s->nbytes, x + index[i] * s->nbytes, (size_t)s->nbytes);
  }
}

static void slices(void *arg, int64_t lo, int64_t hi, int worker) {
  const Slices *s = arg;
  (void)worker;
  while (lo < hi) {
    int64_t outer = lo / s->count, i = lo % s->count;
    int64_t n = s->count - i < hi - lo ? s->count - i : hi - lo;
    const char *x = s->x + outer * s->size * s->nbytes;
    if (s->nbytes < 64)
      short_slices(s, x, s->index + i, s->y + lo * s->nbytes, n);
    else
      long_slices(s, x, s->index + i, s->y + lo * s->nbytes, n);
    lo += n;
  }
  if (s->stream) ts_copy_fence();
}

static int select_slices(TsCall *call, int axis, bool flat) {
  TsContext *c = call->ctx;
  TsTensor *y = call->out[0];
  const TsMeta *m = &call->in[0]->meta;
  int64_t size = flat ? ts_meta_numel(m) : m->dim[axis];
  TsIndex ix;
  if (ts_index_open(call, 1, flat ? TS_INDEX_FLAT : axis, size, &ix)) return -1;
  TsTensor *x = ts_tensor_contiguous(c, call->in[0]);
  Slices s = {.k = c->k,
              .index = ix.at,
              .count = ix.n,
              .size = size,
              .nbytes = ts_dtypes[m->dtype].nbytes};
  int64_t total = ts_meta_nbytes(&y->meta);
  for (int i = axis + 1; i < m->ndim && !flat; i++) s.nbytes *= m->dim[i];
  s.stream = total >= STREAM && s.nbytes >= SHORT;
  s.x = x ? ts_tensor_read(x) : NULL;
  s.y = s.x ? ts_tensor_write(y) : NULL;
  if (s.y && total > 0) ts_cpu_parallel(total / s.nbytes, GRAIN * 4 / s.nbytes + 1, slices, &s);
  ts_tensor_unref(x);
  ts_index_close(&ix);
  return s.y ? 0 : -1;
}

int ts_exec_take(TsCall *call) { return select_slices(call, 0, true); }

/* ---- rows of a table stored in blocks, as f32 */
typedef struct Rows {
  TsConvertFn *read;
  const int64_t *index;
  const char *x;
  float *y;
  int64_t width, nbytes; /* of a row: elements, bytes as stored */
} Rows;

static void read_rows(void *arg, int64_t lo, int64_t hi, int worker) {
  const Rows *r = arg;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    if (i + 1 < hi) fetch(r->x + r->index[i + 1] * r->nbytes, r->nbytes);
    r->read(r->width, r->y + i * r->width, r->x + r->index[i] * r->nbytes);
  }
}

static int select_stored(TsCall *call) {
  TsTensor *x = call->in[0], *y = call->out[0];
  TsDtype d = (TsDtype)x->meta.dtype;
  TsIndex ix;
  if (ts_index_open(call, 1, 0, x->meta.dim[0], &ix)) return -1;
  Rows r = {.read = call->ctx->k->convert.convert[d][TS_DT_f32],
            .index = ix.at,
            .width = x->meta.dim[1],
            .nbytes = ts_dtype_nbytes(d, x->meta.dim[1])};
  r.x = ts_tensor_read(x); /* it has no views */
  r.y = r.x ? ts_tensor_write(y) : NULL;
  if (r.y && r.width) ts_cpu_parallel(ix.n, GRAIN / r.width + 1, read_rows, &r);
  ts_index_close(&ix);
  return r.y ? 0 : -1;
}

int ts_exec_embedding(TsCall *call) {
  return ts_dtype_in_blocks(call->in[0]->meta.dtype) ? select_stored(call)
                                                     : select_slices(call, 0, false);
}

int ts_exec_index_select(TsCall *call) {
  int64_t axis = call->attr[0].i, nd = call->in[0]->meta.ndim;
  return select_slices(call, (int)(axis < 0 ? axis + nd : axis), false);
}
