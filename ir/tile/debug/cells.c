/* Who touched which element: a cell for each of memory that the kernel writes, with its last write
 * and who has read it since. An access is compared with those when it begins, asynchronous ones
 * where they are started: what comes between that and their end is not in order with them. */
#include <stdlib.h>
#include <string.h>

#include "ir/tile/debug/state.h"

enum { MOST_EVENTS = 1 << 22 };

TsTileVal ts_debug_root(TsTileVal memory) {
  while (memory->stmt && memory->stmt->op == TS_TILE_view) memory = memory->stmt->in[0];
  return memory;
}

/* ---- memory */
static int64_t reach(const TsTileDebug *d, const TsTileType *t, int64_t *below) {
  int64_t above;
  int64_t size = ts_dtypes[t->dtype].nbytes;
  ts_tile_reach(t, d->dim, below, &above);
  *below /= size;
  return *below + above / size;
}

static void make(TsTileDebug *d, TsTileVal root, uint32_t written) {
  TsDebugMemory *m = &d->memory[root->id];
  if (!m->cell) {
    m->root = root;
    m->n = reach(d, &root->type, &m->below);
    m->cell = malloc(sizeof *m->cell * (size_t)(m->n + 1));
  }
  if (!m->cell) {
    d->out_of_memory = true;
    return;
  }
  memset(m->cell, 0, sizeof *m->cell * (size_t)m->n);
  for (int64_t i = 0; written && i < m->n; i++) m->cell[i].write = written;
}

/* Counters are zeros when a kernel begins (ir/tile/run/memory.c). */
static bool is_counter(const TsTileDebug *d, const TsTileType *t) {
  return d->k->form == TS_FORM_explicit && t->space <= TS_SPACE_scratch &&
         t->dtype == TS_DT_i32;
}

void ts_debug_cells_new(TsTileDebug *d, const TsTileStmt *s) {
  const TsTileType *t = &s->out[0]->type;
  if (t->space != TS_SPACE_barrier) make(d, s->out[0], is_counter(d, t) ? TS_DEBUG_DEFINED : 0);
}

int ts_debug_cells_open(TsTileDebug *d) {
  const TsTile *k = d->k;
  d->memory = calloc(k->nvalue + 1, sizeof *d->memory);
  d->room_event = 1024;
  d->event = malloc(sizeof *d->event * d->room_event);
  if (!d->memory || !d->event) return -1;
  d->nevent = 2; /* none, TS_DEBUG_DEFINED */
  memset(d->event, 0, sizeof *d->event * 2);
  for (int i = k->nin; i < k->nparam; i++) {
    bool written = d->results_written || is_counter(d, &k->param[i]->type);
    make(d, k->param[i], written ? TS_DEBUG_DEFINED : 0);
  }
  return d->out_of_memory ? -1 : 0;
}

void ts_debug_cells_close(TsTileDebug *d) {
  for (uint32_t i = 0; d->memory && i <= d->k->nvalue; i++) free(d->memory[i].cell);
  free(d->memory);
  free(d->event);
  d->memory = NULL, d->event = NULL;
}

/* ---- accesses */
/* Its number; of a run with too many, that of what was always there, which hides faults. */
static uint32_t remember(TsTileDebug *d, const TsDebugEvent *e) {
  if (d->nevent == MOST_EVENTS) {
    d->partly = "4194304 accesses";
    return TS_DEBUG_DEFINED;
  }
  if (d->nevent == d->room_event) {
    TsDebugEvent *more = realloc(d->event, sizeof *more * d->room_event * 2);
    if (!more) return d->out_of_memory = true, TS_DEBUG_DEFINED;
    d->event = more, d->room_event *= 2;
  }
  d->event[d->nevent] = *e;
  return d->nevent++;
}

void ts_debug_access_begin(TsDebugAccess *x, TsTileDebug *d, const TsTileStmt *s,
                           TsTileVal memory, bool write) {
  int a = ts_debug_agent(d);
  *x = (TsDebugAccess){.d = d, .write = write};
  TsDebugMemory *m = &d->memory[ts_debug_root(memory)->id];
  x->m = m->cell ? m : NULL;
  ts_debug_event_here(d, s, &x->e);
  x->e.memory = memory;
  x->e.counts = x->e.agent = (uint8_t)a;
  x->e.clock = ++d->agent[a].now;
}

