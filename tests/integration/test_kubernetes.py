# SPDX-License-Identifier: Apache-2.0
"""deploy/kubernetes: what each overlay makes is known to Kubernetes, fits together, and says of alerts what
deploy/prometheus says. `python test_kubernetes.py` writes the PrometheusRule anew."""

from __future__ import annotations

import copy
import re
import shutil
import subprocess

import kubernetes_validate
import pytest
import yaml

import wire
from small_kustomize import render
from test_deploy import DEPLOY, seconds

KIT = DEPLOY / "kubernetes"
OVERLAYS = ["single", "replicas", "gpu"]
FOLDERS = ["base", *(f"overlays/{name}" for name in OVERLAYS)]
INSTEAD = ["keda", "models-from-bucket", "models-from-image"]  # components that no overlay names
CUSTOM = {"PodMonitor", "PrometheusRule", "ScaledObject"}  # no part of Kubernetes' own schema
RUNBOOKS = "https://github.com/rnnserve/rnnserve/blob/main/docs/"


def prometheus_rule() -> str:
    """alerts.yml as the operator's object, with absolute links."""
    groups = (DEPLOY / "prometheus/alerts.yml").read_text().partition("groups:\n")[2]
    groups = groups.replace("runbook: docs/", f"runbook_url: {RUNBOOKS}")
    return ("# SPDX-License-Identifier: Apache-2.0\n"
            "# ../../prometheus/alerts.yml as the operator takes it: python tests/integration/test_kubernetes.py writes this file.\n"
            "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: rnnserve\n"
            "  labels: {app: rnnserve}\nspec:\n  groups:\n" + re.sub("^(?=.)", "  ", groups, flags=re.MULTILINE))


def _with_component(tmp_path, component):
    """The folder of an overlay that takes the component, beside a copy of what it needs."""
    shutil.copytree(DEPLOY, tmp_path / "deploy", symlinks=True)
    folder = tmp_path / "deploy/kubernetes/overlays/other"
    folder.mkdir()
    (folder / "kustomization.yaml").write_text(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [../../base]\n"
        f"components: [../../{component}]\n")
    return folder


def _one(documents, kind, name="rnnserve"):
    return next(each for each in documents if (each["kind"], each["metadata"]["name"]) == (kind, name))


def _pod(documents):
    return _one(documents, "Deployment")["spec"]["template"]["spec"]


