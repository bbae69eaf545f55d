# The examples of doc/examples/fleet against what jeprofd gives.
# usage: examples.py check DIRECTORY METRICS TARGETS HELP   every metric and label that the dashboard and the rules use is in the
#                answers to /metrics and /targets, every option of the manifests in jeprofd --help; 1 and a line for each fault
#        examples.py queries DIRECTORY    the queries, one a line behind their place and a tab, so that they have a value wherever
#                their metrics have one: variables are filled in, limits of alerts are left out
import json
import re
import sys
import yaml

RULES = ["alerts.yaml", "kubernetes-rules.yaml"]
MANIFESTS = ["daemonset.yaml", "daemonset-push.yaml", "sidecar.yaml"]
# What others give: Prometheus itself, kube-state-metrics.
SCRAPER = {"job", "instance"}
FOREIGN = {
    "kube_pod_container_info": {"namespace", "pod", "container", "container_id", "image"},
    "kube_pod_owner": {"namespace", "pod", "owner_kind", "owner_name"},
}
VARIABLES = {"$__range": "5m", "$__rate_interval": "1m", "$service": ".*", "$instance": ".*"}
GROUPINGS = {"by", "without", "on", "ignoring", "group_left", "group_right"}
WORDS = {"and", "or", "unless", "offset", "bool"}
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\[[^\]]*\]|[a-zA-Z_:][\w:]*|\d[\w.]*|[=!]~|[=!<>]=|\S')

faults = []


def expect(good, text):
    if not good:
        faults.append(text)


def load(name):
    with open(directory + "/" + name) as file:
        return json.load(file) if name.endswith(".json") else list(yaml.safe_load_all(file))


def rules():
    """(place, rule) of each rule."""
    for name in RULES:
        for group in load(name)[0]["groups"]:
            for rule in group["rules"]:
                yield "%s: %s" % (name, rule.get("record") or rule["alert"]), rule


def panels():
    return [p for p in load("grafana-dashboard.json")["panels"] if p["type"] != "row"]


def variables():
    return load("grafana-dashboard.json")["templating"]["list"]


# ---- queries
class Query:
    """The metrics of a query with the labels that select them, and the labels that it groups by."""

    def __init__(self, text):
        self.selected, self.labels = [], set()
        tokens = TOKEN.findall(text)
        at = 0
        while at < len(tokens):
            at = self.take(tokens, at)

    def take(self, tokens, at):
        word, after = tokens[at], tokens[at + 1] if at + 1 < len(tokens) else ""
        if word in GROUPINGS:
            end = tokens.index(")", at) if after == "(" else at
            self.labels |= {t for t in tokens[at + 2:end] if t != ","}
            return end + 1
        if word == "label_replace":
            self.labels |= {t[1:-1] for t in tokens[at:] if re.fullmatch(r'"[a-z_]+"', t)}
        elif after not in {"(", "by", "without"} and re.match(r"[a-zA-Z_:]", word) and word not in WORDS:
            end = tokens.index("}", at) if after == "{" else at
            inside = tokens[at + 2:end]
            self.selected.append((word, {t for t, sign in zip(inside, inside[1:]) if sign in {"=", "!=", "=~", "!~"}}))
            return end + 1
        return at + 1


def given(metrics, targets):
    """The labels of each metric that jeprofd gives."""
    labels = set().union(*({k for k in t["labels"] if not k.startswith("__")} for t in json.load(open(targets))))
    have = {}
    for line in open(metrics):
        found = re.match(r"([a-z_]+)(?:\{(.*)\})? ", line)
        if found:
            own = set(re.findall(r'([a-z_]+)="', found.group(2) or ""))
            have.setdefault(found.group(1), set(SCRAPER)).update(own | (labels if own else set()))
    return {**have, **FOREIGN}


