/* What is said of a fault: a line that says what, the two accesses where they stand in the text and
 * in the program, who made them, and why nothing orders them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/debug/state.h"
#include "ir/tile/text.h"

/* ---- lines */
int ts_debug_line(const TsTileDebug *d, const TsTileStmt *s) {
  return s && s->line > 0 && s->line < d->k->nplace ? atoi(d->k->place[s->line]) : 0;
}

const char *ts_debug_source(const TsTileDebug *d, const TsTileStmt *s) {
  const char *blank =
      s && s->line > 0 && s->line < d->k->nplace ? strchr(d->k->place[s->line], ' ') : NULL;
  return blank ? blank + 1 : NULL;
}

const char *ts_debug_line_text(const TsTileDebug *d, int line) {
  const char *text = line > 0 && line <= d->nline ? d->line[line] : "";
  return text + strspn(text, " \t");
}

/* ---- findings */
static bool is_known(TsTileDebug *d, const char *kind, int line, int other) {
  for (int i = 0; i < d->nfinding; i++) {
    const TsTileFinding *f = &d->finding[i];
    if (f->line == line && f->other == other && !strcmp(f->kind, kind)) return true;
  }
  if (d->nfinding < TS_DEBUG_MOST_FINDINGS) return false;
  d->partly = "64 findings";
  return true;
}

static bool is_new(TsTileDebug *d, const char *kind, const TsTileStmt *s,
                   const TsTileStmt *other) {
  return !is_known(d, kind, ts_debug_line(d, s), ts_debug_line(d, other));
}

void ts_debug_found(TsTileDebug *d, const char *kind, const TsTileStmt *s,
                    const TsTileStmt *other, TsText *text) {
  TsText all = {0};
  if (!is_new(d, kind, s, other)) {
    ts_text_free(text);
    return;
  }
  ts_text_format(&all, "%s: ", kind);
  ts_text_take(&all, "", text);
  if (all.failed) {
    d->out_of_memory = true;
    ts_text_free(&all);
    return;
  }
  TsTileFinding *f = &d->finding[d->nfinding++];
  *f = (TsTileFinding){kind, ts_debug_line(d, s), ts_debug_line(d, other), all.at};
  ts_debug_prompt_found(d, f);
}

/* ---- who and where */
const char *ts_debug_agent_name(const TsTileDebug *d, int a) {
  const char *name = d->agent[a].name;
  return name && *name ? name : "without a name";
}

static void say_agent(const TsTileDebug *d, TsText *t, int a) {
  if (a == TS_DEBUG_SELF)
    ts_text_str(t, "the block");
  else
    ts_text_format(t, "role %s", ts_debug_agent_name(d, a));
}

static void say_list(TsText *t, int n, const int64_t *v) {
  for (int i = 0; i < n; i++) ts_text_format(t, "%s%lld", i ? ", " : "", (long long)v[i]);
}

static void say_memory(const TsTileDebug *d, TsText *t, TsTileVal v) {
  (void)d;
  TsTileVal root = v->name ? v : ts_debug_root(v);
  if (root->name)
    ts_text_format(t, "%%%s", root->name);
  else
    ts_text_format(t, "memory of line %d", ts_debug_line(d, root->stmt));
}

void ts_debug_say_element(const TsTileDebug *d, TsText *t, const TsDebugEvent *e,
                          int64_t offset) {
  int64_t memory[TS_TILE_RANK], tile[TS_TILE_RANK];
  say_memory(d, t, e->memory);
  if (ts_debug_coordinates(d, e, offset, memory, tile) < 0 && e->memory->type.strided) {
    ts_text_format(t, " element %lld", (long long)offset);
    return;
  }
  ts_text_char(t, '[');
  say_list(t, e->memory->type.rank, memory);
  ts_text_char(t, ']');
}

static bool is_grid(const TsTileStmt *s) {
  return s->op == TS_TILE_for && ts_tile_attr(s, "parallel")->i;
}

static bool is_loop(const TsTileStmt *s) {
  return (s->op == TS_TILE_for && !is_grid(s)) || s->op == TS_TILE_repeat;
}

static const TsTileStmt *around(const TsTileStmt *s) {
  return s->in_region ? s->in_region->owner : NULL;
}

