/* Pieces of adjoints. */
#include "ir/adjoint/common.h"

#include <math.h>
#include <string.h>

bool ts_common_is_complex(TsBuild *b, TsVal x) {
  return x && ts_dtype_is((TsDtype)b->meta(b, x)->dtype, TS_KIND_C);
}

TsVal ts_common_wide(TsBuild *b, TsVal x) {
  if (!x) return NULL;
  TsDtype d = (TsDtype)b->meta(b, x)->dtype, to = (TsDtype)ts_dtypes[d].compute;
  return d == to ? x : ts_build_cast(b, x, to);
}

TsVal ts_common_divisor(TsBuild *b, TsVal x) {
  TsVal zero = ts_build2(b, TS_OP_eq, x, b->number(b, 0));
  return ts_build_where(b, zero, b->number(b, INFINITY), x);
}

TsVal ts_common_chosen(TsBuild *b, TsVal x, TsVal y) {
  TsVal equal = ts_build2(b, TS_OP_eq, x, y);
  return ts_build2(b, TS_OP_logical_or, equal, ts_build1(b, TS_OP_isnan, x));
}

TsVal ts_common_zeros(TsBuild *b, TsDtype d, const TsMeta *shape) {
  TsVal z = ts_build(b, TS_OP_zeros, 0, NULL,
                     TS_ATTRS({"shape", ts_b_ints(NULL, 0)}, {"dtype", ts_b_dtype(d)}), NULL);
  return ts_build_expand(b, z, shape->dim, shape->ndim);
}

TsVal ts_common_open(TsBuild *b, TsVal y, TsVal g) {
  TsVal flat = ts_build2(b, TS_OP_le, y, b->number(b, 0));
  return ts_build_where(b, flat, b->number(b, 0), g);
}

/* ---- epilogues */
int ts_epilogue_words(const TsAttr *text, bool bias, bool residual,
                      TsEpilogueWord word[TS_EPILOGUE_WORDS + 1]) {
  static const char *const name[] = {"", "bias", "residual", "relu", "silu", "gelu"};
  int n = 0;
  if (text->type != TS_ATTR_str) {
    if (bias) word[n++] = TS_EPILOGUE_bias;
    if (residual) word[n++] = TS_EPILOGUE_residual;
  }
  for (const char *p = text->type == TS_ATTR_str ? text->str : "";
       *p && n < TS_EPILOGUE_WORDS;) {
    size_t len = strcspn(p, "_");
    for (int w = TS_EPILOGUE_bias; w <= TS_EPILOGUE_gelu; w++)
      if (strlen(name[w]) == len && !memcmp(name[w], p, len)) word[n++] = (TsEpilogueWord)w;
    p += len + (p[len] == '_');
  }
  word[n] = TS_EPILOGUE_end;
  return n;
}

TsVal ts_epilogue_activation(TsBuild *b, TsEpilogueWord word, TsVal x) {
  return ts_build1(b,
                   word == TS_EPILOGUE_relu   ? TS_OP_relu
                   : word == TS_EPILOGUE_silu ? TS_OP_silu
                                              : TS_OP_gelu_erf,
                   x);
}

/* ---- along one axis */
TsVal ts_common_flip(TsBuild *b, TsVal x, int axis) {
  int64_t at = axis;
  return ts_build(b, TS_OP_flip, TS_IN(x), TS_ATTRS({"axis", ts_b_ints(&at, 1)}), NULL);
}

TsVal ts_common_scan(TsBuild *b, TsOp op, TsVal x, int axis) {
  return ts_build(b, op, TS_IN(x), TS_ATTRS({"axis", ts_b_int(axis)}), NULL);
}

TsVal ts_common_previous(TsBuild *b, TsVal x, int axis, double first) {
  int64_t pads[2 * TS_MAX_RANK] = {1};
  if (!x) return NULL;
  TsMeta m = *b->meta(b, x);
  x = ts_build_narrow(b, x, axis, 0, m.dim[axis] - 1);
  TsAttr sizes = ts_b_ints(pads, 2 * (m.ndim - axis));
  return ts_build(b, TS_OP_pad, TS_IN(x), TS_ATTRS({"pads", sizes}, {"value", ts_b_f(first)}),
                  NULL);
}

/* Read from the end, c is one place late; what comes round to the first place has no
 * effect there. */
TsVal ts_common_from_end(TsBuild *b, TsVal c, TsVal g, int axis) {
  int64_t one = 1, at = axis;
  TsAttr by = ts_b_ints(&one, 1), on = ts_b_ints(&at, 1);
  TsVal late = ts_build(b, TS_OP_roll, TS_IN(ts_common_flip(b, c, axis)),
                        TS_ATTRS({"shift", by}, {"axis", on}), NULL);
  TsVal s = ts_build(b, TS_OP_linear_scan, TS_IN(late, ts_common_flip(b, g, axis)),
                     TS_ATTRS({"axis", ts_b_int(axis)}), NULL);
  return ts_common_flip(b, s, axis);
}
