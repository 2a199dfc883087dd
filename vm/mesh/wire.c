/* See vm/mesh/wire.h. */
#include "vm/mesh/wire.h"

#include <stdlib.h>

#include "devices/device.h"
#include "devices/meet.h"
#include "vm/core/offload.h"

TsWire ts_wire_begin(TsContext *c) { return (TsWire){.c = c}; }

static int keep(TsWire *w, TsTensor *x) {
  if (w->n == w->cap) {
    int cap = w->cap ? 2 * w->cap : 16;
    TsTensor **more = realloc(w->lent, sizeof *more * (size_t)cap);
    if (!more) return ts_error_memory(&w->c->err);
    w->lent = more, w->cap = cap;
  }
  w->lent[w->n++] = ts_tensor_ref(x);
  return 0;
}

/* Over the host or the copy engine a storage goes whole: what is only some of it is packed. */
static TsTensor *copied(TsContext *c, TsTensor *x, int device) {
  bool some = ts_tensor_numel(x) * ts_dtypes[x->meta.dtype].nbytes != x->storage->nbytes;
  TsTensor *packed = some ? ts_tensor_copy(c, x) : ts_tensor_ref(x);
  TsTensor *there = packed ? ts_tensor_to(c, packed, device) : NULL;
  ts_tensor_unref(packed);
  return there;
}

int ts_wire_fetch(TsWire *w, TsTensor *x, int device, TsTensor **there) {
  TsDevice *to = ts_device_at(device), *from = ts_device_at(x->meta.device);
  bool here = from == to || to->host_memory;
  bool lends = !here && !from->host_memory && ts_device_reaches(to, from);
  if (lends && keep(w, x)) return *there = NULL, -1;
  if (lends) w->devices |= 1u << to->index | 1u << from->index;
  *there = lends  ? ts_tensor_lent(w->c, x, device)
           : here ? ts_tensor_to(w->c, x, device)
                  : copied(w->c, x, device);
  return *there ? 0 : -1;
}

int ts_wire_flush(TsWire *w) {
  TsDevice *list[TS_MAX_DEVICES];
  int n = 0;
  for (int d = 0; d < TS_MAX_DEVICES; d++)
    if (w->devices >> d & 1) list[n++] = ts_device_at(d);
  if (n && w->c->offload && w->c->offload->flush(w->c, false)) return -1;
  return ts_device_meet(n, list, &w->c->err);
}

int ts_wire_end(TsWire *w, int failed) {
  TsError kept = w->c->err; /* of what failed before */
  int apart = ts_wire_flush(w);
  for (int i = 0; i < w->n; i++) ts_tensor_unref(w->lent[i]);
  free(w->lent);
  if (failed) w->c->err = kept;
  return failed || apart ? -1 : 0;
}
