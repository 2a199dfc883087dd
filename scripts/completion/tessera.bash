# Completion of tessera's command line for bash.
_tessera() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
  COMPREPLY=()
  if [[ $word == "=" ]]; then
    word=
  elif [[ $before == "=" ]]; then
    before=${COMP_WORDS[COMP_CWORD-2]}
  fi
  case $before in
    --isa) COMPREPLY=($(compgen -W "avx512 avx2 base" -- "$word")); return ;;
    --devices) COMPREPLY=($(compgen -W "cpu:2 cpu:4 cpu:8" -- "$word")); return ;;
    --threads) COMPREPLY=($(compgen -W "0 1 2 4 8 16" -- "$word")); return ;;
    -l) COMPREPLY=($(compgen -W "tessera" -- "$word")); return ;;
    -e) return ;;
    --generate | --chat | --embed | --serve) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
  esac
  case $word in
    --*)
      COMPREPLY=($(compgen -W "--threads= --devices= --isa= --hash --no-jit --nan-trap --no-hints --debug-kernel \
        --profile --profile-to= --flight= --generate= --chat= --embed= --serve= --version --help" -- "$word"))
      [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace ;;
    -j*) COMPREPLY=($(compgen -W "-joff -jon -jflush -jv -jdump -jp" -- "$word")) ;;
    -*)
      COMPREPLY=($(compgen -W "-e -i -l -j -O -E -v -h - --threads= --devices= --isa= --hash \
        --no-jit --nan-trap --no-hints --debug-kernel -p --profile --profile-to= --flight= --generate= --chat= \
        --embed= --serve= --version --help" -- "$word")) ;;
    *)
      compopt -o filenames
      COMPREPLY=($(compgen -f -X '!*.@(lua|tile)' -- "$word") $(compgen -d -- "$word")) ;;
  esac
}
complete -F _tessera tessera
