/* The gradient of interpolate in any mode: its transpose, axis after axis, the first one first.
 * Along an axis an element is the chain of fma(weight, g, sum) from +0 over the outputs, and
 * the taps of each, that point to it, in increasing order, as in vm/exec/interpolate.c. Which
 * those are is known when the kernel is made, and comes as tables. Whole factors of repeated
 * elements have a kernel without any (ir/lower/interpolate_grad.c). */
#include "ir/lower/short.h"
#include "ir/lower/steps.h"

#include <stdlib.h>

#include "lib/resample.h"

typedef TsTileVal V;

enum { PIECE = 512, LARGEST = 1 << 20 /* taps of a table */ };

typedef struct Along {
  TsResample r;
  TsDtype from, acc, to;
  int64_t outer, inner; /* elements before and behind the axis */
  int64_t most, taps;   /* taps of one element, of all */
} Along;

/* Taps by the element that they point to: of element i those from first[i] on. */
typedef struct Sorted {
  int64_t *first, *at;
  void *w;
} Sorted;

static void sort_taps(Along *a, const Sorted *s) {
  int64_t in = a->r.in, at[TS_RESAMPLE_TAPS];
  double w[TS_RESAMPLE_TAPS];
  int each = ts_resample_taps(a->r.mode);
  for (int64_t o = 0; o < a->r.out; o++) {
    ts_resample_at(&a->r, o, at, w);
    for (int t = 0; t < each; t++) s->first[at[t] + 2]++;
  }
  for (int64_t i = 2; i < in + 2; i++) {
    if (s->first[i] > a->most) a->most = s->first[i];
    s->first[i] += s->first[i - 1];
  }
  for (int64_t o = 0; o < a->r.out; o++) {
    ts_resample_at(&a->r, o, at, w);
    for (int t = 0; t < each; t++) {
      int64_t e = s->first[at[t] + 1]++;
      s->at[e] = o;
      if (a->acc == TS_DT_f64)
        ((double *)s->w)[e] = w[t];
      else
        ((float *)s->w)[e] = (float)w[t];
    }
  }
}

/* ---- the kernel of an axis */
static V by(TsTileBuild *b, int op, V x, int64_t y) { return ts_short_by(b, op, x, y); }

typedef struct Read {
  V first, at, w, g;  /* memory */
  V from, last, base; /* of each element its taps, and where in g it begins */
} Read;

static V with_tap(TsTileBuild *b, const Along *a, const Read *r, V k, V sum) {
  TsTileType t = r->from->type;
  V e = ts_tile_op2(b, TS_OP_add, r->from, ts_short_splat(b, &t, k));
  V is = ts_tile_op2(b, TS_OP_lt, e, r->last), none = ts_short_int(b, &t, -1);
  e = ts_tile_op3(b, TS_OP_where, is, e, none);
  V at = by(b, TS_OP_mul, ts_short_gather(b, r->at, e, true), a->inner);
  at = ts_tile_op3(b, TS_OP_where, is, ts_tile_op2(b, TS_OP_add, r->base, at), none);
  V g = ts_tile_cast(b, ts_short_gather(b, r->g, at, true), a->acc);
  V more = ts_tile_op3(b, TS_OP_fma, g, ts_short_gather(b, r->w, e, true), sum);
  return ts_tile_op3(b, TS_OP_where, is, more, sum);
}

static TsTile *build(const Along *a) {
  TsTile *k = ts_tile_new("interpolate_grad");
  if (!k) return NULL;
  int64_t n = a->outer * a->r.in * a->inner;
  Read r = {.g = ts_short_param(k, "g", a->from, a->outer * a->r.out * a->inner, false)};
  r.first = ts_short_param(k, "first", TS_DT_i64, a->r.in + 1, false);
  r.at = ts_short_param(k, "at", TS_DT_i64, a->taps, false);
  r.w = ts_short_param(k, "w", a->acc, a->taps, false);
  V y = ts_short_param(k, "y", a->to, n, true);
  TsTileBuild build = ts_tile_build(k), *b = &build;
  TsTileType t = ts_tile_vector(TS_DT_i64, PIECE);
  TsTileAccess edge = {.edge = true};
  k->threads = PIECE / 2, k->vector = 8;
  TsTileLoop l = ts_tile_for(b, ts_tile_index(b, 0), ts_tile_index(b, n), PIECE, true, 0, NULL);
  V e = by(b, TS_OP_minimum, ts_short_positions(b, &t, l.i), n - 1);
  V line = by(b, TS_OP_floordiv, e, a->inner), i = by(b, TS_OP_mod, line, a->r.in);
  r.base = by(b, TS_OP_mul, by(b, TS_OP_floordiv, line, a->r.in), a->r.out * a->inner);
  r.base = ts_tile_op2(b, TS_OP_add, r.base, by(b, TS_OP_mod, e, a->inner));
  r.from = ts_short_gather(b, r.first, i, true);
  r.last = ts_short_gather(b, r.first, by(b, TS_OP_add, i, 1), true);
  V sum = ts_short_number(b, &t, a->acc, 0);
  TsTileLoop taps =
      ts_tile_for(b, ts_tile_index(b, 0), ts_tile_index(b, a->most), 1, false, 1, &sum);
  if (taps.stmt) {
    V next = with_tap(b, a, &r, taps.i, taps.carry[0]);
    ts_tile_for_end(b, &taps, &next, &sum);
  }
  ts_tile_store(b, y, &l.i, ts_tile_cast(b, sum, a->to), &edge);
  ts_tile_for_end(b, &l, NULL, NULL);
  return k;
}

