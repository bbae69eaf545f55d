#!/bin/sh
# named (BIND 9) with local zones, and kresd (Knot Resolver) in front of it; both are linked to libjemalloc.so.2 by Debian. Every
# answer is compared with the zone. No network is needed.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/real/aid"
needs named dig nsupdate

NAMES=1500
port=$(free_port)
mkdir named
{
	printf '$TTL 300\n@ SOA ns.example.test. root.example.test. 1 3600 600 86400 300\n@ NS ns.example.test.\nns A 127.0.0.1\n'
	seq 1 $NAMES | awk '{ printf "host%d A 10.%d.%d.%d\nhost%d TXT \"text of host %d %s\"\n", $1, $1 / 65536, $1 / 256 % 256,
	    $1 % 256, $1, $1, substr("abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz", 1, $1 % 50 + 1) }'
} >named/zone
cat >named/named.conf <<CONF
options { directory "$W/named"; pid-file "$W/named/pid"; session-keyfile "$W/named/session.key"; listen-on port $port { 127.0.0.1; };
	listen-on-v6 { none; }; recursion no; notify no; dnssec-validation no; allow-transfer { 127.0.0.1; }; };
controls { };
zone "example.test" { type primary; file "zone"; allow-update { 127.0.0.1; }; };
CONF

# ask PORT NAME TYPE: the short answer. An overloaded machine may lose a datagram's time limit, so it is asked by TCP, patiently.
ask() {
	dig +tcp +short +time=100 +tries=2 -p "$1" @127.0.0.1 "$2" "$3" 2>&1
}
# answers PORT: the server is there
answers() {
	[ "$(ask "$1" ns.example.test A)" = 127.0.0.1 ]
}
# all_right PORT COUNT NAME: asks for the addresses and texts of the first COUNT names
all_right() {
	seq 1 "$2" | awk '{ printf "host%d.example.test A\nhost%d.example.test TXT\n", $1, $1 }' >questions
	timeout 600 dig +tcp +keepopen +short +time=100 +tries=2 -p "$1" @127.0.0.1 -f questions >got 2>&1
	awk -v n="$2" '/^host/ && NR > 4 { sub("host", "", $1); if ($1 + 0 <= n) { sub(/^[^ ]* [A-Z]* /, ""); print } }' named/zone >want
	ok "$(cmp -s want got; echo $?)" "$3" "$(diff want got | head -n 10)"
}

# It serves most requests out of memory that it has, so it runs the profiler's thread, to be asked when idle as well.
launch named env MALLOC_CONF=prof_thread:true named -g -4 -n 2 -c "$W/named/named.conf"
named=$pid
served_by $named answers "$port"
ok $? "named answers" "$(tail -n 20 named.err)"
on_library $named named
profile_begins $named named
all_right "$port" $NAMES "all $NAMES addresses and texts"
is "$(dig +time=100 +tries=1 -p "$port" @127.0.0.1 example.test AXFR | grep -c '^host')" $((2 * NAMES)) "the whole zone"
seq 1 400 | awk -v port="$port" 'BEGIN { print "server 127.0.0.1 " port }
	{ printf "update add new%d.example.test 60 TXT \"made while it runs %d\"\n", $1, $1; if ($1 % 20 == 0) print "send" }' >updates
timeout 600 nsupdate -v -t 0 updates >nsupdate.out 2>&1
ok $? "400 names are added while it runs" "$(cat nsupdate.out)"
is "$(ask "$port" new400.example.test TXT)" '"made while it runs 400"' "and are there"
profile_goes_on $named named
all_right "$port" $NAMES "and all again"

if command -v kresd >/dev/null; then
	mkdir kresd
	front=$(free_port)
	cat >kresd/conf <<-CONF
	net.ipv6 = false
	net.listen('127.0.0.1', $front, { kind = 'dns' })
	trust_anchors.remove('.')
	for _, m in ipairs({'ta_update', 'ta_signal_query', 'ta_sentinel', 'priming', 'detect_time_jump', 'detect_time_skew'}) do
		pcall(modules.unload, m)
	end
	modules = { 'hints > iterate' }
	hints['hinted.example.com'] = '10.9.8.7'
	cache.size = 20 * MB
	policy.add(policy.suffix(policy.STUB({'127.0.0.1@$port'}), {todname('example.test')}))
	CONF
	launch kresd kresd -n -c "$W/kresd/conf" "$W/kresd"
	kresd=$pid
	is_hinting() {
		[ "$(ask "$front" hinted.example.com A)" = 10.9.8.7 ]
	}
	served_by $kresd is_hinting
	ok $? "kresd answers" "$(tail -n 20 kresd.err)"
	on_library $kresd kresd
	load() {
		seq 1 200 | awk '{ printf "host%d.example.test A\n", int(1400 * rand()) + 1 }' >load
		dig +tcp +keepopen +short +time=100 +tries=1 -p "$front" @127.0.0.1 -f load
	}
	while_busy load
	# Of what it allocates from here on it keeps a few blocks of 4 KiB: each is to be a sample.
	profile_begins $kresd kresd 256
	at_ease
	all_right "$front" 1000 "2000 answers that it asks of named"
	while_busy load
	profile_goes_on $kresd kresd
	at_ease
	all_right "$front" 1000 "and again, out of its cache"
	is "$(ask "$front" nobody.example.test A)" "" "a name that is not there has no address"
	while_busy load
	profile_ends $kresd kresd
	at_ease
	stops $kresd TERM 0 kresd
else
	skip "no kresd"
fi
profile_ends $named named
stops $named TERM 0 named
done_testing
