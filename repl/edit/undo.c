/* Undo. Each change keeps the whole text that was: what is typed at a prompt is small, and there is
 * no change that could be forgotten. Where memory runs out there is nothing to undo. */
#include "repl/edit/undo.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 1000 };

static void drop(TsEditUndo *u) {
  for (int i = 0; i < u->count; i++) free(u->state[i].text);
  free(u->state);
  u->state = NULL;
  u->count = u->room = 0;
}

void ts_edit_undo_clear(TsEditUndo *u) {
  drop(u);
  ts_edit_text_free(&u->last);
  u->typing = 0;
}

static int grow(TsEditUndo *u) {
  if (u->count == MOST) {
    free(u->state[0].text);
    memmove(u->state, u->state + 1, sizeof *u->state * (size_t)--u->count);
  }
  if (u->count < u->room) return 0;
  int room = u->room ? 2 * u->room : 16;
  void *more = realloc(u->state, sizeof *u->state * (size_t)room);
  if (!more) return -1;
  u->state = more, u->room = room;
  return 0;
}

static void push(TsEditUndo *u) {
  char *copy = strdup(ts_edit_text_string(&u->last));
  if (!copy || grow(u) < 0) return free(copy), drop(u);
  u->state[u->count++] = (struct TsEditState){copy, u->last.cursor};
}

static void remember(TsEditUndo *u, const TsEditText *text) {
  if (ts_edit_text_set(&u->last, ts_edit_text_string(text), text->size) < 0) {
    drop(u);
    return ts_edit_text_free(&u->last);
  }
  u->last.cursor = text->cursor;
}

void ts_edit_undo_note(TsEditUndo *u, const TsEditText *text, char typed) {
  int changed = text->size != u->last.size ||
                memcmp(ts_edit_text_string(text), ts_edit_text_string(&u->last), text->size);
  char before = u->last.cursor ? u->last.data[u->last.cursor - 1] : ' ';
  int begins = before == ' ' && typed != ' '; /* another word */
  if (changed && !(typed && u->typing && !begins)) push(u);
  u->typing = changed && typed;
  if (changed)
    remember(u, text);
  else
    u->last.cursor = text->cursor;
}

void ts_edit_undo_run(TsEditUndo *u, TsEditText *text) {
  if (!u->count) return;
  struct TsEditState s = u->state[--u->count];
  if (ts_edit_text_set(text, s.text, strlen(s.text)) == 0) text->cursor = s.cursor;
  free(s.text);
  remember(u, text);
}
