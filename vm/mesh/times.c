/* See vm/mesh/times.h. Marks are read in batches, since reading an event waits for it. */
#include "vm/mesh/times.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/meet.h"
#include "lib/activity.h"
#include "lib/clock.h"
#include "vm/core/offload.h"

enum { ARRIVED, THERE, END, MARKS, RAW_SENT = 256, RAW_WORK = 2048, NOTED = 256 };

/* A moment on a device: an event of it, or the host's clock. */
typedef struct Mark {
  void *event;
  int64_t nsec;
} Mark;

typedef struct RawSent {
  TsTimesSent s;
  Mark at[TS_MAX_DEVICES][MARKS];
} RawSent;

typedef struct RawWork {
  int device;
  Mark start, end;
} RawWork;

typedef struct Clock {
  Mark origin; /* at which the host's clock stood at `nsec` */
  bool known;
  int64_t idle_since; /* of a device whose work the host does */
  void **event;       /* that can be had again: of these `used` are in marks */
  int nevent, used, cap;
} Clock;

typedef struct Recorder {
  TsTimes t;
  TsTimes *outer;
  int depth;        /* of what is open */
  bool takes, said; /* what is open is recorded; what it is was noted before */
  RawSent *sent;    /* the last of them while it is open */
  RawWork *work;
  int nsent, nwork;
  int working[TS_MAX_DEVICES]; /* how many of what it computes stand in each other */
  Mark began[TS_MAX_DEVICES];
  TsCollective noted[NOTED];
  int nnoted;
  TsActivity *activity;
  Clock clock[TS_MAX_DEVICES];
} Recorder;

static Recorder *recorder(TsContext *c) { return (Recorder *)c->times; }

static bool has_events(const TsDevice *d) { return d->run && d->run->event_record; }

static void lose(Recorder *r, const char *why) {
  r->t.lost++;
  snprintf(r->t.reason, sizeof r->t.reason, "%.150s", why);
}

/* ---- marks */
static void *event_of(TsDevice *d, Clock *k, TsError *err) {
  if (k->used < k->nevent) return k->event[k->used++];
  if (k->nevent == k->cap) {
    int cap = k->cap ? 2 * k->cap : 64;
    void **more = realloc(k->event, sizeof *more * (size_t)cap);
    if (!more) return ts_error_memory(err), NULL;
    k->event = more, k->cap = cap;
  }
  void *e;
  if (d->run->event_new(d, &e, err)) return NULL;
  k->event[k->nevent++] = e;
  return k->event[k->used++];
}

/* A device's events are related to the host's clock once: it has nothing to do, and an event comes
 * at once. */
static int know(TsDevice *d, Clock *k, TsError *err) {
  if (k->known) return 0;
  if ((d->synchronize && d->synchronize(d, err)) || d->run->event_new(d, &k->origin.event, err))
    return -1;
  if (d->run->event_record(d, k->origin.event, NULL, err) ||
      d->run->event_wait(d, k->origin.event, err))
    return -1;
  k->origin.nsec = ts_clock_nsec();
  k->known = true;
  return 0;
}

/* One that could not be made has neither. */
static Mark mark(Recorder *r, int device) {
  TsDevice *d = ts_device_at(device);
  Clock *k = &r->clock[device];
  TsError err = {0};
  if (!has_events(d)) return (Mark){.nsec = ts_clock_nsec()};
  void *e = know(d, k, &err) ? NULL : event_of(d, k, &err);
  if (e && !d->run->event_record(d, e, NULL, &err)) return (Mark){.event = e};
  lose(r, err.message);
  return (Mark){.nsec = 0};
}

/* Nanoseconds since the recording began, or -1. */
static int64_t read_mark(Recorder *r, int device, Mark m) {
  TsDevice *d = ts_device_at(device);
  TsError err = {0};
  double usec;
  if (!m.event) return m.nsec ? m.nsec - r->t.began : -1;
  if (d->run->event_wait(d, m.event, &err) ||
      d->run->event_usec(d, r->clock[device].origin.event, m.event, &usec, &err))
    return lose(r, err.message), -1;
  int64_t at = r->clock[device].origin.nsec - r->t.began + (int64_t)(usec * 1e3);
  return at < 0 ? 0 : at;
}

