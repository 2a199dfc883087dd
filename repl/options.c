/* The command line: one table of options, from which reading, --help and
 * suggestions follow. */
#include "repl/options.h"

#include <luajit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/text.h"

typedef enum Id {
  CODE = 'e',
  MODULE = 'l',
  JIT = 'j',
  LEVEL = 'O',
  INTERACTIVE = 'i',
  NO_ENVIRONMENT = 'E',
  PROFILE = 'p',
  VERSION = 'v',
  HELP = 'h',
  THREADS = 256,
  DEVICES,
  ISA,
  HASH,
  NO_JIT,
  NAN_TRAP,
  NO_HINTS,
  DEBUG_KERNEL,
  PROFILE_TO,
  FLIGHT,
  GENERATE,
  EMBED,
  CHAT,
  SERVE,
} Id;

/* Short options are letters, long ones words; `value` names what follows. */
static const struct {
  Id id;
  char letter;
  const char *word, *value, *help;
} options[] = {
    {CODE, 'e', NULL, "code", "run code; may be given several times"},
    {INTERACTIVE, 'i', NULL, NULL, "the prompt, after code and script"},
    {MODULE, 'l', NULL, "module", "require a module; -l tessera makes op, nn, ... globals"},
    {JIT, 'j', NULL, "command", "-jv tells what gets compiled; LuaJIT's: -joff, -jp=fl, ..."},
    {LEVEL, 'O', NULL, "level", "LuaJIT's optimisation level"},
    {NO_ENVIRONMENT, 'E', NULL, NULL, "ignore LUA_INIT, LUA_PATH and LUA_CPATH"},
    {THREADS, 0, "threads", "N", "threads of the CPU; 0, the default: one per processor"},
    {DEVICES, 0, "devices", "cpu:N", "N virtual CPU devices, to try meshes on"},
    {ISA, 0, "isa", "NAME", "kernels for avx512, avx2 or base; all give the same bits"},
    {HASH, 0, "hash", NULL, "print a hash of every tensor that the script returns"},
    {NO_JIT, 0, "no-jit", NULL, "compile no tensor code: everything runs on the VM"},
    {NAN_TRAP, 0, "nan-trap", NULL,
     "stop at the operator that makes the first NaN or infinity"},
    {NO_HINTS, 0, "no-hints", NULL, "the prompt shows no signatures while calls are typed"},
    {DEBUG_KERNEL, 0, "debug-kernel", NULL,
     "look for faults in file.tile, M=64 .., or in the kernels of a script"},
    {PROFILE, 'p', "profile", NULL, "tell at the end where the time of the program went"},
    {PROFILE_TO, 0, "profile-to", "FILE",
     "the same, also into a file: a page .html, .json for Perfetto, .csv, .txt"},
    {FLIGHT, 0, "flight", "FILE", "show what processes of a job noted of their collectives"},
    {GENERATE, 0, "generate", "PATH",
     "a text, the next word or standard input, goes on by a model; --generate --help"},
    {CHAT, 0, "chat", "PATH", "a conversation with a model; --chat --help"},
    {EMBED, 0, "embed", "PATH",
     "texts, or lines of standard input, as vectors; --embed --help"},
    {SERVE, 0, "serve", "PATH",
     "a model behind HTTP, by the interface of chat completions; --serve --help"},
    {VERSION, 'v', "version", NULL, "print the version"},
    {HELP, 'h', "help", NULL, "print this text"},
};
enum { OPTIONS = sizeof options / sizeof *options };

static void print_help(FILE *to) {
  fprintf(to, "usage: tessera [options] [script.lua [arguments]]\n\n");
  for (int i = 0; i < OPTIONS; i++) {
    char name[40];
    int n = 0;
    if (options[i].letter) n = snprintf(name, sizeof name, "-%c", options[i].letter);
    if (options[i].word)
      n +=
          snprintf(name + n, sizeof name - (size_t)n, "%s--%s", n ? ", " : "", options[i].word);
    if (options[i].value)
      snprintf(name + n, sizeof name - (size_t)n, "%s%s", options[i].word ? "=" : " ",
               options[i].value);
    fprintf(to, "  %-18s %s\n", name, options[i].help);
  }
  fprintf(to, "  %-18s %s\n  %-18s %s\n", "-", "run standard input", "--",
          "end of the options");
  fprintf(to,
          "\nWithout script and code: the prompt, or standard input if it is no terminal.\n");
}

static int wrong(const char *format, const char *what) {
  fprintf(stderr, "tessera: ");
  fprintf(stderr, format, what);
  fprintf(stderr, "\n  hint: tessera --help lists the options\n");
  return 1;
}

static const char *nth_word(const void *arg, int i) {
  (void)arg;
  return options[i].word ? options[i].word : "";
}

static int unknown(const char *given) {
  char name[64];
  const char *word = given + strspn(given, "-");
  snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
  const char *guess =
      name[0] && name[1] ? ts_text_closest(name, OPTIONS, nth_word, NULL) : NULL;
  if (!guess || !*guess) return wrong("unknown option '%s'", given);
  fprintf(stderr, "tessera: unknown option '%s'\n  hint: did you mean '--%s'?\n", given, guess);
  return 1;
}

static int find(const char *arg) {
  size_t n = strcspn(arg + 2, "=");
  for (int i = 0; i < OPTIONS; i++) {
    if (arg[1] != '-' && options[i].letter == arg[1]) return i;
    const char *w = options[i].word;
    if (arg[1] == '-' && w && strlen(w) == n && !memcmp(w, arg + 2, n)) return i;
  }
  return -1;
}

