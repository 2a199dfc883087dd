/* Guards and results that move, cut or join tensors: permutations, casts that shrink, pairs
 * of reshapes around pointwise operators, parts of gradients that are joined. */
#include <stdlib.h>
#include <string.h>

#include "ir/rules/rewrite.h"

static const TsNode *inner(const TsRewrite *r) { return r->root->in[0]->node; }
static bool single_inner(const TsRewrite *r) { return ts_rule_single(r, r->root->in[0]); }

/* ---- one form for reshapes */
TsVal ts_rule_make_squeeze_reshape(TsRewrite *r) {
  return ts_build_reshape(&r->b, ts_rule_var(r, 'x'), ts_rule_type(r)->dim,
                          ts_rule_type(r)->ndim);
}
TsVal ts_rule_make_unsqueeze_reshape(TsRewrite *r) { return ts_rule_make_squeeze_reshape(r); }
TsVal ts_rule_make_flatten_reshape(TsRewrite *r) { return ts_rule_make_squeeze_reshape(r); }
TsVal ts_rule_make_expand_broadcast(TsRewrite *r) {
  return ts_build(&r->b, TS_OP_broadcast_to, TS_IN(ts_rule_var(r, 'x')),
                  TS_ATTRS({"shape", ts_b_ints(ts_rule_type(r)->dim, ts_rule_type(r)->ndim)}),
                  NULL);
}

/* ---- what is the same number everywhere */
bool ts_rule_guard_filled(const TsRewrite *r) { return !ts_rule_var(r, 'a')->meta.weak; }

static TsVal filled(TsRewrite *r) {
  double value = 0;
  ts_rule_fill(ts_rule_var(r, 'a'), &value);
  return ts_rule_filled(r, value, ts_rule_type(r));
}
TsVal ts_rule_make_permute_filled(TsRewrite *r) { return filled(r); }
TsVal ts_rule_make_transpose_filled(TsRewrite *r) { return filled(r); }
TsVal ts_rule_make_narrow_filled(TsRewrite *r) { return filled(r); }
TsVal ts_rule_make_slice_filled(TsRewrite *r) { return filled(r); }
TsVal ts_rule_make_select_filled(TsRewrite *r) { return filled(r); }

/* ---- reductions and the axes that they leave */
static bool reduces(const TsNode *n) {
  if (n->op >= TS_OP_COUNT || n->nin != 1 || n->nout != 1) return false;
  const TsOpInfo *o = ts_op_info((TsOp)n->op);
  return o->cls == TS_CLASS_REDUCE;
}

/* The result of the reduction with keepdims the other way round. */
static TsMeta other_form(const TsNode *n) {
  const TsMeta *x = &n->in[0]->meta;
  const TsAttr *a = ts_rule_attr(n, "axis");
  unsigned axes = (1u << x->ndim) - 1;
  bool keep = !ts_rule_attr(n, "keepdims")->i;
  if (a->type == TS_ATTR_int) axes = 1u << ts_rule_axis(n, "axis", x->ndim);
  if (a->type == TS_ATTR_ints) axes = ts_rule_axes(n, x);
  TsMeta m = n->out[0].meta;
  m.ndim = 0;
  for (int i = 0; i < x->ndim; i++) {
    bool gone = axes >> i & 1;
    if (!gone || keep) m.dim[m.ndim++] = gone ? 1 : x->dim[i];
  }
  return m;
}

bool ts_rule_guard_other_form(const TsRewrite *r) {
  if (!reduces(inner(r)) || !single_inner(r)) return false;
  TsMeta m = other_form(inner(r));
  return ts_meta_same_shape(&m, ts_rule_type(r));
}

TsVal ts_rule_make_reduce_reshape(TsRewrite *r) {
  const TsNode *n = inner(r);
  TsAttr attr[TS_MAX_ATTR];
  memcpy(attr, n->attr, sizeof *attr * (size_t)n->nattr);
  TsAttr *keep = &attr[ts_rule_attr(n, "keepdims") - n->attr];
  keep->i = !keep->i;
  return r->b.emit(&r->b, (TsOp)n->op, 1, n->in, attr, NULL);
}