def check_query(place, text, more, have):
    query = Query(text)
    known = set()
    expect(query.selected, "%s: no metric in %s" % (place, text))
    for name, labels in query.selected:
        expect(name in have, "%s: jeprofd gives no %s" % (place, name))
        known |= have.get(name, set())
        for label in labels - have.get(name, set()):
            expect(False, "%s: %s has no label %s" % (place, name, label))
    for label in (query.labels | more) - known:
        expect(False, "%s: no metric of the query has a label %s" % (place, label))
    return known


def check_rules(have):
    for place, rule in rules():
        told = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule.get("annotations", {}))))
        known = check_query(place, rule["expr"], told, have)
        if "record" in rule:
            have[rule["record"]] = known
        else:
            expect({"summary", "description"} == set(rule["annotations"]), place + ": summary and description")


def check_dashboard(have):
    names = {"$" + v["name"] for v in variables()} | {"$__range", "$__rate_interval"}
    taken = set()
    for p in panels():
        place = "grafana-dashboard.json: " + p["title"]
        expect(p["id"] not in taken, place + ": its id is another's")
        taken.add(p["id"])
        g = p["gridPos"]
        cells = {(x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])}
        expect(not cells & taken and g["x"] + g["w"] <= 24, place + ": lies on another")
        taken |= cells
        expect(p["description"] and p["targets"], place + ": no description, or no query")
        expect(len({t["refId"] for t in p["targets"]}) == len(p["targets"]), place + ": two queries have one refId")
        for t in p["targets"]:
            expect(t["datasource"]["uid"] == "${datasource}", place + ": a fixed source of data")
            expect(set(re.findall(r"\$\w+", t["expr"])) <= names, place + ": an unknown variable in " + t["expr"])
            check_query(place, t["expr"], set(re.findall(r"\{\{(\w+)\}\}", t["legendFormat"])), have)
    for v in variables():
        found = re.fullmatch(r"label_values\((\w+), (\w+)\)", v["query"])
        if v["type"] == "query":
            expect(found and found.group(2) in have.get(found.group(1), ()), "grafana-dashboard.json: variable %s: %s" % (v["name"], v["query"]))


def check_container(name, pod, container, known):
    for option in re.findall(r"--[a-z-]+", " ".join(container["args"])):
        expect(option in known, "%s: jeprofd has no %s" % (name, option))
    # The entry point of an image is another one, or none.
    expect(container.get("command") == ["jeprofd"], name + ": its command is not jeprofd")
    rights = {**pod.get("securityContext", {}), **container["securityContext"]}
    expect(rights["capabilities"]["drop"] == ["ALL"], name + ": capabilities are kept")
    expect(not (rights.get("runAsNonRoot") and rights.get("runAsUser") == 0), name + ": it is root, which it must not be")


def check_manifests(help_text):
    known = set(re.findall(r"--[a-z-]+", help_text))
    root = None
    for name in MANIFESTS:
        pod = load(name)[0]["spec"]["template"]["spec"]
        container = next(c for c in pod["containers"] if c["name"] == "jeprofd")
        check_container(name, pod, container, known)
        # sidecar.yaml names the rights of daemonset.yaml, the first one, as the other choice.
        root = root or container["securityContext"]
        check_container(name + " with the rights of " + MANIFESTS[0], pod, {**container, "securityContext": root}, known)


def queries():
    for place, rule in rules():
        yield place, re.sub(r" [<>]=? [\d.]+", "", rule["expr"])
    for p in panels():
        for t in p["targets"]:
            text = t["expr"]
            for name, value in VARIABLES.items():
                text = text.replace(name, value)
            yield "grafana-dashboard.json: " + p["title"], text


mode, directory = sys.argv[1:3]
if mode == "queries":
    for place, text in queries():
        print("%s\t%s" % (place, " ".join(text.split())))
else:
    have = given(sys.argv[3], sys.argv[4])
    check_rules(have)
    check_dashboard(have)
    check_manifests(open(sys.argv[5]).read())
print("\n".join(faults), end="\n" if faults else "")
sys.exit(bool(faults))
