/* Sums down columns that come from memory. Included by reduce_tree.h, whose names it uses.
 *
 * A lane has every LANES-th row, so that the rows of its chain lie far apart, and one read after
 * the other, with sums in registers, leaves the memory idle: 19 GB/s on one thread of a Zen 4
 * that reads 28. Here eight rows of a chain are read side by side in long pieces, which the
 * processor's prefetcher follows, and the sums stand in the first cache, from which they are
 * taken once for eight rows. The order of every sum is the same. */

enum {
  BESIDE = 8,                /* rows */
  PIECE = 4096 / sizeof(T),  /* columns */
  BEYOND = 1024 / sizeof(T), /* prefetch along the rows, elements */
};

/* Sums of pieces, one for each height of the tree, and of the lane. */
typedef struct Sums {
  T level[9][PIECE], lane[PIECE];
} Sums;

/* Whole vectors of a piece of `rows` rows of a lane; ahead: what is asked for, seen from element
 * j. */
INLINE void beside_part(int op, int map, T *acc, const T *x, int64_t step, const T *c,
                        int64_t j, int64_t to, int rows, bool first, const T *prefetch) {
  V e = vset(identity(op));
  for (; j < to; j += W) {
    V s = first ? e : vload(acc + j), d = map == TS_MAP_sqdev ? vload(c + j) : e;
    UNROLL for (int u = 0; u < rows; u++) s =
        op_v(op, s, map_v(map, vload(x + u * step + j), d));
    if (REG == 64 || j % (64 / (int64_t)sizeof(T)) == 0)
      UNROLL for (int u = 0; u < rows; u++) __builtin_prefetch(prefetch + u * step + j, 0, 2);
    vstore(acc + j, s);
  }
}

/* A piece of `rows` rows of a lane; `next` are those that come behind it, whose beginning is asked
 * for at its end: what lies beside the piece is not read before it is forgotten again (35
 * instead of 44 GB/s). */
INLINE void beside_rows(int op, int map, const TsReduceCols *a, T *acc, const T *x,
                        const T *next, const T *c, int64_t n, int rows, bool first) {
  int64_t step = a->ld * LANES, whole = n / W * W, most = n < BEYOND ? 0 : n - BEYOND;
  most = most / W * W;
  beside_part(op, map, acc, x, step, c, 0, most, rows, first, x + BEYOND);
  beside_part(op, map, acc, x, step, c, most, whole, rows, first, next - most);
  for (int64_t j = whole; j < n; j++) {
    T s = first ? identity(op) : acc[j];
    for (int u = 0; u < rows; u++)
      s = op_s(op, s, map_s(map, x[u * step + j], map == TS_MAP_sqdev ? c[j] : 0));
    acc[j] = s;
  }
}

INLINE void beside_lane(int op, int map, const TsReduceCols *a, T *acc, int64_t lane,
                        int64_t after, int64_t col, int64_t n) {
  const T *c = map == TS_MAP_sqdev ? (const T *)a->c + col : NULL, *x = a->x;
  int64_t i = lane;
  for (int64_t k; i < a->m; i += k * LANES) {
    k = i + (BESIDE - 1) * LANES < a->m ? BESIDE : 1;
    int64_t next = i + k * LANES < a->m ? i + k * LANES : after;
    if (k > 1)
      beside_rows(op, map, a, acc, x + i * a->ld + col, x + next * a->ld + col, c, n, BESIDE,
                  i == lane);
    else
      beside_rows(op, map, a, acc, x + i * a->ld + col, x + next * a->ld + col, c, n, 1,
                  i == lane);
  }
}

INLINE void beside_merge(int op, T *x, const T *other, int64_t n) {
  for (int64_t j = 0; j < n; j++) x[j] = op_s(op, other[j], x[j]);
}

/* Columns [col, col + n), n <= PIECE; every lane has rows. */
INLINE void beside_of(int op, int map, const TsReduceCols *a, int64_t col, int64_t n) {
  Sums s;
  for (int64_t q = 0; q < LANES; q++) {
    int l = 0;
    int64_t next = q + 1 < LANES ? q + 1 : q;
    beside_lane(op, map, a, s.lane, bit_reverse(q, LANES), bit_reverse(next, LANES), col, n);
    for (; q >> l & 1; l++) beside_merge(op, s.lane, s.level[l], n);
    memcpy(s.level[l], s.lane, (size_t)n * sizeof(T));
  }
  memcpy((T *)a->out + col, s.level[__builtin_ctzll(LANES)], (size_t)n * sizeof(T));
}
