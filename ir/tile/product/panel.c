/* The register tile of a product, and panels of rows that meet panel after panel of columns with
 * it. See ir/tile/product/product.c. */
#include "ir/tile/product/state.h"

enum {
  PREFETCH_A = 16, /* steps that transposed rows are asked for ahead */
  PREFETCH_B = 8,  /* and columns */
  MOST_ROWS = 12,
  MOST_VECTORS = 4,
};

/* The element of A in row i + r of the block and step k, in every lane. */
static TsTileVal row_at(TsProduct *p, TsTileVal i, TsTileVal k, int r) {
  TsTileType one = ts_tile_scalar(p->packed), vector = ts_tile_vector(p->packed, p->lanes);
  TsTileVal x;
  if (!p->pack_a) {
    TsTileVal row = plus_int(p, row_of(p, i), r);
    x = ts_tile_product_operand(p, TS_PRODUCT_a, row, plus(p, p->pc, k), &one, NULL, false);
  } else if (!p->transposed_a) {
    x = ts_tile_load(p->b, p->pa, (TsTileVal[]){plus_int(p, i, r), k}, &one, NULL);
  } else {
    TsTileVal where = plus_int(p, ts_tile_product_panel_at(p, i, k), r);
    x = ts_tile_load(p->b, p->pa, &where, &one, NULL);
  }
  return ts_tile_broadcast(p->b, x, &vector, NULL);
}

void ts_tile_product_ask(TsProduct *p, TsProductOf of, TsTileVal i, TsTileVal j, bool far) {
  TsTileVal in[TS_TILE_RANK + 1];
  const TsTileStmt *s = p->x.of[of];
  const TsTileType *m = &s->in[0]->type;
  TsAttr hint[3] = {
      {.type = TS_ATTR_bool}, {.type = TS_ATTR_bool, .i = far}, {.type = TS_ATTR_int}};
  in[0] = ts_tile_copy_get(p->c, s->in[0]);
  for (int x = 0; x + 2 < m->rank; x++) in[1 + x] = ts_tile_copy_get(p->c, s->in[1 + x]);
  in[m->rank - 1] = i, in[m->rank] = j;
  ts_tile_emit(p->b, TS_TILE_prefetch, m->rank + 1, in, hint, 0, NULL);
}

/* A vector of a panel: packed, or where B lies and then packed. */
static TsTileVal column_at(TsProduct *p, TsTileVal panel, TsTileVal j, TsTileVal k, int u,
                           bool first) {
  TsTileType vector = ts_tile_vector(p->packed, p->lanes);
  TsTileVal where[3] = {panel, k, at(p, u * p->lanes)};
  if (!first) return ts_tile_load(p->b, p->pb, where, &vector, NULL);
  TsTileVal row = plus_int(p, plus(p, p->pc, k), PREFETCH_B);
  TsTileVal col = plus_int(p, plus(p, p->n0, j), u * p->lanes);
  TsTileVal x = ts_tile_product_columns(p, k, col, p->lanes, false);
  for (int i = 0; i < 1 + p->words; i++)
    ts_tile_product_ask(p, TS_PRODUCT_b, p->words ? plus_int(p, times(p, row, 2), i) : row, col,
                        false);
  ts_tile_store(p->b, p->pb, where, x, NULL);
  return x;
}

static TsTileVal multiply(TsProduct *p, TsTileVal a, TsTileVal b, TsTileVal sum) {
  if (!p->words) return ts_tile_op3(p->b, TS_OP_fma, a, b, sum);
  if (!sum) return NULL;
  return ts_tile_emit1(p->b, TS_TILE_dot2, 3, (TsTileVal[]){a, b, sum}, NULL, &sum->type);
}

/* One step of k. Row by row: the vectors of B stay in registers, an element of A needs one at a
 * time. */
