/* Roles whose threads have lanes, and what blocks write for other blocks.
 *
 * Threads of such a role stand in rows: each has up to 8 neighbouring columns of a fragment, so
 * that memory is moved in vectors. What other blocks wrote is read past the first cache, which
 * does not see it. */
#include <stdio.h>
#include <string.h>

#include "ir/text/value.h"
#include "jit/emit/roles/emit.h"
#include "ir/tile/find.h"

typedef LLVMValueRef V;

enum { WARP = 32, MOST_COLS = 8, MEETING = 6 /* their named barrier */ };

/* ---- layout */
bool ts_roles_has_lanes(const TsTileStmt *role) { return ts_tile_attr(role, "lanes")->i; }

void ts_roles_lanes_layout(TsRoles *m) {
  const TsTileType *t = ts_tile_find_fragment(m->role->region[0], true);
  TsRolesLayout *l = &m->layout;
  if (!t) ts_emit_fail(m->e, "lanes of no fragment");
  int64_t threads = (int64_t)m->warps * WARP, each = t->dim[0] * t->dim[1] / threads;
  int64_t ncol = each < MOST_COLS ? each : MOST_COLS;
  if (!each || t->dim[0] * t->dim[1] % threads || t->dim[1] % ncol || each / ncol > 16 ||
      threads % (t->dim[1] / ncol))
    ts_emit_fail(m->e, "%d warps for %d x %d elements", m->warps, (int)t->dim[0],
                 (int)t->dim[1]);
  int64_t across = t->dim[1] / ncol;
  V by = ts_roles_int(m, across);
  l->row_base = LLVMBuildUDiv(m->e->b, m->t, by, "");
  l->col_base = ts_roles_muli(m, LLVMBuildURem(m->e->b, m->t, by, ""), ncol);
  l->ncol = (int)ncol, l->nrow = (int)(each / ncol);
  for (int i = 0; i < l->nrow; i++) l->row[i] = i * (int)(threads / across);
  for (int i = 0; i < l->ncol; i++) l->col[i] = i;
}

/* ---- places in the device's memory */
static V wide(TsRoles *m, V x) {
  return LLVMBuildSExt(m->e->b, x, ts_emit_int_type(m->e, 64, 0), "");
}

/* Rows of a tile that lies along the last axes: where it begins, how many rows are there
 * (NULL: as many as it has), bytes from one to the next. */
typedef struct Place {
  V start, rows, pitch;
} Place;

static Place place_of(TsRoles *m, const TsTileStmt *s, const TsTileType *tile) {
  const TsTileType *t = &s->in[0]->type;
  LLVMBuilderRef b = m->e->b;
  int bytes = ts_dtypes[t->dtype].nbytes, axis = t->rank - tile->rank;
  V at = ts_emit_i64(m->e, 0);
  if (t->rank < tile->rank || t->space > TS_SPACE_scratch ||
      ts_tile_attr(s, "axes")->type == TS_ATTR_ints)
    ts_emit_fail(m->e, "rows lie in memory of the device, along its last axes");
  for (int i = 0; i < t->rank; i++) {
    V x = wide(m, ts_emit_scalar(m->e, s->in[1 + i]));
    if (t->strided)
      x = LLVMBuildMul(b, x, ts_emit_i64(m->e, t->stride[i]), "");
    else
      at = LLVMBuildMul(b, at, ts_emit_size(m->e, t->dim[i]), "");
    at = LLVMBuildAdd(b, at, x, "");
  }
  at = LLVMBuildMul(b, at, ts_emit_i64(m->e, bytes), "");
  Place p = {.start = LLVMBuildGEP2(b, ts_emit_int_type(m->e, 8, 0),
                                    ts_emit_registers(m->e, s->in[0])[0], &at, 1, "")};
  p.pitch = ts_emit_i64(m->e, bytes);
  if (t->strided && t->stride[t->rank - 1] != 1)
    ts_emit_fail(m->e, "rows that are not adjacent");
  if (tile->rank == 2 && t->strided)
    p.pitch = ts_emit_i64(m->e, bytes * t->stride[axis]);
  else if (tile->rank == 2)
    p.pitch = LLVMBuildMul(b, p.pitch, ts_emit_size(m->e, t->dim[axis + 1]), "");
  if (ts_tile_attr(s, "edge")->i) {
    V all = LLVMBuildTrunc(b, ts_emit_size(m->e, t->dim[axis]), ts_roles_i32(m), "");
    p.rows = LLVMBuildSub(b, all, ts_emit_scalar(m->e, s->in[1 + axis]), "");
  }
  return p;
}

