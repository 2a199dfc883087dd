/* The library of a driver, what its failures say, and a GPU as a whole: streams and memory come
 * with first use. */
#include "devices/driver/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/activity.h"

void *ts_driver_library(const TsDriverLibrary *l, char *why, size_t room) {
  const char *path = getenv(l->variable);
  void *library = NULL;
  if (path && !*path) path = NULL;
  if (path && !strcmp(path, "self")) return dlopen(NULL, RTLD_NOW);
  if (path) library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  for (int i = 0; !path && l->names[i] && !library; i++)
    library = dlopen(l->names[i], RTLD_NOW | RTLD_LOCAL);
  if (!library && path)
    snprintf(why, room, "%s: %s, which %s names, cannot be opened", l->none, path, l->variable);
  else if (!library)
    snprintf(why, room, "%s: %s cannot be opened", l->none, l->words);
  return library;
}

const char *ts_driver_symbols(void *library, int n, const TsDriverSymbol *list, void *table) {
  for (int i = 0; i < n; i++) {
    void *f = dlsym(library, list[i].name);
    if (!f) return list[i].name;
    memcpy((char *)table + list[i].at, &f, sizeof f);
  }
  return NULL;
}

int ts_driver_fail(TsDevice *d, int code, const char *call, TsError *err) {
  const TsDriver *v = ts_driver_of(d);
  const char *name = NULL, *text = NULL;
  bool full = code == v->full;
  char number[16]; /* codes that are groups of bits are written as such */
  snprintf(number, sizeof number, code < 1 << 16 ? "%d" : "0x%x", (unsigned)code);
  v->say(code, &name, &text);
  if (v->failed) call = v->failed(code, call);
  ts_error_set(err, full ? TS_ERR_memory : TS_ERR_device, "%s%s: %s: %s (%s): %s",
               full ? "out of memory: " : "", d->name, call, name ? name : "unknown error",
               number, text ? text : "no text");
  if (v->is_fatal(code))
    ts_error_hint(err, "%s works again after a restart of the program", d->name);
  return -1;
}

/* ---- first use */
_Thread_local const TsDriven *ts_driver_current;

int ts_driver_switch(TsDevice *d, TsError *err) {
  if (ts_driver_of(d)->enter(d, err)) return -1;
  ts_driver_current = d->state;
  return 0;
}

static int make_streams(TsDevice *d, TsError *err) {
  TsDriven *s = d->state;
  if (ts_driver_enter(d, err)) return -1;
  TS_DRIVER(d, err, stream_new, &s->work, TS_STREAM_NON_BLOCKING);
  TS_DRIVER(d, err, stream_new, &s->copy, TS_STREAM_NON_BLOCKING);
  TS_DRIVER(d, err, event_new, &s->worked, TS_EVENT_UNTIMED);
  TS_DRIVER(d, err, event_new, &s->copied, TS_EVENT_UNTIMED);
  for (int i = 0; i < TS_DRIVER_NPOINT; i++)
    TS_DRIVER(d, err, event_new, &s->point[i].at, TS_EVENT_UNTIMED);
  if (!s->pool) s->pool = ts_driver_pool_new(s);
  return s->pool ? 0 : ts_error_set(err, TS_ERR_memory, "out of memory: opening %s", d->name);
}

/* All or nothing, so that the next use can try again. */
static void undo(TsDevice *d) {
  TsDriven *s = d->state;
  const TsDriver *v = s->driver;
  for (int i = 0; i < TS_DRIVER_NPOINT; i++) {
    if (s->point[i].at) v->event_free(s->point[i].at);
    s->point[i].at = NULL;
  }
  ts_driver_aside_close(d);
  if (s->copied) v->event_free(s->copied);
  if (s->worked) v->event_free(s->worked);
  if (s->copy) v->stream_free(s->copy);
  if (s->work) v->stream_free(s->work);
  s->copied = s->worked = NULL;
  s->copy = s->work = NULL;
  ts_driver_current = NULL;
  if (v->close) v->close(d);
}

static int driver_open(TsDevice *d, TsError *err) {
  const TsDriver *v = ts_driver_of(d);
  if (v->open && v->open(d, err)) return -1;
  if (!make_streams(d, err)) return 0;
  undo(d);
  return -1;
}

static int driver_synchronize(TsDevice *d, TsError *err) {
  const TsDriver *v = ts_driver_of(d);
  if (ts_driver_enter(d, err)) return -1;
  TsActivity *w = ts_activity_begin(TS_ACTIVITY_wait, d->name, NULL);
  int code = v->synchronize();
  ts_activity_end(w, 0, 0);
  return code ? ts_driver_fail(d, code, v->name.synchronize, err) : 0;
}

static bool driver_reach(TsDevice *d, TsDevice *other) {
  TsDriven *s = d->state, *o = other->state;
  TsError ignored;
  int can = 0;
  if (ts_device_use(d, &ignored) || ts_device_use(other, &ignored)) return false;
  if (s->driver->can_reach(&can, s->device, o->device) || !can) return false;
  return !ts_driver_enter(d, &ignored) && s->driver->reach(d, other);
}

static void driver_describe(TsDevice *d, char *text, int size) {
  const TsDriven *s = d->state;
  int n =
      snprintf(text, (size_t)size, "%s, %s, %d %s, %.2f GHz, %.1f GiB", s->model, s->code,
               s->processors, s->driver->units, s->khz * 1e-6, (double)s->total / (1 << 30));
  if (n >= size) return;
  text += n, size -= n;
  if (!d->target) {
    snprintf(text, (size_t)size, "; no kernels: there is no code for it");
    return;
  }
  if (!d->opened) {
    snprintf(text, (size_t)size, "; not used yet");
    return;
  }
  snprintf(text, (size_t)size, "; %.1f MiB in tensors, %.1f at most, %.1f cached",
           (double)d->live / 1048576, (double)d->peak / 1048576,
           (double)ts_driver_cached(d) / 1048576);
}

void ts_driver_device(TsDevice *d) {
  const TsDriven *s = d->state;
  d->processors = s->processors;
  d->clock = s->khz * 1e3;
  d->runs_kernels = true;
  d->open = driver_open;
  d->alloc = ts_driver_alloc;
  d->free = ts_driver_free;
  d->trim = ts_driver_trim;
  d->upload = ts_driver_upload;
  d->download = ts_driver_download;
  d->copy = ts_driver_copy;
  d->copy_met = ts_driver_copy_met;
  d->reach = driver_reach;
  d->fetch = ts_driver_fetch;
  d->synchronize = driver_synchronize;
  d->describe = driver_describe;
}
