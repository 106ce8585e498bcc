#!/bin/sh
# Hosts of their own for ranks: network namespaces with file systems of their own and links of limited
# bandwidth and delay. The bytes of one, what goes over the links and how long it takes, and a link that
# is cut. Needs root and "ip netns".
# Nothing leaves the namespaces that are made here; they are removed at the end.
set -u
. tests/cli/lib.sh
ranks_here "hosts" || finish
tag=pith$$
hosts=4   # with plain links
most=7    # those behind them have a delay
wires=
remove() {
    for n in $(seq 0 $most); do
        for p in $(ip netns pids "$tag-$n" 2>/dev/null); do kill -KILL "$p"; done
        ip netns delete "$tag-$n" 2>/dev/null
    done
}
if ! { [ "$(id -u)" -eq 0 ] && command -v ip >/dev/null && ip netns add "$tag-0" && ip netns exec "$tag-0" ip link set lo up; } 2>/dev/null; then
    remove 2>/dev/null
    skip "hosts" "no network namespaces here"
    finish
fi
trap 'for p in $wires; do kill $p; done; remove; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

# --- a switch (0) and four hosts, each with a name, an address and a folder /tmp of its own -------
sw() { ip netns exec "$tag-0" "$@"; }
sw ip link add br0 type bridge && sw ip link set br0 up
delay=5 # milliseconds
[ -c /dev/net/tun ] || most=$hosts
for n in $(seq 1 $most); do
    ip netns add "$tag-$n" && ip netns exec "$tag-$n" ip link set lo up
    if [ "$n" -le $hosts ]; then
        sw ip link add "h$n" type veth peer name eth0 netns "$tag-$n"
    else
        python3 tests/cli/delayed_link.py "$tag-0" "h$n" "$tag-$n" eth0 $delay >"$work/wire$n" &
        wires="$wires $!"
        for _ in $(seq 200); do
            [ -s "$work/wire$n" ] && break
            sleep 0.05
        done
    fi
    sw ip link set "h$n" master br0 up
    ip netns exec "$tag-$n" sh -c "ip addr add 10.90.0.$n/24 dev eth0; ip link set eth0 up"
done
# What mpirun uses in place of ssh: AGENT ADDRESS COMMAND...
mkdir "$work/own"
cat >"$work/host" <<END
#!/bin/sh
n=\$1
shift
exec ip netns exec $tag-\$n unshare -m -u sh -c 'hostname h'\$n'; mount -t tmpfs none $work/own && cd $work/own && eval "\$1"' sh "\$*"
END
cat >"$work/agent" <<END
#!/bin/sh
n=\${1##*.}
shift
exec $work/host \$n "\$*"
END
chmod +x "$work/agent" "$work/host"
export OMPI_MCA_plm_rsh_agent="$work/agent" OMPI_MCA_btl=self,tcp OMPI_MCA_pml=ob1 OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_oob_tcp_if_include=eth0
export OMPI_MCA_plm=rsh OMPI_MCA_ras_base_launch_orted_on_hn=0
run() { # HOSTS COMMAND: from host 1 (or $first), what it leaves in its own folder into $work/got
    list=$(seq -s, -f 10.90.0.%g "${first:-1}" $((${first:-1} + $1 - 1)))
    "$work/host" "${first:-1}" "timeout ${limit:-120} mpirun -q --host $list -n $1 --map-by node --wdir $work/own $2; s=\$?; cp -r out $work/got 2>/dev/null; exit \$s" >"$work/stdout" 2>"$work/stderr"
}
mini=$work/mini
python3 tests/cli/mini.py "$mini" layers=2 hidden=128 ffn=256
base="-r gptq --quiet --calib-tokens 512 --seq-len 64 --threads 1"
# shellcheck disable=SC2086
"$pith" quantize "$mini" -o "$work/alone" $base >/dev/null 2>&1 || fail "one alone"
for n in 2 4; do
    rm -rf "$work/got"
    run $n "$pith quantize $mini -o out $base" || fail "$n hosts: $(cat "$work/stderr")"
    if [ -d "$work/got" ] && [ "$(digest "$work/got")" = "$(digest "$work/alone")" ]; then pass "$n hosts with disks of their own"; else fail "$n hosts: other bytes"; fi
done

# --- a link of 20 Mb/s -----------------------------------------------------------------------------
for n in 1 2; do ip netns exec "$tag-$n" tc qdisc add dev eth0 root tbf rate 20mbit burst 16kb latency 400ms; done
rm -rf "$work/got"
before=$(sw cat /sys/class/net/h2/statistics/tx_bytes)
run 2 "$pith quantize $mini -o out $base" || fail "a narrow link: $(cat "$work/stderr")"
went=$(($(sw cat /sys/class/net/h2/statistics/tx_bytes) - before))
if [ -d "$work/got" ] && [ "$(digest "$work/got")" = "$(digest "$work/alone")" ]; then pass "over a link of 20 Mb/s"; else fail "over a link of 20 Mb/s: other bytes"; fi
told=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["timing"]["rank_bytes_received"][1])' "$work/got/pith.json")
# The rest is what starts and ends a run, and the frames.
if [ "$went" -ge "$told" ] && [ "$went" -le $((told * 5 / 4 + 1000000)) ]; then pass "what went over the link is in the account"; else fail "$went bytes went to rank 1, which tells of $told"; fi

