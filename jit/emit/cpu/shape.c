/* Constants and statements that move elements within registers. */
#include <string.h>

#include "jit/emit/cpu/emit.h"

typedef LLVMValueRef V;

static void fill(TsEmit *e, TsTileVal v, V one) {
  V *out = ts_emit_define(e, v);
  for (int r = 0; r < ts_emit_rows(&v->type); r++) out[r] = one;
}

static void constant(TsEmit *e, const TsTileStmt *s) {
  const TsTileType *t = &s->out[0]->type;
  double v = ts_tile_attr(s, "value")->f;
  fill(e, s->out[0], ts_emit_number(e, t->dtype, ts_emit_width(t), v));
}

static void raw_bits(TsEmit *e, const TsTileStmt *s) {
  const TsTileType *t = &s->out[0]->type;
  int lanes = ts_emit_width(t), size = 8 * ts_dtypes[t->dtype].nbytes;
  LLVMTypeRef type = ts_emit_type(e, t->dtype, lanes);
  if (t->dtype == TS_DT_bool) size = 1;
  V v = ts_emit_int(e, ts_emit_int_type(e, size, lanes), ts_tile_attr(s, "value")->i);
  fill(e, s->out[0], LLVMBuildBitCast(e->b, v, type, ""));
}

static void iota(TsEmit *e, const TsTileStmt *s) {
  const TsTileType *t = &s->out[0]->type;
  int64_t axis = ts_tile_attr(s, "axis")->i;
  int lanes = ts_emit_width(t);
  V *out = ts_emit_define(e, s->out[0]);
  for (int r = 0; r < ts_emit_rows(t); r++) {
    V one = lanes && axis == t->rank - 1 ? ts_emit_iota(e, 64, lanes)
                                         : ts_emit_int(e, ts_emit_int_type(e, 64, lanes), r);
    out[r] = ts_emit_cast(e, t->dtype, TS_DT_i64, one);
  }
}

/* An f32 that was made a bf16 and is one again: rounded where it stands. The way through 16
 * bits takes LLVM four times as long to see through. */
static bool round_trip(TsEmit *e, const TsTileStmt *s) {
  const TsTileStmt *from = s->in[0]->stmt;
  if (s->out[0]->type.dtype != TS_DT_f32 || s->in[0]->type.dtype != TS_DT_bf16 || !from ||
      from->op != TS_TILE_cast || from->in[0]->type.dtype != TS_DT_f32)
    return false;
  V *in = ts_emit_registers(e, from->in[0]), *out = ts_emit_define(e, s->out[0]);
  for (int r = 0; r < ts_emit_rows(&s->out[0]->type); r++)
    out[r] = ts_emit_round_bf16(e, in[r]);
  return true;
}

static void cast(TsEmit *e, const TsTileStmt *s) {
  if (round_trip(e, s)) return;
  V *in = ts_emit_registers(e, s->in[0]), *out = ts_emit_define(e, s->out[0]);
  for (int r = 0; r < ts_emit_rows(&s->out[0]->type); r++)
    out[r] = ts_emit_cast(e, s->out[0]->type.dtype, s->in[0]->type.dtype, in[r]);
}

/* A bool is a byte to those who ask for its bits. */
static V bitcast_one(TsEmit *e, TsDtype to, TsDtype from, int lanes, V x) {
  LLVMTypeRef t = ts_emit_type(e, to, lanes);
  if (to == from) return x;
  if (from == TS_DT_bool) return LLVMBuildZExt(e->b, x, t, "");
  if (to == TS_DT_bool) return ts_emit_cast(e, TS_DT_bool, TS_DT_u8, x);
  return LLVMBuildBitCast(e->b, x, t, "");
}

static void bitcast(TsEmit *e, const TsTileStmt *s) {
  V *in = ts_emit_registers(e, s->in[0]), *out = ts_emit_define(e, s->out[0]);
  for (int r = 0; r < ts_emit_rows(&s->out[0]->type); r++)
    out[r] = bitcast_one(e, s->out[0]->type.dtype, s->in[0]->type.dtype,
                         ts_emit_width(&s->out[0]->type), in[r]);
}

