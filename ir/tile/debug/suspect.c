/* What is made of what should not have been read: memory that nobody wrote, or to which a copy is
 * under way. A mask of such elements goes along with each value, and is told of where it ends in a
 * result, or decides something. Kernels may read it as long as nothing comes of it: products do not
 * stand in branches, so the first or last step of a loop multiplies what lies there for nothing. */
#include <stdlib.h>
#include <string.h>

#include "ir/tile/debug/state.h"

/* ---- masks */
static int64_t numel(TsTileDebug *d, TsTileVal v) {
  const TsTileRunPlace *p = ts_tile_run_place(d->run, v);
  return p ? p->n : 0;
}

uint8_t *ts_debug_mask_room(TsTileDebug *d, TsTileVal v) {
  uint8_t **mask = &d->mask[v->id];
  if (!*mask && !(*mask = calloc(1, (size_t)numel(d, v) + 1))) d->out_of_memory = true;
  return *mask;
}

void ts_debug_mask_drop(TsTileDebug *d, TsTileVal v) {
  free(d->mask[v->id]);
  d->mask[v->id] = NULL;
}

static void copy(TsTileDebug *d, TsTileVal from, TsTileVal to) {
  if (from == to) return;
  ts_debug_mask_drop(d, to);
  uint8_t *mask = d->mask[from->id] ? ts_debug_mask_room(d, to) : NULL;
  if (mask) memcpy(mask, d->mask[from->id], (size_t)numel(d, from));
}

/* ---- suspicions */
uint8_t ts_debug_suspicion(const TsTileDebug *d, const char *kind, const TsTileStmt *s,
                           const TsTileStmt *other) {
  for (int i = 0; i < d->nsuspicion; i++)
    if (d->suspicion[i].stmt == s && d->suspicion[i].other == other &&
        d->suspicion[i].kind == kind)
      return (uint8_t)(i + 1);
  return 0;
}

uint8_t ts_debug_suspect(TsTileDebug *d, const char *kind, const TsTileStmt *s,
                         const TsTileStmt *other, TsText *text) {
  if (d->nsuspicion == TS_DEBUG_SUSPICIONS) {
    ts_debug_found(d, kind, s, other, text);
    return TS_DEBUG_SUSPICIONS;
  }
  int i = d->nsuspicion++;
  d->suspicion[i].kind = kind, d->suspicion[i].stmt = s, d->suspicion[i].other = other;
  d->suspicion[i].text = *text, d->suspicion[i].told = false;
  *text = (TsText){0};
  return (uint8_t)(i + 1);
}

void ts_debug_tell_all(TsTileDebug *d) {
  for (int i = 0; i < d->nsuspicion; i++) {
    if (d->suspicion[i].told) continue;
    d->suspicion[i].told = true;
    ts_debug_found(d, d->suspicion[i].kind, d->suspicion[i].stmt, d->suspicion[i].other,
                   &d->suspicion[i].text);
    d->suspicion[i].text = (TsText){0};
  }
}

void ts_debug_tell(TsTileDebug *d, uint8_t number, const TsDebugEvent *where, int64_t offset) {
  if (!number || d->suspicion[number - 1].told) return;
  TsText t = d->suspicion[number - 1].text;
  const TsTileStmt *s = d->suspicion[number - 1].stmt, *other = d->suspicion[number - 1].other;
  d->suspicion[number - 1].told = true;
  d->suspicion[number - 1].text = (TsText){0};
  if (where->stmt != s && offset >= 0) {
    ts_text_str(&t, "  it ends in ");
    ts_debug_say_element(d, &t, where, offset);
    ts_text_format(&t, ", line %d\n", ts_debug_line(d, where->stmt));
  } else if (where->stmt != s) {
    ts_text_format(&t, "  it decides in line %d: %s\n", ts_debug_line(d, where->stmt),
                   ts_debug_line_text(d, ts_debug_line(d, where->stmt)));
  }
  ts_debug_found(d, d->suspicion[number - 1].kind, s, other, &t);
}

/* ---- rows */
static bool is_of_memory(const TsTileStmt *s) {
  switch (s->op) {
  case TS_TILE_load:
  case TS_TILE_gather:
  case TS_TILE_for:
  case TS_TILE_repeat:
  case TS_TILE_if:
  case TS_TILE_yield:
  case TS_TILE_role:
  case TS_TILE_alloc:
  case TS_TILE_view: return true;
  default: return false;
  }
}

static uint8_t any(TsTileDebug *d, TsTileVal v) {
  const uint8_t *mask = d->mask[v->id];
  for (int64_t i = 0, n = mask ? numel(d, v) : 0; i < n; i++)
    if (mask[i]) return mask[i];
  return 0;
}

