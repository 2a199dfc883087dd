/* Reading without editing: pipes, files, and terminals that know no escape sequences. */
#include "repl/edit/state.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Standard input is read through stdin, so that io.read goes on where the prompt stopped. */
static FILE *open_stream(int fd) {
  if (fd == STDIN_FILENO) return stdin;
  int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  FILE *stream = copy < 0 ? NULL : fdopen(copy, "r");
  if (!stream && copy >= 0) close(copy);
  return stream;
}

static void show(TsEdit *e, const char *prompt) {
  if (isatty(e->in)) ts_edit_term_write(e->out, prompt, strlen(prompt));
}

static size_t without_line_end(const char *line, size_t size) {
  if (size > 0 && line[size - 1] == '\n')
    size--;
  else
    return size;
  return size > 0 && line[size - 1] == '\r' ? size - 1 : size;
}

/* As getline, which Ctrl-C ends, also one that came as the prompt was shown and was held back. */
static ssize_t read_line(TsEdit *e, char **line, size_t *capacity) {
  sigset_t waiting;
  ssize_t size = -1;
  sigpending(&waiting);
  bool came = sigismember(&waiting, SIGINT) == 1 && isatty(e->in);
  bool held = ts_edit_term_hold(false);
  if (came)
    errno = EINTR;
  else
    size = getline(line, capacity, e->stream);
  int why = errno;
  ts_edit_term_hold(held);
  return errno = why, size;
}

/* Appends one line; 1, or 0 at the end, or -1 with the status set. The end of a terminal's
   input is not for ever, so it is cleared. */
static int add_line(TsEdit *e) {
  char *line = NULL;
  size_t capacity = 0;
  ssize_t size = read_line(e, &line, &capacity);
  int why = errno, failed = size < 0 && !feof(e->stream);
  if (size < 0) clearerr(e->stream);
  if (size > 0 && ts_edit_text_append(&e->text, line, without_line_end(line, (size_t)size)) < 0)
    failed = 1, why = ENOMEM;
  free(line);
  if (!failed) return size > 0;
  e->status = why == EINTR ? TS_EDIT_INTERRUPTED : TS_EDIT_FAILED;
  return errno = why, -1;
}

static int goes_on(TsEdit *e) {
  const char *text = ts_edit_text_string(&e->text);
  return e->hooks.incomplete && e->hooks.incomplete(e->hooks.arg, text, e->text.size);
}

char *ts_edit_plain_read(TsEdit *e) {
  if (!e->stream) e->stream = open_stream(e->in);
  if (!e->stream) return NULL;
  show(e, e->prompt);
  int got = add_line(e);
  if (got == 0) e->status = TS_EDIT_EOF;
  if (got <= 0) return NULL;
  while (goes_on(e)) {
    show(e, e->continuation);
    ts_edit_text_append(&e->text, "\n", 1);
    got = add_line(e);
    if (got < 0) return NULL;
    if (got == 0) {
      ts_edit_text_erase(&e->text, e->text.size - 1, e->text.size);
      break;
    }
  }
  e->status = TS_EDIT_LINE;
  char *copy = malloc(e->text.size + 1);
  if (!copy) return e->status = TS_EDIT_FAILED, NULL;
  memcpy(copy, ts_edit_text_string(&e->text), e->text.size + 1);
  return copy;
}
