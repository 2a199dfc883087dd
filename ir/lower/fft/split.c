/* The half spectrum out of the packed one, where that lies in memory: section 5 of
 * vm/kernels/fft/fft.h, a pair of terms at a time, so that each is read once. */
#include "ir/lower/fft/tile.h"
#include "ir/lower/short.h"

typedef TsTileVal V;
typedef TsFftCx Cx;
typedef TsFftMake Make;

enum { PIECE = 512, THREADS = 128, WIDE = 256 }; /* elements of a tile, side by side at most */

typedef struct Split {
  Make *m;
  int64_t h, wide; /* columns of a tile */
  V b, k0, c0;     /* where the tile begins */
  V down, col;     /* within it: terms times inner, columns */
} Split;

static V op2(Split *s, int op, V x, V y) { return ts_fft_op(s->m, op, x, y); }
static V scalar(Split *s, int64_t i) { return ts_tile_index(&s->m->b, i); }
static V where(Split *s, V c, V x, V y) { return ts_tile_op3(&s->m->b, TS_OP_where, c, x, y); }

/* Of terms k0 + i, or h - k0 - i, of rows of n. */
static V place(Split *s, int64_t n, bool mirrored) {
  V k = mirrored ? op2(s, TS_OP_sub, scalar(s, s->h), s->k0) : s->k0;
  V at = op2(s, TS_OP_add, op2(s, TS_OP_mul, s->b, scalar(s, n)), k);
  at = op2(s, TS_OP_mul, at, scalar(s, s->m->f->inner));
  at = ts_fft_splat(s->m, op2(s, TS_OP_add, at, s->c0));
  return op2(s, TS_OP_add, op2(s, mirrored ? TS_OP_sub : TS_OP_add, at, s->down), s->col);
}

static Cx roots(Split *s, const TsFftTable *table) {
  static const int64_t axis[1] = {1};
  Make *m = s->m;
  TsTileType part = ts_tile_vector(m->real, m->dim[1]), all = ts_fft_tile_type(m, m->real);
  V at[3] = {scalar(s, 0), scalar(s, 0), s->k0};
  Cx w = ts_fft_load(m, table->memory, at, &part, NULL, false);
  return (Cx){ts_tile_broadcast(&m->b, w.re, &all, axis),
              ts_tile_broadcast(&m->b, w.im, &all, axis)};
}

static void terms(Split *s, V x, V y, const TsFftTable *table) {
  Make *m = s->m;
  int64_t h = s->h, I = m->f->inner;
  s->col = ts_fft_iota(m, 3);
  s->down = ts_fft_iota(m, 1);
  V k = op2(s, TS_OP_add, ts_fft_splat(s->m, s->k0), s->down), none = ts_fft_ints(m, -1);
  if (I > 1) s->down = op2(s, TS_OP_mul, s->down, ts_fft_ints(m, I));
  V in = ts_fft_below(m, k, h / 2 + 1), first = ts_fft_below(m, k, 1);
  if (I % s->wide)
    in = op2(s, TS_OP_logical_and, in,
             ts_fft_below(m, op2(s, TS_OP_add, s->col, ts_fft_splat(s->m, s->c0)), I));
  V from = place(s, h, false), mirror = place(s, h, true);
  Cx own = ts_fft_gather(m, x, where(s, in, from, none), true);
  Cx other = ts_fft_gather(m, x, where(s, in, where(s, first, from, mirror), none), true);
  TsFftPair z = ts_fft_split_pair(m, own, other, roots(s, table));
  V zero = ts_fft_all(m, 0);
  Cx begin = {op2(s, TS_OP_add, own.re, own.im), zero};
  Cx end = {op2(s, TS_OP_sub, own.re, own.im), zero};
  Cx low = ts_fft_where(m, first, begin, z.lower), high = ts_fft_where(m, first, end, z.upper);
  V below = in;
  if (h % 2 == 0) {
    V middle = op2(s, TS_OP_eq, k, ts_fft_ints(m, h / 2));
    low = ts_fft_where(m, middle, ts_fft_conj(m, own), low);
    below = op2(s, TS_OP_logical_and, in, ts_fft_below(m, k, h / 2));
  }
  ts_fft_scatter(m, y, where(s, in, place(s, h + 1, false), none), ts_fft_scaled(m, low));
  ts_fft_scatter(m, y, where(s, below, place(s, h + 1, true), none), ts_fft_scaled(m, high));
}

static V flat(Make *m, const char *name, bool written) {
  int64_t n = ts_tile_size(m->k, name);
  TsTileType t = ts_tile_vector(m->wide ? TS_DT_f64 : TS_DT_i64, n);
  return ts_tile_param(m->k, written ? "y" : "x", &t, written);
}

void ts_fft_split_kernel(Make *m, const void *line) {
  const TsFftForm *f = m->f;
  int64_t h = f->n / 2, I = f->inner, own = h / 2 + 1, parts = m->wide ? 2 : 1;
  Split s = {.m = m, .h = h, .wide = 1};
  while (s.wide < WIDE && s.wide < I) s.wide *= 2;
  int64_t deep = PIECE / s.wide;
  m->k->threads = THREADS;
  m->k->vector = 8;
  m->out->in = h * parts, m->out->to = (h + 1) * parts;
  ts_tile_size(m->k, "B");
  V x = flat(m, "N", false);
  V count = ts_short_dim(&m->b, 0);
  int64_t rounded = (own + deep - 1) / deep * deep;
  TsFftTable table = ts_fft_line_table(m, line, 1, 1, rounded, own, 0);
  V y = flat(m, "Y", true);
  TsTileLoop b = ts_tile_for(&m->b, scalar(&s, 0), count, 1, true, 0, NULL);
  TsTileLoop k = ts_tile_for(&m->b, scalar(&s, 0), scalar(&s, own), deep, true, 0, NULL);
  TsTileLoop c = ts_tile_for(&m->b, scalar(&s, 0), scalar(&s, I), s.wide, true, 0, NULL);
  s.b = b.i, s.k0 = k.i, s.c0 = c.i;
  ts_fft_set_dim(m, 1, deep, 1, s.wide);
  terms(&s, x, y, &table);
  ts_tile_for_end(&m->b, &c, NULL, NULL);
  ts_tile_for_end(&m->b, &k, NULL, NULL);
  ts_tile_for_end(&m->b, &b, NULL, NULL);
}
