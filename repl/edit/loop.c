/* The editor at work: show, wait for a key, run what it means; and what comes in between:
   signals, resizes, messages of other threads. */
#include "repl/edit/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const unsigned char *attributes(TsEdit *e) {
  const char *text = ts_edit_text_string(&e->text);
  if (!e->hooks.highlight && !e->match_size) return NULL;
  if (ts_edit_text_set(&e->attributes, text, e->text.size) < 0 || !e->attributes.data) {
    e->attributes.failed = 0;
    return NULL;
  }
  memset(e->attributes.data, TS_EDIT_PLAIN, e->text.size);
  unsigned char *bytes = (unsigned char *)e->attributes.data;
  if (e->hooks.highlight) e->hooks.highlight(e->hooks.arg, text, bytes);
  memset(bytes + e->match, TS_EDIT_MATCH, e->match_size);
  return bytes;
}

static const char *hint(TsEdit *e) {
  int calm = !e->done && !e->search_prompt && !e->below && e->text.size;
  if (!calm || !e->hooks.hint || e->text.cursor != e->text.size) return NULL;
  return e->hooks.hint(e->hooks.arg, ts_edit_text_string(&e->text));
}

/* Under the text, as far as it fits and where there is room. */
static const char *signature(TsEdit *e) {
  int calm = !e->done && !e->search_prompt && !e->below && e->text.size && e->screen.rows > 3;
  const char *s =
      calm && e->hooks.signature
          ? e->hooks.signature(e->hooks.arg, ts_edit_text_string(&e->text), e->text.cursor)
          : NULL;
  if (!s || !*s) return NULL;
  TsEditText *out = &e->signature;
  ts_edit_text_clear(out);
  ts_edit_text_append_string(out, "\x1b[2m");
  ts_edit_text_fit(out, s, e->screen.columns - 1);
  int failed = out->failed;
  out->failed = 0;
  return failed ? NULL : out->data;
}

void ts_edit_loop_view(TsEdit *e, TsEditView *view) {
  const char *line = signature(e);
  *view = (TsEditView){.prompt = e->search_prompt ? e->search_prompt : e->prompt,
                       .continuation = e->continuation,
                       .text = ts_edit_text_string(&e->text),
                       .size = e->text.size,
                       .cursor = e->text.cursor,
                       .attributes = attributes(e),
                       .hint = hint(e),
                       .below = line ? line : e->below,
                       .below_rows = line ? 1 : e->below_rows};
}

/* The one write of a redraw. */
static void flush(TsEdit *e) {
  TsEditText *out = &e->screen.out;
  if (!out->failed) ts_edit_term_write(e->out, ts_edit_text_string(out), out->size);
  ts_edit_text_clear(out);
}

static void resize(TsEdit *e) {
  int columns, rows;
  ts_edit_term_size(&e->term, &columns, &rows);
  if (columns == e->screen.columns && rows == e->screen.rows) return;
  TsEditView view;
  ts_edit_loop_view(e, &view);
  ts_edit_screen_resize(&e->screen, &view, columns, rows);
}

static void refresh(TsEdit *e) {
  TsEditView view;
  ts_edit_loop_view(e, &view);
  ts_edit_screen_draw(&e->screen, &view);
  flush(e);
}

/* Leaves the text as it stands on the screen; the next drawing begins below. */
static void finish(TsEdit *e, const char *tail) {
  TsEditView view;
  ts_edit_loop_view(e, &view);
  ts_edit_screen_finish(&e->screen, &view, tail);
  flush(e);
}

/* Output that does not end with a line end would be overwritten by the prompt. A mark and
   blanks up to the margin end such a row, and vanish under the prompt where there is none. */
static void begin_row(TsEdit *e) {
  ts_edit_text_append_string(&e->screen.out, "\x1b[7m%\x1b[0m");
  for (int i = 1; i < e->screen.columns; i++) ts_edit_text_append(&e->screen.out, " ", 1);
  ts_edit_text_append_string(&e->screen.out, "\r\x1b[J");
  e->screen.cursor_row = e->screen.top = 0;
}

static void append_raw_line(TsEditText *out, const char *text) {
  for (; *text; text++) {
    if (*text == '\n') ts_edit_text_append(out, "\r", 1);
    ts_edit_text_append(out, text, 1);
  }
}

static void show_messages(TsEdit *e) {
  pthread_mutex_lock(&e->lock);
  if (e->messages.size) {
    ts_edit_screen_erase(&e->screen);
    append_raw_line(&e->screen.out, e->messages.data);
    ts_edit_text_clear(&e->messages);
  }
  pthread_mutex_unlock(&e->lock);
}

