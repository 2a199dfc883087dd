/* Pointwise operators over strided, broadcast operands of any dtype.
 *
 * Kernels (vm/kernels/pointwise/) see contiguous runs of their compute type, or
 * one number for a whole run. Everything else is staged here, a block at a time
 * in the first-level cache: strided operands are gathered, storage types widened,
 * results narrowed and scattered. So one kernel a row and compute type serves
 * every layout and every storage type. Large results go past the caches, which
 * spares reading the destination first: the kernels of floats store so themselves,
 * the results of others leave a block by non-temporal stores. */
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/core/exec.h"

_Static_assert((int)TS_OP_where == (int)TS_PW_where, "pointwise rows stand first");

enum {
  MAX_OPERANDS = 4,   /* three inputs and the output */
  BLOCK = 1024,       /* elements staged at a time: four buffers of 16 KiB at most */
  STREAM_BLOCK = 256, /* when the result is streamed out: loads and stores interleave */
  LINE = 64,
  SHORT_RUN = 16,       /* inner runs below this are staged across rows .. */
  UNIT_RUN = 128,       /* .. and below this if the two inner axes together have .. */
  UNIT = 256,           /* .. so many elements */
  GRAIN = 1 << 15,      /* elements that one thread takes at least */
  STREAM = 12 << 20,    /* bytes of a result that goes past the caches */
  COPY_FIRST = 1 << 16, /* elements of an operand worth a transposing copy */
};

typedef struct Operand {
  char *base;
  int64_t stride[TS_MAX_RANK]; /* bytes; 0 where broadcast */
  int size;                    /* bytes of a stored element */
  int ksize;                   /* bytes of an element as the kernel sees it */
  TsConvertFn *convert;        /* stored -> kernel (inputs), kernel -> stored (output) */
} Operand;

typedef struct Job {
  const TsKernels *k;
  TsPointwiseFn *fn;
  int nin, ndim;
  int64_t dim[TS_MAX_RANK];
  Operand operand[MAX_OPERANDS]; /* inputs, then the output */
  const double *par;
  double number[MAX_OPERANDS];
  bool stream; /* the result goes past the caches .. */
  bool past;   /* .. by the kernel's own stores */
} Job;

/* Kernels may read whole vectors at the end of a staged run. */
typedef struct Buffers {
  _Alignas(64) char stored[BLOCK * 16 + 64];
  _Alignas(64) char value[MAX_OPERANDS][BLOCK * 16 + 64];
} Buffers;

/* ---- setting up */
static TsPointwiseFn *find_kernel(const TsKernels *k, TsOp op, TsDtype compute) {
  if (compute == TS_DT_f32) return k->pointwise.f32[op];
  if (compute == TS_DT_f64) return k->pointwise.f64[op];
  if (ts_dtype_is(compute, TS_KIND_C))
    return k->pointwise_complex.fn[compute - TS_DT_complex64][op];
  return k->pointwise_int.fn[compute][op];
}

static void set_operand(Operand *o, const TsTensor *t, char *base, const TsMeta *shape) {
  int skip = shape->ndim - t->meta.ndim;
  o->base = base;
  o->size = ts_dtypes[t->meta.dtype].nbytes;
  for (int i = 0; i < shape->ndim; i++) {
    bool spread = i < skip || t->meta.dim[i - skip] == 1;
    o->stride[i] = spread ? 0 : t->stride[i - skip] * o->size;
  }
}

/* Drops axes of size 1 and merges neighbours that every operand walks evenly. */
static void merge_axes(Job *j, const TsMeta *shape) {
  int n = 0;
  for (int i = 0; i < shape->ndim; i++) {
    if (shape->dim[i] == 1) continue;
    bool joins = n > 0;
    for (int p = 0; joins && p <= j->nin; p++)
      joins = j->operand[p].stride[n - 1] == j->operand[p].stride[i] * shape->dim[i];
    if (joins) n--;
    j->dim[n] = joins ? j->dim[n] * shape->dim[i] : shape->dim[i];
    for (int p = 0; p <= j->nin; p++) j->operand[p].stride[n] = j->operand[p].stride[i];
    n++;
  }
  if (n == 0) {
    j->dim[0] = 1;
    for (int p = 0; p <= j->nin; p++) j->operand[p].stride[0] = j->operand[p].size;
    for (int p = 0; p < j->nin; p++) j->operand[p].stride[0] = 0;
    n = 1;
  }
  j->ndim = n;
}

