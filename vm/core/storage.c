/* See vm/core/storage.h. Here alone is decided when bytes move. */
#include "vm/core/storage.h"

#include <stdio.h>
#include <stdlib.h>

#include "devices/device.h"
#include "devices/memory.h"
#include "lib/activity.h"
#include "vm/core/defer.h"
#include "vm/core/mapped.h"
#include "vm/core/offload.h"

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

TsStorage *ts_storage_new(TsContext *c, int64_t nbytes) {
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
TsStorage *ts_storage_remote(TsContext *c, int64_t nbytes, int device) {
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

void ts_storage_keep(void *arg) { (void)arg; }

TsStorage *ts_storage_around(TsContext *c, int64_t nbytes, void *host, void (*release)(void *),
                             void *arg) {
  TsStorage *s = ts_memory_alloc(HEADER + (int64_t)sizeof *date_of(NULL));
  if (!s) return NULL;
  *s = (TsStorage){.refs = 1,
                   .valid = 1,
                   .nbytes = nbytes,
                   .host = host,
                   .ctx = c,
                   .release = release ? release : ts_storage_keep,
                   .release_arg = arg,
                   .dated = 1};
  *date_of(s) = c->next_id;
  return s;
}

uint64_t ts_tensor_made(const TsTensor *t) {
  TsStorage *s = t->storage;
  return s->dated ? *date_of(s) : s->release ? t->id : (uint64_t)(uintptr_t)s->release_arg;
}

void ts_storage_free(TsStorage *s) {
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

TsCopy *ts_storage_copy(const TsStorage *s, int device) {
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

void ts_storage_place(TsStorage *s, void *at) {
  drop_host(s);
  s->valid = 0;
  ((TsCopy *)((char *)s + HEADER))->at = at;
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

static TsActivity *begin_copy(const char *way, const TsDevice *d) {
  char text[40];
  if (!ts_activities) return NULL;
  snprintf(text, sizeof text, "%s %s", way, d->name);
  return ts_activity_begin(TS_ACTIVITY_copy, text, NULL);
}

void ts_storage_free_plan(void *plan) { free(plan); }

/* Brings the host's copy up to date. */
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
  TsCopy *p = ts_storage_copy(s, device);
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
TsCopy *ts_storage_fetch(TsStorage *s, int device) {
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
  TsCopy *p =
      (s->valid >> device & 1) ? ts_storage_copy(s, device) : ts_storage_fetch(s, device);
  return p ? (char *)p->at + t->offset : NULL;
}

void *ts_tensor_write_on(TsTensor *t, int device, bool whole) {
  if (ts_defer_force(t) || ts_defer_touch(t->storage)) return NULL;
  TsStorage *s = t->storage;
  bool fresh = whole || !s->valid || (s->valid >> device & 1);
  TsCopy *p =
      fresh && !s->symbolic && !s->away ? make_copy(s, device) : ts_storage_fetch(s, device);
  if (!p) return NULL;
  s->valid = 1u << device;
  drop_host(s);
  return (char *)p->at + t->offset;
}

/* ---- what two storages hold, exchanged */
/* All of a storage, whose bytes are ours to give. */
static bool is_whole(const TsTensor *t) {
  const TsStorage *s = t->storage;
  return t->contiguous && !t->offset && ts_meta_nbytes(&t->meta) == s->nbytes && !s->release &&
         !s->symbolic && !s->lost && !s->pending && !s->away && !s->raw &&
         s->held != TS_HELD_NEVER && t->meta.device != TS_DEVICE_MESH;
}

/* Where operators on t read its bytes; 0: on the host. */
static int copy_at(const TsTensor *t) {
  return ts_offload_on(t->storage->ctx, t->meta.device) ? t->meta.device : 0;
}

bool ts_tensor_exchanges(const TsTensor *to, const TsTensor *from) {
  const TsStorage *a = to->storage, *b = from->storage;
  int d = copy_at(to);
  if (a == b || b->refs != 1 || d != copy_at(from) || !is_whole(to) || !is_whole(from) ||
      to->meta.dtype != from->meta.dtype || !ts_meta_same_shape(&to->meta, &from->meta) ||
      !(b->valid >> d & 1))
    return false;
  if (!d) return !a->remote && !b->remote && a->host && b->host;
  const TsCopy *p = ts_storage_copy(a, d), *q = ts_storage_copy(b, d);
  return p && q && p->at && q->at;
}

void ts_tensor_exchange(TsTensor *to, TsTensor *from) {
  TsStorage *a = to->storage, *b = from->storage;
  int d = copy_at(to);
  void **p = &a->host, **q = &b->host;
  a->version++, b->version++;
  if (d) {
    p = &ts_storage_copy(a, d)->at, q = &ts_storage_copy(b, d)->at;
  } else if (is_inline(a)) {
    memcpy(*p, *q, (size_t)a->nbytes);
    p = q;
  }
  void *at = *p;
  *p = *q, *q = at;
  a->valid = b->valid = (uint16_t)(1u << d);
  if (d) drop_host(a), drop_host(b);
}

bool ts_tensor_moves(const TsTensor *t) {
  const TsStorage *s = t->storage;
  return s->refs == 1 && !t->origin && !t->recorded && !s->symbolic && !s->pending &&
         !s->away && !s->raw && !s->snapped && !s->held && t->meta.device != TS_DEVICE_MESH;
}

void ts_tensor_move(TsTensor *t, TsTensor *at) {
  TsTensor was = *t;
  t->storage = at->storage, t->offset = at->offset, t->contiguous = at->contiguous;
  memcpy(t->stride, at->stride, sizeof t->stride);
  at->storage = was.storage, at->offset = was.offset, at->contiguous = was.contiguous;
  memcpy(at->stride, was.stride, sizeof at->stride);
  t->storage->leaf |= at->storage->leaf;
  t->storage->version++;
}