static void say_rounds(const TsTileDebug *d, TsText *t, const TsDebugEvent *e) {
  int n = 0;
  for (const TsTileStmt *o = around(e->stmt); o && n < TS_DEBUG_LOOPS; o = around(o)) {
    if (!is_loop(o)) continue;
    TsTileVal index = o->op == TS_TILE_for ? o->region[0]->param[0] : NULL;
    if (index && index->name)
      ts_text_format(t, ", %%%s = %lld", index->name, (long long)e->round[n]);
    else
      ts_text_format(t, ", round %lld of line %d", (long long)e->round[n], ts_debug_line(d, o));
    n++;
  }
}

void ts_debug_say_line(const TsTileDebug *d, TsText *t, const TsTileStmt *s) {
  int line = ts_debug_line(d, s);
  const char *source = ts_debug_source(d, s);
  ts_text_format(t, "  line %d", line);
  if (source) ts_text_format(t, " (%s)", source);
  ts_text_format(t, ": %s\n", ts_debug_line_text(d, line));
}

static void say_who(const TsTileDebug *d, TsText *t, const TsDebugEvent *e, int64_t offset) {
  int64_t memory[TS_TILE_RANK], tile[TS_TILE_RANK];
  int rank = offset < 0 ? -1 : ts_debug_coordinates(d, e, offset, memory, tile);
  TsDebugWho who = offset < 0 ? (TsDebugWho){-1, -1} : ts_debug_who(d, e, offset);
  ts_text_str(t, "    ");
  say_agent(d, t, e->agent);
  if (who.warp >= 0 && !d->agent[e->agent].single)
    ts_text_format(t, " warp %d lane %d", who.warp, who.lane);
  if (rank > 0) {
    ts_text_str(t, ", element (");
    say_list(t, rank, tile);
    ts_text_str(t, ") of its tile");
  }
  ts_text_format(t, ", block %u", e->block - d->first_block);
  say_rounds(d, t, e);
  ts_text_char(t, '\n');
}

void ts_debug_say_event(const TsTileDebug *d, TsText *t, const TsDebugEvent *e,
                        int64_t offset) {
  ts_debug_say_line(d, t, e->stmt);
  say_who(d, t, e, offset);
}

void ts_debug_event_here(TsTileDebug *d, const TsTileStmt *s, TsDebugEvent *e) {
  int n = 0;
  *e = (TsDebugEvent){.stmt = s, .block = d->block, .agent = (uint8_t)ts_debug_agent(d)};
  for (const TsTileStmt *o = around(s); o && n < TS_DEBUG_LOOPS; o = around(o)) {
    if (!is_loop(o)) continue;
    const TsTileRegion *body = o->region[0];
    e->round[n++] = o->op == TS_TILE_for ? ts_tile_run_scalar(d->run, body->param[0])
                    : body->nparam       ? d->at_round[body->param[0]->id]
                                         : 0;
  }
}

void ts_debug_say_here(TsTileDebug *d, TsText *t, const TsTileStmt *s) {
  TsDebugEvent e;
  ts_debug_event_here(d, s, &e);
  ts_debug_say_event(d, t, &e, -1);
}

/* ---- races: why nothing orders them */
typedef enum Sort { OWN, COPY, BULK_READ, PRODUCT, BULK_WRITE, ENGINE } Sort;

static Sort sort_of(const TsDebugEvent *e) {
  if (e->counts >= TS_DEBUG_SLOTS) return ENGINE;
  if (e->counts >= TS_DEBUG_WRITES) return BULK_WRITE;
  if (e->counts >= TS_DEBUG_PRODUCTS) return PRODUCT;
  if (e->counts >= TS_DEBUG_STORES) return BULK_READ;
  return e->counts >= TS_DEBUG_COPIES ? COPY : OWN;
}

static void say_awaited(const TsTileDebug *d, TsText *t, int a, int slot) {
  const TsDebugAwaited *w = &d->agent[a].awaited[slot];
  say_agent(d, t, a);
  if (!w->stmt) {
    ts_text_str(t, " has not awaited it\n");
    return;
  }
  ts_text_format(t, " awaited parity %d there at line %d", w->parity,
                 ts_debug_line(d, w->stmt));
  if (w->phases)
    ts_text_format(t, ", %s phase %u\n",
                   w->waited ? "and came on with" : "which was complete already with",
                   w->phases - 1);
  else
    ts_text_str(t, ", which counts as complete before the first phase\n");
}

static void why_engine(const TsTileDebug *d, TsText *t, const TsDebugEvent *e, int a) {
  int slot = e->counts - TS_DEBUG_SLOTS;
  const TsDebugSlot *s = &d->slot[slot];
  ts_text_format(t, "  the copy completes phase %u of ", e->clock - 1);
  say_memory(d, t, s->barrier);
  ts_text_format(t, "[%lld]; ", (long long)s->index);
  say_awaited(d, t, a, slot);
}