static void by_element(TsTileDebug *d, const TsTileStmt *s, int first, int last, uint8_t *to) {
  int64_t n = numel(d, s->out[0]);
  for (int k = first; k <= last; k++) {
    const uint8_t *from = d->mask[s->in[k]->id];
    for (int64_t i = 0; from && i < n; i++)
      if (from[i]) to[i] = from[i];
  }
}

/* Of the two that are chosen from, what the condition says. */
static void chosen(TsTileDebug *d, const TsTileStmt *s, int yes, int no, uint8_t *to) {
  const uint8_t *condition = ts_tile_run_tile(d->run, s->in[0]);
  const uint8_t *a = d->mask[s->in[yes]->id], *b = d->mask[s->in[no]->id];
  int64_t n = numel(d, s->out[0]);
  by_element(d, s, 0, 0, to);
  for (int64_t i = 0; i < n; i++) {
    const uint8_t *from = condition[i] ? a : b;
    if (from)
      if (from[i]) to[i] = from[i];
  }
}

/* A row of A, a column of B. */
static void product(TsTileDebug *d, const TsTileStmt *s, uint8_t *to) {
  const TsTileRunPlace *y = ts_tile_run_place(d->run, s->out[0]);
  const uint8_t *a = d->mask[s->in[0]->id], *b = d->mask[s->in[1]->id];
  int64_t m = y->dim[0], n = y->dim[1], k = m ? numel(d, s->in[0]) / m : 0;
  by_element(d, s, 2, 2, to);
  for (int64_t i = 0; a && i < m; i++)
    for (int64_t p = 0; p < k; p++)
      if (a[i * k + p]) memset(to + i * n, a[i * k + p], (size_t)n);
  for (int64_t p = 0; b && p < k; p++)
    for (int64_t j = 0; j < n; j++)
      for (int64_t i = 0; b[p * n + j] && i < m; i++) to[i * n + j] = b[p * n + j];
}

static void along(TsTileDebug *d, const TsTileStmt *s, int64_t axis, uint8_t *to) {
  const TsTileRunPlace *x = ts_tile_run_place(d->run, s->in[0]);
  const uint8_t *from = d->mask[s->in[0]->id];
  int64_t inner = x->stride[axis], n = x->dim[axis];
  for (int64_t i = 0; i < x->n; i++)
    if (from[i]) to[i / (inner * n) * inner + i % inner] = from[i];
}

/* Rows that move elements do so with masks as wide as these. */
static void moved(TsTileDebug *d, const TsTileStmt *s,
                  int (*action)(TsTileRun *, const TsTileStmt *), uint8_t *to) {
  TsTileRun *r = d->run;
  char **own = calloc(2 * (size_t)s->nin + 1, sizeof *own), **before = own + s->nin;
  int64_t size = ts_tile_run_size(s->out[0]), n = numel(d, s->out[0]);
  TsTileRunPlace *y = ts_tile_run_place(r, s->out[0]);
  char *made = malloc((size_t)(n * size) + 1), *real = y->at;
  bool bad = !made || !own;
  for (int i = 0; i < s->nin && !bad; i++) {
    int64_t count = numel(d, s->in[i]), width = ts_tile_run_size(s->in[i]);
    const uint8_t *mask = d->mask[s->in[i]->id];
    bad = !(own[i] = calloc(1, (size_t)(count * width) + 1));
    for (int64_t e = 0; mask && !bad && e < count; e++)
      memset(own[i] + e * width, mask[e], (size_t)width);
  }
  for (int i = 0; i < s->nin && !bad; i++) {
    before[i] = r->place[s->in[i]->id].at;
    r->place[s->in[i]->id].at = own[i];
  }
  if (!bad) {
    y->at = made;
    action(r, s);
    y->at = real;
    for (int i = s->nin; i-- > 0;) r->place[s->in[i]->id].at = before[i];
    for (int64_t e = 0; e < n; e++) to[e] = (uint8_t)made[e * size];
  }
  for (int i = 0; own && i < s->nin; i++) free(own[i]);
  free(own);
  free(made);
  d->out_of_memory |= bad;
}

static void row(TsTileDebug *d, const TsTileStmt *s, uint8_t *to, uint8_t some) {
  switch (s->op) {
  case TS_OP_where: chosen(d, s, 1, 2, to); return;
  case TS_TILE_rare: chosen(d, s, 2, 1, to); return;
  case TS_TILE_mma:
  case TS_TILE_outer: product(d, s, to); return;
  case TS_TILE_sum:
  case TS_TILE_pairs:
  case TS_TILE_prod:
  case TS_TILE_max:
  case TS_TILE_min:
  case TS_TILE_argmax:
  case TS_TILE_argmin: along(d, s, ts_tile_attr(s, "axis")->i, to); return;
  case TS_TILE_broadcast: moved(d, s, ts_tile_do_broadcast, to); return;
  case TS_TILE_transpose: moved(d, s, ts_tile_do_transpose, to); return;
  case TS_TILE_part: moved(d, s, ts_tile_do_part, to); return;
  case TS_TILE_join: moved(d, s, ts_tile_do_join, to); return;
  case TS_TILE_reshape: moved(d, s, ts_tile_do_reshape, to); return;
  default: break;
  }
  bool same = true;
  for (int i = 0; i < s->nin; i++)
    same &= numel(d, s->in[i]) == numel(d, s->out[0]) &&
            s->in[i]->type.rank == s->out[0]->type.rank;
  if (same)
    by_element(d, s, 0, s->nin - 1, to);
  else
    memset(to, some, (size_t)numel(d, s->out[0]));
}