/* ---- permutations: a transpose is one */
static bool permutation(const TsNode *n, int *perm) {
  int nd = n->out[0].meta.ndim;
  if (n->op == TS_OP_transpose) {
    for (int i = 0; i < nd; i++) perm[i] = i;
    int a = ts_rule_axis(n, "axis0", nd), b = ts_rule_axis(n, "axis1", nd);
    if (nd == 0) return true;
    perm[a] = b, perm[b] = a;
    return true;
  }
  if (n->op != TS_OP_permute) return false;
  const TsAttr *p = ts_rule_attr(n, "perm");
  for (int i = 0; i < nd; i++) perm[i] = (int)(p->ints[i] < 0 ? p->ints[i] + nd : p->ints[i]);
  return true;
}

/* Axis i of outer(inner(x)) is axis both[i] of x. */
static bool composed(const TsNode *outer, const TsNode *inner, int64_t *both) {
  int a[TS_MAX_RANK], b[TS_MAX_RANK];
  if (!permutation(outer, a) || !permutation(inner, b)) return false;
  for (int i = 0; i < outer->out[0].meta.ndim; i++) both[i] = b[a[i]];
  return true;
}

static bool identity(const int64_t *perm, int n) {
  for (int i = 0; i < n; i++)
    if (perm[i] != i) return false;
  return true;
}

static TsVal merged(TsRewrite *r) {
  int64_t both[TS_MAX_RANK];
  int n = ts_rule_type(r)->ndim;
  if (!composed(r->root, inner(r), both)) return NULL;
  return identity(both, n) ? ts_rule_var(r, 'x')
                           : ts_build_permute(&r->b, ts_rule_var(r, 'x'), both, n);
}
TsVal ts_rule_make_permute_permute(TsRewrite *r) { return merged(r); }
TsVal ts_rule_make_permute_transpose(TsRewrite *r) { return merged(r); }
TsVal ts_rule_make_transpose_permute(TsRewrite *r) { return merged(r); }
TsVal ts_rule_make_transpose_other(TsRewrite *r) { return merged(r); }

bool ts_rule_guard_inverse_transposes(const TsRewrite *r) {
  int64_t both[TS_MAX_RANK];
  return composed(r->root, inner(r), both) && identity(both, ts_rule_type(r)->ndim);
}
TsVal ts_rule_make_transpose_transpose(TsRewrite *r) { return ts_rule_var(r, 'x'); }

bool ts_rule_guard_identity_permutation(const TsRewrite *r) {
  int perm[TS_MAX_RANK];
  bool same = permutation(r->root, perm);
  for (int i = 0; i < ts_rule_type(r)->ndim; i++) same &= perm[i] == i;
  return same;
}

/* ---- a pair of movements around a pointwise operator */
enum { MOST = 8 };

/* What stands under the movement v, where root undoes it; v itself where it is one number. */
static TsVal undone(const TsRewrite *r, TsVal v) {
  const TsNode *m = v->node, *root = r->root;
  int64_t both[TS_MAX_RANK];
  double value;
  if (v->meta.ndim == 0 || (v->meta.weak && ts_rule_fill(v, &value))) return v;
  if (root->op == TS_OP_reshape) {
    bool back = m->op == TS_OP_reshape && ts_meta_same_shape(&m->in[0]->meta, ts_rule_type(r));
    return back ? m->in[0] : NULL;
  }
  if (v->meta.ndim != ts_rule_type(r)->ndim || m->op >= TS_OP_COUNT) return NULL;
  return composed(root, m, both) && identity(both, v->meta.ndim) ? m->in[0] : NULL;
}

