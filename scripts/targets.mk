# Targets beside the build itself; included by the Makefile.

# ---- tests
CTEST := $(wildcard tests/*/*_test.c)
CTEST_BIN := $(CTEST:tests/%.c=$(BUILD)/tests/%)

$(BUILD)/tests/%: tests/%.c $(CORE)
	@mkdir -p $(@D)
	@echo "  test   $<"
	@$(CC) $(CPPFLAGS) $(LUA_CFLAGS) $(CFLAGS) $(LDFLAGS) -MMD -MP -o $@ $< $(CORE) $(LIBS) -lmpfr -lgmp -lutil

-include $(CTEST_BIN:=.d)

# The command that CI runs, on a fresh Debian as root too: installs what is
# missing, builds, passes the tests.
check: setup
	@$(MAKE) --no-print-directory test

test: $(BIN) $(CTEST_BIN)
	@sh scripts/layers.sh
	@$(BIN) scripts/check.lua --c $(CTEST_BIN) -- $(ONLY)

# The main job on real input.
demo: setup
	@$(MAKE) --no-print-directory $(BIN)
	@$(BIN) examples/char_model.lua

setup:
	@sh scripts/setup.sh

layers:
	@sh scripts/layers.sh

bench: $(BIN)
	@sh scripts/bench/run.sh

docs: $(BIN)
	@$(BIN) scripts/docs.lua > docs/operators.md

# ---- installation
DEST := $(DESTDIR)$(PREFIX)
install: $(BIN)
	install -D -m 755 $(BIN) $(DEST)/bin/tessera
	install -d $(DEST)/share/tessera/lua/tessera
	install -m 644 lib/lua/*.lua $(DEST)/share/tessera/lua/tessera
	install -D -m 644 docs/tessera.1 $(DEST)/share/man/man1/tessera.1
	install -D -m 644 scripts/completion/tessera.bash $(DEST)/share/bash-completion/completions/tessera
	install -D -m 644 scripts/completion/_tessera $(DEST)/share/zsh/site-functions/_tessera

clean:
	rm -rf build bin

help:
	@echo "make            build bin/tessera"
	@echo "make demo       set up, build, run the main job on real text"
	@echo "make check      set up, build, run all tests (ONLY=word for some)"
	@echo "make test       the tests without installing anything"
	@echo "make bench      measure beside the peers that are installed"
	@echo "make docs       write docs/operators.md from the operator table"
	@echo "make layers     check the include direction"
	@echo "make install    PREFIX=/usr/local DESTDIR="
	@echo "VARIANT=asan|debug and CC=clang choose another build"

.PHONY: check test demo setup layers bench docs install clean help
