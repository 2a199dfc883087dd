/* See jit/launch/replay_areas.h. */
#include "jit/launch/replay_areas.h"

typedef struct Area {
  void *at;
  int64_t nbytes;
} Area;

typedef struct Areas {
  Area area[TS_REPLAY_AREAS];
  int holders;
  unsigned moved;
} Areas;

static Areas all[TS_MAX_DEVICES];

void ts_replay_areas_hold(TsDevice *d) { all[d->index].holders++; }

static void give_back(TsDevice *d, Area *a) {
  if (a->at) d->free(d, a->at, a->nbytes);
  *a = (Area){.at = NULL};
}

void ts_replay_areas_drop(TsDevice *d) {
  Areas *s = &all[d->index];
  if (--s->holders) return;
  for (int i = 0; i < TS_REPLAY_AREAS; i++) give_back(d, &s->area[i]);
}

void *ts_replay_area(TsDevice *d, int i, int64_t nbytes, TsError *err) {
  Areas *s = &all[d->index];
  Area *a = &s->area[i];
  if (a->at && a->nbytes >= nbytes) return a->at;
  give_back(d, a);
  s->moved++;
  if ((a->at = d->alloc(d, nbytes, err))) a->nbytes = nbytes;
  return a->at;
}

unsigned ts_replay_areas_moved(const TsDevice *d) { return all[d->index].moved; }
