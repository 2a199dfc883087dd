/* Real transforms by complex ones of half the length: the packed spectrum out of a half
 * spectrum, and back (sections 5 and 6 of vm/kernels/fft/fft.h). See ir/lower/fft/tile.h. */
#include "ir/lower/fft/tile.h"

typedef TsTileVal V;
typedef TsFftCx Cx;
typedef TsFftMake Make;

static Cx swapped(Cx x) { return (Cx){x.im, x.re}; }
static V index_of(Make *m, int64_t i) { return ts_tile_index(&m->b, i); }
static V mul_by(Make *m, V x, int64_t by) {
  return ts_fft_op(m, TS_OP_mul, x, ts_fft_ints(m, by));
}

/* (row * n + j) * inner + column of elements j = base + step * axis. */
static V flat_place(Make *m, int64_t n, V j) {
  V row = ts_fft_op(m, TS_OP_add, ts_fft_iota(m, 0), ts_fft_splat(m, m->at_row));
  V col = ts_fft_op(m, TS_OP_add, ts_fft_iota(m, 3), ts_fft_splat(m, m->at_col));
  V at = ts_fft_op(m, TS_OP_add, mul_by(m, row, n), j);
  return ts_fft_op(m, TS_OP_add, mul_by(m, at, m->f->inner), col);
}

V ts_fft_gather_real(Make *m, V memory, V at) {
  TsAttr attr[3] = {{.type = TS_ATTR_int}, {.type = TS_ATTR_bool, .i = 1}, {.type = TS_ATTR_f}};
  TsTileType t = ts_fft_tile_type(m, m->real);
  V in[2] = {memory, at};
  return ts_tile_emit1(&m->b, TS_TILE_gather, 2, in, attr, &t);
}

void ts_fft_scatter_real(Make *m, V memory, V at, V x) {
  TsAttr edge = {.type = TS_ATTR_bool, .i = 1};
  V in[3] = {memory, at, x};
  if (memory && at && x) ts_tile_emit(&m->b, TS_TILE_scatter, 3, in, &edge, 0, NULL);
}

void ts_fft_scatter(Make *m, V memory, V at, Cx x) {
  if (!m->wide) return ts_fft_scatter_real(m, memory, at, ts_fft_pack(m, x));
  V re = mul_by(m, at, 2);
  ts_fft_scatter_real(m, memory, re, x.re);
  ts_fft_scatter_real(m, memory, ts_fft_op(m, TS_OP_add, re, ts_fft_ints(m, 1)), x.im);
}

Cx ts_fft_gather(Make *m, V memory, V at, bool edge) {
  TsAttr attr[3] = {
      {.type = TS_ATTR_int}, {.type = TS_ATTR_bool, .i = edge}, {.type = TS_ATTR_f}};
  TsTileType t = ts_fft_tile_type(m, m->wide ? TS_DT_f64 : TS_DT_i64);
  if (!m->wide) {
    V in[2] = {memory, at};
    return ts_fft_unpack(m, ts_tile_emit1(&m->b, TS_TILE_gather, 2, in, attr, &t));
  }
  at = mul_by(m, at, 2);
  V in[2] = {memory, at}, in2[2] = {memory, ts_fft_op(m, TS_OP_add, at, ts_fft_ints(m, 1))};
  return (Cx){ts_tile_emit1(&m->b, TS_TILE_gather, 2, in, attr, &t),
              ts_tile_emit1(&m->b, TS_TILE_gather, 2, in2, attr, &t)};
}

/* ---- pairs of terms */
Cx ts_fft_conj(Make *m, Cx x) { return (Cx){x.re, ts_tile_op1(&m->b, TS_OP_neg, x.im)}; }

TsFftPair ts_fft_merge_pair(Make *m, Cx a, Cx b, Cx w) {
  Cx e = {ts_fft_op(m, TS_OP_add, a.re, b.re), ts_fft_op(m, TS_OP_sub, a.im, b.im)};
  Cx g = {ts_fft_op(m, TS_OP_sub, a.re, b.re), ts_fft_op(m, TS_OP_add, a.im, b.im)};
  Cx p = ts_fft_cmul(m, g, w.re, ts_tile_op1(&m->b, TS_OP_neg, w.im));
  return (TsFftPair){
      {ts_fft_op(m, TS_OP_add, e.im, p.re), ts_fft_op(m, TS_OP_sub, e.re, p.im)},
      {ts_fft_op(m, TS_OP_sub, p.re, e.im), ts_fft_op(m, TS_OP_add, e.re, p.im)}};
}

