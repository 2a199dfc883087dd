/* Convolutions of few channels, whose windows are rows of a matrix: channel after channel, of
 * each all places, as weights have them. What a number of a window adds to where the window
 * begins is a table, so that a row takes one addition a number; the image is padded before. */
#include "ir/lower/conv/conv.h"

#include <stdlib.h>

typedef TsTileVal V;

enum { ROWS = 16 }; /* of a round at most */

typedef struct Folded {
  TsDtype d;
  int64_t lines, out[3], row; /* positions but for the last axis; numbers of a row */
  int64_t image, step[3];     /* of the padded image, from one image or position to the next */
  int64_t numel, rows;        /* of it; of a round */
} Folded;

/* Rows of a round that are part of one line. */
static int64_t rows_of(int64_t out) {
  int64_t n = ROWS;
  while (out % n) n--;
  return n;
}

static TsTile *build(const Folded *s) {
  TsTile *k = ts_tile_new("windows");
  if (!k) return NULL;
  int64_t chunks = s->out[2] / s->rows, dim[2] = {s->rows, s->row};
  int64_t rows = s->lines * s->out[2];
  TsTileType t = ts_tile_type(TS_DT_i64, 2, dim), line = ts_tile_vector(TS_DT_i64, s->row);
  TsTileType ty = ts_tile_type(s->d, 2, (int64_t[]){rows, s->row});
  V x = ts_short_param(k, "x", s->d, s->numel, false);
  V table = ts_short_param(k, "table", TS_DT_i64, s->row, false);
  V y = ts_tile_param(k, "y", &ty, true);
  TsTileBuild b = ts_tile_build(k);
  V zero = ts_tile_index(&b, 0);
  TsTileLoop l = ts_tile_for(&b, zero, ts_tile_index(&b, s->lines * chunks), 1, true, 0, NULL);
#define BY(op, x, n) ts_tile_op2(&b, op, x, ts_tile_index(&b, n))
  V first = BY(TS_OP_mul, BY(TS_OP_mod, l.i, chunks), s->rows);
  V nth = BY(TS_OP_floordiv, l.i, chunks), rest = nth;
  V at = BY(TS_OP_mul, first, s->step[2]);
  for (int a = 1; a >= 0; a--) {
    V own = BY(TS_OP_mul, BY(TS_OP_mod, rest, s->out[a]), s->step[a]);
    at = ts_tile_op2(&b, TS_OP_add, at, own);
    rest = BY(TS_OP_floordiv, rest, s->out[a]);
  }
  at = ts_tile_op2(&b, TS_OP_add, at, BY(TS_OP_mul, rest, s->image));
  V to[2] = {ts_tile_op2(&b, TS_OP_add, BY(TS_OP_mul, nth, s->out[2]), first), zero};
#undef BY
  V own = ts_short_by(&b, TS_OP_mul, ts_short_iota(&b, &t, 0), s->step[2]);
  V from = ts_tile_load(&b, table, &zero, &line, NULL);
  from = from ? ts_tile_broadcast(&b, from, &t, (int64_t[]){1}) : NULL;
  own = ts_tile_op2(&b, TS_OP_add, ts_tile_op2(&b, TS_OP_add, own, from),
                    ts_short_splat(&b, &t, at));
  V v = ts_short_gather(&b, x, own, true);
  if (v) ts_tile_store(&b, y, to, v, NULL);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

/* The image with its padding, its axes as they are. */
static TsConvPadded padded(const TsConvUnit *u) {
  const TsConvWork *w = u->w;
  const TsConv *c = &w->c;
  const TsMeta *m = &w->n->in[0]->meta;
  TsConvPadded r = {.ndim = m->ndim};
  for (int i = 0; i < m->ndim; i++) r.order.at[i] = i, r.size[i] = r.part[i] = m->dim[i];
  for (int a = 3 - c->nd; a < 3; a++) {
    int i = (w->last ? 1 : 2) + a - (3 - c->nd);
    r.size[i] = (c->out[a] - 1) * c->stride[a] + (c->window[a] - 1) * c->dilation[a] + 1;
    r.first[i] = c->before[a];
    r.part[i] = r.size[i] - r.first[i] < c->in[a] ? r.size[i] - r.first[i] : c->in[a];
  }
  return r;
}

int ts_conv_folded_image(TsConvUnit *u) {
  const TsConvWork *w = u->w;
  const TsConv *c = &w->c;
  TsConvPadded r = padded(u);
  Folded s = {.d = w->d, .row = u->channels, .lines = c->batch * c->out[0] * c->out[1]};
  int64_t step[TS_MAX_RANK], far[3] = {0}, numel = ts_conv_padded_numel(&r);
  step[r.ndim - 1] = 1;
  for (int i = r.ndim - 1; i-- > 0;) step[i] = step[i + 1] * r.size[i + 1];
  for (int a = 0; a < 3; a++) {
    int i = (w->last ? 1 : 2) + a - (3 - c->nd);
    far[a] = a < 3 - c->nd ? 0 : step[i];
    s.out[a] = c->out[a], s.step[a] = far[a] * c->stride[a];
  }
  s.image = step[0], s.numel = numel, s.rows = rows_of(c->out[2]);
  int64_t channel = step[w->last ? r.ndim - 1 : 1], n = 0;
  int64_t *table = malloc(sizeof *table * (size_t)u->channels);
  for (int64_t i = 0; table && i < c->cg; i++)
    for (int64_t z = 0; z < c->window[0]; z++)
      for (int64_t y = 0; y < c->window[1]; y++)
        for (int64_t x = 0; x < c->window[2]; x++)
          table[n++] = i * channel + z * c->dilation[0] * far[0] + y * c->dilation[1] * far[1] +
                       x * c->dilation[2] * far[2];
  while (table && n < u->channels) table[n++] = -numel; /* nothing, which is zero */
  int to = ts_steps_temp(&u->x, u->rows * u->channels * ts_dtypes[w->d].nbytes);
  int list[] = {ts_conv_padded_in(&u->x, 0, &r),
                ts_steps_table(&u->x, table, (int64_t)sizeof *table * u->channels), to};
  free(table);
  ts_steps_add(&u->x, build(&s), list, NULL);
  return to;
}

void ts_conv_folded_strides(const TsConvUnit *u, int ndim, int64_t row, int64_t *stride) {
  const TsConvWork *w = u->w;
  int first = w->last ? 1 : 2;
  int64_t step = 1;
  stride[0] = row;
  for (int i = w->c.nd; i-- > 0; step *= w->c.window[3 - w->c.nd + i]) stride[first + i] = step;
  stride[w->last ? ndim - 1 : 1] = step;
}

int ts_conv_folded_weights(TsConvUnit *u) {
  TsStepsView own = ts_steps_in_view(&u->x, 1), to = {.dtype = own.dtype};
  const TsMeta *m = &u->w->n->in[1]->meta;
  int64_t numel = u->n * u->k.channels;
  to.arg = ts_steps_temp(&u->x, numel * ts_dtypes[own.dtype].nbytes);
  ts_conv_folded_strides(u, m->ndim, u->k.channels, to.stride);
  ts_steps_fill(&u->x, to.arg, own.dtype, numel, 0);
  ts_steps_copy(&u->x, m->ndim, m->dim, &to, &own);
  return to.arg;
}
