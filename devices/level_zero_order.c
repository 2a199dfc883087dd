/* Streams and events of Level Zero.
 *
 * A stream is an immediate command list: what is appended begins at once, in order; with
 * drivers before the interface's version 1.7 a barrier behind each command makes the order. An
 * event is signalled once and then has to be reset, while ours is recorded again and again, and
 * whoever waited for an earlier record still does. So it is several of theirs, taken by turns:
 * one that comes up again is reset once nobody can wait for it any more. */
#include <stdlib.h>
#include <string.h>

#include "devices/level_zero_api.h"

enum { TURNS = 16 };
static const uint64_t FOREVER = UINT64_MAX;

typedef struct Event {
  void *pool, *at[TURNS];
  bool recorded[TURNS], waited[TURNS]; /* waited: by a list */
  int now;                             /* -1: nothing was recorded */
  bool timed;
} Event;

static ZeResult pool_new(const TsZe *s, unsigned flags, uint32_t n, void **pool) {
  void *device = s->device;
  ZePoolDesc desc = {{ZE_TYPE_POOL_DESC, NULL}, ZE_POOL_HOST_VISIBLE | flags, n};
  return ZE_DO(zeEventPoolCreate, s->context, &desc, 1, &device, pool);
}

static ZeResult place_new(void *pool, uint32_t i, void **event) {
  ZeEventDesc desc = {{ZE_TYPE_EVENT_DESC, NULL}, i, ZE_SCOPE_HOST, ZE_SCOPE_HOST};
  return ZE_DO(zeEventCreate, pool, &desc, event);
}

/* ---- streams */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the lists of all devices */

ZeResult ts_ze_ordered(TsZeStream *s, ZeResult code) {
  if (code || ts_ze_here()->in_order) return code;
  return ZE_DO(zeCommandListAppendBarrier, s->list, NULL, 0, NULL);
}

static void drop_stream(TsZeStream *s) {
  if (s->list) ZE_DO(zeCommandListDestroy, s->list);
  if (s->done) ZE_DO(zeEventDestroy, s->done);
  if (s->pool) ZE_DO(zeEventPoolDestroy, s->pool);
  free(s);
}

static ZeResult stream_new(void **stream, unsigned priority) {
  TsZe *d = ts_ze_here();
  TsZeStream *s = calloc(1, sizeof *s);
  if (!s) return ZE_OUT_OF_HOST_MEMORY;
  ZeQueueDesc desc = {.head = {ZE_TYPE_QUEUE_DESC, NULL},
                      .ordinal = d->compute,
                      .flags = d->in_order ? ZE_QUEUE_IN_ORDER : 0,
                      .mode = ZE_MODE_ASYNCHRONOUS,
                      .priority = priority};
  ZeResult code = ZE_DO(zeCommandListCreateImmediate, d->context, d->device, &desc, &s->list);
  if (!code) code = pool_new(d, 0, 1, &s->pool);
  if (!code) code = place_new(s->pool, 0, &s->done);
  if (code) return drop_stream(s), code;
  s->thread = pthread_self();
  pthread_mutex_lock(&lock);
  s->next = d->streams;
  d->streams = s;
  pthread_mutex_unlock(&lock);
  *stream = s;
  return 0;
}

ZeResult ts_ze_stream_new(void **stream, unsigned flags) {
  (void)flags; /* there is no other kind */
  return stream_new(stream, 0);
}

ZeResult ts_ze_stream_first(void **stream, unsigned flags, int priority) {
  (void)flags;
  return stream_new(stream, priority < 0 ? ZE_PRIORITY_HIGH : 0);
}

ZeResult ts_ze_stream_wait(void *stream) {
  TsZeStream *s = stream;
  ZeResult code = ZE_DO(zeCommandListAppendSignalEvent, s->list, s->done);
  if (!code) code = ZE_DO(zeEventHostSynchronize, s->done, FOREVER);
  ZeResult reset = ZE_DO(zeEventHostReset, s->done);
  return code ? code : reset;
}

ZeResult ts_ze_stream_free(void *stream) {
  TsZeStream **at = &ts_ze_here()->streams;
  ZeResult code = ts_ze_stream_wait(stream);
  pthread_mutex_lock(&lock);
  while (*at && *at != stream) at = &(*at)->next;
  if (*at) *at = (*at)->next;
  pthread_mutex_unlock(&lock);
  drop_stream(stream);
  return code;
}

