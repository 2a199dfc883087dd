/* What happened before what: the clocks of a block's agents, and what barriers tell of them. See
 * ir/tile/debug/state.h.
 *
 * The rules are those that code for a GPU has (jit/emit/roles): an arrival is made by one thread of
 * four warps, and tells what these did before they met, unless each warp arrives for itself; a wait
 * for copies is of what a thread copied itself, so that the others meet behind it; bulk stores
 * belong to who began them; products to the four warps that multiply, which have all come to one that
 * is done. Blocks know nothing of each
 * other but what counters and signals tell. */
#include <stdlib.h>
#include <string.h>

#include "ir/tile/debug/state.h"
#include "ir/tile/find.h"

enum { GROUP_WARPS = 4, WARP = 32, OF_COPIES = 0, OF_PRODUCTS, OF_STORES, OF_WRITES };
enum { SCOPE_ASYNC = 2 };

static int64_t attr(const TsTileStmt *s, const char *name) { return ts_tile_attr(s, name)->i; }

static void join(TsDebugClock *to, const TsDebugClock *from) {
  for (int i = 0; i < TS_DEBUG_CLOCKS; i++)
    if (from->of[i] > to->of[i]) to->of[i] = from->of[i];
}

static void raise_to(uint32_t *to, uint32_t clock) {
  if (clock > *to) *to = clock;
}

int ts_debug_agent(const TsTileDebug *d) {
  const TsTileRun *r = d->run;
  return r->now == &r->self ? TS_DEBUG_SELF : (int)(r->now - r->role);
}

/* ---- who they are */
static const char *unit_of(const TsTileStmt *mma) {
  const TsAttr *unit = mma ? ts_tile_attr(mma, "unit") : NULL;
  return unit && unit->type == TS_ATTR_str ? unit->str : NULL;
}

static bool is_unit(const char *unit, const char *name) { return unit && !strcmp(unit, name); }

static int rows_of(const TsTileDebug *d, const TsTileRegion *body) {
  const TsTileStmt *mma = ts_tile_find(body, TS_TILE_mma),
                   *bulk = ts_tile_find(body, TS_TILE_store_bulk);
  int cluster = d->k->cluster > 1 ? d->k->cluster : 1;
  if (mma) return (int)mma->out[0]->type.dim[0] / cluster;
  return bulk && bulk->in[1]->type.rank == 3 ? (int)bulk->in[1]->type.dim[1] / cluster : 0;
}

static void begin_role(TsTileDebug *d, const TsTileStmt *s, TsDebugAgent *a) {
  const TsTileRegion *body = s->region[0];
  const TsDebugAgent *self = &d->agent[TS_DEBUG_SELF];
  *a = (TsDebugAgent){.role = s, .name = ts_tile_attr(s, "name")->str};
  a->unit = unit_of(ts_tile_find(body, TS_TILE_mma));
  a->warps = (int)attr(s, "warps"), a->lanes = attr(s, "lanes");
  a->single = !ts_tile_find_fragment(body, false) && !ts_tile_find(body, TS_TILE_copy_async);
  a->rows = rows_of(d, body);
  a->known = self->known;
  a->known.of[TS_DEBUG_SELF] = self->now;
  a->known.of[TS_DEBUG_FENCED + TS_DEBUG_SELF] = self->now;
}

/* What is in no role: all threads of a kernel without roles, else what stands before them. */
static void begin_self(TsTileDebug *d) {
  TsDebugAgent *a = &d->agent[TS_DEBUG_SELF];
  *a = (TsDebugAgent){.single = true, .warps = 1};
  bool threads = d->k->form == TS_FORM_explicit && d->k->threads > WARP;
  if (!threads || ts_tile_find(d->k->body, TS_TILE_role)) return;
  a->single = false;
  a->warps = d->k->threads / WARP;
  a->unit = unit_of(ts_tile_find(d->k->body, TS_TILE_mma));
}

static bool is_one_group(const TsDebugAgent *a) {
  return a->single || a->lanes || a->warps <= GROUP_WARPS;
}

