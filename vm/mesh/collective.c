/* See vm/mesh/collective.h. */
#include "vm/mesh/collective.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vm/mesh/planned.h"
#include "vm/mesh/times.h"

const char *ts_collective_name(TsCollectiveKind kind) {
  static const char *const name[] = {"none",           "all_gather", "all_to_all", "all_reduce",
                                     "reduce_scatter", "broadcast",  "scatter",    "reduce",
                                     "gather",         "permute"};
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

static int64_t part_bytes(const TsLayout *l, const TsMeta *m, int p) {
  TsMeta part = ts_layout_part(l, m, p);
  return ts_meta_nbytes(&part);
}

/* From one device, or from another mesh: parts come as they are. */
static TsCollective from_elsewhere(const TsMeta *m, const TsLayout *to) {
  const TsLayout *old = ts_layout_of(m);
  TsCollective c = {.mesh = to->mesh, .before = *m, .meta = *m, .op = TS_OP_COUNT};
  c.meta.layout = to->id, c.meta.device = TS_DEVICE_MESH;
  bool split = false;
  for (int d = 0; d < to->ndim; d++) split |= to->naxis[d] > 0;
  for (int a = 0; a < to->mesh->naxis; a++)
    if (to->mesh->size[a] > 1) c.axes |= (uint8_t)(1u << a);
  for (int p = 0; p < to->mesh->n; p++) {
    bool here = !old && (to->mesh->index[p] < 0 ? p == 0 : to->mesh->index[p] == m->device);
    if (!here) c.bytes += part_bytes(to, m, p);
  }
  c.kind = !c.bytes ? TS_COLLECTIVE_none
           : old    ? TS_COLLECTIVE_permute
           : split  ? TS_COLLECTIVE_scatter
                    : TS_COLLECTIVE_broadcast;
  return c;
}

TsCollective ts_collective_of_move(const TsMeta *m, const TsLayout *to) {
  const TsLayout *old = ts_layout_of(m);
  if (!old || old->mesh != to->mesh) return from_elsewhere(m, to);
  TsCollective c = {.mesh = to->mesh, .before = *m, .meta = *m, .op = TS_OP_COUNT};
  uint8_t gone = 0, come = 0, pins = 0;
  c.meta.layout = to->id;
  if (old == to) return c;
  for (int d = 0; d < m->ndim; d++) {
    uint8_t a = axes_of(old, d), b = axes_of(to, d);
    gone |= a & (uint8_t)~b, come |= b & (uint8_t)~a;
  }
  if (!(c.bytes = received(m, old, to))) return c;
  c.axes = gone ? gone : come;
  for (int a = 0; a < old->mesh->naxis; a++)
    if (old->pin[a] && old->pin[a] != to->pin[a]) pins |= (uint8_t)(1u << a);
  if (pins) { /* from where it lies to others */
    c.axes |= pins,
        c.kind = ts_layout_pinned(to) ? TS_COLLECTIVE_permute : TS_COLLECTIVE_broadcast;
    return c;
  }
  c.kind = gone & come ? TS_COLLECTIVE_all_to_all
           : gone      ? TS_COLLECTIVE_all_gather
                       : TS_COLLECTIVE_permute;
  return c;
}

TsCollective ts_collective_of_gather(const TsMeta *m, int device) {
  const TsLayout *l = ts_layout_of(m);
  TsCollective c = {.mesh = l->mesh, .before = *m, .meta = *m, .op = TS_OP_COUNT};
  c.meta.layout = 0, c.meta.device = (uint8_t)device;
  for (int d = 0; d < l->ndim; d++) c.axes |= axes_of(l, d);
  int64_t own = 0;
  for (int p = 0; p < l->mesh->n; p++)
    if (l->mesh->index[p] == device && part_bytes(l, m, p) > own) own = part_bytes(l, m, p);
  c.bytes = ts_meta_nbytes(m) - own;
  c.kind = c.bytes > 0 ? TS_COLLECTIVE_gather : TS_COLLECTIVE_none;
  return c;
}

/* Bytes of a part's summands: what is rounded once is sent as f32 (wide). */
static int64_t summand_bytes(const TsMeta *part, bool wide) {
  TsMeta m = *part;
  m.weak = 0;
  return wide && ts_shard_is_narrow(&m) ? ts_meta_numel(part) * 4 : ts_meta_nbytes(part);
}

/* A sum over these axes, of which nothing is known to be sent yet; *group: of so many devices. */
static TsCollective sum_over(const TsMesh *m, const TsLayout *l, const TsMeta *whole,
                             uint8_t axes, int *group) {
  TsCollective c = {
      .mesh = m, .before = *whole, .meta = *whole, .op = TS_OP_COUNT, .axes = axes};
  *group = 1;
  for (int a = 0; a < m->naxis; a++)
    if (axes >> a & 1) *group *= m->size[a];
  c.meta.layout = l->id;
  return c;
}

/* Each device of a group but one sends its summands, and gets the sum. */
static TsCollective added_up(const TsMesh *m, const TsLayout *l, const TsMeta *whole,
                             uint8_t axes, bool wide) {
  int group;
  TsCollective c = sum_over(m, l, whole, axes, &group);
  if (group == 1) return c;
  c.kind = TS_COLLECTIVE_all_reduce;
  for (int p = 0; p < m->n; p++) {
    TsMeta part = ts_layout_part(l, whole, p);
    int64_t sum = ts_meta_nbytes(&part), summand = summand_bytes(&part, wide);
    bool first = true; /* of its group: it gets the summands, the others the sum */
    for (int a = 0; a < m->naxis; a++)
      if (axes >> a & 1) first &= ts_mesh_coordinate(m, p, a) == 0;
    c.bytes += first ? (group - 1) * summand : sum;
  }
  if (!c.bytes) c.kind = TS_COLLECTIVE_none;
  return c;
}

const TsLayout *ts_layout_summed(const TsLayout *l, TsError *err) {
  TsLayout after = *l;
  after.partial = 0;
  return ts_layout_make(&after, err);
}

TsCollective ts_collective_of_summands(const TsMeta *m) {
  const TsLayout *l = ts_layout_of(m);
  TsError err = {0};
  const TsLayout *after = ts_layout_summed(l, &err);
  TsCollective c = {.mesh = l->mesh, .before = *m, .meta = *m, .op = TS_OP_COUNT};
  if (after) c = added_up(l->mesh, after, m, l->partial, true);
  c.before = *m;
  return c;
}

bool ts_layout_scatters(const TsLayout *l, uint8_t axes, const TsLayout *want) {
  uint8_t more = 0;
  if (!axes || want->mesh != l->mesh || want->partial || want->ndim != l->ndim) return false;
  for (int d = 0; d < l->ndim; d++) {
    if (want->naxis[d] < l->naxis[d] || want->block[d] || l->block[d] ||
        memcmp(want->axis[d], l->axis[d], l->naxis[d]))
      return false;
    if (l->naxis[d] && want->naxis[d] > l->naxis[d] && l->leaves != want->leaves) return false;
    for (int i = l->naxis[d]; i < want->naxis[d]; i++)
      more |= (uint8_t)(1u << want->axis[d][i]);
  }
  return more && !(more & ~axes);
}

bool ts_collective_scatters(const TsShard *s, const TsMesh *m, int o, const TsLayout *want) {
  const TsLayout *l = want ? ts_shard_gives(s, m, o) : NULL;
  uint8_t axes;
  ts_shard_combines(s, o, &axes);
  return l && l->mesh == m && ts_layout_scatters(l, axes, want);
}

static TsCollective scattered(const TsMesh *m, const TsLayout *l, const TsMeta *whole,
                              uint8_t axes, bool wide) {
  int group;
  TsCollective c = sum_over(m, l, whole, axes, &group);
  for (int p = 0; p < m->n; p++) {
    TsMeta part = ts_layout_part(l, whole, p);
    c.bytes += (group - 1) * summand_bytes(&part, wide);
  }
  c.kind = c.bytes ? TS_COLLECTIVE_reduce_scatter : TS_COLLECTIVE_none;
  return c;
}

TsCollective ts_collective_of_summed(const TsMeta *to, const TsMeta *from, uint8_t axes) {
  const TsLayout *l = ts_layout_of(to);
  bool wide = from->dtype != to->dtype;
  TsCollective c = to->layout == from->layout ? added_up(l->mesh, l, to, axes, wide)
                                              : scattered(l->mesh, l, to, axes, wide);
  c.before.layout = from->layout;
  return c;
}

TsCollective ts_collective_of_sum(const TsShard *s, const TsMesh *m, int o) {
  const TsLayout *l = ts_shard_gives(s, m, o);
  uint8_t axes;
  TsCollective c = {.mesh = m, .before = s->out[o], .meta = s->out[o]};
  bool wide = ts_shard_combines(s, o, &axes) == TS_FACTOR_sum;
  if (axes && o == 0 && ts_collective_scatters(s, m, o, s->want))
    c = scattered(m, s->want, &s->out[o], axes, wide);
  else if (axes && l)
    c = added_up(m, l, &s->out[o], axes, wide);
  c.op = s->op;
  return c;
}

/* ---- what was sent */
static TsCollective kept[TS_COLLECTIVES_KEPT];
static uint64_t nkept;
static TsCollective *plan;
static int nplan, capplan;

void ts_collective_plan_begin(void) { nplan = 0; }

const TsCollective *ts_collective_planned(int i) { return i < nplan ? &plan[i] : NULL; }

static TsCollective *room_in_plan(void) {
  if (nplan == capplan) {
    int cap = capplan ? capplan * 2 : 64;
    TsCollective *more = realloc(plan, sizeof *more * (size_t)cap);
    if (!more) return NULL;
    plan = more, capplan = cap;
  }
  return &plan[nplan++];
}

static const char *place_now(TsContext *c) {
  const char *place = c->step_place              ? c->step_place
                      : c->where && c->where_arg ? c->where(c->where_arg)
                                                 : NULL;
  return place ? place : "";
}

static TsWorldWhat current;

const TsWorldWhat *ts_collective_current(void) { return &current; }

void ts_collective_about(TsContext *c, const char *asks, const TsMeta *m) {
  char a[TS_META_TEXT];
  if (ts_world_size() == 1) return;
  memset(&current, 0, sizeof current);
  snprintf(current.what, sizeof current.what, "%s: %s", asks, ts_meta_text(m, a));
  snprintf(current.place, sizeof current.place, "%s", place_now(c));
}

static void tell_world(const TsCollective *k) {
  char a[TS_META_TEXT], b[TS_META_TEXT];
  if (ts_world_size() == 1) return;
  memset(&current, 0, sizeof current);
  snprintf(current.what, sizeof current.what, "%s%s%s: %s -> %s", ts_collective_name(k->kind),
           k->asks ? " of " : "", k->asks ? k->asks : "", ts_meta_text(&k->before, a),
           ts_meta_text(&k->meta, b));
  snprintf(current.place, sizeof current.place, "%s", k->place);
}

void ts_collective_note(TsContext *c, const TsCollective *what) {
  if (!what->kind || (c->planning && c->step_told)) return;
  TsCollective *k = c->planning ? room_in_plan() : &kept[nkept++ % TS_COLLECTIVES_KEPT];
  if (!k) return; /* without memory the list is shorter */
  *k = *what;
  if (c->planning) k->count = c->step_times, k->when = c->step_if;
  if (!k->asks && k->op < TS_OP_COUNT) k->asks = ts_op_info(k->op)->name;
  if (!k->place[0]) snprintf(k->place, sizeof k->place, "%s", place_now(c));
  if (c->times && !c->planning) ts_times_note(c, k);
  if (!c->planning) tell_world(k);
}

void ts_collective_note_move(TsContext *c, const TsMeta *m, const TsLayout *to,
                             const char *asks) {
  TsMeta now = *m;
  const TsLayout *l = ts_layout_of(m);
  if (l && l->partial) {
    TsCollective sum = ts_collective_of_summands(m);
    const TsLayout *after = ts_layout_of(&sum.meta);
    if (ts_layout_scatters(after, l->partial, to)) {
      sum = scattered(l->mesh, to, m, l->partial, true);
      sum.before = *m;
    }
    now.layout = sum.meta.layout;
    sum.asks = asks;
    ts_collective_note(c, &sum);
  }
  if (now.layout == to->id) return;
  TsCollective sent = ts_collective_of_move(&now, to);
  sent.asks = asks;
  ts_collective_note(c, &sent);
}

const TsCollective *ts_collective_noted(int back, uint64_t *total) {
  *total = nkept;
  if (back < 0 || (uint64_t)back >= nkept || back >= TS_COLLECTIVES_KEPT) return NULL;
  return &kept[(nkept - 1 - (uint64_t)back) % TS_COLLECTIVES_KEPT];
}

/* ---- what the program did not ask for */
int ts_collective_hidden(TsContext *c, const TsCollective *what, const char *operand) {
  if (!what->kind || !c->hidden_is_error) return 0;
  char a[TS_META_TEXT], b[TS_META_TEXT], spec[200] = "";
  TsText t = {0};
  ts_layout_spec_text(ts_layout_of(&what->meta), &t);
  if (t.at) snprintf(spec, sizeof spec, "%s", t.at);
  ts_text_free(&t);
  const char *name = what->op < TS_OP_COUNT ? ts_op_info(what->op)->name : "a call";
  bool one = !what->before.layout;
  ts_error_set(&c->err, TS_ERR_layout, "%s: %s %s would be moved%s to %s: %s, %lld bytes", name,
               operand, ts_meta_text(&what->before, a), one ? " from its device" : "",
               ts_meta_text(&what->meta, b), ts_collective_name(what->kind),
               (long long)what->bytes);
  if (one)
    return ts_error_hint(&c->err,
                         "write dist.shard(%s, mesh, %s) before it, or dist.hidden(\"allow\")",
                         operand, spec);
  return ts_error_hint(&c->err, "write %s = %s:reshard%s before it, or dist.hidden(\"allow\")",
                       operand, operand, spec);
}
