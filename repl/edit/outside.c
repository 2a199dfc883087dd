/* The text in an editor of the user's choice, by way of a file. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "repl/edit/state.h"

static const char *editor(void) {
  const char *visual = getenv("VISUAL"), *plain = getenv("EDITOR");
  return visual && *visual ? visual : plain && *plain ? plain : "vi";
}

/* For a shell: in single quotes, themselves as '\''. */
static void quote(TsEditText *out, const char *s) {
  ts_edit_text_append(out, "'", 1);
  for (; *s; s++)
    if (*s == '\'')
      ts_edit_text_append_string(out, "'\\''");
    else
      ts_edit_text_append(out, s, 1);
  ts_edit_text_append(out, "'", 1);
}

static int run(const char *path) {
  TsEditText command = {0};
  ts_edit_text_append_string(&command, editor());
  ts_edit_text_append(&command, " ", 1);
  quote(&command, path);
  bool held = ts_edit_term_hold(false); /* Ctrl-C is the editor's */
  int status = command.failed ? -1 : system(command.data);
  ts_edit_term_hold(held);
  ts_edit_text_free(&command);
  return status;
}

static int read_file(const char *path, TsEditText *out) {
  char block[4096];
  ssize_t got;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  while ((got = read(fd, block, sizeof block)) > 0)
    ts_edit_text_append(out, block, (size_t)got);
  close(fd);
  while (out->size && out->data[out->size - 1] == '\n') out->data[--out->size] = 0;
  return got < 0 || out->failed || (out->size && memchr(out->data, 0, out->size)) ? -1 : 0;
}

static int edit(TsEdit *e, const char *path, int fd) {
  TsEditText text = {0};
  const char *was = ts_edit_text_string(&e->text);
  int failed =
      ts_edit_term_write(fd, was, e->text.size) < 0 || ts_edit_term_write(fd, "\n", 1) < 0;
  failed |= close(fd) < 0;
  if (!failed && run(path) == 0 && read_file(path, &text) == 0)
    ts_edit_text_set(&e->text, ts_edit_text_string(&text), text.size);
  ts_edit_text_free(&text);
  return failed;
}

void ts_edit_outside_run(TsEdit *e) {
  char path[PATH_MAX];
  const char *folder = getenv("TMPDIR");
  snprintf(path, sizeof path, "%s/tessera-XXXXXX.lua", folder && *folder ? folder : "/tmp");
  int fd = mkstemps(path, 4);
  if (fd < 0) return;
  ts_edit_loop_pause(e);
  edit(e, path, fd);
  unlink(path);
  ts_edit_loop_resume(e);
}
