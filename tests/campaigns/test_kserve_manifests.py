# SPDX-License-Identifier: Apache-2.0
"""deploy/kserve.yaml has only fields that KServe's own Python package knows, and containers that Kubernetes takes."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import zipfile

import kubernetes_validate
import pytest
import yaml

import wire

VERSION = "0.21.0"
DOCUMENTS = list(yaml.safe_load_all((wire.REPOSITORY / "deploy/kserve.yaml").read_text()))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """{class: {JSON key: type}} of the package's generated models, read as text: it asks for a hundred others."""
    folder = tmp_path_factory.mktemp("kserve")
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, f"kserve=={VERSION}"],
                   check=True, timeout=300)
    known = {}
    with zipfile.ZipFile(next(pathlib.Path(folder).glob("*.whl"))) as wheel:
        for name in wheel.namelist():
            if not re.fullmatch(r"kserve/models/v1\w+\.py", name):
                continue
            text = wheel.read(name).decode()
            types, keys = (dict(re.findall(r"'(\w+)': '([^']+)'", re.search(rf"{what} = {{(.*?)}}", text, re.S)[1]))
                           for what in ("openapi_types", "attribute_map"))
            known[re.search(r"class (\w+)", text)[1]] = {key: types[name] for name, key in keys.items()}
    return known


def unknown(models, value, kind, path):
    """Paths of fields that no model has; what is Kubernetes' own is left to test_containers."""
    inner = re.fullmatch(r"list\[(\w+)\]", kind)
    if inner:
        return [p for k, each in enumerate(value) for p in unknown(models, each, inner[1], f"{path}[{k}]")]
    if kind not in models:
        return []
    fields = models[kind]
    return [p for key, each in value.items()
            for p in (unknown(models, each, fields[key], f"{path}.{key}") if key in fields else [f"{path}.{key}"])]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document["kind"])
def test_kserve_knows_every_field(models, document):
    group, version = document["apiVersion"].split("/")
    assert group == "serving.kserve.io"
    kind = version.capitalize() + document["kind"]
    assert kind in models
    assert unknown(models, document, kind, "") == []
    assert unknown(models, {"spec": {"predicter": {}}}, kind, "") == [".spec.predicter"]


def test_containers():
    runtime = DOCUMENTS[0]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": runtime["spec"]["containers"]}}
    kubernetes_validate.validate(pod, kubernetes_validate.latest_version(), strict=True)


def test_the_service_asks_for_the_runtime():
    runtime, service = DOCUMENTS
    model = service["spec"]["predictor"]["model"]
    assert model["runtime"] == runtime["metadata"]["name"]
    assert model["protocolVersion"] in runtime["spec"]["protocolVersions"]
    assert model["modelFormat"]["name"] in [each["name"] for each in runtime["spec"]["supportedModelFormats"]]
