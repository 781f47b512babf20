#!/bin/sh
# Translates twelve sentences the model has never seen, draws the attention behind the first, and says what to try next.
# usage: demo/run.sh PATH_OF_HEED
set -eu
heed=$1
here=$(cd "$(dirname "$0")" && pwd)
output=${HEED_DEMO_OUTPUT:-build/demo}
mkdir -p "$output"

model=$here/en-zh

"$heed" --quiet translate "$model" <"$here/sentences.txt" >"$output/chinese.txt"
echo
echo "English                                             Chinese, by heed"
echo "--------------------------------------------------  --------------------------------"
paste "$here/sentences.txt" "$output/chinese.txt" | while IFS="$(printf '\t')" read -r english chinese; do
  printf '%-50s  %s\n' "$english" "$chinese"
done

sentence=$(head -n 1 "$here/sentences.txt")
"$heed" --quiet inspect "$model" --source "$sentence" --output "$output/attention.html" >/dev/null
cat <<EOT

Who attended to whom while the first one was translated:
  $(cd "$output" && pwd)/attention.html        (open it in a browser)
How to read the page: docs/reading-attention.md

Translate a file of your own, one sentence a line:
  $heed translate $model < FILE.txt
Train a model of your own in ten minutes: docs/tutorial.md
EOT
