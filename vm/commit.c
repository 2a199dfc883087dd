/* See vm/commit.h. Views of a tensor see its new elements, since storages exchange their memory and
 * stay what they are. */
#include "vm/commit.h"

#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "devices/device.h"
#include "vm/core/defer.h"
#include "vm/mesh/parts.h"
#include "vm/write.h"

/* Where the current bytes of a storage are, as tensors of this device have them; NULL: there are none. */
static void **memory_of(TsStorage *s, int device) {
  if (ts_device_at(device)->host_memory) return s->host && s->valid & 1 ? &s->host : NULL;
  TsCopy *k = s->copies;
  while (k && k->device != device) k = k->next;
  return k && k->at && s->valid >> device & 1 ? &k->at : NULL;
}

static bool is_all(const TsTensor *t) {
  return t->contiguous && !t->offset && t->storage->nbytes == ts_meta_nbytes(&t->meta);
}

/* Nobody else knows the address of either. What is in the table of a tensor and in a slot of a plan has
 * two holders. */
static bool may_exchange(const TsTensor *d, const TsTensor *s) {
  const TsStorage *a = d->storage, *b = s->storage;
  bool plain = !a->release && !b->release && !a->symbolic && !b->symbolic && !a->pending &&
               !b->pending && !a->lost && !a->raw && !a->away && !b->away && !a->held &&
               !b->held && !b->snapped;
  return plain && a != b && b->refs == 1 && s->refs <= 2 && d->meta.device == s->meta.device &&
         d->meta.dtype == s->meta.dtype && ts_meta_same_shape(&d->meta, &s->meta) &&
         is_all(d) && is_all(s) && a->nbytes == b->nbytes &&
         memory_of(d->storage, d->meta.device) && memory_of(s->storage, s->meta.device);
}

/* Parts of both, as many as there are with elements here. */
static bool all_may(TsTensor *dst, TsTensor *src) {
  if (!ts_mesh_is(dst) || !ts_mesh_is(src) || dst->meta.layout != src->meta.layout ||
      dst->storage->held || src->storage->pending)
    return false;
  const TsParts *a = ts_mesh_parts(dst), *b = ts_mesh_parts(src);
  if (!a || !b || a->copied) return false;
  for (int p = 0; p < a->n; p++) {
    TsTensor *d = a->part[p], *s = b->part[p];
    if (!d || ts_tensor_is_away(d)) continue;
    if (!s || !may_exchange(d, s)) return false;
    for (int q = 0; q < p; q++)
      if (a->part[q] && a->part[q]->storage == d->storage) return false;
  }
  return true;
}

/* What writing into it asks of others, which may fail. */
static int ask(TsContext *c, TsTensor *t) {
  return ts_write_check(c, t) || ts_defer_force(t) || ts_defer_touch(t->storage) ? -1 : 0;
}

static int ask_all(TsContext *c, TsTensor *dst) {
  const TsParts *a = ts_mesh_parts(dst);
  int failed = a ? ask(c, dst) : -1;
  for (int p = 0; !failed && p < a->n; p++)
    if (a->part[p] && !ts_tensor_is_away(a->part[p])) failed = ask(c, a->part[p]);
  return failed;
}

/* What stands behind its header stays there. */
static void exchange_memory(void **x, void **y, int64_t nbytes, bool host) {
  char own[TS_STORAGE_INLINE];
  void *at = *x;
  if (!host || nbytes > TS_STORAGE_INLINE) {
    *x = *y, *y = at;
    return;
  }
  memcpy(own, *x, (size_t)nbytes);
  memcpy(*x, *y, (size_t)nbytes);
  memcpy(*y, own, (size_t)nbytes);
}

static void exchange_part(TsTensor *d, TsTensor *s) {
  int device = d->meta.device;
  bool host = ts_device_at(device)->host_memory;
  exchange_memory(memory_of(d->storage, device), memory_of(s->storage, device),
                  d->storage->nbytes, host);
  d->storage->valid = s->storage->valid =
      (uint16_t)(1u << (host ? 0 : device)); /* other copies are old */
}

static void exchange(TsContext *c, TsTensor *dst, TsTensor *src) {
  const TsParts *a = ts_mesh_parts(dst), *b = ts_mesh_parts(src);
  if (c->watched) c->defer->wrote(dst);
  for (int p = 0; p < a->n; p++) {
    TsTensor *d = a->part[p];
    if (!d) continue;
    d->storage->version++;
    if (!ts_tensor_is_away(d)) exchange_part(d, b->part[p]);
  }
  dst->storage->version++;
  dst->storage->valid = 1u << TS_DEVICE_MESH;
}

int ts_vm_commit(TsContext *c, int n, TsTensor *const *dst, TsTensor *const *src) {
  bool *swaps = calloc((size_t)n + 1, sizeof *swaps);
  int failed = swaps ? 0 : ts_error_memory(&c->err);
  for (int i = 0; i < n && !failed; i++)
    if ((swaps[i] = all_may(dst[i], src[i]))) failed = ask_all(c, dst[i]);
  int held = ts_cpu_hold_interrupts();
  for (int i = 0; i < n && !failed; i++)
    if (!swaps[i]) failed = ts_vm_assign(c, dst[i], src[i]);
  for (int i = 0; i < n && !failed; i++)
    if (swaps[i]) exchange(c, dst[i], src[i]);
  ts_cpu_let_interrupts(held);
  free(swaps);
  return failed ? -1 : 0;
}
