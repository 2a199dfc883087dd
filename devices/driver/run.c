/* Streams, events, and what a driver knows of its code. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/driver/driver.h"
#include "lib/activity.h"

static void *stream_of(TsDevice *d, void *stream) {
  return stream ? stream : ((TsDriven *)d->state)->work;
}

int ts_driver_stream_new(TsDevice *d, void **out, TsError *err) {
  void *stream;
  if (ts_driver_enter(d, err)) return -1;
  TS_DRIVER(d, err, stream_new, &stream, TS_STREAM_NON_BLOCKING);
  *out = stream;
  return 0;
}

void ts_driver_stream_free(TsDevice *d, void *stream) {
  TsError ignored;
  if (stream && !ts_driver_enter(d, &ignored)) ts_driver_of(d)->stream_free(stream);
}

int ts_driver_stream_wait(TsDevice *d, void *stream, void *event, TsError *err) {
  if (ts_driver_enter(d, err)) return -1;
  if (!stream) ts_driver_queue(d);
  TS_DRIVER(d, err, stream_after, stream_of(d, stream), event, 0);
  return 0;
}

int ts_driver_event_new(TsDevice *d, void **out, TsError *err) {
  void *event;
  if (ts_driver_enter(d, err)) return -1;
  TS_DRIVER(d, err, event_new, &event, TS_EVENT_TIMED);
  *out = event;
  return 0;
}

void ts_driver_event_free(TsDevice *d, void *event) {
  TsError ignored;
  if (event && !ts_driver_enter(d, &ignored)) ts_driver_of(d)->event_free(event);
}

int ts_driver_event_record(TsDevice *d, void *event, void *stream, TsError *err) {
  if (ts_driver_enter(d, err)) return -1;
  TS_DRIVER(d, err, event_record, event, stream_of(d, stream));
  return 0;
}

int ts_driver_event_wait(TsDevice *d, void *event, TsError *err) {
  const TsDriver *v = ts_driver_of(d);
  if (ts_driver_enter(d, err)) return -1;
  TsActivity *w = ts_activity_begin(TS_ACTIVITY_wait, d->name, NULL);
  int code = v->event_wait(event);
  ts_activity_end(w, 0, 0);
  return code ? ts_driver_fail(d, code, v->name.event_wait, err) : 0;
}

int ts_driver_event_usec(TsDevice *d, void *from, void *to, double *usec, TsError *err) {
  float msec = 0;
  if (ts_driver_enter(d, err)) return -1;
  TS_DRIVER(d, err, event_msec, &msec, from, to);
  *usec = (double)msec * 1e3;
  return 0;
}

void ts_driver_module_free(TsDevice *d, void *module) {
  TsError ignored;
  if (module && !ts_driver_enter(d, &ignored)) ts_driver_of(d)->module_free(module);
}

int ts_driver_variable(TsDevice *d, void *module, const char *name, void **at, int64_t *nbytes,
                       TsError *err) {
  void *p = NULL;
  size_t n = 0;
  if (ts_driver_enter(d, err)) return -1;
  TS_DRIVER(d, err, variable, &p, &n, module, name);
  *at = p, *nbytes = (int64_t)n;
  return 0;
}

int ts_driver_facts(TsDevice *d, void *kernel, int threads, uint32_t shared, TsKernelFacts *out,
                    TsError *err) {
  const TsDriven *s = d->state;
  int registers, local, fixed, blocks, most;
  if (ts_driver_enter(d, err)) return -1;
  TS_DRIVER(d, err, kernel_fact, &registers, TS_KERNEL_FACT_REGISTERS, kernel);
  TS_DRIVER(d, err, kernel_fact, &local, TS_KERNEL_FACT_LOCAL, kernel);
  TS_DRIVER(d, err, kernel_fact, &fixed, TS_KERNEL_FACT_SHARED, kernel);
  TS_DRIVER(d, err, kernel_blocks, &blocks, kernel, threads, shared);
  TS_DRIVER(d, err, attribute, &most, s->driver->threads_attribute, s->device);
  *out = (TsKernelFacts){registers, local, fixed + (int64_t)shared, blocks, most};
  return 0;
}