/* ---- what marks say */
static bool same(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

static bool alike(const TsTimesSent *a, const TsTimesSent *b) {
  return same(a->kind, b->kind) && same(a->asks, b->asks) && a->mesh == b->mesh &&
         a->axes == b->axes && a->n == b->n && a->bytes == b->bytes && same(a->place, b->place);
}

static TsTimesRow *row_of(TsTimes *t, const TsTimesSent *s) {
  for (int i = 0; i < t->nrow; i++)
    if (alike(&t->row[i].first, s)) return &t->row[i];
  TsTimesRow *more = realloc(t->row, sizeof *more * ((size_t)t->nrow + 1));
  if (!more) return NULL;
  t->row = more;
  TsTimesRow *row = &t->row[t->nrow++];
  memset(row, 0, sizeof *row);
  row->first = *s;
  return row;
}

/* What is sent takes as long as on the device that has longest to do with it. */
static int64_t took(const TsTimesSent *s) {
  int64_t most = 0;
  for (int i = 0; i < s->ndevice; i++)
    if (s->of[i].end - s->of[i].there > most) most = s->of[i].end - s->of[i].there;
  return most;
}

static int add_to_row(TsTimes *t, const TsTimesSent *s) {
  TsTimesRow *row = row_of(t, s);
  if (!row) return -1;
  row->count++;
  row->nsec += took(s);
  for (int i = 0; i < s->ndevice; i++) {
    const TsTimesDevice *d = &s->of[i];
    row->busy += d->end - d->there, row->worked += d->worked;
    if (s->last >= 0 && i != s->last) row->wait[d->device][s->of[s->last].device] += d->waited;
  }
  return 0;
}

static int64_t common(int64_t a, int64_t b, int64_t from, int64_t to) {
  int64_t lo = a > from ? a : from, hi = b < to ? b : to;
  return hi > lo ? hi - lo : 0;
}

/* Who came last waited least. */
static void find_waits(TsTimesSent *s) {
  int64_t host = 0;
  s->last = s->ndevice > 1 ? 0 : -1;
  for (int i = 0; i < s->ndevice; i++)
    if (!has_events(ts_device_at(s->of[i].device)) && s->of[i].arrived > host)
      host = s->of[i].arrived;
  for (int i = 0; i < s->ndevice; i++) {
    TsTimesDevice *d = &s->of[i];
    d->waited = (has_events(ts_device_at(d->device)) ? d->there : host) - d->arrived;
    if (d->waited < 0) d->waited = 0;
    if (s->last >= 0 && d->waited < s->of[s->last].waited) s->last = i;
  }
}

static void settle_sent(Recorder *r, RawSent *raw) {
  TsTimesSent *s = &raw->s;
  bool known = true;
  for (int i = 0; i < s->ndevice && known; i++) {
    TsTimesDevice *d = &s->of[i];
    d->arrived = read_mark(r, d->device, raw->at[i][ARRIVED]);
    d->there = read_mark(r, d->device, raw->at[i][THERE]);
    d->end = read_mark(r, d->device, raw->at[i][END]);
    known = d->arrived >= 0 && d->there >= 0 && d->end >= 0;
  }
  if (!known) return; /* why was said */
  find_waits(s);
  for (int i = 0; i < s->ndevice; i++)
    for (int k = 0; k < r->nwork; k++) {
      const TsTimesWork *w = r->t.work + r->t.nwork + k;
      if (w->device == s->of[i].device) {
        TsTimesDevice *d = &s->of[i]; /* who computes meanwhile does not wait */
        d->worked += common(w->start, w->end, d->there, d->end);
        d->waited -= common(w->start, w->end, d->arrived, d->arrived + d->waited);
      }
    }
  if (add_to_row(&r->t, s)) return lose(r, "there was no memory");
  if (r->t.nsent < TS_TIMES_KEPT)
    r->t.sent[r->t.nsent++] = *s;
  else
    r->t.more++;
}

/* What began and goes on has its time now: its event is had again. */
static void settle_begun(Recorder *r) {
  for (int d = 0; d < TS_DEVICE_MESH; d++) {
    if (!r->working[d] || !r->began[d].event) continue;
    int64_t at = read_mark(r, d, r->began[d]);
    r->began[d] = (Mark){.nsec = at < 0 ? 0 : r->t.began + at};
  }
}

/* Marks become times. Work of this batch stands behind what is kept until all of it was read. */
static void settle(Recorder *r) {
  settle_begun(r);
  for (int i = 0; i < r->nwork; i++) {
    const RawWork *raw = &r->work[i];
    TsTimesWork w = {raw->device, read_mark(r, raw->device, raw->start),
                     read_mark(r, raw->device, raw->end)};
    if (w.start < 0 || w.end < 0) w.start = w.end = 0;
    r->t.work[r->t.nwork + i] = w;
  }
  for (int i = 0; i < r->nsent; i++) settle_sent(r, &r->sent[i]);
  r->t.nwork += r->nwork;
  if (r->t.nwork > TS_TIMES_KEPT) {
    r->t.more_work += r->t.nwork - TS_TIMES_KEPT;
    r->t.nwork = TS_TIMES_KEPT;
  }
  r->nsent = r->nwork = 0;
  for (int d = 0; d < TS_MAX_DEVICES; d++) r->clock[d].used = 0;
}

/* ---- life */
static void abandon(Recorder *r) {
  r->nsent -= r->takes;
  r->depth = r->nnoted = 0;
  r->activity = NULL; /* what is around it ends it */
}

TsTimes *ts_times_start(TsContext *c) {
  Recorder *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  r->sent = malloc(sizeof *r->sent * RAW_SENT);
  r->work = malloc(sizeof *r->work * RAW_WORK);
  r->t.sent = malloc(sizeof *r->t.sent * TS_TIMES_KEPT);
  r->t.work = malloc(sizeof *r->t.work * (TS_TIMES_KEPT + RAW_WORK));
  if (!r->sent || !r->work || !r->t.sent || !r->t.work) return ts_times_free(&r->t), NULL;
  r->t.began = ts_clock_nsec();
  for (int d = 0; d < TS_MAX_DEVICES; d++) r->clock[d].idle_since = r->t.began;
  r->outer = c->times;
  Recorder *around = (Recorder *)r->outer;
  if (around && !around->depth) settle(around); /* what it has comes before */
  c->times = &r->t;
  return &r->t;
}

static void add_row(Recorder *to, const TsTimesRow *from) {
  TsTimesRow *row = row_of(&to->t, &from->first);
  if (!row) return lose(to, "there was no memory");
  row->count += from->count, row->nsec += from->nsec;
  row->worked += from->worked, row->busy += from->busy;
  for (int a = 0; a < TS_MAX_DEVICES; a++)
    for (int b = 0; b < TS_MAX_DEVICES; b++) row->wait[a][b] += from->wait[a][b];
}

/* A recording is a part of the one around it, whose times begin earlier. */
static void add_recording(Recorder *to, const TsTimes *t) {
  int64_t later = t->began - to->t.began;
  for (int i = 0; i < t->nrow; i++) add_row(to, &t->row[i]);
  if (to->depth) { /* what is open there comes before, and has no times yet */
    to->t.more += t->nsent, to->t.more_work += t->nwork;
  } else {
    settle(to);
    for (int i = 0; i < t->nsent; i++) {
      if (to->t.nsent == TS_TIMES_KEPT && ++to->t.more) continue;
      TsTimesSent *s = &to->t.sent[to->t.nsent++];
      *s = t->sent[i];
      for (int d = 0; d < s->ndevice; d++)
        s->of[d].arrived += later, s->of[d].there += later, s->of[d].end += later;
    }
    for (int i = 0; i < t->nwork; i++) {
      if (to->t.nwork == TS_TIMES_KEPT && ++to->t.more_work) continue;
      const TsTimesWork *w = &t->work[i];
      to->t.work[to->t.nwork++] = (TsTimesWork){w->device, w->start + later, w->end + later};
    }
  }
  to->t.more += t->more, to->t.more_work += t->more_work;
  to->t.lost += t->lost;
  if (t->lost) snprintf(to->t.reason, sizeof to->t.reason, "%s", t->reason);
}

void ts_times_stop(TsContext *c, TsTimes *t) {
  Recorder *r = (Recorder *)t;
  if (r->depth) abandon(r);
  settle(r);
  c->times = r->outer;
  if (c->times) add_recording(recorder(c), t);
}

void ts_times_free(TsTimes *t) {
  Recorder *r = (Recorder *)t;
  if (!r) return;
  for (int d = 0; d < TS_MAX_DEVICES; d++) {
    Clock *k = &r->clock[d];
    TsDevice *device = ts_device_at(d);
    for (int i = 0; i < k->nevent; i++) device->run->event_free(device, k->event[i]);
    if (k->origin.event) device->run->event_free(device, k->origin.event);
    free(k->event);
  }
  free(r->sent);
  free(r->work);
  free(t->sent);
  free(t->work);
  free(t->row);
  free(r);
}

/* ---- what is sent */
void ts_times_note(TsContext *c, const TsCollective *k) {
  Recorder *r = recorder(c);
  if (r->depth && r->said) return;
  if (r->nnoted == NOTED) r->nnoted = 0; /* nothing came of these */
  r->noted[r->nnoted++] = *k;
}

static void add_device(TsTimesSent *s, int device) {
  for (int i = 0; i < s->ndevice; i++)
    if (s->of[i].device == device) return;
  if (s->ndevice < TS_MAX_DEVICES) s->of[s->ndevice++] = (TsTimesDevice){.device = device};
}

static void add_mesh(TsTimesSent *s, const TsMesh *m, const TsLayout *a, const TsLayout *b) {
  for (int p = 0; p < m->n; p++) {
    bool has = (a && a->mesh == m && ts_layout_has(a, p)) ||
               (b && b->mesh == m && ts_layout_has(b, p)) || (!a && !b);
    if (!has) continue;
    if (ts_mesh_away(m, p)) s->away = true;
    if (!ts_mesh_away(m, p) && m->device[p] >= 0) add_device(s, m->device[p]);
  }
}

static void add_ends(TsTimesSent *s, const TsCollective *k) {
  const TsLayout *a = ts_layout_of(&k->before), *b = ts_layout_of(&k->meta);
  if (a && a->mesh != k->mesh) add_mesh(s, a->mesh, a, NULL);
  add_mesh(s, k->mesh, a, b);
  if (!a && k->before.device < TS_DEVICE_MESH) add_device(s, k->before.device);
  if (!b && k->meta.device < TS_DEVICE_MESH) add_device(s, k->meta.device);
}

/* How many links share the bytes, if each has as much as it can: of a collective of equals as many as
 * devices, of one from or to a single device as many as get or give all of it. */
static int share_of(const TsCollective *k) {
  int group = 1;
  for (int a = 0; a < k->mesh->naxis; a++)
    if (k->axes >> a & 1) group *= k->mesh->size[a];
  int groups = k->mesh->n / group, others = group > 1 ? group - 1 : 1;
  switch (k->kind) {
  case TS_COLLECTIVE_broadcast:
  case TS_COLLECTIVE_reduce: return groups * others;
  case TS_COLLECTIVE_scatter:
  case TS_COLLECTIVE_gather: return groups;
  default: return k->mesh->n;
  }
}

/* What was noted so far, as one. */
static void describe(Recorder *r, TsTimesSent *s) {
  for (int i = 0; i < r->nnoted; i++) {
    const TsCollective *k = &r->noted[i];
    const char *kind = ts_collective_name(k->kind);
    s->bytes += k->bytes, s->axes |= k->axes;
    if (!i) {
      s->kind = kind, s->asks = k->asks, s->mesh = k->mesh, s->share = share_of(k);
      snprintf(s->place, sizeof s->place, "%s", k->place);
      continue;
    }
    if (!same(s->kind, kind)) s->kind = "collectives", s->share = s->mesh->n;
    if (!same(s->asks, k->asks)) s->asks = NULL;
    if (!same(s->place, k->place)) s->place[0] = 0;
  }
  s->n = r->nnoted;
}

static int flush(TsContext *c) { return c->offload ? c->offload->flush(c, false) : 0; }

static void begin_activity(Recorder *r, const char *what) {
  char text[160], many[32] = "";
  TsTimesSent named = {.kind = what};
  if (!ts_activities) return;
  if (r->nnoted) describe(r, &named);
  bool says = named.asks && !same(named.asks, named.kind);
  if (named.n > 1) snprintf(many, sizeof many, ", %d at once", named.n);
  snprintf(text, sizeof text, "%s%s%s%s", named.kind, many, says ? " of " : "",
           says ? named.asks : "");
  r->activity =
      ts_activity_begin(TS_ACTIVITY_collective, text, named.place[0] ? named.place : NULL);
}

int ts_times_open(TsContext *c, const TsMesh *m, const char *what) {
  Recorder *r = recorder(c);
  if (r->depth++) return 0;
  r->said = r->nnoted > 0;
  r->takes = r->said || m;
  if (!r->takes) return 0;
  if (flush(c)) return r->depth--, -1;
  if (r->nsent == RAW_SENT) settle(r);
  RawSent *raw = &r->sent[r->nsent++];
  TsTimesSent *s = &raw->s;
  memset(raw, 0, sizeof *raw);
  if (m) add_mesh(s, m, NULL, NULL);
  for (int i = 0; i < r->nnoted; i++) add_ends(s, &r->noted[i]);
  begin_activity(r, what);
  TsDevice *list[TS_MAX_DEVICES];
  TsError err = {0};
  int n = 0;
  for (int i = 0; i < s->ndevice; i++) {
    TsDevice *d = ts_device_at(s->of[i].device);
    bool own = has_events(d);
    raw->at[i][ARRIVED] =
        own ? mark(r, d->index) : (Mark){.nsec = r->clock[d->index].idle_since};
    if (own) list[n++] = d;
  }
  if (ts_device_meet(n, list, &err)) lose(r, err.message);
  int64_t now = ts_clock_nsec();
  for (int i = 0; i < s->ndevice; i++) {
    bool own = has_events(ts_device_at(s->of[i].device));
    raw->at[i][THERE] = own ? mark(r, s->of[i].device) : (Mark){.nsec = now};
  }
  return 0;
}

int ts_times_close(TsContext *c, int failed) {
  Recorder *r = recorder(c);
  if (!r->depth || --r->depth || !r->takes) return failed;
  if (!failed) failed = flush(c);
  RawSent *raw = &r->sent[r->nsent - 1];
  TsTimesSent *s = &raw->s;
  describe(r, s);
  r->nnoted = 0;
  if (r->activity) ts_activity_end(r->activity, s->bytes, 0);
  r->activity = NULL;
  if (failed || !s->n) return r->nsent--, failed; /* nothing was sent */
  int64_t now = ts_clock_nsec();                  /* of all whose work the host does */
  for (int i = 0; i < s->ndevice; i++) {
    bool own = has_events(ts_device_at(s->of[i].device));
    raw->at[i][END] = own ? mark(r, s->of[i].device) : (Mark){.nsec = now};
    r->clock[s->of[i].device].idle_since = now;
  }
  return 0;
}

/* ---- what is computed */
int ts_times_work_begin(TsContext *c, int device) {
  Recorder *r = recorder(c);
  if (device < 0 || device >= TS_DEVICE_MESH) return 0;
  if (r->working[device]) return r->working[device]++, 0;
  if (flush(c)) return -1;
  r->began[device] = mark(r, device);
  r->working[device] = 1;
  return 0;
}

static void add_work(Recorder *r, int device) {
  if (r->nwork == RAW_WORK && !r->depth) settle(r);
  if (r->nwork == RAW_WORK)
    lose(r, "too much was computed while something was sent");
  else
    r->work[r->nwork++] = (RawWork){device, r->began[device], mark(r, device)};
}

int ts_times_work_end(TsContext *c, int device, int failed) {
  Recorder *r = recorder(c);
  if (device < 0 || device >= TS_DEVICE_MESH || !r->working[device]) return failed;
  if (r->working[device] > 1) return r->working[device]--, failed;
  if (!failed) failed = flush(c);
  if (!failed) add_work(r, device);
  r->working[device] = 0;
  r->clock[device].idle_since = ts_clock_nsec();
  return failed;
}
