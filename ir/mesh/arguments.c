/* See ir/mesh/arguments.h. */
#include "ir/mesh/arguments.h"

#include <string.h>

/* Arguments that are as long as the first one, along their first axis, are batches: what they are split
 * by goes on with micro-batches. */
static bool is_batch(TsSlots *a, int i, const TsLayout *l, int64_t *n) {
  const TsMeta *m = &a->p->g->param[i]->meta;
  if (a->p->space.micro < 0 || a->p->g->bound[i] || !m->ndim || l->block[0]) return false;
  if (!*n) *n = m->dim[0];
  return m->dim[0] == *n;
}

/* Leaves of the layout, or as many as there are pieces. */
static int check_pieces(TsSlots *a, const TsLayout *l) {
  int pieces = ts_layout_pieces(l, 0), devices = pieces / a->p->space.nmicro;
  if (!l->leaves || pieces <= l->leaves) return 0;
  a->failed = true;
  ts_error_set(a->err, TS_ERR_layout,
               "a batch in %d pieces, %d micro-batches on %d device%s, needs so many leaves: "
               "there are %d",
               pieces, a->p->space.nmicro, devices, devices == 1 ? "" : "s", l->leaves);
  return ts_error_hint(a->err, "at most micro = %d, or dist.leaves(%d)", l->leaves / devices,
                       pieces);
}

static const TsLayout *param_layout(TsSlots *a, int i, int64_t *batch) {
  const TsMeshSpace *s = &a->p->space;
  const TsMeta *m = &a->p->g->param[i]->meta;
  const TsLayout *l =
      m->layout ? ts_layout_of(m) : ts_layout_replicated(s->real, m->ndim, a->err);
  if (!l || l->partial) return NULL;
  for (int d = 0; d < l->ndim; d++)
    if (s->axis >= 0 && memchr(l->axis[d], s->axis, l->naxis[d])) {
      ts_error_set(a->err, TS_ERR_layout,
                   "%s is split by mesh axis %s, along which the pipeline lies",
                   a->p->g->param[i]->name ? a->p->g->param[i]->name : "an argument",
                   s->real->axis[s->axis]);
      return NULL;
    }
  if (s->axis >= 0 && l->pin[s->axis]) a->p->slot[a->p->param[i]].place = l->pin[s->axis] - 1;
  l = ts_space_onto(l, s->mesh, a->err);
  if (!l || !(a->p->batch[i] = is_batch(a, i, l, batch))) return l;
  TsLayout made = *l;
  if (!m->layout && a->leaves) made.leaves = a->leaves;
  made.axis[0][made.naxis[0]++] = (uint8_t)s->micro;
  return check_pieces(a, &made) ? NULL : ts_layout_make(&made, a->err);
}

void ts_arguments_add(TsSlots *a) {
  const TsGraph *g = a->p->g;
  int64_t batch = 0;
  for (int i = 0; i < g->nparam && !a->failed; i++) {
    TsMeta m = g->param[i]->meta;
    const TsLayout *all = ts_layout_replicated(a->p->space.mesh, m.ndim, a->err);
    m.layout = all ? all->id : 0;
    if ((a->p->param[i] = ts_slots_new(a, &m, -1, -1, -1)) < 0) return;
    const TsLayout *l = all ? param_layout(a, i, &batch) : NULL;
    if (!l) {
      a->failed = true;
      return;
    }
    TsMeshSlot *s = &a->p->slot[a->p->param[i]];
    s->meta.layout = l->id, s->micro = ts_space_batch(&a->p->space, l) >= 0;
    ts_slots_know(a, g->param[i], a->p->param[i]);
  }
}

/* Results and updates are read behind the last group. place: where it has to be, -1: where it is. */
static int final_slot(TsSlots *a, TsVal v, const TsLayout *l, int place) {
  const TsMeshSpace *s = &a->p->space;
  int home = ts_slots_home(a, v), at = place >= 0 ? place : a->p->slot[home].place;
  TsSlotReader r = {.place = at < 0 ? 0 : at, .phase = TS_PHASE_update};
  for (int i = 0; i < a->p->ngroup; i++)
    if (a->p->group[i].place == r.place) r.chunk = a->p->group[i].chunk;
  l = l ? ts_space_onto(l, s->mesh, a->err)
        : ts_layout_replicated(s->mesh, v->meta.ndim, a->err);
  int slot = l ? ts_slots_under(a, &r, v, l) : -1;
  if (slot < 0) return a->failed = true, -1;
  a->p->slot[slot].read = true;
  ts_slots_give_out(a, slot);
  return slot;
}

/* A parameter that is at all places gets its new value at all. */
int ts_arguments_update(TsSlots *a, int u) {
  const TsUpdate *of = &a->p->g->update[u];
  const TsMeshSlot *p = &a->p->slot[a->p->param[of->param]];
  const TsLayout *l = ts_layout_of(&a->p->g->param[of->param]->meta);
  int place = p->place, slot = final_slot(a, of->value, l, place);
  if (slot < 0 || place >= 0 || a->p->space.nplace == 1 || a->p->slot[slot].place < 0)
    return slot;
  TsMeta m = a->p->slot[slot].meta;
  TsSlotReader r = {.phase = TS_PHASE_update, .place = a->p->slot[slot].place};
  int level = a->p->slot[slot].group >= 0 ? a->p->group[a->p->slot[slot].group].level + 1
                                          : a->updates + a->p->ngroup;
  int all = ts_slots_new(a, &m, -1, -1, -1);
  if (all >= 0 && ts_slots_join(a, TS_JOIN_send, &r, level, slot, all))
    a->p->slot[all].read = true;
  return all;
}

int ts_arguments_result(TsSlots *a, int i) {
  TsVal v = a->p->g->result[i];
  return final_slot(a, v, ts_layout_of(&v->meta), -1);
}