static bool undo_all(const TsRewrite *r, TsVal *in) {
  const TsNode *n = inner(r);
  bool any = false;
  if (!ts_rule_pointwise(n) || n->nin > MOST || !single_inner(r)) return false;
  for (int i = 0; i < n->nin; i++) {
    if (!n->in[i] || !(in[i] = undone(r, n->in[i]))) return false;
    any |= in[i] != n->in[i];
  }
  return any;
}

bool ts_rule_guard_undone_inside(const TsRewrite *r) {
  TsVal in[MOST];
  return undo_all(r, in);
}

static TsVal without_pair(TsRewrite *r) {
  TsVal in[MOST];
  const TsNode *n = inner(r);
  return undo_all(r, in) ? r->b.emit(&r->b, (TsOp)n->op, n->nin, in, n->attr, NULL) : NULL;
}
TsVal ts_rule_make_transpose_pair(TsRewrite *r) { return without_pair(r); }
TsVal ts_rule_make_permute_pair(TsRewrite *r) { return without_pair(r); }
TsVal ts_rule_make_reshape_pair(TsRewrite *r) { return without_pair(r); }

/* ---- casts */
static bool moves(uint16_t op) { return op < TS_OP_COUNT && ts_op_info((TsOp)op)->moves; }

/* A cast there and back with only movement in between: the cast back goes through the last
 * of them, and meets the other one in the end. */
static bool widened_below(const TsRewrite *r) {
  const TsNode *n = inner(r);
  TsDtype d = (TsDtype)ts_rule_type(r)->dtype;
  for (int i = 0; i < 8 && moves(n->op); i++) n = n->in[0]->node;
  return n != inner(r) && n->op == TS_OP_cast && !n->in[0]->meta.weak &&
         n->in[0]->meta.dtype == d && ts_rule_holds((TsDtype)n->out[0].meta.dtype, d);
}

bool ts_rule_guard_cast_back(const TsRewrite *r) { return widened_below(r); }

TsVal ts_rule_make_cast_moved(TsRewrite *r) {
  const TsNode *m = inner(r);
  TsVal x = ts_build_cast(&r->b, m->in[0], (TsDtype)ts_rule_type(r)->dtype);
  return r->b.failed ? NULL : r->b.emit(&r->b, (TsOp)m->op, 1, &x, m->attr, NULL);
}

TsVal ts_rule_make_cast_expand(TsRewrite *r) {
  TsVal x = ts_build_cast(&r->b, ts_rule_var(r, 'x'), (TsDtype)ts_rule_type(r)->dtype);
  if (r->b.failed) return NULL;
  return ts_build(&r->b, TS_OP_broadcast_to, TS_IN(x),
                  TS_ATTRS({"shape", ts_b_ints(ts_rule_type(r)->dim, ts_rule_type(r)->ndim)}),
                  NULL);
}

bool ts_rule_guard_not_weak_x(const TsRewrite *r) { return !ts_rule_var(r, 'x')->meta.weak; }

/* Parts of what is stored in blocks are f32, which not all numbers of mxfp4 are. */
static bool keeps_numbers(const TsRewrite *r) {
  return ts_rule_var(r, 'x')->meta.dtype != TS_DT_mxfp4 || ts_rule_type(r)->dtype != TS_DT_f64;
}

/* A part of a cast tensor, the cast read by nothing else: less is cast. */
bool ts_rule_guard_part_of_cast(const TsRewrite *r) {
  return single_inner(r) && keeps_numbers(r) && !ts_rule_var(r, 'x')->meta.weak &&
         ts_meta_numel(ts_rule_type(r)) < ts_meta_numel(&ts_rule_var(r, 'x')->meta);
}

