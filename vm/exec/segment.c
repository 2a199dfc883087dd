/* segment_reduce: rows with equal ids, combined one after the other in increasing i,
 * each step by the kernel of add, mul, minimum or maximum. The chain of a segment starts
 * with its first row; a mean is that sum divided by the number of rows. Narrow floats
 * combine in f32 and round once. Threads share columns, or segments where rows are
 * short. */
#include <math.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "devices/memory.h"
#include "vm/core/element.h"
#include "vm/core/exec.h"
#include "vm/drive/index.h"

enum { SEG_sum, SEG_mean, SEG_prod, SEG_min, SEG_max };
enum { PIECE = 2048, GRAIN = 1 << 14 }; /* columns of a unit; elements of a thread */

typedef struct Job {
  TsPointwiseFn *step, *divide;
  const int64_t *id;
  const char *x;
  char *y;
  int64_t n, cols, segments, size; /* rows and columns of x; bytes of an element */
  int64_t *count;                  /* rows of each segment */
  int64_t pieces, parts;
  const char *empty; /* the value of an empty segment */
} Job;

static TsPointwiseFn *kernel(const TsKernels *k, TsDtype d, TsOp op) {
  if (d == TS_DT_f32) return k->pointwise.f32[op];
  if (d == TS_DT_f64) return k->pointwise.f64[op];
  return k->pointwise_int.fn[d][op];
}

/* Rows of segments [from, to), columns [col, col + n). The first row of each is copied;
 * `seen` counts down what is left. */
static void combine(const Job *j, int64_t col, int64_t n, int64_t from, int64_t to) {
  int64_t row = j->cols * j->size, bytes = n * j->size;
  const char *x = j->x + col * j->size;
  char *y = j->y + col * j->size;
  for (int64_t s = from; s < to; s++)
    if (j->count[s] == 0)
      for (int64_t i = 0; i < n; i++)
        memcpy(y + s * row + i * j->size, j->empty, (size_t)j->size);
  TS_CPU_LOOKING(i, 0, j->n) {
    int64_t s = j->id[i] >> 1;
    if (s < from || s >= to) continue;
    char *at = y + s * row;
    const void *in[2] = {at, x + i * row};
    if (j->id[i] & 1)
      memcpy(at, in[1], (size_t)bytes);
    else
      j->step(n, at, in, NULL, 0);
  }
}

static void divide(const Job *j, int64_t col, int64_t n, int64_t from, int64_t to) {
  for (int64_t s = from; s < to; s++) {
    char *at = j->y + (s * j->cols + col) * j->size;
    float f = (float)j->count[s];
    double d = (double)j->count[s];
    const void *in[2] = {at, j->size == 4 ? (const void *)&f : (const void *)&d};
    if (j->count[s] > 1) j->divide(n, at, in, NULL, 2);
  }
}

static void all_pieces(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  (void)worker;
  for (int64_t u = lo; u < hi && !ts_cpu_interrupted(); u++) {
    int64_t part = u % j->parts, col = u / j->parts * PIECE;
    int64_t n = j->cols - col < PIECE ? j->cols - col : PIECE;
    int64_t from = j->segments * part / j->parts, to = j->segments * (part + 1) / j->parts;
    combine(j, col, n, from, to);
    if (j->divide) divide(j, col, n, from, to);
  }
}

static void run(Job *j) {
  int threads = ts_cpu_threads();
  j->pieces = (j->cols + PIECE - 1) / PIECE;
  j->parts = j->pieces < threads && j->n * j->cols >= 4 * GRAIN ? threads : 1;
  ts_cpu_parallel(j->pieces * j->parts, 1, all_pieces, j);
}

/* id becomes 2 id, plus 1 for the first row of a segment. */
static void mark_first(int64_t *id, int64_t n, int64_t segments, int64_t *count) {
  memset(count, 0, (size_t)segments * sizeof *count);
  for (int64_t i = 0; i < n; i++) {
    int64_t s = id[i];
    id[i] = 2 * s + (count[s]++ == 0);
  }
}

