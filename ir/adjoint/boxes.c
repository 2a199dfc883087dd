/* How the parts of a value become one gradient:
 *
 *   one, or few that overlap   each among zeros, and added: what fuses
 *   boxes beside each other    concat, with zeros in the gaps
 *   others                     index_add, of rows that no part cuts
 *
 * An element adds up what it gets in the order of the parts. */
#include "ir/adjoint/boxes.h"

#include <stdlib.h>
#include <string.h>

#include "ir/adjoint/common.h"

enum { FEW = 4, MOST_JOINED = 1024 }; /* parts; operands of a concat */

typedef struct Whole {
  TsBuild *b;
  TsMeta m;
  int n;
  TsBoxed *part;
} Whole;

/* ---- one among zeros */

/* g where the axes from `first` on are the whole's. */
static TsVal place(const Whole *w, const TsBoxed *p, int first) {
  TsBuild *b = w->b;
  if (!p->g || b->failed) return NULL;
  TsMeta m = *b->meta(b, p->g);
  int64_t pads[2 * TS_MAX_RANK], stop[TS_MAX_RANK], from = m.ndim;
  TsBox at = p->box;
  bool apart = false;
  for (int i = 0; i < m.ndim; i++) {
    int64_t n = m.dim[i], dim = i < first ? n : w->m.dim[i];
    if (i < first) at.start[i] = 0, at.step[i] = 1;
    stop[i] = at.start[i] + n * at.step[i];
    if (stop[i] < 0) stop[i] = INT64_MIN;
    pads[2 * i] = at.start[i], pads[2 * i + 1] = dim - at.start[i] - n;
    if (from > i && (n != dim || at.step[i] < 0)) from = i;
    apart |= at.step[i] != 1;
    m.dim[i] = dim;
  }
  if (from == m.ndim) return p->g;
  if (!apart)
    return ts_build(b, TS_OP_pad, TS_IN(p->g),
                    TS_ATTRS({"pads", ts_b_ints(pads + 2 * from, 2 * (m.ndim - (int)from))}),
                    NULL);
  TsVal zeros = ts_common_zeros(b, (TsDtype)m.dtype, &m);
  return ts_build(b, TS_OP_slice_update, TS_IN(zeros, p->g),
                  TS_ATTRS({"start", ts_b_ints(at.start, m.ndim)},
                           {"stop", ts_b_ints(stop, m.ndim)},
                           {"step", ts_b_ints(at.step, m.ndim)}),
                  NULL);
}

static TsVal add_each(const Whole *w, TsVal base) {
  for (int i = 0; i < w->n; i++) {
    TsVal g = place(w, &w->part[i], 0);
    base = base ? ts_build_add(w->b, base, g) : g;
  }
  return base;
}

/* ---- joined */

/* Not more operands than a call takes at once. */
static TsVal joined(TsBuild *b, int axis, int n, TsVal *v) {
  TsAttr along = ts_b_int(axis);
  while (n > 1 && !b->failed) {
    int groups = 0;
    for (int i = 0; i < n; i += MOST_JOINED) {
      int k = n - i < MOST_JOINED ? n - i : MOST_JOINED;
      v[groups++] =
          k == 1 ? v[i] : ts_build(b, TS_OP_concat, k, v + i, TS_ATTRS({"axis", along}), NULL);
    }
    n = groups;
  }
  return v[0];
}

static int compare(int64_t x, int64_t y) { return (x > y) - (x < y); }

static int by_axis(const TsBox *p, const TsBox *q, int i) {
  int c = compare(p->start[i], q->start[i]);
  if (!c) c = compare(p->n[i], q->n[i]);
  return c ? c : compare(p->step[i], q->step[i]);
}

static int by_box(const void *x, const void *y) {
  const TsBox *p = &((const TsBoxed *)x)->box, *q = &((const TsBoxed *)y)->box;
  int c = 0;
  for (int i = 0; i < TS_MAX_RANK && !c; i++) c = by_axis(p, q, i);
  return c;
}

/* The end of the parts from `from` on that lie alike on the axis. */
static int alike(const TsBoxed *p, int from, int to, int axis) {
  int end = from + 1;
  while (end < to && !by_axis(&p[from].box, &p[end].box, axis)) end++;
  return end;
}

/* Sorted parts [from, to), alike on the axes before, are groups beside each other, and so on
 * within each of them. */
static bool tiles(const Whole *w, const TsBoxed *p, int from, int to, int axis) {
  if (to - from == 1) return true;
  if (axis == w->m.ndim) return false;
  bool several = alike(p, from, to, axis) < to;
  int64_t free = 0;
  for (int at = from, end; at < to; at = end) {
    const TsBox *k = &p[at].box;
    end = alike(p, at, to, axis);
    if (!tiles(w, p, at, end, axis + 1)) return false;
    if (several && (k->step[axis] != 1 || k->start[axis] < free)) return false;
    free = k->start[axis] + k->n[axis];
  }
  return true;
}

/* Zeros [from, to) of the axis, for what is like m elsewhere. */
static void add_gap(const Whole *w, TsMeta m, int axis, int64_t from, int64_t to, TsVal *v,
                    int *n) {
  m.dim[axis] = to - from;
  if (to > from) v[(*n)++] = ts_common_zeros(w->b, (TsDtype)m.dtype, &m);
}

/* The same parts as one: of their own size on the axes before, of the whole's from `axis` on. v
 * has room for twice as many values and one. */
