/* Tensors and storages: life, views, residency. */
#include "vm/core/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "devices/device.h"
#include "devices/memory.h"
#include "devices/work.h"
#include "lib/activity.h"
#include "lib/mesh.h"
#include "vm/core/copy.h"
#include "vm/core/defer.h"
#include "vm/core/mapped.h"
#include "vm/core/offload.h"
#include "vm/core/tape.h"
#include "vm/core/vm.h"

/* ---- storage */
enum { HEADER = 64 }; /* data up to INLINE_MAX bytes stand right behind their storage */
enum { INLINE_MAX = TS_STORAGE_INLINE };
_Static_assert(sizeof(TsStorage) <= HEADER, "the header keeps data aligned");

static void count(TsStorage *s, int64_t nbytes) {
  s->ctx->live_bytes += nbytes;
  if (nbytes > 0) s->ctx->allocated += nbytes;
}

static void count_there(TsStorage *s, int64_t nbytes) {
  count(s, nbytes);
  s->ctx->live_there += nbytes;
  if (nbytes > 0) s->ctx->allocated_there += nbytes;
}

static void storage_init(TsStorage *s, TsContext *c, int64_t nbytes) {
  s->refs = 1;
  s->valid = 1;
  s->nbytes = nbytes;
  s->copies = NULL;
  s->ctx = c;
  s->release = NULL;
  s->release_arg = (void *)(uintptr_t)c->next_id;
  s->version = 0;
  s->symbolic = s->dated = s->lost = s->remote = s->pending = s->snapped = s->raw = s->away = 0;
  s->leaf = s->computed = s->taped = 0;
  s->recorded = 0;
  s->held = 0;
}

static TsStorage *storage_new(TsContext *c, int64_t nbytes) {
  bool inlined = nbytes <= INLINE_MAX;
  TsStorage *s = ts_memory_alloc(HEADER + (inlined ? nbytes : 0));
  if (!s) return NULL;
  storage_init(s, c, nbytes);
  s->host = inlined ? (char *)s + HEADER : ts_memory_alloc(nbytes);
  if (!s->host) {
    ts_memory_free(s, HEADER);
    return NULL;
  }
  count(s, nbytes);
  return s;
}

/* Without bytes anywhere. */
static TsStorage *storage_remote(TsContext *c, int64_t nbytes, int device) {
  TsStorage *s = ts_memory_alloc(HEADER + sizeof(TsCopy));
  if (!s) return NULL;
  storage_init(s, c, nbytes);
  s->valid = 0;
  s->remote = 1;
  s->host = NULL;
  s->copies = (TsCopy *)((char *)s + HEADER);
  *s->copies = (TsCopy){.device = device};
  return s;
}

/* Not by address: a block of its own may happen to follow its header. */
static bool is_inline(const TsStorage *s) {
  return !s->release && !s->remote && s->nbytes <= INLINE_MAX;
}

/* The memory of its first copy is somebody else's. */
static bool is_placed(const TsStorage *s) { return s->remote && s->release; }

static bool is_first(const TsStorage *s, const TsCopy *p) {
  return s->remote && (const char *)p == (const char *)s + HEADER;
}

/* Of the tensors of a context in the order in which they were made. */
static uint64_t *date_of(TsStorage *s) { return (uint64_t *)(void *)((char *)s + HEADER); }

uint64_t ts_tensor_made(const TsTensor *t) {
  TsStorage *s = t->storage;
  return s->dated ? *date_of(s) : s->release ? t->id : (uint64_t)(uintptr_t)s->release_arg;
}

static void storage_free(TsStorage *s) {
  for (TsCopy *p = s->copies, *next; p; p = next) {
    next = p->next;
    TsDevice *d = ts_device_at(p->device);
    if (p->at && !(is_placed(s) && is_first(s, p))) {
      d->free(d, p->at, s->nbytes);
      if (p->device != TS_DEVICE_MESH) count_there(s, -s->nbytes); /* parts count */
    }
    if (!is_first(s, p)) ts_memory_free(p, sizeof *p);
  }
  bool inlined = is_inline(s);
  if (s->release) s->release(s->release_arg);
  if ((!s->release || s->remote) && s->host) {
    if (!inlined) ts_memory_free(s->host, s->nbytes);
    count(s, -s->nbytes);
  }
  int64_t behind = s->remote  ? (int64_t)sizeof(TsCopy)
                   : inlined  ? s->nbytes
                   : s->dated ? (int64_t)sizeof *date_of(s)
                              : 0;
  ts_memory_free(s, HEADER + behind);
}

