#!/bin/bash
# client.sh HOST:PORT USER PASSWORD PICTURE [OPTION ...]: log in as xfreerdp does, wait, and take a picture of what its user sees.
#
# The first line tells how many colours the picture has, and of how many pixels is each of the five most frequent ones.
for display in $(seq 100 400); do
  mkdir "/tmp/display-$display" 2>/dev/null && break
done
export DISPLAY=":$display"
Xvfb "$DISPLAY" -screen 0 800x600x24 >/dev/null 2>&1 &
screen=$!
trap 'kill $client $screen 2>/dev/null; rm -r "/tmp/display-$display"' EXIT
until xdpyinfo >/dev/null 2>&1; do sleep 0.2; done
xfreerdp "/v:$1" "/u:$2" "/p:$3" /cert:ignore /w:800 /h:600 "${@:5}" > "/tmp/display-$display/log" 2>&1 &
client=$!
# Until a window is there and what is in it stays the same for two seconds, or the client has ended.
last=
for _look in $(seq 20); do
  sleep 1
  kill -0 $client 2>/dev/null || break
  import -window root "$4" && now=$(convert "$4" rgb:- | md5sum)
  [ "$now" = "$last" ] && [ "$_look" -gt 6 ] && break
  last=$now
done
convert "$4" -format %c histogram:info:- | sort -rn | head -n 5
kill -0 $client 2>/dev/null && echo "the client goes on" || { wait $client; echo "the client ended with $?"; }
cat "/tmp/display-$display/log"