void ts_edit_loop_write_messages(TsEdit *e) {
  ts_edit_term_write(e->out, ts_edit_text_string(&e->messages), e->messages.size);
  ts_edit_text_clear(&e->messages);
}

void ts_edit_loop_set_reading(TsEdit *e, int reading) {
  pthread_mutex_lock(&e->lock);
  e->reading = reading;
  if (!reading) ts_edit_loop_write_messages(e);
  pthread_mutex_unlock(&e->lock);
}

/* What was typed before Ctrl-C. */
static void forget_keys(TsEdit *e) {
  ts_edit_term_forget(&e->term);
  e->keys.begin = e->keys.end;
}

static void handle_events(TsEdit *e) {
  unsigned events = ts_edit_term_events(&e->term);
  if (events & TS_EDIT_EVENT_interrupt) {
    forget_keys(e);
    ts_edit_loop_stop(e, TS_EDIT_INTERRUPTED);
  }
  if (events & TS_EDIT_EVENT_stop) ts_edit_loop_suspend(e);
  if (events & TS_EDIT_EVENT_resume) {
    if (ts_edit_term_enter(&e->term) < 0) ts_edit_loop_stop(e, TS_EDIT_FAILED);
    begin_row(e);
  }
  resize(e);
  show_messages(e);
}

uint32_t ts_edit_loop_key(TsEdit *e) {
  while (!e->done) {
    if (!ts_edit_keys_pending(&e->keys)) refresh(e);
    ts_edit_need_history(e);
    uint32_t key = ts_edit_keys_next(&e->keys);
    if (key == TS_KEY_wake)
      handle_events(e);
    else if (key == TS_KEY_eof)
      ts_edit_loop_stop(e, TS_EDIT_EOF);
    else
      return key;
  }
  return TS_KEY_none;
}

void ts_edit_loop_stop(TsEdit *e, TsEditStatus status) {
  if (e->done) return;
  e->done = 1;
  e->status = status;
}

void ts_edit_loop_pause(TsEdit *e) {
  finish(e, "");
  ts_edit_term_leave(&e->term);
}

void ts_edit_loop_resume(TsEdit *e) {
  if (ts_edit_term_enter(&e->term) < 0) ts_edit_loop_stop(e, TS_EDIT_FAILED);
  begin_row(e);
  resize(e);
}

void ts_edit_loop_suspend(TsEdit *e) {
  finish(e, "");
  if (ts_edit_term_suspend(&e->term) < 0) ts_edit_loop_stop(e, TS_EDIT_FAILED);
  begin_row(e);
  resize(e);
}

/* Memory ran out in what the user would miss: the read fails, and all of it is let go. */
static void check_memory(TsEdit *e) {
  TsEditText *texts[] = {&e->text, &e->killed, &e->draft, &e->screen.out};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    if (!texts[i]->failed) continue;
    ts_edit_text_free(texts[i]);
    ts_edit_loop_stop(e, TS_EDIT_FAILED);
    errno = ENOMEM;
  }
}

static void begin(TsEdit *e) {
  ts_edit_term_size(&e->term, &e->screen.columns, &e->screen.rows);
  e->place = (long)e->history.count;
  e->killing = e->goal_kept = 0;
  ts_edit_text_clear(&e->draft);
  ts_edit_undo_clear(&e->undo);
  begin_row(e);
}

static char *end(TsEdit *e) {
  int why = errno;
  e->text.cursor = e->text.size;
  finish(e, e->status == TS_EDIT_INTERRUPTED ? "^C" : "");
  ts_edit_term_leave(&e->term);
  if (ts_edit_term_events(&e->term) & TS_EDIT_EVENT_interrupt && e->status == TS_EDIT_LINE) {
    forget_keys(e);
    e->status = TS_EDIT_INTERRUPTED; /* right behind Enter */
    ts_edit_term_write(e->out, "^C\n", 3);
  }
  ts_edit_loop_set_reading(e, 0);
  char *copy = e->status == TS_EDIT_LINE ? strdup(ts_edit_text_string(&e->text)) : NULL;
  if (!copy && e->status == TS_EDIT_LINE) e->status = TS_EDIT_FAILED, why = ENOMEM;
  ts_edit_text_free(&e->screen.out);
  return errno = why, copy;
}

char *ts_edit_loop_read(TsEdit *e) {
  for (begin(e); !e->done; check_memory(e)) {
    uint32_t key = ts_edit_loop_key(e);
    if (!e->done) ts_edit_commands_run(e, key);
  }
  return end(e);
}
