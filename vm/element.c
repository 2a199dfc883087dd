/* Numbers given as options, as elements of a type. */
#include "vm/element.h"

#include <math.h>
#include <string.h>

int ts_element_make(TsCall *call, TsDtype d, double value, void *out) {
  TsError *e = &call->ctx->err;
  const char *name = ts_op_info(call->op)->name;
  int64_t lo, hi;
  if (d == TS_DT_mxfp4)
    return ts_error_set(e, TS_ERR_dtype, "%s: mxfp4 is a storage format", name);
  if (ts_dtype_is(d, TS_KIND_B | TS_KIND_U | TS_KIND_I)) {
    ts_dtype_int_range(d, &lo, &hi);
    bool fits = value >= (double)lo && value <= (double)hi && value < 0x1p63;
    if (!fits || value != trunc(value))
      return ts_error_set(e, TS_ERR_value, "%s: %.17g does not fit into %s", name, value,
                          ts_dtype_name(d));
  }
  memset(out, 0, 16);
  if (d == TS_DT_f64)
    memcpy(out, &value, sizeof value);
  else
    call->ctx->k->convert.convert[TS_DT_f64][d](1, out, &value);
  return 0;
}
