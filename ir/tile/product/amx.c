/* Products of bf16 by the matrix unit of a CPU (ir/tile/pairs.h), as loops over its registers.
 *
 * A round goes along k in parts. For each part a panel of 32 or 64 columns is packed as words,
 * and all rows of the block pass by it, 32 at a time: four registers of sums, to which each
 * operand that is loaded serves two products. The rows lie in the second cache, which they
 * reach once for a whole block. They are read where they lie, 64 bytes of each at a time, where
 * their steps are side by side and not at equal places of their pages; else they are packed for
 * each part. Sums wait between two parts in memory of the thread.
 *
 * What follows the product is done on 32 rows of a panel's sums, in the first cache, as soon
 * as they are whole. Behind the end of k both operands are zeros, as the unit's definition
 * has it; rows and columns behind the ends of the matrices are anything, and go nowhere. */
#include "ir/tile/product/state.h"

enum {
  LINE = TS_PAIRS_LINE,
  HIGH = TS_PRODUCT_AMX_HIGH,
  MOST_WIDE = TS_PRODUCT_AMX_WIDE,
  TILE = 2 * LINE, /* columns that are multiplied together */
  PREFETCH_B = 32, /* steps that columns are asked for ahead */
  PAGE = 4096
};

static void plan(TsProduct *p) {
  const TsProductMatch *x = &p->x;
  const TsTileType *a = &x->of[TS_PRODUCT_a]->in[0]->type;
  const TsTileType *b = &x->of[TS_PRODUCT_b]->in[0]->type;
  int64_t row = stride_of(a, a->rank - 2), step = stride_of(a, a->rank - 1);
  p->d = TS_DT_f32, p->factor = TS_DT_bf16, p->packed = TS_DT_i32;
  p->words = true;
  p->deep = div_up(x->k, 2);
  p->lanes = LINE, p->mr = HIGH;
  /* Functions have tables and constants, which serve more vectors of a wider panel. */
  p->nr = ts_tile_product_is_cheap(x->mma) ? TILE : MOST_WIDE;
  p->kc = div_up(ts_tile_product_amx_steps(x->k, p->from->depth), 2);
  p->blocks = p->kc < p->deep;
  p->transposed_a = !x->prologue[TS_PRODUCT_a] && row == 1 && step != 1;
  p->transposed_b = !x->prologue[TS_PRODUCT_b] && stride_of(b, b->rank - 2) == 1 &&
                    stride_of(b, b->rank - 1) != 1;
  bool must = x->prologue[TS_PRODUCT_a] || a->dtype != TS_DT_bf16 || step != 1 ||
              x->k % (2 * LINE) || x->m % LINE;
  p->pack_a = must || (x->m > HIGH && row * 2 % PAGE == 0);
  if (p->from->pack) p->pack_a = must || p->from->pack == 2;
}

/* ---- sizes */
static TsTileVal over(TsProduct *p, TsTileVal x, int64_t by) {
  int64_t n;
  if (number(x, &n)) return at(p, n / by);
  return ts_tile_op2(p->b, TS_OP_floordiv, x, at(p, by));
}

/* Words of the part of k at hand, with those that fill the last register. */
static TsTileVal whole_words(TsProduct *p) {
  return times(p, over(p, plus_int(p, p->nk, LINE - 1), LINE), LINE);
}

static int lines_of(int64_t n) { return (int)div_up(n, LINE); }

/* ---- columns: a panel as words, two by two lines [2][kc][32] */
static TsTileVal column_of(TsProduct *p, TsTileVal j, int u) {
  return plus_int(p, plus(p, p->n0, j), (int64_t)u * LINE);
}

static void put_words(TsProduct *p, TsTileVal w, int u, TsTileVal x) {
  TsTileVal where[3] = {at(p, u / 2), w, at(p, u % 2 * LINE)};
  ts_tile_store(p->b, p->pb, where, x, NULL);
}

/* The panel of columns from j on, `lines` vectors wide. */
static void copy_columns(TsProduct *p, TsTileVal j, int lines, bool edge) {
  TsTileLoop w = loop(p, at(p, 0), p->nk, 1);
  for (int u = 0; u < lines; u++)
    put_words(
        p, w.i, u,
        ts_tile_product_columns(p, w.i, column_of(p, j, u), LINE, edge && u == lines - 1));
  TsTileVal prefetch = plus_int(p, times(p, plus(p, p->pc, w.i), 2), PREFETCH_B);
  for (int odd = 0; odd < 2; odd++)
    ts_tile_product_ask(p, TS_PRODUCT_b, plus_int(p, prefetch, odd), column_of(p, j, 0), false);
  end(p, &w);
  if (!(p->deep % LINE)) return;
  TsTileType t = ts_tile_vector(TS_DT_i32, LINE);
  w = loop(p, p->nk, whole_words(p), 1);
  for (int u = 0; u < lines; u++) put_words(p, w.i, u, ts_tile_const(p->b, 0, &t));
  end(p, &w);
}

