/* The key decoder. Terminals differ in what they send for the same key; this knows the
   sequences of xterm, the Linux console, rxvt, tmux and screen by their structure, not through
   terminfo. */
#include "repl/edit/keys.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "repl/edit/utf8.h"

#define ESC              0x1b
#define SEQUENCE_WAIT_MS 80   /* after ESC: longer means that the key itself was Escape */
#define PASTE_WAIT_MS    5000 /* a paste whose end mark got lost ends some time */

enum { BYTE_TIMEOUT = -1, BYTE_EOF = -2, BYTE_WAKE = -3 };

static int wait_readable(TsEditKeys *k, int timeout_ms, int may_wake) {
  struct pollfd fds[2] = {{.fd = k->fd, .events = POLLIN},
                          {.fd = k->wake_fd, .events = POLLIN}};
  int ready;
  do ready = poll(fds, may_wake ? 2 : 1, timeout_ms);
  while (ready < 0 && errno == EINTR);
  if (ready <= 0) return ready < 0 ? BYTE_EOF : BYTE_TIMEOUT;
  return may_wake && fds[1].revents ? BYTE_WAKE : 0;
}

static int read_bytes(TsEditKeys *k, int count) {
  ssize_t got;
  do got = read(k->fd, k->bytes, (size_t)count);
  while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return BYTE_TIMEOUT;
  if (got <= 0) return BYTE_EOF;
  k->begin = 0, k->end = (int)got;
  return 0;
}

static int next_byte(TsEditKeys *k, int timeout_ms, int may_wake, int block) {
  while (k->begin == k->end) {
    int state = wait_readable(k, timeout_ms, may_wake);
    if (state < 0) return state;
    state = read_bytes(k, block);
    if (state == BYTE_EOF) return state;
  }
  return k->bytes[k->begin++];
}

static int sequence_byte(TsEditKeys *k) { return next_byte(k, SEQUENCE_WAIT_MS, 0, 1); }

int ts_edit_keys_pending(TsEditKeys *k) {
  return k->begin != k->end || wait_readable(k, 0, 0) == 0;
}

static uint32_t utf8_key(TsEditKeys *k, int lead) {
  char bytes[4] = {(char)lead};
  int length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  for (int i = 1; i < length; i++) {
    int byte = sequence_byte(k);
    if (byte < 0) return 0xfffd;
    bytes[i] = (char)byte;
    if ((byte & 0xc0) == 0x80) continue;
    k->begin--; /* not a continuation: it begins the next key */
    return 0xfffd;
  }
  uint32_t code;
  ts_edit_utf8_decode(bytes, (size_t)length, &code);
  return code;
}

static uint32_t letter_key(int final) {
  switch (final) {
  case 'A': return TS_KEY_up;
  case 'B': return TS_KEY_down;
  case 'C': return TS_KEY_right;
  case 'D': return TS_KEY_left;
  case 'F': return TS_KEY_end;
  case 'H': return TS_KEY_home;
  case 'M': return '\r';
  case 'Z': return TS_KEY_back_tab;
  case 'c': return TS_KEY_word_right; /* rxvt: Ctrl and Shift with arrows */
  case 'd': return TS_KEY_word_left;
  }
  return TS_KEY_none;
}

static uint32_t number_key(int number) {
  switch (number) {
  case 1:
  case 7: return TS_KEY_home;
  case 3: return TS_KEY_delete;
  case 4:
  case 8: return TS_KEY_end;
  case 5: return TS_KEY_page_up;
  case 6: return TS_KEY_page_down;
  case 200: return TS_KEY_paste;
  }
  return TS_KEY_none;
}

/* The modifier parameter is 1 + (1 Shift, 2 Alt, 4 Ctrl). */
static uint32_t modified(uint32_t key, int modifier) {
  if (modifier <= 1 || !((modifier - 1) & 6)) return key;
  if (key == TS_KEY_left) return TS_KEY_word_left;
  if (key == TS_KEY_right) return TS_KEY_word_right;
  return key == TS_KEY_delete ? TS_KEY_delete_word : key;
}

/* CSI 13;2u and CSI 27;2;13~ are how terminals with extended keys say Shift-Enter. */
static uint32_t extended_enter(int final, const int *number) {
  int plain = final == 'u' && number[0] == 13;
  int xterm = final == '~' && number[0] == 27 && number[2] == 13;
  return plain || xterm ? TS_KEY_alt | '\r' : (uint32_t)TS_KEY_none;
}

static uint32_t csi_key(TsEditKeys *k) {
  int number[4] = {0}, count = 0, byte;
  while ((byte = sequence_byte(k)) >= 0x20 && byte < 0x40) {
    if (byte == ';' && count < 3) count++;
    if (byte >= '0' && byte <= '9' && number[count] < 10000)
      number[count] = number[count] * 10 + byte - '0';
  }
  if (byte == '[') return sequence_byte(k), TS_KEY_none; /* Linux console function keys */
  if (byte < 0) return TS_KEY_none;
  uint32_t extended = extended_enter(byte, number);
  if (extended != TS_KEY_none) return extended;
  if (byte == '~' || byte == '^')
    return modified(number_key(number[0]), byte == '^' ? 5 : number[1]);
  return modified(letter_key(byte), number[1]);
}

static uint32_t escape_key(TsEditKeys *k) {
  int byte = sequence_byte(k);
  if (byte < 0) return TS_KEY_escape;
  if (byte == '[') return csi_key(k);
  if (byte == 'O') {
    byte = sequence_byte(k);
    return byte < 0 ? TS_KEY_alt | 'O' : letter_key(byte);
  }
  if (byte == ESC) {
    uint32_t key = escape_key(k);
    return key == TS_KEY_escape || key == TS_KEY_paste ? key : modified(key, 3);
  }
  return TS_KEY_alt | (byte < 0x80 ? (uint32_t)byte : utf8_key(k, byte));
}

uint32_t ts_edit_keys_next(TsEditKeys *k) {
  int byte = next_byte(k, -1, 1, 1);
  if (byte == BYTE_WAKE) return TS_KEY_wake;
  if (byte < 0) return TS_KEY_eof;
  if (byte == ESC) return escape_key(k);
  return byte < 0x80 ? (uint32_t)byte : utf8_key(k, byte);
}

/* Appends one byte, turning \r\n and \r into \n. */
static void paste_byte(TsEditText *out, char byte, int *after_return) {
  int pair = *after_return && byte == '\n';
  *after_return = byte == '\r';
  if (byte == 0 || pair) return;
  if (byte == '\r') byte = '\n';
  ts_edit_text_append(out, &byte, 1);
}

void ts_edit_keys_paste(TsEditKeys *k, TsEditText *out) {
  static const char mark[] = "\x1b[201~";
  size_t matched = 0;
  int after_return = 0, byte;
  while (mark[matched] && !out->failed) {
    byte = next_byte(k, PASTE_WAIT_MS, 0, sizeof k->bytes);
    if (byte < 0) break;
    if (byte == mark[matched]) {
      matched++;
      continue;
    }
    for (size_t i = 0; i < matched; i++) paste_byte(out, mark[i], &after_return);
    matched = byte == ESC;
    if (!matched) paste_byte(out, (char)byte, &after_return);
  }
}
