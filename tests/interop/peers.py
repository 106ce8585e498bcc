"""The other implementations that containers are held against, loaded from where run.sh (or
`python peers.py fetch FOLDER`) has put them.

compressed-tensors is installed as it is. AutoAWQ, AutoGPTQ and GPTQModel want a GPU or another
torch when they are installed; only their layers' packing and unpacking is of interest here, so
their distributions are unpacked and those modules imported by themselves, with empty packages
around them.
"""
import contextlib
import functools
import importlib
import importlib.util
import os
import subprocess
import sys
import tarfile
import types
import zipfile

DISTRIBUTIONS = {
    "autoawq": "autoawq==0.2.9",
    "autogptq": "auto-gptq==0.7.1",
    "gptqmodel": "gptqmodel==7.7.0",
    "ct_older": "compressed-tensors==0.17.1",
}
# What the modules import on the way; small and pure Python, except pypcre.
SUPPORT = ["accelerate", "pypcre", "logbar", "device-smi", "threadpoolctl", "packaging", "psutil"]


def root():
    return os.environ.get("PEERS", os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                                "../../.interop/peers"))


def fetch(folder):
    """Downloads and unpacks the distributions into folder/<name>."""
    os.makedirs(folder, exist_ok=True)
    for name, what in DISTRIBUTIONS.items():
        place = os.path.join(folder, name)
        if os.path.exists(place):
            continue
        files = place + ".download"
        os.makedirs(files, exist_ok=True)
        env = dict(os.environ, BUILD_CUDA_EXT="0")
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", files, what],
                       check=True, env=env)
        for file in os.listdir(files):
            path = os.path.join(files, file)
            if file.endswith((".whl", ".zip")):
                zipfile.ZipFile(path).extractall(place + ".new")
            elif file.endswith(".tar.gz"):
                tarfile.open(path).extractall(place + ".new", filter="data")
        inner = os.listdir(place + ".new")
        if len(inner) == 1:
            os.rename(os.path.join(place + ".new", inner[0]), place)
        else:
            os.rename(place + ".new", place)


def shells(folder, names):
    """Packages without content: their modules can be imported, their __init__ is not run."""
    for name in names:
        module = types.ModuleType(name)
        module.__path__ = [os.path.join(folder, *name.split("."))]
        sys.modules[name] = module


@functools.cache
def autoawq():
    """(gemm, gemv, packing_utils) of AutoAWQ."""
    shells(os.path.join(root(), "autoawq"), ["awq", "awq.modules", "awq.modules.linear", "awq.utils"])
    names = ["awq.modules.linear.gemm", "awq.modules.linear.gemv", "awq.utils.packing_utils"]
    return [importlib.import_module(name) for name in names]


@functools.cache
def autogptq():
    """The linear layer of AutoGPTQ that needs no GPU."""
    shells(os.path.join(root(), "autogptq"),
           ["auto_gptq", "auto_gptq.nn_modules", "auto_gptq.nn_modules.qlinear"])
    return importlib.import_module("auto_gptq.nn_modules.qlinear.qlinear_cuda").QuantLinear


@functools.cache
def gptqmodel():
    """(TorchLinear, its config module) of GPTQModel."""
    shells(os.path.join(root(), "gptqmodel"),
           ["gptqmodel", "gptqmodel.models", "gptqmodel.adapter", "gptqmodel.quantization"])
    sys.modules["gptqmodel"].DEBUG_ON = False
    with contextlib.redirect_stdout(sys.stderr):  # it greets there
        config = importlib.import_module("gptqmodel.quantization.config")
        package = sys.modules["gptqmodel.quantization"]
        for name in ("FORMAT", "METHOD", "QuantizeConfig"):
            setattr(package, name, getattr(config, name))
        return importlib.import_module("gptqmodel.nn_modules.qlinear.torch").TorchLinear, config


def ct_older():
    """pack_to_int32 and unpack_from_int32 before codes crossed words."""
    path = os.path.join(root(), "ct_older/compressed_tensors/compressors/pack_quantized/helpers.py")
    spec = importlib.util.spec_from_file_location("ct_older_helpers", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    if sys.argv[1:2] == ["fetch"]:
        fetch(sys.argv[2])
    elif sys.argv[1:2] == ["support"]:
        print(" ".join(SUPPORT))