/* Row r of a thread, from byte `off` of the row on. */
static V row_at(TsRoles *m, const Place *p, int r, V off) {
  LLVMBuilderRef b = m->e->b;
  V row = wide(m, ts_roles_addi(m, m->layout.row_base, m->layout.row[r]));
  V by = LLVMBuildMul(b, row, p->pitch, "");
  if (off) by = LLVMBuildAdd(b, by, wide(m, off), "");
  return LLVMBuildGEP2(b, ts_emit_int_type(m->e, 8, 0), p->start, &by, 1, "");
}

static V row_inside(TsRoles *m, const Place *p, int r) {
  if (!p->rows) return ts_roles_int(m, 1);
  V row = ts_roles_addi(m, m->layout.row_base, m->layout.row[r]);
  return ts_roles_flag(m, LLVMBuildICmp(m->e->b, LLVMIntSLT, row, p->rows, ""));
}

/* ---- registers: n of them from one address on, or to it */
static const char *vector_word(int n) { return n == 4 ? ".v4" : n == 2 ? ".v2" : ""; }

static int list_of(char *to, size_t room, int from, int n) {
  int used = snprintf(to, room, n > 1 ? "{" : "");
  for (int i = 0; i < n; i++)
    used += snprintf(to + used, room - (size_t)used, "%s$%d", i ? ", " : "", from + i);
  return used + snprintf(to + used, room - (size_t)used, n > 1 ? "}" : "");
}

/* n words, floats or others; zeros if it is not inside. */
static void read_some(TsRoles *m, V at, V in, int n, bool words, V *to) {
  TsEmit *e = m->e;
  LLVMTypeRef one = words ? ts_roles_i32(m) : ts_emit_elem(e, TS_DT_f32);
  LLVMTypeRef all[4] = {one, one, one, one};
  char text[256], list[64], constraints[64] = "";
  list_of(list, sizeof list, 0, n);
  int used =
      snprintf(text, sizeof text, "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, $%d, 0;\n\t", n + 1);
  for (int i = 0; i < n; i++)
    used += snprintf(text + used, sizeof text - (size_t)used, "mov.b32 $%d, 0;\n\t", i);
  snprintf(text + used, sizeof text - (size_t)used, "@p ld.global.cg%s.%s %s, [$%d];\n\t}",
           vector_word(n), words ? "b32" : "f32", list, n);
  for (int i = 0; i < n; i++) strcat(constraints, words ? "=&r," : "=&f,");
  strcat(constraints, "l,r,~{memory}");
  LLVMTypeRef type = n == 1 ? one : LLVMStructTypeInContext(e->ctx, all, (unsigned)n, false);
  V x = ts_roles_asm(m, type, text, constraints, 2, (V[]){at, in}, true);
  for (int i = 0; i < n; i++)
    to[i] = n == 1 ? x : LLVMBuildExtractValue(e->b, x, (unsigned)i, "");
}

static void write_some(TsRoles *m, V at, V in, int n, const V *x, bool words, int off) {
  char text[256], list[64], constraints[64] = "l,r";
  V all[6] = {at, in};
  list_of(list, sizeof list, 2, n);
  snprintf(text, sizeof text,
           "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, $1, 0;\n\t@p st.global%s.%s [$0+%d], %s;\n\t}",
           vector_word(n), words ? "b32" : "f32", off, list);
  for (int i = 0; i < n; i++) strcat(constraints, words ? ",r" : ",f");
  strcat(constraints, ",~{memory}");
  memcpy(all + 2, x, sizeof *x * (size_t)n);
  ts_roles_asm(m, NULL, text, constraints, 2 + n, all, true);
}

/* ---- loads */
static void load_rows(TsRoles *m, const TsTileStmt *s) {
  TsTileVal y = s->out[0];
  Place p = place_of(m, s, &y->type);
  V *to = ts_roles_define(m, y, m->layout.nrow);
  double fill = ts_tile_attr(s, "fill")->f;
  if (y->type.dtype != TS_DT_f32) ts_emit_fail(m->e, "rows are of f32");
  for (int r = 0; r < m->layout.nrow; r++) {
    V in = row_inside(m, &p, r);
    read_some(m, row_at(m, &p, r, NULL), in, 1, false, to + r);
    if (ts_number_same(fill, 0)) continue;
    V is = LLVMBuildICmp(m->e->b, LLVMIntNE, in, ts_roles_int(m, 0), "");
    V other = ts_emit_number(m->e, TS_DT_f32, 0, fill);
    to[r] = LLVMBuildSelect(m->e->b, is, to[r], other, "");
  }
}

