/* Tab. What all candidates share is put in at once; if there are several, a list appears under
   the text, more Tabs walk through it, and the first other key ends it. */
#include "repl/edit/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "repl/edit/utf8.h"

#define GAP 2 /* columns between columns */

typedef struct Candidate {
  char *text, *help;
} Candidate;

struct TsCompletions {
  Candidate *items;
  size_t start, count, capacity;
  int failed;
};

void ts_edit_offer_from(TsCompletions *out, size_t start) { out->start = start; }

static int grow(TsCompletions *c) {
  if (c->count < c->capacity) return 0;
  size_t capacity = c->capacity ? c->capacity * 2 : 32;
  Candidate *items = realloc(c->items, capacity * sizeof *items);
  if (!items) return -1;
  c->items = items, c->capacity = capacity;
  return 0;
}

int ts_edit_offer(TsCompletions *out, const char *text, const char *help) {
  for (size_t i = 0; i < out->count; i++)
    if (strcmp(out->items[i].text, text) == 0) return 0;
  if (grow(out) < 0) return out->failed = 1, -1;
  Candidate item = {strdup(text), help ? strdup(help) : NULL};
  if (!item.text || (help && !item.help)) {
    free(item.text), free(item.help);
    return out->failed = 1, -1;
  }
  out->items[out->count++] = item;
  return 0;
}

static void drop(TsCompletions *c) {
  for (size_t i = 0; i < c->count; i++) free(c->items[i].text), free(c->items[i].help);
  free(c->items);
}

/* Bytes that all candidates begin with, cut to whole characters. */
static size_t common_size(const TsCompletions *c) {
  const char *model = c->items[0].text;
  size_t size = strlen(model);
  for (size_t i = 1; i < c->count; i++) {
    size_t same = 0;
    while (same < size && c->items[i].text[same] == model[same]) same++;
    size = same;
  }
  while (size > 0 && ((unsigned char)model[size] & 0xc0) == 0x80) size--;
  return size;
}

static void replace(TsEdit *e, size_t start, const char *text, size_t size) {
  ts_edit_text_erase(&e->text, start, e->text.cursor);
  e->text.cursor = start;
  ts_edit_text_insert(&e->text, text, size);
}

/* ---- the list ---- */

typedef struct List {
  const TsCompletions *c;
  long chosen;                         /* -1: none yet */
  int width;                           /* of the widest candidate */
  int per_row, rows, shown_rows, help; /* help: one candidate a row, with its help */
} List;

static void put_blanks(TsEditText *out, int count) {
  while (count-- > 0 && !out->failed) ts_edit_text_append(out, " ", 1);
}

static void measure(List *list, int columns, int room) {
  list->width = 1, list->help = 0;
  for (size_t i = 0; i < list->c->count; i++) {
    const Candidate *item = &list->c->items[i];
    size_t width = ts_edit_utf8_columns(item->text, strlen(item->text));
    if (width > (size_t)list->width) list->width = width > 1000 ? 1000 : (int)width;
    list->help |= item->help != NULL;
  }
  if (list->width > columns - 1) list->width = columns - 1;
  list->per_row = list->help ? 1 : (columns - 1 + GAP) / (list->width + GAP);
  if (list->per_row < 1) list->per_row = 1;
  int count = (int)list->c->count;
  list->rows = (count + list->per_row - 1) / list->per_row;
  list->shown_rows = list->rows <= room ? list->rows : room - 1;
}

static void put_candidate(const List *list, TsEditText *out, size_t index, int columns) {
  const Candidate *item = &list->c->items[index];
  int chosen = (long)index == list->chosen;
  if (chosen) ts_edit_text_append_string(out, "\x1b[7m");
  int used = ts_edit_text_fit(out, item->text, list->width);
  if (chosen) ts_edit_text_append_string(out, "\x1b[0m");
  put_blanks(out, list->width - used);
  if (!item->help || columns <= list->width + GAP) return;
  put_blanks(out, GAP);
  ts_edit_text_append_string(out, "\x1b[2m");
  ts_edit_text_fit(out, item->help, columns - list->width - GAP);
}

/* Candidates run down the columns, as in ls. */
static void put_row(const List *list, TsEditText *out, int row, int columns) {
  for (int i = 0; i < list->per_row; i++) {
    size_t index = (size_t)(i * list->rows + row);
    if (index >= list->c->count) break;
    if (i > 0) put_blanks(out, GAP);
    put_candidate(list, out, index, columns);
  }
  ts_edit_text_append(out, "\n", 1);
}

