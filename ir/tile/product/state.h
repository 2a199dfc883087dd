/* What the files of a product for the CPU share: the match, the plan and the values of the round
 * that is being made (ir/tile/product/product.c), with their short words. Not for others. */
#ifndef TS_IR_TILE_PRODUCT_STATE_H
#define TS_IR_TILE_PRODUCT_STATE_H

#include "ir/tile/copy.h"
#include "ir/tile/marks.h"
#include "ir/tile/position.h"
#include "ir/tile/product/product.h"

enum { TS_PRODUCT_TOGETHER = 4 /* vectors of what follows the product */ };

typedef enum TsProductOf { TS_PRODUCT_a, TS_PRODUCT_b } TsProductOf;

typedef struct TsProductMatch {
  const TsTileStmt *loop, *mma;
  const TsTileStmt *of[2]; /* the loads of A and B; the first of those that a prologue reads */
  bool prologue[2];        /* pointwise rows make them of what is loaded */
  const TsTileValue *m0, *n0;
  int64_t m, n, k, mb, nb;
} TsProductMatch;

typedef struct TsProduct {
  TsProductMatch x;
  const TsTarget *t;
  const TsTile *from;
  TsDtype d, factor, packed; /* of sums, of what is multiplied, of that when it is packed */
  bool words;                /* packed as words of two steps; these are units of k then */
  int64_t deep;              /* k in such units */
  int lanes, mr, nv, nr;
  int64_t sub;             /* rows that are packed at a time */
  int64_t kc, kpad, panel; /* panel: elements of a packed panel of transposed rows */
  bool blocks;             /* of k: more than one */
  bool pack_a, transposed_a, transposed_b, registers;
  bool on_the_way; /* the first rows pack the columns */
  bool ask_rows;   /* rows in place, far apart, are asked for */
  TsTileCopy *c;
  TsTileBuild *b;
  TsTileVal m0, n0, rows, cols; /* of this round */
  TsTileVal pa, pb, acc;        /* local memory */
  TsTileVal pc, nk;             /* step of k: where it begins, how many */
  TsTileVal r0, near;           /* rows that are packed now: the first in the block, how many */
} TsProduct;

/* A piece of the block: w elements of one row. */
typedef struct TsProductPiece {
  int64_t w;
  TsTileVal m, n;
  bool edge;
} TsProductPiece;

/* ---- ir/tile/product/match.c */
bool ts_tile_product_match(const TsTile *k, TsProductMatch *x);

/* ---- ir/tile/product/whole.c
 * Whether v is, in each round, a multiple of block from 0 on and below size. */
bool ts_tile_product_whole(const TsTileValue *v, int64_t size, int64_t block);

/* ---- ir/tile/product/product.c
 * Whether what follows the product s is a few instructions for each element. */
bool ts_tile_product_is_cheap(const TsTileStmt *s);
/* Memory of the thread. */
TsTileVal ts_tile_product_local(TsProduct *p, TsDtype d, int rank, const int64_t *dim);
/* Of `size` from `from` on, at most block. */
TsTileVal ts_tile_product_left(TsProduct *p, TsTileVal size, TsTileVal from, int64_t block);

/* ---- ir/tile/product/prologue.c
 * The tile of an operand at rows (or steps) i and columns j, loaded or computed: the axes before
 * are the round's. axes: of the operand that the tile moves along; NULL: the last ones. */
TsTileVal ts_tile_product_operand(TsProduct *p, TsProductOf of, TsTileVal i, TsTileVal j,
                                  const TsTileType *tile, const int64_t *axes, bool edge);

/* ---- ir/tile/product/words.c: units of what is packed, from k on in the part at hand */
TsTileVal ts_tile_product_columns(TsProduct *p, TsTileVal k, TsTileVal col, int64_t n,
                                  bool edge); /* n columns at one k */
TsTileVal ts_tile_product_rows(TsProduct *p, TsTileVal row, TsTileVal k, int64_t n,
                               bool edge); /* n rows at one k */
TsTileVal ts_tile_product_row(TsProduct *p, TsTileVal row, TsTileVal k, int64_t n,
                              bool edge); /* n units of one row */
/* Of columns whose steps lie side by side, [lanes columns, lanes units]. */
TsTileVal ts_tile_product_square(TsProduct *p, TsTileVal k, TsTileVal col, bool edge);
/* The same bits as another type: the last axis is as much longer or shorter. */
TsTileVal ts_tile_product_bitcast(TsProduct *p, TsTileVal x, TsDtype d);
TsTileVal ts_tile_product_transposed(TsProduct *p, TsTileVal square);

