/* The text in an editor of the user's choice, by way of a file. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "repl/edit/outside.h"
#include "repl/edit/state.h"

const char *ts_edit_outside_editor(void) {
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

int ts_edit_outside_begin(TsEditOutside *o, const char *text, size_t size, const char *ending) {
  const char *folder = getenv("TMPDIR");
  snprintf(o->path, sizeof o->path, "%s/tessera-XXXXXX%s", folder && *folder ? folder : "/tmp",
           ending);
  o->command = (TsEditText){0};
  int fd = mkostemps(o->path, (int)strlen(ending), O_CLOEXEC);
  if (fd < 0) return -1;
  ts_edit_text_append_string(&o->command, ts_edit_outside_editor());
  ts_edit_text_append(&o->command, " ", 1);
  quote(&o->command, o->path);
  int failed = ts_edit_term_write(fd, text, size) < 0, saved = errno;
  if (close(fd) < 0 && !failed) failed = 1, saved = errno;
  if (o->command.failed) failed = 1, saved = ENOMEM;
  if (!failed) return 0;
  ts_edit_outside_end(o);
  return errno = saved, -1;
}

void ts_edit_outside_end(TsEditOutside *o) {
  unlink(o->path);
  ts_edit_text_free(&o->command);
}

static int run(const TsEditOutside *o) {
  bool held = ts_edit_term_hold(false); /* Ctrl-C is the editor's */
  int status = system(o->command.data);
  ts_edit_term_hold(held);
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

void ts_edit_outside_run(TsEdit *e) {
  TsEditOutside o;
  TsEditText text = {0}, was = {0};
  ts_edit_text_append(&was, ts_edit_text_string(&e->text), e->text.size);
  ts_edit_text_append(&was, "\n", 1);
  if (!was.failed && !ts_edit_outside_begin(&o, was.data, was.size, ".lua")) {
    ts_edit_loop_pause(e);
    if (run(&o) == 0 && read_file(o.path, &text) == 0)
      ts_edit_text_set(&e->text, ts_edit_text_string(&text), text.size);
    ts_edit_outside_end(&o);
    ts_edit_loop_resume(e);
  }
  ts_edit_text_free(&text);
  ts_edit_text_free(&was);
}