static void step(TsProduct *p, TsTileVal i, TsTileVal panel, TsTileVal j, TsTileVal k, int rows,
                 int vectors, bool first, TsTileVal *sum) {
  TsTileVal b[MOST_VECTORS];
  for (int u = 0; u < vectors; u++) b[u] = column_at(p, panel, j, k, u, first);
  if (!p->pack_a && p->transposed_a)
    ts_tile_product_ask(p, TS_PRODUCT_a, row_of(p, i),
                        plus_int(p, plus(p, p->pc, k), PREFETCH_A), false);
  for (int r = 0; r < rows; r++) {
    TsTileVal a = row_at(p, i, k, r), *s = sum + r * vectors;
    for (int u = 0; u < vectors; u++) s[u] = multiply(p, a, b[u], s[u]);
  }
}

/* The part of the next rows that the tile at column j asks for. */
static void ask_for_rows(TsProduct *p, TsTileVal i, TsTileVal j) {
  int64_t line = line_of(p), tiles = div_up(p->x.nb, p->nr);
  int64_t share = round_up(div_up(p->kc, tiles), line);
  TsTileVal from = plus(p, p->pc, times(p, panel_of_columns(p, j), share));
  TsTileLoop l = loop(p, at(p, 0), at(p, share), line);
  for (int r = 0; r < p->mr; r++)
    ts_tile_product_ask(p, TS_PRODUCT_a, plus_int(p, row_of(p, i), p->mr + r),
                        plus(p, from, l.i), true);
  end(p, &l);
}

/* i, j: row and column in the block; row: of the sums in memory. */
static void tile(TsProduct *p, TsTileVal i, TsTileVal row, TsTileVal j, int rows, int vectors,
                 bool edge, bool first) {
  TsTileVal sum[MOST_ROWS * MOST_VECTORS], column[MOST_VECTORS];
  TsTileType vector = ts_tile_vector(p->d, p->lanes);
  int n = rows * vectors;
  for (int u = 0; u < vectors; u++) column[u] = plus_int(p, j, u * p->lanes);
  for (int x = 0; x < n; x++) {
    TsTileVal where[2] = {plus_int(p, row, x / vectors), column[x % vectors]};
    sum[x] = p->blocks ? ts_tile_load(p->b, p->acc, where, &vector, NULL)
                       : ts_tile_const(p->b, 0, &vector);
  }
  TsTileVal panel = panel_of_columns(p, j);
  if (p->ask_rows && rows == p->mr) ask_for_rows(p, i, j);
  for (int x = 0; x < n && !p->blocks; x++)
    if (x % vectors * p->lanes % line_of(p) == 0)
      ts_tile_product_end_ask(p, plus_int(p, row_of(p, i), x / vectors),
                              plus(p, p->n0, column[x % vectors]), !p->registers);
  ts_tile_mark(p->b, TS_STAGE_mma, NULL, false);
  TsTileLoop l = ts_tile_for(p->b, at(p, 0), p->nk, 1, false, n, sum);
  if (!l.carry) return;
  unroll(l.stmt, first ? 1 : 4);
  for (int x = 0; x < n; x++) sum[x] = l.carry[x];
  step(p, i, panel, j, l.i, rows, vectors, first, sum);
  ts_tile_for_end(p->b, &l, sum, sum);
  ts_tile_mark(p->b, TS_STAGE_mma, NULL, true);
  TsTileStage after = p->registers ? TS_STAGE_epilogue : TS_STAGE_mma;
  ts_tile_mark(p->b, after, "sums", false);
  for (int x = 0; x < n; x++) {
    int r = x / vectors, u = x % vectors;
    TsTileVal where[2] = {plus_int(p, row, r), column[u]};
    if (!p->registers) {
      ts_tile_store(p->b, p->acc, where, sum[x], NULL);
      continue;
    }
    TsProductPiece e = {.w = p->lanes,
                        .m = plus_int(p, row_of(p, i), r),
                        .n = plus(p, p->n0, column[u]),
                        .edge = edge && u == vectors - 1};
    ts_tile_product_end(p, &e, sum[x]);
  }
  ts_tile_mark(p->b, after, "sums", true);
}