/* ---- threads of a role meet: of four warps, or all */
static void meet(TsTileDebug *d, int i, bool all) {
  TsDebugAgent *a = &d->agent[i];
  all |= is_one_group(a);
  a->met = a->now;
  a->copies_met = a->copies_done;
  raise_to(&a->known.of[TS_DEBUG_FENCED + i], a->fenced);
  raise_to(&a->known.of[TS_DEBUG_STORES + i], a->stores_done);
  raise_to(&a->known.of[TS_DEBUG_WRITES + i], a->writes_done);
  if (!all) return;
  raise_to(&a->known.of[i], a->now);
  raise_to(&a->known.of[TS_DEBUG_COPIES + i], a->copies_done);
}

/* One thread meets itself. */
static void settle(TsTileDebug *d, int i) {
  if (d->agent[i].single) meet(d, i, true);
}

/* What an arrival tells. */
static TsDebugClock release(TsTileDebug *d, int i, bool apart) {
  TsDebugAgent *a = &d->agent[i];
  bool each = apart || a->single || (a->unit && !is_unit(a->unit, "wgmma"));
  TsDebugClock c = a->known;
  raise_to(&c.of[i], each ? a->now : a->met);
  if (!each) return c;
  raise_to(&c.of[TS_DEBUG_FENCED + i], a->fenced);
  raise_to(&c.of[TS_DEBUG_STORES + i], a->stores_done);
  raise_to(&c.of[TS_DEBUG_WRITES + i], a->writes_done);
  raise_to(&c.of[TS_DEBUG_COPIES + i], a->copies_done);
  return c;
}

/* ---- barriers that count */
TsDebugSlot *ts_debug_slot(TsTileDebug *d, TsTileVal barrier, int64_t index) {
  for (int i = 0; i < d->nslot; i++)
    if (d->slot[i].barrier == barrier && d->slot[i].index == index) return &d->slot[i];
  if (d->nslot == TS_DEBUG_CLOCKS - TS_DEBUG_SLOTS) { /* many share one */
    d->partly = "130 barriers of a block";
    return &d->slot[0];
  }
  TsDebugSlot *s = &d->slot[d->nslot++];
  *s = (TsDebugSlot){.barrier = barrier, .index = index};
  return s;
}

static TsDebugSlot *slot_of(TsTileDebug *d, const TsTileStmt *s, TsTileRunBarrier **b) {
  int64_t index = ts_tile_run_scalar(d->run, s->in[1]);
  TsTileRunPlace *p = ts_tile_run_place(d->run, s->in[0]);
  if (!p || index < 0 || index >= p->n) return NULL;
  *b = (TsTileRunBarrier *)(void *)p->at + index;
  return ts_debug_slot(d, s->in[0], index);
}

/* Phases that are complete: all have arrived, and no bytes are due. */
static uint32_t complete(const TsDebugSlot *s, const TsTileRunBarrier *b) {
  return s->closed - ((s->closed & 1) != (uint32_t)b->parity);
}

uint32_t ts_debug_phases(TsTileDebug *d, const TsDebugSlot *s) {
  TsTileRunPlace *p = ts_tile_run_place(d->run, s->barrier);
  return p ? complete(s, (TsTileRunBarrier *)(void *)p->at + s->index) : 0;
}

static void arrive(TsTileDebug *d, const TsTileStmt *s, int i) {
  TsTileRunBarrier *b = NULL;
  TsDebugSlot *slot = slot_of(d, s, &b);
  int64_t needed = s->in[0]->type.count ? s->in[0]->type.count : 1;
  if (!slot) return;
  TsDebugClock told = release(d, i, attr(s, "apart"));
  join(&slot->told, &told);
  slot->arrive = s;
  if (++slot->arrivals < needed) return;
  slot->arrivals = 0;
  slot->told.of[TS_DEBUG_SLOTS + (slot - d->slot)] = slot->closed + 1;
  slot->done[slot->closed & 1] = slot->told;
  slot->closed++;
}

static void expect(TsTileDebug *d, const TsTileStmt *s) {
  TsTileRunBarrier *b = NULL;
  TsDebugSlot *slot = slot_of(d, s, &b);
  if (slot) slot->expected += attr(s, "bytes");
}

void ts_debug_copied(TsTileDebug *d, const TsTileStmt *s, TsDebugSlot *slot) {
  slot->copied += ts_tile_run_copy_bytes(d->run, s);
}

