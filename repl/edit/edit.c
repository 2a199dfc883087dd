/* The editor's life, and the functions around reading; see repl/edit/loop.c for the reading
 * itself. */
#include "repl/edit/edit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "repl/edit/state.h"

static int can_edit(int in, int out) {
  const char *terminal = getenv("TERM");
  return terminal && *terminal && strcmp(terminal, "dumb") != 0 && isatty(in) && isatty(out);
}

TsEdit *ts_edit_open(int in_fd, int out_fd, const char *history_path) {
  TsEdit *e = calloc(1, sizeof *e);
  if (!e) return NULL;
  if (ts_edit_term_open(&e->term, in_fd, out_fd) < 0) return free(e), NULL;
  e->in = in_fd, e->out = out_fd;
  e->interactive = can_edit(in_fd, out_fd);
  e->keys.fd = in_fd, e->keys.wake_fd = e->term.wake[0];
  const char *no_colour = getenv("NO_COLOR");
  e->screen.colours = !no_colour || !*no_colour;
  pthread_mutex_init(&e->lock, NULL);
  if (history_path && *history_path) e->history_path = strdup(history_path);
  return e;
}

/* Read when there is time, or when it is needed: a long one would hold up the first prompt. */
void ts_edit_need_history(TsEdit *e) {
  char *path = e->history_path;
  if (!path) return;
  e->history_path = NULL;
  ts_edit_history_load(&e->history, path);
  free(path);
  e->place = (long)e->history.count;
}

void ts_edit_close(TsEdit *e) {
  if (!e) return;
  ts_edit_history_save(&e->history, 2000);
  ts_edit_history_free(&e->history);
  free(e->history_path);
  ts_edit_term_close(&e->term);
  if (e->stream && e->stream != stdin) fclose(e->stream);
  TsEditText *texts[] = {&e->text,  &e->attributes, &e->killed,    &e->signature,
                         &e->draft, &e->messages,   &e->screen.out};
  ts_edit_undo_clear(&e->undo);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) ts_edit_text_free(texts[i]);
  pthread_mutex_destroy(&e->lock);
  free(e);
}

void ts_edit_set_hooks(TsEdit *e, const TsEditHooks *hooks) {
  e->hooks = hooks ? *hooks : (TsEditHooks){0};
}

char *ts_edit_read(TsEdit *e, const char *prompt, const char *continuation_prompt) {
  e->prompt = prompt ? prompt : "";
  e->continuation = continuation_prompt ? continuation_prompt : "";
  e->status = TS_EDIT_FAILED;
  e->done = 0;
  ts_edit_text_free(&e->text);
  if (!e->interactive) return ts_edit_plain_read(e);
  ts_edit_loop_set_reading(e, 1);
  if (ts_edit_term_enter(&e->term) == 0) return ts_edit_loop_read(e);
  ts_edit_loop_set_reading(e, 0);
  return ts_edit_plain_read(e);
}

void ts_edit_hold_interrupts(int on) { ts_edit_term_hold(on); }

TsEditStatus ts_edit_status(const TsEdit *e) { return e->status; }

size_t ts_edit_size(const TsEdit *e) { return e->text.size; }

int ts_edit_interactive(const TsEdit *e) { return e->interactive; }

int ts_edit_columns(const TsEdit *e) {
  int columns, rows;
  ts_edit_term_size(&e->term, &columns, &rows);
  return columns;
}

int ts_edit_rows(const TsEdit *e) {
  int columns, rows;
  ts_edit_term_size(&e->term, &columns, &rows);
  return rows;
}

void ts_edit_remember(TsEdit *e, const char *text) {
  ts_edit_need_history(e);
  if (ts_edit_history_add(&e->history, text) > 0) ts_edit_history_save(&e->history, 50);
}

size_t ts_edit_history_size(TsEdit *e) {
  ts_edit_need_history(e);
  return e->history.count;
}

const char *ts_edit_history_entry(TsEdit *e, size_t index) {
  ts_edit_need_history(e);
  return index < e->history.count ? e->history.entries[index] : NULL;
}

/* Appends the text and the line end that it lacks. */
static int append_lines(TsEditText *out, const char *text) {
  size_t size = strlen(text);
  ts_edit_text_append(out, text, size);
  if (size > 0 && text[size - 1] != '\n') ts_edit_text_append(out, "\n", 1);
  int status = out->failed ? -1 : 0;
  out->failed = 0;
  return status;
}

int ts_edit_print(TsEdit *e, const char *text) {
  pthread_mutex_lock(&e->lock);
  int status = append_lines(&e->messages, text);
  if (e->reading)
    ts_edit_term_wake(&e->term);
  else
    ts_edit_loop_write_messages(e);
  pthread_mutex_unlock(&e->lock);
  return status;
}
