/* See devices/aside.h. */
#include "devices/aside.h"

#include "devices/flags.h"
#include "devices/meet.h"

bool ts_device_can_aside(int n, TsDevice *const *list) {
  for (int i = 0; i < n; i++) {
    if (!list[i]->run || !list[i]->run->aside_begin) return false;
    for (int k = 0; k < n; k++)
      if (k != i && !ts_device_reaches(list[i], list[k])) return false;
  }
  return n > 0;
}

static uint64_t last; /* ticket */
static uint64_t ended[TS_MAX_DEVICES], joined[TS_MAX_DEVICES];
static bool inside[TS_MAX_DEVICES];

bool ts_device_aside_on(const TsDevice *d) { return inside[d->index]; }
uint64_t ts_device_aside_count(void) { return last; }

bool ts_device_aside_flying(const TsDevice *d) { return ended[d->index] > joined[d->index]; }

int ts_device_aside_begin(int n, TsDevice *const *list, TsError *err) {
  for (int i = 0; i < n; i++) {
    if (!list[i]->run->aside_begin(list[i], err)) {
      inside[list[i]->index] = true;
      continue;
    }
    TsError kept = *err;
    uint64_t ticket;
    ts_device_aside_end(i, list, &ticket, err);
    ts_device_aside_rejoin(i, list, ticket, err);
    *err = kept;
    return -1;
  }
  ts_flags_turn(1);
  return 0;
}

int ts_device_aside_end(int n, TsDevice *const *list, uint64_t *ticket, TsError *err) {
  int failed = 0;
  *ticket = ++last;
  ts_flags_turn(0);
  for (int i = 0; i < n; i++) {
    TsError own = {0};
    ended[list[i]->index] = *ticket, inside[list[i]->index] = false;
    if (!list[i]->run->aside_end(list[i], *ticket, &own)) continue;
    if (!failed) *err = own;
    failed = -1;
  }
  return failed;
}

int ts_device_aside_rejoin(int n, TsDevice *const *list, uint64_t ticket, TsError *err) {
  int failed = 0;
  for (int i = 0; i < n; i++) {
    TsError own = {0};
    int d = list[i]->index;
    uint64_t upto = ticket < ended[d] ? ticket : ended[d]; /* a later one is others' alone */
    if (joined[d] >= upto) continue;
    joined[d] = upto;
    if (!list[i]->run->aside_rejoin(list[i], upto, &own)) continue;
    if (!failed) *err = own;
    failed = -1;
  }
  return failed;
}