/* Of too few it says nobody can go on; too many come when nobody waits for them any more. */
static void count_bytes(TsTileDebug *d, const TsTileStmt *s, TsDebugSlot *slot) {
  TsText t = {0};
  if (slot->copied <= slot->expected) return;
  ts_text_format(&t, "copies bring %lld bytes, of which the barrier expects %lld\n",
                 (long long)slot->copied, (long long)slot->expected);
  ts_debug_say_here(d, &t, s);
  ts_debug_found(d, "barrier", s, NULL, &t);
  slot->copied = slot->expected;
}

static void look_at(TsTileDebug *d, const TsTileStmt *s, int i) {
  TsTileRunBarrier *b = NULL;
  TsDebugSlot *slot = slot_of(d, s, &b);
  if (!slot) return;
  int parity = (int)ts_tile_run_scalar(d->run, s->in[2]) & 1;
  d->agent[i].awaited[slot - d->slot].waited = b->parity == parity;
}

static void await(TsTileDebug *d, const TsTileStmt *s, int i) {
  TsTileRunBarrier *b = NULL;
  TsDebugSlot *slot = slot_of(d, s, &b);
  TsDebugAgent *a = &d->agent[i];
  if (!slot) return;
  uint32_t n = complete(slot, b);
  count_bytes(d, s, slot);
  TsDebugAwaited *w = &a->awaited[slot - d->slot];
  *w = (TsDebugAwaited){s, n, (int)ts_tile_run_scalar(d->run, s->in[2]) & 1, w->waited};
  if (n) join(&a->known, &slot->done[(n - 1) & 1]);
}

/* ---- barriers of threads */
static int64_t threads_of(const TsTileDebug *d, const TsTileStmt *s) {
  const TsAttr *threads = ts_tile_attr(s, "threads");
  int64_t n = 0;
  if (threads->type == TS_ATTR_int) return threads->i;
  for (int i = 0; i < d->run->nrole; i++) n += d->run->role[i].threads;
  return n;
}

static void come(TsTileDebug *d, const TsTileStmt *s, int i) {
  int64_t name = attr(s, "name");
  meet(d, i, true);
  if (i == TS_DEBUG_SELF || name < 0 || name >= TS_TILE_RUN_BARRIERS) return;
  TsDebugClock told = release(d, i, true);
  join(&d->met[name].told, &told);
  d->met[name].arrived += d->run->now->threads;
  if (d->met[name].arrived < threads_of(d, s)) return;
  d->met[name].done = d->met[name].told;
  d->met[name].arrived = 0;
  memset(&d->met[name].told, 0, sizeof d->met[name].told);
}

static void leave(TsTileDebug *d, const TsTileStmt *s, int i) {
  if (i != TS_DEBUG_SELF) join(&d->agent[i].known, &d->met[attr(s, "name")].done);
}

/* ---- groups */
static void commit(TsTileDebug *d, const TsTileStmt *s, int i) {
  TsDebugAgent *a = &d->agent[i];
  int of = (int)attr(s, "of");
  if (of == OF_PRODUCTS) a->issued[a->products % TS_DEBUG_ISSUED] = a->now;
  *(of == OF_COPIES ? &a->copies : of == OF_PRODUCTS ? &a->products : &a->stores) += 1;
}

static uint32_t less(uint32_t groups, int64_t pending) {
  return groups > pending ? groups - (uint32_t)pending : 0;
}

static void wait_products(TsDebugAgent *a, int i, uint32_t done) {
  raise_to(&a->known.of[TS_DEBUG_PRODUCTS + i], done);
  if (!done || done + TS_DEBUG_ISSUED <= a->products) return;
  uint32_t issued = a->issued[(done - 1) % TS_DEBUG_ISSUED];
  raise_to(&a->met, issued);
  if (is_one_group(a)) raise_to(&a->known.of[i], issued);
}

static void wait(TsTileDebug *d, const TsTileStmt *s, int i) {
  TsDebugAgent *a = &d->agent[i];
  int64_t pending = attr(s, "pending");
  switch (attr(s, "of")) {
  case OF_COPIES: raise_to(&a->copies_done, less(a->copies, pending)); break;
  case OF_PRODUCTS: wait_products(a, i, less(a->products, pending)); break;
  case OF_WRITES: raise_to(&a->writes_done, less(a->stores, pending)); /* fall through */
  default: raise_to(&a->stores_done, less(a->stores, pending));
  }
  settle(d, i);
}

