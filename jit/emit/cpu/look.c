/* A number of a table of 32: shuffles by the index where vectors have them, else a load from a
 * constant array, where a table is one line of memory for all threads of a warp. Several tables
 * by one index are rows of memory where a shuffle reaches 8 numbers only. */
#include <stdio.h>
#include <string.h>

#include "jit/emit/cpu/emit.h"

typedef LLVMValueRef V;

enum { NTABLE = 32, MOST = 64, ROW = 8, FEW = 3, NAME = 64 };

static V numbers(TsEmit *e, const double *table, int n) {
  V *list = ts_emit_take(e, sizeof *list * (size_t)n);
  for (int i = 0; i < n; i++) list[i] = ts_emit_number(e, TS_DT_f32, 0, table[i]);
  return LLVMConstVector(list, (unsigned)n);
}

/* ---- shuffles */
/* Of 64 bytes. */
static V of_two(TsEmit *e, const double *table, V index) {
  V in[3] = {numbers(e, table, 16), index, numbers(e, table + 16, 16)};
  return ts_emit_call(e, "llvm.x86.avx512.vpermi2var.ps.512", 0, NULL, 3, in);
}

/* The sign of f32 where bit b of the index is set. */
static V has_bit(TsEmit *e, V index, int b) {
  LLVMTypeRef t = LLVMTypeOf(index);
  V x = LLVMBuildShl(e->b, index, ts_emit_int(e, t, 31 - b), "");
  return LLVMBuildICmp(e->b, LLVMIntSLT, x, ts_emit_int(e, t, 0), "");
}

/* Of 32 bytes. */
static V of_four(TsEmit *e, const double *table, V index) {
  V piece[4], by_8 = has_bit(e, index, 3), by_16 = has_bit(e, index, 4);
  for (int i = 0; i < 4; i++)
    piece[i] = ts_emit_call(e, "llvm.x86.avx2.permps", 0, NULL, 2,
                            (V[]){numbers(e, table + 8 * i, 8), index});
  V low = LLVMBuildSelect(e->b, by_8, piece[1], piece[0], "");
  V high = LLVMBuildSelect(e->b, by_8, piece[3], piece[2], "");
  return LLVMBuildSelect(e->b, by_16, high, low, "");
}

static V shuffles(TsEmit *e, const double *table, int each, V index) {
  int lanes = ts_emit_lanes(index);
  V y = NULL;
  for (int at = 0; at < lanes; at += each) {
    int *which = ts_emit_take(e, sizeof *which * (size_t)each);
    for (int i = 0; i < each; i++) which[i] = at + i < lanes ? at + i : -1;
    V part = ts_emit_shuffle(e, index, NULL, each, which);
    part = each == 16 ? of_two(e, table, part) : of_four(e, table, part);
    if (lanes - at < each) part = ts_emit_span(e, part, 0, lanes - at);
    y = y ? ts_emit_join(e, y, part) : part;
  }
  return y;
}

/* ---- memory: all tables of the kernel stand in one array, so that a place in several of them is
 * one address */
typedef struct Tables {
  const double *of[MOST];
  int n;
} Tables;

static int number_of(const Tables *t, const double *table) {
  for (int i = 0; i < t->n; i++)
    if (!memcmp(t->of[i], table, NTABLE * sizeof *table)) return i;
  return t->n;
}

static void collect(TsEmit *e, Tables *t, const TsTileRegion *r) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    for (int i = 0; i < s->nregion; i++) collect(e, t, s->region[i]);
    if (s->op != TS_TILE_look) continue;
    const double *table = ts_tile_attr(s, "table")->floats;
    if (number_of(t, table) < t->n) continue;
    if (t->n == MOST) ts_emit_fail(e, "more than %d tables", MOST);
    t->of[t->n++] = table;
  }
}

static V array(TsEmit *e, const Tables *t, unsigned space) {
  V old = LLVMGetNamedGlobal(e->module, "tables");
  if (old) return old;
  LLVMTypeRef f32 = ts_emit_elem(e, TS_DT_f32);
  int n = t->n * NTABLE;
  V *list = ts_emit_take(e, sizeof *list * (size_t)n);
  for (int i = 0; i < n; i++)
    list[i] = ts_emit_number(e, TS_DT_f32, 0, t->of[i / NTABLE][i % NTABLE]);
  V g =
      LLVMAddGlobalInAddressSpace(e->module, LLVMArrayType2(f32, (uint64_t)n), "tables", space);
  LLVMSetInitializer(g, LLVMConstArray2(f32, list, (uint64_t)n));
  LLVMSetGlobalConstant(g, true);
  LLVMSetLinkage(g, LLVMInternalLinkage);
  LLVMSetAlignment(g, 4 * NTABLE);
  return g;
}

