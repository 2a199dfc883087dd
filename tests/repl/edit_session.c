/* See edit_session.h. */
#include "tests/repl/edit_session.h"

#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <utmp.h>

#include "repl/edit/edit.h"

int failures;
const char *subject = "";

void fail(const char *what, const char *got, const char *wanted) {
  failures++;
  fprintf(stderr, "edit: %s: %s\n  got    \"%s\"\n  wanted \"%s\"\n", subject, what, got,
          wanted);
}

void begin_tests(void) {
  setlocale(LC_CTYPE, "C.UTF-8");
  signal(SIGPIPE, SIG_IGN);
  static const int usual[] = {SIGTERM, SIGHUP, SIGQUIT, SIGINT, SIGTSTP};
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
    signal(usual[i], SIG_DFL); /* shells have some ignored by what runs in the background */
  unsetenv("NO_COLOR");
}

int end_tests(const char *name) {
  if (failures == 0) printf("%s: ok\n", name);
  return failures != 0;
}

/* ---- allocation that fails on demand, where linked with --wrap=malloc and so on ---- */

static long allocations_left = -1; /* -1: no limit */

static int out_of_luck(void) {
  if (allocations_left < 0) return 0;
  return allocations_left == 0 || --allocations_left == 0;
}

void *__real_malloc(size_t size) __attribute__((weak));
void *__real_realloc(void *old, size_t size) __attribute__((weak));
void *__wrap_malloc(size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t size) { return out_of_luck() ? NULL : __real_malloc(size); }

void *__wrap_realloc(void *old, size_t size) {
  return out_of_luck() ? NULL : __real_realloc(old, size);
}

char *__wrap_strdup(const char *text) {
  char *copy = __wrap_malloc(strlen(text) + 1);
  return copy ? strcpy(copy, text) : NULL;
}

int allocations_can_fail(void) { return __real_malloc != NULL; }

/* ---- the child: an editor with small hooks ---- */

static void complete(void *arg, const char *text, size_t cursor, TsCompletions *out) {
  static const char *const words[][2] = {{"matmul", "product of two matrices"},
                                         {"matrix", "two axes"},
                                         {"mean", "average"},
                                         {"print", "show"},
                                         {"pr\xc3\xa9"
                                          "a",
                                          "accents"},
                                         {"pr\xc3\xa8"
                                          "b",
                                          "accents"}};
  const Setup *setup = arg;
  size_t start = cursor;
  while (start > 0 && text[start - 1] > ' ') start--;
  ts_edit_offer_from(out, start);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strncmp(words[i][0], text + start, cursor - start) == 0)
      ts_edit_offer(out, words[i][0], setup->plain_words ? NULL : words[i][1]);
  for (int i = 0; setup->many_words && i < 500; i++) {
    char word[16];
    snprintf(word, sizeof word, "word%03d", i);
    if (strncmp(word, text + start, cursor - start) == 0) ts_edit_offer(out, word, NULL);
  }
}

int count_of(const char *text, const char *word) {
  int count = 0;
  for (; (text = strstr(text, word)); text += strlen(word)) count++;
  return count;
}

static int incomplete(void *arg, const char *text, size_t size) {
  (void)arg, (void)size;
  return count_of(text, "do") > count_of(text, "end");
}

static const char *hint(void *arg, const char *text) {
  (void)arg;
  return strcmp(text, "hi") == 0 ? "nt shown" : NULL;
}

static void highlight(void *arg, const char *text, unsigned char *attributes) {
  (void)arg;
  for (size_t i = 0; text[i]; i++)
    if (text[i] >= '0' && text[i] <= '9') attributes[i] = TS_EDIT_NUMBER;
}

static void *print_later(void *arg) {
  ts_edit_print(arg, "a message\nof two lines");
  return NULL;
}

static void send_result(int fd, TsEdit *e, const char *text) {
  uint32_t head[2] = {(uint32_t)ts_edit_status(e), text ? (uint32_t)ts_edit_size(e) : 0};
  if (write(fd, head, sizeof head) < 0 || (text && write(fd, text, head[1]) < 0)) _exit(9);
}

/* Some texts make the child do something, once they were returned. */
static void obey(TsEdit *e, const char *text) {
  if (strcmp(text, "io") == 0 && write(1, "no line end", 11) < 0) exit(5);
  if (strcmp(text, "exit") == 0) exit(3);
  if (strcmp(text, "later") == 0) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, print_later, e) == 0) pthread_detach(thread);
  }
}

void edit_until_end(const Setup *setup, int in, int out, int results) {
  if (setup->terminal)
    setenv("TERM", setup->terminal, 1);
  else
    unsetenv("TERM");
  if (setup->allocations) allocations_left = setup->allocations;
  TsEdit *e = ts_edit_open(in, out, setup->history);
  if (!e) _exit(4);
  TsEditHooks hooks = {(void *)setup, complete, incomplete, hint, highlight, NULL};
  ts_edit_set_hooks(e, &hooks);
  for (int failed = 0; failed < 3;) {
    char *text = ts_edit_read(e, "\x1b[1m> \x1b[0m", ". ");
    send_result(results, e, text);
    if (text) ts_edit_remember(e, text), obey(e, text);
    free(text);
    if (ts_edit_status(e) == TS_EDIT_EOF) break;
    failed += ts_edit_status(e) == TS_EDIT_FAILED;
  }
  ts_edit_close(e);
}

/* ---- the parent's end ---- */