static int empty_value(TsCall *call, TsDtype d, int64_t mode, char *at) {
  int64_t lo, hi;
  bool whole = ts_dtype_is(d, TS_KIND_U | TS_KIND_I);
  memset(at, 0, 16);
  if (mode < SEG_min || !whole) {
    double v = mode == SEG_min ? INFINITY : mode == SEG_max ? -INFINITY : mode == SEG_prod;
    return ts_element_make(call, d, v, at);
  }
  ts_dtype_int_range(d, &lo, &hi);
  memcpy(at, mode == SEG_min ? &hi : &lo, 8); /* the low bytes hold the narrower number */
  return 0;
}

static int check(TsCall *call, TsDtype d, int64_t mode) {
  TsError *e = &call->ctx->err;
  if (call->attr[0].i < 0)
    return ts_error_set(e, TS_ERR_value, "segment_reduce: %lld segments",
                        (long long)call->attr[0].i);
  if (mode != SEG_mean || ts_dtype_is(d, TS_KIND_F)) return 0;
  ts_error_set(e, TS_ERR_dtype, "segment_reduce: the mean of %s is no integer",
               ts_dtype_name(d));
  return ts_error_hint(e, "convert with x:cast(\"f32\") first");
}

/* y: out, or its f32 form. */
static int reduce(TsCall *call, TsTensor *x, TsTensor *y, TsTensor *id, int64_t *count) {
  static const TsOp step[] = {TS_OP_add, TS_OP_add, TS_OP_mul, TS_OP_minimum, TS_OP_maximum};
  int64_t mode = call->attr[1].i;
  TsDtype d = ts_tensor_dtype(x);
  _Alignas(16) char empty[16];
  Job j = {.step = kernel(call->ctx->k, d, step[mode]),
           .n = x->meta.dim[0],
           .cols = 1,
           .segments = call->attr[0].i,
           .size = ts_dtypes[d].nbytes,
           .count = count,
           .empty = empty};
  if (mode == SEG_mean) j.divide = kernel(call->ctx->k, d, TS_OP_div);
  for (int i = 1; i < x->meta.ndim; i++) j.cols *= x->meta.dim[i];
  int64_t *ids = ts_tensor_write(id);
  j.x = ids ? ts_tensor_read(x) : NULL;
  j.y = j.x ? ts_tensor_write(y) : NULL;
  if (!j.y || empty_value(call, d, mode, empty)) return -1;
  mark_first(ids, j.n, j.segments, count);
  j.id = ids;
  if (ts_tensor_numel(y) > 0) run(&j);
  return 0;
}

int ts_exec_segment_reduce(TsCall *call) {
  TsContext *c = call->ctx;
  TsTensor *out = call->out[0];
  TsDtype d = ts_tensor_dtype(out), sum = (TsDtype)ts_dtypes[d].compute;
  int64_t segments = call->attr[0].i, nbytes = segments * 8;
  TsIndex ix;
  TsMeta m = out->meta;
  if (check(call, d, call->attr[1].i)) return -1;
  if (ts_index_open(call, 1, TS_INDEX_SEGMENT, segments, &ix)) return -1;
  m.dtype = (uint8_t)sum;
  TsTensor *x = ts_tensor_cast(c, call->in[0], sum), *id = x ? ts_tensor_copy(c, ix.t) : NULL;
  TsTensor *y = !id ? NULL : sum == d ? ts_tensor_ref(out) : ts_tensor_new(c, &m);
  int64_t *count = y ? ts_memory_alloc(nbytes) : NULL;
  if (y && !count)
    ts_error_set(&c->err, TS_ERR_memory, "out of memory for %lld segments",
                 (long long)segments);
  int failed = !count || reduce(call, x, y, id, count) || (sum != d && ts_vm_assign(c, out, y));
  if (count) ts_memory_free(count, nbytes);
  ts_tensor_unref(x);
  ts_tensor_unref(id);
  ts_tensor_unref(y);
  ts_index_close(&ix);
  return failed ? -1 : 0;
}
