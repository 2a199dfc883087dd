/* The tree of what a program does. See lib/activity.h. */
#include "lib/activity.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "lib/arena.h"
#include "lib/clock.h"
#include "lib/text.h"

_Thread_local TsActivities *ts_activities;

typedef struct Recorded {
  TsActivities tree;
  TsArena arena;
  TsActivity **bucket; /* of all but the program, chained by `same`; a power of two */
  uint32_t nbucket, n;
} Recorded;

static atomic_bool anywhere;
static atomic_llong aside_nsec, aside_count;

bool ts_activity_anywhere(void) {
  return atomic_load_explicit(&anywhere, memory_order_relaxed);
}

void ts_activity_compiled_aside(int64_t nsec) {
  atomic_fetch_add(&aside_nsec, nsec);
  atomic_fetch_add(&aside_count, 1);
}

bool ts_activity_start(void) {
  if (ts_activities || ts_activity_anywhere()) return false;
  Recorded *r = calloc(1, sizeof *r);
  TsActivities *t = r ? &r->tree : NULL;
  if (!r) return false;
  t->first = malloc(sizeof *t->first * TS_ACTIVITY_FIRST);
  t->last = malloc(sizeof *t->last * TS_ACTIVITY_LAST);
  if (!t->first || !t->last) {
    ts_activity_free(t);
    return false;
  }
  t->program.kind = TS_ACTIVITY_program;
  t->program.what = "program";
  t->at = &t->program;
  t->began = t->program.start = ts_clock_nsec();
  atomic_store(&aside_nsec, 0);
  atomic_store(&aside_count, 0);
  atomic_store(&anywhere, true);
  ts_activities = t;
  return true;
}

/* Ends what nobody ended, from the innermost one to the one around which is `until`. */
static void close_to(TsActivities *t, TsActivity *until) {
  int64_t now = ts_clock_nsec();
  for (; t->at != until; t->at = t->at->parent) {
    t->at->nsec += now - t->at->start;
    t->at->count++;
    t->at->open = false;
  }
}

TsActivities *ts_activity_stop(void) {
  TsActivities *t = ts_activities;
  if (!t) return NULL;
  close_to(t, &t->program);
  t->program.nsec = ts_clock_nsec() - t->began;
  t->program.count = 1;
  t->compiled = atomic_load(&aside_nsec);
  t->ncompiled = atomic_load(&aside_count);
  atomic_store(&anywhere, false);
  ts_activities = NULL;
  return t;
}

void ts_activity_free(TsActivities *t) {
  if (!t) return;
  Recorded *r = (Recorded *)t;
  free(t->first);
  free(t->last);
  free(r->bucket);
  ts_arena_free(&r->arena);
  free(r);
}

static bool same(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

static bool is(const TsActivity *w, const TsActivity *key) {
  return w->parent == key->parent && w->kind == key->kind && same(w->what, key->what) &&
         same(w->place, key->place);
}

static uint32_t hash_of(const TsActivity *w) {
  uint32_t h = ts_text_hash((const char *)&w->parent, sizeof w->parent) + (uint32_t)w->kind;
  h = h * 31 + ts_text_hash(w->what, strlen(w->what));
  return w->place ? h * 31 + ts_text_hash(w->place, strlen(w->place)) : h;
}

/* At most one in a bucket, as they come. */
static bool more_buckets(Recorded *r) {
  if (r->n < r->nbucket) return true;
  uint32_t size = r->nbucket ? r->nbucket * 2 : 256;
  TsActivity **b = calloc(size, sizeof *b);
  if (!b) return r->nbucket > 0; /* longer chains, then */
  for (uint32_t i = 0; i < r->nbucket; i++)
    for (TsActivity *w = r->bucket[i], *next; w; w = next) {
      next = w->same;
      w->same = b[w->hash & (size - 1)];
      b[w->hash & (size - 1)] = w;
    }
  free(r->bucket);
  r->bucket = b, r->nbucket = size;
  return true;
}

static TsActivity *add(Recorded *r, const TsActivity *key) {
  TsActivity *w = ts_arena_alloc(&r->arena, sizeof *w);
  char *name = w ? ts_arena_text(&r->arena, key->what) : NULL,
       *at = name && key->place ? ts_arena_text(&r->arena, key->place) : NULL;
  if (!name || (key->place && !at) || !more_buckets(r)) return r->tree.lost++, NULL;
  *w = *key;
  w->what = name, w->place = at;
  w->next = w->parent->child;
  w->same = r->bucket[w->hash & (r->nbucket - 1)];
  r->bucket[w->hash & (r->nbucket - 1)] = w;
  r->n++;
  return w->parent->child = w;
}

static TsActivity *child_of(TsActivities *t, TsActivity *parent, TsActivityKind kind,
                            const char *what, const char *place) {
  Recorded *r = (Recorded *)t;
  TsActivity key = {.parent = parent, .kind = kind, .what = what, .place = place};
  if (parent->child && is(parent->child, &key)) return parent->child;
  key.hash = hash_of(&key);
  for (TsActivity *w = r->nbucket ? r->bucket[key.hash & (r->nbucket - 1)] : NULL; w;
       w = w->same)
    if (w->hash == key.hash && is(w, &key)) return w;
  return add(r, &key);
}

TsActivity *ts_activity_enter(TsActivityKind kind, const char *what, const char *place) {
  TsActivities *t = ts_activities;
  TsActivity *w = child_of(t, t->at, kind, what ? what : "", place);
  if (!w) return NULL;
  w->open = true;
  t->at = w;
  w->start = ts_clock_nsec();
  return w;
}

static void keep_event(TsActivities *t, const TsActivity *w, int64_t nsec) {
  TsActivityEvent e = {.of = w, .start = w->start - t->began, .nsec = nsec};
  int64_t n = t->nevent++;
  if (n < TS_ACTIVITY_FIRST)
    t->first[n] = e;
  else
    t->last[(n - TS_ACTIVITY_FIRST) % TS_ACTIVITY_LAST] = e;
}

void ts_activity_leave(TsActivity *w, int64_t nsec, int64_t nbytes, double flops) {
  TsActivities *t = ts_activities;
  if (!t || !w->open) return; /* it ended with what is around it */
  if (t->at != w) close_to(t, w);
  if (nsec < 0)
    nsec = ts_clock_nsec() - w->start;
  else
    w->start = ts_clock_nsec() - nsec; /* it was entered when it had ended, as kernels are */
  w->nsec += nsec;
  w->count++;
  w->nbytes += nbytes;
  w->flops += flops;
  w->open = false;
  t->at = w->parent;
  keep_event(t, w, nsec);
}

const char *ts_activity_name(TsActivityKind kind) {
  static const char *const name[TS_ACTIVITY_KINDS] = {
      "program", "line",    "operator", "function", "loop", "instruction",
      "kernel",  "capture", "compile",  "copy",     "collective", "open", "wait"};
  return name[kind];
}
