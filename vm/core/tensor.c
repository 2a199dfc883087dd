/* Tensors: life, views, copies, single elements. */
#include "vm/core/tensor.h"

#include <string.h>

#include "devices/cpu_pool.h"
#include "devices/device.h"
#include "devices/memory.h"
#include "devices/work.h"
#include "vm/core/copy.h"
#include "vm/core/defer.h"
#include "vm/core/offload.h"
#include "vm/core/storage.h"
#include "vm/core/tape.h"
#include "vm/core/vm.h"

static void *out_of_memory(TsContext *c, int64_t nbytes) {
  TsMemoryStats s = ts_memory_stats();
  ts_error_set(
      &c->err, TS_ERR_memory,
      "out of memory: %lld bytes for a tensor; tensors hold %lld, caches %lld, and the "
      "machine has %lld left",
      (long long)nbytes, (long long)c->live_bytes, (long long)(s.cached + ts_work_kept()),
      (long long)ts_memory_left());
  return NULL;
}

static TsStorage *storage_found(TsContext *c, int64_t nbytes) {
  TsStorage *s = ts_storage_new(c, nbytes);
  if (s || nbytes > ts_memory_machine()) return s;
  out_of_memory(c, nbytes);
  return ts_context_once_more(c) ? ts_storage_new(c, nbytes) : NULL;
}

static TsTensor *tensor_on(TsContext *c, const TsMeta *m, TsStorage *s) {
  TsTensor *t = s ? ts_memory_alloc(sizeof *t) : NULL;
  if (!t) return NULL;
  t->meta.dtype = m->dtype, t->meta.ndim = m->ndim;
  t->meta.weak = m->weak, t->meta.device = m->device, t->meta.layout = m->layout;
  for (int i = 0; i < m->ndim; i++) t->meta.dim[i] = m->dim[i];
  t->refs = 1;
  t->requires_grad = t->apart = t->recorded = 0;
  t->origin = NULL;
  t->grad = NULL;
  t->id = c->next_id++;
  t->storage = s;
  t->offset = 0;
  return t;
}

TsTensor *ts_tensor_new(TsContext *c, const TsMeta *m) {
  int64_t nbytes = ts_meta_nbytes(m);
  bool away = m->device == TS_DEVICE_AWAY, remote = away || ts_offload_on(c, m->device);
  TsStorage *s = remote ? ts_storage_remote(c, nbytes, m->device) : storage_found(c, nbytes);
  TsTensor *t = tensor_on(c, m, s);
  if (!t) {
    if (s) ts_storage_free(s);
    return out_of_memory(c, nbytes);
  }
  if (c->on_host && !away) t->meta.device = 0;
  s->away = away;
  t->contiguous = 1;
  ts_meta_strides(m, t->stride);
  return t;
}

TsTensor *ts_tensor_placed(TsContext *c, const TsMeta *m, int device) {
  TsStorage *s = ts_storage_remote(c, ts_meta_nbytes(m), device);
  TsTensor *t = tensor_on(c, m, s);
  if (!t) {
    if (s) ts_storage_free(s);
    return out_of_memory(c, (int64_t)sizeof *t);
  }
  s->release = ts_storage_keep;
  t->meta.device = (uint8_t)device;
  t->contiguous = 1;
  ts_meta_strides(m, t->stride);
  return t;
}

void ts_tensor_place(TsTensor *t, void *at) { ts_storage_place(t->storage, at); }

static void give_back(void *x) { ts_tensor_unref(x); }

TsTensor *ts_tensor_lent(TsContext *c, TsTensor *x, int device) {
  if (!ts_tensor_read_on(x, x->meta.device)) return NULL;
  TsStorage *of = x->storage, *s = ts_storage_remote(c, of->nbytes, device);
  TsTensor *t = tensor_on(c, &x->meta, s);
  if (!t) {
    if (s) ts_storage_free(s);
    return out_of_memory(c, (int64_t)sizeof *t);
  }
  s->copies->at = ts_storage_copy(of, x->meta.device)->at;
  s->valid = (uint16_t)(1u << device);
  s->lent = device != x->meta.device;
  s->release = give_back, s->release_arg = ts_tensor_ref(x);
  t->meta.device = (uint8_t)device, t->meta.layout = 0;
  t->contiguous = x->contiguous, t->offset = x->offset;
  memcpy(t->stride, x->stride, x->meta.ndim * sizeof *x->stride);
  return t;
}