static void all(TsTileDebug *d, TsTileVal to, uint8_t some) {
  uint8_t *mask = ts_debug_mask_room(d, to);
  if (mask) memset(mask, some, (size_t)numel(d, to));
}

void ts_debug_suspect_after(TsTileDebug *d, const TsTileStmt *s) {
  uint8_t some = 0;
  if (is_of_memory(s)) return;
  for (int i = 0; i < s->nin && !some; i++)
    if (d->mask[s->in[i]->id] && !ts_tile_memory(&s->in[i]->type)) some = any(d, s->in[i]);
  for (int i = 0; i < s->nout; i++) ts_debug_mask_drop(d, s->out[i]);
  if (!some || !s->nout) return;
  for (int i = 0; i < s->nout && s->nout > 1; i++) all(d, s->out[i], some);
  if (s->nout > 1) return;
  uint8_t *to = ts_debug_mask_room(d, s->out[0]);
  if (to) row(d, s, to, some);
  if (to && !any(d, s->out[0])) ts_debug_mask_drop(d, s->out[0]);
}

/* ---- control */
static void carry_first(TsTileDebug *d, const TsTileStmt *s) {
  int first = s->op == TS_TILE_for ? 2 : 0, param = s->op == TS_TILE_for;
  for (int i = 0; i < s->nout; i++) {
    copy(d, s->in[first + i], s->out[i]);
    copy(d, s->in[first + i], s->region[0]->param[param + i]);
  }
}

/* All are copied before one is: a yield may exchange them. */
static void carry_on(TsTileDebug *d, const TsTileStmt *s) {
  const TsTileRegion *r = s->in_region;
  const TsTileStmt *owner = r->owner;
  int first = owner->op == TS_TILE_repeat, param = owner->op == TS_TILE_for;
  for (int i = 0; i < owner->nout; i++) copy(d, s->in[first + i], owner->out[i]);
  for (int i = 0; i < owner->nout && owner->op != TS_TILE_if; i++)
    copy(d, owner->out[i], r->param[param + i]);
}

/* Operands that decide: positions, slots, bounds, what is done at all. */
static bool decides(const TsTileStmt *s, int i) {
  TsTileVal v = s->in[i];
  switch (s->op) {
  case TS_TILE_for: return i < 2;
  case TS_TILE_repeat: return false;
  case TS_TILE_yield: return i == 0 && s->in_region->owner->op == TS_TILE_repeat;
  case TS_TILE_if: return s->nout == 0;
  case TS_TILE_store:
  case TS_TILE_store_below: return i > 0 && i + 1 < s->nin;
  case TS_TILE_gather:
  case TS_TILE_scatter: return false; /* it says itself which element is meant */
  default:
    return s->nin && ts_tile_memory(&s->in[0]->type) && !ts_tile_memory(&v->type) &&
           v->type.rank == 0;
  }
}

void ts_debug_suspect_before(TsTileDebug *d, const TsTileStmt *s) {
  for (int i = 0; i < s->nin; i++) {
    if (!d->mask[s->in[i]->id] || !decides(s, i)) continue;
    TsDebugEvent e;
    ts_debug_event_here(d, s, &e);
    ts_debug_tell(d, any(d, s->in[i]), &e, -1);
    ts_debug_mask_drop(d, s->in[i]);
  }
  if (s->op == TS_TILE_for || s->op == TS_TILE_repeat) carry_first(d, s);
  if (s->op == TS_TILE_yield && s->in_region->owner) carry_on(d, s);
}

int ts_debug_suspect_open(TsTileDebug *d) {
  d->mask = calloc(d->k->nvalue + 1, sizeof *d->mask);
  return d->mask ? 0 : -1;
}

void ts_debug_suspect_close(TsTileDebug *d) {
  for (uint32_t i = 0; d->mask && i <= d->k->nvalue; i++) free(d->mask[i]);
  free(d->mask);
  d->mask = NULL;
  for (int i = 0; i < d->nsuspicion; i++) ts_text_free(&d->suspicion[i].text);
  d->nsuspicion = 0;
}
