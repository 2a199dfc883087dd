/* Numbers given as options, as elements of a type. */
#include "vm/core/element.h"

#include <string.h>

int ts_element_make(TsCall *call, TsDtype d, double value, void *out) {
  TsError *e = &call->ctx->err;
  const char *name = ts_op_info(call->op)->name;
  if (ts_dtype_in_blocks(d))
    return ts_error_set(e, TS_ERR_dtype, "%s: %s is a storage format", name, ts_dtype_name(d));
  if (ts_dtype_check_number(d, value, name, e)) return -1;
  memset(out, 0, 16);
  if (d == TS_DT_f64)
    memcpy(out, &value, sizeof value);
  else
    call->ctx->k->convert.convert[TS_DT_f64][d](1, out, &value);
  return 0;
}
