/* Operators along an axis of what has none. As in PyTorch axis 0 or -1 of a scalar is that of a row
 * of one element: the operands get that axis, and the results lose it again. */
#include <string.h>

#include "repl/lua/args.h"

static bool names_axis(const TsAttr *a) {
  if (a->type == TS_ATTR_int) return a->i == 0 || a->i == -1;
  return a->type == TS_ATTR_ints && a->n == 1 && (a->ints[0] == 0 || a->ints[0] == -1);
}

bool ts_lua_scalar_wants(const TsLuaArgs *a) {
  bool any = false;
  if (!a->o->scalars || !a->nin || !a->in[0] || a->in[0]->meta.ndim) return false;
  for (int i = 0; i < a->o->nattr; i++) {
    if (a->o->attr[i].namelen < 4 || memcmp(a->o->attr[i].name, "axis", 4)) continue;
    if (!names_axis(&a->attr[i])) return false;
    any = true;
  }
  return any;
}

/* A row of one element, or the tensor itself where it has axes or is a bare number. */
static TsTensor *as_row(TsContext *c, TsTensor *t) {
  const TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  TsTensor *out = NULL;
  int nout;
  if (!t || t->meta.ndim || t->meta.weak) return t ? ts_tensor_ref(t) : NULL;
  return ts_vm_call(c, TS_OP_unsqueeze, 1, &t, &axis, 1, &nout, &out) ? NULL : out;
}

/* Replaces what is held by *t. */
static int as_scalar(TsContext *c, TsTensor **t) {
  const int64_t first = 0;
  const TsAttr axis = {.type = TS_ATTR_ints, .n = 1, .ints = &first};
  TsTensor *out = NULL;
  int nout;
  if ((*t)->meta.ndim != 1 || (*t)->meta.dim[0] != 1) return 0;
  if (ts_vm_call(c, TS_OP_squeeze, 1, t, &axis, 1, &nout, &out)) return -1;
  ts_tensor_unref(*t);
  *t = out;
  return 0;
}

int ts_lua_scalar_call(TsLuaArgs *a, int *nout, TsTensor **out) {
  TsTensor *in[TS_MAX_IN] = {NULL};
  int failed = 0;
  for (int i = 0; i < a->nin && !failed; i++)
    failed = a->in[i] && !(in[i] = as_row(a->c, a->in[i]));
  if (!failed) failed = ts_vm_call(a->c, a->op, a->nin, in, a->attr, TS_MAX_OUT, nout, out);
  for (int i = 0; i < a->nin; i++) ts_tensor_unref(in[i]);
  if (failed) return -1;
  for (int i = 0; i < *nout && !failed; i++) failed = as_scalar(a->c, &out[i]);
  for (int i = 0; i < *nout && failed; i++) ts_tensor_unref(out[i]);
  return failed;
}
