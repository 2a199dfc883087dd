/* Names that read back, and that differ. */
#include "ir/text/name.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool in_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* A dot stands before a word, so that %lo..%hi is a range. */
char *ts_name_legal(TsArena *a, const char *name) {
  char *s = ts_arena_text(a, name);
  if (s && *s && !isalpha((unsigned char)*s)) *s = '_';
  for (char *p = s; p && *p; p++)
    if (!in_word(*p) && !(*p == '.' && in_word(p[1]))) *p = '_';
  return s;
}

/* The slot of a name counts, so that many equal names do not search from 1. */
const char *ts_name_unique(TsArena *a, TsTextMap *scope, const char *name) {
  size_t len = strlen(name);
  TsMapSlot *s = ts_text_map_enter(scope, name, (int)len);
  if (!s) return NULL;
  if (!s->value) return s->value = name;
  char *longer = ts_arena_alloc(a, len + 16);
  for (int i = s->count + 1; longer; i++) {
    int n = snprintf(longer, len + 16, "%s.%d", name, i);
    TsMapSlot *other = ts_text_map_find(scope, longer, n);
    if (other) continue;
    ts_text_map_find(scope, name, (int)len)->count = i;
    other = ts_text_map_enter(scope, longer, n);
    return other ? other->value = longer : NULL;
  }
  return NULL;
}

const char *ts_name_numbered(TsArena *a, int n) {
  char text[16];
  snprintf(text, sizeof text, "%d", n);
  return ts_arena_text(a, text);
}
