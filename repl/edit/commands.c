/* What the keys do: one small function a command, and the table that binds them. */
#include "repl/edit/state.h"

#include <string.h>

#include "repl/edit/utf8.h"

static void insert_code(TsEdit *e, uint32_t code) {
  char bytes[4];
  ts_edit_text_insert(&e->text, bytes, ts_edit_utf8_encode(code, bytes));
}

/* ---- moving ---- */

static void left(TsEdit *e) {
  e->text.cursor = ts_edit_text_previous(&e->text, e->text.cursor);
}
static void right(TsEdit *e) { e->text.cursor = ts_edit_text_next(&e->text, e->text.cursor); }
static void home(TsEdit *e) {
  e->text.cursor = ts_edit_text_line_start(&e->text, e->text.cursor);
}
static void end(TsEdit *e) { e->text.cursor = ts_edit_text_line_end(&e->text, e->text.cursor); }
static void first(TsEdit *e) { e->text.cursor = 0; }
static void last(TsEdit *e) { e->text.cursor = e->text.size; }

static void word_left(TsEdit *e) {
  e->text.cursor = ts_edit_text_word_start(&e->text, e->text.cursor);
}

static void word_right(TsEdit *e) {
  e->text.cursor = ts_edit_text_word_end(&e->text, e->text.cursor);
}

/* To the line that begins at `target`, in the column where the vertical moves began. */
static void vertical(TsEdit *e, size_t target) {
  size_t start = ts_edit_text_line_start(&e->text, e->text.cursor);
  if (!e->goal_kept)
    e->goal = ts_edit_utf8_columns(e->text.data + start, e->text.cursor - start);
  e->goal_kept = 2;
  e->text.cursor = ts_edit_text_at_column(&e->text, target, e->goal);
}

/* ---- history ---- */

/* The text that is being written is a draft, and so is a recalled entry once it is changed. */
static void keep_draft(TsEdit *e) {
  const char *text = ts_edit_text_string(&e->text);
  long count = (long)e->history.count;
  if (e->place < count && strcmp(text, e->history.entries[e->place]) == 0) return;
  e->place = count;
  ts_edit_text_set(&e->draft, text, e->text.size);
}

static void show(TsEdit *e, long place) {
  e->place = place;
  if (place < (long)e->history.count) {
    const char *entry = e->history.entries[place];
    ts_edit_text_set(&e->text, entry, strlen(entry));
  } else {
    ts_edit_text_set(&e->text, ts_edit_text_string(&e->draft), e->draft.size);
  }
}

static void older(TsEdit *e, const char *prefix) {
  long place =
      ts_edit_history_older(&e->history, e->place, prefix, ts_edit_text_string(&e->text));
  if (place >= 0) show(e, place);
}

static void newer(TsEdit *e, const char *prefix) {
  if (e->place >= (long)e->history.count) return;
  long place =
      ts_edit_history_newer(&e->history, e->place, prefix, ts_edit_text_string(&e->text));
  show(e, place >= 0 ? place : (long)e->history.count);
}

/* A draft of one line restricts the walk to entries that begin with it. */
static const char *prefix(TsEdit *e) {
  const char *draft = ts_edit_text_string(&e->draft);
  return strchr(draft, '\n') ? "" : draft;
}

static void history_older(TsEdit *e) { keep_draft(e), older(e, ""); }
static void history_newer(TsEdit *e) { keep_draft(e), newer(e, ""); }

static void up(TsEdit *e) {
  size_t start = ts_edit_text_line_start(&e->text, e->text.cursor);
  if (start > 0)
    vertical(e, ts_edit_text_line_start(&e->text, start - 1));
  else
    keep_draft(e), older(e, prefix(e));
}

static void down(TsEdit *e) {
  size_t stop = ts_edit_text_line_end(&e->text, e->text.cursor);
  if (stop < e->text.size)
    vertical(e, stop + 1);
  else
    keep_draft(e), newer(e, prefix(e));
}

/* ---- changing ---- */

static void delete_left(TsEdit *e) {
  size_t at = e->text.cursor;
  ts_edit_text_erase(&e->text, ts_edit_text_previous(&e->text, at), at);
}

