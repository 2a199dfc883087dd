/* Names of the values of a kernel in text. */
#include <math.h>

#include "ir/text/name.h"
#include "ir/tile/text.h"

enum { IN_PLACE = -1 };

/* ---- constants in place. The count of a value's slot is how often it is used, or IN_PLACE. */
static int count_uses(TsTileNames *m, const TsTileRegion *r) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    for (int i = 0; i < s->nin; i++) {
      TsMapSlot *slot =
          s->in[i] ? ts_text_map_enter(&m->value, s->in[i], TS_KEY_ADDRESS) : NULL;
      if (s->in[i] && !slot) return -1;
      if (slot) slot->count++;
    }
    for (int i = 0; i < s->nregion; i++)
      if (count_uses(m, s->region[i])) return -1;
  }
  return 0;
}

static bool is_plain_index(const TsTileType *t) {
  return t->dtype == TS_DT_i64 && !t->rank && t->space == TS_SPACE_value && !t->strided &&
         !t->swizzle && !t->count && !t->split;
}

static bool is_number(const TsTileNames *m, const TsTileStmt *c, const TsTileStmt *user) {
  if (!c || c->op != TS_TILE_const || c->nin || c->nout != 1) return false;
  if (m->places && c->line != user->line) return false;
  TsTileVal v = c->out[0];
  double f = c->attr[0].f;
  return is_plain_index(&v->type) && !(v->name && *v->name) && c->attr[0].type == TS_ATTR_f &&
         fabs(f) < 1e15 && f == floor(f) && !(f == 0 && signbit(f));
}

/* Reading makes the constants of a line in the order of its operands, directly before it. */
static void find_in_place(TsTileNames *m, const TsTileStmt *s) {
  const TsTileStmt *c = s->prev;
  for (int i = s->nin; i-- > 0 && is_number(m, c, s);) {
    if (s->in[i] != c->out[0]) continue;
    TsMapSlot *slot = ts_text_map_find(&m->value, s->in[i], TS_KEY_ADDRESS);
    if (!slot || slot->count != 1) return;
    slot->count = IN_PLACE;
    slot->value = "";
    c = c->prev;
  }
}

static void all_in_place(TsTileNames *m, const TsTileRegion *r) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    find_in_place(m, s);
    for (int i = 0; i < s->nregion; i++) all_in_place(m, s->region[i]);
  }
}

/* ---- names */
typedef struct Naming {
  TsTileNames *m;
  TsTextMap scope;
  int unnamed;
} Naming;

static int name_value(Naming *n, TsTileVal v) {
  TsMapSlot *s = v ? ts_text_map_enter(&n->m->value, v, TS_KEY_ADDRESS) : NULL;
  TsArena *a = &n->m->arena;
  if (!s) return v ? -1 : 0;
  if (s->value) return 0;
  if (v->name && *v->name) {
    const char *name = ts_name_legal(a, v->name);
    s->value = name ? ts_name_unique(a, &n->scope, name) : NULL;
  } else {
    s->value = ts_name_numbered(a, n->unnamed++);
  }
  return s->value ? 0 : -1;
}

static int name_values(Naming *n, int count, const TsTileVal *v) {
  for (int i = 0; i < count; i++)
    if (name_value(n, v[i])) return -1;
  return 0;
}

static int name_region(Naming *n, const TsTileRegion *r) {
  if (name_values(n, r->nparam, r->param)) return -1;
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    if (name_values(n, s->nout, s->out)) return -1;
    for (int i = 0; i < s->nregion; i++)
      if (name_region(n, s->region[i])) return -1;
  }
  return 0;
}

int ts_tile_names_open(TsTileNames *m, const TsTile *k, bool places) {
  Naming n = {.m = m};
  *m = (TsTileNames){.places = places};
  if (count_uses(m, k->body)) return -1;
  all_in_place(m, k->body);
  int bad = name_values(&n, k->nparam, k->param) || name_region(&n, k->body);
  ts_text_map_free(&n.scope);
  return bad ? -1 : 0;
}

void ts_tile_names_close(TsTileNames *m) {
  ts_arena_free(&m->arena);
  ts_text_map_free(&m->value);
}

static const TsMapSlot *slot_of(const TsTileNames *m, TsTileVal v) {
  return v ? ts_text_map_find(&m->value, v, TS_KEY_ADDRESS) : NULL;
}

const char *ts_tile_names_of(const TsTileNames *m, TsTileVal v) {
  const TsMapSlot *s = slot_of(m, v);
  return s && s->value ? s->value : "?";
}

bool ts_tile_names_in_place(const TsTileNames *m, TsTileVal v) {
  const TsMapSlot *s = slot_of(m, v);
  return s && s->count == IN_PLACE;
}