static TsCopy *copy_on(TsStorage *s, int device) {
  for (TsCopy *p = s->copies; p; p = p->next)
    if (p->device == device) return p;
  return NULL;
}

static int make_host(TsStorage *s) {
  if (s->host) return 0;
  if (!(s->host = ts_memory_alloc(s->nbytes)))
    return ts_error_set(&s->ctx->err, TS_ERR_memory,
                        "out of memory: %lld bytes for a tensor's copy on the CPU",
                        (long long)s->nbytes);
  count(s, s->nbytes);
  return 0;
}

/* Bytes that the program does not look at, once another device has written. */
static void drop_host(TsStorage *s) {
  if (!s->host || (s->release && !s->remote) || is_inline(s) || s->held) return;
  ts_memory_free(s->host, s->nbytes);
  s->host = NULL;
  count(s, -s->nbytes);
}

/* Launches that were put off come before bytes move. */
static int settle(TsContext *c, bool fetched) {
  return c->replaying || c->waiting ? c->offload->flush(c, fetched) : 0;
}

static TsCopy *valid_copy(const TsStorage *s) {
  for (TsCopy *p = s->copies; p; p = p->next)
    if (s->valid >> p->device & 1) return p;
  return NULL;
}

bool ts_bools_are_tidy(const void *at, int64_t n) {
  const uint8_t *b = at;
  uint8_t all = 0;
  for (int64_t i = 0; i < n; i++) all |= b[i];
  return all <= 1;
}

void ts_bools_tidy(void *at, int64_t n) {
  uint8_t *b = at;
  if (ts_bools_are_tidy(at, n)) return;
  for (int64_t i = 0; i < n; i++) b[i] = b[i] != 0;
}

void ts_tensor_expose(TsTensor *t) {
  t->storage->held = TS_HELD_NEVER;
  t->storage->raw = t->meta.dtype == TS_DT_bool;
}

/* Brings the host's copy up to date. */
static TsActivity *begin_copy(const char *way, const TsDevice *d) {
  char text[40];
  if (!ts_activities) return NULL;
  snprintf(text, sizeof text, "%s %s", way, d->name);
  return ts_activity_begin(TS_ACTIVITY_copy, text, NULL);
}

void ts_storage_free_plan(void *plan) { free(plan); }

static int fetch_host(TsStorage *s) {
  if (s->release == ts_storage_free_plan) {
    ts_error_set(
        &s->ctx->err, TS_ERR_value,
        "the tensor is only planned with: it has a type and a layout, but no elements");
    return ts_error_hint(&s->ctx->err,
                         "dist.tensor without abstract = true, over devices that are there "
                         "(tessera --devices=cpu:8), has elements");
  }
  if (s->symbolic) {
    ts_error_set(&s->ctx->err, TS_ERR_value,
                 "the values of a tensor are not known while a function is captured");
    return ts_error_hint(&s->ctx->err,
                         "choose by data with op.where, op.cond or op.while_loop");
  }
  if (s->lost) return ts_mapped_lost(s);
  if (s->away) {
    ts_error_set(&s->ctx->err, TS_ERR_value,
                 "the elements of this part are those of another process");
    return ts_error_hint(&s->ctx->err, "x:gather() brings all of a tensor to every process");
  }
  TsCopy *p = valid_copy(s);
  if (make_host(s)) return -1;
  if (p) {
    TsDevice *d = ts_device_at(p->device);
    if (settle(s->ctx, true)) return -1;
    TsActivity *w = begin_copy("from", d);
    int failed = d->download(d, s->host, p->at, s->nbytes, &s->ctx->err);
    ts_activity_end(w, s->nbytes, 0);
    if (failed) return -1;
    s->ctx->downloaded += s->nbytes;
  } else if (s->valid) {
    TS_BUG("a storage of %lld bytes has no valid copy", (long long)s->nbytes);
  }
  s->valid |= 1;
  return 0;
}

