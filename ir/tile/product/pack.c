/* Operands of a product packed for a step of k: columns as panels of the register tile's width,
 * rows one behind the other or as panels. Why and when: ir/tile/product/product.c. */
#include "ir/tile/product/state.h"

/* Columns of B as panels [panel][k][nr]; `full` of them, then a part of one. */
static void copy_columns(TsProduct *p, TsTileVal k, TsTileVal j, int vectors, bool edge) {
  TsTileVal panel = panel_of_columns(p, j);
  for (int u = 0; u < vectors; u++) {
    TsTileVal col = plus_int(p, plus(p, p->n0, j), u * p->lanes);
    TsTileVal x = ts_tile_product_columns(p, k, col, p->lanes, edge && u == vectors - 1);
    ts_tile_store(p->b, p->pb, (TsTileVal[]){panel, k, at(p, u * p->lanes)}, x, NULL);
  }
}

static void pack_columns(TsProduct *p) {
  if (p->on_the_way && p->x.n % p->nr == 0) return;
  TsTileVal full = down_to(p, p->cols, p->nr);
  TsTileLoop k = loop(p, at(p, 0), p->nk, 1);
  if (p->x.n >= p->nr && !p->on_the_way) {
    TsTileLoop j = loop(p, at(p, 0), full, p->nr);
    unroll(j.stmt, 2);
    copy_columns(p, k.i, j.i, p->nv, false);
    end(p, &j);
  }
  if (p->x.n % p->nr) {
    TsTileLoop rest = loop(p, full, p->cols, p->nr);
    copy_columns(p, k.i, rest.i, edge_vectors(p), p->x.n % p->lanes);
    end(p, &rest);
  }
  end(p, &k);
}

/* Squares of lanes x lanes, transposed. */
static void transpose_square(TsProduct *p, TsTileVal k, TsTileVal j, int u, bool edge) {
  TsTileVal col = plus_int(p, plus(p, p->n0, j), u * p->lanes);
  TsTileVal x = ts_tile_product_transposed(p, ts_tile_product_square(p, k, col, edge));
  TsTileVal panel = panel_of_columns(p, j);
  ts_tile_store(p->b, p->pb, (TsTileVal[]){panel, k, at(p, u * p->lanes)}, x, NULL);
}

/* u: the vector of a panel that begins at j. */
static void transpose_steps(TsProduct *p, TsTileVal j, int u, bool edge) {
  TsTileVal whole = down_to(p, p->nk, p->lanes);
  if (p->deep >= p->lanes) {
    TsTileLoop k = loop(p, at(p, 0), whole, p->lanes);
    transpose_square(p, k.i, j, u, edge);
    end(p, &k);
  }
  if (p->deep % p->lanes) {
    TsTileLoop rest = loop(p, whole, p->nk, p->lanes);
    transpose_square(p, rest.i, j, u, true);
    end(p, &rest);
  }
}

static void transpose_columns(TsProduct *p) {
  TsTileVal full = down_to(p, p->cols, p->nr);
  if (p->x.n >= p->nr) {
    TsTileLoop j = loop(p, at(p, 0), full, p->nr);
    for (int u = 0; u < p->nv; u++) transpose_steps(p, j.i, u, false);
    end(p, &j);
  }
  if (p->x.n % p->nr) {
    int vectors = edge_vectors(p);
    TsTileLoop rest = loop(p, full, p->cols, p->nr);
    for (int u = 0; u < vectors; u++)
      transpose_steps(p, rest.i, u, u == vectors - 1 && p->x.n % p->lanes);
    end(p, &rest);
  }
}

/* Rows as they are, one behind the other. */
static void copy_row(TsProduct *p, TsTileVal r, TsTileVal k, int64_t w, bool edge) {
  TsTileVal x = ts_tile_product_row(p, row_of(p, r), k, w, edge);
  ts_tile_store(p->b, p->pa, (TsTileVal[]){r, k}, x, NULL);
}

