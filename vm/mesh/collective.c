/* See vm/mesh/collective.h. */
#include "vm/mesh/collective.h"

#include <stdio.h>
#include <string.h>

const char *ts_collective_name(TsCollectiveKind kind) {
  static const char *const name[] = {"none",           "all_gather", "all_to_all", "all_reduce",
                                     "reduce_scatter", "broadcast",  "permute"};
  return name[kind];
}

static uint8_t axes_of(const TsLayout *l, int d) {
  uint8_t axes = 0;
  for (int i = 0; i < l->naxis[d]; i++) axes |= (uint8_t)(1u << l->axis[d][i]);
  return axes;
}

/* Elements of axis d that part p has under both layouts. */
static int64_t common(const TsLayout *a, const TsLayout *b, int d, int64_t n, int p) {
  int64_t sum = 0, s, m, t, k;
  for (int i = 0; ts_layout_run(a, d, n, p, i, &s, &m); i++)
    for (int j = 0; ts_layout_run(b, d, n, p, j, &t, &k); j++) {
      int64_t from = s > t ? s : t, to = s + m < t + k ? s + m : t + k;
      if (from < to) sum += to - from;
    }
  return sum;
}

static int64_t received(const TsMeta *m, const TsLayout *old, const TsLayout *to) {
  int64_t sum = 0;
  for (int p = 0; p < to->mesh->n; p++) {
    int64_t all = 1, own = 1;
    for (int d = 0; d < m->ndim; d++) {
      all *= ts_layout_count(to, d, m->dim[d], p);
      own *= common(old, to, d, m->dim[d], p);
    }
    sum += ts_dtype_nbytes((TsDtype)m->dtype, all) - ts_dtype_nbytes((TsDtype)m->dtype, own);
  }
  return sum;
}

TsCollective ts_collective_of_move(const TsMeta *m, const TsLayout *to) {
  const TsLayout *old = ts_layout_of(m);
  TsCollective c = {.mesh = to->mesh, .meta = *m, .op = TS_OP_COUNT};
  uint8_t gone = 0, come = 0;
  c.meta.layout = to->id;
  if (old == to || !old || old->mesh != to->mesh) return c;
  for (int d = 0; d < m->ndim; d++) {
    uint8_t a = axes_of(old, d), b = axes_of(to, d);
    gone |= a & (uint8_t)~b, come |= b & (uint8_t)~a;
  }
  if (!(c.bytes = received(m, old, to))) return c;
  c.axes = gone ? gone : come;
  c.kind = gone & come ? TS_COLLECTIVE_all_to_all
           : gone      ? TS_COLLECTIVE_all_gather
                       : TS_COLLECTIVE_permute;
  return c;
}

/* Each device of a group but one sends its summands, and gets the sum: what is rounded once is
 * sent as f32. */
TsCollective ts_collective_of_sum(const TsShard *s, const TsMesh *m, int o) {
  TsCollective c = {.mesh = m, .meta = s->out[o], .op = s->op};
  const TsLayout *l = ts_shard_gives(s, m, o);
  ts_shard_combines(s, o, &c.axes);
  if (!c.axes || !l) return c;
  int group = 1;
  for (int a = 0; a < m->naxis; a++)
    if (c.axes >> a & 1) group *= m->size[a];
  c.meta.layout = l->id;
  if (group == 1) return c;
  c.kind = TS_COLLECTIVE_all_reduce;
  for (int p = 0; p < m->n; p++) {
    TsMeta part = ts_layout_part(l, &s->out[o], p);
    bool narrow = ts_dtype_is((TsDtype)part.dtype, TS_KIND_F) && ts_dtypes[part.dtype].nbytes < 4;
    int64_t sum = ts_meta_nbytes(&part);
    int64_t summand = narrow ? ts_meta_numel(&part) * 4 : sum;
    bool first = true; /* of its group: it gets the summands, the others the sum */
    for (int a = 0; a < m->naxis; a++)
      if (c.axes >> a & 1) first &= ts_mesh_coordinate(m, p, a) == 0;
    c.bytes += first ? (group - 1) * summand : sum;
  }
  return c;
}

void ts_collectives_of(const TsShard *s, const TsMesh *m,
                       void (*each)(void *arg, const TsCollective *c), void *arg) {
  for (int i = 0; i < s->nin; i++) {
    const TsLayout *to = s->in[i] && s->in[i]->layout ? ts_shard_needs(s, m, i) : NULL;
    if (!to) continue;
    TsCollective c = ts_collective_of_move(s->in[i], to);
    c.op = s->op;
    if (c.kind) each(arg, &c);
  }
  for (int o = 0; o < s->nout; o++) {
    TsCollective c = ts_collective_of_sum(s, m, o);
    if (c.kind) each(arg, &c);
  }
}

/* ---- what was sent */
static TsCollective kept[TS_COLLECTIVES_KEPT];
static uint64_t nkept;

void ts_collective_note(TsContext *c, const TsCollective *what, TsOp op) {
  TsCollective *k = &kept[nkept++ % TS_COLLECTIVES_KEPT];
  *k = *what;
  k->op = op;
  const char *place = c->where && c->where_arg ? c->where(c->where_arg) : NULL;
  snprintf(k->place, sizeof k->place, "%s", place ? place : "");
}

const TsCollective *ts_collective_noted(int back, uint64_t *total) {
  *total = nkept;
  if (back < 0 || (uint64_t)back >= nkept || back >= TS_COLLECTIVES_KEPT) return NULL;
  return &kept[(nkept - 1 - (uint64_t)back) % TS_COLLECTIVES_KEPT];
}
