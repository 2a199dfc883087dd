/* Stacks of lines, and places behind them. */
#include "ir/text/line.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PLACES = 10000 };

void *ts_text_push(TsReader *r, TsTextStack *s, size_t size) {
  if (s->n == s->cap) {
    int cap = s->cap ? s->cap * 2 : 64;
    void *more = realloc(s->at, size * (size_t)cap);
    if (!more) return ts_read_no_memory(r), NULL;
    s->at = more;
    s->cap = cap;
  }
  return (char *)s->at + size * (size_t)s->n++;
}

static bool is_place(TsToken *t) {
  if (t->kind == TS_TOKEN_end) return false;
  while (t->len && isspace((unsigned char)*t->at)) t->at++, t->len--;
  while (t->len && isspace((unsigned char)t->at[t->len - 1])) t->len--;
  int digits = 0;
  while (digits < t->len && isdigit((unsigned char)t->at[t->len - 1 - digits])) digits++;
  return digits && digits < t->len && t->at[t->len - 1 - digits] == ':';
}

TsMapSlot *ts_text_place(TsReader *r, TsTextMap *places, TsArena *keep, const char **text) {
  TsToken t = r->comment;
  *text = NULL;
  if (!is_place(&t)) return NULL;
  TsMapSlot *slot = ts_text_map_enter(places, t.at, t.len);
  if (!slot || slot->count || places->used > MOST_PLACES) return slot;
  char *copy = ts_arena_alloc(keep, (size_t)t.len + 1);
  if (copy) memcpy(copy, t.at, (size_t)t.len);
  *text = copy;
  return slot;
}