static void why_group(const TsTileDebug *d, TsText *t, const TsDebugEvent *e, int a,
                      const char *what, uint32_t done, uint32_t closed) {
  bool own = a == e->agent;
  ts_text_format(t, "  it is of group %u of %s; ", e->clock, what);
  say_agent(d, t, e->agent);
  if (e->clock > closed)
    ts_text_str(t, " has not committed it\n");
  else if (e->clock > done)
    ts_text_format(t, " has waited for %u\n", done);
  else if (own)
    ts_text_str(t, " has waited for it, but its threads have not met since\n");
  else
    ts_text_str(t, " has waited for it, but told nobody since\n");
}

/* The await by which a went on, and the arrival that let it. */
static void why_told(const TsTileDebug *d, TsText *t, const TsDebugEvent *e, int a) {
  for (int i = 0; i < d->nslot; i++) {
    const TsDebugAwaited *w = &d->agent[a].awaited[i];
    const TsTileStmt *arrive = d->slot[i].arrive, *o = arrive;
    while (o && o->op != TS_TILE_role) o = around(o);
    if (!w->stmt || !o || o != d->agent[e->agent].role || a == e->agent) continue;
    ts_text_str(t, "  ");
    say_agent(d, t, a);
    ts_text_format(t, " went on at line %d", ts_debug_line(d, w->stmt));
    if (!w->phases)
      ts_text_format(t, ": parity %d counts as complete before the first phase\n", w->parity);
    else
      ts_text_format(t, ", by the arrival of line %d\n", ts_debug_line(d, arrive));
    return;
  }
  ts_text_str(t, "  no barrier is between them\n");
}

static void why(const TsTileDebug *d, TsText *t, const TsDebugEvent *e,
                const TsDebugEvent *now) {
  const TsDebugAgent *x = &d->agent[e->agent];
  int a = now->agent;
  if (e->block != now->block) {
    ts_text_str(t, "  blocks are in no order\n");
    return;
  }
  switch (sort_of(e)) {
  case COPY: why_group(d, t, e, a, "copies", x->copies_done, x->copies); break;
  case PRODUCT:
    why_group(d, t, e, a, "products", x->known.of[TS_DEBUG_PRODUCTS + e->agent], x->products);
    if (a != e->agent) why_told(d, t, e, a);
    break;
  case BULK_READ: why_group(d, t, e, a, "bulk stores", x->stores_done, x->stores); break;
  case BULK_WRITE: why_group(d, t, e, a, "bulk stores", x->writes_done, x->stores); break;
  case ENGINE: why_engine(d, t, e, a); break;
  case OWN:
    if (a == e->agent)
      ts_text_str(t,
                  e->clock <= x->met
                      ? "  four warps of the role have met between them, not all\n"
                      : "  they are of different threads, which have not met between them\n");
    else
      why_told(d, t, e, a);
  }
}

static void headline(TsText *t, const TsDebugEvent *e, const TsDebugEvent *now, bool write,
                     bool of_read) {
  Sort before = sort_of(e), after = sort_of(now);
  bool copies = after == COPY || after == ENGINE;
  if (e->block != now->block) {
    ts_text_str(t, !write    ? " is read in one block and written in another"
                   : of_read ? " is written in one block and read in another"
                             : " is written by two blocks");
  } else if (!write) {
    ts_text_str(t, before == COPY || before == ENGINE
                       ? " is read before the copy to it has come"
                   : before == BULK_WRITE   ? " is read before the bulk store has written it"
                   : e->agent == now->agent ? " is read by other threads than wrote it"
                                            : " is read while another role writes it");
  } else if (of_read) {
    ts_text_str(t, copies ? " is overwritten by a copy" : " is overwritten");
    ts_text_str(t, before == PRODUCT        ? " while a product reads it"
                   : before == BULK_READ    ? " before the bulk store has read it"
                   : e->agent == now->agent ? " while other threads read it"
                                            : " while another role reads it");
  } else {
    ts_text_str(t, before == COPY || before == ENGINE
                       ? " is written while a copy to it is under way"
                       : " is written twice, in no order");
  }
  ts_text_char(t, '\n');
}

static void say_race(TsTileDebug *d, TsText *t, const TsDebugEvent *e, const TsDebugEvent *now,
                     bool write, bool of_read, int64_t offset) {
  ts_debug_say_element(d, t, now, offset);
  headline(t, e, now, write, of_read);
  ts_debug_say_event(d, t, now, offset);
  ts_debug_say_event(d, t, e, offset);
  why(d, t, e, now);
}

