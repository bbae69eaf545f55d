# Checks the configurations of doc/FLEET.md and doc/examples/fleet for programs that Debian does not have, as far as can be done without
# them: the keys and blocks against their documentation, which is written down here, and what they share with Prometheus is cut out for
# promtool. usage: configs.py DOC DIRECTORY TARGETS-URL: writes prometheus.yml, prometheus-kubernetes.yml, parca.yml, otel.yml; 1 and a line
# for each fault
import re
import sys
import yaml

doc, directory, url = sys.argv[1:4]
faults = []


def expect(good, text):
    if not good:
        faults.append(text)


def block(title):
    """The first code block below a heading."""
    found = re.search(r"^## %s\n.*?^```\w*\n(.*?)^```" % re.escape(title), open(doc + "/FLEET.md").read(), re.M | re.S)
    if not found:
        sys.exit("no block below ## " + title)
    return found.group(1)


def example(name):
    with open(doc + "/examples/fleet/" + name) as file:
        return yaml.safe_load(file)


def write(name, config):
    text = yaml.safe_dump(config, sort_keys=False)
    with open("%s/%s.yml" % (directory, name), "w") as out:
        out.write(re.sub(r"http://127\.0\.0\.1:7071/targets", url, text))


def only(what, have, allowed):
    for key in have:
        expect(key in allowed, "%s: no such key: %s" % (what, key))


def seconds(text):
    return int(text[:-1]) * {"s": 1, "m": 60}[text[-1]]


# ---- Parca: Prometheus' jobs, with the paths of profiles
SHARED = {"job_name", "scrape_interval", "scrape_timeout", "scheme", "params", "http_sd_configs", "static_configs", "relabel_configs", "authorization"}
PROFILES = {"memory", "block", "goroutine", "mutex", "process_cpu"}


def check_parca(config):
    only("Parca", config, {"object_storage", "scrape_configs"})
    for job in config["scrape_configs"]:
        only("Parca's job", job, SHARED | {"profiling_config", "normalized_addresses"})
        expect(seconds(job["scrape_timeout"]) > seconds(job["scrape_interval"]), "Parca: scrape_timeout must be more than scrape_interval")
        profiling = job.pop("profiling_config")
        only("Parca's profiling_config", profiling, {"path_prefix", "pprof_config"})
        expect(PROFILES <= set(profiling["pprof_config"]), "Parca: its default profiles that we do not have are not switched off")
        for name, profile in profiling["pprof_config"].items():
            only("Parca's " + name, profile, {"enabled", "path", "delta", "keep_sample_type"})
            expect(isinstance(profile["enabled"], bool), "Parca's %s: enabled is true or false" % name)
            expect(profile["enabled"] == ("path" in profile), "Parca's %s: a path where it is enabled" % name)
            for kept in profile.get("keep_sample_type", []):
                expect(set(kept) == {"type", "unit"}, "Parca's keep_sample_type wants type and unit")
        job["scrape_timeout"] = job["scrape_interval"]  # more is not allowed in Prometheus
    write("parca", config)


# ---- OpenTelemetry collector: what the pipelines name must be there
def check_otel(config):
    only("the collector", config, {"receivers", "processors", "exporters", "extensions", "connectors", "service"})
    for name, pipeline in config["service"]["pipelines"].items():
        expect(name.split("/")[0] in {"metrics", "traces", "logs", "profiles"}, "the collector: no pipeline is of kind " + name)
        only("the collector's pipeline", pipeline, {"receivers", "processors", "exporters"})
        for kind, names in pipeline.items():
            for part in names:
                expect(part in config.get(kind, {}), "the collector: %s has no %s" % (kind, part))
    receiver = config["receivers"]["prometheus"]
    only("the collector's prometheus receiver", receiver, {"config", "target_allocator", "trim_metric_suffixes", "use_start_time_metric"})
    write("otel", receiver["config"])
    http = config["receivers"]["otlp"]["protocols"]["http"]["endpoint"]
    expect(http.endswith(":4318"), "the collector: OTLP over HTTP has port 4318")


