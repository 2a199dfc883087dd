/* See vm/mesh/away.h. */
#include "vm/mesh/away.h"

#include <stdio.h>
#include <string.h>

#include "devices/device.h"
#include "lib/mesh.h"
#include "net/world.h"

/* Views are tensors of their own: nobody writes here what another one would see. */
int ts_away_call(TsCall *call, const TsMeta *out, bool fixed) {
  TsContext *c = call->ctx;
  if (!fixed && ts_op_info(call->op)->cls != TS_CLASS_VIEW) {
    ts_error_set(&c->err, TS_ERR_value,
                 "%s: sizes depend on elements, which are those of another process",
                 ts_op_info(call->op)->name);
    return ts_error_hint(&c->err, "x:gather() brings all of a tensor to every process");
  }
  for (int o = 0; o < call->nout; o++)
    if (!(call->out[o] = ts_tensor_new(c, &out[o]))) return -1; /* the caller releases */
  return 0;
}

void ts_away_open(void) {
  TsDevice *d = ts_device_at(TS_DEVICE_AWAY);
  *d = (TsDevice){.name = "away", .kind = "away", .index = TS_DEVICE_AWAY, .opened = true};
}

int ts_away_find(const char *name, int *place, int *rank, TsError *err) {
  char own[64];
  const char *at = strchr(name, '@');
  int n = 0, more = 0;
  if (!at) {
    TsDevice *d = ts_device_find(name, err);
    if (d) *place = d->index;
    return d ? 0 : -1;
  }
  if (sscanf(at + 1, "%d%n", &n, &more) != 1 || at[1 + more] || n < 0 || n >= ts_world_size())
    return ts_error_set(err, TS_ERR_device, "device '%.40s': there are ranks 0 to %d", name,
                        ts_world_size() - 1);
  snprintf(own, sizeof own, "%.*s", (int)(at - name), name);
  if (ts_world_size() == 1) {
    TsDevice *d = ts_device_find(own, err);
    if (d) *place = d->index;
    return d ? 0 : -1;
  }
  *rank = n;
  if ((*place = ts_world_place(n, own)) >= 0) return 0;
  const TsWorldRank *r = ts_world_at(n);
  ts_error_set(err, TS_ERR_device, "rank %d has no device '%.40s'", n, own);
  return ts_error_hint(err, "it has %d of the CPU and %d GPUs, the first is %s:%d", r->ncpu,
                       r->ngpu, r->kind[0] ? r->kind : "cuda", r->gpu);
}