static void put_position(const List *list, TsEditText *out, int first, int columns) {
  char text[64];
  snprintf(text, sizeof text, "(%d-%d of %d rows)", first + 1, first + list->shown_rows,
           list->rows);
  ts_edit_text_append_string(out, "\x1b[2m");
  ts_edit_text_fit(out, text, columns);
  ts_edit_text_append(out, "\n", 1);
}

/* The list may take the rows that the text leaves, or half the screen. */
static int room_for_list(TsEdit *e) {
  TsEditView view;
  ts_edit_loop_view(e, &view);
  int left = e->screen.rows - ts_edit_screen_height(&e->screen, &view);
  return left > e->screen.rows / 2 ? left : e->screen.rows / 2;
}

static void build(TsEdit *e, List *list, TsEditText *out) {
  int columns = e->screen.columns - 1, room = room_for_list(e);
  ts_edit_text_clear(out);
  e->below = NULL, e->below_rows = 0;
  if (room < 2) return;
  measure(list, columns + 1, room);
  int row = list->chosen < 0 ? 0 : (int)list->chosen % list->rows;
  int first = row < list->shown_rows ? 0 : row - list->shown_rows + 1;
  for (int i = 0; i < list->shown_rows; i++) put_row(list, out, first + i, columns);
  int partial = list->shown_rows < list->rows;
  if (partial) put_position(list, out, first, columns);
  if (out->failed) return;
  e->below = out->data, e->below_rows = list->shown_rows + partial;
}

/* ---- choosing ---- */

static long step(const List *list, int direction) {
  long count = (long)list->c->count;
  if (list->chosen < 0) return direction > 0 ? 0 : count - 1;
  return (list->chosen + direction + count) % count;
}

/* 1 for keys that go through the list, -1 backwards, 0 for others. Arrows do once one is
   chosen: before, they still are the text's. */
static int direction_of(const List *list, uint32_t key) {
  if (key == '\t' || (list->chosen >= 0 && key == TS_KEY_down)) return 1;
  return key == TS_KEY_back_tab || (list->chosen >= 0 && key == TS_KEY_up) ? -1 : 0;
}

static uint32_t choose(TsEdit *e, const TsCompletions *c) {
  List list = {.c = c, .chosen = -1};
  TsEditText below = {0}, typed = {0};
  uint32_t key;
  ts_edit_text_append(&typed, ts_edit_text_string(&e->text) + c->start,
                      e->text.cursor - c->start);
  for (;;) {
    build(e, &list, &below);
    key = ts_edit_loop_key(e);
    int direction = direction_of(&list, key);
    if (!direction) break;
    list.chosen = step(&list, direction);
    const char *text = c->items[list.chosen].text;
    replace(e, c->start, text, strlen(text));
  }
  int cancel = key == TS_KEY_escape || key == TS_KEY_CTRL('G');
  if (cancel) replace(e, c->start, ts_edit_text_string(&typed), typed.size);
  e->below = NULL, e->below_rows = 0;
  ts_edit_text_free(&below), ts_edit_text_free(&typed);
  int accept = list.chosen >= 0 && (key == '\r' || key == '\n');
  return cancel || accept ? (uint32_t)TS_KEY_none : key;
}

static void ask(TsEdit *e, TsCompletions *c) {
  size_t cursor = e->text.cursor;
  if (e->hooks.complete)
    e->hooks.complete(e->hooks.arg, ts_edit_text_string(&e->text), cursor, c);
  if (c->start > cursor) c->start = cursor;
}

/* At the beginning of a line Tab indents. */
static int nothing_to_complete(const TsEdit *e) {
  size_t at = e->text.cursor;
  while (at > 0 && (e->text.data[at - 1] == ' ' || e->text.data[at - 1] == '\t')) at--;
  return at == 0 ? e->text.size > 0 : e->text.data[at - 1] == '\n';
}

uint32_t ts_edit_complete_run(TsEdit *e) {
  if (nothing_to_complete(e)) {
    ts_edit_text_insert(&e->text, "  ", 2);
    return TS_KEY_none;
  }
  TsCompletions c = {0};
  uint32_t key = TS_KEY_none;
  ask(e, &c);
  if (c.count > 0) {
    size_t common = common_size(&c);
    if (c.count == 1 || common > e->text.cursor - c.start)
      replace(e, c.start, c.items[0].text, common);
    if (c.count > 1) key = choose(e, &c);
  }
  drop(&c);
  return key;
}