static void load_lanes(TsRoles *m, const TsTileStmt *s) {
  TsTileVal y = s->out[0];
  const TsRolesLayout *l = &m->layout;
  bool pairs = ts_roles_is_pairs(&y->type);
  int bytes = ts_dtypes[y->type.dtype].nbytes, words = l->ncol / (pairs ? 2 : 1);
  int n = words < 4 ? words : 4;
  Place p = place_of(m, s, &y->type);
  V *to = ts_roles_define(m, y, l->nrow * words), off = ts_roles_muli(m, l->col_base, bytes);
  if (!n || (!pairs && y->type.dtype != TS_DT_f32))
    ts_emit_fail(m->e, "lanes read no such fragment");
  for (int r = 0; r < l->nrow; r++)
    for (int c = 0; c < words; c += n)
      read_some(m, row_at(m, &p, r, ts_roles_addi(m, off, c * 4)), row_inside(m, &p, r), n,
                pairs, to + r * words + c);
}

/* ---- sums along rows: neighbours, level by level, first those of a thread */
static V next_lane(TsRoles *m, V x, int apart) {
  char text[80];
  snprintf(text, sizeof text, "shfl.sync.bfly.b32 $0, $1, %d, 31, -1;", apart);
  return ts_roles_asm(m, ts_emit_elem(m->e, TS_DT_f32), text, "=f,f", 1, &x, true);
}

static V sum_row(TsRoles *m, V *x, int64_t across) {
  LLVMBuilderRef b = m->e->b;
  for (int n = m->layout.ncol; n > 1; n /= 2)
    for (int i = 0; i < n / 2; i++) x[i] = LLVMBuildFAdd(b, x[2 * i], x[2 * i + 1], "");
  for (int apart = 1; apart < across; apart *= 2)
    x[0] = LLVMBuildFAdd(b, x[0], next_lane(m, x[0], apart), "");
  return x[0];
}

static void sum_rows(TsRoles *m, const TsTileStmt *s) {
  TsTileVal x = s->in[0], y = s->out[0];
  const TsRolesLayout *l = &m->layout;
  int64_t across = x->type.dim[1] / l->ncol;
  V one[MOST_COLS], *in = ts_emit_registers(m->e, x), *to = ts_roles_define(m, y, l->nrow);
  if (x->type.rank != 2 || ts_tile_attr(s, "axis")->i != 1 || x->type.dtype != TS_DT_f32 ||
      across > WARP || across & (across - 1) || l->ncol & (l->ncol - 1))
    ts_emit_fail(m->e, "lanes add up rows of f32");
  for (int r = 0; r < l->nrow; r++) {
    memcpy(one, in + r * l->ncol, sizeof *one * (size_t)l->ncol);
    to[r] = sum_row(m, one, across);
  }
}

/* ---- stores */
/* By the first of the threads of a row. */
static void store_row_lanes(TsRoles *m, const TsTileStmt *s, TsTileVal x) {
  LLVMBuilderRef b = m->e->b;
  Place p = place_of(m, s, &x->type);
  V first = LLVMBuildICmp(b, LLVMIntEQ, m->layout.col_base, ts_roles_int(m, 0), "");
  for (int r = 0; r < m->layout.nrow; r++)
    write_some(m, row_at(m, &p, r, NULL),
               LLVMBuildAnd(b, row_inside(m, &p, r), ts_roles_flag(m, first), ""), 1,
               ts_emit_registers(m->e, x) + r, false, 0);
}

static void store_lanes(TsRoles *m, const TsTileStmt *s, TsTileVal x) {
  const TsRolesLayout *l = &m->layout;
  bool pairs = ts_roles_is_pairs(&x->type);
  Place p = place_of(m, s, &x->type);
  int bytes = ts_dtypes[x->type.dtype].nbytes, words = l->ncol / (pairs ? 2 : 1);
  int n = words < 4 ? words : 4;
  V off = ts_roles_muli(m, l->col_base, bytes), *reg = ts_emit_registers(m->e, x);
  if (!n || (!pairs && x->type.dtype != TS_DT_f32))
    ts_emit_fail(m->e, "lanes store no such fragment");
  for (int r = 0; r < l->nrow; r++)
    for (int c = 0; c < words; c += n)
      write_some(m, row_at(m, &p, r, off), row_inside(m, &p, r), n, reg + r * words + c, pairs,
                 c * 4);
}

/* Of a matrix unit: two neighbouring columns of two rows at a time. */
static void store_sums(TsRoles *m, const TsTileStmt *s, TsTileVal x) {
  Place p = place_of(m, s, &x->type);
  V off = ts_roles_muli(m, m->layout.col_base, 4), *reg = ts_emit_registers(m->e, x);
  if (x->type.dtype != TS_DT_f32) ts_emit_fail(m->e, "sums are of f32");
  for (int r = 0; r < 2; r++) {
    V at = row_at(m, &p, r, off), in = row_inside(m, &p, r);
    for (int j = 0; j < x->type.dim[1] / 8; j++)
      write_some(m, at, in, 2, reg + 4 * j + 2 * r, false, 32 * j);
  }
}