# --- and with a delay: the time is what a rehearsal estimates --------------------------------------
if [ $most -gt $hosts ]; then
    first=$((hosts + 1))
    for n in $(seq $first $most); do ip netns exec "$tag-$n" tc qdisc add dev eth0 root tbf rate 20mbit burst 16kb latency 400ms; done
    rm -rf "$work/got"
    run 3 "$pith quantize $mini -o out $base" || fail "a link with a delay: $(cat "$work/stderr")"
    if [ -d "$work/got" ] && [ "$(digest "$work/got")" = "$(digest "$work/alone")" ]; then pass "3 hosts over links of 20 Mb/s with a delay"; else fail "3 hosts over links with a delay: other bytes"; fi
    python3 tests/cli/mini.py "$work/more" layers=2 hidden=384 ffn=512
    "$pith" quantize "$work/more" -o "$work/never" -r gptq --calib-tokens 512 --seq-len 64 --threads 1 --rehearse --json --link 20M,$((delay * 1000)) \
        >"$work/said.json" 2>/dev/null || fail "a rehearsal"
    rm -rf "$work/got"
    run 2 "$pith quantize $work/more -o out $base" || fail "a link with a delay: $(cat "$work/stderr")"
    # Other work on the machine makes it longer, the link never lets it be shorter.
    check "a run takes what is estimated of such a link, at least" python3 -c '
import json, sys
said = json.load(open(sys.argv[1]))
row = [r for r in said["ranks"]["rows"] if r["ranks"] == 2][0]
took = json.load(open(sys.argv[2]))["timing"]["seconds"]
assert row["limit"] == "link" and took > 0.75 * row["link"] * said["blocks"], (took, row)' "$work/said.json" "$work/got/pith.json"
    first=1
else
    skip "links with a delay" "no /dev/net/tun"
fi

# --- a link that is cut ----------------------------------------------------------------------------
export OMPI_MCA_oob_tcp_keepalive_time=2 OMPI_MCA_oob_tcp_keepalive_intvl=1 OMPI_MCA_oob_tcp_keepalive_probes=3
# Half way: what goes over it does not depend on how long the text is.
passed() { sw cat /sys/class/net/h2/statistics/tx_bytes; }
before=$(passed)
(
    for _ in $(seq 600); do
        [ $(($(passed) - before)) -gt $((told / 2)) ] && break
        sleep 0.1
    done
    sw ip link set h2 down
) &
start=$(date +%s)
limit=90 run 2 "$pith quantize $mini -o out -r gptq --quiet --calib-tokens 4096 --seq-len 64 --threads 1" && fail "a link is cut: it went on"
took=$(($(date +%s) - start))
if [ "$took" -lt 60 ] && [ "$(grep -c '^pith' "$work/stderr")" -eq 1 ] && grep -q '^pith: .*--resume' "$work/stderr"; then
    pass "a link is cut: the run ends with one line"
else
    fail "a link is cut: $took s, $(cat "$work/stderr")"
fi
finish
