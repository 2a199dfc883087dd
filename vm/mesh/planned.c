/* See vm/mesh/planned.h. */
#include "vm/mesh/planned.h"

#include <stdlib.h>

#include "devices/device.h"
#include "vm/mesh/parts.h"

TsTensor *ts_mesh_planned(TsContext *c, const TsMeta *whole) {
  TsParts *none = calloc(1, sizeof *none);
  if (!none) return ts_error_memory(&c->err), NULL;
  none->meta = *whole;
  none->meta.device = TS_DEVICE_MESH, none->meta.weak = 0;
  ts_mesh_open();
  TsTensor *t = ts_tensor_placed(c, &none->meta, TS_DEVICE_MESH);
  if (!t) {
    free(none);
    return NULL;
  }
  ts_tensor_place(t, none);
  t->storage->release = ts_storage_free_plan;
  t->storage->release_arg = none;
  t->storage->valid = 1u << TS_DEVICE_MESH;
  return t;
}

int ts_mesh_abstract(TsCall *call, const TsMeta *out) {
  TsContext *c = call->ctx;
  for (int o = 0; o < call->nout; o++) {
    TsMeta m = out[o];
    const TsLayout *l = ts_layout_replicated(c->abstract, m.ndim, &c->err);
    if (l) m.layout = l->id;
    if (!l || !(call->out[o] = ts_mesh_planned(c, &m))) return -1;
  }
  return 0;
}

bool ts_mesh_plans(const TsContext *c, int nin, TsTensor *const *in) {
  bool any = c->planning;
  for (int i = 0; i < nin && !any; i++) any = in[i] && ts_tensor_is_planned(in[i]);
  return any;
}

int ts_mesh_there(TsContext *c, const TsMesh *m) {
  for (int p = 0; p < m->n; p++) {
    if (m->device[p] >= 0) continue;
    ts_error_set(&c->err, TS_ERR_device,
                 "the mesh has %d devices that are only planned with: nothing can lie on them",
                 m->n);
    const char *const planned =
        "dist.tensor{..., abstract = true} has a type and a layout alone";
    if (m->n < TS_DEVICE_MESH)
      return ts_error_hint(
          &c->err, "%s; tessera --devices=cpu:%d makes as many virtual devices", planned, m->n);
    return ts_error_hint(&c->err,
                         "%s; a process has %d devices at most, of which a mesh may name "
                         "one several times: {\"cpu:0\", \"cpu:0\", ..}",
                         planned, TS_DEVICE_MESH);
  }
  return 0;
}