/* Who fences tells the copy engine of all that it knows. */
static void fence(TsTileDebug *d, const TsTileStmt *s, int i) {
  TsDebugAgent *a = &d->agent[i];
  if (attr(s, "scope") != SCOPE_ASYNC) return;
  a->fenced = a->now;
  for (int k = 0; k < TS_DEBUG_AGENTS; k++)
    raise_to(&a->known.of[TS_DEBUG_FENCED + k], a->known.of[k]);
  settle(d, i);
}

/* ---- blocks */
static bool room_for(TsTileDebug *d, TsDebugClock ***list, uint32_t *room, uint32_t block) {
  if (block < *room) return true;
  uint32_t n = 2 * block + 16;
  TsDebugClock **more = realloc(*list, sizeof *more * n);
  if (!more) return d->out_of_memory = true, false;
  memset(more + *room, 0, sizeof *more * (n - *room));
  *list = more, *room = n;
  return true;
}

static void learn(TsTileDebug *d, TsDebugClock ***list, uint32_t *room, uint32_t block,
                  const TsDebugClock *c) {
  if (!c || !room_for(d, list, room, block)) return;
  TsDebugClock **at = &(*list)[block];
  if (!*at && !(*at = calloc(1, sizeof **at)))
    d->out_of_memory = true;
  else
    join(*at, c);
}

static void forget(TsDebugClock **list, uint32_t room) {
  for (uint32_t i = 0; i < room; i++) free(list[i]), list[i] = NULL;
}

static TsDebugSignal *signal_of(TsTileDebug *d, const TsTileStmt *s) {
  TsTileRunPlace *p = ts_tile_run_place(d->run, s->in[0]);
  int64_t at = 0;
  for (int i = 0; p && i < s->in[0]->type.rank; i++)
    at += ts_tile_run_scalar(d->run, s->in[1 + i]) * p->stride[i];
  const void *address = p ? p->at + at * ts_tile_run_size(s->in[0]) : NULL;
  for (int i = 0; i < d->nsignal; i++)
    if (d->signal[i].at == address) return &d->signal[i];
  TsDebugSignal *more = realloc(d->signal, sizeof *more * (size_t)(d->nsignal + 1));
  if (!more) return d->out_of_memory = true, NULL;
  d->signal = more;
  more[d->nsignal] = (TsDebugSignal){.at = address};
  return &more[d->nsignal++];
}

static void give(TsTileDebug *d, const TsTileStmt *s, int i) {
  TsDebugSignal *x = signal_of(d, s);
  TsDebugClock own = release(d, i, true);
  if (!x) return;
  for (uint32_t b = d->first_block; b < d->room_others; b++)
    learn(d, &x->told, &x->room, b, d->others[b]);
  learn(d, &x->told, &x->room, d->block, &own);
}

static void take(TsTileDebug *d, const TsTileStmt *s) {
  TsDebugSignal *x = signal_of(d, s);
  for (uint32_t b = 0; x && b < x->room; b++)
    if (b != d->block) learn(d, &d->others, &d->room_others, b, x->told[b]);
}

/* ---- products: the sums of those under way are nobody's */
static void carried(TsTileDebug *d, TsTileVal from, TsTileVal to) {
  d->due[to->id] = d->due[from->id];
}

static void carry_first(TsTileDebug *d, const TsTileStmt *s) {
  int first = s->op == TS_TILE_for ? 2 : 0, param = s->op == TS_TILE_for;
  for (int i = 0; i < s->nout; i++) {
    carried(d, s->in[first + i], s->out[i]);
    carried(d, s->in[first + i], s->region[0]->param[param + i]);
  }
}

static void carry_on(TsTileDebug *d, const TsTileStmt *s) {
  const TsTileRegion *r = s->in_region;
  const TsTileStmt *owner = r->owner;
  int first = owner->op == TS_TILE_repeat, param = owner->op == TS_TILE_for;
  for (int i = 0; i < owner->nout; i++) {
    carried(d, s->in[first + i], owner->out[i]);
    if (owner->op != TS_TILE_if) carried(d, s->in[first + i], r->param[param + i]);
  }
}

static bool passes_on(const TsTileStmt *s, int operand) {
  return s->op == TS_TILE_for || s->op == TS_TILE_repeat || s->op == TS_TILE_yield ||
         (s->op == TS_TILE_mma && operand == 2);
}