static TsVal part_first(TsRewrite *r) {
  TsVal in[MOST];
  for (int i = 0; i < r->root->nin; i++) in[i] = r->root->in[i];
  in[0] = ts_rule_var(r, 'x');
  TsVal part = r->b.emit(&r->b, (TsOp)r->root->op, r->root->nin, in, r->root->attr, NULL);
  return r->b.failed ? NULL : ts_build_cast(&r->b, part, (TsDtype)ts_rule_type(r)->dtype);
}
TsVal ts_rule_make_narrow_cast(TsRewrite *r) { return part_first(r); }
TsVal ts_rule_make_slice_cast(TsRewrite *r) { return part_first(r); }
TsVal ts_rule_make_select_cast(TsRewrite *r) { return part_first(r); }
TsVal ts_rule_make_embedding_cast(TsRewrite *r) { return part_first(r); }
TsVal ts_rule_make_rows_cast(TsRewrite *r) { return part_first(r); }
TsVal ts_rule_make_gather_cast(TsRewrite *r) { return part_first(r); }

/* Operators that 16-bit types compute in f32 and round once, as the cast does. */
static bool rounds_once(uint16_t op) {
  if (op >= TS_OP_COUNT) return false;
  const TsOpInfo *o = ts_op_info((TsOp)op);
  return o->cls == TS_CLASS_POINTWISE && o->keeps_float && !o->npar;
}

/* An operand as a 16-bit one: what was cast up, or a number that every type holds. */
static TsVal narrow_operand(TsVal v, TsDtype d) {
  const TsNode *n = v->node;
  if (n->op == TS_OP_cast && !n->in[0]->meta.weak && n->in[0]->meta.dtype == d) return n->in[0];
  double x = n->number;
  bool small = n->op == TS_NODE_number && x == (double)(int)x && x >= -128 && x <= 128;
  return small ? v : NULL;
}

static bool narrow_all(const TsRewrite *r, TsVal *in) {
  const TsNode *n = inner(r);
  TsDtype d = (TsDtype)ts_rule_type(r)->dtype;
  bool any = false;
  if (!rounds_once(n->op) || (d != TS_DT_bf16 && d != TS_DT_f16) || !single_inner(r) ||
      n->out[0].meta.dtype != TS_DT_f32)
    return false;
  for (int i = 0; i < n->nin; i++) {
    if (!(in[i] = narrow_operand(n->in[i], d))) return false;
    any |= in[i] != n->in[i];
  }
  return any;
}

bool ts_rule_guard_narrow_inside(const TsRewrite *r) {
  TsVal in[MOST];
  return narrow_all(r, in);
}

TsVal ts_rule_make_cast_pointwise(TsRewrite *r) {
  TsVal in[MOST];
  const TsNode *n = inner(r);
  return narrow_all(r, in) ? r->b.emit(&r->b, (TsOp)n->op, n->nin, in, n->attr, NULL) : NULL;
}

/* ---- sums of tensors that are padded with zeros, joined: what the gradients of the parts of
 * one tensor add up to */
enum { MOST_PARTS = 64, MOST_JOINED = 256 };

typedef struct Part {
  TsVal v;
  int64_t from, to; /* along the axis */
} Part;

typedef struct Parts {
  int n, axis;
  Part part[MOST_PARTS];
} Parts;

/* The only axis that a pad of zeros enlarges, or -1. */
static int padded_axis(const TsNode *n, int64_t *before) {
  const TsAttr *pads = ts_rule_attr(n, "pads");
  int nd = n->out[0].meta.ndim, axis = -1;
  if (ts_rule_attr(n, "mode")->i != 0 || ts_rule_attr(n, "value")->f != 0) return -1;
  for (int i = 0; i < pads->n / 2; i++) {
    const int64_t *p = pads->ints + 2 * i;
    if (p[0] < 0 || p[1] < 0) return -1;
    if (p[0] == 0 && p[1] == 0) continue;
    if (axis >= 0) return -1;
    axis = nd - pads->n / 2 + i;
    *before = p[0];
  }
  return axis;
}