/* Another thread waits for its own. */
static ZeResult wait_all(const TsZe *d) {
  ZeResult code = 0;
  pthread_mutex_lock(&lock);
  for (TsZeStream *s = d->streams; s && !code; s = s->next)
    if (pthread_equal(s->thread, pthread_self())) code = ts_ze_stream_wait(s);
  pthread_mutex_unlock(&lock);
  return code;
}

ZeResult ts_ze_synchronize(void) { return wait_all(ts_ze_here()); }

/* ---- events */
ZeResult ts_ze_event_free(void *event) {
  Event *e = event;
  for (int i = 0; i < TURNS; i++)
    if (e->at[i]) ZE_DO(zeEventDestroy, e->at[i]);
  if (e->pool) ZE_DO(zeEventPoolDestroy, e->pool);
  free(e);
  return 0;
}

ZeResult ts_ze_event_new(void **event, unsigned flags) {
  Event *e = calloc(1, sizeof *e);
  if (!e) return ZE_OUT_OF_HOST_MEMORY;
  e->now = -1, e->timed = flags == TS_EVENT_TIMED;
  ZeResult code = pool_new(ts_ze_here(), e->timed ? ZE_POOL_TIMESTAMP : 0, TURNS, &e->pool);
  for (uint32_t i = 0; i < TURNS && !code; i++) code = place_new(e->pool, i, &e->at[i]);
  if (code) return ts_ze_event_free(e), code;
  *event = e;
  return 0;
}

/* The lists that wait may be of any device. */
static ZeResult forget(Event *e, int i) {
  ZeResult code = e->recorded[i] ? ZE_DO(zeEventHostSynchronize, e->at[i], FOREVER) : 0;
  for (int k = 0; k < TS_MAX_DEVICES && !code && e->waited[i]; k++) {
    const TsDevice *d = ts_device_at(k);
    if (d->state && d->opened && !strcmp(d->kind, "level_zero")) code = wait_all(d->state);
  }
  if (!code && e->recorded[i]) code = ZE_DO(zeEventHostReset, e->at[i]);
  if (!code) e->recorded[i] = e->waited[i] = false;
  return code;
}

ZeResult ts_ze_event_record(void *event, void *stream) {
  Event *e = event;
  TsZeStream *s = stream;
  int next = (e->now + 1) % TURNS;
  ZeResult code = forget(e, next);
  if (!code)
    code = ts_ze_ordered(s, ZE_DO(zeCommandListAppendSignalEvent, s->list, e->at[next]));
  if (!code) e->now = next, e->recorded[next] = true;
  return code;
}

ZeResult ts_ze_stream_after(void *stream, void *event, unsigned flags) {
  TsZeStream *s = stream;
  Event *e = event;
  (void)flags;
  if (e->now < 0) return 0;
  e->waited[e->now] = true;
  return ts_ze_ordered(s, ZE_DO(zeCommandListAppendWaitOnEvents, s->list, 1, &e->at[e->now]));
}

ZeResult ts_ze_event_wait(void *event) {
  const Event *e = event;
  return e->now < 0 ? 0 : ZE_DO(zeEventHostSynchronize, e->at[e->now], FOREVER);
}

ZeResult ts_ze_event_msec(float *msec, void *from, void *to) {
  const Event *a = from, *b = to;
  const TsZe *s = ts_ze_here();
  ZeTimes begin, end;
  uint32_t bits = s->properties.kernel_timer_bits;
  uint64_t mask = bits && bits < 64 ? ((uint64_t)1 << bits) - 1 : UINT64_MAX;
  if (a->now < 0 || b->now < 0) return ZE_NOT_READY;
  ZeResult code = ZE_DO(zeEventQueryKernelTimestamp, a->at[a->now], &begin);
  if (!code) code = ZE_DO(zeEventQueryKernelTimestamp, b->at[b->now], &end);
  if (code) return code;
  uint64_t ticks = (end.global[1] - begin.global[1]) & mask;
  *msec = (float)((double)ticks * (double)s->properties.timer * 1e-6);
  return 0;
}