def _check_fields(documents, versions=("1.25", "1.29", "1.33", "")):
    for version in versions:
        for document in documents:
            if document["kind"] not in CUSTOM:
                kubernetes_validate.validate(document, version or kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("folder", FOLDERS)
def test_kubernetes_knows_every_field(folder):
    documents = render(KIT / folder)
    _check_fields(documents)
    wrong = copy.deepcopy(_one(documents, "Deployment"))
    wrong["spec"]["template"]["spec"]["containers"][0]["readinessprobe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="readinessprobe"):
        _check_fields([wrong])


@pytest.mark.parametrize("component", INSTEAD)
def test_components_that_are_chosen_by_hand(tmp_path, component):
    documents = render(_with_component(tmp_path, component))
    _check_fields(documents, ["1.33", ""] if component == "models-from-image" else ["1.25", ""])
    pod = _pod(documents)
    assert pod["volumes"][0]["name"] == "models"
    assert component == "keda" or "persistentVolumeClaim" not in pod["volumes"][0]


def test_each_folder_is_used():
    named = {path.parent.name for path in KIT.glob("*/kustomization.yaml")}
    overlays = {path.parent.name for path in (KIT / "overlays").glob("*/kustomization.yaml")}
    assert overlays == set(OVERLAYS)
    assert named == {"base", "monitoring", "hpa", *INSTEAD}
    for file in KIT.rglob("*.yaml"):
        text = file.read_text()
        if file.name not in ("kustomization.yaml", "adapter-rules.yaml"):
            assert file.name in (file.parent / "kustomization.yaml").read_text(), file
        assert text.startswith("# SPDX-License-Identifier: Apache-2.0\n"), file


@pytest.mark.skipif(not shutil.which("kubectl"), reason="no kubectl, whose kustomize small_kustomize.py is compared with")
@pytest.mark.parametrize("folder", [*FOLDERS, *INSTEAD])
def test_kubectl_makes_the_same(tmp_path, folder):
    path = _with_component(tmp_path, folder) if folder in INSTEAD else KIT / folder
    done = subprocess.run(["kubectl", "kustomize", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    def by_name(documents):
        return {(each["kind"], each["metadata"]["name"]): each for each in documents}

    assert by_name(yaml.safe_load_all(done.stdout)) == by_name(render(path))


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_parts_fit(folder):
    documents = render(KIT / folder)
    deployment, pod = _one(documents, "Deployment"), _pod(documents)
    policy = _one(documents, "NetworkPolicy")["spec"]
    budget = _one(documents, "PodDisruptionBudget")["spec"]
    headless, cluster = _one(documents, "Service", "rnnserve-headless")["spec"], _one(documents, "Service")["spec"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    for selector in (headless["selector"], cluster["selector"], deployment["spec"]["selector"]["matchLabels"],
                     budget["selector"]["matchLabels"], policy["podSelector"]["matchLabels"]):
        assert selector and selector.items() <= labels.items()
    assert budget["maxUnavailable"] == 1
    assert headless["clusterIP"] == "None" and "clusterIP" not in cluster
    assert pod["serviceAccountName"] == _one(documents, "ServiceAccount")["metadata"]["name"]
    server = pod["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in server["ports"]}
    assert {port["targetPort"] for port in headless["ports"]} == set(ports)
    assert {port["targetPort"] for port in cluster["ports"]} == {"grpc"}
    assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} == set(ports)
    assert all("from" in rule for rule in policy["ingress"] if {"port": "admin"} in rule["ports"]), "it asks for no token"
    assert f"--listen=0.0.0.0:{ports['grpc']}" in server["args"]
    assert f"--admin_listen=0.0.0.0:{ports['admin']}" in server["args"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        page = server[probe]["httpGet"]
        assert page["port"] == "admin" and page["path"] in ("/healthz", "/readyz")
    assert f"--workers={server['resources']['requests']['cpu']}" in server["args"]
    assert {mount["name"] for mount in server["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert server["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                         "capabilities": {"drop": ["ALL"]}}
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 65532
    assert pod["terminationGracePeriodSeconds"] >= seconds(server["args"], "drain_delay") + seconds(server["args"],
                                                                                                    "drain_timeout")


def test_files_of_the_store_are_mounted():
    documents = render(KIT / "overlays/replicas")
    server = _pod(documents)["containers"][0]
    files = re.findall(r"(?:password_file|session_secret_file)=(\S+)", " ".join(server["args"]))
    mounts = {mount["mountPath"] for mount in server["volumeMounts"]}
    assert len(files) == 2 and {file.rpartition("/")[0] for file in files} <= mounts
    told = (KIT / "overlays/replicas/kustomization.yaml").read_text()
    for volume in _pod(documents)["volumes"]:
        if "secret" in volume:
            assert f"secret generic {volume['secret']['secretName']} " in told, "the comment says how to make it"
    for file in files:
        assert f"--from-literal={file.rpartition('/')[2]}=" in told


def test_monitoring_names_what_is_there():
    documents = render(KIT / "overlays/replicas")
    template = _one(documents, "Deployment")["spec"]["template"]
    monitor = _one(documents, "PodMonitor")["spec"]
    assert monitor["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert template["metadata"]["labels"][monitor["jobLabel"]] == "rnnserve", "the job that the alerts name"
    assert monitor["podMetricsEndpoints"][0]["port"] in [port["name"] for port in
                                                         template["spec"]["containers"][0]["ports"]]
    assert _one(documents, "ConfigMap", "rnnserve-dashboard")["data"]["dashboard.json"]


def test_autoscalers_ask_for_the_same(tmp_path):
    hpa = yaml.safe_load((KIT / "hpa/hpa.yaml").read_text())["spec"]
    keda = yaml.safe_load((KIT / "keda/scaledobject.yaml").read_text())["spec"]
    adapter = yaml.safe_load((KIT / "hpa/adapter-rules.yaml").read_text())["rules"]["custom"]
    assert [rule["name"]["as"] for rule in adapter] == [metric["pods"]["metric"]["name"] for metric in hpa["metrics"]]
    assert (hpa["minReplicas"], hpa["maxReplicas"]) == (keda["minReplicaCount"], keda["maxReplicaCount"])
    wait, sessions = (metric["pods"]["target"]["averageValue"] for metric in hpa["metrics"])
    assert [trigger["metadata"]["threshold"] for trigger in keda["triggers"]] == ["0.02", sessions] and wait == "20m"
    queries = [trigger["metadata"]["query"] for trigger in keda["triggers"]] + [
        rule["metricsQuery"].replace("<<.GroupBy>>", "pod").replace("<<.LabelMatchers>>", 'pod="a"') for rule in adapter]
    rules = [{"record": f"query:{k}", "expr": query} for k, query in enumerate(queries)]
    _check_rules(tmp_path, {"groups": [{"name": "queries", "rules": rules}]})
    docs = (wire.REPOSITORY / "docs/operations.md").read_text()
    for metric in re.findall(r"rnnserve_\w+", " ".join(queries)):
        assert f"`{metric.removesuffix('_bucket')}`" in docs, metric


def _check_rules(folder, rules):
    (folder / "rules.yml").write_text(yaml.safe_dump(rules))
    done = subprocess.run(["promtool", "check", "rules", folder / "rules.yml"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_prometheus_rule_is_alerts_yml(tmp_path):
    text = (KIT / "monitoring/prometheusrule.yaml").read_text()
    assert text == prometheus_rule(), "python tests/integration/test_kubernetes.py writes it anew"
    rule = yaml.safe_load(text)
    _check_rules(tmp_path, rule["spec"])
    headings = re.findall(r"^### (\w+)$", (wire.REPOSITORY / "docs/operations.md").read_text(), re.MULTILINE)
    anchors = {f"{RUNBOOKS}operations.md#{heading.lower()}" for heading in headings}
    links = [each["annotations"]["runbook_url"] for each in rule["spec"]["groups"][0]["rules"]]
    assert links and set(links) <= anchors


if __name__ == "__main__":
    (KIT / "monitoring/prometheusrule.yaml").write_text(prometheus_rule())
