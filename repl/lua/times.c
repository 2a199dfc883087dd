/* What vm/mesh/times.h recorded, as tables: {sent, rows, work, more, more_work, lost, reason}, times in microseconds. */
#include "devices/device.h"
#include "repl/lua/mesh.h"
#include "repl/lua_api.h"
#include "vm/mesh/times.h"

static void set_number(lua_State *L, const char *key, double v) {
  lua_pushnumber(L, v);
  lua_setfield(L, -2, key);
}

static void set_usec(lua_State *L, const char *key, int64_t nsec) {
  set_number(L, key, (double)nsec / 1e3);
}

static void set_text(lua_State *L, const char *key, const char *text) {
  if (!text || !*text) return;
  lua_pushstring(L, text);
  lua_setfield(L, -2, key);
}

static const char *name_of(int device) { return ts_device_at(device)->name; }

static void push_sent(lua_State *L, const TsTimesSent *s) {
  lua_createtable(L, 0, 12);
  set_text(L, "kind", s->kind);
  set_text(L, "operator", s->asks);
  set_text(L, "place", s->place);
  set_number(L, "at_once", s->n);
  set_number(L, "bytes", (double)s->bytes);
  set_number(L, "share", s->share);
  lua_pushboolean(L, s->away);
  lua_setfield(L, -2, "away");
  lua_newtable(L);
  for (int a = 0, n = 0; a < s->mesh->naxis; a++) {
    if (!(s->axes >> a & 1)) continue;
    lua_pushstring(L, s->mesh->axis[a]);
    lua_rawseti(L, -2, ++n);
  }
  lua_setfield(L, -2, "axes");
}

/* With what each device did. */
static void push_one(lua_State *L, const TsTimesSent *s) {
  push_sent(L, s);
  lua_createtable(L, s->ndevice, 0);
  for (int i = 0; i < s->ndevice; i++) {
    const TsTimesDevice *d = &s->of[i];
    lua_createtable(L, 0, 7);
    set_text(L, "device", name_of(d->device));
    set_usec(L, "arrived", d->arrived);
    set_usec(L, "there", d->there);
    set_usec(L, "stop", d->end);
    set_usec(L, "waited", d->waited);
    set_usec(L, "worked", d->worked);
    if (s->last >= 0 && i != s->last) set_text(L, "waits_for", name_of(s->of[s->last].device));
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "devices");
}

static void push_row(lua_State *L, const TsTimesRow *row) {
  int n = 0;
  push_sent(L, &row->first);
  set_number(L, "count", (double)row->count);
  set_usec(L, "usec", row->nsec);
  set_usec(L, "busy", row->busy);
  set_usec(L, "worked", row->worked);
  lua_newtable(L);
  for (int i = 0; i < row->first.ndevice; i++) {
    lua_pushstring(L, name_of(row->first.of[i].device));
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "devices");
  lua_newtable(L);
  for (int a = 0; a < TS_MAX_DEVICES; a++)
    for (int b = 0; b < TS_MAX_DEVICES; b++) {
      if (!row->wait[a][b]) continue;
      lua_createtable(L, 0, 3);
      set_text(L, "device", name_of(a));
      set_text(L, "waits_for", name_of(b));
      set_usec(L, "usec", row->wait[a][b]);
      lua_rawseti(L, -2, ++n);
    }
  lua_setfield(L, -2, "waits");
}

void ts_lua_push_times(lua_State *L, const TsTimes *t) {
  luaL_checkstack(L, 12, "what was sent");
  lua_createtable(L, 0, 7);
  lua_createtable(L, t->nsent, 0);
  for (int i = 0; i < t->nsent; i++) {
    push_one(L, &t->sent[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "sent");
  lua_createtable(L, t->nrow, 0);
  for (int i = 0; i < t->nrow; i++) {
    push_row(L, &t->row[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "rows");
  lua_createtable(L, t->nsent ? t->nwork : 0, 0);
  for (int i = 0; i < t->nwork && t->nsent; i++) {
    const TsTimesWork *w = &t->work[i];
    lua_createtable(L, 0, 3);
    set_text(L, "device", name_of(w->device));
    set_usec(L, "start", w->start);
    set_usec(L, "stop", w->end);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "work");
  set_number(L, "more", (double)t->more);
  set_number(L, "more_work", (double)t->more_work);
  set_number(L, "lost", (double)t->lost);
  set_text(L, "reason", t->reason);
}