# ---- Prometheus in Kubernetes: Debian's build has not that discovery
def check_kubernetes(config):
    for job in config["scrape_configs"]:
        for discovery in job.pop("kubernetes_sd_configs"):
            only("kubernetes_sd_configs", discovery, {"role", "namespaces", "selectors"})
            expect(discovery["role"] == "pod", "kubernetes_sd_configs: the labels are those of role pod")
        expect(job["authorization"].pop("credentials_file"), "Prometheus in Kubernetes: no token")
        job["authorization"]["credentials"] = "token"
        for rule in job["relabel_configs"]:
            for label in rule["source_labels"]:
                expect(re.match("__meta_kubernetes_pod_(label_|container_port_name$|node_name$)", label), "no such label: " + label)
    config.pop("rule_files")
    write("prometheus-kubernetes", config)


# ---- Grafana Alloy: blocks with attributes, each on a line of its own
COMPONENTS = {
    "discovery.http": {"url", "refresh_interval", "bearer_token_file", "authorization{}"},
    "pyroscope.scrape": {"targets", "forward_to", "job_name", "params", "scrape_interval", "scrape_timeout", "scheme", "bearer_token_file", "profiling_config{}"},
    "pyroscope.write": {"external_labels", "endpoint{}"},
    "profiling_config": {"path_prefix"} | {"profile.%s{}" % p for p in PROFILES | {"fgprof", "godeltaprof_memory", "godeltaprof_mutex", "godeltaprof_block", "custom"}},
    "endpoint": {"url", "name", "remote_timeout", "headers", "bearer_token_file"},
    "authorization": {"type", "credentials", "credentials_file"},
}
REQUIRED = {"discovery.http": {"url"}, "pyroscope.scrape": {"targets", "forward_to"}, "endpoint": {"url"}}
TOKEN = re.compile(r'\s*?(\n|"(?:[^"\\\n]|\\.)*"|[\w.]+|[{}\[\]=,])')


class Alloy:
    def __init__(self, text):
        self.tokens = TOKEN.findall(text)
        expect(not re.sub(r"\s", "", TOKEN.sub("", text)), "Alloy: what is this: " + TOKEN.sub("", text).strip())
        self.names, self.references = set(), []
        self.body("", None)
        for name in self.references:
            expect(any(name.startswith(n + ".") for n in self.names), "Alloy: nothing is called " + name)

    def next(self, *wanted):
        token = self.tokens.pop(0) if self.tokens else ""
        expect(not wanted or token in wanted, "Alloy: %r instead of %s" % (token, " or ".join(map(repr, wanted))))
        return token

    def skip_lines(self):
        while self.tokens and self.tokens[0] == "\n":
            self.tokens.pop(0)

    def body(self, name, end):
        allowed = COMPONENTS.get(name, {"enabled", "path", "delta"} if name.startswith("profile.") else None)
        given = set()
        self.skip_lines()
        while self.tokens and self.tokens[0] != end:
            self.statement(name, allowed, given)
            if not self.tokens or self.tokens[0] != end:
                self.next("\n")  # two on one line are none
            self.skip_lines()
        if end:
            self.next(end)
        for key in REQUIRED.get(name, ()):
            expect(key in given, "Alloy: %s wants %s" % (name, key))

    def statement(self, inside, allowed, given):
        word = self.next()
        label = self.next() if self.tokens and self.tokens[0].startswith('"') else None
        given.add(word)
        if label is not None:
            self.names.add(word + "." + label.strip('"'))
            expect(word in COMPONENTS, "Alloy: no such component: " + word)
        if self.tokens and self.tokens[0] == "=":
            expect(allowed is not None and word in allowed, "Alloy: %s has no attribute %s" % (inside, word))
            self.next()
            self.expression()
        else:
            expect(label is not None or (allowed is not None and word + "{}" in allowed), "Alloy: %s has no block %s" % (inside, word))
            self.next("{")
            self.body(word, "}")

    def expression(self):
        token = self.next()
        if token == "[":
            while self.tokens and self.tokens[0] != "]":
                self.expression()
                if self.tokens[0] != "]":
                    self.next(",")
            self.next("]")
        elif re.match(r"[a-z_]+\.", token):
            self.references.append(token)
        else:
            expect(re.match(r'"|\d|true$|false$', token), "Alloy: no value: " + repr(token))


told = yaml.safe_load(block("Prometheus"))
expect(told["scrape_configs"] == example("prometheus.yml")["scrape_configs"], "doc/FLEET.md and prometheus.yml have different jobs")
write("prometheus", told)
check_parca(yaml.safe_load(block("Parca")))
check_otel(example("otel-collector.yaml"))
check_kubernetes(example("prometheus-kubernetes.yml"))
Alloy(block("Grafana Alloy, Pyroscope"))
print("\n".join(faults))
sys.exit(bool(faults))
