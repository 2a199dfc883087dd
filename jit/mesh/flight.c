/* See jit/mesh/flight.h. The host gives work in one order, that of the plan; a device has two, so what
 * stands in the second one is what the plan has started. All that devices send while something is on its
 * way goes there, one behind the other: two kernels that wait for other devices are never on a
 * device at a time, where each might keep the other's partner from it. */
#include "jit/mesh/flight.h"

#include <stdlib.h>
#include <string.h>

#include "devices/aside.h"
#include "devices/device.h"
#include "vm/core/offload.h"
#include "vm/mesh/parts.h"

int ts_mesh_overlap_of(TsContext *c, const TsGraph *g, TsOverlap *o) {
  const char *word = getenv("TESSERA_OVERLAP"), *kind = "cuda"; /* devices that are not there */
  TsOverlapAsked asked = c->overlap;
  if (word && *word && strcmp(word, "on") && strcmp(word, "off"))
    return ts_error_set(&c->err, TS_ERR_value,
                        "TESSERA_OVERLAP is \"on\" or \"off\", not '%.40s'", word);
  if (word && *word && !asked.on) asked.on = strcmp(word, "on") ? -1 : 1;
  const TsMesh *m = NULL;
  for (int i = 0; i < g->nparam && !m; i++)
    m = ts_layout_of(&g->param[i]->meta) ? ts_layout_of(&g->param[i]->meta)->mesh : NULL;
  bool away = false; /* what others' devices are is not known, and all plan the same */
  bool mixed = false; /* what one kind has made reaches another by the order of its own work */
  for (int p = 0; m && p < m->n; p++) {
    bool known = !ts_mesh_away(m, p) && m->device[p] >= 0 && m->device[0] >= 0;
    away |= ts_mesh_away(m, p);
    mixed |= known && !away &&
             strcmp(ts_device_at(m->device[p])->kind, ts_device_at(m->device[0])->kind) != 0;
  }
  if (mixed) asked.on = -1;
  if (away)
    kind = "away";
  else if (m && m->device[0] >= 0)
    kind = ts_device_at(m->device[0])->kind;
  *o = ts_overlap_of(kind, &asked);
  return 0;
}

/* The devices of a join are added to the n of the list, each once: how many these are then; -1: some are of
 * other processes. */
static int add_devices(const TsMeshRun *r, const TsMeshStep *s, int n, TsDevice **list) {
  const TsMeshSpace *space = &r->plan->space;
  const TsMeshJoin *j = &r->plan->join[s->at];
  int from = r->plan->slot[j->from].place, to = r->plan->slot[j->to].place;
  for (int place = 0; place < space->nplace; place++)
    for (int p = 0; p < space->n; p++) {
      int part = ts_space_part(space, place, p), k = 0;
      if (from >= 0 && to >= 0 && place != from && place != to) continue;
      if (ts_mesh_away(space->real, part) || space->real->device[part] < 0) return -1;
      TsDevice *d = ts_device_at(space->real->device[part]);
      while (k < n && list[k] != d) k++;
      if (k == n) list[n++] = d;
    }
  return n;
}

/* Of n joins, which may be at several places of a pipeline. */
static int devices_of(const TsMeshRun *r, int n, const TsMeshStep *s, TsDevice **list) {
  int ndevice = 0;
  for (int i = 0; i < n && ndevice >= 0; i++) ndevice = add_devices(r, &s[i], ndevice, list);
  return ndevice;
}

static int flush(TsContext *c) { return c->offload ? c->offload->flush(c, false) : 0; }

/* What the CPU has made of a part, as it does draws, comes to its device by the device's own work, which reads it
 * too and would not wait for a copy that goes beside it. */
static int bring(TsTensor *t) {
  int device = t ? t->meta.device : 0;
  if (!device || device >= TS_DEVICE_MESH || !ts_tensor_numel(t)) return 0;
  bool there = !t->storage->valid || t->storage->valid >> device & 1;
  return there || ts_tensor_read_on(t, device) ? 0 : -1;
}