/* The columns of a panel of rows, tile by tile; none if it is not `wanted` (NULL: it is). */
static void columns_of(TsProduct *p, TsTileVal i, int rows, bool first, TsTileVal wanted) {
  TsTileVal row = p->blocks ? plus(p, p->r0, i) : at(p, 0), full = down_to(p, p->cols, p->nr);
  TsTileVal most = full, from = full;
  if (wanted) {
    most = ts_tile_op3(p->b, TS_OP_where, wanted, full, at(p, 0));
    from = ts_tile_op3(p->b, TS_OP_where, wanted, full, p->cols);
  }
  if (p->x.n >= p->nr) {
    TsTileLoop j = loop(p, at(p, 0), most, p->nr);
    tile(p, i, row, j.i, rows, p->nv, false, first);
    end(p, &j);
  }
  if (p->x.n % p->nr) {
    TsTileLoop rest = loop(p, from, p->cols, p->nr);
    tile(p, i, row, rest.i, rows, edge_vectors(p), p->x.n % p->lanes != 0, false);
    end(p, &rest);
  }
}

void ts_tile_product_panel(TsProduct *p, TsTileVal i, int rows, bool first) {
  columns_of(p, i, rows, first, NULL);
  if (!p->registers && !p->blocks) ts_tile_product_end_rows(p, plus(p, p->r0, i), at(p, rows));
}

bool ts_tile_product_in_one_loop(const TsProduct *p) {
  return !p->registers && !p->blocks && (p->on_the_way || p->x.m % p->mr);
}

static void all_panels(TsProduct *p) {
  TsTileLoop i = loop(p, at(p, 0), p->near, p->mr);
  TsTileVal left = ts_tile_op2(p->b, TS_OP_sub, p->near, i.i), whole = NULL;
  if (p->x.m % p->mr) whole = ts_tile_op2(p->b, TS_OP_ge, left, at(p, p->mr));
  if (p->x.m >= p->mr && p->on_the_way) {
    TsTileVal row = plus(p, p->r0, i.i);
    TsTileVal first = ts_tile_op2(p->b, TS_OP_eq, row, at(p, 0));
    TsTileVal later = ts_tile_op2(p->b, TS_OP_gt, row, at(p, 0));
    if (whole) later = ts_tile_op2(p->b, TS_OP_logical_and, later, whole);
    columns_of(p, i.i, p->mr, true, first);
    columns_of(p, i.i, p->mr, false, later);
  } else if (p->x.m >= p->mr) {
    columns_of(p, i.i, p->mr, false, whole);
  }
  if (p->x.m % p->mr) {
    TsTileVal last = ts_tile_op2(p->b, TS_OP_lt, left, at(p, p->mr));
    columns_of(p, i.i, (int)(p->x.m % p->mr), false, last);
  }
  TsTileVal rows = whole ? ts_tile_op2(p->b, TS_OP_minimum, left, at(p, p->mr)) : at(p, p->mr);
  ts_tile_product_end_rows(p, plus(p, p->r0, i.i), rows);
  end(p, &i);
}

void ts_tile_product_panels(TsProduct *p) {
  if (ts_tile_product_in_one_loop(p)) {
    all_panels(p);
    return;
  }
  TsTileVal full = down_to(p, p->near, p->mr);
  if (p->x.m >= p->mr) {
    TsTileLoop i = loop(p, at(p, 0), full, p->mr);
    ts_tile_product_panel(p, i.i, p->mr, false);
    end(p, &i);
  }
  if (p->x.m % p->mr) {
    TsTileLoop rest = loop(p, full, p->near, p->mr);
    ts_tile_product_panel(p, rest.i, (int)(p->x.m % p->mr), false);
    end(p, &rest);
  }
}