static int set_input(Job *j, TsCall *call, int i, TsTensor *t, TsDtype compute,
                     TsDtype kernel) {
  TsDtype stored = ts_tensor_dtype(t);
  bool condition = call->op == TS_OP_where && i == 0;
  if (condition) kernel = TS_DT_bool;
  char *base = ts_tensor_read(t);
  if (!base) return -1;
  set_operand(&j->operand[i], t, base, &call->out[0]->meta);
  if (t->meta.weak && compute != kernel && ts_op_info(call->op)->picks) {
    j->number[i] = ts_dtype_stored(compute, ts_tensor_number_value(t));
    j->operand[i].base = (char *)&j->number[i];
    stored = TS_DT_f64;
  }
  j->operand[i].ksize = ts_dtypes[kernel].nbytes;
  j->operand[i].convert = stored == kernel ? NULL : j->k->convert.convert[stored][kernel];
  return 0;
}

static int set_output(Job *j, TsTensor *t) {
  TsDtype stored = ts_tensor_dtype(t), kernel = (TsDtype)ts_dtypes[stored].compute;
  char *base = ts_tensor_write(t);
  if (!base) return -1;
  Operand *o = &j->operand[j->nin];
  set_operand(o, t, base, &t->meta);
  o->ksize = ts_dtypes[kernel].nbytes;
  o->convert = stored == kernel ? NULL : j->k->convert.convert[kernel][stored];
  return 0;
}

/* ---- rows: the inner axis is long enough to be worth a kernel call */
static bool is_direct(const Operand *o, int64_t stride) {
  return !o->convert && stride == o->size;
}

static bool whole_lines(const char *at, int64_t nbytes) {
  return ((uintptr_t)at | (uintptr_t)nbytes) % LINE == 0;
}

/* n elements from `at` as the kernel wants them: in place, or staged into value. */
static const void *load_run(const Job *j, const Operand *o, const char *at, int64_t n,
                            char *value, char *stored, bool *scalar) {
  int64_t stride = o->stride[j->ndim - 1];
  *scalar = stride == 0;
  if (*scalar) n = 1;
  if (!o->convert) {
    if (*scalar || stride == o->size) return at;
    j->k->copy.gather(n, value, at, stride, o->size);
    return value;
  }
  if (!*scalar && stride != o->size) {
    j->k->copy.gather(n, stored, at, stride, o->size);
    at = stored;
  }
  o->convert(n, value, at);
  return value;
}

static void store_run(const Job *j, const Operand *o, char *at, int64_t n, char *value,
                      char *stored) {
  int64_t stride = o->stride[j->ndim - 1];
  char *from = value;
  if (o->convert) {
    char *to = stride == o->size && !j->stream ? at : stored;
    o->convert(n, to, value);
    if (to == at) return;
    from = stored;
  }
  if (stride != o->size)
    j->k->copy.scatter(n, at, stride, from, o->size);
  else
    j->k->copy.stream(n * o->size, at, from);
}

static void run(const Job *j, char *const *at, int64_t n, Buffers *b) {
  const void *in[MAX_OPERANDS];
  unsigned scalars = 0;
  for (int p = 0; p < j->nin; p++) {
    bool scalar;
    in[p] = load_run(j, &j->operand[p], at[p], n, b->value[p], b->stored, &scalar);
    scalars |= (unsigned)scalar << p;
  }
  const Operand *o = &j->operand[j->nin];
  bool direct = j->past || (is_direct(o, o->stride[j->ndim - 1]) && !j->stream);
  if (j->past && whole_lines(at[j->nin], n * o->size)) scalars |= TS_PW_PAST;
  void *out = direct ? at[j->nin] : b->value[j->nin];
  j->fn(n, out, in, j->par, scalars);
  if (!direct) store_run(j, o, at[j->nin], n, out, b->stored);
}

