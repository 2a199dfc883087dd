/* Short forms of building, and the table of COMPOSE definitions. */
#include "ir/compose.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ENTRY_POINTWISE(name)
#define ENTRY_REDUCE(name)
#define ENTRY_SCAN(name)
#define ENTRY_RANDOM(name)
#define ENTRY_VIEW(name)
#define ENTRY_KERNEL(name)
#define ENTRY_COMPOSE(name) [TS_OP_##name] = ts_compose_##name,

TsComposeFn *const ts_compose_table[TS_OP_COUNT] = {
#define OP(name, cls, ...) ENTRY_##cls(name)
#include "lib/ops.def"
#undef OP
};

static void set_attr(TsAttr *attr, const TsOpInfo *o, const TsBuildAttr *a) {
  for (int i = 0; i < o->nattr; i++) {
    const TsAttrSpec *s = &o->attr[i];
    if (strlen(a->name) != (size_t)s->namelen || memcmp(a->name, s->name, (size_t)s->namelen))
      continue;
    if (a->value.type != TS_ATTR_none && a->value.type != s->type)
      TS_BUG("%s: attribute %s has another type", o->name, a->name);
    attr[i] = a->value;
    return;
  }
  TS_BUG("%s has no attribute %s", o->name, a->name);
}

TsVal ts_build(TsBuild *b, TsOp op, int nin, const TsVal *in, int nattr,
               const TsBuildAttr *attr, TsVal *out) {
  TsAttr full[TS_MAX_ATTR];
  if (b->failed) return NULL;
  ts_op_defaults(op, full);
  for (int i = 0; i < nattr; i++) set_attr(full, ts_op_info(op), &attr[i]);
  return b->emit(b, op, nin, in, full, out);
}

TsVal ts_build1(TsBuild *b, TsOp op, TsVal x) {
  return ts_build(b, op, TS_IN(x), TS_NO_ATTRS, NULL);
}

TsVal ts_build2(TsBuild *b, TsOp op, TsVal x, TsVal y) {
  return ts_build(b, op, TS_IN(x, y), TS_NO_ATTRS, NULL);
}

TsVal ts_build_reshape(TsBuild *b, TsVal x, const int64_t *dim, int ndim) {
  return ts_build(b, TS_OP_reshape, TS_IN(x), TS_ATTRS({"shape", ts_b_ints(dim, ndim)}), NULL);
}

TsVal ts_build_permute(TsBuild *b, TsVal x, const int64_t *perm, int n) {
  return ts_build(b, TS_OP_permute, TS_IN(x), TS_ATTRS({"perm", ts_b_ints(perm, n)}), NULL);
}

TsVal ts_build_narrow(TsBuild *b, TsVal x, int axis, int64_t start, int64_t length) {
  return ts_build(b, TS_OP_narrow, TS_IN(x),
                  TS_ATTRS({"axis", ts_b_int(axis)}, {"start", ts_b_int(start)},
                           {"length", ts_b_int(length)}),
                  NULL);
}

TsVal ts_build_cast(TsBuild *b, TsVal x, TsDtype d) {
  return ts_build(b, TS_OP_cast, TS_IN(x), TS_ATTRS({"dtype", ts_b_dtype(d)}), NULL);
}

TsVal ts_build_sum(TsBuild *b, TsVal x, const int64_t *axis, int naxis, bool keepdims) {
  return ts_build(b, TS_OP_sum, TS_IN(x),
                  TS_ATTRS({"axis", ts_b_ints(axis, naxis)}, {"keepdims", ts_b_bool(keepdims)}),
                  NULL);
}

int ts_build_fail(TsBuild *b, TsErrorCode code, const char *format, ...) {
  va_list ap;
  if (b->failed) return -1;
  va_start(ap, format);
  char text[sizeof b->err->message];
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  b->failed = true;
  return ts_error_set(b->err, code, "%s", text);
}
