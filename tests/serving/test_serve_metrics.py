"""Counts in the words of Prometheus: buckets are cumulative, every family has its type."""

from electralab.serving.metrics import Histogram, Metrics


def test_a_histogram_counts_up_to_each_bound() -> None:
    histogram = Histogram((1, 2))
    for value in (0.5, 1, 1.5, 7):
        histogram.add(value)
    assert list(histogram.lines("h", (("path", "/"),))) == [
        'h_bucket{path="/",le="1"} 2',
        'h_bucket{path="/",le="2"} 3',
        'h_bucket{path="/",le="+Inf"} 4',
        'h_sum{path="/"} 10.0',
        'h_count{path="/"} 4',
    ]


def test_everything_that_happened_is_in_the_text() -> None:
    metrics = Metrics()
    metrics.count_request("/v1/detect", 200, 0.004)
    metrics.count_request("/v1/detect", 200, 0.004)
    metrics.count_request("/v1/detect", 429, 0.0001)
    metrics.count_refusal("busy")
    metrics.count_batch("detect", 2)
    lines = metrics.render({"electralab_queue_texts": ("Texts that wait.", 3)}).splitlines()
    for line in (
        'electralab_requests_total{path="/v1/detect",status="200"} 2',
        'electralab_requests_total{path="/v1/detect",status="429"} 1',
        'electralab_request_seconds_bucket{path="/v1/detect",le="0.0025"} 1',
        'electralab_request_seconds_bucket{path="/v1/detect",le="0.005"} 3',
        'electralab_batch_texts_bucket{ability="detect",le="2"} 1',
        'electralab_refused_total{code="busy"} 1',
        "# TYPE electralab_queue_texts gauge",
        "electralab_queue_texts 3",
    ):
        assert line in lines
    assert metrics.sum_statuses() == {"200": 2, "429": 1}
    names = {line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")}
    families = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name in names} == families
