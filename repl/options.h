/* The command line. */
#ifndef TS_REPL_OPTIONS_H
#define TS_REPL_OPTIONS_H

#include <stdbool.h>

/* -e code, -l module, -j command, -O level: done in the order given; words of a command. */
typedef struct TsStep {
  char kind; /* 'e', 'l', 'j', 'O'; 'o' an option, 't' a text */
  const char *value;
} TsStep;

enum { TS_OPTIONS_PROFILES = 4 };

typedef struct TsOptions {
  int argc;
  char **argv;
  int script; /* index of the script in argv; argc: none */
  TsStep *step;
  int nsteps;
  bool interactive, hash, version, ignore_environment;
  bool no_jit; /* nothing is compiled: all code runs on the VM */
  bool no_hints;
  bool nan_trap; /* stop at the first NaN or infinity */
  bool debug_kernel;
  int threads; /* -1: not given */
  const char *devices, *isa;
  const char *flight;  /* is shown, and that is all */
  const char *command; /* "generate", "embed", "chat", "serve", or NULL */
  const char *model;   /* its path */
  TsStep *word;        /* its words */
  int nwords;
  bool profile; /* of the whole program, also into these files */
  int nprofile_to;
  const char *profile_to[TS_OPTIONS_PROFILES];
} TsOptions;

/* Reads the options. -1: go on; else the exit code, after --help, --version or a
 * message about what is wrong. */
int ts_options_read(TsOptions *o, int argc, char **argv);
/* The long name of an option from the i-th on, which has one; NULL behind the last. */
const char *ts_options_word(int i);

#endif