static TsVal join(const Whole *w, const TsBoxed *p, int from, int to, int axis, TsVal *v) {
  if (to - from == 1) return place(w, &p[from], axis);
  if (alike(p, from, to, axis) == to) {
    TsBoxed one = {join(w, p, from, to, axis + 1, v), p[from].box};
    for (int i = axis + 1; i < w->m.ndim; i++)
      one.box.start[i] = 0, one.box.step[i] = 1, one.box.n[i] = w->m.dim[i];
    return place(w, &one, axis);
  }
  int64_t free = 0;
  int n = 0;
  TsMeta m = {0};
  for (int at = from, end; at < to && !w->b->failed; at = end) {
    const TsBox *k = &p[at].box;
    end = alike(p, at, to, axis);
    TsVal g = join(w, p, at, end, axis + 1, v + n);
    if (!g) return NULL;
    m = *w->b->meta(w->b, g);
    add_gap(w, m, axis, free, k->start[axis], v, &n);
    v[n++] = g;
    free = k->start[axis] + k->n[axis];
  }
  add_gap(w, m, axis, free, w->m.dim[axis], v, &n);
  return joined(w->b, axis, n, v);
}

/* NULL: they do not lie so. */
static TsVal join_all(const Whole *w, TsVal *v, TsBoxed *own) {
  memcpy(own, w->part, sizeof *own * (size_t)w->n);
  qsort(own, (size_t)w->n, sizeof *own, by_box);
  return tiles(w, own, 0, w->n, 0) ? join(w, own, 0, w->n, 0, v) : NULL;
}

/* ---- added by index: of the axes that parts cut one is made */
typedef struct Flat {
  int first, last;
  int64_t dim[3]; /* the axes before, those, and the axes behind */
} Flat;

static Flat flat_of(const Whole *w) {
  Flat f = {w->m.ndim, 0, {1, 1, 1}};
  for (int i = 0; i < w->n; i++)
    for (int k = 0; k < w->m.ndim; k++) {
      const TsBox *x = &w->part[i].box;
      if (x->n[k] == w->m.dim[k] && x->step[k] == 1) continue;
      if (k < f.first) f.first = k;
      if (k > f.last) f.last = k;
    }
  if (f.first > f.last) f.first = f.last;
  for (int k = 0; k < w->m.ndim; k++)
    f.dim[k < f.first ? 0 : k > f.last ? 2 : 1] *= w->m.dim[k];
  return f;
}

/* Where the rows of a part lie. */
static TsVal rows_of(const Whole *w, const Flat *f, const TsBox *x, int64_t *count) {
  TsBuild *b = w->b;
  TsVal index = NULL;
  int64_t stride = 1, n = 1;
  for (int k = f->last; k >= f->first; stride *= w->m.dim[k], n *= x->n[k], k--) {
    double start = (double)(x->start[k] * stride), step = (double)(x->step[k] * stride);
    TsVal at = ts_build(b, TS_OP_arange, 0, NULL,
                        TS_ATTRS({"start", ts_b_f(start)},
                                 {"stop", ts_b_f(start + step * (double)x->n[k])},
                                 {"step", ts_b_f(step)}),
                        NULL);
    if (index) at = ts_build_add(b, ts_build_reshape(b, at, (int64_t[]){x->n[k], 1}, 2), index);
    index = k < f->last ? ts_build_reshape(b, at, (int64_t[]){x->n[k] * n}, 1) : at;
  }
  *count = n;
  return index;
}

static TsVal add_rows(const Whole *w, TsVal base, TsVal *v) {
  TsBuild *b = w->b;
  Flat f = flat_of(w);
  TsVal *index = v + w->n;
  if (!base) base = ts_common_zeros(b, (TsDtype)w->m.dtype, &w->m);
  for (int i = 0; i < w->n && !b->failed; i++) {
    int64_t dim[3] = {f.dim[0], 0, f.dim[2]};
    index[i] = rows_of(w, &f, &w->part[i].box, &dim[1]);
    v[i] = ts_build_reshape(b, w->part[i].g, dim, 3);
  }
  TsVal rows = ts_build_reshape(b, base, f.dim, 3);
  TsVal g = joined(b, 1, w->n, v), at = joined(b, 0, w->n, index);
  g = ts_build(b, TS_OP_index_add, TS_IN(rows, at, g), TS_ATTRS({"axis", ts_b_int(1)}), NULL);
  return ts_build_reshape(b, g, w->m.dim, w->m.ndim);
}

/* ---- the sum */
static int without_empty(int n, TsBoxed *part) {
  int kept = 0;
  for (int i = 0; i < n; i++) {
    bool empty = false;
    for (int k = 0; k < TS_MAX_RANK; k++) empty |= part[i].box.n[k] == 0;
    if (!empty) part[kept++] = part[i];
  }
  return kept;
}

TsVal ts_boxes_sum(TsBuild *b, TsVal base, TsVal x, int n, TsBoxed *part) {
  Whole w = {b, *b->meta(b, x), n, part};
  int full = without_empty(n, part);
  if (full > 1) w.n = full;
  if (w.n == 1) return add_each(&w, base);
  TsBoxed *own = malloc(sizeof *own * (size_t)w.n);
  TsVal *v = malloc(sizeof *v * (size_t)(2 * w.n + w.m.ndim + 1));
  TsVal g = NULL;
  if (!own || !v) {
    ts_build_fail(b, TS_ERR_memory, "out of memory");
  } else if ((g = join_all(&w, v, own))) {
    g = base ? ts_build_add(b, base, g) : g;
  } else if (!b->failed) {
    g = w.n <= FEW ? add_each(&w, base) : add_rows(&w, base, v);
  }
  free(own);
  free(v);
  return b->failed ? NULL : g;
}