/* The pads under v and under additions that nothing else reads. */
static bool collect(const TsRewrite *r, TsVal v, Parts *p, int depth) {
  const TsNode *n = v->node;
  int64_t before = 0;
  if (n->op == TS_OP_add && depth < MOST_PARTS && (depth == 0 || ts_rule_single(r, v)))
    return collect(r, n->in[0], p, depth + 1) && collect(r, n->in[1], p, depth + 1);
  if (n->op != TS_OP_pad || p->n == MOST_PARTS) return false;
  int axis = padded_axis(n, &before);
  if (axis < 0 || (p->n && axis != p->axis)) return false;
  p->axis = axis;
  p->part[p->n++] = (Part){n->in[0], before, before + n->in[0]->meta.dim[axis]};
  return true;
}

static int by_start(const void *a, const void *b) {
  const Part *x = a, *y = b;
  return (x->from > y->from) - (x->from < y->from);
}

/* The parts in their order, if they follow each other without gaps. */
static bool disjoint_parts(const TsRewrite *r, Parts *p) {
  const TsMeta *m = ts_rule_type(r);
  p->n = 0;
  if (!ts_dtype_is((TsDtype)m->dtype, TS_KIND_F | TS_KIND_C | TS_KIND_I | TS_KIND_U))
    return false;
  for (int i = 0; i < 2; i++)
    if (!ts_meta_same_shape(&r->root->in[i]->meta, m) || r->root->in[i]->meta.dtype != m->dtype)
      return false;
  if (!collect(r, (TsVal)&r->root->out[0], p, 0) || p->n < 2) return false;
  qsort(p->part, (size_t)p->n, sizeof *p->part, by_start);
  for (int i = 1; i < p->n; i++)
    if (p->part[i].from != p->part[i - 1].to) return false;
  return true;
}

bool ts_rule_guard_disjoint_pads(const TsRewrite *r) {
  Parts p;
  return disjoint_parts(r, &p);
}

TsVal ts_rule_make_add_pads(TsRewrite *r) {
  Parts p;
  TsVal in[MOST_PARTS];
  int64_t pads[2 * TS_MAX_RANK] = {0};
  if (!disjoint_parts(r, &p)) return NULL;
  for (int i = 0; i < p.n; i++) in[i] = p.part[i].v;
  TsVal v = ts_build(&r->b, TS_OP_concat, p.n, in, TS_ATTRS({"axis", ts_b_int(p.axis)}), NULL);
  int64_t before = p.part[0].from, after = ts_rule_type(r)->dim[p.axis] - p.part[p.n - 1].to;
  if (!v || (before == 0 && after == 0)) return v;
  pads[0] = before, pads[1] = after;
  return ts_build(&r->b, TS_OP_pad, TS_IN(v),
                  TS_ATTRS({"pads", ts_b_ints(pads, 2 * (ts_rule_type(r)->ndim - p.axis))}),
                  NULL);
}

/* ---- a concat of concats */
static bool joins_alike(const TsRewrite *r, TsVal v) {
  const TsNode *n = v->node;
  int nd = ts_rule_type(r)->ndim;
  return n->op == TS_OP_concat && ts_rule_single(r, v) &&
         v->meta.dtype == ts_rule_type(r)->dtype &&
         ts_rule_axis(n, "axis", nd) == ts_rule_axis(r->root, "axis", nd);
}

/* As many operands as the result would have; 0 where nothing changes. */
static int joined_count(const TsRewrite *r) {
  int count = 0;
  bool any = false;
  for (int i = 0; i < r->root->nin; i++) {
    bool inside = joins_alike(r, r->root->in[i]);
    count += inside ? r->root->in[i]->node->nin : 1;
    any |= inside;
  }
  return any && count <= MOST_JOINED ? count : 0;
}

bool ts_rule_guard_concat_inside(const TsRewrite *r) { return joined_count(r) > 0; }

TsVal ts_rule_make_concat_concat(TsRewrite *r) {
  TsVal in[MOST_JOINED];
  int n = 0;
  for (int i = 0; i < r->root->nin; i++) {
    const TsNode *part = r->root->in[i]->node;
    bool inside = joins_alike(r, r->root->in[i]);
    for (int k = 0; k < (inside ? part->nin : 1); k++)
      in[n++] = inside ? part->in[k] : r->root->in[i];
  }
  return r->b.emit(&r->b, TS_OP_concat, n, in, r->root->attr, NULL);
}