/* Rows, by the first of the four threads that have them. */
static void store_rows(TsRoles *m, const TsTileStmt *s, TsTileVal x) {
  LLVMBuilderRef b = m->e->b;
  Place p = place_of(m, s, &x->type);
  V mine = LLVMBuildICmp(b, LLVMIntEQ, ts_roles_andi(m, m->lane, 3), ts_roles_int(m, 0), "");
  for (int r = 0; r < 2; r++)
    write_some(m, row_at(m, &p, r, NULL),
               LLVMBuildAnd(b, row_inside(m, &p, r), ts_roles_flag(m, mine), ""), 1,
               ts_emit_registers(m->e, x) + r, false, 0);
}

/* ---- counters: one thread counts, all of the role learn it */
static void meet(TsRoles *m) {
  V in[2] = {ts_roles_int(m, MEETING), ts_roles_int(m, (int64_t)m->warps * WARP)};
  ts_roles_asm(m, NULL, "bar.sync $0, $1;", "r,r,~{memory}", 2, in, true);
}

static void claim(TsRoles *m, const TsTileStmt *s) {
  LLVMBuilderRef b = m->e->b;
  V *to = ts_roles_define(m, s->out[0], 1);
  V at = wide(m, ts_roles_muli(m, ts_emit_scalar(m->e, s->in[1]), 4));
  V box = ts_roles_addi(m, m->smem, m->shared);
  if (s->in[0]->type.rank != 1) ts_emit_fail(m->e, "counters are a list");
  m->shared += 8;
  at = LLVMBuildGEP2(b, ts_emit_int_type(m->e, 8, 0), ts_emit_registers(m->e, s->in[0])[0], &at,
                     1, "");
  V in[4] = {at, ts_roles_addi(m, ts_emit_scalar(m->e, s->in[2]), -1), m->leader, box};
  meet(m);
  ts_roles_asm(m, NULL,
               "{\n\t.reg .pred p;\n\t.reg .b32 n;\n\tsetp.ne.b32 p, $2, 0;\n\t"
               "@p atom.acq_rel.gpu.global.inc.u32 n, [$0], $1;\n\t"
               "@p st.shared.b32 [$3], n;\n\t}",
               "l,r,r,r,~{memory}", 4, in, true);
  meet(m);
  *to = ts_roles_asm(m, ts_roles_i32(m), "ld.shared.b32 $0, [$1];", "=r,r,~{memory}", 1, &box,
                     true);
}

/* ---- which statements */
static bool is_fragment(TsTileVal v) { return v->type.space == TS_SPACE_fragment; }

static bool in_role_with_lanes(TsRoles *m, const TsTileStmt *s) {
  switch (s->op) {
  case TS_TILE_load:
    if (!is_fragment(s->out[0])) return false;
    if (s->out[0]->type.rank == 1)
      load_rows(m, s);
    else
      load_lanes(m, s);
    return true;
  case TS_TILE_store:
    if (s->in[s->nin - 1]->type.rank == 1)
      store_row_lanes(m, s, s->in[s->nin - 1]);
    else
      store_lanes(m, s, s->in[s->nin - 1]);
    return true;
  case TS_TILE_pairs: sum_rows(m, s); return true;
  case TS_TILE_claim: claim(m, s); return true;
  case TS_TILE_sync: meet(m); return true;
  default: return false;
  }
}

/* Sums and rows of a matrix unit in scratch. */
static bool for_others(TsRoles *m, const TsTileStmt *s) {
  TsTileVal x = s->op == TS_TILE_store ? s->in[s->nin - 1] : NULL;
  if (!x || !is_fragment(x) || s->in[0]->type.space != TS_SPACE_scratch) return false;
  if (m->unit != TS_ROLES_wgmma) ts_emit_fail(m->e, "scratch takes what a matrix unit made");
  if (x->type.rank == 1)
    store_rows(m, s, x);
  else
    store_sums(m, s, x);
  return true;
}

bool ts_roles_of_lanes(TsRoles *m, const TsTileStmt *s) {
  if (s->op == TS_TILE_fence && ts_tile_attr(s, "scope")->i == 1) {
    ts_roles_asm(m, NULL, "fence.acq_rel.gpu;", "~{memory}", 0, NULL, true);
    return true;
  }
  if (!m->role) return false;
  return ts_roles_has_lanes(m->role) ? in_role_with_lanes(m, s) : for_others(m, s);
}