/* Words from lo to hi of a B whose words lie in memory. */
static void transpose_columns(TsProduct *p, TsTileVal lo, TsTileVal hi, TsTileVal j, int lines,
                              bool edge, bool edge_k) {
  TsTileLoop w = loop(p, lo, hi, LINE);
  for (int u = 0; u < lines; u++) {
    TsTileVal x =
        ts_tile_product_square(p, w.i, column_of(p, j, u), edge_k || (edge && u == lines - 1));
    put_words(p, w.i, u, ts_tile_product_transposed(p, x));
  }
  end(p, &w);
}

static void pack_columns(TsProduct *p, TsTileVal j, int lines, bool edge) {
  TsTileVal whole = down_to(p, p->nk, LINE);
  ts_tile_mark(p->b, TS_STAGE_load, "pack columns", false);
  if (!p->transposed_b) copy_columns(p, j, lines, edge);
  if (p->transposed_b && p->deep >= LINE)
    transpose_columns(p, at(p, 0), whole, j, lines, edge, false);
  if (p->transposed_b && p->deep % LINE)
    transpose_columns(p, whole, p->nk, j, lines, edge, true);
  ts_tile_mark(p->b, TS_STAGE_load, "pack columns", true);
}

/* ---- rows: words [rows][kc], each a line longer, so that none are a power of two apart */
static void copy_rows(TsProduct *p, TsTileVal lo, TsTileVal hi, bool edge) {
  TsTileLoop r = loop(p, at(p, 0), p->rows, 1), w = loop(p, lo, hi, LINE);
  if (!edge) unroll(w.stmt, 4);
  TsTileVal x = ts_tile_product_row(p, row_of(p, r.i), w.i, LINE, edge);
  ts_tile_store(p->b, p->pa, (TsTileVal[]){r.i, w.i}, x, NULL);
  end(p, &w);
  end(p, &r);
}

/* 16 rows by 16 words of an A whose rows lie side by side. */
static void transpose_square(TsProduct *p, TsTileVal i, TsTileVal w, bool edge) {
  TsTileType line = ts_tile_type(TS_DT_i32, 2, (int64_t[]){1, LINE});
  TsTileType square = ts_tile_type(TS_DT_i32, 2, (int64_t[]){LINE, LINE});
  TsTileVal row[LINE];
  TsAttr axis = {.type = TS_ATTR_int};
  for (int k = 0; k < LINE; k++) {
    row[k] = ts_tile_product_rows(p, row_of(p, i), plus_int(p, w, k), LINE, edge);
    row[k] = ts_tile_emit1(p->b, TS_TILE_reshape, 1, &row[k], NULL, &line);
  }
  TsTileVal x = ts_tile_emit1(p->b, TS_TILE_join, LINE, row, &axis, &square);
  ts_tile_store(p->b, p->pa, (TsTileVal[]){i, w}, ts_tile_product_transposed(p, x), NULL);
}

/* All rows; those behind the last whole line with edges. */
static void transpose_rows(TsProduct *p, TsTileVal lo, TsTileVal hi, bool edge) {
  TsTileVal whole = edge ? at(p, 0) : down_to(p, p->rows, LINE);
  TsTileLoop w = loop(p, lo, hi, LINE);
  if (!edge && p->x.m >= LINE) {
    TsTileLoop i = loop(p, at(p, 0), whole, LINE);
    transpose_square(p, i.i, w.i, false);
    end(p, &i);
  }
  if (edge || p->x.m % LINE) {
    TsTileLoop rest = loop(p, whole, p->rows, LINE);
    transpose_square(p, rest.i, w.i, true);
    end(p, &rest);
  }
  end(p, &w);
}

static void pack_rows(TsProduct *p) {
  void (*pack)(TsProduct *, TsTileVal, TsTileVal, bool) =
      p->transposed_a ? transpose_rows : copy_rows;
  TsTileVal whole = down_to(p, p->nk, LINE);
  if (!p->pack_a) return;
  ts_tile_mark(p->b, TS_STAGE_load, "pack rows", false);
  if (p->deep >= LINE) pack(p, at(p, 0), whole, false);
  if (p->deep % LINE) pack(p, whole, p->nk, true);
  ts_tile_mark(p->b, TS_STAGE_load, "pack rows", true);
}

