/* index_add: slices added at indices of an axis, in increasing order of the index's
 * place, each sum one chain that starts from x. Threads share pieces of slices and, where
 * slices are short, parts of the destination, each of which looks at the whole index. */
#include "devices/cpu_pool.h"
#include "vm/core/exec.h"
#include "vm/drive/index.h"

enum { PIECE = 1024, GRAIN = 1 << 14 }; /* elements of a unit; of a thread */

typedef struct Job Job;
/* Elements [col, col + n) of the slices whose index lies in [from, to). */
typedef void Piece(const Job *j, char *y, const char *x, int64_t col, int64_t n, int64_t from,
                   int64_t to);

struct Job {
  Piece *piece;
  const int64_t *index;
  int64_t count, size, inner; /* of the index; of the axis; elements of a slice */
  int64_t pieces, parts;
  const char *x;
  char *y;
  int nbytes;
};

#define PIECE_OF(name, T)                                                                      \
  static void add_##name(const Job *j, char *to_y, const char *from_x, int64_t col, int64_t n, \
                         int64_t from, int64_t to) {                                           \
    T *y = (T *)(void *)to_y + col;                                                            \
    const T *x = (const T *)(const void *)from_x + col;                                        \
    TS_CPU_LOOKING(i, 0, j->count) {                                                           \
      if (j->index[i] < from || j->index[i] >= to) continue;                                   \
      T *restrict at = y + j->index[i] * j->inner;                                             \
      const T *add = x + i * j->inner;                                                         \
      for (int64_t k = 0; k < n; k++) at[k] = (T)(at[k] + add[k]);                             \
    }                                                                                          \
  }
TS_INDEX_SUMS(PIECE_OF)
#undef PIECE_OF

#define PIECE_ROW(name, T) [TS_INDEX_SUM_##name] = add_##name,
static Piece *const adder[TS_INDEX_SUM_COUNT] = {TS_INDEX_SUMS(PIECE_ROW)};
#undef PIECE_ROW

static void all_pieces(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  (void)worker;
  for (int64_t u = lo; u < hi && !ts_cpu_interrupted(); u++) {
    int64_t part = u % j->parts, rest = u / j->parts;
    int64_t col = rest % j->pieces * PIECE, outer = rest / j->pieces;
    int64_t n = j->inner - col < PIECE ? j->inner - col : PIECE;
    int64_t from = j->size * part / j->parts, to = j->size * (part + 1) / j->parts;
    j->piece(j, j->y + outer * j->size * j->inner * j->nbytes,
             j->x + outer * j->count * j->inner * j->nbytes, col, n, from, to);
  }
}

static void run(Job *j, int64_t outer) {
  int threads = ts_cpu_threads();
  int64_t each = j->count * (j->inner < PIECE ? j->inner : PIECE);
  j->pieces = (j->inner + PIECE - 1) / PIECE;
  j->parts = outer * j->pieces < threads && each >= 4 * GRAIN ? threads : 1;
  ts_cpu_parallel(outer * j->pieces * j->parts, GRAIN / (each + 1) + 1, all_pieces, j);
}

/* y begins as x; all three are row-major and of y's type. */
static int add_slices(TsTensor *y, TsTensor *src, const TsIndex *ix, int axis) {
  TsDtype d = ts_tensor_dtype(y);
  Job j = {.piece = adder[ts_index_sum(d)],
           .index = ix->at,
           .count = ix->n,
           .size = y->meta.dim[axis],
           .inner = 1,
           .nbytes = ts_dtypes[d].nbytes};
  int64_t outer = 1;
  for (int i = 0; i < axis; i++) outer *= y->meta.dim[i];
  for (int i = axis + 1; i < y->meta.ndim; i++) j.inner *= y->meta.dim[i];
  j.x = ts_tensor_read(src);
  j.y = j.x ? ts_tensor_write(y) : NULL;
  if (j.y && ts_tensor_numel(src) > 0) run(&j, outer);
  return j.y ? 0 : -1;
}

/* 8-bit and 16-bit floats add in f32 and round once. */
int ts_exec_index_add(TsCall *call) {
  TsContext *c = call->ctx;
  TsTensor *x = call->in[0], *out = call->out[0], *y = NULL;
  TsDtype d = ts_tensor_dtype(out), sum = (TsDtype)ts_dtypes[d].compute;
  int axis = (int)(call->attr[0].i < 0 ? call->attr[0].i + x->meta.ndim : call->attr[0].i);
  TsMeta m = out->meta;
  TsIndex ix;
  m.dtype = (uint8_t)sum;
  if (ts_index_open(call, 1, axis, x->meta.dim[axis], &ix)) return -1;
  TsTensor *src = ts_tensor_cast(c, call->in[2], sum);
  if (src) y = sum == d ? ts_tensor_ref(out) : ts_tensor_new(c, &m);
  int failed = !y || ts_vm_assign(c, y, x) || add_slices(y, src, &ix, axis) ||
               (sum != d && ts_vm_assign(c, out, y));
  ts_tensor_unref(src);
  ts_tensor_unref(y);
  ts_index_close(&ix);
  return failed ? -1 : 0;
}
