/* masked_select and nonzero, results as long as the data say, and masked_scatter, the way
 * back. The mask is counted by
 * blocks, which gives every block its place in the result; then blocks are squeezed
 * together without a branch an element, in a buffer. */
#include <string.h>

#include "devices/cpu_pool.h"
#include "devices/memory.h"
#include "vm/core/exec.h"
#include "vm/drive/index.h"

enum { BLOCK = 2048, GRAIN = 32 }; /* elements squeezed at once; blocks a thread takes */

typedef struct Job {
  const uint8_t *mask;
  int64_t n, blocks;
  int64_t *place; /* of each block's first element in the result */
  const char *x;
  char *y;
  int size;
  const TsMeta *shape; /* of nonzero's input */
} Job;

static int64_t block_size(const Job *j, int64_t b) {
  return j->n - b * BLOCK < BLOCK ? j->n - b * BLOCK : BLOCK;
}

static void count_blocks(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  (void)worker;
  for (int64_t b = lo; b < hi; b++) {
    int64_t n = block_size(j, b), count = 0;
    for (int64_t i = 0; i < n; i++) count += j->mask[b * BLOCK + i] != 0;
    j->place[b] = count;
  }
}

/* The number of elements, or -1 with the error filled. Frees nothing. */
static int64_t count(TsCall *call, Job *j) {
  int64_t sum = 0;
  ts_cpu_parallel(j->blocks, GRAIN, count_blocks, j);
  if (ts_cpu_interrupted())
    return ts_error_set(&call->ctx->err, TS_ERR_interrupt, "%s: interrupted",
                        ts_op_info(call->op)->name);
  for (int64_t b = 0; b < j->blocks; b++) {
    int64_t here = j->place[b];
    j->place[b] = sum;
    sum += here;
  }
  return sum;
}

/* Places of the block's elements whose mask is set; returns how many. */
static int64_t squeeze(const Job *j, int64_t b, int32_t *at) {
  int64_t n = block_size(j, b), m = 0;
  const uint8_t *mask = j->mask + b * BLOCK;
  for (int64_t i = 0; i < n; i++) {
    at[m] = (int32_t)i;
    m += mask[i] != 0;
  }
  return m;
}

static void select_blocks(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  int32_t at[BLOCK];
  (void)worker;
  for (int64_t b = lo; b < hi; b++) {
    int64_t m = squeeze(j, b, at);
    const char *x = j->x + b * BLOCK * j->size;
    char *y = j->y + j->place[b] * j->size;
    switch (j->size) {
#define CASE(bytes, U)                                                                         \
  case bytes:                                                                                  \
    for (int64_t i = 0; i < m; i++) ((U *)(void *)y)[i] = ((const U *)(const void *)x)[at[i]]; \
    break;
      TS_INDEX_WIDTHS(CASE)
#undef CASE
    }
  }
}

/* The other way: the block's elements of y from their place in x. */
static void scatter_blocks(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  int32_t at[BLOCK];
  (void)worker;
  for (int64_t b = lo; b < hi; b++) {
    int64_t m = squeeze(j, b, at);
    const char *x = j->x + j->place[b] * j->size;
    char *y = j->y + b * BLOCK * j->size;
    switch (j->size) {
#define CASE(bytes, U)                                                                         \
  case bytes:                                                                                  \
    for (int64_t i = 0; i < m; i++) ((U *)(void *)y)[at[i]] = ((const U *)(const void *)x)[i]; \
    break;
      TS_INDEX_WIDTHS(CASE)
#undef CASE
    }
  }
}

static void place_blocks(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  int32_t at[BLOCK];
  int nd = j->shape->ndim;
  (void)worker;
  for (int64_t b = lo; b < hi; b++) {
    int64_t m = squeeze(j, b, at);
    int64_t *y = (int64_t *)(void *)j->y + j->place[b] * nd;
    for (int64_t i = 0; i < m; i++, y += nd) {
      int64_t flat = b * BLOCK + at[i];
      for (int a = nd - 1; a > 0; a--) {
        y[a] = flat % j->shape->dim[a];
        flat /= j->shape->dim[a];
      }
      if (nd > 0) y[0] = flat;
    }
  }
}

static int open_places(TsCall *call, Job *j) {
  j->blocks = (j->n + BLOCK - 1) / BLOCK;
  int64_t nbytes = (j->blocks + 1) * 8;
  j->place = ts_memory_alloc(nbytes);
  if (j->place) return 0;
  return ts_error_set(&call->ctx->err, TS_ERR_memory, "out of memory: %lld bytes",
                      (long long)nbytes);
}