Cx ts_fft_merge_middle(Make *m, Cx x) {
  V two = ts_fft_all(m, 2);
  return (Cx){ts_tile_op1(&m->b, TS_OP_neg, ts_fft_op(m, TS_OP_mul, x.im, two)),
              ts_fft_op(m, TS_OP_mul, x.re, two)};
}

Cx ts_fft_merge_ends(Make *m, Cx first, Cx last) {
  return (Cx){ts_fft_op(m, TS_OP_sub, first.re, last.re),
              ts_fft_op(m, TS_OP_add, first.re, last.re)};
}

TsFftPair ts_fft_split_pair(Make *m, Cx a, Cx b, Cx w) {
  V half = ts_fft_all(m, 0.5);
  Cx e = {ts_fft_op(m, TS_OP_mul, half, ts_fft_op(m, TS_OP_add, a.re, b.re)),
          ts_fft_op(m, TS_OP_mul, half, ts_fft_op(m, TS_OP_sub, a.im, b.im))};
  Cx o = {ts_fft_op(m, TS_OP_mul, half, ts_fft_op(m, TS_OP_add, a.im, b.im)),
          ts_fft_op(m, TS_OP_mul, half, ts_fft_op(m, TS_OP_sub, b.re, a.re))};
  Cx p = ts_fft_cmul(m, o, w.re, w.im);
  return (TsFftPair){
      {ts_fft_op(m, TS_OP_add, e.re, p.re), ts_fft_op(m, TS_OP_add, e.im, p.im)},
      {ts_fft_op(m, TS_OP_sub, e.re, p.re), ts_fft_op(m, TS_OP_sub, p.im, e.im)}};
}

/* The packed, or the whole, spectrum of a half spectrum; re and im exchanged, as the inverse
 * transform takes them. */
void ts_fft_load_half(Make *m, V x, const void *roots, Cx *v) {
  const TsFftForm *f = m->f;
  const TsFftStep *s = &m->step[0];
  int64_t h = f->n / 2, bins = h + 1;
  bool even = f->n % 2 == 0, edge = m->edge_row || m->edge_col;
  TsFftTable table = {.memory = NULL};
  if (even) table = ts_fft_line_table(m, roots, s->e, 1, s->m, h, h);
  for (int64_t i = 0; i < s->e; i++) {
    int64_t base = i * s->m;
    V j = ts_fft_own_index(m, 2, base), zero = ts_fft_ints(m, 0), all0 = ts_fft_all(m, 0);
    V k = ts_fft_op(m, TS_OP_maximum,
                    ts_fft_op(m, TS_OP_sub, ts_fft_ints(m, even ? h : f->n), j), zero);
    if (!even) {
      V at = ts_fft_op(m, TS_OP_minimum, j, k);
      Cx a = ts_fft_gather(m, x, flat_place(m, bins, at), edge);
      a = ts_fft_pick_below(m, 2, base, s->m, h + 1, a, ts_fft_conj(m, a));
      if (!i) a.im = ts_tile_op3(&m->b, TS_OP_where, ts_fft_below(m, j, 1), all0, a.im);
      v[i] = swapped(a);
      continue;
    }
    V jj = ts_fft_op(m, TS_OP_minimum, j, ts_fft_ints(m, h));
    Cx own = ts_fft_gather(m, x, flat_place(m, bins, jj), edge);
    Cx other = ts_fft_gather(m, x, flat_place(m, bins, k), edge);
    int64_t low = (h + 1) / 2; /* 2 j < h */
    Cx a = ts_fft_pick_below(m, 2, base, s->m, low, own, other);
    Cx b = ts_fft_pick_below(m, 2, base, s->m, low, other, own);
    TsFftPair z = ts_fft_merge_pair(m, a, b, ts_fft_table_row(m, &table, i));
    v[i] = ts_fft_pick_below(m, 2, base, s->m, low, z.lower, z.upper);
    if (h % 2 == 0 && base <= h / 2 && h / 2 < base + s->m) {
      Cx mid = ts_fft_merge_middle(m, own);
      v[i] = ts_fft_where(m, ts_fft_op(m, TS_OP_eq, j, ts_fft_ints(m, h / 2)), mid, v[i]);
    }
    if (!i) {
      Cx ends = ts_fft_merge_ends(m, own, other);
      v[i] = ts_fft_where(m, ts_fft_below(m, j, 1), ends, v[i]);
    }
  }
}