static V loaded(TsEmit *e, V tables, int number, V index) {
  LLVMTypeRef f32 = ts_emit_elem(e, TS_DT_f32), i32 = ts_emit_int_type(e, 32, 0);
  V place = LLVMBuildAnd(e->b, index, ts_emit_int(e, i32, NTABLE - 1), "");
  place = LLVMBuildZExt(e->b, place, ts_emit_int_type(e, 64, 0), "");
  V of = ts_emit_i64(e, (int64_t)number * NTABLE);
  V at = LLVMBuildInBoundsGEP2(e->b, f32, tables, &place, 1, "");
  V y = LLVMBuildLoad2(e->b, f32, LLVMBuildInBoundsGEP2(e->b, f32, at, &of, 1, ""), "");
  unsigned kind = LLVMGetMDKindIDInContext(e->ctx, "invariant.load", 14);
  V none = LLVMMetadataAsValue(e->ctx, LLVMMDNodeInContext2(e->ctx, NULL, 0));
  LLVMSetMetadata(y, kind, none);
  return y;
}

V ts_emit_look(TsEmit *e, const TsTileStmt *s, V index, int space) {
  const double *table = ts_tile_attr(s, "table")->floats;
  int among = e->target ? e->target->look : 0, lanes = ts_emit_lanes(index);
  if (among && lanes) return shuffles(e, table, among, index);
  Tables t = {.n = 0};
  collect(e, &t, e->k->body);
  V tables = array(e, &t, (unsigned)space);
  int number = number_of(&t, table);
  if (!lanes) return loaded(e, tables, number, index);
  V y = LLVMGetPoison(ts_emit_type(e, TS_DT_f32, lanes));
  for (int i = 0; i < lanes; i++)
    y = LLVMBuildInsertElement(e->b, y, loaded(e, tables, number, ts_emit_lane(e, index, i)),
                               ts_emit_i64(e, i), "");
  return y;
}

/* ---- rows of memory: eight numbers that one index says stand side by side; those of eight lanes
 * are loaded and transposed, which takes half of what eight tables of four shuffles each take */

/* The looks of a region that share an index with s, in eights: those of s's eight. */
static int group_of(const TsTileStmt *s, const TsTileStmt *of[ROW]) {
  int n = 0;
  bool found = false;
  for (const TsTileStmt *t = s->in_region->first; t; t = t->next) {
    if (t->op != TS_TILE_look || t->in[0] != s->in[0]) continue;
    if (n == ROW && found) break;
    if (n == ROW) n = 0;
    of[n++] = t;
    found |= t == s;
  }
  return n;
}

static V row_array(TsEmit *e, const TsTileStmt *const *of, int n) {
  Tables t = {.n = 0};
  char name[NAME];
  int at = snprintf(name, sizeof name, "rows");
  collect(e, &t, e->k->body);
  for (int i = 0; i < n; i++) {
    int number = number_of(&t, ts_tile_attr(of[i], "table")->floats);
    at += snprintf(name + at, sizeof name - (size_t)at, ".%d", number);
  }
  V old = LLVMGetNamedGlobal(e->module, name);
  if (old) return old;
  V *list = ts_emit_take(e, sizeof *list * NTABLE * ROW);
  for (int i = 0; i < NTABLE * ROW; i++) {
    const TsTileStmt *s = of[i % ROW < n ? i % ROW : 0];
    list[i] = ts_emit_number(e, TS_DT_f32, 0, ts_tile_attr(s, "table")->floats[i / ROW]);
  }
  LLVMTypeRef f32 = ts_emit_elem(e, TS_DT_f32);
  V g = LLVMAddGlobal(e->module, LLVMArrayType2(f32, NTABLE * ROW), name);
  LLVMSetInitializer(g, LLVMConstArray2(f32, list, NTABLE * ROW));
  LLVMSetGlobalConstant(g, true);
  LLVMSetLinkage(g, LLVMInternalLinkage);
  LLVMSetAlignment(g, 4 * ROW);
  return g;
}