static void close_places(Job *j) { ts_memory_free(j->place, (j->blocks + 1) * 8); }

/* Counts, allocates the result by m with its first size, and runs the second pass. */
static int run(TsCall *call, Job *j, TsMeta *m, TsTask *second) {
  if (open_places(call, j)) return -1;
  m->dim[0] = count(call, j);
  m->weak = 0;
  call->out[0] = m->dim[0] < 0 ? NULL : ts_tensor_new(call->ctx, m);
  if (call->out[0]) {
    j->y = ts_tensor_write(call->out[0]);
    ts_cpu_parallel(j->blocks, GRAIN, second, j);
  }
  close_places(j);
  return call->out[0] ? 0 : -1;
}

/* t broadcast to m's shape, row-major. */
static TsTensor *spread(TsContext *c, TsTensor *t, TsMeta m) {
  int64_t stride[TS_MAX_RANK];
  int skip = m.ndim - t->meta.ndim;
  if (ts_meta_same_shape(&t->meta, &m)) return ts_tensor_contiguous(c, t);
  for (int i = 0; i < m.ndim; i++)
    stride[i] = i < skip || t->meta.dim[i - skip] == 1 ? 0 : t->stride[i - skip];
  m.dtype = t->meta.dtype;
  TsTensor *view = ts_tensor_view(t, &m, stride, t->offset);
  TsTensor *y = view ? ts_tensor_contiguous(c, view) : NULL;
  ts_tensor_unref(view);
  return y;
}

int ts_exec_masked_select(TsCall *call) {
  TsContext *c = call->ctx;
  TsMeta m = call->in[0]->meta;
  int failed = -1;
  ts_meta_broadcast(&m, &call->in[1]->meta, &m);
  TsTensor *x = spread(c, call->in[0], m), *mask = x ? spread(c, call->in[1], m) : NULL;
  Job j = {.n = ts_meta_numel(&m), .size = ts_dtypes[m.dtype].nbytes};
  j.x = mask ? ts_tensor_read(x) : NULL;
  j.mask = j.x ? ts_tensor_read(mask) : NULL;
  m.ndim = 1;
  if (j.mask) failed = run(call, &j, &m, select_blocks);
  ts_tensor_unref(x);
  ts_tensor_unref(mask);
  return failed;
}

static int scatter_counted(TsCall *call, Job *j, int64_t given) {
  int64_t wanted = count(call, j);
  if (wanted < 0) return -1;
  if (wanted != given)
    return ts_error_set(&call->ctx->err, TS_ERR_value,
                        "masked_scatter: the mask has %lld true elements, the source %lld",
                        (long long)wanted, (long long)given);
  ts_cpu_parallel(j->blocks, GRAIN, scatter_blocks, j);
  return 0;
}

int ts_exec_masked_scatter(TsCall *call) {
  TsContext *c = call->ctx;
  TsTensor *y = call->out[0];
  TsMeta m = y->meta;
  int failed = ts_vm_assign(c, y, call->in[0]);
  TsTensor *src = failed ? NULL : ts_tensor_cast(c, call->in[2], ts_tensor_dtype(y));
  TsTensor *mask = src ? spread(c, call->in[1], m) : NULL;
  Job j = {.n = ts_meta_numel(&m), .size = ts_dtypes[m.dtype].nbytes};
  j.x = mask ? ts_tensor_read(src) : NULL;
  j.mask = j.x ? ts_tensor_read(mask) : NULL;
  j.y = j.mask ? ts_tensor_write(y) : NULL;
  failed = !j.y || open_places(call, &j) ? -1 : 0;
  if (!failed) {
    failed = scatter_counted(call, &j, ts_tensor_numel(src));
    close_places(&j);
  }
  ts_tensor_unref(src);
  ts_tensor_unref(mask);
  return failed;
}

int ts_exec_nonzero(TsCall *call) {
  TsMeta m = call->in[0]->meta;
  TsTensor *mask = ts_tensor_cast(call->ctx, call->in[0], TS_DT_bool);
  Job j = {.n = ts_meta_numel(&m), .shape = &call->in[0]->meta};
  j.mask = mask ? ts_tensor_read(mask) : NULL;
  m.dtype = TS_DT_i64, m.dim[1] = m.ndim, m.ndim = 2;
  int failed = j.mask ? run(call, &j, &m, place_blocks) : -1;
  ts_tensor_unref(mask);
  return failed;
}
