/* Adjoints of rows that move elements without looking at numbers. g stands for the
 * gradient of the result. Reading and writing by index is ir/adjoint/index.c. */
#include "ir/adjoint/common.h"

static int normal_axis(int64_t axis, int ndim) { return (int)(axis < 0 ? axis + ndim : axis); }

static TsMeta meta_of(TsAdjoint *a, int i) { return *a->b->meta(a->b, a->in[i]); }

/* Rows whose result holds x's numbers in x's order or repeats them whole: the gradient
 * passes, and ts_adjoint_fit casts it and sums what was repeated. */
int ts_adjoint_clone(TsAdjoint *a) {
  a->grad_in[0] = a->grad[0];
  return 0;
}

int ts_adjoint_reshape(TsAdjoint *a) {
  TsMeta x = meta_of(a, 0);
  a->grad_in[0] = ts_build_reshape(a->b, a->grad[0], x.dim, x.ndim);
  return 0;
}

/* Rows that undo themselves with the same attributes. */
int ts_adjoint_transpose(TsAdjoint *a) {
  a->grad_in[0] = a->b->emit(a->b, a->op, 1, a->grad, a->attr, NULL);
  return 0;
}

int ts_adjoint_permute(TsAdjoint *a) {
  int64_t back[TS_MAX_RANK];
  int n = a->attr[0].n;
  for (int i = 0; i < n; i++) back[normal_axis(a->attr[0].ints[i], n)] = i;
  a->grad_in[0] = ts_build_permute(a->b, a->grad[0], back, n);
  return 0;
}

/* The call's gradient is that of all of x, until axes are cut. */
static TsBox *within(TsAdjoint *a, TsVal g) {
  TsMeta x = meta_of(a, 0);
  a->boxed = true;
  a->grad_in[0] = g;
  for (int i = 0; i < TS_MAX_RANK; i++) {
    a->box.start[i] = 0, a->box.step[i] = 1;
    a->box.n[i] = i < x.ndim ? x.dim[i] : 1;
  }
  return &a->box;
}

int ts_adjoint_narrow(TsAdjoint *a) {
  TsMeta x = meta_of(a, 0);
  int axis = normal_axis(a->attr[0].i, x.ndim);
  TsBox *box = within(a, a->grad[0]);
  box->start[axis] = a->attr[1].i, box->n[axis] = a->attr[2].i;
  return 0;
}

int ts_adjoint_concat(TsAdjoint *a) {
  int axis = normal_axis(a->attr[0].i, meta_of(a, 0).ndim);
  int64_t at = 0;
  for (int i = 0; i < a->nin; i++) {
    int64_t n = meta_of(a, i).dim[axis];
    if (a->wanted[i]) a->grad_in[i] = ts_build_narrow(a->b, a->grad[0], axis, at, n);
    at += n;
  }
  return 0;
}

/* ---- slices */
static TsVal write_slice(TsBuild *b, TsOp op, TsVal x, TsVal src, const TsAttr *range) {
  return b->failed ? NULL : b->emit(b, op, 2, (TsVal[]){x, src}, range, NULL);
}

int ts_adjoint_slice(TsAdjoint *a) {
  const TsAttr *range = a->attr;
  TsMeta x = meta_of(a, 0);
  TsBox *box = within(a, a->grad[0]);
  for (int i = 0; i < range[0].n; i++) {
    box->start[i] = range[0].ints[i];
    box->step[i] = range[2].type == TS_ATTR_ints ? range[2].ints[i] : 1;
    box->n[i] = ts_slice_count(x.dim[i], &box->start[i], range[1].ints[i], box->step[i]);
    if (box->n[i] <= 1) box->step[i] = 1;
    if (box->n[i] == 0) box->start[i] = 0;
  }
  return 0;
}

static TsVal slice_like(TsAdjoint *a, TsVal g) {
  return ts_build(a->b, TS_OP_slice, TS_IN(g),
                  TS_ATTRS({"start", a->attr[0]}, {"stop", a->attr[1]}, {"step", a->attr[2]}),
                  NULL);
}