static void delete_right(TsEdit *e) {
  size_t at = e->text.cursor;
  ts_edit_text_erase(&e->text, at, ts_edit_text_next(&e->text, at));
}

/* Kills in a row gather in one piece, in the order of the text. */
static void kill(TsEdit *e, size_t from, size_t to) {
  if (!e->killed_before) ts_edit_text_clear(&e->killed);
  e->killing = 1;
  e->killed.cursor = to <= e->text.cursor ? 0 : e->killed.size;
  if (from < to && ts_edit_text_insert(&e->killed, e->text.data + from, to - from) == 0)
    ts_edit_text_erase(&e->text, from, to);
}

/* At the end of a line the line end itself goes. */
static void kill_to_end(TsEdit *e) {
  size_t at = e->text.cursor, stop = ts_edit_text_line_end(&e->text, at);
  kill(e, at, stop > at || stop == e->text.size ? stop : stop + 1);
}

static void kill_to_start(TsEdit *e) {
  kill(e, ts_edit_text_line_start(&e->text, e->text.cursor), e->text.cursor);
}

static void kill_blank_word(TsEdit *e) {
  kill(e, ts_edit_text_blank_start(&e->text, e->text.cursor), e->text.cursor);
}

static void kill_word_left(TsEdit *e) {
  kill(e, ts_edit_text_word_start(&e->text, e->text.cursor), e->text.cursor);
}

static void kill_word_right(TsEdit *e) {
  kill(e, e->text.cursor, ts_edit_text_word_end(&e->text, e->text.cursor));
}

static void yank(TsEdit *e) {
  ts_edit_text_insert(&e->text, ts_edit_text_string(&e->killed), e->killed.size);
}

/* Swaps the characters around the cursor, at the end of a line the two before it. */
static void transpose(TsEdit *e) {
  TsEditText *t = &e->text;
  size_t start = ts_edit_text_line_start(t, t->cursor), right_start = t->cursor;
  if (right_start == ts_edit_text_line_end(t, right_start) && right_start > start)
    right_start = ts_edit_text_previous(t, right_start);
  if (right_start <= start) return;
  size_t left_start = ts_edit_text_previous(t, right_start);
  size_t stop = ts_edit_text_next(t, right_start), left_size = right_start - left_start;
  t->cursor = stop;
  TsEditText piece = {0};
  if (ts_edit_text_append(&piece, t->data + left_start, left_size) == 0) {
    ts_edit_text_insert(t, piece.data, left_size);
    ts_edit_text_erase(t, left_start, right_start);
  }
  t->failed |= piece.failed;
  ts_edit_text_free(&piece);
}

static void newline(TsEdit *e) {
  size_t blanks = ts_edit_indent_after(ts_edit_text_string(&e->text), e->text.cursor);
  ts_edit_text_insert(&e->text, "\n", 1);
  while (blanks-- > 0 && !e->text.failed) ts_edit_text_insert(&e->text, " ", 1);
}

/* Line ends behind the paste would only leave an empty line to step over. */
static void paste(TsEdit *e) {
  TsEditText pasted = {0};
  ts_edit_keys_paste(&e->keys, &pasted);
  if (e->text.cursor == e->text.size)
    while (pasted.size > 0 && pasted.data[pasted.size - 1] == '\n') pasted.size--;
  ts_edit_text_insert(&e->text, ts_edit_text_string(&pasted), pasted.size);
  e->text.failed |= pasted.failed;
  ts_edit_text_free(&pasted);
}

/* ---- the line as a whole ---- */

static void enter(TsEdit *e) {
  ts_edit_indent_close(&e->text);
  const char *text = ts_edit_text_string(&e->text);
  if (e->hooks.incomplete && e->hooks.incomplete(e->hooks.arg, text, e->text.size))
    newline(e);
  else
    ts_edit_loop_stop(e, TS_EDIT_LINE);
}

static void interrupt(TsEdit *e) { ts_edit_loop_stop(e, TS_EDIT_INTERRUPTED); }

