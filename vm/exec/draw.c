/* permutation: a random row that looks at many elements at once. */
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
