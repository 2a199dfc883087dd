/* Raw mode and signals.

   A shell whose terminal stays raw after a crash is unusable, so the mode is put back on every
   way out: the normal one, exit() from a callback, and signals that kill. Signal handlers can
   only reach static data: the one terminal that is raw at the moment. Handlers are installed
   while a line is edited and taken away before any user code runs. */
#include "repl/edit/term.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const char paste_on[] = "\x1b[?2004h";
static const char restore_text[] = "\x1b[?2004l\x1b[?25h\x1b[0m";

static const int fatal[] = {SIGTERM, SIGHUP, SIGQUIT, SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
static const int watched[] = {SIGINT, SIGTSTP, SIGCONT, SIGWINCH};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static TsEditTerm *volatile active;
static volatile sig_atomic_t pending; /* event bits */
static struct sigaction before[NSIG];
static bool held; /* SIGINT, by the caller */
static pid_t owner;

static void wake_fd(int fd) {
  int keep = errno;
  while (write(fd, "", 1) < 0 && errno == EINTR) {
  }
  errno = keep;
}

static void on_watched(int number) {
  int bit = number == SIGINT    ? TS_EDIT_EVENT_interrupt
            : number == SIGTSTP ? TS_EDIT_EVENT_stop
            : number == SIGCONT ? TS_EDIT_EVENT_resume
                                : TS_EDIT_EVENT_resize;
  __atomic_or_fetch(&pending, bit, __ATOMIC_SEQ_CST);
  if (active) wake_fd(active->wake[1]);
}

/* Puts the terminal back, and lets the signal do what it did before. A handler that returns
   finds the editor awake, which enters again. */
static void on_fatal(int number) {
  TsEditTerm *t = active;
  if (t) {
    tcsetattr(t->in, TCSANOW, &t->cooked);
    ts_edit_term_write(t->out, restore_text, sizeof restore_text - 1);
    ts_edit_term_write(t->out, "\r\n", 2);
    __atomic_or_fetch(&pending, TS_EDIT_EVENT_resume, __ATOMIC_SEQ_CST);
    wake_fd(t->wake[1]);
  }
  sigaction(number, &before[number], NULL);
  raise(number);
}

static void at_exit(void) {
  if (active && owner == getpid()) ts_edit_term_leave(active);
}

int ts_edit_term_write(int fd, const char *bytes, size_t size) {
  while (size > 0) {
    ssize_t done = write(fd, bytes, size);
    if (done > 0) {
      bytes += done, size -= (size_t)done;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, 1000);
    } else if (errno != EINTR) {
      return -1;
    }
  }
  return 0;
}

bool ts_edit_term_hold(bool on) {
  sigset_t interrupt, was;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(on ? SIG_BLOCK : SIG_UNBLOCK, &interrupt, &was);
  return sigismember(&was, SIGINT) == 1;
}

int ts_edit_term_open(TsEditTerm *t, int in, int out) {
  *t = (TsEditTerm){.in = in, .out = out};
  return pipe2(t->wake, O_NONBLOCK | O_CLOEXEC);
}

void ts_edit_term_close(TsEditTerm *t) {
  ts_edit_term_leave(t);
  close(t->wake[0]), close(t->wake[1]);
}

/* Ctrl-C is a signal, so that it is heard at once: as a key behind a line's end it would wait for
   what that line begins. Where the terminal is not ours it has nobody to send a signal to, and
   Ctrl-C is a key. */
static void set_interrupt(const TsEditTerm *t, struct termios *raw) {
  raw->c_lflag &= (tcflag_t)~ISIG;
  if (tcgetsid(t->in) != getsid(0)) return;
  raw->c_lflag |= ISIG | NOFLSH; /* who reads forgets what came before: ts_edit_term_forget */
  raw->c_cc[VINTR] = 'C' & 0x1f, raw->c_cc[VQUIT] = raw->c_cc[VSUSP] = _POSIX_VDISABLE;
}

