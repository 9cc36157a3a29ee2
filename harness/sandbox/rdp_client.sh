#!/usr/bin/env bash
# rdp_client.sh HOST:PORT USER PASSWORD PICTURE COLOURS [OPTION ...]: log in as xfreerdp does, and take a picture of what its user sees.
#
# It waits until the lines about the five most frequent colours match COLOURS, or, when that is empty or does not come about, until the
# picture stays as it is. The script prints these lines, whether the client still runs, and its output.
for display in $(seq 100 400); do
  mkdir "/tmp/display-$display" 2>/dev/null && break
done
export DISPLAY=":$display"
Xvfb "$DISPLAY" -screen 0 800x600x24 >/dev/null 2>&1 &
screen=$!
trap 'kill $client $screen 2>/dev/null; rm -r "/tmp/display-$display"' EXIT
until xdpyinfo >/dev/null 2>&1; do sleep 0.2; done
xfreerdp "/v:$1" "/u:$2" "/p:$3" /cert:ignore /w:800 /h:600 "${@:6}" > "/tmp/display-$display/log" 2>&1 &
client=$!
same=0
for _look in $(seq 60); do
  sleep 1
  kill -0 $client 2>/dev/null || break
  import -window root "$4"
  now=$(convert "$4" -format %c histogram:info:- | sort -rn | head -n 5)
  [ -n "$5" ] && grep -qE "$5" <<< "$now" && sleep 1 && break
  if [ "$now" = "$last" ]; then same=$((same + 1)); else same=0; fi
  last=$now
  [ -z "$5" ] && [ $same -gt 5 ] && break
done
import -window root "$4"
convert "$4" -format %c histogram:info:- | sort -rn | head -n 5
if kill -0 $client 2>/dev/null; then
  echo "the client goes on"
else
  wait $client
  echo "the client ended with $?"
fi
cat "/tmp/display-$display/log"
