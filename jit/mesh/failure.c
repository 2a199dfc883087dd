/* See jit/mesh/failure.h. Nothing here asks for memory. */
#include "jit/mesh/failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "devices/device.h"
#include "vm/mesh/failure.h"
#include "vm/mesh/parts.h"

/* Appends, as far as there is room. */
typedef struct Line {
  char *at;
  size_t room, n;
} Line;

static void say(Line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(Line *l, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  int n = vsnprintf(l->at + l->n, l->room - l->n, format, ap);
  va_end(ap);
  if (n > 0) l->n = l->n + (size_t)n < l->room ? l->n + (size_t)n : l->room - 1;
}

static void say_bytes(Line *l, int64_t n) {
  if (n < 1024) say(l, "%lld bytes", (long long)n);
  if (n >= 1024 && n < 1 << 20) say(l, "%.3g KiB", (double)n / 1024);
  if (n >= 1 << 20 && n < 1 << 30) say(l, "%.3g MiB", (double)n / (1 << 20));
  if (n >= 1 << 30) say(l, "%.3g GiB", (double)n / (1 << 30));
}

/* ---- what it was to do */
static const char *place_in(const TsGraph *g) {
  for (int i = 0; i < g->nnode; i++)
    if (*ts_graph_where(g->node[i])) return ts_graph_where(g->node[i]);
  return "";
}

/* "matmul .. mul, f32[8,4]": the first and the last operator, and what comes out. */
static void say_piece(Line *l, const TsGraph *g) {
  char a[TS_META_TEXT];
  const TsNode *first = NULL, *last = NULL;
  for (int i = 0; i < g->nnode; i++) {
    if (g->node[i]->op >= TS_OP_COUNT) continue;
    if (!first) first = g->node[i];
    last = g->node[i];
  }
  if (first) say(l, "%s", ts_op_info((TsOp)first->op)->name);
  if (last && last != first) say(l, " .. %s", ts_op_info((TsOp)last->op)->name);
  int big = 0;
  for (int i = 1; i < g->nresult; i++)
    if (ts_meta_nbytes(&g->result[i]->meta) > ts_meta_nbytes(&g->result[big]->meta)) big = i;
  if (g->nresult) say(l, ", %s", ts_meta_text(&g->result[big]->meta, a));
}

static void say_join(Line *l, TsMeshRun *r, const TsMeshStep *s) {
  TsCollective sent;
  char a[TS_META_TEXT], b[TS_META_TEXT];
  const TsNode *node = r->plan->join[s->at].node;
  bool sends = ts_mesh_run_sent(r, s->at, &sent);
  say(l, "%s", sends ? ts_collective_name(sent.kind) : "a move");
  if (node && node->op < TS_OP_COUNT) say(l, " of %s", ts_op_info((TsOp)node->op)->name);
  if (!sends) return;
  say(l, ", %s -> %s", ts_meta_text(&sent.before, a), ts_meta_text(&sent.meta, b));
}

/* ---- what a device holds */
typedef struct Held {
  int slot, part;
  int64_t bytes;
} Held;

enum { FEW = 4 };

typedef struct Holdings {
  int n;
  int64_t bytes, params, whole; /* of parameters; of those that every device has all of */
  Held most[FEW];
} Holdings;

static int param_of(const TsMeshPlan *p, int slot) {
  for (int i = 0; i < p->g->nparam; i++)
    if (p->param[i] == slot) return i;
  return -1;
}

static bool is_whole(const TsMeshSlot *s) {
  const TsLayout *l = ts_layout_of(&s->meta);
  for (int d = 0; l && d < s->meta.ndim; d++)
    if (l->naxis[d]) return false;
  return true;
}

static void add(Holdings *h, TsMeshRun *r, int slot, int part, int64_t bytes) {
  Held one = {slot, part, bytes};
  h->n++;
  h->bytes += bytes;
  if (param_of(r->plan, slot) >= 0) h->params += bytes;
  if (param_of(r->plan, slot) >= 0 && is_whole(&r->plan->slot[slot])) h->whole += bytes;
  for (int i = 0; i < FEW; i++) {
    if (one.bytes <= h->most[i].bytes) continue;
    Held less = h->most[i];
    h->most[i] = one, one = less;
  }
}

typedef struct Where {
  int slot, place, part, k;
} Where;

/* The next entry of the run's slots, those of parameters first. false: there is none. */
static bool next(const TsMeshRun *r, Where *w) {
  const TsMeshSpace *s = &r->plan->space;
  if (++w->k < (r->plan->slot[w->slot].micro ? s->nmicro : 1)) return true;
  w->k = 0;
  if (++w->part < s->n) return true;
  w->part = 0;
  if (++w->place < s->nplace) return true;
  w->place = 0;
  return ++w->slot < r->plan->nslot;
}

/* What entry w has there, if it is on the device. */
static const TsTensor *held_at(TsMeshRun *r, Where w, int device) {
  const TsMeshSpace *s = &r->plan->space;
  if (s->real->device[ts_space_part(s, w.place, w.part)] != device) return NULL;
  return *ts_mesh_slot(r, w.slot, w.place, w.part, w.k);
}

/* Whether an entry before this one has the same memory. What nobody else holds has not to be looked
 * for. */
static bool counted(TsMeshRun *r, Where until, int device, const TsTensor *t) {
  Where w = {.k = -1};
  if (t->refs == 1 && t->storage->refs == 1) return false;
  while (next(r, &w) && memcmp(&w, &until, sizeof w)) {
    const TsTensor *u = held_at(r, w, device);
    if (u && u->storage == t->storage) return true;
  }
  return false;
}

/* Memory counts once, as that of the first slot that has some of it. */
static void find_held(TsMeshRun *r, int device, Holdings *h) {
  Where w = {.k = -1};
  while (r->plan->nslot && next(r, &w)) {
    const TsTensor *t = held_at(r, w, device);
    if (t && !counted(r, w, device, t))
      add(h, r, w.slot, ts_space_part(&r->plan->space, w.place, w.part), t->storage->nbytes);
  }
}

/* The operator that it comes from, or NULL. */
static const char *maker_of(const TsMeshPlan *p, int slot) {
  for (int i = 0; i < p->ngroup * p->space.n; i++) {
    const TsMeshPiece *piece = &p->piece[i * p->space.nmicro];
    for (int o = 0; piece->g && o < piece->nout; o++)
      if (piece->out[o] == slot) return ts_node_name(piece->g->result[o]->node);
  }
  return NULL;
}

static void say_slot(Line *l, const TsMeshPlan *p, int slot) {
  char a[TS_META_TEXT];
  int i = param_of(p, slot);
  const char *name = i >= 0 ? p->g->param[i]->name : maker_of(p, slot);
  if (i >= 0) say(l, "parameter ");
  if (name) say(l, "%s ", name);
  say(l, "%s", ts_meta_text(&p->slot[slot].meta, a));
}

static void say_held(Line *l, TsMeshRun *r, const Holdings *h, const char *name) {
  say(l, "; of the plan %s holds ", name);
  say_bytes(l, h->bytes);
  say(l, " in %d tensor%s", h->n, h->n == 1 ? "" : "s");
  for (int i = 0; i < FEW && h->most[i].bytes; i++) {
    size_t before = l->n;
    say(l, i ? ", " : ": ");
    say_slot(l, r->plan, h->most[i].slot);
    say(l, " ");
    say_bytes(l, h->most[i].bytes);
    if (l->n + 1 < l->room) continue;
    l->at[l->n = before] = 0; /* no half names */
    break;
  }
}

/* What would make it less, by what there is most of. */
static int hint(TsMeshRun *r, const Holdings *h, const char *name) {
  const TsMeshPlan *p = r->plan;
  bool remat = p->how.chunks > 0;
  for (int i = 0; i < p->how.chunks; i++) remat &= !p->how.again[i];
  char text[sizeof r->c->err.hint];
  Line l = {text, sizeof text, 0};
  text[0] = 0;
  if (p->peak) {
    int64_t peak = 0;
    for (int i = 0; i < p->space.real->n; i++)
      if (p->space.real->device[i] >= 0 &&
          !strcmp(ts_device_at(p->space.real->device[i])->name, name) && p->peak[i] > peak)
        peak = p->peak[i];
    say(&l, "the plan needs ");
    say_bytes(&l, peak);
    say(&l, " there; ");
  }
  bool params = 2 * h->whole > h->bytes;
  if (params && p->g->nupdate)
    say(&l, "plan = {zero = 3} spreads parameters and their states, ");
  if (params && !p->g->nupdate)
    say(&l, "parameters spread over the mesh, as by dist.shard_module, ");
  if (p->g->nupdate)
    say(&l, "plan = {micro = %d} keeps less at a time, ",
        p->how.micro > 1 ? 2 * p->how.micro : 2);
  if (remat) say(&l, "pp = {rematerialise = true} keeps less of the forward pass, ");
  say(&l, "more devices make parts smaller");
  return ts_error_hint(&r->c->err, "%s", text);
}

/* ---- */
/* Who says so: its name begins a message of a device. */
static const char *device_in(const char *message) {
  static const char full[] = "out of memory: ";
  if (!strncmp(message, full, sizeof full - 1)) message += sizeof full - 1;
  for (int d = 0; d < TS_DEVICE_MESH; d++) {
    const char *name = ts_device_at(d)->name;
    size_t n = strlen(name);
    if (n && !strncmp(message, name, n) && (message[n] == ':' || message[n] == ' '))
      return name;
  }
  return NULL;
}

int ts_mesh_failure(TsMeshRun *r, const TsMeshStep *s, int whose) {
  TsError *e = &r->c->err;
  char was[sizeof e->message], mesh[80] = "";
  if (e->code != TS_ERR_memory && e->code != TS_ERR_device) return -1;
  snprintf(was, sizeof was, "%s", e->message);
  ts_mesh_failed_bare(was);
  const char *name = device_in(was);
  if (!name && whose >= 0) name = ts_device_at(whose)->name;
  const TsMeshPlan *p = r->plan;
  Line m = {mesh, sizeof mesh, 0}, l = {e->message, sizeof e->message, 0};
  const TsMesh *real = p->space.real;
  for (int a = 0; a < real->naxis; a++) say(&m, " %s=%d", real->axis[a], real->size[a]);
  const char *place = "";
  const TsGraph *g = NULL;
  if (!s) {
    place = place_in(p->g);
  } else if (s->join) {
    const TsNode *node = p->join[s->at].node;
    place = node ? ts_graph_where(node) : "";
  } else {
    for (int part = 0; part < p->space.n && !g; part++)
      g = p->piece[ts_mesh_piece(p, s->at, part, s->k < 0 ? 0 : s->k)].g;
    place = g ? place_in(g) : "";
  }
  char *at = strstr(was, " (in "), where[120] = "";
  if (at) snprintf(where, sizeof where, "%s", at), *at = 0;
  if (!at && *place) snprintf(where, sizeof where, " (in %.40s, %.60s)", p->g->name, place);
  say(&l, "%.200s", was);
  say(&l, name && !device_in(was) ? ": %s at " : ": at ", name);
  if (!s)
    say(&l, "arguments or results");
  else if (s->join)
    say_join(&l, r, s);
  else if (g)
    say_piece(&l, g);
  say(&l, "%s of %s on mesh%s", s ? s->join ? ", sent by the plan" : ", a piece" : "",
      p->g->name, mesh);
  say(&l, "%s", where);
  if (e->code != TS_ERR_memory) return -1;
  Holdings h = {0};
  const TsDevice *d = NULL;
  for (int i = 0; name && i < TS_DEVICE_MESH && !d; i++)
    if (!strcmp(ts_device_at(i)->name, name)) d = ts_device_at(i);
  if (d) find_held(r, d->index, &h);
  if (d) say_held(&l, r, &h, name);
  return hint(r, &h, name ? name : "");
}