static void seek(const Job *j, int64_t row, char **at, int64_t *index) {
  for (int p = 0; p <= j->nin; p++) at[p] = j->operand[p].base;
  for (int i = j->ndim - 2; i >= 0; i--) {
    int64_t r = index[i] = row % j->dim[i];
    row /= j->dim[i];
    for (int p = 0; p <= j->nin; p++) at[p] += r * j->operand[p].stride[i];
  }
}

static bool all_direct(const Job *j) {
  for (int p = 0; p <= j->nin; p++) {
    const Operand *o = &j->operand[p];
    int64_t stride = o->stride[j->ndim - 1];
    bool scalar = p < j->nin && stride == 0 && !o->convert;
    if (!scalar && !is_direct(o, stride)) return false;
  }
  return j->past || !j->stream;
}

/* The elements of a block of at most n. Kernels that store past the caches get whole
 * lines of the result; what lies before and after them are blocks of their own. */
static int64_t block_size(const Job *j, char *const *at, int64_t n) {
  if (!j->past) return n;
  int64_t size = j->operand[j->nin].size, line = LINE / size;
  int64_t lead = (int64_t)(-(uintptr_t)at[j->nin] % LINE) / size;
  if (lead) return lead < n ? lead : n;
  return n < line ? n : n - n % line;
}

/* The row behind that which begins at `first`. */
static void next_row(const Job *j, int64_t *index, char **first) {
  for (int i = j->ndim - 2; i >= 0; i--) {
    for (int p = 0; p <= j->nin; p++) first[p] += j->operand[p].stride[i];
    if (++index[i] < j->dim[i]) return;
    for (int p = 0; p <= j->nin; p++) first[p] -= j->dim[i] * j->operand[p].stride[i];
    index[i] = 0;
  }
}

/* Elements lo..hi-1 in row-major order, row by row, in blocks. */
static void rows(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  Buffers b;
  char *at[MAX_OPERANDS], *first[MAX_OPERANDS];
  int64_t index[TS_MAX_RANK];
  int inner = j->ndim - 1;
  int64_t len = j->dim[inner];
  int64_t block = all_direct(j) ? INT64_C(1) << 40 : j->stream ? STREAM_BLOCK : BLOCK;
  (void)worker;
  seek(j, lo / len, first, index);
  for (int64_t i = lo, col = lo % len; i < hi; col = 0) {
    int64_t n = len - col < hi - i ? len - col : hi - i;
    for (int p = 0; p <= j->nin; p++) at[p] = first[p] + col * j->operand[p].stride[inner];
    for (int64_t done = 0; done < n;) {
      int64_t m = block_size(j, at, n - done < block ? n - done : block);
      run(j, at, m, &b);
      for (int p = 0; p <= j->nin; p++) at[p] += m * j->operand[p].stride[inner];
      done += m;
    }
    i += n;
    next_row(j, index, first);
  }
  if (j->stream) ts_copy_fence();
}

/* Rows of len elements between `at` and a dense buffer: the shorter of both loops is ours. */
static void move_rows(const Job *j, const Operand *o, char *at, int64_t n, char *buffer,
                      bool out) {
  const TsCopyKernels *k = &j->k->copy;
  int64_t len = j->dim[j->ndim - 1], stride = o->stride[j->ndim - 1], row = len * o->size,
          step = o->stride[j->ndim - 2];
  if (stride == o->size) {
    if (out)
      k->runs(n, row, at, step, buffer, row);
    else
      k->runs(n, row, buffer, row, at, step);
  } else if (!out && stride == 0 && step == o->size && len <= 4) {
    k->weave(n, (int)len, buffer, at, 0, o->size);
  } else if (!out && stride == 0 && len > 24) {
    for (int64_t i = 0; i < n; i++, at += step, buffer += row)
      k->splat(len, buffer, at, o->size);
  } else if (n < len) {
    for (int64_t i = 0; i < n; i++, at += step, buffer += row)
      out ? k->scatter(len, at, stride, buffer, o->size)
          : k->gather(len, buffer, at, stride, o->size);
  } else {
    for (int64_t c = 0; c < len; c++, at += stride, buffer += o->size)
      out ? k->strided(n, at, step, buffer, row, o->size)
          : k->strided(n, buffer, row, at, step, o->size);
  }
}