/* ---- registers of the unit */
static TsTileType register_of(TsDtype d) {
  TsTileType t =
      ts_tile_type(d, 2, (int64_t[]){LINE, TS_PAIRS_LINE_BYTES / ts_dtypes[d].nbytes});
  t.space = TS_SPACE_fragment;
  return t;
}

/* 16 rows from row i of the block on, 16 words from w on. */
static TsTileVal rows_at(TsProduct *p, TsTileVal i, TsTileVal w) {
  TsTileVal where[TS_TILE_RANK];
  TsTileType words = register_of(TS_DT_i32), there = register_of(TS_DT_bf16);
  if (p->pack_a) return ts_tile_load(p->b, p->pa, (TsTileVal[]){i, w}, &words, NULL);
  const TsTileStmt *s = p->x.of[TS_PRODUCT_a];
  int rank = s->in[0]->type.rank;
  for (int a = 0; a + 2 < rank; a++) where[a] = ts_tile_copy_get(p->c, s->in[1 + a]);
  where[rank - 2] = row_of(p, i), where[rank - 1] = times(p, plus(p, p->pc, w), 2);
  TsTileVal x = ts_tile_load(p->b, ts_tile_copy_get(p->c, s->in[0]), where, &there, NULL);
  return ts_tile_product_bitcast(p, x, TS_DT_i32);
}

static TsTileVal columns_at(TsProduct *p, int pair, TsTileVal w, int u) {
  TsTileType t = register_of(TS_DT_i32);
  TsTileVal where[3] = {at(p, pair), w, at(p, (int64_t)u * LINE)};
  return ts_tile_load(p->b, p->pb, where, &t, NULL);
}

static TsTileVal multiply(TsProduct *p, TsTileVal a, TsTileVal b, TsTileVal sum) {
  TsAttr unit = {.type = TS_ATTR_str, .str = "amx_bf16"};
  if (!sum) return NULL;
  return ts_tile_emit1(p->b, TS_TILE_mma, 3, (TsTileVal[]){a, b, sum}, &unit, &sum->type);
}

/* Where the sums of a panel and 32 rows wait: panel, row. */
typedef struct Sums {
  TsTileVal panel, row;
} Sums;

static Sums sums_at(TsProduct *p, TsTileVal i, TsTileVal j) {
  if (!p->blocks) return (Sums){at(p, 0), at(p, 0)};
  return (Sums){over(p, j, p->nr), i};
}

/* Sums of rows i and of a pair of lines of the panel of columns j over the part of k at hand, of
 * `high` registers by `wide`. */
static void sums(TsProduct *p, TsTileVal i, TsTileVal j, int pair, int high, int wide) {
  enum { MOST = (HIGH / LINE) * (TILE / LINE) };
  TsTileType t = register_of(TS_DT_f32);
  TsTileVal sum[MOST], b[TILE / LINE], where[MOST][3];
  Sums s = sums_at(p, i, j);
  int n = high * wide;
  for (int x = 0; x < n; x++) {
    where[x][0] = s.panel, where[x][1] = plus_int(p, s.row, x / wide * LINE);
    where[x][2] = at(p, (int64_t)pair * TILE + x % wide * LINE);
    sum[x] =
        p->blocks ? ts_tile_load(p->b, p->acc, where[x], &t, NULL) : ts_tile_const(p->b, 0, &t);
  }
  TsTileLoop w = ts_tile_for(p->b, at(p, 0), whole_words(p), LINE, false, n, sum);
  for (int r = 0; r < high && w.stmt; r++) {
    TsTileVal a = rows_at(p, plus_int(p, i, (int64_t)r * LINE), w.i);
    for (int u = 0; u < wide; u++) {
      if (!r) b[u] = columns_at(p, pair, w.i, u);
      sum[r * wide + u] = multiply(p, a, b[u], w.carry[r * wide + u]);
    }
  }
  ts_tile_for_end(p->b, &w, sum, sum);
  for (int x = 0; x < n; x++) ts_tile_store(p->b, p->acc, where[x], sum[x], NULL);
}

/* ---- what follows */
static void end_piece(TsProduct *p, const Sums *s, TsTileVal r, TsTileVal m, TsTileVal j, int u,
                      int64_t w, bool edge) {
  TsTileType t = ts_tile_vector(p->d, w);
  TsTileVal row = plus(p, s->row, r), col = at(p, (int64_t)u * LINE);
  TsTileVal sum = ts_tile_load(p->b, p->acc, (TsTileVal[]){s->panel, row, col}, &t, NULL);
  TsProductPiece e = {.w = w, .m = m, .n = column_of(p, j, u), .edge = edge};
  ts_tile_product_end(p, &e, sum);
}

