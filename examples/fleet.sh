#!/usr/bin/env bash
# Berth as separate processes on this machine, for labs about operations.
#
#   fleet.sh up [N]              etcd and NATS, two queues, N schedulers (2), two binders
#   fleet.sh start MEMBER [FLAG ...]   start queue-0, scheduler-3, … and wait until it is ready
#   fleet.sh stop MEMBER         ask it to end, and wait
#   fleet.sh kill MEMBER         kill it, as a crash would
#   fleet.sh metrics PATTERN     lines of the metrics of all members that run
#   fleet.sh down                end everything
#
# Needs $KUBECONFIG, and the programs berth and cluster in $PATH. Everything is written to
# $FLEET_DIR (/tmp/berth-fleet). Services listen on free ports from $FLEET_PORT (10360) on.
set -euo pipefail

dir=${FLEET_DIR:-/tmp/berth-fleet}

store() { sed -n 's|^ *"\([a-z]*://[^"]*\)".*|\1|p' "$dir/$1/state.json"; }

# Is somebody listening on a port?
taken() { (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

free_port() {
  local port=${FLEET_PORT:-10360}
  while taken "$port" || grep -qsx "127.0.0.1:$port" "$dir"/*.address; do port=$((port + 1)); done
  echo "$port"
}

running() { [[ -f $dir/$1.pid ]] && kill -0 "$(cat "$dir/$1.pid")" 2>/dev/null; }

start() {
  local member=$1 service=${1%-*}
  shift
  running "$member" && { echo "$member runs already" >&2; return 1; }
  local flags=(--nats-url "$(store nats)" --etcd-endpoints "$(store etcd)")
  [[ $service == scheduler ]] || flags+=(--kubeconfig "$KUBECONFIG")
  rm -f "$dir/$member.address"
  local address
  address=127.0.0.1:$(free_port)
  echo "$address" >"$dir/$member.address"
  setsid berth run "$service" "${flags[@]}" --http-address "$address" "$@" >>"$dir/$member.log" 2>&1 </dev/null &
  echo $! >"$dir/$member.pid"
  for _ in $(seq 600); do
    curl -fs "http://$address/readyz" >/dev/null && { echo "$member is ready"; return; }
    running "$member" || break
    sleep 0.1
  done
  echo "$member is not ready:" >&2
  tail -n 20 "$dir/$member.log" >&2
  return 1
}

# End a member with a signal, and wait until it is gone.
finish() {
  running "$2" || return 0
  local pid
  pid=$(cat "$dir/$2.pid")
  kill -"$1" "$pid"
  while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
  rm -f "$dir/$2.pid" "$dir/$2.address"
}

up() {
  mkdir -p "$dir"
  for store in etcd nats; do cluster store "$store" --dir "$dir/$store" --detach >/dev/null; done
  for i in 0 1; do start "queue-$i"; done
  for i in $(seq 0 $((${1:-2} - 1))); do start "scheduler-$i"; done
  for i in 0 1; do start "binder-$i"; done
}

down() {
  for pid in "$dir"/*.pid; do
    [[ -e $pid ]] && finish TERM "$(basename "$pid" .pid)"
  done
  for store in etcd nats; do
    [[ -e $dir/$store ]] && cluster down --dir "$dir/$store" >/dev/null
  done
  rm -rf "$dir"
}

metrics() {
  for file in "$dir"/*.address; do
    local member
    member=$(basename "$file" .address)
    curl -s "http://$(cat "$file")/metrics" | grep -v '^#' | grep -e "$1" | sed "s/^/$member: /" || true
  done
}

case ${1:-} in
up) up "${@:2}" ;;
start) start "${@:2}" ;;
stop) finish TERM "$2" ;;
kill) finish KILL "$2" ;;
metrics) metrics "$2" ;;
down) down ;;
*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