/* ---- short inner runs of many rows: the two inner axes go together, in blocks of whole rows.
 * What lies side by side over both is read in place, what repeats over the rows is staged once
 * for all of them, the rest row by row. */
typedef enum UnitKind { UNIT_PLAIN, UNIT_NUMBER, UNIT_REPEATED, UNIT_OTHER } UnitKind;

static UnitKind unit_kind(const Job *j, const Operand *o) {
  int64_t inner = o->stride[j->ndim - 1], outer = o->stride[j->ndim - 2];
  if (inner == o->size && outer == inner * j->dim[j->ndim - 1]) return UNIT_PLAIN;
  if (outer == 0) return inner == 0 ? UNIT_NUMBER : UNIT_REPEATED;
  return UNIT_OTHER;
}

/* A row of the kernel's elements as often as it is wanted. */
static void repeat(char *row, int64_t nbytes, int64_t times) {
  for (int64_t have = 1, more; have < times; have += more) {
    more = have < times - have ? have : times - have;
    memcpy(row + have * nbytes, row, (size_t)(more * nbytes));
  }
}

/* nrow rows from `at` as the kernel wants them. most: rows of a block; first: the rows are the
 * first ones of their two axes. */
static const void *load_unit(const Job *j, int p, const char *at, int64_t nrow, int64_t most,
                             bool first, Buffers *b) {
  const Operand *o = &j->operand[p];
  int64_t len = j->dim[j->ndim - 1];
  char *value = b->value[p], *to = o->convert ? b->stored : value;
  UnitKind kind = unit_kind(j, o);
  if (kind == UNIT_PLAIN || kind == UNIT_NUMBER) {
    if (!o->convert) return at;
    o->convert(kind == UNIT_NUMBER ? 1 : nrow * len, value, at);
    return value;
  }
  if (kind == UNIT_REPEATED && !first) return value;
  if (kind == UNIT_REPEATED) nrow = 1;
  move_rows(j, o, (char *)(uintptr_t)at, nrow, to, false);
  if (o->convert) o->convert(nrow * len, value, to);
  if (kind == UNIT_REPEATED) repeat(value, len * o->ksize, most);
  return value;
}

static void store_unit(const Job *j, char *at, int64_t nrow, char *value, Buffers *b) {
  const Operand *o = &j->operand[j->nin];
  int64_t len = j->dim[j->ndim - 1];
  char *from = o->convert ? b->stored : value;
  if (o->convert) o->convert(nrow * len, from, value);
  if (unit_kind(j, o) == UNIT_PLAIN) {
    j->k->copy.stream(nrow * len * o->size, at, from);
    return;
  }
  move_rows(j, o, at, nrow, from, true);
}

static void unit_block(const Job *j, char *const *at, int64_t nrow, int64_t most, bool first,
                       Buffers *b) {
  const void *in[MAX_OPERANDS];
  unsigned scalars = 0;
  for (int p = 0; p < j->nin; p++) {
    in[p] = load_unit(j, p, at[p], nrow, most, first, b);
    scalars |= (unsigned)(unit_kind(j, &j->operand[p]) == UNIT_NUMBER) << p;
  }
  const Operand *o = &j->operand[j->nin];
  bool direct = !o->convert && !j->stream && unit_kind(j, o) == UNIT_PLAIN;
  char *out = direct ? at[j->nin] : b->value[j->nin];
  j->fn(nrow * j->dim[j->ndim - 1], out, in, j->par, scalars);
  if (!direct) store_unit(j, at[j->nin], nrow, out, b);
}

/* Rows lo..hi-1. */
static void units(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  Buffers b;
  char *at[MAX_OPERANDS];
  int64_t index[TS_MAX_RANK], count = j->dim[j->ndim - 2];
  int64_t block = (j->stream ? STREAM_BLOCK : BLOCK) / j->dim[j->ndim - 1];
  (void)worker;
  for (int64_t i = lo, n; i < hi; i += n) {
    n = count - i % count < hi - i ? count - i % count : hi - i;
    int64_t most = block < n ? block : n;
    seek(j, i, at, index);
    for (int64_t done = 0, m; done < n; done += m) {
      m = n - done < most ? n - done : most;
      unit_block(j, at, m, most, done == 0, &b);
      for (int p = 0; p <= j->nin; p++) at[p] += m * j->operand[p].stride[j->ndim - 2];
    }
  }
  if (j->stream) ts_copy_fence();
}