/* `rows` rows from i on of the panel of columns j. */
static void end_rows(TsProduct *p, TsTileVal i, TsTileVal j, TsTileVal rows, int lines,
                     bool edge) {
  Sums s = sums_at(p, i, j);
  ts_tile_mark(p->b, TS_STAGE_epilogue, "rows", false);
  TsTileLoop r = loop(p, at(p, 0), rows, 1);
  TsTileVal m = plus(p, plus(p, p->m0, i), r.i);
  for (int u = 0, n; u < lines; u += n) {
    int whole = lines - u - edge; /* lines that end inside */
    n = whole >= 4 ? 4 : whole >= 2 ? 2 : 1;
    end_piece(p, &s, r.i, m, j, u, (int64_t)n * LINE, edge && u + n == lines);
  }
  end(p, &r);
  ts_tile_mark(p->b, TS_STAGE_epilogue, "rows", true);
}

/* ---- the block */
static void tile(TsProduct *p, TsTileVal i, TsTileVal j, int high, int64_t rows, int lines,
                 bool edge) {
  ts_tile_mark(p->b, TS_STAGE_mma, NULL, false);
  for (int u = 0; u < lines; u += TILE / LINE)
    sums(p, i, j, u * LINE / TILE, high, (int)least(lines - u, TILE / LINE));
  ts_tile_mark(p->b, TS_STAGE_mma, NULL, true);
  if (!p->blocks) end_rows(p, i, j, at(p, rows), lines, edge);
}

static void panel(TsProduct *p, TsTileVal j, int lines, bool edge) {
  TsTileVal full = down_to(p, p->rows, HIGH);
  int64_t rest = p->x.m % HIGH;
  pack_columns(p, j, lines, edge);
  if (p->x.m >= HIGH) {
    TsTileLoop i = loop(p, at(p, 0), full, HIGH);
    tile(p, i.i, j, HIGH / LINE, HIGH, lines, edge);
    end(p, &i);
  }
  if (!rest) return;
  TsTileLoop i = loop(p, full, p->rows, HIGH);
  tile(p, i.i, j, lines_of(rest), rest, lines, edge);
  end(p, &i);
}

/* Panels of columns, then the part of one. */
static void panels(TsProduct *p,
                   void (*each)(TsProduct *p, TsTileVal j, int lines, bool edge)) {
  TsTileVal full = down_to(p, p->cols, p->nr);
  int64_t rest = p->x.n % p->nr;
  if (p->x.n >= p->nr) {
    TsTileLoop j = loop(p, at(p, 0), full, p->nr);
    each(p, j.i, p->nr / LINE, false);
    end(p, &j);
  }
  if (!rest) return;
  TsTileLoop j = loop(p, full, p->cols, p->nr);
  each(p, j.i, lines_of(rest), rest % LINE != 0);
  end(p, &j);
}

static void end_panel(TsProduct *p, TsTileVal j, int lines, bool edge) {
  TsTileLoop i = loop(p, at(p, 0), p->rows, HIGH);
  TsTileVal rows = ts_tile_product_left(p, p->rows, i.i, HIGH);
  end_rows(p, i.i, j, rows, lines, edge);
  end(p, &i);
}

static void clear(TsProduct *p) {
  TsTileType t = ts_tile_vector(p->d, p->nr);
  TsTileLoop j = loop(p, at(p, 0), at(p, p->acc->type.dim[0]), 1);
  TsTileVal zero = ts_tile_const(p->b, 0, &t);
  TsTileLoop r = loop(p, at(p, 0), p->rows, 1);
  ts_tile_store(p->b, p->acc, (TsTileVal[]){j.i, r.i, at(p, 0)}, zero, NULL);
  end(p, &r);
  end(p, &j);
}

static void memory(TsProduct *p) {
  int64_t high = p->blocks ? round_up(p->x.mb, HIGH) : HIGH, deep = round_up(p->kc, LINE);
  int64_t wide = p->blocks ? div_up(p->x.nb, p->nr) : 1;
  p->r0 = at(p, 0);
  p->pb = ts_tile_product_local(p, TS_DT_i32, 3, (int64_t[]){p->nr / TILE, deep, TILE});
  if (p->pack_a)
    p->pa = ts_tile_product_local(p, TS_DT_i32, 2,
                                  (int64_t[]){round_up(p->x.mb, HIGH), deep + LINE});
  p->acc = ts_tile_product_local(p, TS_DT_f32, 3, (int64_t[]){wide, high, p->nr});
}

static void step(TsProduct *p) {
  pack_rows(p);
  panels(p, panel);
}

static void end_all(TsProduct *p) { panels(p, end_panel); }

const TsProductWay ts_tile_product_amx = {plan, memory, clear, step, end_all};
