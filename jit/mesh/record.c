/* See jit/mesh/record.h. Copies, events and second orders of devices are no launches: what was
 * put off goes before them, and the rest of the run goes call by call; so it is where memory is
 * short. Where runs are cut so again and again, pieces keep records of their own instead, for
 * some runs, then for twice as many: memory may be there meanwhile, or the pieces' kernels,
 * which take less of it. */
#include "jit/mesh/record.h"

#include "devices/device.h"
#include "jit/launch/launch.h"
#include "vm/core/offload.h"
#include "vm/mesh/parts.h"

enum { CUTS = 3, APART = 8, DOUBLED = 7 };

/* The GPUs of all parts, each once; 0: there are others among them. */
static int devices_of(const TsMeshRun *r, TsDevice **list) {
  const TsMesh *m = r->plan->space.real;
  int n = 0;
  for (int p = 0; p < m->n; p++) {
    int i = 0;
    if (ts_mesh_away(m, p) || m->device[p] < 0) return 0;
    TsDevice *d = ts_device_at(m->device[p]);
    if (d->host_memory || !d->runs_kernels) return 0;
    while (i < n && list[i] != d) i++;
    if (i == n) list[n++] = d;
  }
  return n;
}

bool ts_mesh_record_begin(TsMeshRun *r) {
  TsContext *c = r->c;
  TsDevice *list[TS_MAX_DEVICES];
  if (!c->offload || c->times || c->spans || c->on_host) return false;
  if (r->apart > 0 && r->apart--) return false;
  int n = devices_of(r, list);
  return n > 1 && ts_launch_group_enter(c, n, list, &r->records);
}

int ts_mesh_record_end(TsMeshRun *r) {
  bool whole;
  int failed = ts_launch_group_leave(r->c, &whole);
  r->cuts = whole ? 0 : r->cuts + 1;
  int more = r->cuts - CUTS;
  if (more >= 0) r->apart = APART << (more < DOUBLED ? more : DOUBLED);
  return failed;
}

void ts_mesh_record_free(TsMeshRun *r) { ts_replay_group_free(r->records); }