void ts_debug_say_race(TsTileDebug *d, const TsDebugEvent *e, const TsDebugEvent *now,
                       bool of_read, int64_t offset) {
  const char *kind = e->block != now->block && !of_read ? "overlap" : "race";
  if (!is_new(d, kind, now->stmt, e->stmt)) return;
  TsText t = {0};
  say_race(d, &t, e, now, true, of_read, offset);
  ts_debug_found(d, kind, now->stmt, e->stmt, &t);
}

uint8_t ts_debug_say_early(TsTileDebug *d, const TsDebugEvent *e, const TsDebugEvent *now,
                           int64_t offset) {
  uint8_t known = ts_debug_suspicion(d, "race", now->stmt, e->stmt);
  if (known) return known;
  TsText t = {0};
  say_race(d, &t, e, now, false, false, offset);
  return ts_debug_suspect(d, "race", now->stmt, e->stmt, &t);
}

uint8_t ts_debug_say_unwritten(TsTileDebug *d, const TsDebugEvent *now, int64_t offset) {
  uint8_t known = ts_debug_suspicion(d, "uninitialised", now->stmt, NULL);
  if (known) return known;
  TsText t = {0};
  ts_debug_say_element(d, &t, now, offset);
  ts_text_str(&t, " is read, and nobody wrote it\n");
  ts_debug_say_event(d, &t, now, offset);
  return ts_debug_suspect(d, "uninitialised", now->stmt, NULL, &t);
}

void ts_debug_say_swizzle(TsTileDebug *d, const TsDebugEvent *e, const TsDebugEvent *now,
                          int64_t offset) {
  if (!is_new(d, "swizzle", now->stmt, e->stmt)) return;
  TsText t = {0};
  ts_debug_say_element(d, &t, now, offset);
  ts_text_format(&t, " is read with swizzle %d and was written with %d\n",
                 now->memory->type.swizzle, e->memory->type.swizzle);
  ts_debug_say_event(d, &t, now, offset);
  ts_debug_say_event(d, &t, e, offset);
  ts_debug_found(d, "swizzle", now->stmt, e->stmt, &t);
}

void ts_debug_say_fence(TsTileDebug *d, const TsDebugEvent *e, const TsDebugEvent *now,
                        int64_t offset) {
  if (!is_new(d, "fence", now->stmt, e->stmt)) return;
  TsText t = {0};
  ts_debug_say_element(d, &t, now, offset);
  ts_text_str(&t, " is written by threads and read behind their backs, without a fence\n");
  ts_debug_say_event(d, &t, now, offset);
  ts_debug_say_event(d, &t, e, offset);
  ts_text_str(&t, "  fence {scope=async} belongs between the write and the barrier\n");
  ts_debug_found(d, "fence", now->stmt, e->stmt, &t);
}

void ts_debug_say_bounds(TsTileDebug *d, const TsTileStmt *s, TsTileVal memory,
                         const TsTileRunWindow *w) {
  TsText t = {0};
  say_memory(d, &t, memory);
  ts_text_format(&t, ": position %lld is outside of axis %d, which has %lld\n",
                 (long long)w->bad_at, w->bad, (long long)w->bad_size);
  ts_debug_say_here(d, &t, s);
  if (w->rank > 0) {
    ts_text_str(&t, "  the tile of [");
    say_list(&t, w->rank, w->dim);
    ts_text_str(&t, "] begins at [");
    say_list(&t, w->rank, w->first);
    ts_text_str(&t, "] of its axes\n");
  }
  ts_debug_found(d, "bounds", s, NULL, &t);
}