/* Half spectrum out of the packed transform, which lies in shared memory meanwhile. */
void ts_fft_store_split(Make *m, V y, const TsFftTable *table, Cx *v) {
  const TsFftForm *f = m->f;
  const TsFftStep *s = &m->step[m->nstep - 1];
  int64_t h = f->n / 2, dim[4] = {m->rows, h, 1, m->cols}, flat = m->rows * h * m->cols;
  V view[2], line[2], zero = index_of(m, 0);
  ts_fft_views(m, 4, dim, view);
  TsTileType one = ts_fft_tile_type(m, m->real);
  one.dim[1] = one.dim[2] = 1;
  for (int64_t i = 0; i < s->e && i * s->d < h; i++) {
    V at[4] = {zero, index_of(m, i * s->d), zero, zero};
    ts_fft_put(m, view, at, v[i], (i + 1) * s->d > h);
  }
  ts_fft_views(m, 1, &flat, line);
  TsAttr attr[3] = {{.type = TS_ATTR_int}, {.type = TS_ATTR_bool}, {.type = TS_ATTR_f}};
  for (int64_t i = 0; i < s->e && i * s->d < h; i++) {
    int64_t base = i * s->d;
    V j = ts_fft_own_index(m, 1, base);
    V k = ts_fft_op(m, TS_OP_maximum, ts_fft_op(m, TS_OP_sub, ts_fft_ints(m, h), j),
                    ts_fft_ints(m, 0));
    if (!i) k = ts_tile_op3(&m->b, TS_OP_where, ts_fft_below(m, j, 1), ts_fft_ints(m, 0), k);
    V at = ts_fft_op(m, TS_OP_add, mul_by(m, ts_fft_iota(m, 0), h), k);
    at = ts_fft_op(m, TS_OP_add, mul_by(m, at, m->cols), ts_fft_iota(m, 3));
    TsTileType t = ts_fft_tile_type(m, m->wide ? TS_DT_f64 : TS_DT_i64);
    V in[2] = {line[0], at}, in2[2] = {line[1], at};
    V x = ts_tile_emit1(&m->b, TS_TILE_gather, 2, in, attr, &t);
    Cx own = v[i], other;
    other = m->wide ? (Cx){x, ts_tile_emit1(&m->b, TS_TILE_gather, 2, in2, attr, &t)}
                    : ts_fft_unpack(m, x);
    int64_t low = (h + 1) / 2;
    Cx a = ts_fft_pick_below(m, 1, base, s->d, low, own, other);
    Cx b = ts_fft_pick_below(m, 1, base, s->d, low, other, own);
    TsFftPair pair = ts_fft_split_pair(m, a, b, ts_fft_table_row(m, table, i));
    Cx z = ts_fft_pick_below(m, 1, base, s->d, low, pair.lower, pair.upper);
    if (h % 2 == 0 && base <= h / 2 && h / 2 < base + s->d) {
      Cx mid = ts_fft_conj(m, own);
      z = ts_fft_where(m, ts_fft_op(m, TS_OP_eq, j, ts_fft_ints(m, h / 2)), mid, z);
    }
    if (!i) {
      Cx begin = {ts_fft_op(m, TS_OP_add, own.re, own.im), ts_fft_all(m, 0)};
      z = ts_fft_where(m, ts_fft_below(m, j, 1), begin, z);
    }
    if (base < h &&
        h < base + s->d) { /* the last term, of the first one, which `other` is there */
      Cx last = {ts_fft_op(m, TS_OP_sub, other.re, other.im), ts_fft_all(m, 0)};
      z = ts_fft_where(m, ts_fft_op(m, TS_OP_eq, j, ts_fft_ints(m, h)), last, z);
    }
    V to[4] = {m->at_row, index_of(m, base), zero, m->at_col};
    ts_fft_store(m, y, to, ts_fft_scaled(m, z), NULL, ts_fft_edge(m, base + s->d, h));
  }
  if (h % s->d) return; /* nobody else writes it */
  ts_fft_set_dim(m, m->rows, 1, 1, m->cols);
  V at[4] = {zero, zero, zero, zero}, to[4] = {m->at_row, index_of(m, h), zero, m->at_col};
  Cx z = ts_fft_get(m, view, at, &one, NULL);
  z = (Cx){ts_fft_op(m, TS_OP_sub, z.re, z.im), ts_fft_all(m, 0)};
  ts_fft_store(m, y, to, ts_fft_scaled(m, z), NULL, m->edge_row || m->edge_col);
}
