"""prometheus_client's parser reads /metrics, as text."""
import urllib.request

from common import *
from prometheus_client.parser import text_string_to_metric_families


def metrics():
    with urllib.request.urlopen(ROOT + "/metrics") as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    names = {f.name for f in families}
    need("vllm:num_requests_running" in names, names)
    need(all(f.type != "unknown" and f.documentation for f in families), [f.name for f in families if f.type == "unknown"])
    for f in families:
        if f.type == "histogram":
            rising = {}
            for s in f.samples:
                if s.name.endswith("_bucket"):
                    need(s.value >= rising.get("last", 0), s)
                    rising["last"] = s.value


main(metrics=metrics)