TsTensor *ts_tensor_view(TsTensor *x, const TsMeta *m, const int64_t *stride, int64_t offset) {
  TsContext *c = x->storage->ctx;
  if (x->storage->pending) { /* its place is known when its bytes are */
    bool whole = offset == x->offset;
    if (ts_defer_force(x)) return NULL;
    if (whole) offset = x->offset;
  }
  TsTensor *t = tensor_on(c, m, x->storage);
  if (!t) return out_of_memory(c, (int64_t)sizeof *t);
  x->storage->refs++;
  t->apart = x->apart;
  t->meta.device = x->meta.device, t->meta.layout = x->meta.layout;
  t->offset = offset;
  memcpy(t->stride, stride, m->ndim * sizeof *stride);
  t->contiguous = ts_meta_row_major(m, stride);
  return t;
}

TsTensor *ts_tensor_number(TsContext *c, double value) {
  TsMeta m = ts_meta_number(value); /* always the CPU's */
  TsTensor *t = ts_tensor_new(c, &m);
  if (!t) return NULL;
  if (m.dtype == TS_DT_i64)
    *(int64_t *)t->storage->host = (int64_t)value;
  else
    *(double *)t->storage->host = value;
  return t;
}

TsTensor *ts_tensor_symbol(TsContext *c, const TsMeta *m, void *origin) {
  TsStorage *s = ts_storage_new(c, 0);
  TsTensor *t = tensor_on(c, m, s);
  if (!t) {
    if (s) ts_storage_free(s);
    return out_of_memory(c, 0);
  }
  s->valid = 0, s->symbolic = 1;
  t->origin = origin;
  t->contiguous = 1;
  ts_meta_strides(m, t->stride);
  return t;
}

TsTensor *ts_tensor_wrap(TsContext *c, const TsMeta *m, void *host, void (*release)(void *),
                         void *arg) {
  TsStorage *s = ts_storage_around(c, ts_meta_nbytes(m), host, release, arg);
  TsTensor *t = tensor_on(c, m, s);
  if (!t) {
    if (s) s->release = ts_storage_keep, ts_storage_free(s); /* the memory stays the caller's */
    return out_of_memory(c, (int64_t)sizeof *t);
  }
  t->contiguous = 1;
  ts_meta_strides(m, t->stride);
  return t;
}

void ts_tensor_unref(TsTensor *t) {
  if (!t || --t->refs) return;
  if (t->storage->pending) {
    t->storage->ctx->defer->forget(t);
    if (t->grad) ts_tensor_unref(t->grad);
    ts_memory_free(t, sizeof *t);
    return;
  }
  if (t->origin && !t->storage->symbolic) ts_record_unref(t->origin);
  if (t->grad) ts_tensor_unref(t->grad);
  TsStorage *s = t->storage;
  s->recorded -= t->recorded;
  if (--s->refs == 0)
    ts_storage_free(s);
  else if (s->taped && s->refs == s->recorded)
    ts_tape_forget(s);
  ts_memory_free(t, sizeof *t);
}

static void byte_strides(const TsTensor *t, int64_t *out) {
  for (int i = 0; i < t->meta.ndim; i++)
    out[i] = ts_dtype_nbytes(ts_tensor_dtype(t), t->stride[i]);
}

/* By x's device: 1, and y is there, or as assign of vm/core/offload.h. */
static int converted_there(TsContext *c, TsTensor *x, const TsMeta *m, TsTensor **y) {
  *y = NULL;
  if (!ts_offload_on(c, m->device)) return 0;
  if (!(*y = ts_tensor_new(c, m))) return -1;
  int done = c->offload->assign(c, *y, x);
  if (done == 1) return 1;
  ts_tensor_unref(*y);
  *y = NULL;
  return done;
}

