/* A number of a table of 32: shuffles by the index where vectors have them, else a load from a
 * constant array, where a table is one line of memory for all threads of a warp. */
#include <string.h>

#include "jit/emit.h"

typedef LLVMValueRef V;

enum { NTABLE = 32, MOST = 64 };

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
  const char *vectors = e->target ? e->target->tile.name : "";
  int lanes = ts_emit_lanes(index);
  if (lanes && !strcmp(vectors, "avx512")) return shuffles(e, table, 16, index);
  if (lanes && !strcmp(vectors, "avx2")) return shuffles(e, table, 8, index);
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
