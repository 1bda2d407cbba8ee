# SPDX-License-Identifier: Apache-2.0
"""As much of kustomize as deploy/kubernetes uses: Debian 12 has none. Every field of a kustomization.yaml that is not known
here, every file and patch target that is not there is an error."""

from __future__ import annotations

import pathlib

import yaml


def render(folder: pathlib.Path) -> list[dict]:
    """What `kubectl kustomize folder` prints."""
    return _apply(folder, [])


def _apply(folder, documents) -> list[dict]:
    """`documents`, and what the kustomization in `folder` adds to them and changes."""
    said = yaml.safe_load((folder / "kustomization.yaml").read_text())
    del said["apiVersion"], said["kind"]
    for resource in said.pop("resources", []):
        path = folder / resource
        documents += render(path) if path.is_dir() else yaml.safe_load_all(path.read_text())
    for component in said.pop("components", []):
        _apply(folder / component, documents)
    for generator in said.pop("configMapGenerator", []):
        documents.append(_config_map(folder, **generator))
    for patch in said.pop("patches", []):
        kind, name = patch["target"]["kind"], patch["target"]["name"]
        for operation in yaml.safe_load((folder / patch["path"]).read_text()):
            _patch(_the(documents, kind, name), **operation)
    for replicas in said.pop("replicas", []):
        _the(documents, "Deployment", replicas["name"])["spec"]["replicas"] = replicas["count"]
    for image in said.pop("images", []):
        _rename_image(documents, image["name"], image["newName"])
    assert not said, f"{folder}: small_kustomize does not know {set(said)}"
    return documents


def _the(documents, kind, name) -> dict:
    found = [each for each in documents if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    assert len(found) == 1, f"{len(found)} of {kind} {name}"
    return found[0]


def _config_map(folder, name, files, options) -> dict:
    assert options["disableNameSuffixHash"]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": options["labels"]},
            "data": {file: (folder / file).read_text() for file in files}}


def _patch(document, op, path, value=None):
    """One operation of RFC 6902."""
    *way, last = [part.replace("~1", "/").replace("~0", "~") for part in path.lstrip("/").split("/")]
    at = document
    for part in way:
        at = at[int(part)] if isinstance(at, list) else at[part]
    if isinstance(at, list) and last == "-" and op == "add":
        at.append(value)
        return
    key = int(last) if isinstance(at, list) else last
    if op in ("replace", "remove"):
        at[key]  # has to be there
    else:
        assert op == "add" and isinstance(at, dict) and key not in at, path
    if op == "remove":
        del at[key]
    else:
        at[key] = value


def _rename_image(documents, name, new_name):
    containers = [container for each in documents if each["kind"] == "Deployment"
                  for container in each["spec"]["template"]["spec"]["containers"]
                  if container["image"].split(":")[0] == name]
    assert containers, f"no image {name}"
    for container in containers:
        container["image"] = container["image"].replace(name, new_name, 1)