/* ---- steps */
/* From one argument to the other; false: no memory. */
static bool add_axis(TsSteps *x, Along *a, int from, int to) {
  int64_t size = ts_dtypes[a->acc].nbytes;
  a->taps = a->r.out * ts_resample_taps(a->r.mode);
  Sorted s = {calloc((size_t)a->r.in + 2, 8), malloc((size_t)(a->taps * 8)),
              malloc((size_t)(a->taps * size))};
  bool fits = s.first && s.at && s.w;
  if (fits) {
    sort_taps(a, &s);
    int arg[5] = {from, ts_steps_table(x, s.first, (a->r.in + 1) * 8),
                  ts_steps_table(x, s.at, a->taps * 8), ts_steps_table(x, s.w, a->taps * size),
                  to};
    ts_steps_add(x, build(a), arg, NULL);
  }
  free(s.first), free(s.at), free(s.w);
  return fits;
}

static bool is_copy(const TsResample *r) { return r->in == 1 && r->out == 1; }

static bool add_axes(TsSteps *x, const TsResample *axis, int64_t images, TsDtype d) {
  TsDtype acc = (TsDtype)ts_dtypes[d].accum, now = d;
  int at = ts_steps_in(x, 0, NULL);
  int64_t outer = images;
  for (int i = 0; i < 3; i++) {
    Along a = {.r = axis[i], .from = now, .acc = acc, .to = acc, .outer = outer, .inner = 1};
    for (int k = i + 1; k < 3; k++) a.inner *= axis[k].out;
    outer *= axis[i].in;
    if (i < 2 && is_copy(&axis[i])) continue; /* the last one always has its chain */
    if (i == 2) a.to = d;
    int to = i == 2 ? ts_steps_out(x, 0, NULL)
                    : ts_steps_temp(x, outer * a.inner * ts_dtypes[acc].nbytes);
    if (!add_axis(x, &a, at, to)) return false;
    at = to, now = acc;
  }
  return true;
}

int ts_lower_interpolate_back(const TsSched *sched, const TsGroup *group, TsLayoutFn *layout,
                              void *arg, TsSchedKernel *out, TsError *err) {
  const TsNode *n = group->node[0];
  const TsMeta *g = &n->in[0]->meta, *y = &n->out[0].meta;
  const TsAttr *scale = &n->attr[1];
  TsDtype d = (TsDtype)y->dtype;
  TsResample axis[3];
  int spaces = g->ndim - 2;
  if (ts_dtype_in_blocks(d) || g->dtype != d || !ts_meta_numel(g) || !ts_meta_numel(y))
    return 0;
  for (int i = 0; i < 3; i++) {
    int at = i - (3 - spaces);
    axis[i] = (TsResample){.mode = (int)n->attr[2].i, .corners = n->attr[3].i};
    axis[i].in = at < 0 ? 1 : y->dim[2 + at], axis[i].out = at < 0 ? 1 : g->dim[2 + at];
    if (at >= 0 && scale->type == TS_ATTR_floats)
      axis[i].scale = scale->floats[scale->n == 1 ? 0 : at];
    if (axis[i].out > LARGEST) return 0;
  }
  TsSteps x;
  ts_steps_begin(&x, sched, layout, arg, n, err);
  bool whole = add_axes(&x, axis, y->dim[0] * y->dim[1], d);
  int made = ts_steps_end(&x, out);
  if (whole || made != 1) return made;
  ts_tile_free(out->tile), out->tile = NULL;
  return ts_error_memory(err), -1;
}
