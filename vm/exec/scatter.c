/* Writing by index: scatter and scatter_add.
 *
 * Along the axis the elements of the index are visited in increasing order, one after
 * the other: the last of equal ones wins, and sums are one chain that starts from x.
 * So the result is a function of the operands alone. What runs in parallel are places
 * that cannot meet: other coordinates, and, where one long row is all there is, parts
 * of the destination, each of which looks at the whole row. 16-bit and 8-bit floats
 * add in f32 and round once at the end. */
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/core/exec.h"
#include "vm/drive/index.h"

enum { PIECE = 1024, GRAIN = 1 << 14 }; /* neighbours of one unit; elements of a thread */

typedef struct Job Job;
/* y[index[i] step + i along] takes x[i sx], for i < n and index[i] - from < span. */
typedef void Row(const Job *j, const int64_t *index, char *y, const char *x, int64_t sx,
                 int64_t n, int64_t from, int64_t span);

struct Job {
  Row *row;
  int size;
  const int64_t *index;
  const char *x; /* the source */
  char *y;
  int ndim, axis;
  int64_t dim[TS_MAX_RANK];                                  /* of the index */
  int64_t ys[TS_MAX_RANK], xs[TS_MAX_RANK], is[TS_MAX_RANK]; /* elements; ys[axis] is 0 */
  int64_t step, along;   /* of y along the axis, and with i */
  int64_t size_of_axis;  /* of y */
  int64_t pieces, parts; /* of a row: of its neighbours; of the destination */
};

#define ROW(name, T, put)                                                                      \
  static void name(const Job *j, const int64_t *index, char *to, const char *from_x,           \
                   int64_t sx, int64_t n, int64_t from, int64_t span) {                        \
    T *y = (T *)(void *)to;                                                                    \
    const T *x = (const T *)(const void *)from_x;                                              \
    TS_CPU_LOOKING(i, 0, n) {                                                                  \
      if ((uint64_t)(index[i] - from) >= (uint64_t)span) continue;                             \
      T *at = y + index[i] * j->step + i * j->along;                                           \
      put;                                                                                     \
    }                                                                                          \
  }
#define SET(bytes, T) ROW(set_##bytes, T, *at = x[i * sx])
#define ADD(name, T)  ROW(add_##name, T, *at = (T)(*at + x[i * sx]))
TS_INDEX_WIDTHS(SET)
TS_INDEX_SUMS(ADD)
#undef SET
#undef ADD

#define ADD_ROW(name, T) [TS_INDEX_SUM_##name] = add_##name,
static Row *const adder[TS_INDEX_SUM_COUNT] = {TS_INDEX_SUMS(ADD_ROW)};
#undef ADD_ROW

static Row *setter(int size) {
  return size == 1 ? set_1 : size == 2 ? set_2 : size == 4 ? set_4 : size == 8 ? set_8 : set_16;
}

/* Unit u: coordinates of all axes but the last and the scattered one, a piece of the
 * last axis, a part of the destination. Within it the scattered axis is walked. */
static void one_piece(const Job *j, int64_t u) {
  int last = j->ndim - 1;
  int64_t part = u % j->parts, piece = u / j->parts % j->pieces,
          rest = u / j->parts / j->pieces;
  int64_t y = 0, x = 0, at = 0, from = 0, span = j->size_of_axis;
  int64_t start = 0, n = j->dim[last], walk = 1;
  for (int i = last - 1; i >= 0; i--) {
    if (i == j->axis) continue;
    int64_t c = rest % j->dim[i];
    rest /= j->dim[i];
    y += c * j->ys[i], x += c * j->xs[i], at += c * j->is[i];
  }
  if (j->axis != last) {
    walk = j->dim[j->axis];
    start = piece * PIECE;
    n = n - start < PIECE ? n - start : PIECE;
  }
  if (j->parts > 1) {
    from = j->size_of_axis * part / j->parts;
    span = j->size_of_axis * (part + 1) / j->parts - from;
  }
  y += start * j->along, x += start * j->xs[last], at += start;
  for (int64_t a = 0; a < walk && !ts_cpu_interrupted(); a++) {
    j->row(j, j->index + at, j->y + y * j->size, j->x + x * j->size, j->xs[last], n, from,
           span);
    x += j->xs[j->axis], at += j->is[j->axis];
  }
}

