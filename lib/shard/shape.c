/* How views and other movements of elements are done in parts. Options that name sizes or places
 * of the whole are changed for each part. */
#include "lib/shard/shard.h"

#include <string.h>

/* A factor of axis d of the first input and axis e of the result, of equal sizes. */
static void along(TsShard *s, int d, int e) { ts_shard_along(s, 0, d, 0, e); }

/* A list among the options of a part, in its own memory. */
static int64_t *own_list(const TsShard *s, TsShardPart *part, const char *name, int room,
                         int n) {
  TsAttr *a = ts_shard_own(s, part, name);
  if (a->type == TS_ATTR_ints && n == a->n)
    memcpy(part->room[room], a->ints, sizeof *a->ints * (size_t)n);
  *a = (TsAttr){.type = TS_ATTR_ints, .n = n, .ints = part->room[room]};
  return part->room[room];
}

/* Size of axis d of the result in a part. */
static int64_t size_of(const TsShard *s, const TsShardPart *part, int d) {
  int f = s->out_axis[0][d];
  int64_t size = s->out[0].dim[d];
  if (f == TS_WHOLE) return size;
  return s->factor[f].size ? part->count[f] * (size / s->factor[f].size) : part->count[f];
}

/* ---- other shapes */
static int local_shape(const TsShard *s, TsShardPart *part) {
  int64_t *dim = own_list(s, part, "shape", 0, s->out[0].ndim);
  for (int d = 0; d < s->out[0].ndim; d++) dim[d] = size_of(s, part, d);
  return 0;
}

/* An axis may have size 1 in a part alone: those that go are named. */
static int local_squeeze(const TsShard *s, TsShardPart *part) {
  if (ts_shard_attr(s, "axis")->type != TS_ATTR_none) return 0;
  int64_t *axis = own_list(s, part, "axis", 0, 0);
  TsAttr *a = ts_shard_own(s, part, "axis");
  for (int d = 0; d < s->in[0]->ndim; d++)
    if (s->in[0]->dim[d] == 1) axis[a->n++] = d;
  return 0;
}

static int64_t common_divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t r = a % b;
    a = b, b = r;
  }
  return a;
}

static int past_ones(const TsMeta *m, int d) {
  while (d < m->ndim && m->dim[d] == 1) d++;
  return d;
}

/* Groups of axes of input and result with equal products, as small as they can be: elements of a
 * group are in the same order, so what its outermost axes have in common is a factor. */
void ts_shard_reshape(TsShard *s) {
  const TsMeta *x = s->in[0], *y = &s->out[0];
  if (s->op == TS_OP_reshape) s->local = local_shape;
  if (s->op == TS_OP_squeeze) s->local = local_squeeze;
  if (!ts_meta_numel(x)) return;
  int d = past_ones(x, 0), e = past_ones(y, 0);
  while (d < x->ndim && e < y->ndim) {
    int64_t outer = common_divisor(x->dim[d], y->dim[e]);
    if (outer > 1) {
      int f = ts_shard_factor(s, TS_FACTOR_along, outer);
      ts_shard_in(s, 0, d, f);
      ts_shard_out(s, 0, e, f);
    }
    int64_t a = x->dim[d++], b = y->dim[e++];
    while (a != b)
      if (a < b)
        a *= x->dim[d++];
      else
        b *= y->dim[e++];
    d = past_ones(x, d), e = past_ones(y, e);
  }
}

void ts_shard_permute(TsShard *s) {
  int ndim = s->in[0]->ndim;
  int64_t from[TS_MAX_RANK];
  for (int d = 0; d < ndim; d++) from[d] = d;
  if (s->op == TS_OP_permute) {
    const TsAttr *perm = ts_shard_attr(s, "perm");
    for (int d = 0; d < ndim; d++) from[d] = perm->ints[d] + (perm->ints[d] < 0 ? ndim : 0);
  } else if (ndim) {
    int a = ts_shard_axis_of(s, "axis0", ndim), b = ts_shard_axis_of(s, "axis1", ndim);
    from[a] = b, from[b] = a;
  }
  for (int d = 0; d < ndim; d++) along(s, (int)from[d], d);
}

void ts_shard_expand(TsShard *s) {
  int extra = s->out[0].ndim - s->in[0]->ndim;
  for (int d = 0; d < s->in[0]->ndim; d++)
    if (s->in[0]->dim[d] == s->out[0].dim[d + extra]) along(s, d, d + extra);
  s->local = local_shape;
}

