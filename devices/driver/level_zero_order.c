/* Streams and events of Level Zero.
 *
 * A stream is an immediate command list: what is appended begins at once, in order; with
 * drivers before the interface's version 1.7 a barrier behind each command makes the order. An
 * event is signalled once and then has to be reset, while ours is recorded again and again, and
 * whoever waited for an earlier record still does. So it is several of theirs, taken by turns:
 * one that comes up again is reset once nobody can wait for it any more. */
#include <stdlib.h>
#include <string.h>

#include "devices/driver/level_zero_api.h"

enum { TURNS = 16 };
static const uint64_t FOREVER = UINT64_MAX;

typedef struct Event {
  pthread_mutex_t lock; /* one thread records, another one may wait */
  void *context, *pool, *at[TURNS];
  bool recorded[TURNS], waited[TURNS]; /* waited: by a list */
  int now;                             /* -1: nothing was recorded */
  bool timed;
} Event;

/* All devices of the driver see it: they wait for one another. */
ZeResult ts_ze_pool_new(unsigned flags, uint32_t n, void **pool) {
  ZePoolDesc desc = {{ZE_TYPE_POOL_DESC, NULL}, ZE_POOL_HOST_VISIBLE | flags, n};
  return ZE_DO(zeEventPoolCreate, ts_ze_here()->context, &desc, 0, NULL, pool);
}

ZeResult ts_ze_place_new(void *pool, uint32_t i, void **event) {
  ZeEventDesc desc = {{ZE_TYPE_EVENT_DESC, NULL}, i, ZE_SCOPE_HOST, ZE_SCOPE_HOST};
  return ZE_DO(zeEventCreate, pool, &desc, event);
}

/* ---- streams */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of which streams devices have */

/* A barrier that could not be had is asked for again. */
void *ts_ze_append(TsZeStream *s) {
  pthread_mutex_lock(&s->lock);
  if (s->open) s->open = ts_ze.zeCommandListAppendBarrier(s->list, NULL, 0, NULL) != 0;
  return s->list;
}

ZeResult ts_ze_appended(TsZeStream *s, ZeResult code) {
  if (!code && !ts_ze_here()->in_order) {
    code = ZE_DO(zeCommandListAppendBarrier, s->list, NULL, 0, NULL);
    s->open = code != 0;
  }
  pthread_mutex_unlock(&s->lock);
  return code;
}