/* ---- how the parts of a round are made */
typedef struct TsProductWay {
  void (*plan)(TsProduct *p);
  void (*memory)(TsProduct *p);
  void (*clear)(TsProduct *p); /* sums, before the first part of k */
  void (*step)(TsProduct *p);  /* a part of k, or all of it with what follows */
  void (*end)(TsProduct *p);   /* what follows several parts */
} TsProductWay;

extern const TsProductWay ts_tile_product_amx; /* ir/tile/product/amx.c: by the matrix unit */

/* ---- ir/tile/product/pack.c: of the step of k at hand */
void ts_tile_product_pack_columns(TsProduct *p); /* all that no row packs on its way */
void ts_tile_product_pack_rows(TsProduct *p);    /* if they are packed */
/* Panels of mr rows, for each step of k one vector of which mr are the panel's: the next step
 * writes over the rest. */
TsTileVal ts_tile_product_panel_at(TsProduct *p, TsTileVal i, TsTileVal k);

/* ---- ir/tile/product/panel.c: sums */
/* Asks for the line of an operand at row (or step) i and column j. */
void ts_tile_product_ask(TsProduct *p, TsProductOf of, TsTileVal i, TsTileVal j, bool far);
/* The panel of rows from i on; first: it packs the columns. */
void ts_tile_product_panel(TsProduct *p, TsTileVal i, int rows, bool first);
void ts_tile_product_panels(TsProduct *p); /* of all rows that are near */
/* Whether panels of all kinds, the first one, whole ones and the last, stand in one loop: what
 * follows them is most of the code to compile, and then there once. */
bool ts_tile_product_in_one_loop(const TsProduct *p);

/* ---- ir/tile/product/end.c: what follows */
void ts_tile_product_end(TsProduct *p, const TsProductPiece *e, TsTileVal sum);
/* What the rows behind the product read and write of a row of the result is asked for. */
void ts_tile_product_end_ask(TsProduct *p, TsTileVal m, TsTileVal n, bool far);
/* `rows` rows of sums in memory from row `first` of the block on. */
void ts_tile_product_end_rows(TsProduct *p, TsTileVal first, TsTileVal rows);

/* ---- short names of its files */
static inline int64_t div_up(int64_t a, int64_t b) { return ts_div_up(a, b); }
static inline int64_t round_up(int64_t a, int64_t b) { return ts_round_up(a, b); }
static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int64_t stride_of(const TsTileType *t, int axis) {
  int64_t step = 1;
  if (t->strided) return t->stride[axis];
  for (int i = t->rank; --i > axis;) step *= t->dim[i];
  return step;
}

static inline int64_t line_of(const TsProduct *p) { return 64 / ts_dtypes[p->d].nbytes; }

static inline TsTileVal at(TsProduct *p, int64_t i) { return ts_tile_index(p->b, i); }
static inline bool number(const TsTileValue *x, int64_t *i) { return ts_tile_is_number(x, i); }
static inline TsTileVal plus(TsProduct *p, TsTileVal x, TsTileVal y) {
  return ts_tile_plus(p->b, x, y);
}
static inline TsTileVal plus_int(TsProduct *p, TsTileVal x, int64_t i) {
  return i ? plus(p, x, at(p, i)) : x;
}
static inline TsTileVal times(TsProduct *p, TsTileVal x, int64_t i) {
  return ts_tile_times(p->b, x, i);
}
/* A multiple of unit. */
static inline TsTileVal down_to(TsProduct *p, TsTileVal x, int64_t unit) {
  int64_t n;
  if (number(x, &n)) return at(p, n / unit * unit);
  return times(p, ts_tile_op2(p->b, TS_OP_floordiv, x, at(p, unit)), unit);
}

static inline TsTileLoop loop(TsProduct *p, TsTileVal lo, TsTileVal hi, int64_t step) {
  return ts_tile_for(p->b, lo, hi, step, false, 0, NULL);
}
static inline void end(TsProduct *p, TsTileLoop *l) { ts_tile_for_end(p->b, l, NULL, NULL); }

static inline void unroll(TsTileStmt *s, int64_t times) {
  if (s) ((TsAttr *)(uintptr_t)ts_tile_attr(s, "unroll"))->i = times;
}

static inline TsTileVal panel_of_columns(TsProduct *p, TsTileVal j) {
  return ts_tile_op2(p->b, TS_OP_floordiv, j, at(p, p->nr));
}

static inline int edge_vectors(const TsProduct *p) {
  return (int)div_up(p->x.n % p->nr, p->lanes);
}

static inline TsTileVal row_of(TsProduct *p, TsTileVal i) {
  return plus(p, plus(p, p->m0, p->r0), i);
}

#endif
