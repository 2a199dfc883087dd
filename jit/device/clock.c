/* Clocks of devices that count ticks of a length that their drivers do not all say: the first and
 * the last launch that were recorded tell how many there are in the host's time between them. See
 * jit/device/marks.h. The thread of the context alone launches, so nothing here is locked. */
#include "jit/device/marks.h"

/* By less the moments at which the host saw the ends are too rough. */
enum { LEAST_NSEC = 50000000 };

static struct {
  const TsDevice *d;
  int64_t nsec[2];
  uint64_t tick[2];
} seen[TS_MAX_DEVICES];

void ts_marks_clock(const TsDevice *d, int64_t now, const TsGpuRecord *r, int64_t n) {
  uint64_t last = 0;
  int i = 0;
  for (int64_t k = 0; k < n; k++)
    if (r[k].ended_ns > last) last = r[k].ended_ns;
  while (i < TS_MAX_DEVICES && seen[i].d && seen[i].d != d) i++;
  if (!last || i == TS_MAX_DEVICES) return;
  if (!seen[i].d || last < seen[i].tick[0]) /* the device was reset */
    seen[i].d = d, seen[i].nsec[0] = now, seen[i].tick[0] = last;
  seen[i].nsec[1] = now, seen[i].tick[1] = last;
}

double ts_marks_tick_nsec(const TsDevice *d) {
  for (int i = 0; i < TS_MAX_DEVICES; i++) {
    int64_t nsec = seen[i].nsec[1] - seen[i].nsec[0];
    uint64_t ticks = seen[i].tick[1] - seen[i].tick[0];
    if (seen[i].d == d && nsec >= LEAST_NSEC && ticks) return (double)nsec / (double)ticks;
  }
  return 0;
}

void ts_marks_unwrap(TsGpuRecord *r, TsGpuTurn *list, uint32_t room, int bits) {
  uint32_t n = ts_gpu_record_turns(r, room), low = (uint32_t)(((uint64_t)1 << bits) - 1);
  uint32_t last = (uint32_t)r->begun, at = last;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t now = list[i].at;
    list[i].at = at += (now - last) & low;
    last = now;
  }
  r->ended = r->begun + (n ? at - (uint32_t)r->begun + (((uint32_t)r->ended - last) & low) : 0);
}
