/* Who may change a tensor in place: see vm/write.h. */
#include "vm/write.h"

#include <stdio.h>

#include "vm/core/overlap.h"
#include "vm/core/region.h"

int ts_write_refuse_overlap(TsContext *c, const TsTensor *t) {
  char type[TS_META_TEXT], list[24 * TS_MAX_RANK] = "";
  size_t at = 0;
  for (int i = 0; i < t->meta.ndim && !t->storage->symbolic; i++)
    at += (size_t)snprintf(list + at, sizeof list - at, "%s%lld", i ? ", " : "",
                           (long long)t->stride[i]);
  ts_meta_text(&t->meta, type);
  ts_error_set(&c->err, TS_ERR_value, "elements of the destination overlap: a view %s%s%s%s",
               type, t->storage->symbolic ? "" : " with strides {", list,
               t->storage->symbolic ? "" : "}");
  return ts_error_hint(&c->err, "change the tensor that it is a view of, or a copy: x:clone()");
}

/* ---- who may */
int ts_write_refuse(TsContext *c, const char *name) {
  ts_error_set(&c->err, TS_ERR_value, "%s: its function changes a tensor from outside in place",
               name);
  return ts_error_hint(&c->err, "return the new value, and assign it outside: x:copy_(new); "
                                "op.slice_update(x, part, {0}, {1}) puts a part into x");
}

int ts_write_check(TsContext *c, const TsTensor *t) {
  if (c->inside != (c->region ? c->region->inside : 0)) return 0;
  int shared = ts_overlap_itself(c, t);
  if (shared) return shared < 0 ? -1 : ts_write_refuse_overlap(c, t);
  return c->region && ts_region_is_outside(c, t) ? ts_write_refuse(c, c->region->name) : 0;
}
