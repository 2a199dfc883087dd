/* Blocks of the mask of attention. A matrix unit's tiles have queries as rows, or keys where p
 * and dt are operands as they are made: then the mask is read through a second parameter, the
 * same memory with its last axes exchanged, rather than turned in shared memory, of which
 * operands leave none. */
#include "ir/lower/attention_mask.h"

#include <math.h>
#include <string.h>

enum { ROW = 2, COL = 3 };

/* With these axes of the mask, in order. */
static TsTileVal put(const TsAttentionMask *m, TsTile *k, const char *name, const int axis[4],
                     const int64_t size[4], const int64_t stride[4]) {
  TsTileType t = {.dtype = m->v->meta.dtype};
  int64_t step = 1;
  for (int i = 0; i < 4; i++)
    if (m->moves[axis[i]])
      t.dim[t.rank] = axis[i] ? size[axis[i]] : ts_tile_size(k, "M"),
      t.stride[t.rank++] = stride[axis[i]];
  for (int i = 4, at = t.rank; i-- > 0;) {
    if (!m->moves[axis[i]]) continue;
    t.strided |= t.stride[--at] != step;
    step *= size[axis[i]];
  }
  if (!t.strided) memset(t.stride, 0, sizeof t.stride);
  return ts_tile_param(k, name, &t, false);
}

void ts_attention_mask_params(TsAttentionMask *m, TsTile *k, TsVal v, TsLayoutFn *layout,
                              void *arg, const int64_t size[4]) {
  int64_t own[TS_MAX_RANK], stride[4] = {0};
  *m = (TsAttentionMask){.v = v, .s = size[ROW], .t = size[COL]};
  if (!v) return;
  int first = 4 - v->meta.ndim;
  ts_sched_strides(layout, arg, v, own);
  for (int i = first; i < 4; i++)
    m->moves[i] = v->meta.dim[i - first] > 1, stride[i] = own[i - first];
  m->plain = m->turned = put(m, k, "mask", (int[]){0, 1, ROW, COL}, size, stride);
  if (m->moves[ROW] && m->moves[COL])
    m->turned = put(m, k, "mask_turned", (int[]){0, 1, COL, ROW}, size, stride);
}

int ts_attention_mask_values(const TsAttentionMask *m, TsVal *value) {
  int n = m->v ? 1 + (m->turned != m->plain) : 0;
  for (int i = 0; i < n; i++) value[i] = m->v;
  return n;
}

static TsTileVal load(const TsAttentionMask *m, TsTileBuild *b, const TsMaskBlock *o,
                      TsTileType like) {
  TsTileVal all[4] = {o->b, o->h, o->query, o->key}, at[4];
  int64_t n[2] = {o->queries, o->keys}, of[2] = {m->s, m->t}, axes[2];
  TsTileType t = ts_tile_scalar((TsDtype)m->v->meta.dtype);
  TsTileAccess a = {.edge = false};
  int rank = 0;
  for (int i = 0; i < ROW; i++)
    if (m->moves[i]) at[rank++] = all[i];
  for (int i = 0; i < 2; i++) {
    int side = o->turned ? !i : i; /* which of both is this axis of the tile */
    if (!m->moves[ROW + side]) continue;
    at[rank++] = all[ROW + side];
    axes[t.rank] = i, t.dim[t.rank++] = n[side];
    a.edge |= of[side] % n[side] != 0;
  }
  TsTileVal x = ts_tile_load(b, o->turned ? m->turned : m->plain, at, &t, &a);
  if (!x) return NULL;
  if (t.dtype == TS_DT_bool)
    like.dtype = TS_DT_bool;
  else
    x = ts_tile_cast(b, x, (TsDtype)like.dtype);
  return t.rank == 2 ? x : ts_tile_broadcast(b, x, &like, axes);
}

TsTileVal ts_attention_mask_apply(const TsAttentionMask *m, TsTileBuild *b,
                                  const TsMaskBlock *at, TsTileVal x) {
  if (!m->v || !x) return x;
  TsTileVal y = load(m, b, at, x->type);
  if (!y) return NULL;
  if (y->type.dtype != TS_DT_bool) return ts_tile_op2(b, TS_OP_add, x, y);
  return ts_tile_op3(b, TS_OP_where, y, x, ts_tile_const(b, -INFINITY, &x->type));
}