static bool in_order(TsDebugAccess *x, uint32_t number, int64_t offset) {
  bool depends;
  TsTileDebug *d = x->d;
  if (number <= TS_DEBUG_DEFINED || number == x->number || x->known[number & 7] == number)
    return true;
  bool same = x->e.counts == x->e.agent;
  if (!ts_debug_ordered(d, &d->event[number], x->e.agent, offset, same ? &x->e : NULL,
                        &depends))
    return false;
  if (!depends) x->known[number & 7] = number;
  return true;
}

static uint32_t event_of(const TsDebugCell *c) { return c->write & ~TS_DEBUG_SUSPECT; }

/* A read that is a fault if something comes of it. */
static void suspect(TsDebugAccess *x, uint8_t number, int64_t offset, int64_t tile) {
  uint8_t *mask = x->value ? ts_debug_mask_room(x->d, x->value) : NULL;
  if (mask)
    mask[tile] = number;
  else
    ts_debug_tell(x->d, number, &x->e, offset);
}

/* Whether it counts as a reader. */
static bool read_after(TsDebugAccess *x, TsDebugCell *c, int64_t offset, int64_t tile) {
  TsTileDebug *d = x->d;
  uint32_t write = event_of(c);
  const TsDebugEvent *w = &d->event[write];
  bool shared = x->e.memory->type.space == TS_SPACE_shared;
  if (!write)
    suspect(x, ts_debug_say_unwritten(d, &x->e, offset), offset, tile);
  else if (c->write != write)
    suspect(x, w->suspect, offset, tile);
  if (!write || x->unordered) return !x->unordered;
  if (!in_order(x, write, offset)) {
    suspect(x, ts_debug_say_early(d, w, &x->e, offset), offset, tile);
    return false;
  }
  if (shared && w->memory && w->memory->type.swizzle != x->e.memory->type.swizzle)
    ts_debug_say_swizzle(d, w, &x->e, offset);
  else if (shared && x->e.engine && w->memory && !ts_debug_fenced(d, w, x->e.agent))
    ts_debug_say_fence(d, w, &x->e, offset);
  return true;
}

/* In place of one that the new one comes after, if there is one. */
static void add_reader(TsDebugAccess *x, TsDebugCell *c, int64_t offset) {
  int at = TS_DEBUG_READERS - 1;
  for (int i = 0; i < TS_DEBUG_READERS; i++) {
    uint32_t r = c->read[i];
    if (r == x->number) return;
    if (r && x->d->event[r].counts != x->e.counts && !in_order(x, r, offset)) continue;
    at = i;
    break;
  }
  c->read[at] = x->number;
}

static void write_after(TsDebugAccess *x, TsDebugCell *c, int64_t offset, int64_t tile) {
  TsTileDebug *d = x->d;
  const TsDebugEvent *w = &d->event[event_of(c)];
  if (!in_order(x, event_of(c), offset) && !(x->e.adds && w->adds))
    ts_debug_say_race(d, w, &x->e, false, offset);
  for (int i = 0; i < TS_DEBUG_READERS; i++) {
    if (!in_order(x, c->read[i], offset))
      ts_debug_say_race(d, &d->event[c->read[i]], &x->e, true, offset);
    c->read[i] = 0;
  }
  uint8_t suspicion = x->mask ? x->mask[tile] : 0;
  c->write = x->number;
  if (!suspicion) return;
  if (x->result) {
    ts_debug_tell(d, suspicion, &x->e, offset);
  } else {
    c->write |= TS_DEBUG_SUSPECT;
    d->event[x->number].suspect = suspicion;
  }
}

void ts_debug_access_line(void *with, int64_t base, int64_t tile, int64_t n, int64_t stride) {
  TsDebugAccess *x = with;
  if (!x->m) return;
  if (!x->number) x->number = remember(x->d, &x->e);
  for (int64_t i = 0, at = base + x->m->below; i < n; i++, at += stride) {
    if (at < 0 || at >= x->m->n) continue;
    TsDebugCell *c = &x->m->cell[at];
    if (x->write) {
      write_after(x, c, at - x->m->below, tile + i);
    } else {
      if (read_after(x, c, at - x->m->below, tile + i)) add_reader(x, c, at - x->m->below);
    }
  }
}
