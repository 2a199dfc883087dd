/* How elements are taken from and put to places in parts: what places count is whole, since any
 * part may be asked for. */
#include "lib/shard/shard.h"

void ts_shard_one_hot(TsShard *s) {
  for (int d = 0; d < s->in[0]->ndim; d++) ts_shard_along(s, 0, d, 0, d);
}

/* The index may be smaller than x: such an axis is whole, as x's elements in front are taken. */
void ts_shard_gather(TsShard *s) {
  const TsMeta *x = s->in[0], *index = s->in[1];
  int axis = x->ndim ? ts_shard_axis_of(s, "axis", x->ndim) : 0;
  for (int d = 0; d < x->ndim; d++) {
    if (d != axis && x->dim[d] != index->dim[d]) continue;
    int f = ts_shard_along(s, 1, d, 0, d);
    if (d != axis) ts_shard_in(s, 0, d, f);
  }
}

void ts_shard_scatter(TsShard *s) {
  const TsMeta *x = s->in[0], *index = s->in[1], *src = s->in[2];
  int axis = x->ndim ? ts_shard_axis_of(s, "axis", x->ndim) : 0;
  for (int d = 0; d < x->ndim; d++) {
    int e = d - x->ndim + src->ndim;
    if (d == axis || x->dim[d] != index->dim[d]) continue;
    int f = ts_shard_along(s, 0, d, 0, d);
    ts_shard_in(s, 1, d, f);
    if (e >= 0) ts_shard_in(s, 2, e, f);
  }
}

void ts_shard_take(TsShard *s) {
  for (int d = 0; d < s->in[1]->ndim; d++) ts_shard_along(s, 1, d, 0, d);
}

/* Axes of x beside `axis`, whose place those of the index take. */
static void indexed(TsShard *s, int axis) {
  const TsMeta *x = s->in[0], *index = s->in[1];
  for (int d = 0; d < x->ndim; d++)
    if (d != axis) ts_shard_along(s, 0, d, 0, d < axis ? d : d + index->ndim - 1);
  for (int d = 0; d < index->ndim; d++) ts_shard_along(s, 1, d, 0, axis + d);
}

void ts_shard_index_select(TsShard *s) {
  int ndim = s->in[0]->ndim;
  if (ndim) indexed(s, ts_shard_axis_of(s, "axis", ndim));
}

/* A table in blocks is whole. */
void ts_shard_embedding(TsShard *s) {
  const TsMeta *index = s->in[1];
  if (!ts_dtype_in_blocks(s->in[0]->dtype)) {
    indexed(s, 0);
    return;
  }
  for (int d = 0; d < index->ndim; d++) ts_shard_along(s, 1, d, 0, d);
}

void ts_shard_index_add(TsShard *s) {
  int ndim = s->in[0]->ndim, axis = ndim ? ts_shard_axis_of(s, "axis", ndim) : 0;
  for (int d = 0; d < ndim; d++) {
    if (d == axis) continue;
    int f = ts_shard_along(s, 0, d, 0, d);
    ts_shard_in(s, 2, d < axis ? d : d + s->in[1]->ndim - 1, f);
    s->spilled = 2, s->spill = 1 + f; /* all that is added to an element, in its order */
  }
}

/* Rows are added in their order. */
void ts_shard_segment(TsShard *s) {
  for (int d = 1; d < s->in[0]->ndim; d++) ts_shard_along(s, 0, d, 0, d);
}

/* All entries of a row are added in their order: columns alone are split. */
void ts_shard_spmm(TsShard *s) {
  int last = s->in[3]->ndim - 1;
  if (last > 0) ts_shard_along(s, 3, last, 0, last);
}

/* Entry by entry. */
void ts_shard_sddmm(TsShard *s) {
  int f = ts_shard_along(s, 2, 0, 0, 0);
  ts_shard_in(s, 3, 0, f);
  if (s->nin > 4 && s->in[4]) ts_shard_in(s, 4, 0, f);
}

/* ---- random numbers of elements by their places in the whole: the part's box is told to the
 * generator (vm/drive/random.h), so pieces have to be in one piece */
static int box(const TsShard *s, TsShardPart *part) {
  (void)s, (void)part;
  return 0;
}

void ts_shard_dropout(TsShard *s) {
  ts_shard_pointwise(s);
  s->local = box;
}

void ts_shard_categorical(TsShard *s) {
  for (int d = 0; d < s->in[0]->ndim - 1; d++) ts_shard_along(s, 0, d, 0, d);
  s->local = box;
}

/* ---- rows at other places: of parts of x each element of the result is in one */
static int local_rows(const TsShard *s, TsShardPart *part) {
  const TsMeta *x = s->in[0];
  int f = s->in_axis[0][0];
  int64_t rows = 1;
  if (x->ndim < 2 || f == TS_WHOLE || !part->summand) return 0;
  for (int d = 1; d < x->ndim - 1; d++) rows *= x->dim[d];
  ts_shard_own(s, part, "first")->i += part->start[f] * rows;
  *ts_shard_own(s, part, "of") = (TsAttr){.type = TS_ATTR_int, .i = rows * x->dim[0]};
  return 0;
}

void ts_shard_route_rows(TsShard *s) {
  const TsMeta *x = s->in[0];
  int n = s->in[1]->ndim;
  for (int d = 0; d < n; d++) ts_shard_along(s, 1, d, 0, d);
  ts_shard_along(s, 0, -1, 0, -1);
  int64_t rows = 1; /* fewer are all sent rather than what they become */
  for (int d = 0; d < x->ndim - 1; d++) rows *= x->dim[d];
  if (x->ndim < 2 || rows <= ts_meta_numel(s->in[1])) return;
  ts_shard_in(s, 0, 0, ts_shard_factor(s, TS_FACTOR_one, x->dim[0]));
  s->local = local_rows;
}
