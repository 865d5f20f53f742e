"""Checks the files in deploy/, without a network: scripts/test deploy.

render.go renders the chart, which is checked against the schemas of Kubernetes and against our own
rules. The compose file, the units, the container file, the alerts, the board and the proxies'
settings are checked too, where possible by the program that reads them. Programs that are missing
are listed at the end.
"""

import copy
import functools
import ipaddress
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib

import forgeries
import jsonschema
import kubernetes_validate
import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "chart"
VALUES = DEPLOY / "tests/values"
# The oldest version that the chart allows, and the newest whose schemas we have.
KUBERNETES = ["1.27", "1.37"]
# systemd's score of what a unit may do, from 0 (least) to 100.
EXPOSURE = 20
# The longest time that /readyz takes to respond (docs/operations.md, Readiness).
READINESS_SECONDS = 4.5
RELEASE = {"Name": "media", "Namespace": "default", "Service": "Helm"}
# Names of variables that hold secrets.
SECRET = re.compile(r"KEY|SECRET|PASSWORD|TOKEN|DATABASE")

faults, unchecked = [], []


def expect(holds, fault):
    if not holds:
        faults.append(fault)


def run(*command, **options):
    """Returns a program's output; records a fault if the program fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    expect(done.returncode == 0, f"{' '.join(map(str, command))}:\n{done.stdout}")
    return done.stdout


def program(name):
    """The path of a program, or None. Missing programs are listed at the end."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    if not found:
        unchecked.append(name)
    return found


# --- The chart ----------------------------------------------------------------


def merged(base, over):
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return over
    return {**base, **{key: merged(base[key], value) if key in base else value for key, value in over.items()}}


@functools.cache
def read(path):
    return yaml.safe_load(path.read_text())


def cases():
    """Values by the place that they come from; docs/deployment.md has an example."""
    found = {path.name: read(path) for path in sorted(VALUES.glob("*.yaml"))}
    [example] = re.findall(r"```yaml[^\n]*\n(# media\.yaml\n.*?)```", (ROOT / "docs/deployment.md").read_text(), re.S)
    found["docs/deployment.md"] = yaml.safe_load(example)
    return {name: merged(read(CHART / "values.yaml"), values) for name, values in found.items()}


def render(renderer, values):
    chart = read(CHART / "Chart.yaml")
    chart = {"Name": chart["name"], "Version": chart["version"], "AppVersion": chart["appVersion"]}
    context = json.dumps({"Values": values, "Release": RELEASE, "Chart": chart})
    return subprocess.run([renderer, CHART], input=context, capture_output=True, text=True)


def objects(text):
    return [document for document in yaml.safe_load_all(text) if document]


def check_chart(work):
    renderer = work / "render"
    # Nothing but the standard library, so nothing is fetched.
    run("go", "build", "-o", renderer, DEPLOY / "tests/render.go", env={**os.environ, "GOFLAGS": "-mod=mod"})
    if not renderer.exists():
        return
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    chart = read(CHART / "Chart.yaml")
    expect(chart["version"] == chart["appVersion"] == version, f"Chart.yaml is not of version {version}")
    expect("dependencies" not in chart, "Chart.yaml has subcharts")
    validator = jsonschema.Draft7Validator(json.loads((CHART / "values.schema.json").read_text()))
    full = cases()["full.yaml"]
    for name, values in cases().items():
        for error in validator.iter_errors(values):
            faults.append(f"{name}: {error.json_path}: {error.message}")
        done = render(renderer, values)
        expect(done.returncode == 0, f"{name}: {done.stderr}")
        if done.returncode == 0:
            check_objects(name, values, objects(done.stdout))
            compare_with_helm(work, name, values, objects(done.stdout))
    misspelt = {**full, "pubicUrl": ""}, merged(full, {"serve": {"replica": 1}}), merged(full, {"drainSeconds": "5s"})
    for wrong in misspelt:
        expect(not validator.is_valid(wrong), "values.schema.json lets anything pass")
    for path, value, message in [
        (["image", "repository"], "", "image.repository"),
        (["publicUrl"], "", "publicUrl"),
        (["media", "store"], "/data/media", "media.store"),
        (["media", "store"], "", "media.store"),
        (["secrets", "database"], {"name": "", "key": "a"}, "MEDIAGATE_DATABASE: name"),
        (["secrets", "firstKey"], {"name": "a", "key": ""}, "MEDIAGATE_FIRST_KEY: key"),
    ]:
        wrong = copy.deepcopy(full)
        place = functools.reduce(dict.__getitem__, path[:-1], wrong)
        place[path[-1]] = value
        done = render(renderer, wrong)
        expect(done.returncode != 0 and message in done.stderr, f"{path}: {value!r} is not refused: {done.stderr}")


