/* See vm/core/region.h. */
#include "vm/core/region.h"

#include <stdlib.h>
#include <string.h>

#include "vm/code/control.h"
#include "vm/core/defer.h"

enum { KEPT = 64 }; /* how deep inside each other regions' memory is kept */

/* ---- who is inside whom */
static TsRegion *enter(TsContext *c, const char *name) {
  TsRegion *up = c->region, **room = up ? &up->down : &c->regions, *r = *room;
  if (!r && !(r = calloc(1, sizeof *r)))
    return ts_error_set(&c->err, TS_ERR_memory, "out of memory"), NULL;
  *r = (TsRegion){.up = up,
                  .down = r->down,
                  .name = name,
                  .id = c->next_id++,
                  .level = up ? up->level + 1 : 0,
                  .nested = up ? up->nested + 1 : 0,
                  .inside = c->inside,
                  .depth = c->stream_depth,
                  .before = c->stream,
                  .moved = up ? up->moved : 0};
  r->origin = r->before - r->moved;
  r->since = c->next_id;
  return *room = c->region = r;
}

static void free_inside(TsRegion **room) {
  for (TsRegion *r = *room, *next; r; r = next) {
    next = r->down;
    free(r);
  }
  *room = NULL;
}

void ts_region_free_all(TsContext *c) {
  c->region = NULL;
  free_inside(&c->regions);
}

TsRegion *ts_region_find(TsContext *c, uint64_t id) {
  TsRegion *r = c->region;
  while (r && r->id != id) r = r->up;
  return r;
}

/* The call of a recursion that r is in, or NULL. */
static TsRegion *recursion_of(TsRegion *r) {
  while (r && r->first >= 0) r = r->up;
  return r;
}

/* ---- calls and rounds */
void ts_region_round(TsContext *c, TsRegion *r, int64_t round) {
  c->region = r;
  r->since = c->next_id;
  TsRegion *of = recursion_of(r);
  if (of && of != r) of->sites = r->first;
  if (r->inner) return;
  r->moved = r->up ? r->up->moved : 0;
  if (round >= 0) r->moved += ts_control_distance(r->depth, round);
  c->stream_depth = r->depth + (round >= 0);
  c->stream = r->origin + r->moved;
}

TsRegion *ts_region_enter(TsContext *c, const char *name) {
  TsRegion *r = enter(c, name);
  if (!r) return NULL;
  r->plain = !strcmp(name, "checkpoint");
  bool calls = !strcmp(name, "recursive");
  TsRegion *of = calls ? NULL : recursion_of(r->up);
  r->first = of ? of->sites : calls ? -1 : 0;
  return r;
}

TsRegion *ts_region_enter_again(TsContext *c, TsRegion *of) {
  TsRegion *r = enter(c, of->name);
  if (!r) return NULL;
  r->inner = true;
  r->origin = of->origin;
  r->level = of->level;
  r->first = -1;
  r->moved += ts_control_distance(c->stream_depth++, of->sites++);
  c->stream = r->origin + r->moved;
  return r;
}

TsRegion *ts_region_enter_foreign(TsContext *c, const char *name, int n,
                                  TsTensor *const *given) {
  const TsRegion *up = c->region;
  TsRegion *r = enter(c, name);
  if (!r) return NULL;
  r->since = up ? up->since : 0;
  r->level = up ? up->level : 0;
  r->plain = true;
  r->given = given, r->ngiven = n;
  return r;
}

void ts_region_leave(TsContext *c, TsRegion *r) {
  c->region = r->up;
  c->stream_depth = r->depth;
  if (r->inner)
    c->stream = r->before;
  else if (!r->plain)
    c->stream = r->before + ts_control_block(r->level);
  if (r->nested % KEPT == 0) free_inside(&r->down);
}

/* ---- whose tensors */
static bool in_one_memory(const TsTensor *a, const TsTensor *b) {
  if (a->storage != b->storage) return false;
  return !a->storage->pending || ts_defer_made(a) == ts_defer_made(b);
}

bool ts_region_is_outside(const TsContext *c, const TsTensor *t) {
  const TsRegion *r = c->region;
  if (!r) return false;
  for (int i = 0; i < r->ngiven; i++)
    if (in_one_memory(r->given[i], t)) return true;
  return ts_defer_made(t) < r->since;
}

bool ts_region_is_own(const TsContext *c, TsTensor *const *t, int i) {
  for (int k = 0; k < i; k++)
    if (in_one_memory(t[k], t[i])) return false;
  return c->region && ts_defer_made(t[i]) > c->region->id; /* in whichever round */
}
