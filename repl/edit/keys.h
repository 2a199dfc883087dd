/* Bytes of a terminal to keys: control characters, UTF-8, escape sequences, bracketed paste. */
#ifndef TS_EDIT_KEYS_H
#define TS_EDIT_KEYS_H

#include <stdint.h>

#include "repl/edit/text.h"

/* A key is a code point, or one of these, or either with TS_KEY_alt set. */
enum {
  TS_KEY_eof = 0x110000, /* the terminal is gone */
  TS_KEY_wake,           /* no key: the wake descriptor is readable */
  TS_KEY_none,           /* a sequence that means nothing here */
  TS_KEY_escape,
  TS_KEY_up,
  TS_KEY_down,
  TS_KEY_left,
  TS_KEY_right,
  TS_KEY_word_left,
  TS_KEY_word_right,
  TS_KEY_home,
  TS_KEY_end,
  TS_KEY_page_up,
  TS_KEY_page_down,
  TS_KEY_delete,
  TS_KEY_delete_word,
  TS_KEY_back_tab,
  TS_KEY_paste, /* follows: ts_edit_keys_paste */
  TS_KEY_alt = 0x200000,
};
#define TS_KEY_CTRL(letter) ((letter)&0x1f)

/* Keys are read one byte at a time, so that what was typed ahead for another reader of the same
   terminal stays there; only the inside of a paste is read in blocks. */
typedef struct TsEditKeys {
  int fd, wake_fd;
  unsigned char bytes[4096];
  int begin, end;
} TsEditKeys;

uint32_t ts_edit_keys_next(TsEditKeys *k);
int ts_edit_keys_pending(TsEditKeys *k); /* is a byte there already? */
/* Appends the pasted text, line ends as \n and without NUL, up to the end mark. */
void ts_edit_keys_paste(TsEditKeys *k, TsEditText *out);

#endif