int ts_adjoint_slice_update(TsAdjoint *a) {
  TsBuild *b = a->b;
  if (ts_wanted(a, 0))
    a->grad_in[0] = write_slice(b, TS_OP_slice_update, a->grad[0], b->number(b, 0), a->attr);
  if (ts_wanted(a, 1)) a->grad_in[1] = slice_like(a, a->grad[0]);
  return 0;
}

int ts_adjoint_slice_add(TsAdjoint *a) {
  a->grad_in[0] = a->grad[0];
  if (ts_wanted(a, 1)) a->grad_in[1] = slice_like(a, a->grad[0]);
  return 0;
}

int ts_adjoint_select(TsAdjoint *a) {
  TsMeta x = meta_of(a, 0);
  int axis = normal_axis(a->attr[0].i, x.ndim);
  int64_t at = a->attr[1].i < 0 ? a->attr[1].i + x.dim[axis] : a->attr[1].i;
  TsVal g = ts_build(a->b, TS_OP_unsqueeze, TS_IN(a->grad[0]),
                     TS_ATTRS({"axis", ts_b_int(axis)}), NULL);
  TsBox *box = within(a, g);
  box->start[axis] = at, box->n[axis] = 1;
  return 0;
}

/* ---- windows */
int ts_adjoint_unfold(TsAdjoint *a) {
  TsMeta x = meta_of(a, 0);
  int axis = normal_axis(a->attr[0].i, x.ndim);
  a->grad_in[0] = ts_build(a->b, TS_OP_fold, TS_IN(a->grad[0]),
                           TS_ATTRS({"axis", ts_b_int(axis)}, {"length", ts_b_int(x.dim[axis])},
                                    {"step", a->attr[2]}),
                           NULL);
  return 0;
}

int ts_adjoint_fold(TsAdjoint *a) {
  TsMeta x = meta_of(a, 0);
  int axis = normal_axis(a->attr[0].i, x.ndim - 1);
  a->grad_in[0] =
      ts_build(a->b, TS_OP_unfold, TS_IN(a->grad[0]),
               TS_ATTRS({"axis", ts_b_int(axis)}, {"size", ts_b_int(x.dim[x.ndim - 1])},
                        {"step", a->attr[2]}),
               NULL);
  return 0;
}

static TsVal select_last(TsBuild *b, TsVal g, int64_t i) {
  return ts_build(b, TS_OP_select, TS_IN(g),
                  TS_ATTRS({"axis", ts_b_int(-1)}, {"index", ts_b_int(i)}), NULL);
}

int ts_adjoint_real_view(TsAdjoint *a) {
  TsVal re = select_last(a->b, a->grad[0], 0), im = select_last(a->b, a->grad[0], 1);
  a->grad_in[0] = ts_build2(a->b, TS_OP_complex, re, im);
  return 0;
}

/* ---- margins */
enum { PAD_constant, PAD_reflect, PAD_replicate, PAD_circular };

/* x + g[from, from + n) of the axis, added at x[to, to + n), or in reverse order. */
static TsVal add_margin(TsBuild *b, TsVal x, TsVal g, int axis, int64_t from, int64_t n,
                        int64_t to, bool reverse) {
  int64_t start[TS_MAX_RANK], stop[TS_MAX_RANK], step[TS_MAX_RANK];
  if (n == 0 || b->failed) return x;
  for (int i = 0; i <= axis; i++) start[i] = stop[i] = INT64_MIN, step[i] = 1;
  start[axis] = reverse ? to + n - 1 : to;
  stop[axis] = !reverse ? to + n : to ? to - 1 : INT64_MIN;
  step[axis] = reverse ? -1 : 1;
  TsVal margin = ts_build_narrow(b, g, axis, from, n);
  return ts_build(b, TS_OP_slice_add, TS_IN(x, margin),
                  TS_ATTRS({"start", ts_b_ints(start, axis + 1)},
                           {"stop", ts_b_ints(stop, axis + 1)},
                           {"step", ts_b_ints(step, axis + 1)}),
                  NULL);
}

