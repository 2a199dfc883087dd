/* Ctrl-R: the newest entry that contains what is typed, then older ones with more Ctrl-R. */
#include "repl/edit/state.h"

#include <string.h>

#include "repl/edit/utf8.h"

typedef struct Search {
  TsEditText query, prompt, original;
  long place; /* of the entry shown; history.count before the first is found */
  int failing;
} Search;

static void build_prompt(TsEdit *e, Search *s) {
  ts_edit_text_clear(&s->prompt);
  ts_edit_text_append_string(&s->prompt, s->failing ? "(no match) '" : "(search) '");
  ts_edit_text_append_string(&s->prompt, ts_edit_text_string(&s->query));
  ts_edit_text_append_string(&s->prompt, "': ");
  e->search_prompt = ts_edit_text_string(&s->prompt);
}

static void show_match(TsEdit *e, Search *s, long place, const char *found) {
  const char *entry = e->history.entries[place];
  s->place = e->place = place;
  ts_edit_text_set(&e->text, entry, strlen(entry));
  if (e->text.failed) return;
  e->match = e->text.cursor = (size_t)(found - entry);
  e->match_size = s->query.size;
}

/* Looks from `place` on, in steps of -1 (older) or 1, for an entry other than `shown`. */
static void find(TsEdit *e, Search *s, long place, int step, const char *shown) {
  const char *query = ts_edit_text_string(&s->query);
  s->failing = 0;
  e->match_size = 0;
  if (!*query) return;
  for (; place >= 0 && place < (long)e->history.count; place += step) {
    const char *found = strstr(e->history.entries[place], query);
    if (found && strcmp(e->history.entries[place], shown) != 0) {
      show_match(e, s, place, found);
      return;
    }
  }
  s->failing = 1;
}

/* A text that was entered often is shown once. */
static void find_next(TsEdit *e, Search *s, int step) {
  find(e, s, s->place + step, step, ts_edit_text_string(&e->text));
}

static void shorten(TsEdit *e, Search *s) {
  size_t size = s->query.size;
  ts_edit_text_erase(&s->query, ts_edit_text_previous(&s->query, size), size);
  find(e, s, (long)e->history.count - 1, -1, "");
}

static void extend(TsEdit *e, Search *s, uint32_t code) {
  char bytes[4];
  ts_edit_text_append(&s->query, bytes, ts_edit_utf8_encode(code, bytes));
  long newest = (long)e->history.count - 1;
  find(e, s, s->place < newest ? s->place : newest, -1, "");
}

/* 1 if the key was the search's. */
static int handle(TsEdit *e, Search *s, uint32_t key) {
  if (key == TS_KEY_CTRL('R'))
    find_next(e, s, -1);
  else if (key == TS_KEY_CTRL('S'))
    find_next(e, s, 1);
  else if (key == 0x7f || key == TS_KEY_CTRL('H'))
    shorten(e, s);
  else if (key >= 0x20 && key < TS_KEY_eof)
    extend(e, s, key);
  else
    return 0;
  return 1;
}

uint32_t ts_edit_search_run(TsEdit *e) {
  Search s = {.place = (long)e->history.count};
  uint32_t key;
  ts_edit_text_set(&s.original, ts_edit_text_string(&e->text), e->text.size);
  ts_edit_text_set(&e->draft, ts_edit_text_string(&e->text), e->text.size);
  do {
    build_prompt(e, &s);
    key = ts_edit_loop_key(e);
  } while (handle(e, &s, key));
  int cancel = key == TS_KEY_escape || key == TS_KEY_CTRL('G');
  if (cancel) ts_edit_text_set(&e->text, ts_edit_text_string(&s.original), s.original.size);
  e->search_prompt = NULL, e->match_size = 0;
  e->text.failed |= s.query.failed | s.original.failed;
  ts_edit_text_free(&s.query), ts_edit_text_free(&s.prompt), ts_edit_text_free(&s.original);
  return cancel ? (uint32_t)TS_KEY_none : key;
}
