#!/bin/sh
# The examples of doc/examples/fleet: a parser reads them, the dashboard and the rules use only what jeprofd gives, and promtool finds that
# each alert fires where it should.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/agent/aid"
python3 -c 'import yaml' 2>/dev/null || skip_all "no python3 with yaml (package python3-yaml)"
examples=$SRC/doc/examples/fleet

push="--push http://127.0.0.1:1"
# shellcheck disable=SC2086
"$AGENT" $push --passive --listen 127.0.0.1:99999 2>&1 | grep -q libcurl && push=
# shellcheck disable=SC2086
agent $push
work
told() { get /metrics && grep -q '^jeprof_allocated_bytes{.*[1-9]$' answer; }
until_true told
cp answer metrics
# The figures that only a build with libcurl or a cgroup with a limit gives.
{
	[ -n "$push" ] || sed -n 's/.*"\(jeprofd_push_[a-z]*\)", "counter".*/\1_total 0/p; s/.*"\(jeprofd_push_[a-z_]*\)", "gauge".*/\1 0/p' "$SRC/bin/agent/metrics.c"
	sed 's/^jeprof_cgroup_current_bytes/jeprof_cgroup_limit_bytes/; t; d' answer
} >>metrics
is_target "$pid"
# A process has those of these labels that are known of it.
for label in $(sed -n '/^proc_labels/,/^}/ s/{"\([a-z_]*\)", l->/\n\1\n/gp' "$SRC/bin/agent/table.c" | grep -x '[a-z_]*'); do
	echo "jeprof_process_info{$label=\"0\"} 1" >>metrics
	labels="$labels\"$label\":\"0\","
done
sed "s/\"pid\":/$labels&/" targets >all_targets
"$AGENT" --help >help
runs "metrics, labels, options: all of them are jeprofd's" python3 "$SRC/test/agent/examples.py" check "$examples" metrics all_targets help

for file in "$examples"/*.y*ml "$SRC/test/agent/alerts_test.yaml"; do
	python3 -c 'import sys, yaml; sys.exit(not all(yaml.safe_load_all(open(sys.argv[1]))))' "$file"
	ok $? "a parser reads ${file##*/}"
done
python3 "$SRC/test/agent/configs.py" "$SRC/doc" . http://127.0.0.1:7071/targets >faults
ok $? "the configurations have the form that is documented" "$(cat faults)"

command -v promtool >/dev/null || { skip 1 "no promtool (package prometheus)"; done_testing; }
cp "$examples"/*.yaml "$SRC/test/agent/alerts_test.yaml" .
promtool test rules alerts_test.yaml >promtool.out 2>&1
ok $? "each alert fires where it should, and nowhere else" "$(cat promtool.out)"
for name in prometheus prometheus-kubernetes parca otel; do
	promtool check config --syntax-only $name.yml >promtool.out 2>&1
	ok $? "promtool check config: $name" "$(cat promtool.out)"
done
done_testing
