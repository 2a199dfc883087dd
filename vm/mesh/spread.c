/* A tensor that is there comes to lie on a mesh. */
#include "vm/core/defer.h"
#include "vm/core/vm.h"
#include "vm/mesh/parts.h"

int ts_mesh_spread(TsContext *c, TsTensor *t, const TsLayout *l) {
  if (ts_defer_force(t)) return -1;
  if (t->meta.layout == l->id) return 0;
  if (ts_tensor_is_planned(t)) {
    ((TsParts *)t->storage->release_arg)->meta.layout = l->id;
    t->meta.layout = l->id;
    return 0;
  }
  TsStorage *old = t->storage;
  if (old->refs > 1 && c->collect)
    c->collect(c->where_arg, false); /* views that nobody has any more */
  if (old->refs > 1 || t->offset || !t->contiguous)
    return ts_error_set(&c->err, TS_ERR_layout,
                        "a tensor that shares its elements with others cannot be spread over a "
                        "mesh by itself");
  TsTensor *y = ts_mesh_move(c, t, l, TS_MESH_SHARE_none);
  if (!y) return -1;
  TsStorage *made = y->storage;
  made->leaf = old->leaf, made->computed = old->computed, made->taped = old->taped;
  made->version = old->version + 1;
  t->storage = made, y->storage = old; /* with y goes what t had */
  t->meta.device = TS_DEVICE_MESH, t->meta.layout = l->id;
  ts_meta_strides(&t->meta, t->stride);
  ts_tensor_unref(y);
  return 0;
}
