/* References to functions from outside. */
#include "ir/custom.h"

#include <stdlib.h>

void ts_custom_unref(TsCustom *f) {
  if (f && --f->refs == 0) f->release(f);
}

static void free_unknown(TsCustom *f) { free(f); }

TsCustom *ts_custom_unknown(void) {
  TsCustom *f = calloc(1, sizeof *f);
  if (!f) return NULL;
  *f = (TsCustom){.refs = 1, .name = "custom", .release = free_unknown};
  f->identity = (uint64_t)(uintptr_t)f; /* no other function's: those count from 1 */
  return f;
}

int ts_custom_adjoint(TsCustom *f, TsAdjoint *a) {
  if (f && f->adjoint) return f->adjoint(f, a);
  ts_build_fail(a->b, TS_ERR_value, "%s has no derivative: it was made without an adjoint",
                f ? f->name : "custom");
  return ts_error_hint(a->b->err, "give {adjoint = function(x, y, dy) return dx end} with it");
}