/* ---- a run that cannot go on */
static void say_waiting(TsTileDebug *d, TsText *t, int a) {
  const TsTileRunRole *role = a == TS_DEBUG_SELF ? &d->run->self : &d->run->role[a];
  const TsTileStmt *s = role->waits;
  ts_text_str(t, "  ");
  say_agent(d, t, a);
  if (role->done) {
    ts_text_str(t, " has ended\n");
    return;
  }
  if (!s) {
    ts_text_str(t, " goes on\n");
    return;
  }
  ts_text_format(t, " waits at line %d: %s\n", ts_debug_line(d, s),
                 ts_debug_line_text(d, ts_debug_line(d, s)));
  if (s->op == TS_TILE_barrier) {
    int64_t name = ts_tile_attr(s, "name")->i, needed = 0;
    const TsAttr *threads = ts_tile_attr(s, "threads");
    for (int i = 0; i < d->run->nrole; i++) needed += d->run->role[i].threads;
    if (threads->type == TS_ATTR_int) needed = threads->i;
    ts_text_format(t, "    %lld of %lld threads have come to barrier %lld\n",
                   (long long)d->run->barrier[name].arrived, (long long)needed,
                   (long long)name);
  }
  if (s->op == TS_TILE_until)
    ts_text_str(
        t, "    blocks run one after another here: a signal of a later one does not come\n");
  if (s->op != TS_TILE_await) return;
  TsTileRunPlace *p = ts_tile_run_place(d->run, s->in[0]);
  if (!p || role->waits_slot >= p->n) return;
  TsDebugSlot *slot = ts_debug_slot(d, s->in[0], role->waits_slot);
  const TsTileRunBarrier *b = (TsTileRunBarrier *)(void *)p->at + role->waits_slot;
  int64_t count = s->in[0]->type.count ? s->in[0]->type.count : 1;
  ts_text_str(t, "    for parity ");
  ts_text_format(t, "%lld of ", (long long)role->waits_parity);
  say_memory(d, t, s->in[0]);
  ts_text_format(t, "[%lld], which is in phase %u with %lld of %lld arrivals",
                 (long long)role->waits_slot, ts_debug_phases(d, slot), (long long)b->arrived,
                 (long long)count);
  if (b->bytes) ts_text_format(t, " and %lld bytes that do not come", (long long)b->bytes);
  ts_text_char(t, '\n');
}

/* The wait for which some came, or bytes are due; else the first one. */
static const TsTileStmt *to_blame(TsTileDebug *d, const TsTileStmt *s) {
  const TsTileStmt *first = d->run->self.waits;
  for (int i = 0; i < d->run->nrole; i++) {
    const TsTileRunRole *role = &d->run->role[i];
    const TsTileStmt *w = role->done ? NULL : role->waits;
    if (w && !first) first = w;
    TsTileRunPlace *p =
        w && w->op == TS_TILE_await ? ts_tile_run_place(d->run, w->in[0]) : NULL;
    if (!p || role->waits_slot >= p->n) continue;
    const TsTileRunBarrier *b = (TsTileRunBarrier *)(void *)p->at + role->waits_slot;
    if (b->bytes || b->arrived) return w;
  }
  return first ? first : s;
}

/* More arrivals than a barrier counts. */
static void say_arrivals(TsTileDebug *d, TsText *t, const TsTileStmt *s) {
  int64_t index = ts_tile_run_scalar(d->run, s->in[1]);
  TsDebugSlot *slot = ts_debug_slot(d, s->in[0], index);
  say_memory(d, t, s->in[0]);
  ts_text_format(t, "[%lld] counts %d arrivals, and phase %u has them already\n",
                 (long long)index, s->in[0]->type.count ? s->in[0]->type.count : 1,
                 ts_debug_phases(d, slot));
  ts_debug_say_here(d, t, s);
  if (slot->arrive && slot->arrive != s)
    ts_text_format(t, "  the last one was of line %d\n", ts_debug_line(d, slot->arrive));
}

void ts_debug_say_failure(TsTileDebug *d, const TsTileStmt *s, const char *text) {
  TsText t = {0};
  if (!strncmp(text, "deadlock", 8)) {
    ts_text_str(&t, "nobody can go on\n");
    for (int i = 0; i < d->run->nrole; i++) say_waiting(d, &t, i);
    if (!d->run->nrole) say_waiting(d, &t, TS_DEBUG_SELF);
    ts_debug_found(d, "deadlock", to_blame(d, s), NULL, &t);
    return;
  }
  if (s->op == TS_TILE_arrive && strstr(text, "already")) {
    say_arrivals(d, &t, s);
    ts_debug_found(d, "barrier", s, NULL, &t);
    return;
  }
  bool barrier = s->op == TS_TILE_arrive || s->op == TS_TILE_barrier ||
                 (s->op == TS_TILE_expect || s->op == TS_TILE_await);
  bool index = strstr(text, "position") || strstr(text, "slot");
  const char *kind = barrier && !strstr(text, " barriers") ? "barrier"
                     : index                               ? "bounds"
                                                           : "value";
  ts_text_format(&t, "%s\n", text);
  ts_debug_say_here(d, &t, s);
  ts_debug_found(d, kind, s, NULL, &t);
}