static int set_raw(const TsEditTerm *t) {
  struct termios raw = t->cooked;
  raw.c_iflag &= (tcflag_t) ~(BRKINT | ICRNL | INPCK | ISTRIP | IXON | INLCR | IGNCR);
  raw.c_oflag &= (tcflag_t)~OPOST;
  raw.c_cflag = (raw.c_cflag & (tcflag_t)~CSIZE) | CS8;
  raw.c_lflag &= (tcflag_t) ~(ECHO | ICANON | IEXTEN);
  set_interrupt(t, &raw);
  raw.c_cc[VMIN] = 1, raw.c_cc[VTIME] = 0;
  return tcsetattr(t->in, TCSADRAIN, &raw);
}

static void install(int number, void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
  sigemptyset(&action.sa_mask);
  sigaction(number, NULL, &before[number]);
  int ignored = before[number].sa_handler == SIG_IGN;
  if (!ignored || number == SIGWINCH || number == SIGCONT) sigaction(number, &action, NULL);
}

static void install_handlers(TsEditTerm *t) {
  static int registered;
  if (!registered) registered = 1, atexit(at_exit);
  active = t, owner = getpid(), pending = 0;
  for (size_t i = 0; i < COUNT(fatal); i++) install(fatal[i], on_fatal);
  for (size_t i = 0; i < COUNT(watched); i++) install(watched[i], on_watched);
  held = ts_edit_term_hold(false);
}

/* Ctrl-C as the terminal is put back is an event; what comes later is the caller's. */
static void remove_handlers(void) {
  ts_edit_term_hold(true);
  for (size_t i = 0; i < COUNT(fatal); i++) sigaction(fatal[i], &before[fatal[i]], NULL);
  for (size_t i = 0; i < COUNT(watched); i++) sigaction(watched[i], &before[watched[i]], NULL);
  active = NULL;
  ts_edit_term_hold(held);
}

int ts_edit_term_enter(TsEditTerm *t) {
  if (!t->raw) {
    if (active || tcgetattr(t->in, &t->cooked) < 0) return -1;
    install_handlers(t);
  }
  t->raw = 1;
  if (set_raw(t) < 0) return ts_edit_term_leave(t), -1;
  return ts_edit_term_write(t->out, paste_on, sizeof paste_on - 1);
}

void ts_edit_term_leave(TsEditTerm *t) {
  if (!t->raw) return;
  ts_edit_term_write(t->out, restore_text, sizeof restore_text - 1);
  tcsetattr(t->in, TCSADRAIN, &t->cooked);
  remove_handlers();
  t->raw = 0;
}

int ts_edit_term_suspend(TsEditTerm *t) {
  ts_edit_term_leave(t);
  kill(0, SIGTSTP);
  return ts_edit_term_enter(t);
}

void ts_edit_term_forget(TsEditTerm *t) { tcflush(t->in, TCIFLUSH); }

void ts_edit_term_wake(TsEditTerm *t) { wake_fd(t->wake[1]); }

unsigned ts_edit_term_events(TsEditTerm *t) {
  char bytes[64];
  while (read(t->wake[0], bytes, sizeof bytes) > 0) {
  }
  return (unsigned)__atomic_exchange_n(&pending, 0, __ATOMIC_SEQ_CST);
}

static int from_environment(const char *name, int otherwise) {
  const char *text = getenv(name);
  int number = text ? atoi(text) : 0;
  return number > 0 && number < 10000 ? number : otherwise;
}

void ts_edit_term_size(const TsEditTerm *t, int *columns, int *rows) {
  struct winsize size = {0};
  if (ioctl(t->out, TIOCGWINSZ, &size) < 0) size.ws_col = size.ws_row = 0;
  *columns = size.ws_col ? size.ws_col : from_environment("COLUMNS", 80);
  *rows = size.ws_row ? size.ws_row : from_environment("LINES", 24);
  if (*columns < 2) *columns = 2; /* a wide character has to fit */
}
