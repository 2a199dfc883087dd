/* The interpreter of Tile IR: grids, control, moves and edges against loops in C; what is refused; statements
 * that are removed. */
#include "tests/ir/tile_run.h"

/* ---- grids, control, moves */
static void grid(void) {
  int64_t y[3][2];
  TsTile *k = ts_tile_new("grid");
  k->target = "sm_90a";
  TsTileType t = type2(TS_DT_i64, 3, 2), one = ts_tile_scalar(TS_DT_i64);
  TsTileVal py = ts_tile_param(k, "y", &t, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileLoop i = ts_tile_for(&b, index_of(&b, 4), index_of(&b, 22), 8, true, 0, NULL);
  TsTileLoop j = ts_tile_for(&b, index_of(&b, 0), index_of(&b, 2), 1, true, 0, NULL);
  TsTileVal p = ts_tile_emit1(&b, TS_TILE_program, 0, NULL, NULL, &one);
  TsTileVal q = make(&b, TS_TILE_program, 0, NULL, "axis", ts_attr_int(1), one);
  TsTileVal v =
      ts_tile_op2(&b, TS_OP_add, i.i, ts_tile_op2(&b, TS_OP_mul, q, index_of(&b, 100)));
  ts_tile_store(&b, py, (TsTileVal[]){p, q}, v, NULL);
  ts_tile_for_end(&b, &j, NULL, NULL);
  ts_tile_for_end(&b, &i, NULL, NULL);
  int failed = run(k, (void *[]){y}, NULL), bad = 0;
  for (int r = 0; r < 3; r++)
    for (int c = 0; c < 2; c++) bad += y[r][c] != 4 + 8 * r + 100 * c;
  check(!failed && !bad, "grid", bad, y[2][1]);
}

/* Fibonacci by a yield that exchanges its carried values; an if that picks one. */
static void control(void) {
  int64_t y[2];
  TsTile *k = ts_tile_new("control");
  TsTileType t = ts_tile_vector(TS_DT_i64, 2), one = ts_tile_scalar(TS_DT_i64);
  TsTileVal py = ts_tile_param(k, "y", &t, true);
  TsTileBuild b = phase(k);
  TsTileVal zero = index_of(&b, 0), first = index_of(&b, 1), out[2];
  TsTileLoop l =
      ts_tile_for(&b, zero, index_of(&b, 10), 1, false, 2, (TsTileVal[]){zero, first});
  TsTileVal sum = ts_tile_op2(&b, TS_OP_add, l.carry[0], l.carry[1]);
  ts_tile_for_end(&b, &l, (TsTileVal[]){l.carry[1], sum}, out);
  TsTileVal c = ts_tile_op2(&b, TS_OP_lt, out[0], out[1]);
  TsTileStmt *s = ts_tile_emit(&b, TS_TILE_if, 1, &c, NULL, 1, &one);
  for (int i = 0; i < 2; i++) {
    TsTileBuild r = {k, s->region[i], 0};
    ts_tile_emit(&r, TS_TILE_yield, 1, &out[i], NULL, 0, NULL);
  }
  ts_tile_store(&b, py, &zero, out[1], NULL);
  ts_tile_store(&b, py, &first, s->out[0], NULL);
  check(!run(k, (void *[]){y}, NULL) && y[0] == 89 && y[1] == 55, "control", y[0], y[1]);
}

/* y[j, i] = x[3 - i, j] through iota, gather, transpose, join, scatter. */
static void moves(void) {
  static const int64_t order[4] = {3, 2, 1, 0};
  int32_t x[12], y[12], bad = 0;
  for (int i = 0; i < 12; i++) x[i] = i * i - 7, y[i] = -1;
  TsTile *k = ts_tile_new("moves");
  TsTileType flat = ts_tile_vector(TS_DT_i32, 12), t = type2(TS_DT_i32, 4, 3),
             u = type2(TS_DT_i32, 3, 4), line = type2(TS_DT_i32, 1, 3),
             at = ts_tile_vector(TS_DT_i64, 12);
  TsTileVal px = ts_tile_param(k, "x", &flat, false), py = ts_tile_param(k, "y", &flat, true);
  TsTileBuild b = phase(k);
  TsTileVal i = ts_tile_emit1(&b, TS_TILE_iota, 0, NULL, NULL, &at), row[4];
  TsTileVal v = ts_tile_emit1(&b, TS_TILE_gather, 2, (TsTileVal[]){px, i}, NULL, &flat);
  v = ts_tile_emit1(&b, TS_TILE_reshape, 1, &v, NULL, &t);
  for (int r = 0; r < 4; r++)
    row[r] =
        make(&b, TS_TILE_part, 1, &v, "start", ts_attr_ints((int64_t[]){order[r], 0}, 2), line);
  v = ts_tile_emit1(&b, TS_TILE_join, 4, row, NULL, &t);
  v = make(&b, TS_TILE_transpose, 1, &v, "perm", ts_attr_ints((int64_t[]){1, 0}, 2), u);
  v = ts_tile_emit1(&b, TS_TILE_reshape, 1, &v, NULL, &flat);
  ts_tile_emit(&b, TS_TILE_scatter, 3, (TsTileVal[]){py, i, v}, NULL, 0, NULL);
  int failed = run(k, (void *[]){x, y}, NULL);
  for (int r = 0; r < 4; r++)
    for (int c = 0; c < 3; c++) bad += y[c * 4 + r] != x[(3 - r) * 3 + c];
  check(!failed && !bad, "moves", bad, 0);
}

/* A tile of rank 1 along axis 0 of strided memory, with an edge on each side. */
static void edges(void) {
  float x[5][8], y[9];
  for (int i = 0; i < 40; i++) x[i / 8][i % 8] = (float)i;
  TsTile *k = ts_tile_new("edges");
  TsTileType mem = type2(TS_DT_f32, 5, 3), t = ts_tile_vector(TS_DT_f32, 9);
  mem.strided = true, mem.stride[0] = 8, mem.stride[1] = 2;
  TsTileVal px = ts_tile_param(k, "x", &mem, false), py = ts_tile_param(k, "y", &t, true);
  TsTileBuild b = phase(k);
  int64_t axis = 0;
  TsTileAccess edge = {.edge = true, .fill = -2, .naxis = 1, .axes = &axis};
  TsTileVal at[2] = {index_of(&b, -2), index_of(&b, 2)}, zero = index_of(&b, 0);
  ts_tile_store(&b, py, &zero, ts_tile_load(&b, px, at, &t, &edge), NULL);
  int failed = run(k, (void *[]){x, y}, NULL), bad = 0;
  for (int i = 0; i < 9; i++) bad += y[i] != (i < 2 || i > 6 ? -2 : x[i - 2][4]);
  check(!failed && !bad, "edges", bad, 0);
}

/* A tile of four rows from row 2 on that ends before row 5; lines of a row that is before its
 * end, and of one that is not. */
static void below(void) {
  float x[4][2], y[6][2] = {{0}};
  for (int i = 0; i < 8; i++) x[i / 2][i % 2] = (float)(i + 1);
  TsTile *k = ts_tile_new("below");
  TsTileType t = type2(TS_DT_f32, 4, 2), mem = type2(TS_DT_f32, 6, 2);
  TsTileVal px = ts_tile_param(k, "x", &t, false), py = ts_tile_param(k, "y", &mem, true);
  TsTileBuild b = phase(k);
  TsTileVal zero = index_of(&b, 0), two = index_of(&b, 2), five = index_of(&b, 5);
  TsTileVal v = ts_tile_load(&b, px, (TsTileVal[]){zero, zero}, &t, NULL);
  TsTileType line = ts_tile_vector(TS_DT_f32, 2);
  TsTileVal first = ts_tile_load(&b, px, (TsTileVal[]){zero, zero}, &line, NULL);
  TsTileVal in[3][5] = {{py, two, zero, five, v},
                        {py, five, zero, five, first},
                        {py, zero, zero, index_of(&b, 1), first}};
  for (int i = 0; i < 3; i++) ts_tile_emit(&b, TS_TILE_store_below, 5, in[i], NULL, 0, NULL);
  int failed = run(k, (void *[]){x, y}, NULL), bad = 0;
  for (int i = 0; i < 12; i++) {
    float want = i < 2 ? (float)(i + 1) : i >= 4 && i < 10 ? (float)(i - 3) : 0;
    bad += y[i / 2][i % 2] != want;
  }
  check(!failed && !bad, "below", bad, 0);
}

/* ---- refusals */
static void outside(void) {
  float x[8];
  TsTile *k = ts_tile_new("outside");
  TsTileType t = ts_tile_vector(TS_DT_f32, 8), half = ts_tile_vector(TS_DT_f32, 4);
  TsTileVal px = ts_tile_param(k, "x", &t, true);
  TsTileBuild b = phase(k);
  TsTileVal at = index_of(&b, 5);
  b.line = ts_tile_place(k, "model.lua:3");
  ts_tile_store(&b, px, &at, ts_tile_const(&b, 1, &half), NULL);
  int failed = run(k, (void *[]){x}, NULL);
  check(failed && err.code == TS_ERR_index && strstr(err.message, "position 8") &&
            strstr(err.message, "model.lua:3"),
        "outside", failed, 0);

  k = ts_tile_new("shift");
  b = phase(k);
  TsTileType i32 = ts_tile_scalar(TS_DT_i32);
  ts_tile_op2(&b, TS_TILE_shl, ts_tile_bits(&b, 1, &i32), ts_tile_bits(&b, 32, &i32));
  check(run(k, NULL, NULL) && strstr(err.message, "outside of [0, 32)"), "shift", 0, 0);
}

/* Memory of a round's own is NaN at first, whatever the round before wrote. */
static void fresh(void) {
  float y[2] = {0};
  TsTile *k = ts_tile_new("fresh");
  TsTileType t = ts_tile_vector(TS_DT_f32, 2), one = ts_tile_vector(TS_DT_f32, 1);
  TsTileVal py = ts_tile_param(k, "y", &t, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileVal zero = index_of(&b, 0);
  TsTileLoop l = ts_tile_for(&b, zero, index_of(&b, 2), 1, true, 0, NULL);
  TsTileVal m = ts_tile_alloc(&b, TS_SPACE_local, &one);
  ts_tile_store(&b, py, &l.i, ts_tile_load(&b, m, &zero, &one, NULL), NULL);
  ts_tile_store(&b, m, &zero, ts_tile_const(&b, 1, &one), NULL);
  ts_tile_for_end(&b, &l, NULL, NULL);
  check(!run(k, (void *[]){y}, NULL) && isnan(y[0]) && isnan(y[1]), "fresh memory", 0, 0);
}

/* Writing one position twice has no order, so it is refused. */
static void twice(void) {
  static int64_t y[4];
  TsTile *k = ts_tile_new("twice");
  TsTileType t = ts_tile_vector(TS_DT_i64, 4);
  TsTileVal py = ts_tile_param(k, "y", &t, true);
  TsTileBuild b = phase(k);
  TsTileVal one = ts_tile_const(&b, 1, &t);
  ts_tile_emit(&b, TS_TILE_scatter, 3, (TsTileVal[]){py, one, one}, NULL, 0, NULL);
  check(run(k, (void *[]){y}, NULL) && strstr(err.message, "position 1 comes twice"), "twice",
        0, 0);
}

/* Removing what is unused: a loop without effects goes, one with a store stays. */
static void dead(void) {
  float x[8] = {1}, y[8];
  TsTile *k = ts_tile_new("dead");
  TsTileType t = ts_tile_vector(TS_DT_f32, 8);
  TsTileVal px = ts_tile_param(k, "x", &t, false), py = ts_tile_param(k, "y", &t, true);
  TsTileBuild b = phase(k);
  TsTileVal zero = index_of(&b, 0), v = ts_tile_load(&b, px, &zero, &t, NULL), sum;
  TsTileLoop l = ts_tile_for(&b, zero, index_of(&b, 3), 1, false, 1, &v);
  sum = ts_tile_op2(&b, TS_OP_add, l.carry[0], v);
  ts_tile_for_end(&b, &l, &sum, NULL);
  ts_tile_op1(&b, TS_OP_neg, v);
  l = ts_tile_for(&b, zero, index_of(&b, 1), 1, false, 0, NULL);
  ts_tile_op1(&b, TS_OP_abs, v);
  ts_tile_store(&b, py, &l.i, v, NULL);
  ts_tile_for_end(&b, &l, NULL, NULL);
  int gone = ts_tile_dce(k, &err), left = 0;
  for (TsTileStmt *s = k->body->last->region[0]->first; s; s = s->next) left++;
  check(gone == 4 && left == 4 && ts_tile_dce(k, &err) == 0, "dead statements", gone, left);
  check(!run(k, (void *[]){x, y}, NULL) && !memcmp(x, y, sizeof x), "dead runs", 0, 0);
}

/* Equal statements: one of two sums goes, and what asks for it asks for the other; not what a
 * region beside this one made, nor loads. */
static void equal(void) {
  float x[8] = {1, 2}, y[8];
  TsTile *k = ts_tile_new("equal");
  TsTileType t = ts_tile_vector(TS_DT_f32, 8);
  TsTileVal px = ts_tile_param(k, "x", &t, false), py = ts_tile_param(k, "y", &t, true);
  TsTileBuild b = phase(k);
  TsTileVal zero = index_of(&b, 0), v = ts_tile_load(&b, px, &zero, &t, NULL), s[2];
  TsTileVal again = ts_tile_load(&b, px, &zero, &t, NULL);
  for (int i = 0; i < 2; i++) s[i] = ts_tile_op2(&b, TS_OP_add, v, again);
  TsTileVal twice = ts_tile_op2(&b, TS_OP_mul, s[0], s[1]);
  TsTileLoop l = ts_tile_for(&b, zero, index_of(&b, 1), 1, false, 0, NULL);
  ts_tile_store(&b, py, &zero, ts_tile_op2(&b, TS_OP_mul, s[1], s[0]), NULL);
  ts_tile_for_end(&b, &l, NULL, NULL);
  ts_tile_store(&b, py, &zero, ts_tile_op2(&b, TS_OP_mul, s[0], s[0]), NULL);
  int gone = ts_tile_cse(k, &err), left = ts_tile_cse(k, &err);
  check(gone >= 3 && left == 0, "equal statements", gone, left);
  check(twice->stmt->in[0] == twice->stmt->in[1] && v != again, "one sum", 0, 0);
  check(!run(k, (void *[]){x, y}, NULL) && y[0] == 4 && y[1] == 16, "equal runs", 0, 0);
}

int main(void) {
  grid();
  control();
  moves();
  edges();
  below();
  outside();
  twice();
  fresh();
  dead();
  equal();
  return told();
}