/* Nobody else wants the parts as they were joined, and the last axis stays the last one, so that
 * what is copied are still rows. */
bool ts_rule_guard_rows_stay(const TsRewrite *r) {
  int perm[TS_MAX_RANK], nd = ts_rule_type(r)->ndim;
  return nd > 0 && single_inner(r) && inner(r)->nin <= MOST_JOINED &&
         permutation(r->root, perm) && perm[nd - 1] == nd - 1;
}

TsVal ts_rule_make_permute_concat(TsRewrite *r) {
  TsVal in[MOST_JOINED];
  int perm[TS_MAX_RANK], nd = ts_rule_type(r)->ndim, to = 0;
  const TsNode *c = inner(r);
  int axis = ts_rule_axis(c, "axis", nd);
  permutation(r->root, perm);
  while (perm[to] != axis) to++;
  for (int i = 0; i < c->nin; i++)
    in[i] = r->b.emit(&r->b, TS_OP_permute, 1, &c->in[i], r->root->attr, NULL);
  if (r->b.failed) return NULL;
  TsAttr attr = ts_b_int(to);
  return r->b.emit(&r->b, TS_OP_concat, c->nin, in, &attr, NULL);
}

/* ---- parts of what was joined */
/* The operand of the concat that holds elements [from, from + length) of the axis, and where
 * they begin there. */
static TsVal holder(const TsNode *c, int axis, int64_t from, int64_t length, int64_t *start) {
  int64_t at = 0;
  if (ts_rule_axis(c, "axis", c->out[0].meta.ndim) != axis || from < 0) return NULL;
  for (int i = 0; i < c->nin; i++) {
    int64_t size = c->in[i]->meta.dim[axis];
    *start = from - at;
    if (from >= at && from + length <= at + size)
      return c->in[i]->meta.dtype == c->out[0].meta.dtype ? c->in[i] : NULL;
    at += size;
  }
  return NULL;
}

static TsVal part_of(const TsRewrite *r, int *axis, int64_t *start) {
  const TsNode *n = r->root, *c = inner(r);
  bool one = n->op == TS_OP_select;
  *axis = ts_rule_axis(n, "axis", c->out[0].meta.ndim);
  int64_t from = ts_rule_attr(n, one ? "index" : "start")->i;
  if (one && from < 0) from += c->out[0].meta.dim[*axis];
  return holder(c, *axis, from, one ? 1 : ts_rule_attr(n, "length")->i, start);
}

bool ts_rule_guard_inside_one_part(const TsRewrite *r) {
  int axis;
  int64_t start;
  return part_of(r, &axis, &start) != NULL;
}

TsVal ts_rule_make_narrow_concat(TsRewrite *r) {
  int axis;
  int64_t start = 0, length = ts_rule_attr(r->root, "length")->i;
  TsVal v = part_of(r, &axis, &start);
  return v->meta.dim[axis] == length ? v : ts_build_narrow(&r->b, v, axis, start, length);
}

TsVal ts_rule_make_select_concat(TsRewrite *r) {
  int axis;
  int64_t start = 0;
  TsVal v = part_of(r, &axis, &start);
  return ts_build(&r->b, TS_OP_select, TS_IN(v),
                  TS_ATTRS({"axis", ts_b_int(axis)}, {"index", ts_b_int(start)}), NULL);
}

bool ts_rule_guard_only_one(const TsRewrite *r) {
  const TsMeta *x = &ts_rule_var(r, 'x')->meta;
  return x->dim[ts_rule_axis(r->root, "axis", x->ndim)] == 1;
}
TsVal ts_rule_make_select_reshape(TsRewrite *r) { return ts_rule_make_squeeze_reshape(r); }