/* Where the rows of eight lanes begin: the vector is taken apart by twos. */
static void row_pointers(TsEmit *e, V rows, V index, V of[ROW]) {
  LLVMTypeRef i8 = ts_emit_int_type(e, 8, 0), t = LLVMTypeOf(index);
  V place = LLVMBuildAnd(e->b, index, ts_emit_int(e, t, NTABLE - 1), "");
  place = LLVMBuildShl(e->b, place, ts_emit_int(e, t, 5), ""); /* bytes of a row */
  place = LLVMBuildBitCast(e->b, place, ts_emit_int_type(e, 64, ROW / 2), "");
  for (int k = 0; k < ROW; k += 2) {
    V two = ts_emit_lane(e, place, k / 2);
    V at[2] = {LLVMBuildAnd(e->b, two, ts_emit_i64(e, 0xffffffff), ""),
               LLVMBuildLShr(e->b, two, ts_emit_i64(e, 32), "")};
    for (int i = 0; i < 2; i++)
      of[k + i] = LLVMBuildInBoundsGEP2(e->b, i8, rows, &at[i], 1, "");
  }
}

static V four_of(TsEmit *e, V row, int side) {
  V by = ts_emit_i64(e, 16 * side);
  V at = LLVMBuildInBoundsGEP2(e->b, ts_emit_int_type(e, 8, 0), row, &by, 1, "");
  V y = LLVMBuildLoad2(e->b, ts_emit_type(e, TS_DT_f32, 4), at, "");
  LLVMSetAlignment(y, 16);
  return y;
}

/* out[i]: number i of each lane's row. */
static void transposed(TsEmit *e, V rows, V index, int n, V out[ROW]) {
  static const int low[] = {0, 8, 1, 9, 4, 12, 5, 13}, high[] = {2, 10, 3, 11, 6, 14, 7, 15};
  static const int first[] = {0, 1, 8, 9, 4, 5, 12, 13}, last[] = {2, 3, 10, 11, 6, 7, 14, 15};
  V of[ROW], r[4];
  row_pointers(e, rows, index, of);
  for (int side = 0; side < 2 && side * 4 < n; side++) {
    for (int k = 0; k < 4; k++)
      r[k] = ts_emit_join(e, four_of(e, of[k], side), four_of(e, of[k + 4], side));
    V a = ts_emit_shuffle(e, r[0], r[1], ROW, low),
      b = ts_emit_shuffle(e, r[0], r[1], ROW, high);
    V c = ts_emit_shuffle(e, r[2], r[3], ROW, low),
      d = ts_emit_shuffle(e, r[2], r[3], ROW, high);
    out[4 * side] = ts_emit_shuffle(e, a, c, ROW, first);
    out[4 * side + 1] = ts_emit_shuffle(e, a, c, ROW, last);
    out[4 * side + 2] = ts_emit_shuffle(e, b, d, ROW, first);
    out[4 * side + 3] = ts_emit_shuffle(e, b, d, ROW, last);
  }
}

static void row_group(TsEmit *e, const TsTileStmt *const *of, int n) {
  V rows = row_array(e, of, n), *in = ts_emit_registers(e, of[0]->in[0]), *out[ROW], one[ROW];
  for (int i = 0; i < n; i++) out[i] = ts_emit_define(e, of[i]->out[0]);
  for (int r = 0; r < ts_emit_rows(&of[0]->in[0]->type); r++) {
    int lanes = ts_emit_lanes(in[r]), which[ROW];
    for (int at = 0; at < lanes; at += ROW) {
      int some = lanes - at < ROW ? lanes - at : ROW;
      for (int i = 0; i < ROW; i++) which[i] = i < some ? at + i : -1;
      transposed(e, rows, ts_emit_shuffle(e, in[r], NULL, ROW, which), n, one);
      for (int i = 0; i < n; i++) {
        V part = some < ROW ? ts_emit_span(e, one[i], 0, some) : one[i];
        out[i][r] = at ? ts_emit_join(e, out[i][r], part) : part;
      }
    }
  }
}

void ts_emit_looks(TsEmit *e, const TsTileStmt *s) {
  const TsTileStmt *of[ROW];
  int n = group_of(s, of);
  V *in = ts_emit_registers(e, s->in[0]);
  bool rows = n >= FEW && e->target->look == ROW && ts_emit_lanes(*in) >= ROW;
  if (rows && s != of[0]) return; /* the first one has made them all */
  if (rows) {
    row_group(e, of, n);
    return;
  }
  V *out = ts_emit_define(e, s->out[0]);
  for (int r = 0; r < ts_emit_rows(&s->out[0]->type); r++)
    out[r] = ts_emit_look(e, s, in[r], 0);
}
