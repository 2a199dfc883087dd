/* Launches that are made again and again, as one: graphs of the driver. They are built node by
 * node, each after the one before, which needs no capture of a stream and no rules about what
 * may happen meanwhile; and a node's arguments can be changed. A node behind one other may
 * begin before that one ends, as launches in the device's order may. */
#include <stdlib.h>
#include <string.h>

#include "devices/driver/driver.h"

typedef struct TsDriverRecord {
  void *graph, *exec;
  void **node;
  int n, cap;
  void **after; /* of the next launch, if that was said */
  int nafter;
  bool said;
} TsDriverRecord;

static void drop(const TsDriver *v, TsDriverRecord *r) {
  if (!r) return;
  if (r->exec) v->exec_free(r->exec);
  if (r->graph) v->graph_free(r->graph);
  free(r->node);
  free(r->after);
  free(r);
}

int ts_driver_record_begin(TsDevice *d, TsError *err) {
  TsDriven *s = d->state;
  TsDriverRecord *r = calloc(1, sizeof *r);
  if (!r) return ts_error_memory(err);
  int failed = ts_driver_enter(d, err) ? -1 : s->driver->graph_new(&r->graph, 0);
  if (!failed) {
    s->recording = r;
    return 0;
  }
  drop(s->driver, r);
  return failed < 0 ? -1 : ts_driver_fail(d, failed, s->driver->name.graph_new, err);
}

static int add(TsDevice *d, TsDriverRecord *r, const TsLaunch *l, TsError *err) {
  if (r->n == r->cap) {
    int cap = r->cap ? 2 * r->cap : 32;
    void **more = realloc(r->node, sizeof *more * (size_t)cap);
    if (!more) return ts_error_memory(err);
    r->node = more, r->cap = cap;
  }
  void *const *after = r->said ? r->after : r->n ? &r->node[r->n - 1] : NULL;
  size_t nafter = r->said ? (size_t)r->nafter : r->n > 0;
  TsLaunch own = *l;
  own.early = nafter == 1 && ((l->early && !r->said) || (l->dependent && d->dependent));
  r->said = d->dependent = false;
  if (ts_driver_of(d)->node_new(d, &r->node[r->n], r->graph, after, nafter, &own, err))
    return -1;
  r->n++;
  return 0;
}

int ts_driver_record_add(TsDevice *d, const TsLaunch *l, TsError *err) {
  TsDriven *s = d->state;
  if (ts_driver_enter(d, err)) return -1;
  if (s->recording) return add(d, s->recording, l, err);
  if (s->patch_at >= s->patching->n)
    return ts_error_set(err, TS_ERR_device, "%s: a record has no launch %d", d->name,
                        s->patch_at);
  void *node = s->patching->node[s->patch_at++];
  return s->driver->node_set(d, s->patching->exec, node, l, err);
}

int ts_driver_record_after(TsDevice *d, int n, const int *launch, TsError *err) {
  TsDriverRecord *r = ((TsDriven *)d->state)->recording;
  void **list = realloc(r->after, sizeof *list * ((size_t)n + 1));
  if (!list) return ts_error_memory(err);
  for (int i = 0; i < n; i++) list[i] = r->node[launch[i]];
  r->after = list, r->nafter = n, r->said = true;
  return 0;
}

int ts_driver_record_end(TsDevice *d, void **out, TsError *err) {
  TsDriven *s = d->state;
  TsDriverRecord *r = s->recording;
  s->recording = NULL;
  *out = NULL;
  if (!ts_driver_enter(d, err) && !s->driver->exec_new(d, &r->exec, r->graph, err)) {
    *out = r;
    return 0;
  }
  drop(s->driver, r);
  return -1;
}

int ts_driver_record_patch(TsDevice *d, void *record, int first, TsError *err) {
  TsDriven *s = d->state;
  (void)err;
  s->patching = record;
  s->patch_at = first;
  return 0;
}

int ts_driver_record_launch(TsDevice *d, void *record, TsError *err) {
  if (ts_driver_enter(d, err)) return -1;
  ts_driver_queue(d);
  TS_DRIVER(d, err, graph_launch, ((TsDriverRecord *)record)->exec,
            ((TsDriven *)d->state)->work);
  return 0;
}

void ts_driver_record_free(TsDevice *d, void *record) {
  TsError ignored;
  if (record && !ts_driver_enter(d, &ignored)) drop(ts_driver_of(d), record);
}