static void look_for_sums(TsTileDebug *d, const TsTileStmt *s, int i) {
  uint32_t done = d->agent[i].known.of[TS_DEBUG_PRODUCTS + i];
  for (int k = 0; k < s->nin; k++) {
    if (d->due[s->in[k]->id] <= done || passes_on(s, k)) continue;
    TsText t = {0};
    ts_text_str(&t, "sums are used while their product is under way\n");
    ts_debug_say_here(d, &t, s);
    ts_text_format(&t, "  they are of group %u of products; role %s has waited for %u\n",
                   d->due[s->in[k]->id], ts_debug_agent_name(d, i), done);
    ts_debug_found(d, "wait", s, NULL, &t);
    d->due[s->in[k]->id] = 0;
  }
}

/* ---- statements */
void ts_debug_order_before(TsTileDebug *d, const TsTileStmt *s) {
  int i = ts_debug_agent(d);
  if (d->agent[i].products || d->agent[i].unit) look_for_sums(d, s, i);
  switch (s->op) {
  case TS_TILE_role: {
    int n = 0;
    for (const TsTileStmt *o = s; o && o->op == TS_TILE_role && n < TS_TILE_ROLES; o = o->next)
      begin_role(d, o, &d->agent[n++]);
    memset(d->met, 0, sizeof d->met);
    break;
  }
  case TS_TILE_for:
  case TS_TILE_repeat: carry_first(d, s); break;
  case TS_TILE_yield:
    if (s->in_region->owner) carry_on(d, s);
    break;
  case TS_TILE_sync: meet(d, i, false); break;
  case TS_TILE_barrier: come(d, s, i); break;
  case TS_TILE_await: look_at(d, s, i); break;
  case TS_TILE_fence: fence(d, s, i); break;
  case TS_TILE_signal: give(d, s, i); break;
  case TS_TILE_claim:
    meet(d, i, true);
    give(d, s, i);
    break;
  default: break;
  }
}

/* Shared memory is others' when a block has ended: whoever reads or writes it then is late. */
static void look_for_late(TsTileDebug *d, TsDebugAgent *a) {
  TsText t = {0};
  if (!a->stored || a->stored_group <= a->stores_done) return;
  ts_text_str(&t, "a role ends before its bulk stores have read their memory\n");
  ts_debug_say_line(d, &t, a->stored);
  ts_text_format(
      &t, "  it is of group %u of bulk stores; role %s has committed %u and waited for %u\n",
      a->stored_group, a->name && *a->name ? a->name : "without a name", a->stores,
      a->stores_done);
  ts_debug_found(d, "wait", a->stored, NULL, &t);
}

static void look_for_copies(TsTileDebug *d) {
  const TsTileRunCopy *c = d->run->engine.first;
  TsText t = {0};
  if (!c) return;
  ts_text_str(&t, "the roles end before a copy has come, for which nobody waits\n");
  ts_debug_say_line(d, &t, c->stmt);
  ts_debug_found(d, "wait", c->stmt, NULL, &t);
}

static void end_roles(TsTileDebug *d, const TsTileStmt *s) {
  TsDebugAgent *self = &d->agent[TS_DEBUG_SELF];
  int n = 0;
  for (const TsTileStmt *o = s; o && o->op == TS_TILE_role && n < TS_TILE_ROLES;
       o = o->next, n++) {
    look_for_late(d, &d->agent[n]);
    d->agent[n].known.of[n] = d->agent[n].now;
    join(&self->known, &d->agent[n].known);
  }
  look_for_copies(d);
}

void ts_debug_order_after(TsTileDebug *d, const TsTileStmt *s) {
  int i = ts_debug_agent(d);
  switch (s->op) {
  case TS_TILE_role: end_roles(d, s); break;
  case TS_TILE_arrive: arrive(d, s, i); break;
  case TS_TILE_expect: expect(d, s); break;
  case TS_TILE_await: await(d, s, i); break;
  case TS_TILE_barrier: leave(d, s, i); break;
  case TS_TILE_commit: commit(d, s, i); break;
  case TS_TILE_wait: wait(d, s, i); break;
  case TS_TILE_until:
  case TS_TILE_claim: take(d, s); break;
  case TS_TILE_mma:
    d->due[s->out[0]->id] = is_unit(d->agent[i].unit, "wgmma") ? d->agent[i].products + 1 : 0;
    break;
  default: break;
  }
}

