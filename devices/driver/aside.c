/* The second order of a GPU (devices/aside.h): a stream that takes the place of the work stream
 * for a while. It is made by its first use, and of a higher priority, so that its few blocks
 * find a place as soon as a block of the other stream ends. Events of the last sections are
 * kept; who rejoins an older one waits for the oldest of these, which comes behind it. */
#include <stdlib.h>
#include <string.h>

#include "devices/driver/driver.h"

/* A block that a section has freed: work of the device's own order may have it behind the
 * section. */
typedef struct TsDriverLate {
  void *block;
  int64_t nbytes;
  uint64_t ticket; /* 0: of the section that goes on */
} Late;

static int make(TsDevice *d, TsError *err) {
  TsDriven *s = d->state;
  if (ts_driver_enter(d, err)) return -1;
  if (!s->side)
    TS_DRIVER(d, err, stream_first, &s->side, TS_STREAM_NON_BLOCKING, TS_STREAM_FIRST);
  if (!s->turned) TS_DRIVER(d, err, event_new, &s->turned, TS_EVENT_UNTIMED);
  for (int i = 0; i < TS_DRIVER_NSECTION; i++)
    if (!s->section[i].at) TS_DRIVER(d, err, event_new, &s->section[i].at, TS_EVENT_UNTIMED);
  return 0;
}

/* Nothing of the new order may go ahead of the end of what the other one was given last. */
static void turn(TsDevice *d, bool aside) {
  TsDriven *s = d->state;
  ts_driver_queue(d);
  s->aside = aside;
  if (aside) s->own = s->work;
  s->work = aside ? s->side : s->own;
}

int ts_driver_aside_begin(TsDevice *d, TsError *err) {
  TsDriven *s = d->state;
  if (s->aside) TS_BUG("%s: a section begins within another one", d->name);
  if (make(d, err)) return -1;
  TS_DRIVER(d, err, event_record, s->turned, s->work);
  TS_DRIVER(d, err, stream_after, s->side, s->turned, 0);
  turn(d, true);
  return 0;
}

int ts_driver_aside_end(TsDevice *d, uint64_t ticket, TsError *err) {
  TsDriven *s = d->state;
  int at = (int)(s->nsection++ % TS_DRIVER_NSECTION);
  turn(d, false);
  for (int i = s->nlate; i-- > 0 && !s->late[i].ticket;) s->late[i].ticket = ticket;
  s->section[at].ticket = ticket;
  if (ts_driver_enter(d, err)) return -1;
  TS_DRIVER(d, err, event_record, s->section[at].at, s->side);
  return 0;
}

static void let_go(TsDevice *d, uint64_t upto) {
  TsDriven *s = d->state;
  int n = 0;
  while (n < s->nlate && s->late[n].ticket && s->late[n].ticket <= upto) n++;
  int left = s->nlate - n;
  s->nlate = 0; /* what is freed below is not kept again */
  bool aside = s->aside;
  s->aside = false;
  for (int i = 0; i < n; i++) ts_driver_free(d, s->late[i].block, s->late[i].nbytes);
  s->aside = aside;
  s->nlate = left;
  memmove(s->late, s->late + n, sizeof *s->late * (size_t)left);
}

/* The section of the ticket, or the first one behind it of which there is an event. */
static int section_of(const TsDriven *s, uint64_t ticket) {
  uint64_t first = s->nsection > TS_DRIVER_NSECTION ? s->nsection - TS_DRIVER_NSECTION : 0;
  for (uint64_t i = first; i < s->nsection; i++)
    if (s->section[i % TS_DRIVER_NSECTION].ticket >= ticket)
      return (int)(i % TS_DRIVER_NSECTION);
  return -1;
}

int ts_driver_aside_rejoin(TsDevice *d, uint64_t ticket, TsError *err) {
  TsDriven *s = d->state;
  int at = section_of(s, ticket);
  if (at < 0 || s->rejoined >= s->section[at].ticket) return 0;
  ts_driver_queue(d);
  int code =
      ts_driver_enter(d, err) ? -1 : s->driver->stream_after(s->work, s->section[at].at, 0);
  if (code) ts_driver_aside_wait(d);
  s->rejoined = s->section[at].ticket;
  let_go(d, s->rejoined);
  return code > 0 ? ts_driver_fail(d, code, s->driver->name.stream_after, err) : code;
}

bool ts_driver_aside_keeps(TsDevice *d, void *block, int64_t nbytes) {
  TsDriven *s = d->state;
  if (!s->aside) return false;
  if (s->nlate == s->caplate) {
    int cap = s->caplate ? 2 * s->caplate : 64;
    Late *more = realloc(s->late, sizeof *more * (size_t)cap);
    if (!more) return s->driver->stream_wait(s->side), false; /* nobody uses it any more */
    s->late = more, s->caplate = cap;
  }
  s->late[s->nlate++] = (Late){block, nbytes, 0};
  return true;
}

void ts_driver_aside_wait(TsDevice *d) {
  TsDriven *s = d->state;
  if (!s->side) return;
  s->driver->stream_wait(s->side);
  if (s->aside) s->driver->stream_wait(s->own);
  for (int i = 0; i < s->nlate; i++)
    if (!s->late[i].ticket) s->late[i].ticket = 1;
  let_go(d, UINT64_MAX);
}

void ts_driver_aside_close(TsDevice *d) {
  TsDriven *s = d->state;
  for (int i = 0; i < TS_DRIVER_NSECTION; i++) {
    if (s->section[i].at) s->driver->event_free(s->section[i].at);
    s->section[i].at = NULL;
  }
  if (s->turned) s->driver->event_free(s->turned);
  if (s->side) s->driver->stream_free(s->side);
  s->turned = s->side = NULL;
}