Session start(Setup setup) {
  Session s = {0};
  int results[2], slave;
  struct winsize size = {.ws_col = (unsigned short)setup.columns,
                         .ws_row = (unsigned short)setup.rows};
  if (pipe(results) < 0 || openpty(&s.terminal, &slave, NULL, NULL, &size) < 0) abort();
  tcgetattr(slave, &s.before);
  fflush(NULL);
  s.child = fork();
  if (s.child == 0) {
    close(s.terminal), close(results[0]);
    login_tty(slave);
    edit_until_end(&setup, 0, 1, results[1]);
    exit(0);
  }
  close(results[1]), close(slave);
  s.results = results[0];
  s.raw = setup.terminal && strcmp(setup.terminal, "dumb") != 0 && !setup.allocations;
  model_reset(&s.model, setup.columns, setup.rows);
  return s;
}

Session start_usual(void) {
  return start((Setup){.columns = 40, .rows = 10, .terminal = "xterm"});
}

/* Feeds the model with what comes within the time; 0 when nothing came. */
int listen_for(Session *s, int timeout_ms) {
  struct pollfd fd = {.fd = s->terminal, .events = POLLIN};
  int ready = poll(&fd, 1, timeout_ms);
  if (ready > 0 && !(fd.revents & POLLIN)) usleep(1000 * (unsigned)timeout_ms); /* hung up */
  if (ready <= 0 || !(fd.revents & POLLIN)) return 0;
  char bytes[4096];
  ssize_t got = read(s->terminal, bytes, sizeof bytes);
  if (got > 0) model_feed(&s->model, bytes, (size_t)got);
  return got > 0;
}

int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Keys typed while the child is between two reads would be echoed and edited by the system. */
static void wait_for_editor(Session *s) {
  listen_until(s, !s->raw || s->model.entered > s->reads);
}

void type_bytes(Session *s, const char *keys, size_t size) {
  while (size > 0) {
    ssize_t done = write(s->terminal, keys, size < 512 ? size : 512);
    if (done > 0)
      keys += done, size -= (size_t)done;
    else if (errno != EAGAIN && errno != EINTR)
      return;
    while (listen_for(s, 0)) {
    }
  }
}

void type(Session *s, const char *keys) {
  wait_for_editor(s);
  type_bytes(s, keys, strlen(keys));
}

static int read_all(Session *s, void *to, size_t size) {
  for (char *at = to; size > 0;) {
    struct pollfd fd = {.fd = s->results, .events = POLLIN};
    int64_t end = now_ms() + PATIENCE_MS;
    while (poll(&fd, 1, 1) == 0 && now_ms() < end) listen_for(s, s->terminal < 0 ? 0 : 1);
    if (poll(&fd, 1, 0) <= 0) return -1;
    ssize_t got = read(s->results, at, size);
    if (got <= 0) return -1;
    at += got, size -= (size_t)got;
  }
  return 0;
}

/* The next result as text, to be freed; "<status 1>" for one without text. */
char *result(Session *s, size_t *size) {
  uint32_t head[2];
  char *text = NULL;
  if (read_all(s, head, sizeof head) < 0) return strdup("<no result>");
  if (head[0] != TS_EDIT_LINE) return asprintf(&text, "<status %u>", head[0]), text;
  text = calloc(1, head[1] + 1);
  if (size) *size = head[1];
  read_all(s, text, head[1]);
  return text;
}

void expect(Session *s, const char *wanted) {
  char *text = result(s, NULL);
  s->reads++;
  if (strcmp(text, wanted) != 0) fail("result", text, wanted);
  free(text);
}

void expect_row(Session *s, int row, const char *wanted) {
  listen_until(s, strcmp(model_row(&s->model, row), wanted) == 0);
  const char *got = model_row(&s->model, row);
  if (strcmp(got, wanted) != 0) fail("row", got, wanted);
}

void expect_cursor(Session *s, int row, int column) {
  Model *m = &s->model;
  listen_until(s, m->row == row && m->column == column && !m->hidden);
  char got[32], wanted[32];
  snprintf(got, sizeof got, "%d,%d", m->row, m->column);
  snprintf(wanted, sizeof wanted, "%d,%d", row, column);
  if (strcmp(got, wanted) != 0 || m->hidden) fail("cursor", got, wanted);
}

int same_mode(const struct termios *a, const struct termios *b) {
  return a->c_iflag == b->c_iflag && a->c_oflag == b->c_oflag && a->c_lflag == b->c_lflag;
}

/* Waits for the child's end and checks that the terminal is as it was. */
void finish(Session *s, const char *wanted_exit) {
  int state = 0;
  int64_t end = now_ms() + PATIENCE_MS;
  while (waitpid(s->child, &state, WNOHANG) == 0) {
    listen_for(s, 20);
    if (now_ms() > end) kill(s->child, SIGKILL);
  }
  while (listen_for(s, 0)) {
  }
  char got[32];
  if (WIFSIGNALED(state))
    snprintf(got, sizeof got, "signal %d", WTERMSIG(state));
  else
    snprintf(got, sizeof got, "exit %d", WEXITSTATUS(state));
  if (strcmp(got, wanted_exit) != 0) fail("end", got, wanted_exit);
  struct termios after;
  if (tcgetattr(s->terminal, &after) == 0 && !same_mode(&s->before, &after))
    fail("terminal mode", "changed", "restored");
  if (s->model.paste || s->model.hidden)
    fail("terminal", "paste mode or hidden cursor", "restored");
  if (s->model.errors) fail("screen", "unknown sequences", "none");
  close(s->terminal), close(s->results);
}

void end_of_input(Session *s) {
  type(s, "\x04");
  expect(s, "<status 1>");
  finish(s, "exit 0");
}