/* ---- what is asked */
/* Both accesses are of role a, which has several threads. */
static bool ordered_within(TsTileDebug *d, const TsDebugEvent *e, int a, int64_t offset,
                           const TsDebugEvent *mine, bool *depends) {
  const TsDebugAgent *x = &d->agent[a];
  if (x->single || x->known.of[a] >= e->clock) return true;
  if (!mine || e->engine || mine->counts != a) return e->clock <= x->met;
  *depends = true;
  TsDebugWho one = ts_debug_who(d, e, offset), other = ts_debug_who(d, mine, offset);
  bool known = one.warp >= 0 && other.warp >= 0;
  if (known && one.warp == other.warp && one.lane == other.lane && one.lane >= 0) return true;
  bool together = !known || one.warp / GROUP_WARPS == other.warp / GROUP_WARPS;
  return together && e->clock <= x->met;
}

static bool is_of_device(TsTileVal memory) { return memory->type.space <= TS_SPACE_scratch; }

bool ts_debug_ordered(TsTileDebug *d, const TsDebugEvent *e, int a, int64_t offset,
                      const TsDebugEvent *mine, bool *depends) {
  *depends = false;
  if (e->block != d->block && is_of_device(e->memory)) {
    if (e->block < d->first_block) return true;
    const TsDebugClock *c = e->block < d->room_others ? d->others[e->block] : NULL;
    return c && c->of[e->counts] >= e->clock;
  }
  if (e->counts == a) return ordered_within(d, e, a, offset, mine, depends);
  /* Each four warps copy a line for themselves. */
  if (e->counts == TS_DEBUG_COPIES + a && e->memory->type.rank == 1 &&
      d->agent[a].copies_met >= e->clock)
    return true;
  return d->agent[a].known.of[e->counts] >= e->clock;
}

bool ts_debug_fenced(const TsTileDebug *d, const TsDebugEvent *e, int a) {
  if (e->engine || e->counts >= TS_DEBUG_AGENTS) return true;
  const TsDebugAgent *x = &d->agent[a];
  uint32_t known = x->known.of[TS_DEBUG_FENCED + e->counts];
  if (e->counts == a && x->single && x->fenced > known) known = x->fenced;
  return known >= e->clock;
}

/* ---- runs and blocks */
void ts_debug_order_block(TsTileDebug *d) {
  memset(d->agent, 0, sizeof d->agent);
  memset(d->slot, 0, sizeof d->slot);
  memset(d->met, 0, sizeof d->met);
  d->nslot = 0;
  forget(d->others, d->room_others);
  begin_self(d);
}

/* Loads whose only readers are products that read shared memory themselves. */
static void see_uses(TsTileDebug *d, const TsTileRegion *r, bool loads) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    const char *unit = s->op == TS_TILE_mma ? unit_of(s) : NULL;
    bool reads = is_unit(unit, "wgmma") || is_unit(unit, "fma");
    if (loads && s->op == TS_TILE_load && s->in[0]->type.space == TS_SPACE_shared)
      d->feeds[s->out[0]->id] = 1;
    for (int i = 0; !loads && i < s->nin; i++)
      if (!reads || i == 2) d->feeds[s->in[i]->id] = 0;
    for (int i = 0; i < s->nregion; i++) see_uses(d, s->region[i], loads);
  }
}

int ts_debug_order_open(TsTileDebug *d) {
  size_t n = d->k->nvalue + 1;
  d->due = calloc(n, sizeof *d->due);
  d->feeds = calloc(n, sizeof *d->feeds);
  if (!d->due || !d->feeds) return -1;
  see_uses(d, d->k->body, true);
  see_uses(d, d->k->body, false);
  ts_debug_order_block(d);
  return 0;
}

void ts_debug_order_close(TsTileDebug *d) {
  forget(d->others, d->room_others);
  free(d->others);
  for (int i = 0; i < d->nsignal; i++) {
    forget(d->signal[i].told, d->signal[i].room);
    free(d->signal[i].told);
  }
  free(d->signal);
  free(d->due);
  free(d->feeds);
  d->others = NULL, d->room_others = 0;
  d->signal = NULL, d->nsignal = 0;
  d->due = NULL, d->feeds = NULL;
}
