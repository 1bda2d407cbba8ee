#!/usr/bin/env bash
# Builds the server, starts it, and runs one of the examples on it.
#   ./demo.sh                    English words to phonemes (client/examples/g2p): a trained encoder and decoder as whole models,
#                                every phoneme and every hidden state compared with the package's own formulas; then
#                                Mandarin sentences to pinyin (client/examples/pinyin): a whole bidirectional model
#   ./demo.sh WORD ...           these English words alone
#   ./demo.sh --pinyin [SENTENCE ...]  Mandarin alone
#   ./demo.sh --text             a language model (client/examples/language_model), trained in 45 s and streamed token by token: 8 bytes
#                                up, the most probable next tokens down; bytes on the wire with top-k and with all logits
#   ./demo.sh --beam [WORD ...]  English words, with a beam search beside it
#   ./demo.sh --speech           speech in many recordings at once (client/examples/vad): a trained voice detector, its recurrent part
#                                as sessions; writes vad.png. --live: at the pace of speech, to watch its metrics
# Metrics and a status page are where it says while it runs; ADMIN_LISTEN=127.0.0.1:9464 puts them there.
set -euo pipefail
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; }
refuse() {
  echo "${0##*/}: $1; see ${0##*/} --help" >&2
  exit 2
}
cd "$(dirname "$0")"
example=(client/examples/g2p/g2p.py)
second=
[ $# -gt 0 ] || second=client/examples/pinyin/pinyin.py
case "${1:-}" in
  --help | -h) usage; exit ;;
  --pinyin) shift; example=(client/examples/pinyin/pinyin.py) ;;
  --text) shift; example=(client/examples/language_model/language_model.py) ;;
  --beam) shift; example=(client/examples/g2p/spell.py) ;;
  --speech) shift; example=(client/examples/vad/vad.py --rnnctl build/release/client/rnnctl/rnnctl) ;;
esac
# The example knows its own flags; what it does not know is refused before minutes of building.
for argument in "$@"; do
  [[ $argument != -* ]] || grep -q "add_argument(\"${argument%%=*}\"" "${example[0]}" || refuse "unknown argument $argument"
done
if [ "${example[0]}" = client/examples/vad/vad.py ]; then ./setup.sh --speech; else ./setup.sh; fi
echo "building (a few minutes the first time)"
cmake --preset release -DRNNSERVE_BUILD_TESTS=OFF >build-configure.log 2>&1 || { cat build-configure.log >&2; exit 1; }
rm -f build-configure.log
cmake --build --preset release --target rnnserve rnnctl

folder=$(mktemp -d)
build/release/server/rnnserve --listen=127.0.0.1:0 --port_file="$folder/port" \
  --admin_listen="${ADMIN_LISTEN:-127.0.0.1:0}" >"$folder/log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
for _ in $(seq 100); do
  [ -s "$folder/port" ] && break
  kill -0 "$server" 2>/dev/null || { cat "$folder/log" >&2; exit 1; }
  sleep 0.1
done
[ -s "$folder/port" ] || { echo "the server did not start within 10 s:" >&2; cat "$folder/log" >&2; exit 1; }
echo "metrics and status page while it runs: http://127.0.0.1:$(cat "$folder/port.admin")/"
.venv/bin/python "${example[@]}" --address "127.0.0.1:$(cat "$folder/port")" "$@"
[ -z "$second" ] || .venv/bin/python "$second" --address "127.0.0.1:$(cat "$folder/port")"
