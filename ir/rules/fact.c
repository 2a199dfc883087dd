/* What guards of rules ask of nodes, axes and types. */
#include <string.h>

#include "ir/rules/rewrite.h"

const TsAttr *ts_rule_attr(const TsNode *n, const char *name) {
  const TsOpInfo *o = ts_op_info((TsOp)n->op);
  for (int i = 0; i < o->nattr; i++)
    if (strlen(name) == (size_t)o->attr[i].namelen &&
        !memcmp(name, o->attr[i].name, strlen(name)))
      return &n->attr[i];
  TS_BUG("%s has no attribute %s", o->name, name);
}

bool ts_rule_fill(TsVal v, double *value) {
  const TsNode *n = v->node;
  switch (n->op) {
  case TS_NODE_number: *value = n->number; return true;
  case TS_OP_ones:
  case TS_OP_ones_like: *value = 1; return true;
  case TS_OP_zeros:
  case TS_OP_zeros_like: *value = 0; return true;
  case TS_OP_full:
  case TS_OP_full_like:
    *value = ts_dtype_stored((TsDtype)v->meta.dtype, ts_rule_attr(n, "value")->f);
    return true;
  case TS_OP_broadcast_to:
  case TS_OP_reshape: return ts_rule_fill(n->in[0], value);
  default: return false;
  }
}

int ts_rule_uses(const TsRewrite *r, TsVal v) {
  return v->node->id < (uint32_t)r->nuses ? r->uses[v->node->id] : 1 << 30;
}

int ts_rule_axis(const TsNode *n, const char *name, int ndim) {
  int64_t i = ts_rule_attr(n, name)->i;
  return (int)(i < 0 ? i + ndim : i);
}

unsigned ts_rule_axes(const TsNode *reduction, const TsMeta *x) {
  const TsAttr *a = ts_rule_attr(reduction, "axis");
  unsigned axes = 0;
  if (a->type == TS_ATTR_none) return (1u << x->ndim) - 1;
  for (int i = 0; i < a->n; i++)
    axes |= 1u << (a->ints[i] < 0 ? a->ints[i] + x->ndim : a->ints[i]);
  return axes;
}

int ts_rule_one_axis(unsigned axes) {
  int i = 0;
  if (!axes || axes & (axes - 1)) return -1;
  while (!(axes >> i & 1)) i++;
  return i;
}

bool ts_rule_constant_along(const TsMeta *m, const TsMeta *x, unsigned axes) {
  int skip = x->ndim - m->ndim;
  if (skip < 0) return false;
  for (int i = skip; i < x->ndim; i++)
    if (axes >> i & 1 && m->dim[i - skip] != 1) return false;
  return true;
}

bool ts_rule_float(TsVal v) {
  return !v->meta.weak && ts_dtype_is((TsDtype)v->meta.dtype, TS_KIND_F);
}

bool ts_rule_pointwise(const TsNode *n) {
  return n->op < TS_OP_COUNT && ts_op_info((TsOp)n->op)->cls == TS_CLASS_POINTWISE;
}

bool ts_rule_guard_always(const TsRewrite *r) {
  (void)r;
  return true;
}