static TsTensor *converted(TsContext *c, TsTensor *x, TsDtype d) {
  if (ts_tensor_is_away(x)) {
    TsMeta there = x->meta;
    there.dtype = (uint8_t)d, there.weak = 0;
    return ts_tensor_new(c, &there);
  }
  if (x->meta.device == TS_DEVICE_MESH) { /* part by part */
    TsAttr a = ts_attr_dtype(d);
    return ts_tensor_dtype(x) == d ? ts_vm_call1(c, TS_OP_clone, 1, &x, NULL)
                                   : ts_vm_call1(c, TS_OP_cast, 1, &x, &a);
  }
  TsDtype from = ts_tensor_dtype(x);
  TsMeta m = x->meta;
  TsTensor *there;
  m.dtype = (uint8_t)d, m.weak = 0;
  if (converted_there(c, x, &m, &there)) return there;
  int device = m.device;
  m.device = 0;
  const void *src = ts_tensor_read(x);
  TsTensor *y = src ? ts_tensor_new(c, &m) : NULL;
  if (!y) return NULL;
  int64_t xs[TS_MAX_RANK], ys[TS_MAX_RANK];
  byte_strides(x, xs);
  byte_strides(y, ys);
  if (from == d && ts_dtype_in_blocks(d))
    memcpy(y->storage->host, src, (size_t)y->storage->nbytes);
  else if (from == d)
    ts_copy_nd(m.ndim, m.dim, y->storage->host, ys, src, xs, ts_dtypes[d].nbytes);
  else
    ts_convert_nd(m.ndim, m.dim, y->storage->host, d, ys, src, from, xs);
  if (!c->on_host) y->meta.device = (uint8_t)device;
  if (!ts_cpu_interrupted()) return y;
  ts_tensor_unref(y); /* part of it: its numbers may be somebody's indices */
  ts_error_set(&c->err, TS_ERR_interrupt, "interrupted");
  return NULL;
}

TsTensor *ts_tensor_copy(TsContext *c, TsTensor *x) {
  return converted(c, x, ts_tensor_dtype(x));
}

TsTensor *ts_tensor_cast(TsContext *c, TsTensor *x, TsDtype d) {
  bool nothing = ts_tensor_dtype(x) == d && x->contiguous && !x->meta.weak;
  return nothing ? ts_tensor_ref(x) : converted(c, x, d);
}

TsTensor *ts_tensor_contiguous(TsContext *c, TsTensor *x) {
  return x->contiguous ? ts_tensor_ref(x) : ts_tensor_cast(c, x, ts_tensor_dtype(x));
}

TsTensor *ts_tensor_to(TsContext *c, TsTensor *x, int device) {
  (void)c;
  if (x->meta.device == device || ts_tensor_is_away(x)) return ts_tensor_ref(x);
  if (ts_defer_force(x)) return NULL;
  TsDevice *d = ts_device_at(device);
  if (x->meta.device == TS_DEVICE_MESH && !ts_tensor_read(x)) return NULL; /* it is gathered */
  if (!d->host_memory && !ts_storage_fetch(x->storage, device)) return NULL;
  TsTensor *t = ts_tensor_view(x, &x->meta, x->stride, x->offset);
  if (t) t->meta.device = (uint8_t)device, t->meta.layout = 0;
  return t;
}

/* ---- single elements */
static void *element(TsTensor *t, int64_t index) {
  char *base = ts_tensor_read(t);
  if (!base) return NULL;
  int64_t at = 0;
  for (int i = t->meta.ndim; i-- > 0;) {
    at += index % t->meta.dim[i] * t->stride[i];
    index /= t->meta.dim[i];
  }
  return base + at * ts_dtypes[t->meta.dtype].nbytes;
}

/* A block element is found by converting its whole block. */
static double block_element(TsTensor *t, int64_t index) {
  float v[TS_BLOCK_MOST];
  TsDtype d = ts_tensor_dtype(t);
  int block = ts_dtypes[d].block;
  const char *base = ts_tensor_read(t);
  TsConvertFn *f = t->storage->ctx->k->convert.convert[d][TS_DT_f32];
  if (base) f(block, v, base + ts_dtype_nbytes(d, index / block * block));
  return base ? (double)v[index % block] : 0;
}

static void convert_one(TsTensor *t, int64_t index, TsDtype to, void *out) {
  const void *at = element(t, index);
  memset(out, 0, ts_dtypes[to].nbytes);
  if (at) t->storage->ctx->k->convert.convert[t->meta.dtype][to](1, out, at);
}

double ts_tensor_get(TsTensor *t, int64_t index) {
  double v;
  if (ts_dtype_in_blocks(t->meta.dtype)) return block_element(t, index);
  convert_one(t, index, TS_DT_f64, &v);
  return v;
}

int64_t ts_tensor_get_int(TsTensor *t, int64_t index) {
  int64_t v;
  convert_one(t, index, TS_DT_i64, &v);
  return v;
}

void ts_tensor_get_complex(TsTensor *t, int64_t index, double part[2]) {
  convert_one(t, index, TS_DT_complex128, part);
}
