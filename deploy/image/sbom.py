#!/usr/bin/env python3
"""Writes the bill of materials of a root file system, in SPDX 2.3's JSON, from Debian's own packages.

  sbom.py ROOTFS DEBS OUT VERSION SECONDS

DEBS is a folder of the .deb files that the tree was extracted from. Every regular file of ROOTFS must be
one of theirs, or one of the project's own places; another ends this with 70 and its name. SECONDS since
1970 is the time in the document, so that two builds write the same bytes.
"""
import datetime
import hashlib
import json
import pathlib
import subprocess
import sys

OWN = ("usr/bin/soapstone", "usr/share/soapstone/", "etc/passwd", "etc/group", "etc/nsswitch.conf")


def owners(debs):
    """(package, version, source) by the SHA-256 of each file that a package brings."""
    by_digest = {}
    for deb in sorted(debs.glob("*.deb")):
        fields = subprocess.run(["dpkg-deb", "-W", "--showformat", "${Package}\t${Version}\t${source:Package}", deb],
                                capture_output=True, text=True, check=True).stdout.split("\t")
        tree = debs / (deb.stem + ".tree")
        subprocess.run(["dpkg-deb", "-x", deb, tree], check=True)
        for path in tree.rglob("*"):
            if path.is_file() and not path.is_symlink():
                by_digest.setdefault(digest(path), tuple(fields))
    return by_digest


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def document(rootfs, by_digest, version, seconds):
    files, packages, relations = [], {}, []
    for path in sorted(p for p in rootfs.rglob("*") if p.is_file() and not p.is_symlink()):
        name = str(path.relative_to(rootfs))
        if name == "usr/share/soapstone/sbom.spdx.json":
            continue
        own = name.startswith(OWN)
        owner = ("soapstone", version, "soapstone") if own else by_digest.get(digest(path))
        if owner is None:
            raise LookupError(f"{name} is of no package, and none of ours")
        package = f"SPDXRef-Package-{owner[0]}".replace("+", "-plus").replace("_", "-")
        packages[package] = {
            "SPDXID": package, "name": owner[0], "versionInfo": owner[1], "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False, "supplier": "NOASSERTION" if own else "Organization: Debian",
            "sourceInfo": owner[2], "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION",
            "copyrightText": "NOASSERTION"}
        if not own:
            packages[package]["externalRefs"] = [{
                "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                "referenceLocator": f"pkg:deb/debian/{owner[0]}@{owner[1]}?distro=bookworm"}]
        identifier = f"SPDXRef-File-{len(files)}"
        files.append({"SPDXID": identifier, "fileName": "./" + name, "licenseConcluded": "NOASSERTION",
                      "copyrightText": "NOASSERTION",
                      "checksums": [{"algorithm": "SHA1", "checksumValue": hashlib.sha1(path.read_bytes()).hexdigest()},
                                    {"algorithm": "SHA256", "checksumValue": digest(path)}]})
        relations.append({"spdxElementId": package, "relationshipType": "CONTAINS", "relatedSpdxElement": identifier})
    described = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": p}
                 for p in sorted(packages)]
    created = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
            "name": f"soapstone-{version}", "documentNamespace": f"urn:soapstone:image:{version}",
            "creationInfo": {"created": created, "creators": ["Tool: deploy/image/sbom.py"]},
            "packages": [packages[p] for p in sorted(packages)], "files": files,
            "relationships": described + relations}


def main():
    if len(sys.argv) != 6:
        print(__doc__, file=sys.stderr)
        return 78
    rootfs, debs, out = map(pathlib.Path, sys.argv[1:4])
    try:
        text = json.dumps(document(rootfs, owners(debs), sys.argv[4], int(sys.argv[5])), indent=1)
    except LookupError as odd:
        print(f"sbom: {odd}", file=sys.stderr)
        return 70
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
