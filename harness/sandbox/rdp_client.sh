#!/usr/bin/env bash
# rdp_client.sh HOST:PORT USER PASSWORD PICTURE COLOURS [OPTION ...]: log in with xfreerdp and take a screenshot.
#
# COLOURS holds one pattern a line. It waits until two pictures in a row have a line for each pattern among the lines about their five most
# frequent colours, for one minute. When COLOURS is empty, it waits until the picture does not change. It prints these lines, whether the
# client is still running, and the output of the client.
shown() { # whether the last picture has all colours
  local pattern
  while IFS= read -r pattern; do
    grep -qE "$pattern" <<< "$now" || return 1
  done <<< "$1"
}
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
wanted=5
[ -n "$5" ] && wanted=1
same=0
for _second in $(seq 60); do
  sleep 1
  kill -0 $client 2>/dev/null || break
  import -window root "$4"
  now=$(convert "$4" -format %c histogram:info:- | sort -rn | head -n 5)
  # With colours, the pictures that show them are counted, else those like the one before.
  if [ -n "$5" ] && shown "$5" || [ -z "$5" ] && [ "$now" = "$last" ]; then same=$((same + 1)); else same=0; fi
  last=$now
  [ $same -gt $wanted ] && break
done
echo "$now"
if kill -0 $client 2>/dev/null; then
  echo "the client goes on"
else
  wait $client
  echo "the client ended with $?"
fi
cat "/tmp/display-$display/log"