/* ---- shapes */
/* One element of a vector in every lane; of one that is apart without building it. */
static V repeat(TsEmit *e, TsTileVal v, int i, int lanes) {
  const TsEmitted *m = &e->value[v->id];
  V x = m->split ? m->part[i] : ts_emit_lane(e, m->part[0], i);
  return ts_emit_splat(e, x, lanes);
}

static void broadcast_vector(TsEmit *e, const TsTileStmt *s, int64_t axis) {
  const TsTileType *t = &s->out[0]->type;
  int lanes = ts_emit_width(t), n = ts_emit_width(&s->in[0]->type);
  V whole = axis == t->rank - 1 && n == lanes ? *ts_emit_registers(e, s->in[0]) : NULL;
  V *out = ts_emit_define(e, s->out[0]);
  for (int r = 0; r < ts_emit_rows(t); r++)
    out[r] = whole ? whole : repeat(e, s->in[0], axis == t->rank - 1 || n == 1 ? 0 : r, lanes);
}

static void broadcast(TsEmit *e, const TsTileStmt *s) {
  const TsTileType *t = &s->out[0]->type, *from = &s->in[0]->type;
  const TsAttr *axes = ts_tile_attr(s, "axes");
  V *in = from->rank == 1 ? NULL : ts_emit_registers(e, s->in[0]);
  if (axes->n != from->rank) ts_emit_fail(e, "broadcast: axes do not fit");
  if (from->rank == 0) {
    fill(e, s->out[0], ts_emit_splat(e, in[0], ts_emit_width(t)));
    return;
  }
  if (from->rank == 1) {
    broadcast_vector(e, s, axes->ints[0]);
    return;
  }
  V *out = ts_emit_define(e, s->out[0]);
  for (int r = 0; r < ts_emit_rows(t); r++) {
    out[r] = in[from->dim[0] == 1 ? 0 : r];
    if (from->dim[1] != t->dim[1])
      out[r] = ts_emit_splat(e, ts_emit_lane(e, out[r], 0), (int)t->dim[1]);
  }
}

/* All elements as one vector, and back; LLVM sees through both where rows stay rows. */
static V flat(TsEmit *e, TsTileVal v) {
  V *in = ts_emit_registers(e, v), all = in[0];
  if (!v->type.rank) return ts_emit_splat(e, all, 1);
  for (int r = 1; r < ts_emit_rows(&v->type); r++) all = ts_emit_join(e, all, in[r]);
  return all;
}

static void unflat(TsEmit *e, TsTileVal v, V all) {
  V *out = ts_emit_define(e, v);
  int lanes = ts_emit_width(&v->type);
  for (int r = 0; r < ts_emit_rows(&v->type); r++)
    out[r] = lanes ? ts_emit_span(e, all, r * lanes, lanes) : ts_emit_lane(e, all, 0);
}

static void reshape(TsEmit *e, const TsTileStmt *s) {
  const TsTileType *t = &s->out[0]->type, *from = &s->in[0]->type;
  if (ts_tile_numel(t) != ts_tile_numel(from)) ts_emit_fail(e, "reshape: sizes differ");
  if (ts_tile_numel(t) > TS_EMIT_VECTOR) ts_emit_fail(e, "reshape of too many elements");
  unflat(e, s->out[0], flat(e, s->in[0]));
}

/* Square blocks of 2^k: rows i and i + h change the halves that are not theirs, h = n/2 ..
 * 1. */
static void transpose_square(TsEmit *e, V *row, int n) {
  int lo[64], hi[64];
  for (int h = n / 2; h; h /= 2) {
    for (int j = 0; j < n; j++) {
      lo[j] = j & h ? n + j - h : j;
      hi[j] = j & h ? n + j : j + h;
    }
    for (int i = 0; i < n; i++) {
      if (i & h) continue;
      V x = row[i], y = row[i + h];
      row[i] = ts_emit_shuffle(e, x, y, n, lo);
      row[i + h] = ts_emit_shuffle(e, x, y, n, hi);
    }
  }
}