/* A valid copy that the device can take over without the host. */
static TsCopy *neighbour(TsStorage *s, const TsDevice *d) {
  for (TsCopy *p = s->copies; d->copy && p; p = p->next)
    if ((s->valid >> p->device & 1) && ts_device_at(p->device)->kind == d->kind) return p;
  return NULL;
}

/* Memory of launches that wait stays the device's, so they are queued before it is asked again. */
void *ts_tensor_room(TsContext *c, int device, int64_t nbytes) {
  TsDevice *d = ts_device_at(device);
  if (ts_device_use(d, &c->err)) return NULL;
  void *at = d->alloc(d, nbytes, &c->err);
  if (at || !ts_context_once_more(c) || settle(c, false)) return at;
  return d->alloc(d, nbytes, &c->err);
}

static TsCopy *make_copy(TsStorage *s, int device) {
  TsDevice *d = ts_device_at(device);
  TsCopy *p = copy_on(s, device);
  if (p && p->at) return p;
  void *at = ts_tensor_room(s->ctx, device, s->nbytes);
  if (!at) return NULL;
  if (!p) {
    if (!(p = ts_memory_alloc(sizeof *p))) {
      d->free(d, at, s->nbytes);
      ts_error_set(&s->ctx->err, TS_ERR_memory, "out of memory: a tensor's copy on %s",
                   d->name);
      return NULL;
    }
    *p = (TsCopy){s->copies, NULL, device};
    s->copies = p;
  }
  p->at = at;
  count_there(s, s->nbytes);
  return p;
}

/* The device's copy, up to date. */
static TsCopy *fetch_device(TsStorage *s, int device) {
  TsDevice *d = ts_device_at(device);
  TsError *err = &s->ctx->err;
  if ((s->symbolic || s->lost || s->away || s->release == ts_storage_free_plan) &&
      fetch_host(s))
    return NULL;
  TsCopy *p = make_copy(s, device);
  if (!p || (s->valid >> device & 1)) return p;
  TsCopy *from = s->valid & 1 ? NULL : neighbour(s, d);
  if (s->valid && settle(s->ctx, false)) return NULL;
  if (from) {
    TsDevice *source = ts_device_at(from->device);
    TsActivity *w = begin_copy("to", d);
    int failed = d->copy(d, p->at, source, from->at, s->nbytes, err);
    ts_activity_end(w, s->nbytes, 0);
    if (failed) return NULL;
  } else if (s->valid) {
    if (!(s->valid & 1) && fetch_host(s)) return NULL;
    if (s->raw) ts_bools_tidy(s->host, s->nbytes);
    TsActivity *w = begin_copy("to", d);
    int failed = d->upload(d, p->at, s->host, s->nbytes, err);
    ts_activity_end(w, s->nbytes, 0);
    if (failed) return NULL;
  }
  s->valid |= 1u << device;
  return p;
}

bool (*ts_tensor_parts_changed)(const TsStorage *s);

static void forget_old_parts(TsStorage *s) {
  if ((s->valid >> TS_DEVICE_MESH & 1) && (s->valid & 1) && ts_tensor_parts_changed(s))
    s->valid &= (uint16_t)~1u;
}

void *ts_tensor_read(TsTensor *t) {
  if (ts_defer_force(t)) return NULL;
  TsStorage *s = t->storage;
  forget_old_parts(s);
  if (!(s->valid & 1) && fetch_host(s)) return NULL;
  if (s->raw) ts_bools_tidy(s->host, s->nbytes);
  return (char *)s->host + t->offset;
}

void *ts_tensor_write(TsTensor *t) {
  if (ts_defer_force(t) || ts_defer_touch(t->storage)) return NULL;
  TsStorage *s = t->storage;
  forget_old_parts(s);
  if (!(s->valid & 1) && fetch_host(s)) return NULL;
  s->valid = 1;
  return (char *)s->host + t->offset;
}

void *ts_tensor_read_on(TsTensor *t, int device) {
  if (ts_defer_force(t)) return NULL;
  TsStorage *s = t->storage;
  TsCopy *p = (s->valid >> device & 1) ? copy_on(s, device) : fetch_device(s, device);
  return p ? (char *)p->at + t->offset : NULL;
}