def compare_with_helm(work, name, values, ours):
    """The renderer is not Helm: where Helm is installed, both must give the same objects."""
    if not shutil.which("helm"):
        return
    path = work / "values.yaml"
    path.write_text(yaml.safe_dump(values))
    command = ["helm", "template", RELEASE["Name"], CHART, "--values", path]

    def by_name(object):
        return (object["kind"], object["metadata"]["name"])

    theirs = objects(run(*command))
    expect(sorted(theirs, key=by_name) == sorted(ours, key=by_name), f"helm renders {name} otherwise")


def check_objects(name, values, objects):
    for version in KUBERNETES:
        for object in objects:
            try:
                kubernetes_validate.validate(object, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                faults.append(f"{name}, {object['kind']}, Kubernetes {version}: {error}")
    kinds = {}
    for object in objects:
        kinds.setdefault(object["kind"], {})[object["metadata"]["name"]] = object
    scaled = {f"media-{title}" for title in ["serve", "worker"] if values[title]["autoscaling"]["enabled"]}
    expected = {"ConfigMap": 1, "Deployment": 2, "Job": 1, "NetworkPolicy": 1, "PodDisruptionBudget": 2, "Service": 1}
    expected |= {"HorizontalPodAutoscaler": len(scaled)} if scaled else {}
    found = {kind: len(these) for kind, these in kinds.items()}
    expect(found == expected, f"{name} gives {found}, not {expected}")

    pods = {}
    for kind in ["Deployment", "Job"]:
        for title, object in kinds[kind].items():
            check_pod(title, object["spec"]["template"])
            pods[title] = object["spec"]["template"]["metadata"]["labels"]
    for title, object in kinds["Deployment"].items():
        pod = object["spec"]["template"]["spec"]
        expect(matches(object["spec"]["selector"], pods[title]), f"{title} does not select its own pods")
        check_deployment(title, values, object, pod)
        budget = kinds["PodDisruptionBudget"][title]["spec"]
        expect(budget["maxUnavailable"] == 1, f"{title}: maxUnavailable")
        expect(selected(budget["selector"], pods) == [title], f"{title}: the budget is for other pods")
        if title in scaled:
            target = kinds["HorizontalPodAutoscaler"][title]["spec"]["scaleTargetRef"]
            expect((target["kind"], target["name"]) == ("Deployment", title), f"{title}: scales {target}")
        expect(("replicas" in object["spec"]) != (title in scaled), f"{title}: replicas beside an autoscaler")
    [service] = kinds["Service"].values()
    selector = {"matchLabels": service["spec"]["selector"]}
    expect(selected(selector, pods) == ["media-serve"], "the Service is not serve's")
    [policy] = kinds["NetworkPolicy"].values()
    expect(selected(policy["spec"]["podSelector"], pods) == sorted(pods), "the policy is not for all pods")
    [job] = kinds["Job"].values()
    hooks = job["metadata"]["annotations"]["helm.sh/hook"].split(",")
    expect("pre-upgrade" in hooks and "pre-install" in hooks, f"the migration runs at {hooks}")
    # Hooks run before anything else of the chart exists.
    text = json.dumps(job["spec"])
    expect("configMap" not in text and "serviceAccountName" not in text, "the migration needs other objects")


def matches(selector, labels):
    return selector["matchLabels"].items() <= labels.items()


def selected(selector, pods):
    return sorted(title for title, labels in pods.items() if matches(selector, labels))


def check_pod(title, template):
    pod = template["spec"]
    security = pod["securityContext"]
    expect(security["runAsNonRoot"] and security["runAsUser"] == 65532, f"{title} may run as root")
    expect(pod["automountServiceAccountToken"] is False, f"{title} has the cluster's token")
    # Service links become variables such as MEDIAGATE_PORT, which is no setting of the program.
    expect(pod["enableServiceLinks"] is False, f"{title} has service links")
    for container in pod["containers"]:
        security = container["securityContext"]
        expect(security["readOnlyRootFilesystem"], f"{title} may write to its root")
        expect(security["allowPrivilegeEscalation"] is False, f"{title} may gain rights")
        expect(security["capabilities"]["drop"] == ["ALL"], f"{title} has capabilities")
        expect({"memory"} <= container["resources"]["limits"].keys(), f"{title} has no limit of memory")
        expect({"cpu", "memory"} <= container["resources"]["requests"].keys(), f"{title} requests nothing")
        names = [variable["name"] for variable in container["env"]]
        expect(len(names) == len(set(names)), f"{title} has a variable twice")
        for variable in container["env"]:
            plain = SECRET.search(variable["name"]) and "value" in variable
            expect(not plain, f"{title}: {variable['name']} is no reference to a Secret")


def check_deployment(title, values, object, pod):
    [container] = pod["containers"]
    expect(container["args"] == [title.removeprefix("media-")], f"{title} runs {container['args']}")
    ports = {port["name"] for port in container["ports"]}
    probes = {"livenessProbe": "/healthz", "readinessProbe": "/readyz", "startupProbe": "/healthz"}
    for probe, path in probes.items():
        get = container[probe]["httpGet"]
        expect(get == {"path": path, "port": "metrics"} and "metrics" in ports, f"{title}: {probe} asks {get}")
    longest = values["drainSeconds"] + values["graceSeconds"] + 10
    expect(
        pod["terminationGracePeriodSeconds"] == longest,
        f"{title} is killed after {pod['terminationGracePeriodSeconds']} s",
    )
    # A draining pod must fail its readiness probe in time, while it still accepts requests.
    readiness = container["readinessProbe"]
    noticed = readiness["periodSeconds"] * readiness["failureThreshold"]
    expect(noticed <= values["drainSeconds"], f"{title}: it takes {noticed} s to see that it drains")
    expect(readiness["timeoutSeconds"] > READINESS_SECONDS, f"{title}: its readiness probe gives up too soon")
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    expect(mounts.keys() == volumes.keys(), f"{title} mounts {mounts}")
    claim = values["media"]["claim"]
    stores = [variable["value"] for variable in container["env"] if variable["name"] == "MEDIAGATE_MEDIA_STORE"]
    expect(stores == ([] if claim else [values["media"]["store"]]), f"{title} keeps media in {stores}")
    expect(("media" in volumes) == bool(claim), f"{title} has a volume for media it does not use, or none")
    expect(volumes["spool"]["emptyDir"]["sizeLimit"] and mounts["spool"] == "/data", f"{title} has no spool")
    metrics = re.findall(r"^\s*- \{ name: (\w+)", (CHART / "values.yaml").read_text(), re.M)
    known = (ROOT / "docs/operations.md").read_text()
    expect(metrics and all(f"`{metric}`" in known for metric in metrics), f"values.yaml scales by {metrics}")


# --- The rest -----------------------------------------------------------------


def check_compose(_work):
    path = DEPLOY / "compose.yaml"
    checker = pathlib.Path(sys.executable).parent / "check-jsonschema"
    run(checker, "--builtin-schema", "vendor.compose-spec", path)
    compose = read(path)
    services = compose["services"]
    expect(services["gateway"]["deploy"]["replicas"] == 2, "compose.yaml has not two gateways")
    for name, service in services.items():
        image = service["image"]
        expect(re.search(r":[\w.-]*\d|:local$", image), f"compose.yaml: {name} runs any version of {image}")
        for variable, value in service.get("environment", {}).items():
            secret = SECRET.search(variable) and not re.search(r"\$\{\w+:\?", str(value))
            expect(not secret, f"compose.yaml: {name} has {variable} written out")
        for other in service.get("depends_on", []):
            expect(other in services, f"compose.yaml: {name} waits for {other}, which is not there")
        for mounted in [volume.split(":")[0] for volume in service.get("volumes", [])]:
            there = (DEPLOY / mounted).is_file() if mounted.startswith("./") else mounted in compose["volumes"]
            expect(there, f"compose.yaml: {name} mounts {mounted}, which is not there")
        for port in service.get("ports", []):
            expect("127.0.0.1" in port, f"compose.yaml: {name} is open to everybody at {port}")
    for name in ["gateway", "worker"]:
        service = services[name]
        kept = service["read_only"] and service["cap_drop"] == ["ALL"] and service["deploy"]["resources"]["limits"]
        expect(kept, f"compose.yaml: {name} may do too much")
    settings = tomllib.loads((DEPLOY / "compose.toml").read_text())
    [network] = compose["networks"]["inside"]["ipam"]["config"]
    address = services["proxy"]["networks"]["inside"]["ipv4_address"]
    expect(settings["trusted_proxies"] == [f"{address}/32"], "compose.toml trusts others than the proxy")
    # Otherwise another container, or the engine itself, could get the trusted address.
    own, given = ipaddress.ip_address(address), ipaddress.ip_network(network["ip_range"])
    expect(own in ipaddress.ip_network(network["subnet"]), f"compose.yaml: {address} is not in its network")
    expect(own not in given and address != network["gateway"], f"compose.yaml: {address} may be another's")
    proxy = (DEPLOY / "proxy/haproxy.cfg").read_text()
    expect("server-template gateway 10 gateway:8080" in proxy, "haproxy.cfg does not know compose's gateways")
    patience = re.search(r"^ *timeout check (\d+)s$", proxy, re.M)
    expect(patience and int(patience[1]) > READINESS_SECONDS, "haproxy.cfg gives up too soon on /readyz")


def check_units(work):
    analyze = program("systemd-analyze")
    filters = {
        re.search(r"^SystemCallFilter=.*$", unit.read_text(), re.M)[0]
        for unit in (DEPLOY / "systemd").glob("*.service")
    }
    expect(len(filters) == 1, f"the tests run under one of these filters: {filters}")
    for unit in sorted((DEPLOY / "systemd").glob("*.service")):
        text = unit.read_text()
        stop = int(re.search(r"^TimeoutStopSec=(\d+)$", text, re.M)[1])
        expect(stop >= 30 + 10, f"{unit.name} is killed after {stop} s")
        if analyze:
            # The program need not be installed here.
            trial = work / unit.name
            trial.write_text(text.replace("/usr/bin/mediagate", "/bin/true"))
            said = run(analyze, "verify", "--man=no", trial)
            expect(not said, f"{unit.name}: {said}")
            run(analyze, "security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE}", trial)


def check_container(_work):
    text = (DEPLOY / "Containerfile").read_text()
    steps = [line.split() for line in re.sub(r"\\\n", " ", text).splitlines() if line and line[0] not in "# "]
    said = {}
    for step in steps:
        said.setdefault(step[0], []).append(step[1:])
    expect(len(said["FROM"]) == 2 and all(":" in stage[0] for stage in said["FROM"]), "Containerfile: two stages")
    expect(said["USER"] == [["65532:65532"]], "Containerfile: the user is not 65532")
    expect(said["ENTRYPOINT"] == [['["/usr/bin/mediagate"]']], "Containerfile: the entry point needs a shell")
    expect("ADD" not in said, "Containerfile fetches with ADD")
    for words in said["RUN"]:
        line = " ".join(words)
        fetches = re.search(r"\b(curl|wget|pip|npm|git)\b", line)
        expect(not fetches, f"Containerfile fetches with {fetches and fetches[0]}")
        expect("cargo" not in line or "--locked" in line, "Containerfile builds with other versions")
    oldest = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
    used = re.match(r"rust:([\d.]+)-", said["FROM"][0][0])[1]

    def number(version):
        return tuple(map(int, version.split(".")))

    expect(number(used) >= number(oldest), f"Containerfile builds with Rust {used}, older than {oldest}")


def check_alerts(work):
    promtool = program("promtool")
    if not promtool:
        return
    run(promtool, "check", "rules", DEPLOY / "alerts.yaml")
    run(promtool, "test", "rules", DEPLOY / "tests/alerts_test.yaml")
    # The board's queries are read as rules; their variables get values.
    rules = []
    for board in (DEPLOY / "grafana").glob("*.json"):
        panels = json.loads(board.read_text())["panels"]
        numbers = [panel["id"] for panel in panels]
        expect(len(numbers) == len(set(numbers)), f"{board.name} has two panels of one number")
        for target in [target for panel in panels for target in panel.get("targets", [])]:
            query = re.sub(r"\$__(rate_interval|range)", "5m", target["expr"])
            rules.append({"record": f"panel:query{len(rules)}", "expr": re.sub(r"\$\w+", ".*", query)})
    path = work / "board.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]}))
    run(promtool, "check", "rules", path)


def check_proxies(work):
    """Each proxy reads its settings, and lets no caller forge where a request comes from."""
    run(
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=media.example.com",
        "-keyout",
        work / "key.pem",
        "-out",
        work / "certificate.pem",
    )
    with forgeries.server() as (gateway, arrived):
        for name, settings in [("haproxy", haproxy_trial), ("caddy", caddy_trial), ("nginx", nginx_trial)]:
            if found := program(name):
                port = forgeries.free_port()
                checks, command, encrypted = settings(found, work, port, gateway)
                for check in checks:
                    run(*check, env={**os.environ, "HOME": str(work)})
                for fault in forgeries.found(command, port, encrypted, arrived, env={**os.environ, "HOME": str(work)}):
                    faults.append(f"{name}: {fault}")


def replaced(text, pattern, other):
    """The text with every match of a pattern replaced, of which there must be one at least."""
    changed, count = re.subn(pattern, other, text, flags=re.M)
    expect(count, f"the settings of a proxy have no {pattern}")
    return changed


def haproxy_trial(haproxy, work, port, gateway):
    path = DEPLOY / "proxy/haproxy.cfg"
    text = replaced(path.read_text(), r"bind :8080$", f"bind 127.0.0.1:{port}")
    text = replaced(text, r"server-template .*$", f"server gateway 127.0.0.1:{gateway}")
    # docker's name server, which is not here.
    text = replaced(text, r"^resolvers .*\n(    .*\n)+", "")
    # A build machine may allow a process few open files.
    text = replaced(text, r"maxconn 8000$", "maxconn 100")
    trial = work / "haproxy.cfg"
    trial.write_text(text)
    return [[haproxy, "-q", "-c", "-f", path]], [haproxy, "-q", "-db", "-f", trial], False


def caddy_trial(caddy, work, port, gateway):
    path = DEPLOY / "proxy/Caddyfile"
    certificate = f"tls {work}/certificate.pem {work}/key.pem"
    text = replaced(
        path.read_text(), r"^media\.example\.com \{$", f"https://media.example.com:{port} {{\n\t{certificate}"
    )
    text = replaced(text, r"reverse_proxy 127\.0\.0\.1:8080 ", f"reverse_proxy 127.0.0.1:{gateway} ")
    trial = work / "Caddyfile"
    # No redirects from port 80, and no port for its administration.
    trial.write_text("{\n\tadmin off\n\tauto_https disable_redirects\n}\n" + text)
    as_file = ["--adapter", "caddyfile", "--config"]
    return [[caddy, "adapt", "--validate", *as_file, path]], [caddy, "run", *as_file, trial], True


def nginx_trial(nginx, work, port, gateway):
    text = (DEPLOY / "proxy/nginx.conf").read_text()
    text = replaced(text, r"/etc/letsencrypt/\S+/fullchain.pem", str(work / "certificate.pem"))
    text = replaced(text, r"/etc/letsencrypt/\S+/privkey.pem", str(work / "key.pem"))
    text = replaced(text, r"/var/log/nginx", str(work))
    text = replaced(text, r"server 127\.0\.0\.1:8080 ", f"server 127.0.0.1:{gateway} ")
    # Only root may open ports below 1024.
    ports = {"80": forgeries.free_port(), "443": port}
    text = replaced(text, r"(listen (?:\[::\]:)?)(80|443)\b", lambda found: f"{found[1]}{ports[found[2]]}")
    trial = work / "nginx.conf"
    # An nginx that was only unpacked from its package has no folders of its own.
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    folders = "".join(f"{kind}_temp_path {work}/{kind};\n" for kind in kinds)
    trial.write_text(
        f"daemon off;\npid {work}/nginx.pid;\nerror_log {work}/error.log;\nevents {{}}\n"
        f"http {{\naccess_log {work}/access.log;\n{folders}{text}}}\n"
    )
    command = [nginx, "-p", work, "-c", trial]
    return [[*command, "-t", "-q"]], command, True


def check_trust(_work):
    """Who may say where a request comes from is one address, never a network with others in it."""
    paths = [path for path in [*DEPLOY.rglob("*"), *(ROOT / "docs").glob("*.md")] if path.is_file()]
    trusting = 0
    for path in paths:
        if path.suffix in {".md", ".toml", ".yaml", ".conf", ".cfg", ""}:
            for trusted in re.findall(r"^[\s#]*trusted_proxies\s*=\s*(\[.*?\])", path.read_text(), re.M):
                trusting += 1
                for network in tomllib.loads(f"all = {trusted}")["all"]:
                    expect(ipaddress.ip_network(network).num_addresses == 1, f"{path.name} trusts all of {network}")
    expect(trusting >= 5, f"only {trusting} files set trusted_proxies")


def main():
    for check in [
        check_chart,
        check_compose,
        check_units,
        check_container,
        check_alerts,
        check_proxies,
        check_trust,
    ]:
        before = len(faults)
        with tempfile.TemporaryDirectory() as work:
            check(pathlib.Path(work))
        print(f"{check.__name__.removeprefix('check_')}: {'wrong' if len(faults) > before else 'right'}")
    for name in unchecked:
        print(f"NOT CHECKED: what {name} reads, as it is not installed")
    for fault in faults:
        print(f"\n{fault}", file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