static void transpose_any(TsEmit *e, const TsTileStmt *s) {
  int m = ts_emit_rows(&s->in[0]->type), n = ts_emit_width(&s->in[0]->type);
  int *index = ts_emit_take(e, sizeof *index * (size_t)(m * n));
  if (m * n > TS_EMIT_VECTOR) ts_emit_fail(e, "transpose of too many elements");
  for (int i = 0; i < m * n; i++) index[i] = i % m * n + i / m;
  V all = flat(e, s->in[0]);
  unflat(e, s->out[0], ts_emit_shuffle(e, all, NULL, m * n, index));
}

static void transpose(TsEmit *e, const TsTileStmt *s) {
  const TsTileType *t = &s->in[0]->type;
  const TsAttr *perm = ts_tile_attr(s, "perm");
  int n = ts_emit_width(t);
  V *in = ts_emit_registers(e, s->in[0]);
  if (t->rank < 2 || perm->ints[0] == 0) {
    V *out = ts_emit_define(e, s->out[0]);
    memcpy(out, in, sizeof *out * (size_t)ts_emit_rows(t));
  } else if (t->dim[0] == n && n <= 64 && !(n & (n - 1))) {
    V *out = ts_emit_define(e, s->out[0]);
    memcpy(out, in, sizeof *out * (size_t)n);
    transpose_square(e, out, n);
  } else {
    transpose_any(e, s);
  }
}

static void part(TsEmit *e, const TsTileStmt *s) {
  const TsTileType *t = &s->out[0]->type, *from = &s->in[0]->type;
  const TsAttr *start = ts_tile_attr(s, "start");
  V *in = ts_emit_registers(e, s->in[0]), *out = ts_emit_define(e, s->out[0]);
  int first = t->rank == 2 ? (int)start->ints[0] : 0, lanes = ts_emit_width(t);
  int at = t->rank ? (int)start->ints[t->rank - 1] : 0;
  if (start->n != t->rank || t->rank != from->rank || first < 0 || at < 0 ||
      first + ts_emit_rows(t) > ts_emit_rows(from) || at + lanes > ts_emit_width(from))
    ts_emit_fail(e, "part: outside of its tile");
  for (int r = 0; r < ts_emit_rows(t); r++)
    out[r] = lanes ? ts_emit_span(e, in[first + r], at, lanes) : in[0];
}

static void join(TsEmit *e, const TsTileStmt *s) {
  const TsTileType *t = &s->out[0]->type;
  bool along_rows = t->rank == 2 && ts_tile_attr(s, "axis")->i == 0;
  V *out = ts_emit_define(e, s->out[0]);
  for (int i = 0, at = 0; i < s->nin; i++) {
    V *in = ts_emit_registers(e, s->in[i]);
    for (int r = 0; r < ts_emit_rows(&s->in[i]->type); r++) {
      if (along_rows)
        out[at++] = in[r];
      else
        out[r] = i ? ts_emit_join(e, out[r], in[r]) : in[r];
    }
  }
}

void ts_emit_shape(TsEmit *e, const TsTileStmt *s) {
  switch (s->op) {
  case TS_TILE_const: constant(e, s); return;
  case TS_TILE_bits: raw_bits(e, s); return;
  case TS_TILE_iota: iota(e, s); return;
  case TS_TILE_cast: cast(e, s); return;
  case TS_TILE_bitcast: bitcast(e, s); return;
  case TS_TILE_broadcast: broadcast(e, s); return;
  case TS_TILE_reshape: reshape(e, s); return;
  case TS_TILE_transpose: transpose(e, s); return;
  case TS_TILE_part: part(e, s); return;
  case TS_TILE_join: join(e, s); return;
  default: ts_emit_fail(e, "%s has no meaning on a CPU", ts_tile_op_name(s->op));
  }
}