void *ts_tensor_write_on(TsTensor *t, int device, bool whole) {
  if (ts_defer_force(t) || ts_defer_touch(t->storage)) return NULL;
  TsStorage *s = t->storage;
  bool fresh = whole || !s->valid || (s->valid >> device & 1);
  TsCopy *p = fresh && !s->symbolic && !s->away ? make_copy(s, device) : fetch_device(s, device);
  if (!p) return NULL;
  s->valid = 1u << device;
  drop_host(s);
  return (char *)p->at + t->offset;
}

/* ---- tensors */
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
  TsStorage *s = storage_new(c, nbytes);
  if (s || nbytes > ts_memory_machine()) return s;
  out_of_memory(c, nbytes);
  return ts_context_once_more(c) ? storage_new(c, nbytes) : NULL;
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
  TsStorage *s = remote ? storage_remote(c, nbytes, m->device) : storage_found(c, nbytes);
  TsTensor *t = tensor_on(c, m, s);
  if (!t) {
    if (s) storage_free(s);
    return out_of_memory(c, nbytes);
  }
  if (c->on_host && !away) t->meta.device = 0;
  s->away = away;
  t->contiguous = 1;
  ts_meta_strides(m, t->stride);
  return t;
}

static void keep(void *arg) { (void)arg; }

TsTensor *ts_tensor_placed(TsContext *c, const TsMeta *m, int device) {
  TsStorage *s = storage_remote(c, ts_meta_nbytes(m), device);
  TsTensor *t = tensor_on(c, m, s);
  if (!t) {
    if (s) storage_free(s);
    return out_of_memory(c, (int64_t)sizeof *t);
  }
  s->release = keep;
  t->meta.device = (uint8_t)device;
  t->contiguous = 1;
  ts_meta_strides(m, t->stride);
  return t;
}

void ts_tensor_place(TsTensor *t, void *at) {
  TsStorage *s = t->storage;
  drop_host(s);
  s->valid = 0;
  ((TsCopy *)((char *)s + HEADER))->at = at;
}

static void give_back(void *x) { ts_tensor_unref(x); }

TsTensor *ts_tensor_lent(TsContext *c, TsTensor *x, int device) {
  if (!ts_tensor_read_on(x, x->meta.device)) return NULL;
  TsStorage *of = x->storage, *s = storage_remote(c, of->nbytes, device);
  TsTensor *t = tensor_on(c, &x->meta, s);
  if (!t) {
    if (s) storage_free(s);
    return out_of_memory(c, (int64_t)sizeof *t);
  }
  s->copies->at = copy_on(of, x->meta.device)->at;
  s->valid = (uint16_t)(1u << device);
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
  TsStorage *s = storage_new(c, 0);
  TsTensor *t = tensor_on(c, m, s);
  if (!t) {
    if (s) storage_free(s);
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
  TsStorage *s = ts_memory_alloc(HEADER + (int64_t)sizeof *date_of(NULL));
  TsTensor *t = tensor_on(c, m, s);
  if (!t) {
    ts_memory_free(s, HEADER + (int64_t)sizeof *date_of(NULL));
    return out_of_memory(c, (int64_t)sizeof *t);
  }
  *date_of(s) = t->id;
  *s = (TsStorage){.refs = 1,
                   .valid = 1,
                   .nbytes = ts_meta_nbytes(m),
                   .host = host,
                   .ctx = c,
                   .release = release ? release : keep,
                   .release_arg = arg,
                   .dated = 1};
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
    storage_free(s);
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
  if (from == d && d == TS_DT_mxfp4)
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
  if (!d->host_memory && !fetch_device(x->storage, device)) return NULL;
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
  float v[TS_MXFP4_BLOCK];
  const char *base = ts_tensor_read(t);
  TsConvertFn *f = t->storage->ctx->k->convert.convert[TS_DT_mxfp4][TS_DT_f32];
  f(TS_MXFP4_BLOCK, v, base + index / TS_MXFP4_BLOCK * 17);
  return (double)v[index % TS_MXFP4_BLOCK];
}

static void convert_one(TsTensor *t, int64_t index, TsDtype to, void *out) {
  const void *at = element(t, index);
  memset(out, 0, ts_dtypes[to].nbytes);
  if (at) t->storage->ctx->k->convert.convert[t->meta.dtype][to](1, out, at);
}

double ts_tensor_get(TsTensor *t, int64_t index) {
  double v;
  if (t->meta.dtype == TS_DT_mxfp4) return block_element(t, index);
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
