/* sort, argsort, topk: rows along an axis by integer keys (vm/drive/sort.h). Rows spread over
 * the threads; a single long row is sorted by all of them. */
#include <string.h>

#include "devices/cpu_pool.h"
#include "devices/memory.h"
#include "vm/core/axis.h"
#include "vm/core/exec.h"
#include "vm/drive/sort.h"

enum { LONG_ROW = 1 << 16, GRAIN = 1 << 12 }; /* elements */

typedef struct Job {
  TsAxisRows x;
  TsAxisOut value, place; /* value.at NULL: not wanted */
  TsDtype dtype;
  bool descending;
  int64_t k; /* results a row */
  int bits, size;
  char *scratch; /* for each worker: keys, then what vm/drive/sort.h needs */
  int64_t nbytes;
} Job;

static uint64_t *keys_of(const Job *j, int worker) {
  return (uint64_t *)(j->scratch + j->nbytes * worker);
}

static void pick(const Job *j, int64_t row, const int64_t *index) {
  const char *x = j->x.at + row * j->x.n * j->size;
  char *y = j->value.at + row * j->k * j->size;
  switch (j->size) {
#define CASE(bytes, U)                                                                         \
  case bytes: TS_CPU_LOOKING(i, 0, j->k)((U *)y)[i] = ((const U *)x)[index[i]]; break;
    CASE(1, uint8_t)
    CASE(2, uint16_t)
    CASE(4, uint32_t)
    CASE(8, uint64_t)
#undef CASE
  }
}

static void rows(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  uint64_t *key = keys_of(j, worker);
  for (int64_t r = lo; r < hi && !ts_cpu_interrupted(); r++) {
    int64_t *index = (int64_t *)j->place.at + r * j->k;
    const char *x = j->x.at + r * j->x.n * j->size;
    if (j->k < j->x.n) {
      ts_sort_first(j->dtype, j->descending, j->x.n, x, j->k, index, key);
    } else {
      ts_sort_keys(j->dtype, j->descending, j->x.n, x, key);
      ts_sort_index(j->x.n, j->bits, key, index, key + j->x.n);
    }
    if (j->value.at && !ts_cpu_interrupted()) pick(j, r, index);
  }
}

/* Few long rows, one after the other. */
static void long_rows(const Job *j) {
  uint64_t *key = keys_of(j, 0);
  for (int64_t r = 0; r < j->x.rows && !ts_cpu_interrupted(); r++) {
    int64_t *index = (int64_t *)j->place.at + r * j->k;
    ts_sort_keys(j->dtype, j->descending, j->x.n, j->x.at + r * j->x.n * j->size, key);
    ts_sort_index_parallel(j->x.n, j->bits, key, index, key + j->x.n);
    if (j->value.at && !ts_cpu_interrupted()) pick(j, r, index);
  }
}

static int run(TsContext *c, Job *j) {
  int workers = ts_cpu_threads();
  bool together = j->x.rows < workers && j->x.n >= LONG_ROW && j->k == j->x.n;
  j->nbytes = j->k < j->x.n ? ts_sort_first_bytes(j->k, j->bits)
                            : 8 * j->x.n + ts_sort_spare(j->x.n, j->bits);
  j->nbytes = (j->nbytes + 63) / 64 * 64;
  if (together || j->x.rows < 2) workers = 1;
  j->scratch = ts_memory_alloc(j->nbytes * workers);
  if (!j->scratch)
    return ts_error_set(&c->err, TS_ERR_memory, "out of memory: %lld bytes to sort",
                        (long long)(j->nbytes * workers));
  if (together)
    long_rows(j);
  else if (workers == 1)
    rows(j, 0, j->x.rows, 0);
  else
    ts_cpu_parallel(j->x.rows, GRAIN / (j->x.n + 1) + 1, rows, j);
  ts_memory_free(j->scratch, j->nbytes * workers);
  return 0;
}

static int sort_axis(TsCall *call, TsTensor *value, TsTensor *place, int64_t axis, int64_t k,
                     bool descending) {
  TsContext *c = call->ctx;
  TsTensor *x = call->in[0];
  int at = (int)(axis < 0 ? axis + x->meta.ndim : axis);
  Job j = {.dtype = ts_tensor_dtype(x), .descending = descending};
  if (ts_tensor_numel(place) == 0) return 0;
  j.bits = ts_sort_bits(j.dtype), j.size = ts_dtypes[j.dtype].nbytes;
  if (ts_axis_read(c, x, at, &j.x)) return -1;
  j.k = k < 0 ? j.x.n : k;
  int failed = ts_axis_open(c, place, at, &j.place) ||
               (value && ts_axis_open(c, value, at, &j.value)) || run(c, &j);
  ts_axis_close(&j.place);
  ts_axis_close(&j.value);
  ts_tensor_unref(j.x.t);
  return failed ? -1 : 0;
}

int ts_exec_sort(TsCall *call) {
  return sort_axis(call, call->out[0], call->out[1], call->attr[0].i, -1, call->attr[1].i);
}

int ts_exec_argsort(TsCall *call) {
  return sort_axis(call, NULL, call->out[0], call->attr[0].i, -1, call->attr[1].i);
}

int ts_exec_topk(TsCall *call) {
  return sort_axis(call, call->out[0], call->out[1], call->attr[1].i, call->attr[0].i,
                   call->attr[2].i);
}