static void delete_or_end(TsEdit *e) {
  if (e->text.size)
    delete_right(e);
  else
    ts_edit_loop_stop(e, TS_EDIT_EOF);
}

static void undo(TsEdit *e) { ts_edit_undo_run(&e->undo, &e->text); }

/* Ctrl-X and another key. */
static void extended(TsEdit *e) {
  uint32_t key = ts_edit_loop_key(e);
  if (key == TS_KEY_CTRL('E')) ts_edit_outside_run(e);
  if (key == TS_KEY_CTRL('U')) undo(e);
}

static void clear_screen(TsEdit *e) {
  ts_edit_screen_erase(&e->screen);
  ts_edit_text_append_string(&e->screen.out, "\x1b[H\x1b[2J");
}

static const struct {
  uint32_t key;
  void (*run)(TsEdit *e);
} bindings[] = {
    {'\r', enter},
    {'\n', enter},
    {TS_KEY_alt | '\r', newline},
    {TS_KEY_alt | '\n', newline},
    {TS_KEY_paste, paste},
    {TS_KEY_CTRL('C'), interrupt},
    {TS_KEY_CTRL('D'), delete_or_end},
    {TS_KEY_CTRL('L'), clear_screen},
    {TS_KEY_CTRL('Z'), ts_edit_loop_suspend},

    {TS_KEY_left, left},
    {TS_KEY_CTRL('B'), left},
    {TS_KEY_right, right},
    {TS_KEY_CTRL('F'), right},
    {TS_KEY_home, home},
    {TS_KEY_CTRL('A'), home},
    {TS_KEY_end, end},
    {TS_KEY_CTRL('E'), end},
    {TS_KEY_page_up, first},
    {TS_KEY_alt | '<', first},
    {TS_KEY_page_down, last},
    {TS_KEY_alt | '>', last},
    {TS_KEY_word_left, word_left},
    {TS_KEY_alt | 'b', word_left},
    {TS_KEY_word_right, word_right},
    {TS_KEY_alt | 'f', word_right},

    {TS_KEY_up, up},
    {TS_KEY_down, down},
    {TS_KEY_CTRL('P'), history_older},
    {TS_KEY_CTRL('N'), history_newer},

    {0x7f, delete_left},
    {TS_KEY_CTRL('H'), delete_left},
    {TS_KEY_delete, delete_right},
    {TS_KEY_CTRL('K'), kill_to_end},
    {TS_KEY_CTRL('U'), kill_to_start},
    {TS_KEY_CTRL('W'), kill_blank_word},
    {TS_KEY_alt | 0x7f, kill_word_left},
    {TS_KEY_alt | TS_KEY_CTRL('H'), kill_word_left},
    {TS_KEY_alt | 'd', kill_word_right},
    {TS_KEY_delete_word, kill_word_right},
    {TS_KEY_CTRL('Y'), yank},
    {TS_KEY_CTRL('T'), transpose},
    {TS_KEY_CTRL('_'), undo},
    {TS_KEY_CTRL('X'), extended},
};

static void run_one(TsEdit *e, uint32_t key) {
  e->killed_before = e->killing, e->killing = 0;
  if (e->goal_kept > 0) e->goal_kept--;
  if (key >= 0x20 && key < TS_KEY_eof && key != 0x7f) {
    insert_code(e, key);
    return;
  }
  for (size_t i = 0; i < sizeof bindings / sizeof *bindings; i++)
    if (bindings[i].key == key) {
      bindings[i].run(e);
      return;
    }
}

/* Completion and search read keys themselves, and give back the first that is not theirs. */
void ts_edit_commands_run(TsEdit *e, uint32_t key) {
  while (key != TS_KEY_none && !e->done) {
    char typed = key >= 0x20 && key < TS_KEY_eof && key != 0x7f ? key == ' ' ? ' ' : 'x' : 0;
    if (key == '\t')
      key = ts_edit_complete_run(e);
    else if (key == TS_KEY_CTRL('R'))
      key = ts_edit_search_run(e);
    else
      run_one(e, key), key = TS_KEY_none;
    ts_edit_undo_note(&e->undo, &e->text, typed);
  }
}
