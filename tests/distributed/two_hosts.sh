#!/bin/bash
# Two hosts on one machine: two network namespaces joined by a pair of virtual interfaces, and an mpirun that starts
# ranks on both. Needs root and the right to make namespaces.
#
#   two_hosts.sh up [RATE]      makes them; RATE is that of the link, as tc writes it: 1gbit (none: as fast as it goes)
#   two_hosts.sh mpirun ...     mpirun on the first host with these arguments; rank 0 on the first, then in turn
#   two_hosts.sh down           removes them
set -euo pipefail
names=(heed-host-a heed-host-b)
links=(heed-link-a heed-link-b)
network=10.77.0

up() {
  down
  ip link add "${links[0]}" type veth peer name "${links[1]}"
  for i in 0 1; do
    ip netns add "${names[i]}"
    ip link set "${links[i]}" netns "${names[i]}"
    ip -n "${names[i]}" addr add "$network.$((i + 1))/24" dev "${links[i]}"
    ip -n "${names[i]}" link set "${links[i]}" up
    ip -n "${names[i]}" link set lo up
    if [ -n "${1:-}" ]; then  # a bucket that holds some milliseconds of the rate
      ip netns exec "${names[i]}" tc qdisc add dev "${links[i]}" root tbf rate "$1" burst 1mb latency 100ms
    fi
  done
}

down() {
  for i in 0 1; do ip netns del "${names[i]}" 2>/dev/null || true; done
  ip link del "${links[0]}" 2>/dev/null || true
}

# What mpirun calls in place of ssh: HOST COMMAND...
agent() {
  for i in 0 1; do
    if [ "$1" = "$network.$((i + 1))" ]; then
      shift
      # A name of its own, as a host has one: messages tell hosts apart by it.
      exec ip netns exec "${names[i]}" unshare --uts /bin/bash -c "hostname ${names[i]}; $*"
    fi
  done
  echo "two_hosts.sh: no such host: $1" >&2
  exit 1
}

run() {
  local self
  self=$(readlink -f "$0")
  hosts=$(mktemp /tmp/heed-hosts-XXXXXX)
  printf '%s.1 slots=64\n%s.2 slots=64\n' "$network" "$network" >"$hosts"
  trap 'rm -f "$hosts"' EXIT
  # (The launcher is a script of one word for mpirun.)
  launcher=${hosts}.sh
  printf '#!/bin/bash\nexec "%s" agent "$@"\n' "$self" >"$launcher"
  chmod +x "$launcher"
  trap 'rm -f "$hosts" "$launcher"' EXIT
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  ip netns exec "${names[0]}" unshare --uts /bin/bash -c "hostname ${names[0]}; exec \"\$@\"" bash \
    mpirun -q --hostfile "$hosts" --map-by node --mca plm_rsh_agent "$launcher" --mca btl tcp,self \
    --mca btl_tcp_if_include "$network.0/24" --mca oob_tcp_if_include "$network.0/24" --bind-to none "$@"
}

case ${1:-} in
  up) shift; up "$@" ;;
  down) down ;;
  mpirun) shift; run "$@" ;;
  agent) shift; agent "$@" ;;
  *) sed -n 2,9p "$0"; exit 2 ;;
esac