/* ---- short inner runs: blocks are staged across rows */

/* Moves elements lo..lo+n-1 of an operand between its place and a buffer. */
static void move_block(const Job *j, const Operand *o, int64_t lo, int64_t n, char *buffer,
                       bool out) {
  int inner = j->ndim - 1;
  int64_t len = j->dim[inner], row = lo / len, col = lo % len, index[TS_MAX_RANK];
  char *at = o->base;
  for (int i = inner - 1; i >= 0; i--) {
    index[i] = row % j->dim[i];
    row /= j->dim[i];
    at += index[i] * o->stride[i];
  }
  while (n > 0) {
    int64_t left = j->dim[inner - 1] - index[inner - 1], count = n / len, m = 1;
    int64_t part = len - col < n ? len - col : n; /* of a row that is not whole here */
    if (part < len) {
      char *from = at + col * o->stride[inner];
      if (out)
        j->k->copy.scatter(part, from, o->stride[inner], buffer, o->size);
      else
        j->k->copy.gather(part, buffer, from, o->stride[inner], o->size);
      col = 0;
    } else {
      m = count < left ? count : left;
      move_rows(j, o, at, m, buffer, out);
      part = m * len;
    }
    buffer += part * o->size;
    n -= part;
    index[inner - 1] += m;
    at += m * o->stride[inner - 1];
    for (int i = inner - 1; i > 0 && index[i] == j->dim[i]; i--) {
      at += o->stride[i - 1] - index[i] * o->stride[i];
      index[i] = 0;
      index[i - 1]++;
    }
  }
}

/* Its elements lie in the order in which they are walked. */
static bool is_dense(const Job *j, const Operand *o) {
  int64_t step = o->size;
  for (int i = j->ndim - 1; i >= 0; step *= j->dim[i--])
    if (o->stride[i] != step) return false;
  return true;
}

static void short_block(const Job *j, const bool *dense, int64_t lo, int64_t n, Buffers *b) {
  const void *in[MAX_OPERANDS];
  for (int p = 0; p < j->nin; p++) {
    const Operand *o = &j->operand[p];
    char *from = dense[p] ? o->base + lo * o->size : o->convert ? b->stored : b->value[p];
    if (!dense[p]) move_block(j, o, lo, n, from, false);
    if (o->convert) o->convert(n, b->value[p], from);
    in[p] = o->convert ? b->value[p] : from;
  }
  const Operand *o = &j->operand[j->nin];
  bool there = dense[j->nin];
  char *place = o->base + lo * o->size;
  bool past = there && j->past && whole_lines(place, n * o->size);
  bool later = there && j->stream && !past; /* past the caches, by us */
  char *to = there && !later ? place : o->convert ? b->stored : b->value[j->nin];
  char *result = o->convert ? b->value[j->nin] : to;
  j->fn(n, result, in, j->par, past ? TS_PW_PAST : 0);
  if (o->convert) o->convert(n, to, result);
  if (later) j->k->copy.stream(n * o->size, place, to);
  if (!there) move_block(j, o, lo, n, to, true);
}

static void short_rows(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  Buffers b;
  bool dense[MAX_OPERANDS];
  int64_t block = j->stream ? STREAM_BLOCK : BLOCK;
  (void)worker;
  for (int p = 0; p <= j->nin; p++) dense[p] = is_dense(j, &j->operand[p]);
  for (; lo < hi; lo += block) short_block(j, dense, lo, hi - lo < block ? hi - lo : block, &b);
  if (j->stream) ts_copy_fence();
}