/* Who waits has it while it appends. */
static void lock_new(pthread_mutex_t *at) {
  pthread_mutexattr_t how;
  pthread_mutexattr_init(&how);
  pthread_mutexattr_settype(&how, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(at, &how);
  pthread_mutexattr_destroy(&how);
}

static void drop_stream(TsZeStream *s) {
  if (s->list) ts_ze.zeCommandListDestroy(s->list);
  if (s->done) ts_ze.zeEventDestroy(s->done);
  if (s->pool) ts_ze.zeEventPoolDestroy(s->pool);
  pthread_mutex_destroy(&s->lock);
  free(s);
}

static ZeResult stream_new(void **stream, unsigned priority) {
  TsZe *d = ts_ze_here();
  TsZeStream *s = calloc(1, sizeof *s);
  if (!s) return ts_ze_noted("malloc", ZE_OUT_OF_HOST_MEMORY);
  lock_new(&s->lock);
  ZeQueueDesc desc = {.head = {ZE_TYPE_QUEUE_DESC, NULL},
                      .ordinal = d->compute,
                      .flags = d->in_order ? ZE_QUEUE_IN_ORDER : 0,
                      .mode = ZE_MODE_ASYNCHRONOUS,
                      .priority = priority};
  ZeResult code = ZE_DO(zeCommandListCreateImmediate, d->context, d->device, &desc, &s->list);
  if (!code) code = ts_ze_pool_new(0, 1, &s->pool);
  if (!code) code = ts_ze_place_new(s->pool, 0, &s->done);
  if (code) return drop_stream(s), code;
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

/* What a failure leaves behind, the next one clears away. */
ZeResult ts_ze_stream_wait(void *stream) {
  TsZeStream *s = stream;
  void *list = ts_ze_append(s);
  if (s->unsure) ts_ze.zeEventHostReset(s->done);
  ZeResult code = ZE_DO(zeCommandListAppendSignalEvent, list, s->done);
  s->unsure = s->open = !code;
  if (!code) code = ZE_DO(zeEventHostSynchronize, s->done, FOREVER);
  if (!code) {
    s->open = false; /* nothing comes before what follows */
    code = ZE_DO(zeEventHostReset, s->done);
    s->unsure = code != 0;
  }
  pthread_mutex_unlock(&s->lock);
  return code;
}

void ts_ze_unsignal(TsZeStream *s, void *event) {
  TsZeFailed why = ts_ze_failed;
  ts_ze_stream_wait(s);
  ts_ze.zeEventHostReset(event);
  ts_ze_failed = why;
}

ZeResult ts_ze_signal(TsZeStream *s, void *event) {
  ZeResult code = ZE_APPEND(s, zeCommandListAppendSignalEvent, event);
  if (code) ts_ze_unsignal(s, event);
  return code;
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

/* Those that other threads append to as well. */
static ZeResult wait_all(const TsZe *d) {
  ZeResult code = 0;
  pthread_mutex_lock(&lock);
  for (TsZeStream *s = d->streams; s && !code; s = s->next) code = ts_ze_stream_wait(s);
  pthread_mutex_unlock(&lock);
  return code;
}

ZeResult ts_ze_synchronize(void) { return wait_all(ts_ze_here()); }

/* ---- events */
ZeResult ts_ze_event_free(void *event) {
  Event *e = event;
  for (int i = 0; i < TURNS; i++)
    if (e->at[i]) ts_ze.zeEventDestroy(e->at[i]);
  if (e->pool) ts_ze.zeEventPoolDestroy(e->pool);
  pthread_mutex_destroy(&e->lock);
  free(e);
  return 0;
}

ZeResult ts_ze_event_new(void **event, unsigned flags) {
  Event *e = calloc(1, sizeof *e);
  if (!e) return ts_ze_noted("malloc", ZE_OUT_OF_HOST_MEMORY);
  pthread_mutex_init(&e->lock, NULL);
  e->context = ts_ze_here()->context;
  e->now = -1, e->timed = flags == TS_EVENT_TIMED;
  ZeResult code = ts_ze_pool_new(e->timed ? ZE_POOL_TIMESTAMP : 0, TURNS, &e->pool);
  for (uint32_t i = 0; i < TURNS && !code; i++) code = ts_ze_place_new(e->pool, i, &e->at[i]);
  if (code) return ts_ze_event_free(e), code;
  *event = e;
  return 0;
}

/* The lists that wait may be of any device of the driver; those of another one's were waited
 * for by the host. */
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
  pthread_mutex_lock(&e->lock);
  int next = (e->now + 1) % TURNS;
  ZeResult code = forget(e, next);
  if (!code) code = ts_ze_signal(stream, e->at[next]);
  if (!code) e->now = next, e->recorded[next] = true;
  pthread_mutex_unlock(&e->lock);
  return code;
}

ZeResult ts_ze_stream_after(void *stream, void *event, unsigned flags) {
  Event *e = event;
  ZeResult code = 0;
  (void)flags;
  if (e->context != ts_ze_here()->context) return ts_ze_event_wait(event);
  pthread_mutex_lock(&e->lock);
  if (e->now >= 0) {
    e->waited[e->now] = true;
    code = ZE_APPEND(stream, zeCommandListAppendWaitOnEvents, 1, &e->at[e->now]);
  }
  pthread_mutex_unlock(&e->lock);
  return code;
}

ZeResult ts_ze_event_wait(void *event) {
  Event *e = event;
  pthread_mutex_lock(&e->lock);
  void *at = e->now < 0 ? NULL : e->at[e->now];
  pthread_mutex_unlock(&e->lock);
  return at ? ZE_DO(zeEventHostSynchronize, at, FOREVER) : 0;
}

ZeResult ts_ze_event_msec(float *msec, void *from, void *to) {
  const Event *a = from, *b = to;
  const TsZe *s = ts_ze_here();
  ZeTimes begin, end;
  uint32_t bits = s->properties.kernel_timer_bits;
  uint64_t mask = bits && bits < 64 ? ((uint64_t)1 << bits) - 1 : UINT64_MAX;
  if (a->now < 0 || b->now < 0) return ts_ze_noted("zeEventQueryKernelTimestamp", ZE_NOT_READY);
  ZeResult code = ZE_DO(zeEventQueryKernelTimestamp, a->at[a->now], &begin);
  if (!code) code = ZE_DO(zeEventQueryKernelTimestamp, b->at[b->now], &end);
  if (code) return code;
  uint64_t ticks = (end.global[1] - begin.global[1]) & mask;
  *msec = (float)((double)ticks * (double)s->properties.timer * 1e-6);
  return 0;
}
