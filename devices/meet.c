/* See devices/meet.h. */
#include "devices/meet.h"

#include <pthread.h>

static void *event[TS_MAX_DEVICES]; /* one a device, made by its first meeting */
static signed char way[TS_MAX_DEVICES]
                      [TS_MAX_DEVICES]; /* 0: nobody has asked; -1: there is none */

bool ts_device_reaches(TsDevice *d, TsDevice *other) {
  signed char *known = &way[d->index][other->index];
  if (!*known) *known = d->reach && d->kind == other->kind && d->reach(d, other) ? 1 : -1;
  return *known > 0;
}

static bool has_order(const TsDevice *d) { return d->run && d->run->event_record; }

int ts_device_meet(int n, TsDevice *const *list, TsError *err) {
  if (n < 2) return 0;
  for (int i = 0; i < n; i++) {
    const TsDeviceRun *run = list[i]->run;
    void **e = &event[list[i]->index];
    if (!has_order(list[i])) continue; /* its calls return when they are done */
    if (!*e && run->event_new(list[i], e, err)) return -1;
    if (run->event_record(list[i], *e, NULL, err)) return -1;
  }
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      if (k != i && has_order(list[i]) && has_order(list[k]) &&
          list[i]->run->stream_wait(list[i], NULL, event[list[k]->index], err))
        return -1;
  return 0;
}

static pthread_mutex_t together = PTHREAD_MUTEX_INITIALIZER;

void ts_device_together(bool on) {
  if (on)
    pthread_mutex_lock(&together);
  else
    pthread_mutex_unlock(&together);
}