/* ---- the handler */
static void execute(Job *j, int64_t n) {
  const Operand *o = &j->operand[j->nin];
  int64_t len = j->dim[j->ndim - 1];
  bool runs = j->ndim == 1 || len >= SHORT_RUN;
  bool in_place = false;
  for (int p = 0; p < j->nin; p++) in_place |= j->operand[p].base == o->base;
  j->stream = n * o->size >= STREAM && o->stride[j->ndim - 1] == o->size && !in_place;
  j->past &= j->stream;
  if (j->ndim > 1 && len < UNIT_RUN && j->dim[j->ndim - 2] * len >= UNIT)
    ts_cpu_parallel(n / len, GRAIN / len, units, j);
  else
    ts_cpu_parallel(n, GRAIN, runs ? rows : short_rows, j);
}

/* Contiguous operands of the kernel's own type and one shape need none of this. */
static bool execute_plain(TsCall *call, TsPointwiseFn *fn, TsDtype kernel, int64_t n) {
  TsTensor *y = call->out[0];
  const void *in[MAX_OPERANDS];
  if (n > GRAIN || !y->contiguous || ts_dtypes[y->meta.dtype].compute != y->meta.dtype)
    return false;
  for (int i = 0; i < call->nin; i++) {
    TsTensor *x = call->in[i];
    if (ts_tensor_dtype(x) != kernel || !x->contiguous || !(x->storage->valid & 1))
      return false;
    if (x->meta.weak || !ts_meta_same_shape(&x->meta, &y->meta)) return false;
    in[i] = (char *)x->storage->host + x->offset;
  }
  void *out = ts_tensor_write(y);
  if (!out) return false;
  fn(n, out, in, NULL, 0);
  return true;
}

/* A large operand whose inner axis is not adjacent is transposed once instead of
 * being gathered row by row. */
static TsTensor *prepared(TsCall *call, int i) {
  TsTensor *x = call->in[i];
  int last = x->meta.ndim - 1;
  bool far = last >= 0 && x->meta.dim[last] > 1 && x->stride[last] != 1 && x->stride[last] != 0;
  if (!far || ts_tensor_numel(x) < COPY_FIRST) return ts_tensor_ref(x);
  for (int a = 0; a < last; a++)
    if (x->stride[a] == 0 && x->meta.dim[a] > 1) return ts_tensor_ref(x);
  return ts_tensor_contiguous(call->ctx, x);
}

static int execute_strided(TsCall *call, const TsOpInfo *o, TsPointwiseFn *fn, TsDtype kernel,
                           int64_t n) {
  double par[2] = {0, 0};
  Job j = {.k = call->ctx->k, .fn = fn, .nin = call->nin, .par = par};
  for (int i = 0; i < o->npar; i++) {
    par[i] = call->attr[i].f;
    if (ts_op_info(call->op)->picks) par[i] = ts_dtype_stored(call->compute, par[i]);
  }
  TsTensor *in[MAX_OPERANDS] = {NULL};
  int failed = set_output(&j, call->out[0]);
  for (int i = 0; i < call->nin && !failed; i++)
    failed =
        !(in[i] = prepared(call, i)) || set_input(&j, call, i, in[i], call->compute, kernel);
  if (!failed) {
    bool own = kernel == TS_DT_f32 || kernel == TS_DT_f64;
    j.past = own && call->out[0]->meta.dtype == kernel && j.k->pointwise.past;
    merge_axes(&j, &call->out[0]->meta);
    execute(&j, n);
  }
  for (int i = 0; i < call->nin; i++) ts_tensor_unref(in[i]);
  return failed ? -1 : 0;
}

int ts_exec_pointwise(TsCall *call) {
  TsContext *c = call->ctx;
  const TsOpInfo *o = ts_op_info(call->op);
  TsDtype kernel = (TsDtype)ts_dtypes[call->compute].compute;
  int64_t n = ts_tensor_numel(call->out[0]);
  TsPointwiseFn *fn = find_kernel(c->k, call->op, kernel);
  if (!fn) TS_BUG("%s has no kernel for %s", o->name, ts_dtype_name(kernel));
  if (n == 0) return 0;
  if (!o->npar && call->op != TS_OP_where && execute_plain(call, fn, kernel, n)) return 0;
  return execute_strided(call, o, fn, kernel, n);
}