/* ---- pieces of axes: along those that are taken as they are */
static bool taken_whole(const TsShard *s, int d) {
  const TsAttr *start = ts_shard_attr(s, "start"), *step = ts_shard_attr(s, "step");
  int64_t by = d < start->n && step->type == TS_ATTR_ints ? step->ints[d] : 1, from, n;
  if (d >= start->n) return true;
  from = start->ints[d], n = s->in[0]->dim[d];
  return by == 1 && ts_slice_count(n, &from, ts_shard_attr(s, "stop")->ints[d], 1) == n;
}

static int local_slice(const TsShard *s, TsShardPart *part) {
  int n = ts_shard_attr(s, "start")->n;
  int64_t *start = own_list(s, part, "start", 0, n), *stop = own_list(s, part, "stop", 1, n);
  for (int d = 0; d < n; d++)
    if (taken_whole(s, d)) start[d] = stop[d] = INT64_MIN;
  return 0;
}

void ts_shard_slice(TsShard *s) {
  for (int d = 0; d < s->in[0]->ndim; d++)
    if (taken_whole(s, d)) along(s, d, d);
  s->local = local_slice;
}

void ts_shard_slice_update(TsShard *s) {
  ts_shard_slice(s);
  int extra = s->in[0]->ndim - s->in[1]->ndim;
  for (int d = 0; d < s->in[1]->ndim; d++) ts_shard_in(s, 1, d, s->in_axis[0][d + extra]);
}

static int local_narrow(const TsShard *s, TsShardPart *part) {
  int axis = ts_shard_axis_of(s, "axis", s->in[0]->ndim);
  if (s->out_axis[0][axis] == TS_WHOLE) return 0;
  ts_shard_own(s, part, "length")->i = size_of(s, part, axis);
  return 0;
}

void ts_shard_narrow(TsShard *s) {
  int axis = ts_shard_axis_of(s, "axis", s->in[0]->ndim);
  for (int d = 0; d < s->in[0]->ndim; d++)
    if (d != axis || s->in[0]->dim[d] == s->out[0].dim[d]) along(s, d, d);
  s->local = local_narrow;
}

void ts_shard_select(TsShard *s) {
  int axis = ts_shard_axis_of(s, "axis", s->in[0]->ndim);
  for (int d = 0; d < s->in[0]->ndim; d++)
    if (d != axis) along(s, d, d - (d > axis));
}

/* ---- axes that are worked along are whole */

/* unfold as well: windows are the last axis of the result, or of x. */
void ts_shard_fold(TsShard *s) {
  int ndim = s->in[0]->ndim < s->out[0].ndim ? s->in[0]->ndim : s->out[0].ndim;
  int axis = ndim ? ts_shard_axis_of(s, "axis", ndim) : 0;
  for (int d = 0; d < ndim; d++)
    if (d != axis) along(s, d, d);
}

void ts_shard_pad(TsShard *s) {
  const TsAttr *pads = ts_shard_attr(s, "pads");
  int first = s->in[0]->ndim - pads->n / 2;
  for (int d = 0; d < s->in[0]->ndim; d++) {
    const int64_t *p = d < first ? NULL : pads->ints + 2 * (d - first);
    if (!p || (!p[0] && !p[1])) along(s, d, d);
  }
}

/* The repeated axis is the outer one of what it becomes. */
void ts_shard_repeat(TsShard *s) {
  int ndim = s->in[0]->ndim;
  bool flat = ts_shard_attr(s, "axis")->type == TS_ATTR_none;
  for (int d = 0; d < (flat && ndim ? 1 : ndim); d++) along(s, d, d);
}

/* The diagonal of the part that begins at a row and a column. */
static int local_diagonal(const TsShard *s, TsShardPart *part) {
  int ndim = s->in[0]->ndim, row = s->in_axis[0][ndim - 2], column = s->in_axis[0][ndim - 1];
  TsAttr *a = ts_shard_own(s, part, "diagonal");
  if (row != TS_WHOLE) a->i += part->start[row];
  if (column != TS_WHOLE) a->i -= part->start[column];
  return 0;
}

void ts_shard_triangle(TsShard *s) {
  ts_shard_pointwise(s);
  s->local = local_diagonal;
}

/* What has to be computed before is where it is, as far as its axes are like those of x. */
void ts_shard_barrier(TsShard *s) {
  for (int d = 0; d < s->in[0]->ndim; d++) {
    along(s, d, d);
    if (d < s->in[1]->ndim && s->in[1]->dim[d] == s->in[0]->dim[d])
      ts_shard_in(s, 1, d, s->in_axis[0][d]);
  }
}