/* The value of option `which`, in the same argument or the next. */
static const char *value_of(int which, const char *arg, char **argv, int *i) {
  if (arg[1] == '-') {
    const char *equals = strchr(arg, '=');
    return equals ? equals + 1 : argv[*i + 1] ? argv[++*i] : NULL;
  }
  if (arg[2] || options[which].id == LEVEL) return arg + 2;
  return argv[*i + 1] ? argv[++*i] : NULL;
}

/* The option that runs a model; words behind it that are no options of the program are its own. */
static int set_command(TsOptions *o, Id id, const char *path) {
  if (o->command) return wrong("--%s is a command already, and there is one", o->command);
  for (int i = 0; i < OPTIONS; i++)
    if (options[i].id == id) o->command = options[i].word;
  bool help = !strcmp(path, "--help") || !strcmp(path, "-h"); /* which needs no model */
  if (help) o->word[o->nwords++] = (TsStep){'o', path};
  o->model = help ? "" : path;
  return -1;
}

static int set_threads(TsOptions *o, const char *value) {
  char *end;
  long n = strtol(value, &end, 10);
  if (*end || *value < '0' || *value > '9' || n > 256) /* strtol would take " +2" */
    return wrong("--threads takes a number from 0 to 256, not '%s'", value);
  o->threads = (int)n;
  return -1;
}

static int set(TsOptions *o, Id id, const char *value) {
  switch (id) {
  case CODE:
  case MODULE:
  case JIT:
  case LEVEL: o->step[o->nsteps++] = (TsStep){(char)id, value}; break;
  case INTERACTIVE: o->interactive = true; break;
  case NO_ENVIRONMENT: o->ignore_environment = true; break;
  case THREADS: return set_threads(o, value);
  case DEVICES: o->devices = value; break;
  case ISA: o->isa = value; break;
  case HASH: o->hash = true; break;
  case NO_JIT: o->no_jit = true; break;
  case NAN_TRAP: o->nan_trap = true; break;
  case NO_HINTS: o->no_hints = true; break;
  case DEBUG_KERNEL: o->debug_kernel = true; break;
  case PROFILE_TO:
    if (o->nprofile_to == TS_OPTIONS_PROFILES)
      return wrong("%s", "--profile-to is given too often");
    o->profile_to[o->nprofile_to++] = value;
    o->profile = true;
    break;
  case PROFILE: o->profile = true; break;
  case FLIGHT: o->flight = value; break;
  case GENERATE:
  case EMBED:
  case CHAT:
  case SERVE: return set_command(o, id, value);
  case VERSION:
    if (!o->version) printf("Tessera %s with %s\n", TS_VERSION, LUAJIT_VERSION);
    o->version = true;
    break;
  case HELP: print_help(stdout); return 0;
  }
  return -1;
}

static int read_one(TsOptions *o, char **argv, int *i) {
  const char *arg = argv[*i], *value = NULL;
  int which = find(arg);
  if (which < 0) return unknown(arg);
  bool extra = arg[1] == '-' ? strchr(arg, '=') != NULL : arg[2] != 0;
  if (options[which].value) {
    if (!(value = value_of(which, arg, argv, i)))
      return wrong("option '%s' needs a value", arg);
  } else if (extra) {
    return arg[1] == '-' ? wrong("option '%s' takes no value", arg) : unknown(arg);
  }
  return set(o, options[which].id, value);
}

const char *ts_options_word(int i) {
  while (i < OPTIONS && !options[i].word) i++;
  return i < OPTIONS ? options[i].word : NULL;
}

/* Behind a command: its texts, and options that the program has not, --help among them. */
static bool is_of_command(const TsOptions *o, const char *arg) {
  if (!o->command) return false;
  int which = find(arg);
  return which < 0 || options[which].id == HELP;
}

static int need_together(const TsOptions *o) {
  const char *other = o->interactive    ? "-i"
                      : o->hash         ? "--hash"
                      : o->debug_kernel ? "--debug-kernel"
                      : o->flight       ? "--flight"
                                        : NULL;
  if (!o->command || !other) return -1;
  fprintf(stderr, "tessera: --%s does not go together with %s\n", o->command, other);
  return 1;
}

int ts_options_read(TsOptions *o, int argc, char **argv) {
  *o = (TsOptions){.argc = argc, .argv = argv, .threads = -1};
  o->step = calloc((size_t)argc * 2 + 1, sizeof *o->step);
  o->word = calloc((size_t)argc + 1, sizeof *o->word);
  if (!o->step || !o->word) return wrong("%s", "out of memory");
  int i = 1;
  for (; i < argc; i++) {
    bool option = argv[i][0] == '-' && argv[i][1];
    if (!option && !o->command) break;
    if (!strcmp(argv[i], "--")) {
      i++;
      break;
    }
    if (!option || is_of_command(o, argv[i])) {
      o->word[o->nwords++] = (TsStep){option ? 'o' : 't', argv[i]};
      continue;
    }
    int code = read_one(o, argv, &i);
    if (code >= 0) return code;
  }
  for (; o->command && i < argc; i++) o->word[o->nwords++] = (TsStep){'t', argv[i]};
  o->script = i < argc ? i : argc;
  int code = need_together(o);
  if (code >= 0) return code;
  bool runs = o->nsteps || o->script < argc || o->interactive || o->command;
  return o->version && !runs ? 0 : -1;
}