static void all_pieces(void *arg, int64_t lo, int64_t hi, int worker) {
  (void)worker;
  for (int64_t u = lo; u < hi && !ts_cpu_interrupted(); u++) one_piece(arg, u);
}

static void set_strides(Job *j, const TsTensor *y, const TsTensor *x, const TsMeta *index) {
  int last = index->ndim - 1, skip = index->ndim - x->meta.ndim;
  int64_t step = 1;
  j->ndim = index->ndim;
  for (int i = last; i >= 0; i--) {
    bool spread = i < skip || x->meta.dim[i - skip] == 1;
    j->dim[i] = index->dim[i];
    j->is[i] = step;
    j->xs[i] = spread ? 0 : x->stride[i - skip];
    j->ys[i] = i == j->axis ? 0 : y->stride[i];
    step *= index->dim[i];
  }
  j->step = y->stride[j->axis];
  j->along = j->axis == last ? 0 : y->stride[last];
  j->size_of_axis = y->meta.dim[j->axis];
}

static void run(Job *j) {
  int last = j->ndim - 1;
  int64_t count = 1, walk = j->dim[j->axis];
  j->pieces = j->axis == last ? 1 : (j->dim[last] + PIECE - 1) / PIECE;
  for (int i = 0; i < last; i++) count *= i == j->axis ? 1 : j->dim[i];
  int threads = ts_cpu_threads();
  j->parts = j->axis == last && count < threads && walk >= 4 * GRAIN ? threads : 1;
  int64_t each = walk * (j->axis == last ? 1 : j->dim[last] < PIECE ? j->dim[last] : PIECE);
  ts_cpu_parallel(count * j->pieces * j->parts, GRAIN / (each + 1) + 1, all_pieces, j);
}

/* y begins as x and takes src, of y's type, at the index. */
static int scatter_into(TsCall *call, TsTensor *y, TsTensor *src, const TsIndex *ix, int axis,
                        bool add) {
  TsDtype d = ts_tensor_dtype(y);
  Job j = {.index = ix->at, .axis = axis, .size = ts_dtypes[d].nbytes};
  j.row = add ? adder[ts_index_sum(d)] : setter(j.size);
  set_strides(&j, y, src, &call->in[1]->meta);
  j.x = ts_tensor_read(src);
  j.y = j.x ? ts_tensor_write(y) : NULL;
  if (j.y && ix->n > 0) run(&j);
  return j.y ? 0 : -1;
}

static int scatter(TsCall *call, bool add) {
  TsContext *c = call->ctx;
  TsTensor *x = call->in[0], *out = call->out[0];
  TsDtype d = ts_tensor_dtype(out), sum = add ? (TsDtype)ts_dtypes[d].compute : d;
  int axis = (int)(call->attr[0].i < 0 ? call->attr[0].i + x->meta.ndim : call->attr[0].i);
  TsIndex ix;
  if (ts_index_open(call, 1, axis, x->meta.dim[axis], &ix)) return -1;
  TsTensor *y = NULL, *src = ts_tensor_cast(c, call->in[2], sum);
  if (src) y = sum == d ? ts_tensor_ref(out) : ts_tensor_cast(c, x, sum);
  bool there = out->storage == x->storage && out->offset == x->offset && out->contiguous;
  int failed = !y || (sum == d && !there && ts_vm_assign(c, out, x)) ||
               scatter_into(call, y, src, &ix, axis, add) ||
               (sum != d && ts_vm_assign(c, out, y));
  ts_tensor_unref(src);
  ts_tensor_unref(y);
  ts_index_close(&ix);
  return failed ? -1 : 0;
}

int ts_exec_scatter(TsCall *call) { return scatter(call, false); }
int ts_exec_scatter_add(TsCall *call) { return scatter(call, true); }