/* From step `from` on, w at a time; the end of those, or `from`. */
static TsTileVal copy_row_by(TsProduct *p, TsTileVal r, TsTileVal from, int64_t w, int times) {
  if (p->deep < w) return from;
  TsTileVal whole = down_to(p, p->nk, w);
  TsTileLoop k = loop(p, from, whole, w);
  unroll(k.stmt, times);
  copy_row(p, r, k.i, w, false);
  end(p, &k);
  return whole;
}

static void copy_rows(TsProduct *p) {
  TsTileLoop r = loop(p, at(p, 0), p->near, 1);
  TsTileVal done = at(p, 0);
  /* The chains of what is computed interleave. */
  if (p->x.prologue[TS_PRODUCT_a])
    done = copy_row_by(p, r.i, done, TS_PRODUCT_TOGETHER * (int64_t)p->lanes, 1);
  done = copy_row_by(p, r.i, done, p->lanes, p->x.prologue[TS_PRODUCT_a] ? 1 : 4);
  if (p->deep % p->lanes) {
    TsTileLoop rest = loop(p, done, p->nk, p->lanes);
    copy_row(p, r.i, rest.i, p->lanes, true);
    end(p, &rest);
  }
  end(p, &r);
}

/* Elements that are stored for mr rows. */
static int64_t reach_of(const TsProduct *p) {
  int64_t n = 1;
  while (n < p->mr) n *= 2;
  return n;
}

TsTileVal ts_tile_product_panel_at(TsProduct *p, TsTileVal i, TsTileVal k) {
  TsTileVal panel = times(p, ts_tile_op2(p->b, TS_OP_floordiv, i, at(p, p->mr)), p->panel);
  return plus(p, panel, times(p, k, p->mr));
}

static void transpose_rows_part(TsProduct *p, TsTileVal k, TsTileVal i, bool edge) {
  TsTileVal x = ts_tile_product_rows(p, row_of(p, i), k, reach_of(p), edge);
  TsTileVal where = ts_tile_product_panel_at(p, i, k);
  ts_tile_store(p->b, p->pa, &where, x, NULL);
}

static void transpose_rows(TsProduct *p) {
  /* Vectors that begin below this lie inside, whatever the block. */
  TsTileVal most = plus_int(p, ts_tile_op2(p->b, TS_OP_sub, at(p, p->x.m), row_of(p, at(p, 0))),
                            p->mr - reach_of(p));
  TsTileVal inside = ts_tile_op2(p->b, TS_OP_minimum, p->near, most);
  inside = ts_tile_op2(p->b, TS_OP_maximum, inside, at(p, 0));
  inside = down_to(p, inside, p->mr);
  TsTileLoop k = loop(p, at(p, 0), p->nk, 1);
  if (p->x.m >= reach_of(p)) {
    TsTileLoop i = loop(p, at(p, 0), inside, p->mr);
    unroll(i.stmt, 4);
    transpose_rows_part(p, k.i, i.i, false);
    end(p, &i);
  }
  TsTileLoop rest = loop(p, inside, p->near, p->mr);
  transpose_rows_part(p, k.i, rest.i, true);
  end(p, &rest);
  end(p, &k);
}

void ts_tile_product_pack_rows(TsProduct *p) {
  if (!p->pack_a) return;
  ts_tile_mark(p->b, TS_STAGE_load, "pack rows", false);
  if (p->transposed_a)
    transpose_rows(p);
  else
    copy_rows(p);
  ts_tile_mark(p->b, TS_STAGE_load, "pack rows", true);
}

void ts_tile_product_pack_columns(TsProduct *p) {
  bool all = p->transposed_b || !p->on_the_way || p->x.n % p->nr;
  if (all) ts_tile_mark(p->b, TS_STAGE_load, "pack columns", false);
  if (p->transposed_b)
    transpose_columns(p);
  else
    pack_columns(p);
  if (all) ts_tile_mark(p->b, TS_STAGE_load, "pack columns", true);
}