static TsVal edge(TsBuild *b, TsVal x, TsVal g, int axis, int64_t from, int64_t n, int64_t to) {
  if (n == 0 || b->failed) return x;
  int64_t only = axis;
  TsVal margin = ts_build_sum(b, ts_build_narrow(b, g, axis, from, n), &only, 1, true);
  return b->failed ? NULL : add_margin(b, x, margin, axis, 0, 1, to, false);
}

/* One axis of n elements with its margins: what they hold came from the middle. */
static TsVal fold_margins(TsBuild *b, TsVal g, int axis, int64_t before, int64_t n,
                          int64_t after, int64_t mode) {
  int64_t end = before + n;
  if (before + after == 0) return g;
  TsVal x = ts_build_narrow(b, g, axis, before, n);
  if (mode == PAD_reflect) {
    x = add_margin(b, x, g, axis, 0, before, 1, true);
    return add_margin(b, x, g, axis, end, after, n - 1 - after, true);
  }
  if (mode == PAD_circular) {
    x = add_margin(b, x, g, axis, 0, before, n - before, false);
    return add_margin(b, x, g, axis, end, after, 0, false);
  }
  if (mode == PAD_constant) return x;
  x = edge(b, x, g, axis, 0, before, 0);
  return edge(b, x, g, axis, end, after, n - 1);
}

int ts_adjoint_pad(TsAdjoint *a) {
  const TsAttr *pads = &a->attr[0];
  TsMeta x = meta_of(a, 0);
  int first = x.ndim - pads->n / 2;
  TsVal g = a->grad[0];
  for (int i = first; i < x.ndim && !a->b->failed; i++) {
    const int64_t *p = pads->ints + 2 * (i - first);
    g = fold_margins(a->b, g, i, p[0], x.dim[i], p[1], a->attr[1].i);
  }
  a->grad_in[0] = g;
  return 0;
}

/* Less than once around: the least number has no negative. */
static int64_t roll_back(const TsMeta *x, int64_t shift, const int64_t *axis) {
  int64_t n = axis ? x->dim[normal_axis(*axis, x->ndim)] : ts_meta_numel(x);
  return n ? -(shift % n) : 0;
}

int ts_adjoint_roll(TsAdjoint *a) {
  int64_t back[64];
  const TsAttr *shift = &a->attr[0];
  TsMeta x = meta_of(a, 0);
  TsVal g = a->grad[0];
  for (int at = 0; at < shift->n; at += 64) { /* the list may name axes many times */
    int n = shift->n - at < 64 ? shift->n - at : 64;
    TsAttr axes = a->attr[1];
    for (int i = 0; i < n; i++)
      back[i] = roll_back(&x, shift->ints[at + i],
                          axes.type == TS_ATTR_ints ? &axes.ints[at + i] : NULL);
    if (axes.type == TS_ATTR_ints) axes = ts_b_ints(axes.ints + at, n);
    g = ts_build(a->b, TS_OP_roll, TS_IN(g),
                 TS_ATTRS({"shift", ts_b_ints(back, n)}, {"axis", axes}), NULL);
  }
  a->grad_in[0] = g;
  return 0;
}

/* The copies of an element are neighbours: [outer, n, count, inner] summed over count. */
int ts_adjoint_repeat_interleave(TsAdjoint *a) {
  TsMeta x = meta_of(a, 0);
  bool flat = a->attr[1].type == TS_ATTR_none;
  int axis = flat ? 0 : normal_axis(a->attr[1].i, x.ndim);
  int64_t dim[4] = {1, flat ? ts_meta_numel(&x) : x.dim[axis], a->attr[0].i, 1}, copies = 2;
  for (int i = 0; i < x.ndim && !flat; i++)
    if (i != axis) dim[i < axis ? 0 : 3] *= x.dim[i];
  TsVal g = ts_build_reshape(a->b, a->grad[0], dim, 4);
  a->grad_in[0] =
      ts_build_reshape(a->b, ts_build_sum(a->b, g, &copies, 1, false), x.dim, x.ndim);
  return 0;
}