static int bring_all(TsMeshRun *r, const TsMeshStep *s) {
  const TsMeshSpace *space = &r->plan->space;
  const TsMeshJoin *j = &r->plan->join[s->at];
  int slots = j->nfrom > 1 ? j->nfrom : 1, failed = 0;
  int first = s->k < 0 ? 0 : s->k, last = s->k < 0 ? space->nmicro : s->k + 1;
  for (int i = 0; i < slots; i++)
    for (int place = 0; place < space->nplace; place++)
      for (int p = 0; p < space->n; p++)
        for (int k = first; k < last && !failed; k++)
          failed = bring(*ts_mesh_slot(r, j->from + i, place, p, k));
  return failed;
}

int ts_mesh_aside(TsMeshRun *r, int n, const TsMeshStep *s) {
  TsDevice *list[TS_MAX_DEVICES];
  int ndevice = devices_of(r, n, s, list);
  if (ndevice < 1 || !ts_device_can_aside(ndevice, list)) return 0;
  for (int i = 0; i < n; i++)
    if (bring_all(r, &s[i])) return -1;
  if (flush(r->c) || ts_device_aside_begin(ndevice, list, &r->c->err)) return -1;
  r->c->engines = s->does == TS_STEP_start ? r->plan->overlap.engines : 0;
  return 1;
}

static uint64_t *ticket_of(TsMeshRun *r, const TsMeshStep *s) {
  return &r->flight[s->at * r->plan->space.nmicro + (s->k < 0 ? 0 : s->k)];
}

int ts_mesh_started(TsMeshRun *r, int n, const TsMeshStep *s, int failed) {
  TsDevice *list[TS_MAX_DEVICES];
  TsError own = {0};
  uint64_t ticket;
  int ndevice = devices_of(r, n, s, list);
  r->c->engines = 0;
  if (!failed) failed = flush(r->c);
  int ended = ts_device_aside_end(ndevice, list, &ticket, &own);
  if (ended && !failed) r->c->err = own;
  for (int i = 0; i < n; i++) *ticket_of(r, &s[i]) = ticket;
  r->latest = ticket;
  return failed || ended ? -1 : 0;
}

int ts_mesh_done(TsMeshRun *r, const TsMeshStep *s) {
  TsDevice *list[TS_MAX_DEVICES];
  uint64_t *ticket = ticket_of(r, s), own = *ticket;
  if (!own) return 0; /* it was sent in its place */
  int n = devices_of(r, 1, s, list);
  *ticket = 0;
  if (r->latest == own) r->latest = 0;
  return flush(r->c) || ts_device_aside_rejoin(n, list, own, &r->c->err) ? -1 : 0;
}

/* The error of what failed before stays. */
int ts_mesh_land(TsMeshRun *r) {
  const TsMeshSpace *s = &r->plan->space;
  int n = r->plan->njoin * s->nmicro, failed = 0;
  bool any = false;
  uint64_t last = 0;
  for (int i = 0; i < n; i++) {
    any |= r->flight[i] != 0;
    if (r->flight[i] > last) last = r->flight[i];
    r->flight[i] = 0;
  }
  r->latest = 0;
  if (!any) return 0;
  TsError kept = r->c->err, own = {0};
  failed = flush(r->c);
  if (kept.code) r->c->err = kept;
  for (int p = 0; p < s->real->n; p++) {
    TsDevice *d = ts_mesh_away(s->real, p) || s->real->device[p] < 0
                      ? NULL
                      : ts_device_at(s->real->device[p]);
    if (!d || !d->run || !d->run->aside_rejoin) continue;
    if (!ts_device_aside_rejoin(1, &d, last, &own)) continue;
    if (!kept.code && !failed) r->c->err = own;
    failed = -1;
  }
  return failed;
}
